"""One slot against eager and the lanes of the reference run."""

from __future__ import annotations

import pytest
import torch

from fxmorph.judge.numeric import NonFinite, compare
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.model import Kind, Status
from fxmorph.programs.bits import same_bits

NAN, INF = float("nan"), float("inf")


def judge(
    eager: list[float], compiled: list[float], wide: list[float] | None = None, dtype: torch.dtype = torch.float32,
    spread: float = 0.0, inputs: NonFinite = NonFinite.NONE, gates: Gates | None = None,
) -> tuple[Status, Kind]:  # fmt: skip
    e, c = torch.tensor(eager, dtype=dtype), torch.tensor(compiled, dtype=dtype)
    w = torch.tensor(eager if wide is None else wide, dtype=torch.float64)
    w = w if dtype.is_floating_point else w.to(dtype)
    lanes = {"wide": w, "cast": w}
    if spread:
        lanes |= {"wide:0": w + spread, "cast:0": w + spread}
    got = compare(e, c, Shadows(e.clone(), lanes), gates or Gates(exact=False), inputs)
    return got.status, got.kind


def test_bits_are_compared_with_nan_equal_and_zeros_apart() -> None:
    assert same_bits(torch.tensor([NAN, 1.0]), torch.tensor([NAN, 1.0]))
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64))
    assert not same_bits(torch.tensor([1.0]), torch.tensor([1.0, 1.0]))
    assert same_bits(torch.tensor([1 + 2j]), torch.tensor([1 - 2j]).conj())


def test_within_the_envelope_is_clean_and_beyond_is_not() -> None:
    assert judge([1.0], [1.0001], spread=1e-4)[0] is Status.CLEAN
    assert judge([1.0], [1.01], spread=1e-4) == (Status.FINDING, Kind.VALUE)


def test_closer_to_fp64_than_eager_is_clean_where_eager_is_inside_its_envelope() -> None:
    assert judge([1.0003], [1.0], wide=[1.0], spread=1e-4)[0] is Status.CLEAN


def test_eagers_own_error_is_allowed_a_few_times() -> None:
    assert judge([1.001], [0.997], wide=[1.0])[0] is not Status.FINDING
    assert judge([1.001], [0.9], wide=[1.0])[0] is Status.FINDING


def test_a_little_more_than_eagers_own_error_is_no_finding_where_that_is_near_the_end_of_the_envelope() -> None:
    # Three times the spread is allowed, and somewhat more beside an error of eager's that needs it all.
    assert judge([1.00029], [1.00031], wide=[1.0], spread=1e-4)[0] is Status.CLEAN
    assert judge([1.00029], [1.0005], wide=[1.0], spread=1e-4) == (Status.FINDING, Kind.VALUE)
    assert judge([1.00001], [1.00031], wide=[1.0], spread=1e-4) == (Status.FINDING, Kind.VALUE)


@pytest.mark.parametrize("compiled", [1.0, 1.02, 1.0501, 0.97])
def test_where_eager_lies_outside_its_envelope_nothing_is_clean(compiled: float) -> None:
    assert judge([1.05], [compiled], wide=[1.0], spread=1e-4)[0] is Status.INCONCLUSIVE
    assert judge([2.0, 1.05], [2.00001, compiled], wide=[2.0, 1.0], spread=1e-4)[0] is Status.INCONCLUSIVE


def test_elements_of_equal_bits_excuse_nothing_and_accuse_nothing() -> None:
    assert judge([2.0, 1.05], [2.00001, 1.05], wide=[2.0, 1.0], spread=1e-4)[0] is Status.CLEAN


def test_kernels_of_16_bit_that_round_inside_are_off_by_units_of_the_whole() -> None:
    eager, wide = [1.0, 0.001], [1.0, 0.01]
    assert judge(eager, [1.0, 0.02], wide=wide, dtype=torch.bfloat16)[0] is Status.CLEAN
    assert judge(eager, [1.0, 0.02], wide=wide)[0] is Status.INCONCLUSIVE
    assert judge([1.0, 0.1], [1.0, 0.15], wide=wide, dtype=torch.bfloat16)[0] is Status.INCONCLUSIVE


def spread_around(wide: float, off: list[float], compiled: float) -> Status:
    """The verdict on a value that eager has right, with perturbed lanes ``off`` it."""
    e = torch.tensor([wide, wide])
    w = e.double()
    lanes = {"wide": w, "cast": w} | {f"{kind}:{k}": w + d for kind in ("wide", "cast") for k, d in enumerate(off)}
    return compare(e, torch.tensor([compiled, compiled]), Shadows(e, lanes), Gates(exact=False)).status


