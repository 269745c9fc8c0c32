"""What ``fxmorph propose`` prints: a line for each outcome, then the table of outcomes by task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fxmorph.events import Event, ProposalJudged, SessionEnded, Warned
from fxmorph.report.terminal import PLAIN_WIDTH

OUTCOMES = ("admitted", "refuted", "duplicate", "malformed", "unsupported", "unknown")


class ProposalTable:
    """On a terminal a live table of outcomes; elsewhere it is printed once, at the end.

    ``verbose`` adds a line for each proposal as it is decided and, at the end, the refuted ones with
    their counterexamples; ``quiet`` leaves the last line.
    """

    def __init__(self, stream: TextIO, quiet: bool, verbose: bool) -> None:
        width = None if stream.isatty() else PLAIN_WIDTH
        self._console = Console(file=stream, width=width, highlight=False, markup=False, soft_wrap=True)
        self._quiet, self._verbose = quiet, verbose
        self._counts: Counter[tuple[str, str]] = Counter()
        self._levels: Counter[str] = Counter()
        self._refuted: list[ProposalJudged] = []
        #: Units of Inductor that admitted proposals make fire, and how many of these were the first with one of them.
        self._fired: set[str] = set()
        self._first = 0
        self._cached, self._seconds = 0, 0.0
        self._live: Live | None = None
        self._ended: SessionEnded | None = None
        if stream.isatty() and not quiet:
            self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table)
            self._live.start()

    def handle(self, event: Event) -> None:
        if isinstance(event, Warned) and not self._quiet:
            self._console.print(event.message)
        if isinstance(event, SessionEnded):
            self._ended = event
        if not isinstance(event, ProposalJudged):
            return
        self._counts[event.task, event.outcome] += 1
        self._cached += event.cached
        self._seconds += event.seconds
        if event.level:
            self._levels[event.level] += 1
        if event.outcome == "refuted":
            self._refuted.append(event)
        new = [unit for unit in event.fires if unit not in self._fired]
        self._first += bool(new)
        self._fired.update(new)
        if self._verbose and not self._quiet:
            self._console.print(_line(event, len(new)))

    def close(self) -> None:
        """The table, what was refuted, and the line of totals."""
        if self._live is not None:
            self._live.stop()
        elif not self._quiet and self._counts:
            self._console.print(self._table())
        if self._verbose and not self._quiet:
            for event in self._refuted:
                self._console.print(f"REFUTED {event.name} ({event.source}): {event.counterexample}")
        if not self._quiet and self._levels:
            shown = ", ".join(f"{level} {n}" for level, n in self._levels.most_common())
            self._console.print(f"admitted rules by level: {shown}")
        if not self._quiet and self._fired:
            units = f"{len(self._fired)} units of Inductor"
            self._console.print(f"{units} fire by what is admitted; {self._first} proposals add at least one of them")
        if self._ended is not None:
            for line in _session(self._ended):
                self._console.print(line)
        total = sum(self._counts.values())
        said = ", ".join(f"{sum(self._counts[t, o] for t in self._tasks())} {o}" for o in OUTCOMES)
        known = f", {self._cached} of them known before" if self._cached else ""
        self._console.print(f"{total} proposals{known}: {said}; {self._seconds:.0f} CPU seconds")

    def _tasks(self) -> list[str]:
        return sorted({task for task, _ in self._counts})

    def _table(self) -> Table:
        table = Table("task", *OUTCOMES, "all")
        for task in self._tasks():
            row = [self._counts[task, outcome] for outcome in OUTCOMES]
            table.add_row(task, *map(str, row), str(sum(row)))
        return table


def _session(event: SessionEnded) -> Iterator[str]:
    """Requests, what they cost, why there are no more, where the admitted ones are."""
    requests = ", ".join(f"{n} {word}" for word, n in event.requests.items()) or "none"
    lost = f"; {event.given_up} questions got no answer" if event.given_up else ""
    yield f"requests: {requests}{lost}"
    about = "about " if event.estimated else ""
    cost = "cost unknown (--price says what a token costs)" if event.usd is None else f"{about}{event.usd:.4f} USD"
    tokens = f"{about}{event.prompt_tokens} tokens of prompts, {event.answer_tokens} of answers"
    calls = f"{event.calls} {'call' if event.calls == 1 else 'calls'}"
    yield f"{calls}, {tokens}, {cost}, {event.wall_s:.0f} s; ended: {event.reason}"
    yield f"prompts, answers and what was admitted: {event.folder} (fxmorph run corpus/ {event.folder} --propose)"


def _line(event: ProposalJudged, new: int) -> str:
    what = event.level or event.counterexample or event.reason
    what += f" fires {len(event.fires)} units, {new} of them first" * bool(event.fires)
    cached = " (known)" if event.cached else ""
    dropped = "".join(f"\n    dropped {d}" for d in event.dropped)
    return f"{event.outcome:<11} {event.task:<8} {event.name:<40} {what}{cached}{dropped}"
