"""What ``fxmorph check-pass`` prints of many graphs."""

from __future__ import annotations

import io
from dataclasses import replace

from fxmorph.events import PairJudged
from fxmorph.model import Kind, Level, Status
from fxmorph.report.pair_lines import PairLines

RIGHT = PairJudged(
    "passes.py:fold", "made: add", "post_grad", "made", 3, True, Status.CLEAN, (), "", "", Level.TESTED, "", (), "", (),
    "", (), "",
)  # fmt: skip
WRONG = replace(
    RIGHT, seed="made: add, alpha=2", verdict=Status.FINDING, kinds=(Kind.VALUE,), reason="out0: 4 of 4 elements",
    changes=("- %add = aten.add.Tensor(%x, %y, alpha=2)", "+ %sum = aten.add.Tensor(%x, %y)"), reproduce="one.py",
)  # fmt: skip


def said(*events: PairJudged, verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    lines = PairLines(stream, quiet=False, verbose=verbose)
    for event in events:
        lines.handle(event)
    return stream.getvalue().splitlines()


def test_a_finding_like_one_before_is_one_line() -> None:
    again = replace(WRONG, seed="made: mul > add", reason="out0: 2 of 2 elements", reproduce="two.py")
    lines = said(WRONG, again)
    assert sum(line.startswith("WRONG ") for line in lines) == 1
    assert lines[-1] == "  WRONG as on made: add, alpha=2: out0: 2 of 2 elements; show it again: python two.py"


def test_another_difference_or_other_calls_are_another_finding() -> None:
    dtype = replace(WRONG, kinds=(Kind.DTYPE,))
    calls = replace(WRONG, changes=("- %mul = aten.mul.Tensor(%x, %y)",))
    assert sum(line.startswith("WRONG ") for line in said(WRONG, dtype, calls)) == 3


def test_right_graphs_that_were_not_to_be_proved_are_told_when_asked() -> None:
    assert said(RIGHT) == []
    assert len(said(RIGHT, verbose=True)) == 1
    assert "proved BIT_EXACT" in said(replace(RIGHT, outcome="proved", level=Level.BIT_EXACT, method="TERM"))[0]
