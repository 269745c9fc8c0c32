"""What people read of proposals: the tables, the meter of a session, its end; in ``fxmorph run`` too."""

from __future__ import annotations

import io

import pytest

from fxmorph.events import Asking, Event, ProposalJudged, SessionEnded, Warned
from fxmorph.report.conversation import asking_line
from fxmorph.report.gate_table import ProposalTable
from fxmorph.report.terminal import Terminal

PASS, ENTRY = "post_grad.remove_noop_ops", "post_grad.pass_patterns[1]/pointless_cumsum_replacement"
ENDED = SessionEnded(
    "spent", "3 of 3 calls are made", {"answered": 2, "time-out": 1}, 1, 3, 900, 80, False, 0.25, 4.5, "f", left=2
)


def proposal(outcome: str, aims: str, task: str = "seed", fires: tuple[str, ...] = ()) -> ProposalJudged:
    return ProposalJudged(task, "a", "pack:1", outcome, fires=fires, aims=aims)


def printed(*events: Event, quiet: bool = False) -> str:
    stream = io.StringIO()
    table = ProposalTable(stream, quiet, False)
    for event in events:
        table.handle(event)
    table.close()
    return stream.getvalue()


def test_outcomes_are_counted_by_aim_and_what_reaches_it() -> None:
    said = printed(
        proposal("admitted", PASS, fires=(PASS, "lowering.aten.add.Tensor")),
        proposal("admitted", "post_grad.*", fires=("joint.remove_noop_ops",)),
        proposal("admitted", "post_grad.pass_patterns[1]", fires=(ENTRY,)),
        proposal("refuted", PASS),
        proposal("admitted", ENTRY, "rule", (ENTRY,)),
        proposal("admitted", "bam"),
        proposal("malformed", ""),
    )
    rows = {row.split("│")[1].strip(): row.split("│")[2:-1] for row in said.splitlines() if row.startswith("│")}
    counted = {aim: [cell.strip() for cell in cells] for aim, cells in rows.items()}
    assert counted["passes"] == ["3", "1", "0", "0", "0", "0", "4", "2 of 3"]
    assert counted["pattern entries"] == ["1", "0", "0", "0", "0", "0", "1", "1 of 1"]
    assert counted["bam"] == ["1", "0", "0", "0", "0", "0", "1", ""]
    assert "admitted ones that make a unit fire that they aim at: 1 of 1 rules, 2 of 3 seeds" in said


def test_nothing_is_counted_where_nothing_came() -> None:
    assert printed() == printed(quiet=True) == ""
    assert printed(Warned("no proposal of task any in p")) == "no proposal of task any in p\n"


def test_the_end_of_a_session() -> None:
    said = printed(ENDED)
    assert "1 question got no answer" in said and "2 proposals not decided in time" in said
    assert "0.2500 USD, 4 s; ended: 3 of 3 calls are made" in said and "0 proposals" in said


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            Asking("m", 4, 3, 20, 9000, True, 0.01, 80.0),
            "m: calls 3 of 20 (4 out), about 9000 tokens, about 0.0100 USD, 77 s left",
        ),
        (Asking("m", 1, 1, None, 90, False, None, None), "m: calls 1 (1 out), 90 tokens"),
    ],
)
def test_the_meter(event: Asking, line: str) -> None:
    assert asking_line(event, seconds_gone=3.0) == line


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_meter_while_a_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Screen()
    table = ProposalTable(screen, False, False)
    table.handle(Asking("m", 1, 1, 20, 90, False, None, None))
    table.handle(proposal("admitted", "bam"))
    assert table._live is not None
    table._live.refresh()
    assert "m: calls 1 of 20 (1 out), 90 tokens" in " ".join(screen.getvalue().split())
    table.handle(ENDED)
    table.close()


def test_a_run_tells_how_its_sessions_ended() -> None:
    stream = io.StringIO()
    terminal = Terminal(stream)
    for event in (proposal("admitted", "bam"), proposal("refuted", "bam"), proposal("admitted", "kc"), ENDED, ENDED):
        terminal.handle(event)
    terminal.close()
    said = stream.getvalue()
    assert "requests: 2 answered, 1 time-out; 1 question got no answer\n" in said
    assert "ended: 3 of 3 calls are made\n" in said
    assert said.index("proposals: 2 admitted, 1 refuted\n") < said.index("proposals: no proposals\n")