def test_lanes_that_are_all_off_the_same_way_are_no_rounding() -> None:
    assert spread_around(1.0, [0.03, 0.03, 0.031, 0.03], 1.03) is Status.ILL_CONDITIONED
    assert spread_around(1.0, [-0.03, 0.03, 0.03, -0.03], 1.03) is Status.CLEAN
    assert spread_around(1.0, [0.0, 0.0, 0.0, 0.03], 1.03) is Status.CLEAN  # one decides otherwise
    assert spread_around(1.0, [1e-6, 1e-6, 1e-6, 1e-6], 1.000001) is Status.CLEAN  # of squares of roundings


def test_a_wide_envelope_is_ill_conditioned() -> None:
    assert judge([1.0], [9.0], spread=0.5)[0] is Status.ILL_CONDITIONED


def test_a_bound_that_says_nothing_is_not_clean() -> None:
    assert judge([1.0], [1.5], spread=0.5)[0] is Status.ILL_CONDITIONED
    assert judge([1.0, 0.001], [1.0, 0.002], spread=0.5)[0] is Status.CLEAN  # a small element among large ones
    assert judge([1e-8], [3e-8], wide=[1e-17], spread=1e-8)[0] is Status.CLEAN  # noise in eager too
    assert judge([1.0], [1.03], spread=NAN)[0] is Status.ILL_CONDITIONED
    assert judge([1.0], [1.0000001], spread=NAN)[0] is Status.CLEAN


def test_one_good_element_among_ill_conditioned_ones_still_counts() -> None:
    e = torch.tensor([1.0, 1.0])
    w = e.double()
    lanes = {"wide": w, "cast": w, "wide:0": w + torch.tensor([0.5, 0.0]), "cast:0": w + torch.tensor([0.5, 0.0])}
    got = compare(e, torch.tensor([9.0, 1.1]), Shadows(e, lanes), Gates(exact=False))
    assert got.status is Status.FINDING


def test_nonfinite_values_by_dtype_and_inputs() -> None:
    assert judge([1.0], [NAN]) == (Status.FINDING, Kind.NONFINITE)
    assert judge([1.0], [INF]) == (Status.FINDING, Kind.NONFINITE)
    assert judge([INF], [60000.0], wide=[60000.0], dtype=torch.float16)[0] is Status.EXPECTED
    assert judge([1.0], [NAN], inputs=NonFinite.ANY) == (Status.FINDING, Kind.NONFINITE)
    assert judge([NAN], [INF], wide=[INF], inputs=NonFinite.ANY)[0] is Status.EDGE_CASE  # compiled is right
    assert judge([INF], [-INF], wide=[INF])[0] is Status.EDGE_CASE
    assert judge([INF], [1.0], wide=[1.0])[0] is Status.INCONCLUSIVE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_short_range_does_not_explain_everything(dtype: torch.dtype) -> None:
    wrong = (Status.FINDING, Kind.NONFINITE)
    assert judge([0.04], [NAN], dtype=dtype) == wrong
    assert judge([0.04], [INF], dtype=dtype) == wrong
    assert judge([NAN], [1.0], wide=[NAN], dtype=dtype) == wrong
    assert judge([NAN], [1.0], wide=[1.0], dtype=dtype)[0] is Status.EXPECTED
    assert judge([-INF], [NAN], dtype=dtype) == wrong  # the logarithm of nothing
    assert judge([NAN], [INF], dtype=dtype) == wrong
    assert judge([INF], [60000.0], dtype=dtype) == wrong
    assert judge([INF], [NAN], wide=[60000.0], dtype=dtype)[0] is Status.EXPECTED
    near = torch.finfo(dtype).max * 0.9
    assert judge([near], [INF], dtype=dtype)[0] is Status.EXPECTED
    assert judge([0.04], [NAN], dtype=dtype, gates=Gates(exact=False, overflow=True))[0] is Status.EXPECTED


def test_another_order_of_equal_elements_makes_no_nan() -> None:
    e = torch.tensor([1.0, 2.0])
    w = e.double()
    for other, compiled, status in (
        ([2.0, 1.0], [NAN, 2.0], Status.FINDING),
        ([2.0, NAN], [NAN, 2.0], Status.TIE),
        ([2.0, 1.0], [2.0, -INF], Status.FINDING),
        ([2.0, -INF], [-INF, 2.0], Status.TIE),
    ):
        lanes = {"wide": w, "cast": w, "tie:+": torch.tensor(other).double(), "tie:-": w}
        got = compare(e, torch.tensor(compiled), Shadows(e, lanes), Gates(exact=False))
        assert got.status is status, (other, compiled)


