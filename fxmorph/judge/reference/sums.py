"""What rounding does to sums, in units of roundoff of the sum of the terms' sizes.

Roundings of random terms go either way.  Those of equal terms, and of terms so small beside the sum that it is
the same last place that decides, all go one way: the error grows with the number of such terms, not its square root.
"""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.torchapi.dispatch import tree_leaves

#: Units for operators that IEEE arithmetic rounds once: all that one rounding can do.
ROUNDED_ONCE_AMPLITUDE = 1.0
#: A sum of n terms is perturbed by so many units of Σ|terms|, times n^(2/3): above the error of
#: summing one after the other, which grows as √n where roundings are independent.  Up to √3 times
#: more where a few terms may be most of the sum.
SUM_UNITS, SUM_GROWTH = 0.185, 2 / 3
#: And by so many for each term where terms repeat: their roundings all go one way, n/4 units at most
#: (3 times this is above that).
REPEATED_UNITS = 0.125
#: The same for each term that rounds like others, where the number of those is known.
ALIKE_UNITS = 0.17
#: Two terms round alike if they are equal but for what lanes are moved by, or differ by less than this part
#: of the last place of the sum.
ALIKE, SAME_PLACE = 2.0**-17, 0.25
#: What terms have below the last place of a sum is dropped or filled up at each addition.  Where that is no noise
#: (squares of numbers and a half all have a quarter), it adds up: to so many times all of it, over three.  Sums in
#: several lanes have smaller partial sums, whose last place is up to so many bits below.
LOST_UNITS, LANES_BITS = 0.25, 4
#: A mean is no noise above so many standard deviations.
NO_NOISE = 5.0
#: Of each row, so many terms tell how many round alike.
ROW_SAMPLE = 4096

#: Products summed along the last dimension of an argument, and which.
INNER_DIMENSION = {
    "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "linear": 0, "matmul": 0, "addmm": 1, "baddbmm": 1, "addmv": 1,
}  # fmt: skip
#: Sums that may start from a large term.
WITH_BIAS = frozenset("linear addmm baddbmm addmv convolution".split())
#: Of terms that are rounded one by one, each is off by half a unit on average, and their errors add up by squares.
TERM_UNITS = 0.5
#: Sums of the elements of one tensor, over all its dimensions or those of the next argument.
PLAIN = frozenset("sum nansum mean".split())


def ordered_units(terms: float, even: float = 0.0) -> float:
    """Of ``terms`` terms that round independently; ``even`` is 1 where all are of one size."""
    return max(ROUNDED_ONCE_AMPLITUDE, SUM_UNITS * terms**SUM_GROWTH * (3 - 2 * even) ** 0.5)


def summed_units(
    name: str, args: Any, kwargs: Any, terms: float, total: torch.Tensor, unit: float, result: torch.Tensor
) -> torch.Tensor | float:
    """Of each element of ``result``; ``total`` is the sum of the terms' sizes, or one bound of them for all."""
    units = ordered_units(terms, 0.0 if name in WITH_BIAS else _evenness(args))
    if name in PLAIN and args[0].is_floating_point():
        rows = _terms_in_rows(args, kwargs)
        whole = (total * (terms if name == "mean" else 1)).expand(result.shape).reshape(rows.shape[:-1])
        whole = whole.nan_to_num(nan=0.0, posinf=0.0)
        alike = ALIKE_UNITS * _rounding_alike(rows, whole, terms, unit)
        lost = LOST_UNITS * _lost_below(rows, whole, terms, unit)
        return (alike.clamp(min=units) + lost).reshape(result.shape)
    return max(units, REPEATED_UNITS * terms) if _repeating(args) else units


def rounded_terms(name: str, args: Any, terms: float) -> float:
    """What products of matrices of a 16-bit type are off by, whose terms are rounded to it: in units of that type.

    They are accumulated in float32, with the bias or before it is added; where Inductor spells a product with a
    single row or column as a sum, its terms are a tensor that may be rounded.
    """
    even = _evenness(args)
    return TERM_UNITS * (max(3 - 2 * even, 1.0) / terms) ** 0.5 + (1.0 if name in WITH_BIAS else 0.0) / terms**0.5


def in_rows(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """What is reduced over ``dims`` as one last dimension, in the order of ``dims``."""
    return x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)) if dims else x.unsqueeze(-1)


