"""What a report shows, gathered from the state folders of any number of runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from fxmorph.core.exhibit import Exhibit, GraphPair
from fxmorph.core.finding_parts import NOBODY, Blame
from fxmorph.core.said import cut
from fxmorph.core.store import Store, StoredRun
from fxmorph.core.united import United, united
from fxmorph.model import SEVERITY, CaseResult, Finding, Recipe, Status
from fxmorph.report.case_rows import CaseRow, by_seed, case_row, worst_first
from fxmorph.report.yields import Point, Yields
from fxmorph.triage.folder.graph_files import exhibit_of

#: Verdicts that say why something was not judged to the end.
_UNDECIDED = (Status.INCONCLUSIVE, Status.SKIPPED, Status.UNSUPPORTED, Status.ERROR, Status.ILL_CONDITIONED)
#: The column of cases whose compile a unit took part in, whatever came of them.
FIRED = "fired in"
#: Reasons listed of what was not judged, rows of a matrix, and characters of a file that is shown.
MOST_REASONS, MOST_ROWS, MOST_FILE = 30, 120, 40_000


@dataclass(frozen=True)
class Run:
    """One run; ``counts`` are cases by verdict, ``seconds`` CPU seconds by activity, ``wall_s`` wall seconds.

    ``found`` are ids of findings, ``clean`` seed and recipe of the programs that it judged and found right.
    """

    id: str
    state: str
    started: datetime
    finished: bool
    torch: str
    device: str
    seed: int
    paths: tuple[str, ...]
    cases: int
    counts: Mapping[str, int]
    rungs: Mapping[str, int]
    seconds: Mapping[str, float]
    wall_s: float
    found: frozenset[str]
    clean: frozenset[tuple[str, str]]
    coverage: Mapping[str, Any]


@dataclass(frozen=True)
class Card:
    """A finding with all that is shown of it; ``files`` are the texts in its folder by name."""

    finding: Finding
    state: str
    folder: Path
    exhibit: Exhibit
    files: Mapping[str, str]
    runs: tuple[str, ...]
    duplicates: int

    @property
    def known(self) -> str:
        return self.finding.known

    @property
    def blame(self) -> Blame:
        return self.finding.blame or NOBODY


@dataclass(frozen=True)
class Matrix:
    """Counts: one row a unit or a family of rules, one column a verdict."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, Mapping[str, int]], ...]
    left_out: int = 0


@dataclass(frozen=True)
class Report:
    """Everything on the page."""

    runs: tuple[Run, ...]
    cards: tuple[Card, ...]
    units: Matrix
    outcomes: Matrix
    families: Matrix
    reasons: tuple[tuple[str, str, int], ...]
    #: Programs that were judged, as far as they are listed, and how many there are.
    cases_listed: tuple[CaseRow, ...]
    programs: int
    seeds: Matrix
    yields: Mapping[str, Sequence[Point]]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(run.cases for run in self.runs)

    def total(self, of: str) -> dict[str, Any]:
        """``counts``, ``rungs`` or ``seconds`` of all runs together, largest first."""
        sums: Counter[str] = Counter()
        for run in self.runs:
            sums.update(getattr(run, of))
        return dict(sums.most_common())


def collect(states: Sequence[Path], only: Collection[str] | None = None) -> Report:
    """Runs of all state folders, oldest first, or those with the ids of ``only``.

    A finding that several runs made is one card, as it was last recorded.  Raises ``StoreError`` where a folder holds
    no state.
    """
    gathered = _Gathered()
    with united(states) as runs:
        for store, run in runs.runs:
            if only is None or run.id in only:
                gathered.add(runs, store, run)
        return gathered.report()


