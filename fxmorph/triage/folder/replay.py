"""Stored findings again: what their ``repro.py`` shows by now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit, ReproExit
from fxmorph.core.scripts import Scripts
from fxmorph.core.store import Store
from fxmorph.model import Finding
from fxmorph.triage.folder.repro_run import run_repro


class Replayed(StrEnum):
    """What a repro shows that is run again."""

    FIXED = "FIXED"
    FAILS = "FAILS"
    ERROR = "ERROR"


_OF_CODE: dict[int, Replayed] = {ReproExit.GONE: Replayed.FIXED, ReproExit.STILL_THERE: Replayed.FAILS}
_EXITS = {Replayed.FIXED: Exit.OK, Replayed.FAILS: Exit.FINDINGS, Replayed.ERROR: Exit.INTERNAL}


def replay(settings: Settings, ids: list[str], every: bool, say: Callable[[str], None]) -> int:
    """``fxmorph replay``: FIXED, FAILS or ERROR for each finding; exit code 1 if one still fails.

    Of a known issue that is fixed it is said which entry has had its day.
    """
    with Store(settings.state_dir, write=False) as store:
        found = [(f, store.place(f.id)[0]) for f in store.findings()] if every else []
        found += [store.finding(id) for id in ids]
    worst: int = Exit.OK
    for (finding, folder), (word, said) in zip(found, replays(found, settings.effective_jobs), strict=True):
        say(replay_line(word, finding, folder, said))
        worst = max(worst, _EXITS[word])
    return worst


def replay_line(word: Replayed, finding: Finding, folder: str, said: str) -> str:
    """``FIXED ID FOLDER``, and what else there is to say."""
    known = f": known as {finding.known}" if finding.known else ""
    return f"{word} {finding.id} {folder}" + {Replayed.FIXED: known, Replayed.ERROR: f": {said}"}.get(word, "")


def replays(
    found: Sequence[tuple[Finding, str]], jobs: int, scripts: Scripts | None = None
) -> Iterator[tuple[Replayed, str]]:
    """What the repro of each finding, in its folder, shows, and the last line that it printed; in their order.

    As many run at once as there are jobs, in a cache of their own: in Inductor's usual one its bisector leaves what
    switches passes off.  ``scripts``: as for ``run_repro``.
    """
    with TemporaryDirectory(prefix="fxmorph-replay-", ignore_cleanup_errors=True) as cache:

        def again(one: tuple[Finding, str]) -> tuple[Replayed, str]:
            finding, folder = one
            if not Path(folder, "repro.py").is_file():
                return Replayed.ERROR, f"no repro.py; `fxmorph explain {finding.case_id}` judges the case again"
            code, said = run_repro(Path(folder), Path(cache), scripts=scripts)
            return _OF_CODE.get(code, Replayed.ERROR), said

        pool = ThreadPoolExecutor(jobs)
        try:
            yield from pool.map(again, found)
        finally:  # of what was interrupted the rest is not begun
            pool.shutdown(cancel_futures=True)
