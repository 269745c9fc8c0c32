"""How far single operators are from fp64, eager and compiled: the conformance table.

    python bench/conformance.py [--dtype float32] [--count N] [--device cpu] [OPERATOR ...]

Each operator runs on random values of many magnitudes, on values close to its zeros and on short
tensors, which vector code leaves to scalar code.  Prints, per operator, the largest error of
eager and of compiled code (Inductor) in units of roundoff of the result; and the largest of those
elements whose result is below a quarter, in units of roundoff of 1.  The allowances of ``UNITS`` in
fxmorph/judge/shadow.py stand above these numbers.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F

from fxmorph.judge.shadow import UNIT
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


def worst(got: torch.Tensor, wide: torch.Tensor, dtype: torch.dtype) -> tuple[float, float]:
    """(relative, absolute where the result is small), in units of roundoff."""
    info = torch.finfo(dtype)
    fit = torch.isfinite(wide) & torch.isfinite(got) & (wide.abs() > info.smallest_normal) & (wide.abs() < info.max / 2)
    error = (got.double() - wide).abs() / UNIT[dtype]
    large = fit & (wide.abs() >= 0.25)
    small = fit & (wide.abs() < 0.25)
    relative = (error / wide.abs())[large]
    return float(relative.max()) if relative.numel() else 0.0, float(error[small].max()) if small.any() else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--count", type=int, default=200_000)
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    dtype = getattr(torch, options.dtype)
    names = options.operators or list(UNARY)
    inputs = [UNARY[n][1](real(options.count)).to(dtype).to(options.device) for n in names]

    def program(xs: list[torch.Tensor]) -> list[torch.Tensor]:
        return [UNARY[n][0](x) for n, x in zip(names, xs, strict=True)]

    compiled = torch.compile(program, dynamic=False)
    eager, wide = program(inputs), program([x.double() for x in inputs])
    runs = {"eager": eager, "compiled": compiled(inputs)}
    print(f"units of roundoff of {options.dtype}, {options.device}: relative | absolute below 1/4")
    for k, name in enumerate(names):
        cells = [worst(out[k], wide[k], dtype) for out in runs.values()]
        whole = [
            float(
                ((out[k].double() - wide[k]).abs() / wide[k].abs() / UNIT[dtype])[
                    torch.isfinite(wide[k]) & (wide[k].abs() > 1e-30) & (wide[k].abs() < 1e30) & torch.isfinite(out[k])
                ].max()
            )
            for out in runs.values()
        ]
        text = "   ".join(f"{r:10.3g} | {a:8.3g} | all {w:10.3g}" for (r, a), w in zip(cells, whole, strict=True))
        print(f"{name:16} {text}")


if __name__ == "__main__":
    main()
