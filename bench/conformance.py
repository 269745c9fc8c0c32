"""How far single operators are from fp64, eager and compiled: the conformance table.

    python bench/conformance.py [--dtype float32] [--device cpu] [--count N] [OPERATOR ...]
    python bench/conformance.py --sums

Each operator runs on random values of many magnitudes and on values close to its zeros.  Prints,
for eager and for compiled code (Inductor), the largest error in units of roundoff of the result;
the same of results above 1/4; and the largest of those below, in units of roundoff of 1.

``--sums``: the error of adding float32 numbers one after the other, by their count: of numbers
that are uniform in [0.5, 1.5), and of equal ones.

The amplitudes in fxmorph/judge (``UNITS``, ``SUM_UNITS``, ``REPEATED_UNITS``) stand above
these numbers; docs/conformance.md has them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F

from fxmorph.judge.reference.precision import UNIT
from fxmorph.torchapi.compiling import quiet

Unary = Callable[[torch.Tensor], torch.Tensor]


def real(count: int) -> torch.Tensor:
    """Both signs, 2^-20 to 2^6, and around small multiples of pi / 2 and of 1."""
    g = torch.Generator().manual_seed(0)
    magnitude = torch.exp2(torch.rand(count, generator=g, dtype=torch.float64) * 26 - 20)
    sign = torch.randint(0, 2, (count,), generator=g) * 2 - 1
    steps = torch.arange(-16, 17, dtype=torch.float64)
    offsets = torch.exp2(-torch.arange(2, 24, dtype=torch.float64))
    near = (steps[:, None] * torch.tensor([torch.pi / 2, 1.0], dtype=torch.float64)).reshape(-1, 1)
    return torch.cat([magnitude * sign, (near * (1 + offsets)).flatten(), (near * (1 - offsets)).flatten()])


def positive(x: torch.Tensor) -> torch.Tensor:
    return x.abs() + 2.0**-30


def unit(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.abs() < 1, x, 1 / (x.abs() + 2.0**-20) * x.sign()) * 0.999


def anything(x: torch.Tensor) -> torch.Tensor:
    return x


def above_one(x: torch.Tensor) -> torch.Tensor:
    return 1 + x.abs()


#: The call and the map from any real values into its domain.
UNARY: dict[str, tuple[Unary, Unary]] = {
    "exp": (torch.exp, anything),
    "exp2": (torch.exp2, anything),
    "expm1": (torch.expm1, anything),
    "log": (torch.log, positive),
    "log2": (torch.log2, positive),
    "log10": (torch.log10, positive),
    "log1p": (torch.log1p, lambda x: torch.where(x > -0.999, x, -0.999 / x.abs().clamp(min=1))),
    "sqrt": (torch.sqrt, positive),
    "rsqrt": (torch.rsqrt, positive),
    "reciprocal": (torch.reciprocal, anything),
    "sin": (torch.sin, anything),
    "cos": (torch.cos, anything),
    "tan": (torch.tan, anything),
    "asin": (torch.asin, unit),
    "acos": (torch.acos, unit),
    "atan": (torch.atan, anything),
    "sinh": (torch.sinh, anything),
    "cosh": (torch.cosh, anything),
    "tanh": (torch.tanh, anything),
    "asinh": (torch.asinh, anything),
    "acosh": (torch.acosh, above_one),
    "atanh": (torch.atanh, unit),
    "erf": (torch.erf, anything),
    "erfc": (torch.erfc, anything),
    "erfinv": (torch.erfinv, unit),
    "sigmoid": (torch.sigmoid, anything),
    "logit": (torch.logit, lambda x: unit(x).abs()),
    "silu": (F.silu, anything),
    "gelu": (F.gelu, anything),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), anything),
    "softplus": (F.softplus, anything),
    "mish": (F.mish, anything),
    "elu": (F.elu, anything),
    "log_sigmoid": (F.logsigmoid, anything),
    "hardswish": (F.hardswish, anything),
    "lgamma": (torch.lgamma, anything),
    "digamma": (torch.digamma, positive),
    "pow2": (lambda x: x.pow(2), anything),
    "pow3": (lambda x: x.pow(3), anything),
    "pow0.5": (lambda x: x.pow(0.5), positive),
    "pow-0.5": (lambda x: x.pow(-0.5), positive),
    "pow-1": (lambda x: x.pow(-1), anything),
    "pow2.7": (lambda x: x.pow(2.7), positive),
    "pow-1.3": (lambda x: x.pow(-1.3), positive),
    "2**x": (lambda x: 2.0**x, anything),
    "0.7**x": (lambda x: 0.7**x, anything),
    "x**flip(x)": (lambda x: x ** (x.flip(0) / 16), positive),
    "atan2": (lambda x: torch.atan2(x, x.flip(0)), anything),
    "hypot": (lambda x: torch.hypot(x, x.flip(0)), anything),
    "div": (lambda x: x / x.flip(0), anything),
    "div by a number": (lambda x: x / 3.3, anything),
    "lerp": (lambda x: torch.lerp(x, x.abs() * 2, 0.3), anything),
    "logaddexp": (lambda x: torch.logaddexp(x, x.flip(0)), anything),
}


def worst(got: torch.Tensor, wide: torch.Tensor, dtype: torch.dtype) -> tuple[float, float, float]:
    """In units of roundoff: relative, of all and of large results, and absolute of small ones."""
    least, most = torch.finfo(dtype).smallest_normal, torch.finfo(dtype).max
    fit = torch.isfinite(got) & (wide.abs() > least * 2.0**20) & (wide.abs() < most * 2.0**-20)
    error, size = (got.double() - wide).abs()[fit] / UNIT[dtype], wide.abs()[fit]

    def largest(t: torch.Tensor) -> float:
        return float(t.max()) if t.numel() else 0.0

    large = size >= 0.25
    return largest(error / size), largest((error / size)[large]), largest(error[~large])


def print_sums(rows: int = 1 << 15) -> None:
    g = torch.Generator().manual_seed(0)
    print("terms: ulps and units of roundoff, largest and RMS, of random terms; units of equal terms, largest")
    for terms in (8, 32, 64, 128, 256, 1024, 4096):
        random = (torch.rand(terms, rows, generator=g, dtype=torch.float64) + 0.5).float()
        equal = random[:1].expand_as(random)
        cells = []
        for values in (random, equal):
            total, wide = torch.zeros(rows), values.double().sum(0)
            for row in values:
                total = total + row
            error = (total.double() - wide).abs()
            ulps = error / torch.exp2(wide.log2().floor()) * 2.0**23
            units = error / wide * 2.0**24
            cells.append((float(ulps.max()), float(units.max()), float(units.square().mean().sqrt())))
        (ulps_, most, usual), (_, of_equal, _) = cells
        print(f"{terms:6}: {ulps_:8.3g} {most:8.3g} {usual:8.3g} | {of_equal:8.3g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--sums", action="store_true")
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    if options.sums:
        print_sums()
        return
    dtype = getattr(torch, options.dtype)
    names = options.operators or list(UNARY)
    inputs = [UNARY[n][1](real(options.count)).to(dtype).to(options.device) for n in names]

    def program(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [UNARY[n][0](x) for n, x in zip(names, xs, strict=True)]

    compiled = torch.compile(program, dynamic=False)
    eager, wide = program(inputs), program([x.double() for x in inputs])
    runs = {"eager": eager, "compiled": compiled(inputs)}
    print("units of roundoff: relative | relative above 1/4 | absolute below")
    for k, name in enumerate(names):
        cells = [worst(out[k], wide[k], dtype) for out in runs.values()]
        text = "   ".join(f"{way} {a:9.3g} | {b:6.3g} | {c:6.3g}" for way, (a, b, c) in zip(runs, cells, strict=True))
        print(f"{name:16} {text}")


if __name__ == "__main__":
    main()
