"""Comparing one value of a compiled run with eager's, element by element.

An alarm needs the compiled value to be further from both fp64 references than eager's own
error and the rounding envelope allow.  Elements whose envelope is wide, whose discrete
decision could fall either way, or whose reference is missing are not judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

import torch

from fxmorph.judge.float32_constants import single
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.precision import AMPLITUDE, ROUNDED_TWICE, SPREAD_FACTOR, UNIT, flushed
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.reference.signs import sign
from fxmorph.model import Kind, Status, VerdictCode
from fxmorph.programs.bits import PACKED, other_numbers, plain, same_bits, unequal

#: What eager's own error has beyond the envelope counts this many times for the compiled one.
EAGER_FACTOR = 4.0
#: How far the compiled error may be beyond eager's own, as a part of the envelope: where eager's is near the end of
#: it, the envelope is narrow for what rounds there, and a unit more is no finding.
BESIDE_EAGER = 0.25
#: The part of the median spread that all elements get.
FLOOR_PART = 0.6
#: How far above the median relative spread the median absolute one may lift a small element's.
FLOOR_REACH = 16.0
#: An element whose envelope exceeds this part of its magnitude (in 8 bits: twice what every element is
#: allowed, which is more) is ill-conditioned, and judged
#: only where the error is this many times what is allowed: true zeros are such elements, and a
#: wrong value in their place is no rounding.
ILL_CONDITIONED = 0.1
FAR_OUTSIDE = 8.0
#: Casts whose errors are that much of the largest are several, and of what they do to elements this share is common.
COMPARABLE, MOST = 0.25, 0.9


#: Kernels of 16-bit types that round what they compute with (batch norm its scale and shift) are off by so many
#: units of the root mean square of the result, where none of its own size explains it.
COARSE_UNITS = 4.0

#: Perturbed lanes of which this part of the root mean square deviation is their mean one are off all alike; that
#: counts where it is more than such a part of the largest value.
ALIKE, ASIDE = 0.95, 1e-3

#: Of what bits of rounded numbers have a part in, this part of the elements must be wrong, and so many.
MANY, LEAST_MANY = 0.25, 4

#: Beside elements that another order of equal ones changes, this part of as many may differ where no lane shows it.
FEW_BESIDE = 0.25

#: A finite value of this part of the largest of its dtype is near where a rounding may overflow.
NEAR_LIMIT = 0.25


class NonFinite(StrEnum):
    """Whether NaN or Inf is among a program's inputs."""

    NONE = "none"
    ANY = "any"


@dataclass(frozen=True)
class Comparison:
    """Outcome for one slot; ``kind`` is VALUE or NONFINITE where ``status`` is a finding.

    ``far``: the error is no near miss of the envelope; ``single``: it is one that a number in float32 explains, of
    float64.  ``reason`` is for people, ``code`` for whoever decides.
    """

    status: Status
    reason: str = ""
    kind: Kind = Kind.VALUE
    far: bool = False
    code: VerdictCode = VerdictCode.PLAIN
    single: bool = False


CLEAN = Comparison(Status.CLEAN)


def compare(
    eager: torch.Tensor, compiled: torch.Tensor, shadows: Shadows | None, gates: Gates,
    inputs: NonFinite = NonFinite.NONE,
) -> Comparison:  # fmt: skip
    """Judge ``compiled`` against ``eager`` and the lanes of the reference run.

    Shapes must agree; where dtypes differ values are compared after widening (the dtype is
    another oracle's business).
    """
    if same_bits(eager, compiled):
        return CLEAN
    if eager.is_complex() and compiled.is_complex():
        parts = None
        if shadows is not None:
            real = {k: torch.view_as_real(v.resolve_conj()) for k, v in shadows.lanes.items() if v.is_complex()}
            parts = Shadows(torch.view_as_real(shadows.native.resolve_conj()), real)
        got = compare(
            torch.view_as_real(eager.resolve_conj()), torch.view_as_real(compiled.resolve_conj()), parts, gates,
            inputs,
        )  # fmt: skip
        # How a product or quotient of complex numbers treats Inf and NaN nobody documents.
        lost = got.status is Status.FINDING and got.kind is Kind.NONFINITE
        return replace(got, status=Status.EDGE_CASE, far=False) if lost and inputs is not NonFinite.NONE else got
    lanes = shadows.lanes if shadows is not None and shadows.native.shape == eager.shape else {}
    if shadows is not None and lanes and not _computed_alike(eager, shadows.native, lanes, gates):
        text = "eager gives different values when run again"
        return Comparison(Status.SKIPPED, text, code=VerdictCode.UNSTEADY_EAGER)
    got = _judged(eager, compiled, lanes, gates)
    if inputs is NonFinite.NONE:
        return got
    text = f"NaN or Inf among the inputs; {got.reason}"
    if got.status is Status.FINDING:
        return replace(got, reason=text, code=VerdictCode.NONFINITE_INPUTS)
    if got.code is VerdictCode.FINITENESS_DISPUTED or _loses_nan(eager, compiled, lanes):
        return Comparison(Status.EDGE_CASE, text, got.kind, code=VerdictCode.NONFINITE_INPUTS)
    return got


