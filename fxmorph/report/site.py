"""The site of a state folder with nights: findings by cause, bugs that are public, nights, a page for each finding.

Plain files: pages link to each other, and load nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fxmorph.core.config import ConfigError
from fxmorph.core.lifetime import change_in_words, first_change, release_key
from fxmorph.core.nights import Night
from fxmorph.core.store import DiskError
from fxmorph.model import Finding
from fxmorph.report.collect import Card, Report
from fxmorph.report.history import Cause, NightRow, Sighting, Turn, causes, night_rows
from fxmorph.report.html import shown_of, without_unit
from fxmorph.report.templates import render
from fxmorph.triage.folder.public_threads import LIKELY
from fxmorph.triage.folder.title import what
from fxmorph.triage.known.program_operators import operators_of_finding
from fxmorph.triage.known.public_states import PublicState, PublicStates

#: Pages, and folders of pages: of nights each has its number, of findings its id.
INDEX, BUGS, NIGHTS = "index.html", "bugs.html", "nights.html"
NIGHT_PAGES, FINDING_PAGES = "nights", "findings"


@dataclass(frozen=True)
class CauseRow:
    """A cause as tables show it; ``turn`` is what the last night says of it, ``bisected`` where releases differ."""

    cause: Cause
    what: str
    operators: tuple[str, ...]
    public: PublicState | None
    likely: str
    bisected: str
    turn: Turn | None
    files: tuple[str, ...]

    @property
    def finding(self) -> Finding:
        return self.cause.finding

    @property
    def state(self) -> str:
        """A word to filter by."""
        return self.turn or ("fixed" if self.cause.fixed_in else "still there")


@dataclass(frozen=True)
class Bug:
    """A public issue, and the causes that are it."""

    public: PublicState
    rows: tuple[CauseRow, ...]

    @property
    def first_seen(self) -> Sighting:
        return min((row.cause.first_seen for row in self.rows), key=lambda s: s.at)

    @property
    def last_seen(self) -> Sighting:
        return max((row.cause.last_seen for row in self.rows), key=lambda s: s.at)

    @property
    def fixed_in(self) -> Sighting | None:
        """Where the last one of its causes was gone; None while one is there."""
        fixed = [row.cause.fixed_in for row in self.rows]
        gone = [sighting for sighting in fixed if sighting is not None]
        return max(gone, key=lambda s: s.at) if len(gone) == len(fixed) else None


@dataclass(frozen=True)
class Site:
    """What the pages show; ``nights`` are newest first, ``seen`` is what the last one saw and did not confirm."""

    rows: tuple[CauseRow, ...]
    bugs: tuple[Bug, ...]
    nights: tuple[NightRow, ...]
    seen: tuple[Card, ...]


def require_site(folder: Path) -> None:
    """Refuse a folder that holds something else, before anything is run; raises ``ConfigError``."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / NIGHTS).is_file())):
        raise ConfigError(f"--site {folder}: it holds something else than a site of fxmorph")


def site_of(report: Report, nights: Sequence[Night], states: PublicStates) -> Site:
    """What there is to show of the runs of a state folder and its nights."""
    found = causes(report, nights)
    rows = night_rows(found, nights)
    last = rows[0] if rows else None
    turned = {cause.finding.id: turn for turn, those in (last.turned if last else {}).items() for cause in those}
    shown = [_row(cause, states, turned.get(cause.finding.id)) for cause in found]
    shown.sort(key=lambda row: (row.cause.fixed_in is not None, -row.cause.first_seen.at, row.finding.id))
    seen = [card for card in report.cards if last and not card.finding.confirmed and {*card.runs} & {*last.night.runs}]
    return Site(tuple(shown), tuple(_bugs(shown)), tuple(rows), tuple(seen))


def _row(cause: Cause, states: PublicStates, turn: Turn | None) -> CauseRow:
    finding = cause.finding
    public = states.of_finding(finding)
    likely = next((one.id for one in finding.likely if one.score >= LIKELY and public is None), "")
    releases = sorted(finding.releases or (), key=lambda row: release_key(row[0]))
    bisected = change_in_words(releases) if first_change([word for _, word in releases]) else ""
    folder = cause.card.folder
    files = tuple(sorted(f.name for f in folder.iterdir() if f.is_file())) if folder.is_dir() else ()
    operators = tuple(sorted(operators_of_finding(finding)))
    return CauseRow(cause, what(finding), operators, public, likely, bisected, turn, files)


def _bugs(rows: Iterable[CauseRow]) -> list[Bug]:
    """By issue, the one that was seen last first."""
    of_issue: dict[PublicState, list[CauseRow]] = {}
    for row in rows:
        if row.public is not None:
            of_issue.setdefault(row.public, []).append(row)
    bugs = [Bug(public, tuple(those)) for public, those in of_issue.items()]
    return sorted(bugs, key=lambda bug: (bug.fixed_in is not None, -bug.last_seen.at, bug.public.id))


def write_site(site: Site, folder: Path, night_pages: Mapping[int, Path]) -> None:
    """Write all pages; ``night_pages`` are the reports that are kept of nights.  Raises ``DiskError``."""
    try:
        for name, places in (
            (FINDING_PAGES, {row.finding.id for row in site.rows}),
            (NIGHT_PAGES, {f"{number}.html" for number in night_pages}),
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
            _forget(folder / name, places)
        for number, report in night_pages.items():
            shutil.copyfile(report, folder / NIGHT_PAGES / f"{number}.html")
        for row in site.rows:
            _write_finding(row, folder / FINDING_PAGES / row.finding.id)
        kept = frozenset(night_pages)
        for page, template in ((BUGS, "site_bugs"), (NIGHTS, "site_nights"), (INDEX, "site_index")):
            text = _page(f"{template}.html.j2", "", site=site, kept=kept, choices=_choices(site.rows))
            (folder / page).write_text(text, encoding="utf-8")
    except OSError as error:
        raise DiskError(f"{folder}: cannot write the site ({error.strerror})") from None


def _forget(folder: Path, places: set[str]) -> None:
    for left in [place for place in folder.iterdir() if place.name not in places]:
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _write_finding(row: CauseRow, folder: Path) -> None:
    card = row.cause.card
    shutil.rmtree(folder, ignore_errors=True)
    if card.folder.is_dir():
        shutil.copytree(card.folder, folder)
    folder.mkdir(exist_ok=True)
    script = [("repro", "python repro.py")] if "repro.py" in row.files else []
    shown = replace(shown_of(card), commands=(*script, *without_unit(row.finding)))
    (folder / INDEX).write_text(_page("site_finding.html.j2", "../../", row=row, c=shown), encoding="utf-8")


def _page(template: str, up: str, **values: object) -> str:
    """``up`` leads from the page to the site's own folder."""
    return render(template, up=up, day=_day, index=INDEX, bugs=BUGS, nights=NIGHTS, **values)


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def _choices(rows: Sequence[CauseRow]) -> dict[str, list[str]]:
    """Words of the filters."""
    return {
        "state": sorted({row.state for row in rows}),
        "kind": sorted({str(kind) for row in rows for kind in row.finding.kinds}),
        "stage": sorted({row.finding.stage for row in rows}),
        "public": sorted({"public" if row.public else "not public" for row in rows}),
    }
