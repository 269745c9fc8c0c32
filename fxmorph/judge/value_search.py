"""Values on which a program stays in the range of numbers, searched by gradients.

After NNSmith (Liu et al., ASPLOS 2023): the first function that leaves the range gives a loss of its operands,
which says how far they are from where it is defined; the floating-point inputs go down that loss.  Steps follow
the signs of gradients (Rprop, Riedmiller and Braun 1993: each element's step grows while its sign stays and halves
where that turns), so that neither the scale of the inputs nor that of the loss matters.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fxmorph.judge.journal import note
from fxmorph.programs.bits import plain
from fxmorph.programs.inputs import FLOATING, flat_storage, is_float_dtype
from fxmorph.programs.load import Invocation
from fxmorph.programs.operators import EMPTY, operator_name
from fxmorph.programs.values import Found, Range, Step, held, mask_like, memories
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import DispatchMode, tensors_of, tree_leaves, tree_map
from fxmorph.torchapi.storages import storage_key

#: The program, made fresh with the values of a step, or with those found.
Make = Callable[[Step], Invocation]

#: Runs of the program in an attempt, at most, and how often values are moved at random where no gradient arrives.
RUNS = 64
NUDGES = 3
#: Elements that are searched, at most, and those of all results in an attempt, a call counting as CALL of them.
MOST_ELEMENTS = 1 << 16
MOST_WORK = 1 << 25
CALL = 1 << 12
#: How far inside its domain an operand is brought, at first; half of that after HALVED runs, and so on.
MARGIN = 0.125
HALVED = 8
#: The first step, in units of the root mean square of a tensor.
FIRST_STEP = 0.125
#: Attempts: the values that are started from, and by what a step grows while the sign of its gradient stays (it halves
#: where that turns).  Slow growth finds narrow ranges, fast growth serves functions that pull inputs to both sides.
ATTEMPTS = ((Range.OWN, 1.5), (Range.OWN, 2.0), (Range.INSIDE, 1.5))


class RangeWatch(DispatchMode):
    """Notes in ``left`` the first operator that makes Inf or NaN of finite operands; "" where none does.

    Infinite scalars are operands: masks are made with them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left = ""

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.left:
            return func(*args, **kwargs)
        finite = _finite((args, kwargs))  # before: operands may be written
        out = func(*args, **kwargs)
        name = operator_name(func)
        if finite and name not in EMPTY and not _finite(out):
            self.left = name
        return out


def _finite(values: Any) -> bool:
    return all(map(_finite_leaf, tree_leaves(values)))