def _computed_alike(eager: torch.Tensor, native: torch.Tensor, lanes: dict[str, torch.Tensor], gates: Gates) -> bool:
    """Whether the reference run computed, but for rounding, what eager did.

    Sums that atomic operations make come in another order each time, and some of autograd's formulas (of ``prod``,
    ``cumprod`` and ``masked_fill``) are others where anything watches the operators.
    """
    return same_bits(native, eager) or _judged(eager, native, lanes, gates).status is Status.CLEAN


def _loses_nan(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor]) -> bool:
    """Whether an element is NaN in eager and in fp64, which no dtype's range explains, and a number when compiled."""
    return "wide" in lanes and bool((eager.isnan() & lanes["wide"].isnan() & plain(compiled).isfinite()).any())


def _judged(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor], gates: Gates) -> Comparison:
    if gates.random_values:
        text = "values pass through a random operator, where rounding is not tracked"
        return Comparison(Status.SKIPPED, text, code=VerdictCode.RANDOM_VALUES)
    if gates.bit_cast:
        return _through_bits(eager, compiled, lanes)
    if not _computed_in_floats(eager) or not _computed_in_floats(compiled):
        return _discrete(eager, compiled, lanes, gates)
    return _floating(eager, compiled, lanes, gates)


def _computed_in_floats(t: torch.Tensor) -> bool:
    """Whether its numbers may be off by a rounding.  A complex number where a real one belongs is none of that."""
    return t.dtype.is_floating_point and t.dtype not in PACKED


def _through_bits(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor]) -> Comparison:
    """Values that were computed with the bits of rounded numbers, which the lanes have all over what rounding makes.

    What is made of bits may jump anywhere, so that a few elements say nothing: only :data:`MANY` are a finding.
    """
    text = "values pass through the bits of rounded numbers"
    if lanes and eager.dtype == compiled.dtype and not eager.is_complex():
        every = torch.stack([t.double() for t in (eager, *lanes.values())])
        low, high = every.amin(0), every.amax(0)
        c, width = compiled.double(), high - low
        beyond = torch.maximum(low - c, c - high)
        least = ROUNDED_TWICE * UNIT.get(eager.dtype, 0.0) * torch.maximum(low.abs(), high.abs())
        bad = beyond > width + FAR_OUTSIDE * least
        bad |= torch.isfinite(every).all(0) & ~torch.isfinite(c)
        if int(bad.sum()) >= max(LEAST_MANY, MANY * bad.numel()):
            said = f"{text}; {place_of(bad)}: eager {values_at(eager, bad)}; compiled {values_at(compiled, bad)}"
            return Comparison(Status.FINDING, f"{said}, and no rounding does that", code=VerdictCode.BIT_CAST)
    return Comparison(Status.INCONCLUSIVE, f"{text}, which may be others", code=VerdictCode.BIT_CAST)


def _count(bad: torch.Tensor) -> str:
    return f"{int(bad.sum())} of {bad.numel()} elements"


def place_of(bad: torch.Tensor) -> str:
    """How many elements, and the first of them."""
    first = bad.nonzero()[0].tolist() if bad.ndim else []
    return f"{_count(bad)}, first at {first}"


