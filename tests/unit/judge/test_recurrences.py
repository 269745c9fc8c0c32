"""Polynomials that are computed from degree to degree: what float32 is off by is allowed, and another degree is not."""

from __future__ import annotations

import pytest
import torch

from fxmorph.judge.reference.recurrences import HIGHEST, RECURRENCES, by_recurrence, steps_error
from fxmorph.judge.reference.tables import UNITS

NAMES = [*RECURRENCES, *(n.replace("chebyshev", "shifted_chebyshev") for n in RECURRENCES if "chebyshev" in n)]
ROUNDOFF = 2.0**-24


def points() -> torch.Tensor:
    draw = torch.Generator().manual_seed(0)
    inner, outer, near = (torch.rand(400, generator=draw) for _ in range(3))
    near = (near + 0.01) / 1000  # kernels themselves are off at the ends of the interval
    return torch.cat([inner * 2 - 1, outer * 8 - 4, 1 - near, near])


@pytest.mark.parametrize("degree", [3, 8, 20])
@pytest.mark.parametrize("name", NAMES)
def test_rounding_of_steps_is_allowed_and_another_degree_is_not(name: str, degree: int) -> None:
    kernel = getattr(torch.ops.aten, name)
    x = points()
    exact = kernel(x.double(), degree)
    allowed = ROUNDOFF * (steps_error(name, x.double(), degree, exact) + UNITS.get(name, 0.0) * exact.abs())
    finite = exact.isfinite()
    assert ((kernel(x, degree).double() - exact).abs() <= allowed)[finite].all()
    other = (kernel(x.double(), degree - 1) - exact).abs()
    assert (other > allowed)[finite].float().mean() > 0.9


def test_degrees_may_differ_from_element_to_element() -> None:
    x, degrees = torch.full((3,), 0.5, dtype=torch.float64), torch.tensor([0.0, 2.0, HIGHEST + 1.0])
    none, some, unknown = steps_error("special_legendre_polynomial_p", x, degrees, x)
    assert none == 0 < some and unknown.isnan()
    assert some == steps_error("special_legendre_polynomial_p", 0.5, 2, x)


def test_only_polynomials_are_meant() -> None:
    assert all(map(by_recurrence, NAMES))
    assert not by_recurrence("special_zeta") and not by_recurrence("pow")
