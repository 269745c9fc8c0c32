"""A rule's arguments: when it holds for them, samples of them, and both of its sides on them."""

from __future__ import annotations

import builtins
import inspect
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.model import FLOATS, INTS, TensorSpec
from fxmorph.programs.inputs import is_float_dtype, relocate, spec_of, strided_clone
from fxmorph.rewriting.preconditions import met
from fxmorph.rules import Rule, RuleError


@dataclass(frozen=True)
class Instance:
    """A rule with arguments that it holds for: tensors with values and strides, and scalars."""

    rule: Rule
    tensors: dict[str, torch.Tensor]
    scalars: dict[str, Any]

    def with_values(self, tensors: dict[str, torch.Tensor]) -> Instance:
        return Instance(self.rule, tensors, self.scalars)

    def before(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """The rule's pattern on these tensors themselves, which it may write to."""
        return call(self.rule.before, tensors, self.scalars)

    def after(self, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
        """The rule's replacement on these tensors themselves, which it may write to."""
        return call(self.rule.after, tensors, self.scalars)

    @property
    def device(self) -> str:
        """The type of the device that the tensors are on."""
        return next((t.device.type for t in self.tensors.values()), "cpu")

    def on(self, device: str) -> Instance:
        """The same with every tensor on ``device``."""
        return self if self.device == device else self.with_values(relocate(self.tensors, device))

    def known(self) -> frozenset[str]:
        """Arguments whose values enter a proof: the indices of a mixed rule."""
        if not self.rule.mixed:
            return frozenset()
        return frozenset(n for n, t in self.tensors.items() if t.dtype != torch.bool and not is_float_dtype(t.dtype))

    def copies(self) -> dict[str, torch.Tensor]:
        """The tensors over memory of their own, strides kept."""
        return {n: strided_clone(t) for n, t in self.tensors.items()}


def call(function: Callable[..., Any], tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> Any:
    """A rule's body with the arguments that it names."""
    names = inspect.signature(function).parameters
    return function(**{n: tensors[n] if n in tensors else scalars[n] for n in names})


def sizes_of(spec: str) -> list[str]:
    """The words of a symbolic shape."""
    return spec.split()


def bind_sizes(rule: Rule, specs: dict[str, TensorSpec]) -> dict[str, int] | None:
    """Symbolic sizes of the arguments, or None where shapes do not fit the rule."""
    sizes: dict[str, int] = {}
    for name, text in rule.args.items():
        words, shape = sizes_of(text), list(specs[name].shape)
        if "..." in words:
            i = words.index("...")
            head, tail = words[:i], words[i + 1 :]
            if len(shape) < len(head) + len(tail):
                return None
            pairs = list(zip(head, shape[: len(head)], strict=True))
            pairs += list(zip(tail, shape[len(shape) - len(tail) :], strict=True)) if tail else []
        else:
            if len(shape) != len(words):
                return None
            pairs = list(zip(words, shape, strict=True))
        for word, size in pairs:
            if not isinstance(size, int) or sizes.setdefault(word, size) != size:
                return None
            if word.isdigit() and int(word) != size:
                return None
    return sizes


class _SpecView:
    """What ``where`` expressions see of an argument."""

    def __init__(self, spec: TensorSpec) -> None:
        self.shape, self.stride, self.ndim, self.dtype = spec.shape, spec.stride, spec.ndim, spec.dtype
        self.numel, self.requires_grad, self.device = spec.numel, spec.requires_grad, spec.device
        self.floating, self.offset, self.dense = spec.floating, spec.offset, spec.dense
        expected, contiguous = 1, True
        for size, stride in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
            if size != 1 and stride != expected:
                contiguous = False
            expected *= int(size)
        self.contiguous = contiguous or spec.numel == 0


def holds(rule: Rule, specs: dict[str, TensorSpec], scalars: dict[str, Any]) -> bool:
    """Whether dtypes, shapes and the ``where`` expressions of a rule hold for these arguments."""
    dtypes = {s.dtype for s in specs.values()}
    if not rule.mixed and len(dtypes) > 1:
        return False
    if not any(s.dtype in rule.dtypes for s in specs.values()):
        return False
    if not rule.mixed and not dtypes <= set(rule.dtypes):
        return False
    sizes = bind_sizes(rule, specs)
    if sizes is None:
        return False
    words = {"torch": torch, "FLOATS": FLOATS, "INTS": INTS}
    names: dict[str, Any] = {**words, **sizes, **scalars, **{n: _SpecView(s) for n, s in specs.items()}}
    for text in rule.where:
        try:
            if not eval(text, {"__builtins__": _SAFE, **names}):
                return False
        except NameError as error:
            raise RuleError(f"rule {rule.id!r} ({rule.source}): where {text!r}: {error}") from None
        except (IndexError, TypeError, ZeroDivisionError, AttributeError, ValueError):
            return False
    return True


#: The builtins that ``where`` expressions may use.
_SAFE = {
    name: getattr(builtins, name)
    for name in "abs all any len max min sum range round zip enumerate sorted isinstance type int float bool str tuple "
    "list set".split()
}


#: Sizes that samples are made of unless told otherwise.
SIZES = (2, 3, 4, 6, 8, 16)
LEADING = (1, 2, 3, 4, 6, 8)
#: How many dimensions ``...`` stands for, as often as listed.
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4)
#: Samples are no larger, all tensors together.
MOST_ELEMENTS = 20_000
#: What a scalar that the graph gives may be.
NUMBERS = (0.5, 1, 0, 2, -1, 3, -2, 2.0, 4)


def sample_arguments(
    rule: Rule,
    rng: random.Random,
    tries: int = 1500,
    dtypes: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    leading: Sequence[int] = LEADING,
) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
    """Random small contiguous arguments that a rule holds for, or None when none were found.

    ``dtypes`` are the rule's own unless given; named sizes come from ``sizes``, those that
    ``...`` stands for, from ``leading``.
    """
    dtypes = tuple(dtypes) or rule.dtypes
    for attempt in range(tries):
        dtype = getattr(torch, dtypes[attempt % len(dtypes)])
        chosen: dict[str, int] = {}
        rank = rng.choice(RANKS) if max(leading, default=0) < 100 else 1
        lead = [rng.choice(leading) for _ in range(rank)]
        shapes: dict[str, list[int]] = {}
        for name, text in rule.args.items():
            shape = shapes[name] = []
            for word in sizes_of(text):
                if word == "...":
                    shape += lead
                elif word.isdigit():
                    shape.append(int(word))
                else:
                    shape.append(chosen.setdefault(word, rng.choice(sizes)))
        if sum(map(product, shapes.values())) > MOST_ELEMENTS:
            continue
        tensors: dict[str, torch.Tensor] = {}
        for name, shape in shapes.items():
            own = getattr(torch, rng.choice([*dtypes, "bool", "int64"])) if rule.mixed else dtype
            tensors[name] = sample_values(shape, own, rng, least=0 if rule.mixed else 1)
        scalars = {n: rng.choice(c if c is not None else NUMBERS) for n, c in rule.scalars.items()}
        if holds(rule, {n: spec_of(t) for n, t in tensors.items()}, scalars):
            return tensors, scalars
    return None


def relaid(rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], rng: random.Random) -> Instance:
    """The same arguments with other strides (permuted, with gaps, expanded) where the rule holds for them."""
    for _ in range(4):
        made = {n: _with_other_strides(t, rng) for n, t in tensors.items()}
        if holds(rule, {n: spec_of(t) for n, t in made.items()}, scalars):
            return Instance(rule, made, scalars)
    return Instance(rule, tensors, scalars)


def _with_other_strides(t: torch.Tensor, rng: random.Random) -> torch.Tensor:
    way = rng.choice(("permuted", "gaps", "expanded", "as it is"))
    if t.ndim == 0 or t.numel() == 0 or way == "as it is":
        return t
    if way == "permuted":
        order = rng.sample(range(t.ndim), t.ndim)
        back = [order.index(d) for d in range(t.ndim)]
        return t.permute(order).contiguous().permute(back)
    if way == "gaps":
        wide = torch.stack([t, t], -1).reshape(*t.shape[:-1], 2 * t.shape[-1])
        return wide[..., ::2]
    d = rng.randrange(t.ndim)
    return t.narrow(d, 0, 1).expand(t.shape)


def sample_values(shape: list[int], dtype: torch.dtype, rng: random.Random, least: int = 0) -> torch.Tensor:
    """Values of moderate size; integers are ``least`` or one more: indices, or divisors."""
    n = product(shape)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.tensor([rng.uniform(-2, 2) for _ in range(n)], dtype=torch.float64).reshape(shape).to(dtype)
    return torch.tensor([rng.randint(least, least + 1) for _ in range(n)]).reshape(shape).to(dtype)


def product(shape: list[int]) -> int:
    out = 1
    for n in shape:
        out *= n
    return out


def broken(names: Iterable[str], values: dict[str, torch.Tensor]) -> str:
    """The first of the named preconditions that these values do not meet, or ""."""
    for name in names:
        for t in values.values():
            if t.is_floating_point() and not bool(met((name,), [t.reshape(-1)]).all()):
                return name
    return ""