def values_at(t: torch.Tensor, bad: torch.Tensor) -> str:
    """A few of the elements."""
    t = plain(t)
    values = t[bad][:3].tolist() if t.ndim else [t.item()]
    return ", ".join(f"{v:.7g}" if isinstance(v, float) else str(v) for v in values)


def _discrete(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor], gates: Gates) -> Comparison:
    bad = unequal(eager, compiled)
    if not bool(bad.any()):
        return CLEAN
    if not lanes:
        text = "integers differ and there is no reference"
        return Comparison(Status.INCONCLUSIVE, text, code=VerdictCode.NO_REFERENCE)
    unstable = torch.zeros_like(bad)
    for lane in lanes.values():
        unstable |= unequal(lane, eager)
    real = bad & ~unstable
    if bool(real.any()):
        if gates.blind and not gates.exact:
            text = f"decisions inside {', '.join(sorted(gates.blind))}"
            return Comparison(Status.INCONCLUSIVE, text, code=VerdictCode.OPAQUE_DECISIONS)
        text = f"{place_of(real)}: eager {values_at(eager, real)}; compiled {values_at(compiled, real)}"
        return Comparison(Status.FINDING, text, code=VerdictCode.UNEQUAL)
    return Comparison(Status.TIE, f"{place_of(bad)} could be decided either way", code=VerdictCode.TIE)


@dataclass(frozen=True)
class Envelope:
    """Per element, as float64 tensors of the value's shape.

    ``outside``: how far the compiled value is from the interval between R_wide and R_cast;
    ``own``: eager's distance from the nearer of them; ``wide_bound``, ``cast_bound``: what
    rounding may do to each; ``allowed``: what ``outside`` is compared with.  ``tied``: moves
    when ties are broken, and by enough to explain it; ``ill``: rounding alone may move the
    value by a good part of itself, and the error is not far beyond that.  ``lying``: eager is further
    from the references than rounding explains, and than the kernels that :data:`EAGER_FACTOR` is for;
    ``aside``: the error is inside the bound only because the perturbed lanes lie to one side of their
    reference, where roundings do not bring them; ``vague``: only a bound that says nothing allows the error,
    a good part of a value that is not small among the others, or any where a lane has left the numbers.
    """

    outside: torch.Tensor
    own: torch.Tensor
    wide_bound: torch.Tensor
    cast_bound: torch.Tensor
    allowed: torch.Tensor
    tied: torch.Tensor
    ill: torch.Tensor
    lying: torch.Tensor
    aside: torch.Tensor
    vague: torch.Tensor


def envelope(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor]) -> Envelope:
    """The allowed error of each element; needs the lane ``wide`` and values of one shape."""
    e, c, w = eager.double(), compiled.double(), lanes["wide"].double()
    r = lanes["cast"].double() if "cast" in lanes else w
    unit = UNIT[eager.dtype]
    least = torch.finfo(eager.dtype).smallest_normal  # below it the last place is the same for all
    floor = unit * ROUNDED_TWICE * torch.maximum(w.abs(), r.abs()).clamp(min=least) + flushed(eager)
    around_wide, around_cast = spread(lanes, "wide", w), spread(lanes, "cast", r)
    # Where casts and decisions round nothing, all lanes are draws around one centre.
    both = torch.where(w == r, torch.hypot(around_wide, around_cast) * math.sqrt(0.5), torch.nan)
    wide_bound = SPREAD_FACTOR * _lifted(torch.where(w == r, both, around_wide), w) + floor
    cast_bound = SPREAD_FACTOR * _lifted(torch.where(w == r, both, around_cast), r) + floor
    bound = torch.maximum(wide_bound, cast_bound)
    ties = moved_by_ties(lanes, w)
    low, high = _between(lanes, w, r)
    outside = torch.maximum(low - c, c - high).clamp(min=0)
    own = torch.minimum((e - w).abs(), (e - r).abs())
    allowed = _allowed(bound, own)
    part = max(ILL_CONDITIONED, 2 * ROUNDED_TWICE * unit)
    ill = (bound > part * high.abs().maximum(low.abs())) & (outside <= FAR_OUTSIDE * allowed)
    tied = (ties > floor) & (outside <= FAR_OUTSIDE * (allowed + ties))
    lying = own > EAGER_FACTOR * bound + _coarseness(eager.dtype, w) + ties
    aside = _one_sided(lanes, "wide", w, outside - floor) | _one_sided(lanes, "cast", r, outside - floor)
    size = high.abs().maximum(low.abs())
    vague = (outside > part * size) & (size >= _usual(w))
    vague |= ~torch.isfinite(allowed) & (outside > FAR_OUTSIDE * floor)
    return Envelope(outside, own, wide_bound, cast_bound, allowed, tied, ill, lying, aside & (outside > ties), vague)


