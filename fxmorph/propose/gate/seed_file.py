"""Proposed seeds as programs: inputs of a spec, the body as an FX graph, both as a seed file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fxmorph.model import ValuePlan
from fxmorph.programs.canon import canonical
from fxmorph.programs.graph import calls, print_graph
from fxmorph.programs.harvest import inputs_source
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.source import LITERAL_NUMEL, inputs_text, seed_file_text
from fxmorph.propose.gate.seed_settings import allowed_settings
from fxmorph.propose.language.building import estimate
from fxmorph.propose.language.grammar import TooLarge
from fxmorph.propose.language.restricted import MAX_ELEMENTS, Body
from fxmorph.propose.proposal import InputSpec, Malformed, SeedProposal
from fxmorph.rewriting.tracing import Recorder, Traced

#: Calls of a seed's graph.
MAX_CALLS = 200


def make_inputs(seed: SeedProposal) -> list[torch.Tensor]:
    """The inputs that a seed asks for, drawn from torch's global generator; raises ``Malformed``, ``TooLarge``."""
    total = sum(_numel(i) for i in seed.inputs)
    if total > MAX_ELEMENTS:
        raise TooLarge(f"inputs of {total} elements; at most {MAX_ELEMENTS}")
    return [_input(i) for i in seed.inputs]


def _numel(spec: InputSpec) -> int:
    n = 1
    for size in spec.shape:
        n *= size
    return n


def _input(spec: InputSpec) -> torch.Tensor:
    dtype = getattr(torch, spec.dtype)
    t = _laid_out(_filled(spec, list(spec.shape), dtype), spec)
    if not spec.requires_grad:
        return t
    if not (dtype.is_floating_point or dtype.is_complex):
        raise Malformed(f"inputs: {spec.name} of {spec.dtype} cannot require grad")
    return t.detach().requires_grad_()


def _filled(spec: InputSpec, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    n = torch.Size(shape).numel()
    if spec.fill in ("zeros", "ones"):
        flat = torch.full((n,), float(spec.fill == "ones"))
    elif spec.fill == "arange":
        flat = torch.arange(n)
    elif spec.fill == "mask":
        flat = torch.rand(n) > 0.5
    elif spec.fill.startswith("integers"):
        low, high = map(int, spec.fill.split(":")[1:])
        if not -(2**63) <= low < high <= 2**63 - 1:
            raise Malformed(f"inputs: {spec.name}: {spec.fill}: want LOW below HIGH, both of 64 bits")
        flat = torch.randint(low, high, (n,))
    elif dtype == torch.bool:
        flat = torch.rand(n) > 0.5
    elif not (dtype.is_floating_point or dtype.is_complex):
        flat = torch.randint(0, 8, (n,))
    else:
        wide = dtype if dtype.is_complex else torch.float32
        flat = torch.randn(n, dtype=wide) if spec.fill == "normal" else torch.rand(n, dtype=wide)
    return flat.to(dtype).reshape(shape)


def _laid_out(t: torch.Tensor, spec: InputSpec) -> torch.Tensor:
    """The tensor with the strides that the spec asks for, of memory of its own."""
    least = {"transposed": 2, "channels_last": 4, "expanded": 1, "sliced": 1}.get(spec.layout, 0)
    if t.ndim < least or (spec.layout == "channels_last" and t.ndim != 4):
        raise Malformed(f"inputs: {spec.name}: layout {spec.layout} of {t.ndim} dimensions")
    if spec.layout == "transposed":
        return t.mT.contiguous().mT
    if spec.layout == "channels_last":
        return t.contiguous(memory_format=torch.channels_last)
    if spec.layout == "expanded":
        return t[:1].clone().expand(t.shape) if t.shape[0] else t
    if spec.layout == "sliced":
        return torch.stack([t, t], -1).reshape(*t.shape[:-1], 2 * t.shape[-1])[..., ::2]
    if spec.layout == "offset":
        flat = torch.cat([t.reshape(-1)[:1], t.reshape(-1)]) if t.numel() else t.reshape(-1)
        return flat[1:].view(t.shape) if t.numel() else t
    return t


def record(seed: SeedProposal, inputs: Sequence[torch.Tensor]) -> fx.Graph:
    """The body as a graph, recorded while it runs on ``inputs``, which it may write to.

    Raises ``Malformed``, ``Unsupported``, and what its operations raise.
    """
    body = Body(seed.body, {i.name: "" for i in seed.inputs})
    copies = InputSet.snapshot(list(inputs)).rebuild()
    names = [i.name for i in seed.inputs]
    estimate(body, dict(zip(names, (t.detach() for t in inputs), strict=True)), {})
    graph = fx.Graph()
    recorder = Recorder(graph)
    nodes = [graph.create_node("placeholder", name, name=name) for name in names]
    given = {n: recorder.input(node, t) for n, node, t in zip(names, nodes, copies, strict=True)}
    with torch.set_grad_enabled(not seed.no_grad), recorder:
        out = body(**{n: given[n] for n in body.parameters})
    graph.output(_outputs(out))
    if len(calls(graph)) > MAX_CALLS:
        raise TooLarge(f"{len(calls(graph))} operations; at most {MAX_CALLS}")
    _drop_unused(graph)
    graph.lint()
    return graph


def _outputs(out: Any) -> Any:
    """One tensor, or a flat tuple of tensors, as nodes."""
    if isinstance(out, Traced):
        return (out.node,)
    parts = out if isinstance(out, (tuple, list)) else ()
    if not parts or not all(isinstance(part, Traced) for part in parts):
        raise Malformed("a seed returns tensors")
    return tuple(part.node for part in parts)


def _drop_unused(graph: fx.Graph) -> None:
    """Parts of results that nothing reads, which the recorder takes apart as a whole."""
    for node in reversed(graph.nodes):
        if node.op == "call_function" and not node.users and canonical(node).name == "getitem":
            graph.erase_node(node)


def seed_text(graph: fx.Graph, inputs: Sequence[Any], meta: Mapping[str, Any], doc: str, origin: str) -> str:
    """A seed file.  Raises ``Unprintable``, ``Unsupported`` of inputs."""
    body = print_graph(graph)
    writes = any(canonical(n).name.endswith("_") or canonical(n).name == "setitem" for n in calls(graph))
    made = inputs_source(inputs, writes)
    small = all(not isinstance(t, torch.Tensor) or t.numel() <= LITERAL_NUMEL for t in inputs)
    if small and any(isinstance(t, torch.Tensor) and _counts(t) for t in inputs):
        made = inputs_text(InputSet.snapshot(list(inputs)), "literal", ValuePlan.SEED) or made
    return seed_file_text(made, body, meta, doc, origin)


def _counts(t: torch.Tensor) -> bool:
    """Whether the values are 0, 1, 2 …, which drawing anew would lose."""
    flat = t.detach().reshape(-1)
    return len(flat) > 2 and not flat.is_complex() and torch.equal(flat, torch.arange(len(flat)).to(flat.dtype))


def meta_of(seed: SeedProposal) -> dict[str, Any]:
    """What of the seed goes into META; raises ``Unsupported`` for a setting that it may not have."""
    meta: dict[str, Any] = {"no_grad": True} if seed.no_grad else {}
    return meta | ({"config": allowed_settings(seed.inductor)} if seed.inductor else {})