def terms_of(name: str, args: Any, result: torch.Tensor) -> float | None:
    """How many terms each element of a sum has; None where that hangs on the values of indices."""
    if name in INNER_DIMENSION:
        return float(args[INNER_DIMENSION[name]].shape[-1]) + (name in WITH_BIAS)
    if name == "convolution":
        weight, transposed = args[1], args[6]
        return weight.numel() / max(weight.shape[1 if transposed else 0], 1) + 1
    if name == "cumsum":
        return float(args[0].shape[args[1]]) if args[0].ndim else 1.0
    return max(args[0].numel() / max(result.numel(), 1), 1.0) if name in PLAIN else None


def _terms_in_rows(args: Any, kwargs: Any) -> torch.Tensor:
    """What a plain sum reads, a row for each element of the result; of long ones every so many-th term."""
    x = args[0]
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    rows = in_rows(x, [dims] if isinstance(dims, int) else list(dims or range(x.ndim)))
    return rows[..., :: max(rows.shape[-1] // ROW_SAMPLE, 1)].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _rounding_alike(rows: torch.Tensor, total: torch.Tensor, terms: float, unit: float) -> torch.Tensor:
    """How many of the ``terms`` of each row round alike; ``total`` is the sum of their sizes.

    The root of the sum of the squares of such groups' sizes: all where all terms are equal, the square root of their
    number where none are.  A term below the roundoff of the sum counts as the part of it that it is.
    """
    if not rows.numel():
        return torch.ones_like(total)
    tiny = torch.finfo(rows.dtype).tiny
    rounded = total.unsqueeze(-1) * unit
    size = torch.ldexp(torch.full_like(rows, ALIKE), torch.frexp(rows).exponent)
    grain = torch.maximum(size, 2 * SAME_PLACE * rounded).clamp(min=tiny)
    grain = torch.ldexp(torch.ones_like(grain), torch.frexp(grain).exponent)
    ordered, order = ((rows / grain).round() * grain).sort(-1)
    weight = (rows.abs() / rounded.clamp(min=tiny)).clamp(max=1.0).gather(-1, order)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    so_far = weight.cumsum(-1)
    of_group = so_far - torch.where(starts, so_far - weight, 0.0).cummax(-1).values
    squares = (weight * (2 * of_group - weight)).sum(-1)  # over a group of n that count whole: n^2
    return (squares.clamp(min=0.0).sqrt() * (terms / ordered.shape[-1])).clamp(min=1.0)


def _lost_below(rows: torch.Tensor, total: torch.Tensor, terms: float, unit: float) -> torch.Tensor:
    """What the ``terms`` of each row have below the last place of the sum, added up, in units of its roundoff.

    Nothing where that is noise.  ``total`` is the sum of the terms' sizes.
    """
    out, taken = torch.zeros_like(total), rows.shape[-1]
    last_place = torch.ldexp(torch.full_like(total, unit), torch.frexp(total).exponent)
    for bits in range(LANES_BITS if taken > 1 else 0):
        place = (last_place / 2**bits).clamp(min=torch.finfo(total.dtype).tiny)
        over = rows / place.unsqueeze(-1)
        below = over - over.round()
        one_way = _above_noise(below.mean(-1).abs(), 12 * taken)
        halves = 2 * _above_noise(below.abs().mean(-1) - 0.25, 48 * taken)  # of which any goes either way
        out = torch.maximum(out, terms * torch.maximum(one_way, halves) * place)
    return (out / (unit * total)).nan_to_num(nan=0.0, posinf=0.0)


def _above_noise(mean: torch.Tensor, precision: float) -> torch.Tensor:
    """Nothing where a mean of uniform noise, whose variance is one over ``precision``, may be as large."""
    return torch.where(mean > NO_NOISE / precision**0.5, mean, 0.0)


def _samples(args: Any) -> list[torch.Tensor]:
    """A few thousand numbers of each tensor that is summed."""
    wide = (torch.float64, torch.complex128)
    operands = [t for t in tree_leaves(args) if isinstance(t, torch.Tensor) and t.dtype in wide and t.numel() > 1]
    real = [torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in operands]
    return [t.flatten()[:: max(t.numel() // 4096, 1)] for t in real]


def _evenness(args: Any) -> float:
    """1 where all terms are of one size, 0 where a few are all of the sum."""
    out = 1.0
    for some in _samples(args):
        square = float(some.square().mean())
        out *= min(float(some.abs().mean()) ** 2 / square, 1.0) if 0 < square < float("inf") else 0.0
    return out


def _repeating(args: Any) -> bool:
    """Whether most of what is summed are equal numbers, the lanes' noise apart."""
    samples = _samples(args)
    for some in samples:
        leading = some.float().view(torch.int32) >> 6
        if leading.unique().numel() * 2 > some.numel():
            return False
    return bool(samples)