def _between(lanes: dict[str, torch.Tensor], w: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the largest that may come of casts, of which compiled code keeps some.

    Where all are kept their errors may cancel, so that nothing between the two references is what one of them gives.
    Eight lanes keep every choice of half of them: what each cast adds is what lies in one column of their Walsh
    transform.  Close to a tie it may add the opposite.
    """
    low, high = torch.minimum(w, r), torch.maximum(w, r)
    loose = _of_kind(lanes, "loose")
    if not loose:
        return low, high
    signs = _walsh(len(loose)).to(w.device)
    added = torch.tensordot(signs, torch.stack([lane.double() for lane in loose]), 1) * (2 / len(loose))
    reach = added.abs().sum(0)
    known = torch.isfinite(w) & torch.isfinite(reach)
    sizes = torch.where(known, added, 0.0).reshape(len(added), -1).square().sum(1)
    part = (reach / w.abs())[known & (w != 0)]
    if part.numel() and int((sizes > sizes.max() * COMPARABLE**2).sum()) > 1:
        # What one of them rounds hangs on what others did: to any element it may do what it does to most.
        reach = torch.maximum(reach, w.abs() * part.kthvalue(math.ceil(MOST * part.numel())).values)
    low = torch.where(known, torch.minimum(low, w - reach), low)
    return low, torch.where(known, torch.maximum(high, w + reach), high)


@cache
def _walsh(count: int) -> torch.Tensor:
    """Columns of the Walsh transform of so many lanes but the constant one: float64, [count - 1, count]."""
    return torch.tensor([[sign(i, j) for j in range(count)] for i in range(1, count)], dtype=torch.float64)


def _allowed(bound: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """The compiled error that ``bound`` and eager's ``own`` error allow."""
    return torch.maximum(bound + EAGER_FACTOR * (own - bound).clamp(min=0), own + BESIDE_EAGER * bound)


def _floating(eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor], gates: Gates) -> Comparison:
    e, c = eager.double(), compiled.double()
    equal = (e == c) | (e.isnan() & c.isnan())
    if bool(equal.all()):
        if eager.dtype != compiled.dtype:
            return CLEAN
        text = f"only the sign of zero differs, {place_of(e.signbit() != c.signbit())}"
        return Comparison(Status.EDGE_CASE, text, code=VerdictCode.ZERO_SIGN)
    if "wide" not in lanes:
        return Comparison(Status.INCONCLUSIVE, "no fp64 reference for this value", code=VerdictCode.NO_REFERENCE)
    odd = ~equal & (~torch.isfinite(e) | ~torch.isfinite(c))
    if not bool(odd.any()):
        return _finite(eager, compiled, lanes, gates, equal)
    got = _nonfinite(eager, compiled, lanes, odd, gates)
    if got.status is Status.FINDING or bool((odd | equal).all()):
        return got
    rest = _finite(eager, compiled, lanes, gates, equal | odd)
    return rest if rest.status is Status.FINDING else got


