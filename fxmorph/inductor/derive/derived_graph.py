"""Graphs derived from pattern entries: text, inputs and settings, from which a worker builds the graph again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import torch
from torch import fx

from fxmorph.programs.graph import read_graph
from fxmorph.programs.inputs import dtype_name, relocate
from fxmorph.torchapi.factories import make_on
from fxmorph.torchapi.fake import annotate


@dataclass(frozen=True)
class InputSpec:
    """One tensor input.

    ``fill`` is how its values are chosen (:func:`fill`); ``constant`` marks a frozen parameter: in the
    graph it is an attribute (``get_attr``) and no placeholder.
    """

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    fill: str = "normal"
    constant: bool = False


@dataclass(frozen=True)
class Derived:
    """A graph made from a pattern entry.

    ``how`` says from what (``search function``, ``expression``, ``program``); ``change`` what was
    altered in the firing graph afterwards (a near miss, or values), empty for the graph itself;
    ``fires`` whether the entry alone changes it; ``runs`` whether eager PyTorch runs it (None where
    that was not tried); ``settings`` the Inductor settings under which the entry fires.
    """

    entry: str
    text: str
    inputs: tuple[InputSpec, ...]
    how: str
    settings: tuple[tuple[str, Any], ...] = ()
    change: str = ""
    fires: bool = True
    runs: bool | None = None

    def graph_module(self, device: str = "cpu") -> fx.GraphModule:
        """The graph with constants as attributes and fake results in ``meta`` (``val`` and ``example_value``)."""
        gm = fx.GraphModule({}, read_graph(self.text))
        make_on(device, gm.graph)
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        values = self._all_values(0, device)
        packed: dict[str, InputSpec] = {}
        for node, spec, value in zip(placeholders, self.inputs, values, strict=True):
            if not spec.constant:
                continue
            name = f"constant_{node.name}"
            gm.register_buffer(name, value)
            if spec.fill.startswith("packed-"):
                packed[name] = spec
            with gm.graph.inserting_before(node):
                attribute = gm.graph.get_attr(name)
            node.replace_all_uses_with(attribute)
            gm.graph.erase_node(node)
        gm.recompile()
        annotate(gm, self._inputs_of(values))
        for name, buffer in list(gm.named_buffers()):
            if name in packed:  # only now: fake tensors know no opaque layouts
                setattr(gm, name, _pack(packed[name].fill, buffer))
        return gm

    def values(self, seed: int = 0, device: str = "cpu") -> list[torch.Tensor]:
        """Real inputs for the placeholders of :meth:`graph_module`; equal seeds give equal values."""
        return self._inputs_of(self._all_values(seed, device))

    def _all_values(self, seed: int, device: str) -> list[torch.Tensor]:
        return [relocate(fill(spec, 1000 * seed + i), device) for i, spec in enumerate(self.inputs)]

    def _inputs_of(self, values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [v for v, spec in zip(values, self.inputs, strict=True) if not spec.constant]

    def to_json(self) -> str:
        """One line; :func:`from_json` reads it."""
        return json.dumps(asdict(self))


def from_json(line: str) -> Derived:
    """The record that :meth:`Derived.to_json` wrote."""
    data = json.loads(line)
    inputs = tuple(
        InputSpec(**{**spec, "shape": tuple(spec["shape"]), "stride": tuple(spec["stride"])}) for spec in data["inputs"]
    )
    settings = tuple((name, value) for name, value in data["settings"])
    return replace(Derived(**{**data, "inputs": (), "settings": ()}), inputs=inputs, settings=settings)


def fill(spec: InputSpec, seed: int) -> torch.Tensor:
    """A tensor of the spec's dtype, shape and strides.

    Fills: ``normal`` (integers: 0 to 3), ``positive`` (0.5 to 1.5), ``mask`` (0 or 1),
    ``masked-rows`` (a mask whose first half of rows is 0), ``mask-values`` (0, 1, 2, 3, or -1 for signed
    dtypes), ``special`` (normal, with signed zeros, Inf, NaN and the dtype's limits among them),
    ``zeros`` (both signs where there are two), ``small`` (normal, by a thousand smaller), ``halves`` (halfway between
    whole numbers), ``=V`` (V everywhere),
    ``packed-linear`` and ``packed-conv`` (normal; :meth:`Derived.graph_module` puts them into oneDNN's order).
    """
    dtype = getattr(torch, spec.dtype)
    generator = torch.Generator().manual_seed(seed)
    made = torch.empty_strided(spec.shape, spec.stride, dtype=dtype)
    if made.numel():
        made.copy_(_values(spec.fill, dtype, spec.shape, generator))
    return made


def _values(how: str, dtype: torch.dtype, shape: tuple[int, ...], g: torch.Generator) -> torch.Tensor:
    if dtype.is_complex:
        return torch.complex(_values(how, torch.float32, shape, g), _values(how, torch.float32, shape, g))
    floating = dtype.is_floating_point
    if how.startswith("="):
        return torch.full(shape, float(how[1:]) if floating else int(how[1:]))
    if how == "positive":
        return torch.rand(shape, generator=g) + 0.5 if floating else torch.randint(1, 4, shape, generator=g)
    if how in ("mask", "masked-rows"):
        mask = torch.randint(0, 2, shape, generator=g)
        if how == "masked-rows":
            mask.reshape(-1, shape[-1] if shape else 1)[: max(1, mask[..., :1].numel() // 2)] = 0
        return mask
    if how == "mask-values":
        table = torch.tensor([0, 1, 2, -1] if dtype not in (torch.bool, torch.uint8) else [0, 1, 2, 3])
        return table[torch.randint(4, shape, generator=g)]
    if how == "zeros":
        return torch.zeros(shape) * torch.where(torch.rand(shape, generator=g) < 0.5, -1.0, 1.0)
    if not floating:
        return torch.randint(0, 2 if dtype == torch.bool else 4, shape, generator=g)
    if how == "halves":
        return torch.randint(-6, 6, shape, generator=g) + 0.5
    normal = torch.randn(shape, generator=g)
    if how == "small":
        return normal * 1e-3
    if how == "special":
        info = torch.finfo(dtype)
        table = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), info.max, info.tiny])
        places = torch.randperm(normal.numel(), generator=g)[: max(1, round(0.3 * normal.numel()))]
        start = int(torch.randint(len(table), (1,), generator=g))
        normal.view(-1)[places] = table[(torch.arange(len(places)) + start) % len(table)]
    return normal


def _pack(how: str, weight: torch.Tensor) -> torch.Tensor:
    """An int8 weight as oneDNN's quantised operators take it: a plain one makes eager crash.

    Stride, padding and dilation are those of :data:`fxmorph.inductor.derive.leaves.SCALARS`.
    """
    if how == "packed-linear":
        return cast(torch.Tensor, torch.ops.onednn.qlinear_prepack(weight, None))
    scales = torch.ones(weight.shape[0])
    packed = torch.ops.onednn.qconv_prepack(weight, scales, 0.1, 3, [1, 1], [0, 0], [1, 1], 1, None)
    return cast(torch.Tensor, packed)


def spec_for(value: torch.Tensor, fill: str = "normal", constant: bool = False) -> InputSpec:
    """The spec of a (fake) tensor."""
    sizes, strides = tuple(int(s) for s in value.shape), tuple(int(s) for s in value.stride())
    return InputSpec(dtype_name(value.dtype), sizes, strides, fill, constant)
