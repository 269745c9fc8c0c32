"""A rule's arguments: when it holds for them, and both of its sides on them."""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch

from fxmorph.model import FLOATS, INTS, TensorSpec
from fxmorph.programs.inputs import flat_storage, is_integer_dtype, relocate
from fxmorph.rewriting.preconditions import met
from fxmorph.rules import Rule, RuleError
from fxmorph.torchapi.storages import storage_key


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
        return frozenset(n for n, t in self.tensors.items() if is_integer_dtype(t.dtype))

    def copies(self) -> dict[str, torch.Tensor]:
        """The tensors over memory of their own; strides, offsets and what they share among them are kept."""
        return over_memory(self.tensors, torch.clone)

    @property
    def sharing(self) -> bool:
        """Whether two arguments lie in one memory."""
        return len({storage_key(t) for t in self.tensors.values()}) < len(self.tensors)


def over_memory(
    tensors: Mapping[str, torch.Tensor], make: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The same views over other memory: what ``make`` makes of each memory, whole and 1-D, with as many elements.

    A conjugate or negative view becomes what it shows.  What is one tensor stays one: a side may ask for that.
    """
    made: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    out: dict[str, torch.Tensor] = {}
    names: dict[int, str] = {}
    for name, tensor in tensors.items():
        if names.setdefault(id(tensor), name) != name:
            out[name] = out[names[id(tensor)]]
            continue
        t = tensor.detach().resolve_conj().resolve_neg()
        key = storage_key(t), t.dtype
        if key not in made:
            made[key] = make(flat_storage(t))
        out[name] = made[key].as_strided(t.shape, t.stride(), t.storage_offset())
    return out


def call(function: Callable[..., Any], tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> Any:
    """A rule's body with the arguments that it names."""
    return function(**{n: tensors[n] if n in tensors else scalars[n] for n in _parameters(function)})


@functools.lru_cache(maxsize=4096)
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


@functools.lru_cache(maxsize=4096)
def _expression(text: str) -> CodeType:
    return compile(text, "<where>", "eval")


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
            if not eval(_expression(text), {"__builtins__": _SAFE, **names}):
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


def broken(names: Iterable[str], values: dict[str, torch.Tensor]) -> str:
    """The first of the named preconditions that these values do not meet, or ""."""
    for name in names:
        for t in values.values():
            if not t.is_complex() and not bool(met((name,), [t.reshape(-1)]).all()):
                return name
    return ""