def _finite(
    eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor], gates: Gates, settled: torch.Tensor
) -> Comparison:
    """Elements that are finite on both sides and not ``settled``, of which there are some."""
    e, c, w = eager.double(), compiled.double(), lanes["wide"].double()
    finite = torch.isfinite(e) & torch.isfinite(c) & torch.isfinite(w)
    if gates.exact:
        free = _taken_otherwise(lanes, w)
        bad = ~settled & ~free
        if not bool(bad.any()) or _few_beside(bad, free, gates):
            return Comparison(Status.TIE, f"{place_of(~settled)} hang on a tie", code=VerdictCode.TIE)
        return Comparison(
            Status.FINDING,
            f"{place_of(bad)} in exact arithmetic: eager {values_at(eager, bad)}; compiled {values_at(compiled, bad)}",
            far=True,
            code=VerdictCode.EXACT_ARITHMETIC,
        )
    env = envelope(eager, compiled, lanes)
    allowed, outside = env.allowed, env.outside
    alarm = finite & ~settled & (outside > allowed)
    if gates.overflow:
        # Where eager is what fp64 is, no overflow has reached it.
        alarm &= env.own <= torch.maximum(env.wide_bound, env.cast_bound)
        if not bool((alarm & ~env.tied & ~env.ill).any()):
            text = "a value overflows in eager that does not in fp64"
            return Comparison(Status.SKIPPED, text, code=VerdictCode.OVERFLOW)
    if not bool(alarm.any()):
        r = lanes["cast"].double() if "cast" in lanes else w
        near_cast = (c - r).abs() <= _allowed(env.cast_bound, (e - r).abs())
        if bool((near_cast | settled).all()):
            differing = finite & ~settled
            lying, vague = differing & env.lying, _vague(env, differing)
            if bool(lying.any()):
                text = f"eager lies outside its own envelope: {place_of(lying)}"
                return Comparison(Status.INCONCLUSIVE, text, code=VerdictCode.EAGER_OUTSIDE)
            if bool(vague.any()):
                return _ill_conditioned(vague)
            used = float(torch.where(finite & ~settled, outside / allowed, 0.0).max())
            text = f"inside the envelope: largest error {used:.2g} of what is allowed"
            return Comparison(Status.CLEAN, text, code=VerdictCode.INSIDE_ENVELOPE)
        rest = ~(near_cast | settled)
        if not gates.narrowing_cast:  # what else rounds in the cast lane is the operands of decisions
            return Comparison(Status.TIE, f"{place_of(rest)} hang on the rounding of a decision", code=VerdictCode.TIE)
        code = VerdictCode.CAST_ELIDED
        return Comparison(
            Status.EXPECTED, f"{code}: {place_of(rest)} keep more precision than the program's casts", code=code
        )
    tied = env.tied
    if bool((alarm & tied).any()) and not bool((alarm & ~tied).any()):
        return Comparison(Status.TIE, f"{place_of(alarm)} hang on a tie", code=VerdictCode.TIE)
    real = alarm & ~tied & ~env.ill
    if not bool(real.any()):
        return _ill_conditioned(alarm & ~tied)
    if _few_beside(real, _taken_otherwise(lanes, w), gates):
        return Comparison(Status.TIE, f"{place_of(alarm)} hang on the order of equal elements", code=VerdictCode.TIE)
    worst = int(torch.where(real, outside / allowed, 0.0).argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(worst), real.shape)]
    at_eager, at_compiled, at_wide, at_most = (t.flatten()[worst].item() for t in (eager, compiled, w, allowed))
    return Comparison(
        Status.FINDING,
        f"{_count(real)}, worst at {place}: eager {at_eager:.9g}, "
        f"compiled {at_compiled:.9g}, fp64 {at_wide:.12g}, allowed error {at_most:.3g}",
        far=bool((real & (outside > FAR_OUTSIDE * allowed)).any()),
        code=VerdictCode.OUTSIDE_ENVELOPE,
        single=single(eager, compiled, real),
    )


def _taken_otherwise(lanes: dict[str, torch.Tensor], wide: torch.Tensor) -> torch.Tensor:
    """Where another one taken of equal elements gives another value."""
    out = torch.zeros_like(wide, dtype=torch.bool)
    for lane in _of_kind(lanes, "tie"):
        out |= other_numbers(lane.double(), wide)
    return out


def _few_beside(bad: torch.Tensor, taken: torch.Tensor, gates: Gates) -> bool:
    """Whether few are ``bad`` beside what equal elements ``taken`` otherwise change: of all the orders that those may
    have, and of what two of them make together, some lanes have some.
    """
    return gates.equals > 1 and int(bad.sum()) <= FEW_BESIDE * int(taken.sum())


def _ill_conditioned(where: torch.Tensor) -> Comparison:
    text = f"{place_of(where)} where rounding may reach the value itself"
    return Comparison(Status.ILL_CONDITIONED, text, code=VerdictCode.ILL_CONDITIONED)


