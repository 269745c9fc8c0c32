"""``fxmorph nightly``: a campaign under the torch of the day, earlier findings again, and the site of all nights."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fxmorph.campaign.night_run import NightRun, of_torch, unclaimed
from fxmorph.commands.usage import require_seeds
from fxmorph.core.config import Settings, option_of
from fxmorph.core.exits import Exit
from fxmorph.core.nights import Night
from fxmorph.core.seeds import shipped_corpus
from fxmorph.core.store import DATABASE, DiskError, Store, StoredRun, StoreError
from fxmorph.core.torch_environment import placed, release_of, torch_environment
from fxmorph.events import NightFinished
from fxmorph.report.collect import collect
from fxmorph.report.history import Cause, NightRow, Turn
from fxmorph.report.html import write_report
from fxmorph.report.jsonlines import JsonLines
from fxmorph.report.site import INDEX, require_site, site_of, write_site
from fxmorph.triage.folder.title import what
from fxmorph.triage.known.public_states import PublicStates, read_states

#: Nights whose reports are kept.
KEPT_REPORTS = 30
#: In the state folder: reports of nights, a list of public issues, the site.
REPORTS, ISSUES, SITE = "nights", "issues.toml", "site"


@dataclass(frozen=True)
class NightOptions:
    """What is asked for besides settings.

    ``python`` is the interpreter of the environment to test, "" for this one; ``pythons`` are those of other releases,
    by which new findings are bisected.  ``shards`` is how many there are, 0 where they were run elsewhere.  ``site``
    and ``issues`` are paths, "" for those in the state folder.
    """

    python: str
    shards: int
    pythons: tuple[str, ...] = ()
    site: str = ""
    issues: str = ""


def nightly(settings: Settings, wanted: NightOptions, given: Mapping[str, Any]) -> Exit:
    """Run a night and write the site.  ``given`` are options of ``fxmorph run`` by field, as they were given.

    Raises :class:`~fxmorph.core.config.ConfigError` before anything is run where that cannot be done, ``StoreError``
    where shards were run elsewhere and there is no state, and ``DiskError``.
    """
    say = partial(print, file=sys.stderr if settings.json else sys.stdout, flush=True)
    site = Path(wanted.site or settings.state_dir / SITE)
    require_site(site)
    states = _states(settings, wanted.issues)
    if wanted.shards:
        settings = replace(settings, paths=settings.paths or (str(shipped_corpus()),))
        require_seeds(settings)
    code, night = _run(settings, wanted, options(given), say)
    if code == Exit.USAGE:
        return code
    if night is not None:
        _write_report(settings.state_dir, night)
    rows = _write(settings.state_dir, site, states)
    if night is not None:
        code = code or _exit_code(rows[0], settings.fail_on_known)
        _tell(rows[0], say)
    say(f"site: {site / INDEX}")
    if night is not None and settings.json:
        JsonLines().handle(_event(rows[0], code, site / INDEX))
    return code


def _run(
    settings: Settings, wanted: NightOptions, arguments: Sequence[str], say: Callable[[str], None]
) -> tuple[Exit, Night | None]:
    """The night, None where there is none, and what its shards ended with."""
    if not wanted.shards and not _waiting(settings):  # the site may be written where there is no torch
        say("no run since the last night")
        return Exit.NOTHING_RAN, None
    for python in wanted.pythons:
        release_of(placed(python), "--bisect")
    with torch_environment(wanted.python) as environment:
        if not wanted.shards and not of_torch(_waiting(settings), environment.torch):
            say(f"no run under torch {environment.torch} since the last night")
            return Exit.NOTHING_RAN, None
        say(f"torch {environment.torch}, {environment.python}")
        night = NightRun(settings, environment, say)
        return night.run([*settings.paths, *arguments], wanted.shards, wanted.pythons)


def options(given: Mapping[str, Any]) -> list[str]:
    """The options of ``fxmorph run`` with these values: text, texts or flags by field, None where not given."""
    found = []
    for name, value in given.items():
        option = f"--{option_of(name)}"
        if value is True:
            found.append(option)
        elif value:
            found += [word for text in ([value] if isinstance(value, str) else value) for word in (option, text)]
    return found


def _states(settings: Settings, issues: str) -> PublicStates:
    own = settings.state_dir / ISSUES
    return read_states(Path(issues)) if issues else read_states(own) if own.is_file() else PublicStates()


def _waiting(settings: Settings) -> list[StoredRun]:
    """Runs that no night has; raises ``StoreError`` where there is no state."""
    if not (settings.state_dir / DATABASE).is_file():
        raise StoreError(f"no fxmorph state in {settings.state}: `fxmorph merge` puts there what shards left")
    with Store(settings.state_dir) as store:
        return unclaimed(store)


def _write_report(state: Path, night: Night) -> None:
    """The page of one night; those of nights long past go."""
    folder = state / REPORTS
    try:
        folder.mkdir(exist_ok=True)
        for number, page in _reports(state).items():
            if number <= night.number - KEPT_REPORTS:
                page.unlink()
    except OSError as error:
        raise DiskError(f"{folder}: cannot write the report ({error.strerror})") from None
    write_report([state], folder / f"{night.number}.html", night.runs)


def _reports(state: Path) -> dict[int, Path]:
    """Pages of nights, by number."""
    return {int(page.stem): page for page in (state / REPORTS).glob("*.html") if page.stem.isdigit()}


def _write(state: Path, folder: Path, states: PublicStates) -> Sequence[NightRow]:
    """Write the site; returns the nights, newest first."""
    with Store(state) as store:
        nights = store.nights()
    site = site_of(collect([state]), nights, states)
    write_site(site, folder, _reports(state))
    return site.nights


def _event(row: NightRow, code: Exit, page: Path) -> NightFinished:
    night = row.night
    ids = {turn: tuple(cause.finding.id for cause in causes) for turn, causes in row.turned.items()}
    return NightFinished(
        night.number, night.torch, night.runs, night.cases, row.there, night.seen, ids[Turn.NEW], ids[Turn.BACK],
        ids[Turn.FIXED], night.trouble, code, str(page),
    )  # fmt: skip


def _tell(row: NightRow, say: Callable[[str], None]) -> None:
    for turn, causes in row.turned.items():
        for cause in causes:
            finding = cause.finding
            known = f" ({finding.known})" if finding.known else ""
            where = finding.unit or finding.stage
            say(f"{turn} {finding.id}{known}: {what(finding)} ({where}); {finding.seed}")
    night = row.night
    turned = ", ".join(f"{len(causes)} {turn}" for turn, causes in row.turned.items())
    seen = f", not confirmed {night.seen}" if night.seen else ""
    counts = f"causes {row.there}, cases {night.cases}, runs {len(night.runs)}{seen}"
    say(f"night {night.number}, torch {night.torch}: {turned}; {counts}")


def _exit_code(row: NightRow, fail_on_known: bool) -> Exit:
    def counts(cause: Cause) -> bool:
        return fail_on_known or not cause.finding.known

    if any(map(counts, (*row.turned[Turn.NEW], *row.turned[Turn.BACK]))):
        return Exit.FINDINGS
    return Exit.OK if row.night.cases else Exit.NOTHING_RAN