class _Gathered:
    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.findings: dict[str, tuple[Finding, Path, Path]] = {}
        self.found_by: defaultdict[str, list[str]] = defaultdict(list)
        self.duplicates: Counter[str] = Counter()
        self.units: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.families: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.rows: list[CaseRow] = []
        self.yields = Yields()
        self.refused: dict[str, str] = {}

    def add(self, runs: United, store: Store, run: StoredRun) -> None:
        found, blamed = [], {}
        for placed in runs.findings(run.id):
            finding = placed.finding
            blamed[finding.case_id] = finding.unit
            if placed.duplicate_of:
                self.duplicates[placed.duplicate_of] += 1
                continue
            found.append(finding.id)
            self.findings[finding.id] = finding, store.path, placed.folder
            self.found_by[finding.id].append(run.id)
            if finding.unit_case is None:  # those of the pass rung are in its own table
                verdict = Status.KNOWN if finding.known else Status.FINDING
                self.units[finding.unit or f"({finding.stage}: no unit named)"][verdict.value] += 1
        judged = store.cases(run.id)
        for number, case, result in judged:
            self._count(result)
            self.rows.append(case_row(run.id, number, case, result, blamed.get(result.case_id, "")))
            seconds = sum(used for _, used in result.seconds)
            self.yields.add(case.rung.value, seconds, result.fired, [result.status])
        for _, source in store.passes(run.id):
            pairs = source.get("pairs") or []
            fired = [pair["unit"] for pair in pairs if pair.get("fired")]
            statuses = [Status(pair["status"]) for pair in pairs]
            self.yields.add("pass", float(source.get("seconds") or 0.0), fired, statuses)
        cases = [(case.seed.label, result) for _, case, result in judged]
        self.refused |= store.refusals(run.id)
        passes = (run.summary.get("coverage") or {}).get("passes") or {}
        for unit, row in (passes.get("units") or {}).items():
            self.units[unit].update(row.get("verdicts") or {})
            self.outcomes[unit].update(row.get("outcomes") or {})
        self.runs.append(_run(store, run, cases, frozenset(found)))

    def _count(self, result: CaseResult) -> None:
        families = {"(seed as it is)"}
        if result.recipe:
            families = {r.rule.split("_", 1)[0] for r in Recipe.parse(result.recipe).rewrites}
        for family in families:
            self.families[family][result.status.value] += 1
        for unit in result.fired:
            self.units[unit][FIRED] += 1
        if result.status in _UNDECIDED:
            self.reasons[result.status.value, _kind_of_reason(result.reason)] += 1

    def report(self) -> Report:
        cards = []
        for id, (finding, state, folder) in self.findings.items():
            cards.append(
                Card(
                    finding, str(state), folder, _exhibit(finding, folder), _files(folder), tuple(self.found_by[id]),
                    self.duplicates[id],
                )
            )  # fmt: skip
        cards.sort(key=lambda c: (bool(c.known), c.finding.stage, c.finding.unit, c.finding.id))
        reasons = [(status, reason, n) for (status, reason), n in self.reasons.most_common(MOST_REASONS)]
        return Report(
            tuple(self.runs), tuple(cards), _matrix(self.units),
            _matrix(self.outcomes, ("proved", "refuted", "unknown")), _matrix(self.families), tuple(reasons),
            worst_first(self.rows), len(self.rows), _matrix(by_seed(self.rows)), self.yields.lines(), self.refused,
        )  # fmt: skip


def _run(store: Store, run: StoredRun, cases: Sequence[tuple[str, CaseResult]], found: frozenset[str]) -> Run:
    """``cases`` are results with their seeds."""
    summary, results = run.summary, [result for _, result in cases]
    counts = summary.get("counts") or dict(Counter(r.status.value for r in results))
    return Run(
        id=run.id,
        state=str(store.path),
        started=datetime.fromtimestamp(run.started),
        finished=run.finished is not None,
        torch=str(run.header.get("torch", "")),
        device=str(run.header.get("device", "")),
        seed=int(run.header.get("seed", 0)),
        paths=run.settings.paths,
        cases=int(summary.get("cases", len(results))),
        counts={word: n for word, n in counts.items() if word in list(Status)},
        rungs=summary.get("rungs") or ({"pass" if run.settings.passes else run.settings.device: len(results)}),
        seconds=store.seconds(run.id) or _seconds_of(results),
        wall_s=float(summary.get("wall_s", 0.0)),
        found=found,
        clean=frozenset((seed, result.recipe) for seed, result in cases if result.status is Status.CLEAN),
        coverage=summary.get("coverage") or {},
    )