def _vague(env: Envelope, differing: torch.Tensor) -> torch.Tensor:
    """Where the error is allowed by a bound that says nothing, and far from what eager makes of it anywhere.

    What is zero over the reals and noise in every dtype, as some gradients are, is so in eager too.
    """
    least = FAR_OUTSIDE * torch.where(differing, env.own, 0.0).max()
    return differing & (env.aside | (env.vague & (env.outside > least)))


def _nonfinite(
    eager: torch.Tensor, compiled: torch.Tensor, lanes: dict[str, torch.Tensor], odd: torch.Tensor, gates: Gates
) -> Comparison:
    """The ``odd`` elements: unlike, and not finite on one side at least."""
    e, c, w = eager.double(), compiled.double(), lanes["wide"].double()
    text = (
        f"{place_of(odd)}: eager {values_at(eager, odd)}; compiled {values_at(compiled, odd)}; fp64 {values_at(w, odd)}"
    )
    signs = e.abs() == c.abs()
    if bool(signs[odd].all()):
        text = f"infinities differ in sign only, as signed zeros make them: {text}"
        return Comparison(Status.EDGE_CASE, text, code=VerdictCode.INFINITY_SIGN)
    tied = odd & _taken_otherwise(lanes, w) & (torch.isfinite(c) | _seen_anywhere(c, lanes))
    if bool(tied.any()):  # of the orders that equal elements may have, a few lanes have a few
        return Comparison(Status.TIE, f"{place_of(tied)} hang on a tie: {text}", code=VerdictCode.TIE)
    # Eager is not to blame for these: it agrees with fp64, and the compiled program does not.
    right = (c == w) | (c.isnan() & w.isnan())
    largest = torch.finfo(eager.dtype).max
    swayed = (_turned(lanes, w, c) | _may_overflow(e, c, lanes, largest)) & odd & ~signs & ~right
    wrong = odd & ~signs & ~right & ~swayed & (torch.isfinite(e) == torch.isfinite(w))
    half = eager.dtype in AMPLITUDE or gates.low_precision
    if half:
        wrong &= _out_of_range(e, c, lanes, largest)
    if bool(wrong.any()) and not gates.overflow:
        # What a fusion keeps of precision is what some lanes do, and they have no such element.
        return Comparison(Status.FINDING, text, Kind.NONFINITE, far=True, code=VerdictCode.FINITENESS)
    if half or gates.overflow:
        text = f"range of the dtype: {text}"
        return Comparison(Status.EXPECTED, text, Kind.NONFINITE, code=VerdictCode.DTYPE_RANGE)
    if bool(swayed.any()):
        return _ill_conditioned(swayed)
    text = f"eager and fp64 disagree on finiteness: {text}"
    return Comparison(Status.INCONCLUSIVE, text, Kind.NONFINITE, code=VerdictCode.FINITENESS_DISPUTED)


def _seen_anywhere(c: torch.Tensor, lanes: dict[str, torch.Tensor]) -> torch.Tensor:
    """Where ``c`` is not finite, and what it is, NaN or an infinity, is an element of a lane: another order of equal
    elements may bring it to another place, and makes none.
    """
    out = torch.zeros_like(c, dtype=torch.bool)
    for is_such in (torch.isnan, torch.isposinf, torch.isneginf):
        if any(bool(is_such(lane).any()) for lane in lanes.values()):
            out |= is_such(c)
    return out


