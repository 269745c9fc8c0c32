"""How far compiled variances of steady values are from fp64, beside the drift that the reference allows for.

    python bench/welford.py

Prints for ramps and steps of 30 to 20,000 terms, along rows and down columns, the largest error of the
variance and of the mean over the drift of ``fxmorph/judge/reference/welford.py`` (the envelope is three times that, and
more for what rounds at random).  Shapes are dynamic: of small static ones Inductor computes variances in two passes.
"""

from __future__ import annotations

import torch

from fxmorph.judge.reference.welford import drift

UNIT = 2.0**-24
ROWS, OFFSETS = 64, (1, 10, 300, 3000)


def drawn(kind: str, terms: int) -> torch.Tensor:
    """Rows of mean 0 and standard deviation 1, in float64."""
    g = torch.Generator().manual_seed(terms)
    at = (torch.arange(terms, dtype=torch.float64) / terms).expand(ROWS, terms)
    noise = torch.randn(ROWS, terms, generator=g, dtype=torch.float64)
    x = {"ramp": at + 0.01 * noise[:, :1], "steps": (at > 0.5) + 0.1 * noise}[kind]
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def main() -> None:
    torch.set_num_threads(1)
    compiled = torch.compile(lambda x, dim: torch.var_mean(x, dim, correction=0), dynamic=True)
    print("along   values   terms  variance/drift  mean/drift")
    for dim in (1, 0):
        for kind in ("ramp", "steps"):
            for terms in (30, 100, 800, 3000, 20000):
                worst = [0.0, 0.0]
                for offset in OFFSETS:
                    x = (drawn(kind, terms) + offset).float()
                    wide = x.double()
                    squares, mean = drift(wide, [1], UNIT)
                    allowed = (squares / terms, mean)
                    exact = (wide.var(1, correction=0), wide.mean(1))
                    got = compiled(x if dim else x.t().contiguous(), dim)
                    for i in (0, 1):
                        worst[i] = max(worst[i], float(((got[i].double() - exact[i]).abs() / allowed[i]).max()))
                print(f"{'rows' if dim else 'columns':8}{kind:8}{terms:6}{worst[0]:16.2f}{worst[1]:12.2f}")


if __name__ == "__main__":
    main()