def _seconds_of(results: Sequence[CaseResult]) -> dict[str, float]:
    """CPU seconds of the cases alone, while the run has not accounted for all."""
    sums: Counter[str] = Counter()
    for result in results:
        for activity, used in result.seconds:
            sums[activity] += used  # type: ignore[assignment]  # of Counter's values the library knows only int
    return dict(sums)


def _kind_of_reason(reason: str) -> str:
    """The reason without what is particular to one case: values, places."""
    text = reason.partition("; ")[0]
    head, colon, rest = text.partition(": ")
    text = rest if colon and " " not in head else text
    return cut(text, 110)


def _exhibit(finding: Finding, folder: Path) -> Exhibit:
    shown = exhibit_of(finding)
    before, after = folder / "before.txt", folder / "after.txt"
    if not shown.graphs and before.is_file() and after.is_file():  # as the pass rung leaves them
        return replace(shown, graphs=(GraphPair(finding.unit, finding.unit, _text(before), _text(after)),))
    return shown


def _files(folder: Path) -> dict[str, str]:
    """Texts of the finding's folder, by name."""
    if not folder.is_dir():
        return {}
    shown = sorted(f for f in folder.iterdir() if f.suffix in (".py", ".md") and f.is_file())
    return {f.name: _text(f) for f in shown}


def _text(file: Path) -> str:
    text = file.read_text(encoding="utf-8", errors="replace")
    return text if len(text) <= MOST_FILE else text[:MOST_FILE] + f"\n... {len(text) - MOST_FILE} more characters\n"


def _matrix(rows: Mapping[str, Mapping[str, int]], columns: Sequence[str] = ()) -> Matrix:
    """Rows with most findings first, then those with most cases; columns that hold something, in order of severity."""
    filled = {name: row for name, row in rows.items() if sum(row.values())}
    order = list(columns) or [s.value for s in reversed(SEVERITY)]
    present = {word for row in filled.values() for word in row}
    bad = (Status.FINDING.value, Status.KNOWN.value, "refuted")

    def weight(item: tuple[str, Mapping[str, int]]) -> tuple[int, int, str]:
        return -sum(item[1].get(w, 0) for w in bad), -sum(item[1].values()), item[0]

    ranked = sorted(filled.items(), key=weight)
    chosen = tuple(w for w in order if w in present) + tuple(sorted(present - set(order)))
    return Matrix(chosen, tuple(ranked[:MOST_ROWS]), max(0, len(ranked) - MOST_ROWS))


class Seen(StrEnum):
    """What a run says of a finding: it made it, it judged the finding's program and that was right, or nothing."""

    FOUND = "found"
    CLEAN = "clean"
    NOT_JUDGED = "not judged"


def appearances(report: Report) -> Iterator[tuple[Card, tuple[Seen, ...], str]]:
    """Each finding with what each run says of it, in the order of the runs, and since when it is new or gone."""
    for card in report.cards:
        finding = card.finding
        drawn = finding.draw.original_recipe
        program = (finding.seed, finding.recipe if drawn is None else drawn)
        seen = tuple(
            Seen.FOUND if finding.id in run.found else Seen.CLEAN if program in run.clean else Seen.NOT_JUDGED
            for run in report.runs
        )
        yield card, seen, _change(report.runs, seen)


def _change(runs: Sequence[Run], seen: Sequence[Seen]) -> str:
    """``new since RUN`` or ``gone since RUN``, by the last change among runs that judged it; "" where none is."""
    judged = [(run, s) for run, s in zip(runs, seen, strict=True) if s is not Seen.NOT_JUDGED]
    changes = [(run, s) for (_, before), (run, s) in pairwise(judged) if s is not before]
    if not changes:
        return ""
    run, now = changes[-1]
    return f"{'new' if now is Seen.FOUND else 'gone'} since {run.id}"