def _turned(lanes: dict[str, torch.Tensor], centre: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Where roundings alone make a number of NaN or Inf, or the other way round: an arc cosine near 1.

    Or of the one the other that ``c`` is: a spread of what is all the same, over no degrees of freedom.
    """
    out = torch.zeros_like(centre, dtype=torch.bool)
    for lane in lanes.values():
        out |= torch.isfinite(lane) != torch.isfinite(centre)
        out |= ~torch.isfinite(c) & ~torch.isfinite(lane) & (lane.isnan() != centre.isnan())
    return out


def _may_overflow(e: torch.Tensor, c: torch.Tensor, lanes: dict[str, torch.Tensor], largest: float) -> torch.Tensor:
    """Where the compiled value is infinite, and eager or a lane is orders of magnitude above fp64, a part of the way to
    the ``largest`` number: an exponential of what cancels.  A rounding like theirs goes all of it.
    """
    exponents = {name: t.double().abs().clamp(min=1.0).log2() for name, t in (lanes | {"eager": e}).items()}
    wide = exponents["wide"]
    grown = torch.stack([torch.where(torch.isfinite(t), t - wide, 0.0) for t in exponents.values()])
    reach = wide + EAGER_FACTOR * grown.amax(0)
    return c.isinf() & (reach >= math.log2(largest))


def _out_of_range(e: torch.Tensor, c: torch.Tensor, lanes: dict[str, torch.Tensor], largest: float) -> torch.Tensor:
    """Where a short range explains nothing: every lane has a number far below the limit, or eager's NaN or infinity."""
    numbers, others = torch.isfinite(e) & ~torch.isfinite(c), ~torch.isfinite(e)
    for lane in map(torch.Tensor.double, lanes.values()):
        numbers = numbers & (lane.abs() < NEAR_LIMIT * largest)
        others = others & ((lane == e) | (lane.isnan() & e.isnan()))
    return numbers | others


def _coarseness(dtype: torch.dtype, centre: torch.Tensor) -> float:
    """What kernels of a 16-bit dtype that round inside are off by, wherever in the tensor: eager alone, so no bound."""
    return COARSE_UNITS * UNIT[dtype] * _usual(centre) if dtype in AMPLITUDE else 0.0


def _usual(centre: torch.Tensor) -> float:
    """The root mean square of what is finite."""
    finite = centre[torch.isfinite(centre)]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0


def _one_sided(lanes: dict[str, torch.Tensor], around: str, centre: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
    """Where the lanes are off their centre all alike, and only so reach as far as ``error``.

    Their signs at each rounding add up to nothing, so that only squares of errors, and decisions that
    all of them take otherwise, move them to one side: little of the largest value, or rounding has reached it.
    """
    off = [lane.double() - centre for lane in _of_kind(lanes, around)]
    if len(off) < 2:
        return torch.zeros_like(centre, dtype=torch.bool)
    deviations = torch.stack(off)
    largest = deviations.abs().amax(0)
    parts = torch.where(largest > 0, deviations / largest, 0.0)  # these may be squared, whatever their size
    mean, square = parts.mean(0), parts.square().mean(0)
    within = largest * (square - mean.square()).clamp(min=0).sqrt()
    usual = centre.abs().nan_to_num(nan=0.0, posinf=0.0)
    peak = float(usual.max()) if usual.numel() else 0.0
    alike = (mean.abs() >= ALIKE * square.sqrt()) & (largest * mean.abs() > ASIDE * peak)
    return alike & (error > SPREAD_FACTOR * within) & (peak > 0)


def spread(lanes: dict[str, torch.Tensor], around: str, centre: torch.Tensor) -> torch.Tensor:
    """Root mean square of the deviations of the perturbed lanes, of whatever size: none is squared as it is."""
    out, perturbed = torch.zeros_like(centre), _of_kind(lanes, around)
    for lane in perturbed:
        out = torch.hypot(out, (lane.double() - centre).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))
    return out / math.sqrt(max(len(perturbed), 1))


def moved_by_ties(lanes: dict[str, torch.Tensor], centre: torch.Tensor) -> torch.Tensor:
    """How far the lanes that break ties are off, at most."""
    off = ((lane.double() - centre).abs() for lane in _of_kind(lanes, "tie"))
    return torch.stack([torch.zeros_like(centre), *off]).amax(0)


def _of_kind(lanes: dict[str, torch.Tensor], kind: str) -> list[torch.Tensor]:
    """The perturbed lanes around one reference, or those that break ties, of however many draws."""
    return [lane for name, lane in lanes.items() if name.startswith(f"{kind}:")]


def _lifted(spread: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """The spread of each element, never much below its typical size in the tensor.

    A few draws underestimate the spread of some elements by chance.  A part of the median spread
    is therefore a floor for all, but for small elements among large ones only as far as the median
    relative spread gives reason for it.
    """
    usual = torch.isfinite(spread) & (spread > 0)
    if int(usual.sum()) < 2:
        return spread
    absolute = FLOOR_PART * spread[usual].median()
    relative = FLOOR_PART * (spread[usual] / centre[usual].abs().clamp(min=torch.finfo(torch.float64).tiny)).median()
    return torch.maximum(spread, torch.minimum(absolute, FLOOR_REACH * relative * centre.abs()))
