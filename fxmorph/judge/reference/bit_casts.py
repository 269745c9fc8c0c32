"""Memory that is seen under two dtypes: the bits of each lane's own numbers.

A float is rounded to have bits, and another legal program may round it to a neighbour.  So where a rounding has a part
in a number, the lanes take numbers all over what rounding may make of it, some next to eager's and some at the ends:
what is computed with their bits is decided where they agree by far (``numeric.py``).
"""

from __future__ import annotations

import torch

from fxmorph.judge.reference.lanes import Lanes
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import ROUNDED_TWICE, SPREAD_FACTOR, UNIT, widened
from fxmorph.programs.inputs import memory_of
from fxmorph.programs.operators import MOVES
from fxmorph.torchapi.dispatch import no_dispatch
from fxmorph.torchapi.storages import storage_key

#: Units in the last place of eager's number at which lanes have theirs, by their row of signs; the rest have the ends.
STEPS = {0: 1.0, 1: -1.0, 2: 2.0, 3: -2.0, 4: 3.0, 5: -3.0}
#: A complex number is two real ones, not other bits.
REAL = {torch.complex32: torch.float16, torch.complex64: torch.float32, torch.complex128: torch.float64}
#: Views of memory under another dtype: lanes make theirs of all of it once one is read, since others may follow.
OTHER_DTYPES = (torch.ops.aten.view.dtype, torch.ops.aten.view_as_real.default, torch.ops.aten.view_as_complex.default)


