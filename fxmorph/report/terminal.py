"""What people read while a run goes on and when it ends.

On a terminal a live line shows progress and time left; anywhere else plain lines, one per
finding and one of progress about every ten seconds.  ``NO_COLOR`` is honoured.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as LiveProgress
from rich.table import Table
from rich.text import Text

from fxmorph.core.units import PLURALS, UnitKind, kind_of
from fxmorph.events import (
    Asking,
    CaseDone,
    Checked,
    Event,
    FindingMade,
    Progress,
    ProposalJudged,
    RunFinished,
    RunStarted,
    SeedRefused,
    SessionEnded,
    UnitFired,
    Warned,
)
from fxmorph.model import SEVERITY, Finding, Status
from fxmorph.report.conversation import asking_line, outcome_words, session_lines
from fxmorph.report.finding_row import HEADS, finding_row
from fxmorph.triage.folder.issue import not_reduced
from fxmorph.triage.folder.public_threads import known_as, likely_lines

PROGRESS_EVERY_S = 10.0
#: So many of the public issues that a finding may be.
IN_BRIEF = 2
#: Width where the output is no terminal: long enough to keep a recipe readable in a log.
PLAIN_WIDTH = 140

_STYLES: Mapping[str, str] = {
    Status.FINDING: "bold red",
    Status.UNSOUND_REWRITE: "bold magenta",
    Status.ERROR: "red",
    Status.IR_ONLY: "bold yellow",
    Status.KNOWN: "yellow",
    Status.CLEAN: "green",
}


class Reporter(Protocol):
    """Takes events as they come; ``close`` is called once, whatever happened."""

    def handle(self, event: Event) -> None: ...

    def close(self) -> None: ...


class Terminal:
    """Text for people on ``stream``.

    ``quiet`` leaves findings and the last line; ``verbose`` 1 adds cases that are not clean, 2
    all cases.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet: bool = False,
        verbose: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        live = stream.isatty()
        self._console = Console(file=stream, width=None if live else PLAIN_WIDTH, highlight=False, soft_wrap=not live)
        self._quiet = quiet
        self._verbose = verbose
        self._clock = clock
        self._said_progress = clock()
        self._findings: list[FindingMade] = []
        #: Outcomes of the proposals of a session with a language model.
        self._proposed: Counter[str] = Counter()
        self._state = ".fxmorph"
        self._command = "run"
        self._live: LiveProgress | None = None
        if live and not quiet:
            self._live = LiveProgress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[detail]}"),
                console=self._console,
                transient=True,
            )
            self._task = self._live.add_task("starting", total=1.0, detail="")

    def handle(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._started(event)
            case SeedRefused():
                self._say(f"refused {event.seed}: {event.reason}")
            case Warned():
                self._say(f"warning: {event.message}")
            case FindingMade():
                self._found(event)
            case Checked():
                self._checked(event)
            case CaseDone():
                self._case(event)
            case UnitFired():
                self._unit(event)
            case Asking():
                if self._live is not None:
                    self._live.update(self._task, description="asking", detail=asking_line(event))
            case ProposalJudged():
                self._proposed[event.outcome] += 1
            case SessionEnded():
                for line in (*session_lines(event), f"proposals: {outcome_words(self._proposed)}"):
                    self._say(line)
                self._proposed.clear()
            case Progress():
                self._progress(event)
            case RunFinished():
                self._finished(event)

    def close(self) -> None:
        """Take the live line away, so that the terminal is as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, what: str | Text | Table, style: str = "") -> None:
        # Recipes and reasons hold square brackets: they are text, never markup.
        self._console.print(Text(what, style) if isinstance(what, str) else what)

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._print(line)

    def _started(self, event: RunStarted) -> None:
        self._state, self._command = event.state_dir, event.command
        versions = "".join(f", {name} {version}" for name, version in event.versions.items() if name != "torch")
        what = f"fxmorph {event.command} {event.run_id}"
        self._say(f"{what}: seed {event.seed}, torch {event.torch} on {event.device}{versions}")
        rules = f"{_count(event.rules, 'rule')}, " if event.command == "run" else ""
        self._say(
            f"{_count(event.seeds, 'seed')}, {rules}rungs {' '.join(event.rungs)}, {_count(event.jobs, 'worker')}, "
            f"{'until stopped' if event.budget_s is None else f'at most {spell_time(event.budget_s)}'}; "
            f"state in {self._state}"
        )
        for note in event.notes:
            self._say(f"note: {note}")
        if self._live is not None:
            self._live.start()

    def _found(self, event: FindingMade) -> None:
        self._findings.append(event)
        f = event.finding
        if event.duplicate_of:
            if self._verbose:
                self._say(f"duplicate of {event.duplicate_of}: {f.id} {_where(f)}")
            return
        word = f"known ({known_as(f) or event.known})" if event.known else "finding"
        by = f" by {f.recipe}" if f.recipe else " as it is"
        threads = f.config.get("threads", 1)
        by += f" on {threads} threads" if threads > 1 else ""
        style = _STYLES[Status.KNOWN if event.known else Status.FINDING]
        note = f" ({not_reduced(f)})" if not_reduced(f) else ""
        self._print(f"{word} {f.id}: {_where(f)}; {f.seed}{by}: {f.reason}{note}", style)
        for line in likely_lines(f, IN_BRIEF):
            self._say(f"  {line}")

    def _checked(self, event: Checked) -> None:
        # What the exit code may be about is told.
        if self._quiet and event.verdict not in (Status.FINDING, Status.IR_ONLY, Status.ERROR, Status.UNSUPPORTED):
            return
        detail = " ".join(
            filter(None, (",".join(event.kinds), event.stage, event.unit and f"({event.unit})", event.fingerprint))
        )
        line = f"{event.verdict:<12} {event.seed}" + (f"  {detail}" if detail else "")
        self._print(line + (f": {event.reason}" if event.reason else ""), _STYLES.get(event.verdict, ""))

    def _case(self, event: CaseDone) -> None:
        only = event.verdict is Status.IR_ONLY  # it makes the exit code 1, and nothing more is made of it
        if only or self._verbose > 1 or (self._verbose and event.verdict != Status.CLEAN):
            kinds = f" {','.join(event.kinds)}" if event.kinds else ""
            recipe = f" {event.recipe}" if event.recipe else ""
            reason = f": {event.reason}" if event.reason else ""
            self._say(f"case {event.index} {event.verdict}{kinds} {event.seed}{recipe}{reason}")

    def _unit(self, event: UnitFired) -> None:
        if self._verbose > 1 or (self._verbose and event.verdict != Status.CLEAN):
            kinds = f" {','.join(event.kinds)}" if event.kinds else ""
            shown = f"; {event.outcome} {event.level} {event.method}" if event.outcome else ""
            reason = f": {event.reason}" if event.reason else ""
            self._say(f"pair {event.unit} on {event.source} ({event.part}) {event.verdict}{kinds}{shown}{reason}")

    def _progress(self, event: Progress) -> None:
        of = f" of {event.planned}" if event.planned is not None else ""
        findings = _count(event.findings, "finding")
        left = f", {spell_time(event.remaining_s)} left" if isfinite(event.remaining_s) else ""
        rate = f" ({event.done / event.elapsed_s:.1f} a second)" if event.done and event.elapsed_s else ""
        detail = f"{event.done}{of} cases{rate}, {findings}{left}"
        if self._live is not None:
            whole = event.elapsed_s + event.remaining_s
            share = event.elapsed_s / whole if whole else 1.0
            if event.planned:
                share = max(share, event.done / event.planned)
            at_work = f"{event.phase} {event.at_work}".rstrip()
            self._live.update(self._task, completed=min(share, 1.0), description=at_work, detail=detail)
        elif self._clock() - self._said_progress >= PROGRESS_EVERY_S:
            self._said_progress = self._clock()
            self._say(f"{event.phase + ': ' if event.phase else ''}{detail}, {spell_time(event.elapsed_s)} gone")

    def _finished(self, event: RunFinished) -> None:
        self.close()
        if not self._quiet:
            self._tables(event)
        words = [_count(event.cases, "case") + _parts(event)]
        words += [_count(len(event.findings), "finding"), f"{event.known} known"]
        words += [_count(event.duplicates, "duplicate")] if event.duplicates else []
        words += [_count(event.edge_cases, "edge case")] if event.edge_cases else []
        unsettled = ("unconfirmed", "uninvestigated")  # they make the exit code 1 too
        words += [f"{event.counts[what]} {what}" for what in unsettled if event.counts.get(what)]
        report = f"; report: {event.report}" if event.report else ""
        self._print(f"{', '.join(words)} in {spell_time(event.wall_s)}{report} (exit code {event.exit_code})", "bold")

    def _tables(self, event: RunFinished) -> None:
        verdicts = Table("verdict", "cases", title="Cases by verdict", title_justify="left")
        for status in reversed(SEVERITY):
            if event.counts.get(status):
                verdicts.add_row(Text(status.value, _STYLES.get(status, "")), str(event.counts[status]))
        self._print("")
        if verdicts.row_count:
            self._print(verdicts)
        told = [f for f in self._findings if not f.duplicate_of]
        if told:
            self._print("")
            self._print(self._table_of_findings(told))
        passes = event.coverage.get("passes")
        if passes:
            from fxmorph.report.unit_table import summary_lines

            for line in summary_lines(passes):
                self._print(line)
            self._print("`fxmorph coverage` lists the units, and why the others did not fire")
        units = event.coverage.get("units", {})
        if units:
            kinds = Counter(map(kind_of, units))
            fired = ", ".join(f"{kinds[k]} {PLURALS[k]}" for k in UnitKind)
            self._print(f"Units of Inductor that fired: {fired} (`fxmorph coverage` lists them)")
        proofs = event.coverage.get("proofs", {})
        if proofs.get("levels"):
            families = [
                f"{family} {sum(levels.values())} ({', '.join(f'{level} {n}' for level, n in levels.items())})"
                for family, levels in proofs["levels"].items()
            ]
            self._print(f"Rewrites and what is shown of them: {'; '.join(families)}")
            times = ", ".join(f"{what} {ms:g} ms" for what, ms in proofs["median_ms"].items() if ms is not None)
            self._print(f"Median proof: {times}")
        if event.seconds:
            total = sum(event.seconds.values()) or 1.0
            parts = sorted(event.seconds.items(), key=lambda item: -item[1])
            spent = ", ".join(f"{name} {value:.0f} s ({value / total:.0%})" for name, value in parts)
            self._print(f"CPU time: {spent}")
        if self._command == "run":
            self._print(
                f"state in {self._state}; `fxmorph findings` lists, `fxmorph show ID` prints the report of one, "
                "`fxmorph replay ID` runs it again"
            )
        elif event.findings:
            self._print(
                "`fxmorph run PATH` blames and reduces; findings whose fingerprint, the word before the reason, is in "
                "the file of --baseline are known"
            )

    def _table_of_findings(self, told: list[FindingMade]) -> Table:
        """One line each; unit, operators and seed give way first."""
        known = any(made.known for made in told)
        rows = [finding_row(made.finding) for made in told]
        table = Table(title="Findings", title_justify="left")
        table.add_column(HEADS[0], no_wrap=True, min_width=max(len(row[0]) for row in rows))
        table.add_column(HEADS[1], no_wrap=True, overflow="ellipsis", min_width=min(max(len(r[1]) for r in rows), 20))
        for head in HEADS[2:]:
            table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=max(6, self._console.width // 3))
        if known:
            table.add_column("known", no_wrap=True, overflow="ellipsis")
        for made, row in zip(told, rows, strict=True):
            table.add_row(*map(Text, [*row, *([made.known] if known else [])]))
        return table


def _parts(event: RunFinished) -> str:
    """What the cases came to, in parts that add up to them; nothing of a single one."""
    clean = event.counts.get(Status.CLEAN, 0)
    differ = sum(event.counts.get(status, 0) for status in (Status.FINDING, Status.KNOWN, Status.IR_ONLY))
    parts = {"clean": clean, "differ": differ, "neither": event.cases - clean - differ}
    told = ", ".join(f"{number} {what}" for what, number in parts.items() if number)
    return f" ({told})" if event.cases > 1 and min(parts.values()) >= 0 else ""


def spell_time(seconds: float) -> str:
    """``42s``, ``3m 05s`` or ``2h 10m``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _kinds(finding: Finding) -> str:
    return ",".join(finding.kinds)


def _stage(finding: Finding) -> str:
    return finding.stage


def _where(finding: Finding) -> str:
    unit = f" ({finding.unit})" if finding.unit else ""
    return f"{_kinds(finding)} at {finding.stage}{unit}"
