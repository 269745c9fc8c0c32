"""Cases as rows: the worst first, and counted by seed."""

from __future__ import annotations

from fxmorph.report.case_rows import MOST_CASES, CaseRow, by_seed, worst_first


def row(number: int, verdict: str, seed: str = "a.py") -> CaseRow:
    return CaseRow("run", number, verdict, "", "cpu", "", seed, "", "")


def test_what_differs_comes_first_and_equals_stay_in_order() -> None:
    rows = [row(0, "clean"), row(1, "skipped"), row(2, "finding"), row(3, "clean"), row(4, "finding")]
    assert [r.number for r in worst_first(rows)] == [2, 4, 1, 0, 3]


def test_of_many_cases_the_clean_ones_are_left_out_first() -> None:
    rows = [*(row(i, "clean") for i in range(MOST_CASES)), row(MOST_CASES, "tie")]
    listed = worst_first(rows)
    assert (len(listed), listed[0].verdict) == (MOST_CASES, "tie")


def test_seeds_have_their_verdicts_counted() -> None:
    counts = by_seed([row(0, "clean"), row(1, "finding"), row(2, "clean", "b.py"), row(3, "clean")])
    assert counts == {"a.py": {"clean": 2, "finding": 1}, "b.py": {"clean": 1}}
