"""``report.html``: one file that holds all it needs."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from markupsafe import Markup

from fxmorph.core.exhibit import GraphPair, SlotExhibit
from fxmorph.core.finding_parts import Draft
from fxmorph.core.store import DiskError
from fxmorph.events import Event, RunFinished
from fxmorph.model import BugClass, Finding, Status
from fxmorph.report.collect import Card, Report, appearances, collect
from fxmorph.report.finding_row import telling_operators
from fxmorph.report.heatmap import heat_map
from fxmorph.report.highlight import difference
from fxmorph.report.templates import render
from fxmorph.report.yields import chart
from fxmorph.triage.folder import by_hand
from fxmorph.triage.folder.dataflow import Step, read_steps
from fxmorph.triage.folder.graph_files import picture, sides
from fxmorph.triage.folder.issue import not_reduced
from fxmorph.triage.folder.title import what

#: Findings whose graphs are drawn, and findings shown with their files.
MOST_DRAWN, MOST_FILES = 150, 300
_CLASSES: Mapping[BugClass, str] = {
    BugClass.UGO: "unsound graph optimisation",
    BugClass.ILP: "layout, view and stride propagation",
    BugClass.IOT: "dtype promotion",
    BugClass.BAM: "aliasing and mutation",
    BugClass.IOD: "decomposition",
    BugClass.KC: "fusion and code generation",
}


@dataclass(frozen=True)
class _Side:
    name: str
    picture: Markup
    text: str
    left_out: int


@dataclass(frozen=True)
class _Pair:
    """``difference`` is what the second side's text has otherwise than the first's."""

    heading: str
    by: str
    sides: tuple[_Side, ...]
    difference: Markup


@dataclass(frozen=True)
class Shown:
    """A card as the template draws it."""

    card: Card
    title: str
    operators: str
    bug_class: str
    config: str
    commands: tuple[tuple[str, str], ...]
    slots: tuple[tuple[SlotExhibit, Markup], ...]
    pairs: tuple[_Pair, ...]
    program: Markup
    #: Why the program is not as small as it could be, or "".
    not_reduced: str


class HtmlReport:
    """Writes the report of a state folder to ``file`` when a run has finished."""

    def __init__(self, state: Path, file: Path) -> None:
        self._state, self._file = state, file

    def handle(self, event: Event) -> None:
        if isinstance(event, RunFinished):
            write_report([self._state], self._file)

    def close(self) -> None:
        """Nothing is kept back."""


def write_report(states: Sequence[Path], file: Path, only: Collection[str] | None = None) -> Report:
    """Write the page for these state folders, or for the runs with the ids of ``only``.

    Raises ``StoreError``, and ``DiskError`` where ``file`` cannot be written.
    """
    report = collect(states, only)
    try:
        file.write_text(page(report), encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{file}: cannot write the report ({error.strerror})") from None
    return report


def page(report: Report) -> str:
    """The whole page; commands name folders as seen from the current one."""
    shown = [shown_of(card, i < MOST_DRAWN, i < MOST_FILES) for i, card in enumerate(report.cards)]
    news = sum(not card.known for card in report.cards)
    return render(
        "report.html.j2",
        report=report,
        cards=shown,
        news=news,
        duplicates=sum(card.duplicates for card in report.cards),
        counts=_by_severity(report.total("counts")),
        rungs=report.total("rungs"),
        seconds={k: v for k, v in report.total("seconds").items() if k != "idle"},
        coverage=_coverage(report),
        choices=_choices(report.cards),
        appearances=list(appearances(report)),
        lead=_lead(report, news),
        classes={c: _CLASSES[c] for c in BugClass if any(card.finding.bug_class is c for card in report.cards)},
        case_choices=_case_choices(report),
        charts=_charts(report),
    )


def _lead(report: Report, news: int) -> str:
    if not report.runs:
        return "Nothing was run here."
    torches = sorted({run.torch for run in report.runs})
    devices = sorted({run.device for run in report.runs})
    known = len(report.cards) - news
    found = f"{news or 'No'} new finding{'' if news == 1 else 's'}" + (f" and {known} known" if known else "")
    return f"{found} in {report.cases} cases, torch {', '.join(torches)} on {', '.join(devices)}."


def _by_severity(counts: Mapping[str, int]) -> dict[str, int]:
    order = [s.value for s in Status]
    return {word: counts[word] for word in sorted(counts, key=order.index)}


def _coverage(report: Report) -> list[tuple[str, Any, str]]:
    """Rows (what, number, note) of the newest run that has each."""
    rows: dict[str, tuple[str, Any, str]] = {}
    for run in report.runs:
        for word in ("rules", "variants", "sources"):
            if run.coverage.get(word):
                rows[word] = (word, run.coverage[word], "in the last run")
        levels: dict[str, int] = {}
        for family in ((run.coverage.get("proofs") or {}).get("levels") or {}).values():
            for level, n in family.items():
                levels[level] = levels.get(level, 0) + n
        for level, n in sorted(levels.items(), key=lambda item: -item[1]):
            rows[level] = (level, n, "rewrites")
        passes = run.coverage.get("passes") or {}
        if passes:
            rows["units"] = ("units fired", sum(passes.get("fired", {}).values()), "in the last run")
    return list(rows.values())


def _choices(cards: Sequence[Card]) -> dict[str, list[str]]:
    return {
        "kind": sorted({str(k) for c in cards for k in c.finding.kinds}),
        "stage": sorted({c.finding.stage for c in cards}),
        "unit": sorted({c.finding.unit or "(none)" for c in cards}),
        "class": sorted({str(c.finding.bug_class) for c in cards}),
        "known": sorted({"known" if c.known else "new" for c in cards}),
    }


def _case_choices(report: Report) -> dict[str, list[str]]:
    rows = report.cases_listed
    order = [s.value for s in Status]
    return {
        "verdict": sorted({row.verdict for row in rows}, key=order.index),
        "rung": sorted({row.rung for row in rows}),
        "run": list(dict.fromkeys(row.run for row in rows)),
    }


def _charts(report: Report) -> list[tuple[str, Markup]]:
    """(caption, drawing) of what the rungs yielded."""
    of = {"units": "units of Inductor reached for the first time", "differing": "cases that differ"}
    lines = {rung: line for rung, line in report.yields.items() if line[-1].seconds}
    return [(title, chart(lines, word, f"{title}, by rung")) for word, title in of.items()] if lines else []


def shown_of(card: Card, drawn: bool = True, with_files: bool = True) -> Shown:
    """What the templates draw of a card."""
    finding = card.finding
    if not with_files:
        card = Card(finding, card.state, card.folder, card.exhibit, {}, card.runs, card.duplicates)
    pairs = [_pair(p) for p in card.exhibit.graphs] if drawn else []
    program = _side("fn", read_steps(finding.program), finding.program).picture if drawn else Markup("")
    slots = tuple((s, Markup(heat_map(s))) for s in card.exhibit.slots)
    return Shown(
        card, what(finding), telling_operators(finding), _CLASSES[finding.bug_class], _config(finding.config),
        _commands(card), slots, tuple(p for p in pairs if p.sides), program, not_reduced(finding),
    )  # fmt: skip


def _commands(card: Card) -> tuple[tuple[str, str], ...]:
    where = card.finding.id + ("" if card.state == ".fxmorph" else f" --state {quote(card.state)}")
    commands = [(word, f"fxmorph {word} {where}") for word in ("replay", "show")]
    if "repro.py" in card.files:
        commands.insert(0, ("repro", f"python {quote(os.path.join(card.folder, 'repro.py'))}"))
    return (*commands, *without_unit(card.finding))


def without_unit(finding: Finding) -> tuple[tuple[str, str], ...]:
    """What to type to see the finding go, beside its script."""
    seen = (finding.draft or Draft()).gone_with
    redo = [("redo", line) for line in by_hand.commands(finding)]
    return (*redo, *(("gone with", line) for line in seen.splitlines()))


def _config(config: Mapping[str, Any]) -> str:
    """What is not the default, as settings are written."""
    parts = [f"backend={config['backend']!r}"] if config.get("backend") else []
    for where in ("compile", "inductor", "dynamo"):
        parts += [f"{'' if where == 'compile' else where + '.'}{k}={v!r}" for k, v in (config.get(where) or {}).items()]
    parts += [f"{k}={config[k]!r}" for k in ("no_grad", "device", "dtype", "context", "sizes") if config.get(k)]
    return ", ".join(p for p in parts if p != "device='cpu'")


def _pair(pair: GraphPair) -> _Pair:
    heading = "Seed and variant" if pair.title == "rewrites" else "Graph before and after"
    return _Pair(heading, pair.by, tuple(_side(*side) for side in sides(pair)), difference(pair.before, pair.after))


def _side(name: str, steps: tuple[Step, ...], text: str) -> _Side:
    drawn, left_out = picture(steps, f"graph, {name}")
    return _Side(name, Markup(drawn), text, left_out)
