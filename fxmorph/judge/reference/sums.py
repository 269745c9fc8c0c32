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
#: Two terms round alike if they are equal but for what lanes are moved by, or differ by less than this part
#: of the last place of the sum.
ALIKE, SAME_PLACE = 2.0**-17, 0.25
#: Of each row, so many terms tell how many round alike.
ROW_SAMPLE = 4096

#: Products summed along the last dimension of an argument, and which.
INNER_DIMENSION = {
    "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "linear": 0, "matmul": 0, "addmm": 1, "baddbmm": 1, "addmv": 1,
}  # fmt: skip
#: Sums that may start from a large term.
WITH_BIAS = frozenset("linear addmm baddbmm addmv convolution".split())
#: Sums of the elements of one tensor, over all its dimensions or those of the next argument.
PLAIN = frozenset("sum nansum mean".split())


def ordered_units(terms: float, even: float = 0.0) -> float:
    """Of ``terms`` terms that round independently; ``even`` is 1 where all are of one size."""
    return max(ROUNDED_ONCE_AMPLITUDE, SUM_UNITS * terms**SUM_GROWTH * (3 - 2 * even) ** 0.5)


def summed_units(
    name: str, args: Any, kwargs: Any, terms: float, total: torch.Tensor, unit: float
) -> torch.Tensor | float:
    """Of each element of what the operator gives; ``total`` is the sum of the terms' sizes, or a bound of them."""
    units = ordered_units(terms, 0.0 if name in WITH_BIAS else _evenness(args))
    if name in PLAIN and args[0].is_floating_point():
        alike = _rounding_alike(args, kwargs, total * (terms if name == "mean" else 1), unit)
        return (REPEATED_UNITS * alike).clamp(min=units)
    return max(units, REPEATED_UNITS * terms) if _repeating(args) else units


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


def _rounding_alike(args: Any, kwargs: Any, total: torch.Tensor, unit: float) -> torch.Tensor:
    """How many terms of each plain sum round alike: the root of the sum of the squares of such groups' sizes.

    All of them where all are equal; the square root of their number where none are.
    """
    x = args[0]
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    dims = [dims] if isinstance(dims, int) else list(dims or range(x.ndim))
    rows = x.movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims)) if dims else x.unsqueeze(-1)
    terms = rows.shape[-1]
    if not rows.numel():
        return torch.ones_like(total)
    rows = rows[..., :: max(terms // ROW_SAMPLE, 1)].nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)
    place = total.reshape(rows.shape[:-1]).nan_to_num(nan=0.0, posinf=0.0).unsqueeze(-1) * 2 * unit * SAME_PLACE
    size = torch.ldexp(torch.full_like(rows, ALIKE), torch.frexp(rows).exponent)
    grain = torch.maximum(size, place).clamp(min=torch.finfo(rows.dtype).tiny)
    grain = torch.ldexp(torch.ones_like(grain), torch.frexp(grain).exponent)
    ordered = ((rows / grain).round() * grain).sort(-1).values
    places = torch.arange(ordered.shape[-1], device=x.device).expand_as(ordered)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    since = places - torch.where(starts, places, 0).cummax(-1).values
    squares = (2 * since + 1).sum(-1).double()  # over a group of n: n^2
    return (squares.sqrt() * (terms / ordered.shape[-1])).clamp(min=1.0).reshape(total.shape)


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
