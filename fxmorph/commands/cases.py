"""``fxmorph cases``: what the last run judged, with the numbers that ``fxmorph explain`` takes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.store import Store
from fxmorph.core.units import matches
from fxmorph.events import CaseDone
from fxmorph.model import Recipe, Status


@dataclass(frozen=True)
class Wanted:
    """Which cases are listed: those that fit every filter that is not ""."""

    verdict: str = ""
    seed: str = ""
    rule: str = ""
    unit: str = ""

    def fits(self, done: CaseDone, fired: Sequence[str]) -> bool:
        """Whether a case passes, whose compile used the units ``fired``; ``seed`` may be a part of the path too."""
        return (
            self.verdict in ("", done.verdict)
            and (self.seed in done.seed or fnmatchcase(done.seed, self.seed))
            and (not self.rule or any(fnmatchcase(r.rule, self.rule) for r in Recipe.parse(done.recipe).rewrites))
            and (not self.unit or any(matches(name, self.unit) for name in (done.unit, *fired)))
        )


def list_cases(settings: Settings, wanted: Wanted) -> Exit:
    """Print the cases of the last run that fit, as event lines or in a table; raises ``ConfigError`` for no run."""
    with Store(settings.state_dir, write=False) as store:
        run = store.last_run()
        if run is None:
            raise ConfigError(f"no run in {settings.state} (fxmorph run corpus/)")
        judged = store.cases(run[0])
        # A case is judged before its finding is blamed.
        blamed = {finding.case_id: finding.unit for finding in store.findings(run[0], duplicates=True)}
        alone = bool(store.passes(run[0]))
    events = [(CaseDone.of(index, case, result), result.fired) for index, case, result in judged]
    told = [(replace(done, unit=done.unit or blamed.get(done.case_id, "")), fired) for done, fired in events]
    listed = [done for done, fired in told if wanted.fits(done, fired)]
    if settings.json:
        for done in listed:
            print_line(json.dumps(done.to_json(), ensure_ascii=False))
        return Exit.OK
    if listed:
        print_columns(("number", "verdict", "kinds", "where", "seed", "rewrites"), [_row(done) for done in listed])
    print_line(_summary(listed, len(judged)))
    if alone:
        print_line("`fxmorph coverage` has the units of Inductor that the run tried alone, which have no number")
    return Exit.OK


def _row(done: CaseDone) -> tuple[str, ...]:
    return (
        str(done.index), done.verdict, ",".join(done.kinds), done.unit or done.stage, done.seed,
        done.recipe or "(as it is)",
    )  # fmt: skip


def _summary(listed: Sequence[CaseDone], judged: int) -> str:
    """``12 of 340 cases: finding 3, tie 9``"""
    counts = Counter(done.verdict for done in listed)
    words = ", ".join(f"{status} {counts[status]}" for status in Status if counts[status])
    total = f"{len(listed)} of {judged} cases" if len(listed) < judged else f"{judged} cases"
    return total + (f": {words}" if words else "")