def test_an_element_that_is_excused_excuses_no_other() -> None:
    wrong = (Status.FINDING, Kind.VALUE)
    assert judge([INF, 1.0], [-INF, 1.5], wide=[INF, 1.0]) == wrong
    assert judge([INF, 1.0], [60000.0, 1.5], wide=[60000.0, 1.0], dtype=torch.float16) == wrong
    assert judge([INF, 1.0], [-INF, 1.0], wide=[INF, 1.0])[0] is Status.EDGE_CASE
    assert judge([INF, 1.0], [-INF, 1.0 + 2**-23], wide=[INF, 1.0])[0] is Status.EDGE_CASE


@pytest.mark.parametrize(
    "tie, status", [([0.0, NAN, 1.0], Status.TIE), ([2.0, 0.0, 1.0], Status.TIE), ([NAN, 0.0, 2.0], Status.FINDING)]
)
def test_where_equal_elements_lead_nan_may_be(tie: list[float], status: Status) -> None:
    """What an order of equal elements leads to is no finding; that of another element says nothing."""
    e, c = torch.tensor([NAN, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0])
    wide = e.double()
    lanes = {"wide": wide, "cast": wide, "tie:0": torch.tensor(tie, dtype=torch.float64)}
    assert compare(e, c, Shadows(e, lanes), Gates(exact=False)).status is status


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("equals, wrong, status", [(3, 2, Status.TIE), (0, 2, Status.FINDING), (3, 3, Status.FINDING)])
def test_few_elements_beside_those_that_an_order_changes(exact: bool, equals: int, wrong: int, status: Status) -> None:
    """Of a matrix of pairs of sorted elements few lanes have all that the orders of equal ones make."""
    e = torch.arange(16.0)
    wide = e.double()
    lanes = {"wide": wide, "cast": wide, "tie:0": torch.cat([wide[:8] + 1, wide[8:]])}
    c = torch.cat([e[: 16 - wrong], e[16 - wrong :] + 1])
    assert compare(e, c, Shadows(e, lanes), Gates(exact=exact, equals=equals)).status is status


def test_nonfinite_inputs_excuse_nothing() -> None:
    for inputs in NonFinite:
        assert judge([0.0, 1.0], [0.0, 1.5], inputs=inputs) == (Status.FINDING, Kind.VALUE)
        assert judge([NAN, 1.0], [0.0, 1.0], wide=[NAN, 1.0], inputs=inputs) == (Status.FINDING, Kind.NONFINITE)


def test_complex_numbers_of_inf_and_nan_are_nobodys_promise() -> None:
    one = {"wide": torch.tensor([complex(1.0, 1.0)], dtype=torch.complex128)}
    e, c = torch.tensor([complex(1.0, 1.0)]), torch.tensor([complex(1.0, NAN)])
    for inputs, status in ((NonFinite.NONE, Status.FINDING), (NonFinite.ANY, Status.EDGE_CASE)):
        assert compare(e, c, Shadows(e, one), Gates(exact=False), inputs).status is status


def test_only_the_sign_of_zero_is_an_edge_case() -> None:
    assert judge([0.0, 1.0], [-0.0, 1.0])[0] is Status.EDGE_CASE


def test_exact_arithmetic_has_no_tolerance() -> None:
    assert judge([8.0], [8.000001], spread=1.0, gates=Gates(exact=True))[0] is Status.FINDING


def test_integers_differ_or_tie() -> None:
    assert judge([3, 4], [3, 5], dtype=torch.int64)[0] is Status.FINDING
    assert judge([3, 4], [3, 5], wide=[3, 5], dtype=torch.int64)[0] is Status.TIE
    assert judge([3, 4], [4, 5], wide=[3, 5], dtype=torch.int64)[0] is Status.FINDING
    assert judge([3], [4], dtype=torch.int64, gates=Gates(exact=False, blind={"x"}))[0] is Status.INCONCLUSIVE


def test_without_a_reference_nothing_is_accused() -> None:
    for dtype in (torch.float32, torch.int64):
        a, b = torch.tensor([1], dtype=dtype), torch.tensor([2], dtype=dtype)
        assert compare(a, b, None, Gates(exact=False)).status is Status.INCONCLUSIVE


def test_eager_that_changed_is_skipped() -> None:
    e = torch.tensor([1.0])
    shadows = Shadows(torch.tensor([2.0]), {"wide": torch.tensor([1.0], dtype=torch.float64)})
    assert compare(e, torch.tensor([3.0]), shadows, Gates()).status is Status.SKIPPED


@pytest.mark.parametrize("part", [1 + 2j, 2 + 1j])
def test_complex_values_are_judged_by_their_parts(part: complex) -> None:
    e, c = torch.tensor([1 + 1j]), torch.tensor([part])
    w = e.to(torch.complex128)
    got = compare(e, c, Shadows(e, {"wide": w, "cast": w}), Gates(exact=False))
    assert got.status is Status.FINDING
