"""Eager's word on a scalar claim before a solver is asked: all combinations of hard values, and random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.eager_scalars import bits_differ, evaluate
from fxmorph.prove.smt.scalars import ROWS, Obligation, Op, Var, walk

#: Elements that a claim is evaluated on.
MANY = 8192
#: Terms of a sum or a matrix product that a solver may be asked to round one by one.
MAX_ROUNDED_TERMS = 2


def hard_values(dtype: torch.dtype) -> torch.Tensor:
    """Values at which operators turn, of ``dtype``."""
    if dtype == torch.bool:
        return torch.tensor([False, True])
    if dtype.is_floating_point:
        f = torch.finfo(dtype)
        listed = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, 1 / 3, 0.1, -0.7, 2.5, math.inf, -math.inf, math.nan,
                  f.max, -f.max, f.tiny, -f.tiny, f.tiny / 2, f.eps, 1 + f.eps, 1 - f.eps / 2, 1e3, -7.0, 6.0,
                  1e-3]  # fmt: skip
        return torch.tensor(listed, dtype=torch.float64).to(dtype)
    i = torch.iinfo(dtype)
    wanted = [0, 1, 2, 3, 5, 7, 8, 31, 63, 100, -1, -2, -3, -7, -8, i.max, i.max - 1, i.min, i.min + 1, i.max // 2 + 1]
    return torch.tensor([v for v in wanted if i.min <= v <= i.max], dtype=dtype)


def _random(dtype: torch.dtype, count: int, generator: torch.Generator) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.randint(2, (count,), generator=generator).bool()
    if dtype.is_floating_point:
        reach = 10 if dtype in (torch.float16, torch.bfloat16) else 30
        scale = torch.exp2(torch.randint(-reach, reach, (count,), generator=generator).double())
        return (torch.randn(count, generator=generator, dtype=torch.float64) * scale).to(dtype)
    i = torch.iinfo(dtype)
    return torch.randint(max(i.min, -(2**62)), min(i.max, 2**62), (count,), generator=generator).to(dtype)


def trials(variables: Sequence[torch.dtype]) -> list[torch.Tensor]:
    """One 1-D tensor for each variable, alike long: combinations of hard values, then random ones."""
    generator = torch.Generator().manual_seed(len(variables))
    pools = [hard_values(d) for d in variables]
    combinations = math.prod(len(p) for p in pools)
    if combinations <= MANY:
        places = torch.meshgrid(*(torch.arange(len(p)) for p in pools), indexing="ij") if pools else ()
        grids = [p[at.reshape(-1)] for p, at in zip(pools, places, strict=True)]
    else:
        grids = [p[torch.randint(len(p), (MANY,), generator=generator)] for p in pools]
    return [torch.cat([g, _random(d, MANY // 2, generator)]) for g, d in zip(grids, variables, strict=True)]


def differing(obligation: Obligation) -> list[tuple[float | int | bool, ...]]:
    """Values of the variables for which eager's bits differ, the most ordinary of each kind first.

    Raises :class:`NotModelled` where the claim cannot be evaluated.
    """
    values = trials(obligation.variables)
    excused: list[torch.Tensor] = []  # elements that eager refuses, as a division by zero
    try:
        apart = bits_differ(
            evaluate(obligation.left, values, excused=excused), evaluate(obligation.right, values, excused=excused)
        )
    except NotModelled:
        raise
    except Exception as error:
        raise NotModelled(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    for mask in excused:
        apart = apart & ~mask
    if not bool(apart.any()):
        return []
    floats = [v for v in values if v.is_floating_point()]
    if not floats:
        return [tuple(v[apart][0].item() for v in values)]
    finite = torch.stack([v.isfinite() for v in floats]).all(0)
    positive = torch.stack([v > 0 for v in floats]).all(0)
    nonzero = torch.stack([v != 0 for v in floats]).all(0)
    no_nan = torch.stack([~v.isnan() for v in floats]).all(0)
    out = []
    for kind in (finite & positive, finite & nonzero, finite, no_nan, torch.ones_like(finite)):
        rows = (apart & kind).nonzero()
        if len(rows):
            out.append(tuple(v[int(rows[0])].item() for v in values))
    return list(dict.fromkeys(out))


def ordinary(values: tuple[float | int | bool, ...]) -> bool:
    """Whether no precondition that a solver may find would exclude them."""
    return all(not isinstance(v, float) or (math.isfinite(v) and v > 0) for v in values)


def rounding_terms(obligation: Obligation) -> int:
    """The longest sum whose roundings a solver would have to follow."""
    nodes = [*walk(obligation.left), *walk(obligation.right)]
    rows = [n for n in nodes if isinstance(n, Op) and n.name in ROWS and n.dtype.is_floating_point]
    return max((len(n.operands) for n in rows if n.name in ("sum", "mean", "prod", "dot")), default=0)


def one_sided_cuts(obligation: Obligation) -> bool:
    """Whether a value that is no argument's enters one side only: its bits cannot be shown equal then."""
    left = {n.number for n in walk(obligation.left) if isinstance(n, Var)}
    right = {n.number for n in walk(obligation.right) if isinstance(n, Var)}
    return any(not obligation.inputs[n] for n in left ^ right)
