"""What ``fxmorph propose`` prints: a line for each outcome, then the table of outcomes by task."""

from __future__ import annotations

import time
from collections import Counter
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from fxmorph.core.units import PLURALS, kind_of, matches
from fxmorph.events import Asking, Event, ProposalJudged, SessionEnded, Warned
from fxmorph.model import BugClass
from fxmorph.report.conversation import asking_line, session_lines
from fxmorph.report.terminal import PLAIN_WIDTH

#: What proposals aim at, in the order of the table.
_AIMS = [*BugClass, *PLURALS.values()]
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
        #: By what is aimed at: outcomes, and how many admitted ones make such a unit fire; these by task too.
        self._aims: Counter[tuple[str, str]] = Counter()
        self._reached: Counter[str] = Counter()
        self._of_task: Counter[str] = Counter()
        self._cached, self._seconds = 0, 0.0
        self._live: Live | None = None
        self._ended: SessionEnded | None = None
        self._asking: Asking | None = None
        self._asked_at = 0.0
        if stream.isatty() and not quiet:
            self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._table)
            self._live.start()

    def handle(self, event: Event) -> None:
        if isinstance(event, Warned) and not self._quiet:
            self._console.print(event.message)
        if isinstance(event, Asking):
            self._asking, self._asked_at = event, time.monotonic()
        if isinstance(event, SessionEnded):
            self._asking, self._ended = None, event
        if not isinstance(event, ProposalJudged):
            return
        self._counts[event.task, event.outcome] += 1
        self._cached += event.cached
        self._seconds += event.seconds
        self._count_aim(event)
        if event.level:
            self._levels[event.level] += 1
        if event.outcome == "refuted":
            self._refuted.append(event)
        new = [unit for unit in event.fires if unit not in self._fired]
        self._first += bool(new)
        self._fired.update(new)
        if self._verbose and not self._quiet:
            self._console.print(_line(event, len(new)))

    def _count_aim(self, event: ProposalJudged) -> None:
        if not event.aims:
            return
        aim = event.aims if event.aims in list(BugClass) else PLURALS[kind_of(event.aims)]
        self._aims[aim, event.outcome] += 1
        if aim != event.aims and event.outcome == "admitted":
            reached = any(_is_part(unit, event.aims) for unit in event.fires)
            self._reached[aim] += reached
            self._of_task[event.task] += 1
            self._reached[event.task] += reached

    def close(self) -> None:
        """The table, what was refuted, and the line of totals."""
        if self._live is not None:
            self._live.stop()
        elif not self._quiet and self._counts:
            self._console.print(self._table())
        if not self._quiet and self._aims:
            self._console.print(self._table_of_aims())
        if not self._quiet and self._of_task:
            shown = ", ".join(f"{self._reached[t]} of {n} {t}s" for t, n in sorted(self._of_task.items()))
            self._console.print(f"admitted ones that make a unit fire that they aim at: {shown}")
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
            for line in session_lines(self._ended):
                self._console.print(line)
            use = f"fxmorph run corpus/ {self._ended.folder} --propose"
            self._console.print(f"prompts, answers and what was admitted: {self._ended.folder} ({use})")
        total = sum(self._counts.values())
        if not total and self._ended is None:
            return  # what was wrong is said
        said = ", ".join(f"{sum(self._counts[t, o] for t in self._tasks())} {o}" for o in OUTCOMES)
        known = f", {self._cached} of them known before" if self._cached else ""
        noun = "proposal" if total == 1 else "proposals"
        self._console.print(f"{total} {noun}{known}: {said}; {self._seconds:.0f} CPU seconds")

    def _tasks(self) -> list[str]:
        return sorted({task for task, _ in self._counts})

    def _table(self) -> Table:
        table = Table("task", *OUTCOMES, "all")
        for task in self._tasks():
            row = [self._counts[task, outcome] for outcome in OUTCOMES]
            table.add_row(task, *map(str, row), str(sum(row)))
        if self._asking is not None:
            table.caption = asking_line(self._asking, time.monotonic() - self._asked_at)
        return table

    def _table_of_aims(self) -> Table:
        """Outcomes by bug class, or by kind of the unit that is aimed at."""
        table = Table("aim", *OUTCOMES, "all", "reached", title="By aim", title_justify="left")
        for aim in sorted({aim for aim, _ in self._aims}, key=_AIMS.index):
            row = [self._aims[aim, outcome] for outcome in OUTCOMES]
            reached = f"{self._reached[aim]} of {self._aims[aim, 'admitted']}" if aim in PLURALS.values() else ""
            table.add_row(aim, *map(str, row), str(sum(row)), reached)
        return table


def _is_part(unit: str, aims: str) -> bool:
    """Whether the unit is aimed at, itself or as an entry of the pass."""
    return matches(unit, aims) or matches(unit.partition("/")[0], aims)


def _line(event: ProposalJudged, new: int) -> str:
    what = event.level or event.counterexample or event.reason
    what += f" fires {len(event.fires)} units, {new} of them first" * bool(event.fires)
    cached = " (known)" if event.cached else ""
    dropped = "".join(f"\n    dropped {d}" for d in event.dropped)
    return f"{event.outcome:<11} {event.task:<8} {event.name:<40} {what}{cached}{dropped}"