def _finite_leaf(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or not is_float_dtype(value.dtype):
            return True
        return bool(torch.isfinite(plain(value)).all())
    return not isinstance(value, float) or math.isfinite(value)


# -- how far operands are from where a function is defined ----------------------


def _above(x: torch.Tensor, least: float, margin: float) -> torch.Tensor:
    return torch.relu(least + margin - x)


def _within(x: torch.Tensor, low: float, high: float, margin: float) -> torch.Tensor:
    return torch.relu(low + margin - x) + torch.relu(x - high + margin)


def _nonzero(x: torch.Tensor, margin: float) -> torch.Tensor:
    """Zeros go either way in turn: where all went the same way, differences would stay as they are."""
    turns = (torch.arange(x.numel(), device=x.device) % 2 * 2 - 1).reshape(x.shape)
    return torch.relu(margin - x * torch.where(x == 0, turns, x.sign()))


def _power(base: torch.Tensor, exponent: torch.Tensor, margin: float) -> torch.Tensor:
    root = exponent != exponent.round()
    inverse = ~root & (exponent < 0)
    return torch.where(root, _above(base, 0, margin), 0) + torch.where(inverse, _nonzero(base, margin), 0)


Operands = Sequence[torch.Tensor]
#: Of a function's operands, in float64, and a margin: by how much each element lacks that; 0 where it does not.
LACKS: dict[str, Callable[[Operands, float], torch.Tensor]] = {
    **dict.fromkeys(
        "log log2 log10 sqrt rsqrt lgamma digamma gammaln psi".split(),
        lambda v, margin: _above(v[0], 0, margin),
    ),
    "log1p": lambda v, margin: _above(v[0], -1, margin),
    **dict.fromkeys("acosh arccosh".split(), lambda v, margin: _above(v[0], 1, margin)),
    **dict.fromkeys(
        "asin arcsin acos arccos atanh arctanh erfinv".split(),
        lambda v, margin: _within(v[0], -1, 1, margin),
    ),
    **dict.fromkeys("logit ndtri".split(), lambda v, margin: _within(v[0], 0, 1, margin)),
    "xlogy": lambda v, margin: _above(v[1], 0, margin),
    "xlog1py": lambda v, margin: _above(v[1], -1, margin),
    **dict.fromkeys(
        "div divide true_divide truediv floor_divide floordiv remainder mod fmod".split(),
        lambda v, margin: _nonzero(v[1], margin),
    ),
    **dict.fromkeys("reciprocal rdiv rtruediv rfloordiv rmod".split(), lambda v, margin: _nonzero(v[0], margin)),
    "addcdiv": lambda v, margin: _nonzero(v[2], margin),
    **dict.fromkeys("pow float_power".split(), lambda v, margin: _power(v[0], v[1], margin)),
    "rpow": lambda v, margin: _power(v[1], v[0], margin),
}

#: Functions that do not fall as their first operand rises, and have no gradient where they are level: they are
#: given a small one there (NNSmith's proxy derivatives).
LEVEL = frozenset(
    "relu relu6 clamp clip clamp_min clamp_max hardtanh hardsigmoid threshold floor ceil round trunc fix sign".split()
)
PROXY = 2.0**-10


def _lack(name: str, operands: Sequence[Any], margin: float) -> torch.Tensor | None:
    """The sum of what operands lack of the margin; None where that has no gradient, or all have it."""
    if name not in LACKS or any(isinstance(v, torch.Tensor) and v.is_complex() for v in operands):
        return None
    wide = [_wide(v) for v in operands if isinstance(v, torch.Tensor | int | float)]
    try:
        loss = LACKS[name](wide, margin).sum()
    except IndexError:  # operands given as keywords, in another order
        return None
    return loss if loss.requires_grad and float(loss.detach()) > 0 else None


def _wide(value: torch.Tensor | float) -> torch.Tensor:
    return value.double() if isinstance(value, torch.Tensor) else torch.tensor(float(value), dtype=torch.float64)


def _size(operands: Sequence[Any]) -> torch.Tensor | None:
    """By how much operands exceed 1: what has no bounds of its own overflows where they are large."""
    followed = [t for t in tensors_of(operands) if t.requires_grad]
    total = sum((torch.relu(t.abs().double() - 1).sum().cpu() for t in followed), torch.zeros(()))
    return total if total.requires_grad and float(total.detach()) > 0 else None


# -- the search ----------------------------------------------------------------


class _Left(BaseException):  # programs may catch an Exception
    """A function left the range; ``loss`` is None where no gradient says how to keep it there."""

    def __init__(self, name: str, loss: torch.Tensor | None) -> None:
        super().__init__(name)
        self.name = name
        self.loss = loss


class _Follow(TorchFunctionMode):
    """Gives functions the followed tensors in place of the inputs, and stops at the first that leaves the range.

    Where ``wary``, also at the first whose operands lack the margin: there gradients may leave it.  Followed
    tensors are no leaves, so programs may write to them.
    """

    #: What a program asks of an input itself.
    ASKED = ("grad", "requires_grad", "is_leaf")

    def __init__(self, followed: dict[int, torch.Tensor], margin: float, wary: bool) -> None:
        super().__init__()
        self._followed = followed
        self._margin = margin
        self._wary = wary
        self.work = 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        called = str(getattr(func, "__name__", func)).split(".")[0]
        of = getattr(getattr(func, "__self__", None), "__name__", "")
        if called == "__set__" or (called == "__get__" and of in self.ASKED):
            return func(*args, **kwargs)
        args, kwargs = tree_map(lambda v: self._followed.get(id(v), v), (args, kwargs))
        name = called.strip("_").removeprefix("special_")
        finite = called != "__get__" and name not in EMPTY and _finite((args, kwargs))
        writes = called.endswith("_") and not called.endswith("__")
        operands = [v.clone() if writes and isinstance(v, torch.Tensor) else v for v in (*args, *kwargs.values())]
        lack = _lack(name, operands, self._margin) if finite else None
        if lack is not None and self._wary:
            raise _Left(name, lack)
        out = func(*args, **kwargs)
        self.work += CALL + sum(t.numel() for t in tensors_of(out))
        if finite and not _finite(out):
            raise _Left(name, _size(operands) if lack is None else lack)
        if finite and name in LEVEL and not writes:
            return _sloped(out, operands[0])
        return out


def _sloped(out: Any, of: Any) -> Any:
    """The same value, that rises a little with another tensor where gradients are taken."""
    plain = isinstance(out, torch.Tensor) and isinstance(of, torch.Tensor) and of.requires_grad
    if not plain or out.shape != of.shape or out.dtype != of.dtype:
        return out
    return out + (of - of.detach()) * PROXY


class _Descent:
    """The flat memory of one input in float64, and how far each element goes next."""

    def __init__(self, t: torch.Tensor, growth: float) -> None:
        flat = flat_storage(t)
        self.dtype = t.dtype
        self.free = ~held(flat)
        self.values = flat.double()
        numbers = self.values[self.free]
        self.scale = float(numbers.square().mean().sqrt()) or 1.0 if numbers.numel() else 1.0
        self._growth = growth
        self._most = torch.finfo(t.dtype).max / 4
        self._steps = torch.full_like(self.values, FIRST_STEP * self.scale)
        self._before = torch.zeros_like(self.values)

    def down(self, gradient: torch.Tensor) -> None:
        sign = gradient.sign()
        turned = sign * self._before
        self._steps *= torch.where(turned > 0, self._growth, torch.where(turned < 0, 0.5, 1.0))
        self._before = torch.where(sign == 0, self._before, sign)
        self._move(sign * -self._steps)

    def nudge(self, generator: torch.Generator) -> None:
        noise = torch.randn(self.values.numel(), generator=generator, dtype=torch.float64, device="cpu")
        self._move(noise.to(self.values.device) * self.scale)

    def _move(self, by: torch.Tensor) -> None:
        moved = (self.values + by).clamp(-self._most, self._most)
        self.values = torch.where(self.free & (by != 0), moved, self.values)


def searched(make: Make, fits: Callable[[Found], bool]) -> Found | None:
    """Values that fit; None where the search, which is bounded and deterministic, ends without any."""
    return next(filter(None, (_attempt(make, fits, *way) for way in ATTEMPTS)), None)


def _attempt(make: Make, fits: Callable[[Found], bool], start: Range, growth: float) -> Found | None:
    descents = _descents(make(start), growth)
    total = sum(d.values.numel() for d in descents if d is not None)
    if not 0 < total <= MOST_ELEMENTS:
        return None
    generator = torch.Generator(device="cpu").manual_seed(0)
    work, nudges, wary, names = 0, 0, False, dict[str, None]()
    for run in range(RUNS):
        found = Found(tuple(None if d is None else d.values.to(d.dtype) for d in descents))
        try:
            left, gradients, cost = _left(make(found), descents, MARGIN * 0.5 ** (run / HALVED), wary)
        except (Exception, AssertionError):  # the program does not run on these values, or not on followed tensors
            return None
        if not left:
            if fits(found):
                note(f"values: searched by gradients in {run} steps: {', '.join(names)} left its domain")
                return found
            if wary:
                return None
            wary = True
        elif any(bool(g.any()) for g in gradients.values()):
            for k, gradient in gradients.items():
                d = descents[k]
                assert d is not None
                d.down(gradient)
        elif nudges == NUDGES:
            return None
        else:
            nudges += 1
            for d in filter(None, descents):
                d.nudge(generator)
        names |= {left: None} if left else {}
        work += cost
        if work > MOST_WORK:
            return None
    return None


def _descents(made: Invocation, growth: float) -> list[_Descent | None]:
    """One for each memory that floating-point numbers alone are in; None for the others, and for masks."""
    inputs = made.tensors
    plain: list[_Descent | None] = []
    for t in memories(inputs):
        on_it = [other for other in inputs if storage_key(other) == storage_key(t)]
        same = all(other.dtype == t.dtype and not other.is_neg() for other in on_it)
        plain.append(_Descent(t, growth) if same and t.dtype in FLOATING and not mask_like(t) else None)
    return plain


def _left(
    made: Invocation, descents: Sequence[_Descent | None], margin: float, wary: bool
) -> tuple[str, dict[int, torch.Tensor], int]:
    """The function that leaves the range or "", gradients by position that keep it there, and what the run cost."""
    inputs = made.tensors
    leaves: dict[int, torch.Tensor] = {}
    followed: dict[int, torch.Tensor] = {}
    with torch.enable_grad():
        for k, (t, descent) in enumerate(zip(memories(inputs), descents, strict=True)):
            if descent is None:
                continue
            leaves[k] = descent.values.detach().requires_grad_()
            memory = leaves[k].to(descent.dtype, copy=True)
            for other in inputs:
                if storage_key(other) == storage_key(t):
                    followed[id(other)] = memory.as_strided(other.shape, other.stride(), other.storage_offset())
        mode = _Follow(followed, margin, wary)
        try:
            seed_generators(2)
            with mode:
                made.drive(made.fn)
        except _Left as left:
            gradients: dict[int, torch.Tensor] = {}
            if left.loss is not None:
                with contextlib.suppress(RuntimeError):  # the program ran backward itself, and freed what it saved
                    taken = torch.autograd.grad(left.loss, [*leaves.values()], allow_unused=True)
                    gradients = {k: g.nan_to_num(0.0) for k, g in zip(leaves, taken, strict=True) if g is not None}
            return left.name, gradients, mode.work
    return "", {}, mode.work