class BitCasts:
    """Of one run."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        #: (storage, dtype) under which lanes hold bits that a rounding has a part in.
        self._rounded: set[tuple[int, torch.dtype]] = set()
        #: Storages whose numbers were computed: their zeros may have either sign.
        self._computed: set[int] = set()

    def see(self, t: torch.Tensor, exact: bool) -> None:
        """Have every lane know ``t``: from what it has of the memory under another dtype, if any, else from eager's.

        ``exact``: all that was computed so far is what any legal program has, but for the signs of zeros.
        """
        with no_dispatch():
            before = self._lanes.known_as(t)
            if before in (None, t.dtype):
                for lane in self._lanes:
                    lane.memory(t)
            elif REAL.get(before, before) == REAL.get(t.dtype, t.dtype):
                self._pair(t, before)
            else:
                self._cast(t, before, exact)

    def rounded(self, t: torch.Tensor) -> bool:
        """Whether a rounding has a part in the bits that are seen as ``t``."""
        return (storage_key(t), t.dtype) in self._rounded

    def note(self, call: OperatorCall, made: list[torch.Tensor]) -> None:
        """A call has run in the lanes: what it wrote under one dtype has other bits under all others."""
        if call.name not in MOVES or any(storage_key(t) in self._computed for t in call.tensors):
            self._computed |= {storage_key(t) for t in made if t.dtype in UNIT}
        for t in call.written:
            for lane in self._lanes:
                self._rounded.difference_update(lane.forget_others(t))

    def _pair(self, t: torch.Tensor, before: torch.dtype) -> None:
        key = storage_key(t)
        for lane in self._lanes:
            for one in (lane, lane.anew):
                if one is not None and (key, before) in one.bases:
                    one.bases[key, t.dtype] = _paired(one.bases[key, before], t)
        if (key, before) in self._rounded:
            self._rounded.add((key, t.dtype))

    def _cast(self, t: torch.Tensor, before: torch.dtype, exact: bool) -> None:
        key = storage_key(t)
        raw = memory_of(t)
        whole = raw.numel() // before.itemsize * before.itemsize
        native = raw[:whole].view(before)
        numbers = {lane.name: lane.bases[key, before] for lane in self._lanes}
        if any(x.numel() != native.numel() for x in numbers.values()):  # the memory was resized
            for lane in self._lanes:
                lane.start_again(t)
            return
        if before in UNIT:
            if exact:  # perturbed lanes are off for nothing
                numbers |= {lane.name: numbers["wide"] for lane in self._lanes if lane.perturb is not None}
            else:
                numbers = _spread(native, numbers, self._lanes)
            if key in self._computed:
                numbers = _zeros_of_both_signs(numbers, self._lanes)
        rounded = (key, before) in self._rounded
        for lane in self._lanes:
            bits = _bits(numbers[lane.name], native)
            rounded |= not torch.equal(bits, raw[:whole])
            memory = torch.cat([bits, raw[whole:]])
            memory = memory[: memory.numel() // t.dtype.itemsize * t.dtype.itemsize]
            lane.bases[key, t.dtype] = memory.view(t.dtype).to(widened(t.dtype)).clone()
        if rounded:
            self._rounded.add((key, t.dtype))


def _paired(base: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Wide real numbers as complex ones, or the reverse, in memory of their own."""
    if not t.is_complex():
        return torch.view_as_real(base).flatten().clone()
    return torch.view_as_complex(base[: base.numel() // 2 * 2].reshape(-1, 2)).clone()


def _bits(numbers: torch.Tensor, native: torch.Tensor) -> torch.Tensor:
    """Bytes of wide numbers, rounded to the dtype of the native ones; where they are the same, of those."""
    if native.dtype not in UNIT:
        return numbers.to(native.dtype).view(torch.uint8)
    rounded, size = numbers.to(native.dtype), native.dtype.itemsize
    mine, theirs = (x.view(torch.uint8).reshape(-1, size) for x in (rounded, native))
    wide = native.to(numbers.dtype)
    back = rounded.to(numbers.dtype)
    same = (back.isnan() & wide.isnan()) | ((back == wide) & (_signs(back) == _signs(wide)))
    return torch.where(same[:, None], theirs, mine).flatten()


def _signs(x: torch.Tensor) -> torch.Tensor:
    if x.is_complex():
        parts = torch.view_as_real(x).signbit()
        return parts[..., 0].int() * 2 + parts[..., 1].int()
    return x.signbit()


def _zeros_of_both_signs(numbers: dict[str, torch.Tensor], lanes: Lanes) -> dict[str, torch.Tensor]:
    """Half of the perturbed lanes have the other zero."""
    odd = {lane.name for lane in lanes if lane.perturb is not None and lane.row % 2}
    return {name: torch.where(x == 0, -x, x) if name in odd else x for name, x in numbers.items()}


def _spread(native: torch.Tensor, numbers: dict[str, torch.Tensor], lanes: Lanes) -> dict[str, torch.Tensor]:
    """The numbers of the lanes, all over what rounding may make of them; where all agree, as they are."""
    if native.is_complex():
        parts = {name: torch.view_as_real(x).flatten() for name, x in numbers.items()}
        apart = _spread(torch.view_as_real(native).flatten(), parts, lanes)
        return {name: torch.view_as_complex(x.reshape(-1, 2)) for name, x in apart.items()}
    eager, wide = native.double(), numbers["wide"]
    moved = torch.zeros_like(eager, dtype=torch.bool)
    square, count = torch.zeros_like(eager), 0
    for lane in lanes:
        own = numbers[lane.name]
        moved |= (own != eager) & ~(own.isnan() & eager.isnan())
        if lane.perturb is not None:
            square += (own - wide).square()
            count += 1
    unit = UNIT[native.dtype]
    bound = SPREAD_FACTOR * (square / max(count, 1)).sqrt() + unit * ROUNDED_TWICE * wide.abs() + (eager - wide).abs()
    last_place = 2 * unit * torch.exp2(eager.abs().clamp(min=torch.finfo(native.dtype).smallest_normal).log2().floor())
    made = {}
    for lane in lanes:
        own = numbers[lane.name]
        if lane.perturb is not None:
            end = bound if lane.row % 2 else -bound
            own = eager + STEPS[lane.row] * last_place if lane.row in STEPS else wide + end
        elif lane.tie:
            # A tie that is broken moves a number by more than rounding does.
            own = torch.where((own - wide).abs() > bound, own, wide + lane.tie * bound / 2)
        made[lane.name] = torch.where(moved & own.isfinite(), own, numbers[lane.name])
    return made
