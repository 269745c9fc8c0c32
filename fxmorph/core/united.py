"""The runs of several state folders as those of one: each run once, each cause once.

``fxmorph merge`` writes what is read here, ``report`` and ``compare`` show it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fxmorph.core.lifetime import GONE, STILL_THERE, release_key, telling
from fxmorph.core.store import Store, StoredRun
from fxmorph.model import Case, CaseResult, Finding, Recipe, Status


@dataclass(frozen=True)
class Placed:
    """A finding of a run; ``folder`` is where its files are now, ``duplicate_of`` the id of one with its cause."""

    finding: Finding
    folder: Path
    duplicate_of: str


class United:
    """``runs`` with the store of each, oldest first; of one that is in several stores the copy that is furthest on."""

    def __init__(self, stores: Sequence[Store]) -> None:
        best: dict[str, tuple[tuple[bool, int, int], Store, StoredRun]] = {}
        for store in stores:
            for run in store.runs():
                far = store.progress(run.id)
                if run.id not in best or far > best[run.id][0]:
                    best[run.id] = far, store, run
        self.runs = tuple(sorted(((s, r) for _, s, r in best.values()), key=lambda pair: pair[1].started))
        self._stored = {run.id: store.placed(run.id) for store, run in self.runs}
        every = [row for rows in self._stored.values() for row in rows]
        #: What is confirmed of a case: the finding that has its cause.
        self._cause = {finding.case_id: of or finding.id for finding, _, of in every if finding.confirmed}
        self._shown = self._releases()

    def findings(self, run_id: str) -> Iterator[Placed]:
        """Those of a run, duplicates too, oldest first.

        One that was only seen is a duplicate where another run has a confirmed one of its case; each says what all
        releases of torch that were tried or ran its program show.
        """
        (state,) = (store.path for store, run in self.runs if run.id == run_id)
        for finding, folder, duplicate_of in self._stored[run_id]:
            of = duplicate_of or ("" if finding.confirmed else self._cause.get(finding.case_id, ""))
            shown = self._shown.get(finding.id)
            if not of and shown:
                finding = replace(finding, releases=telling(shown.items()))
            yield Placed(finding, folder_of(state, folder, finding.id), of)

    def _releases(self) -> dict[str, dict[str, str]]:
        """What each release shows, by finding; what its repro showed counts most."""
        ran = {run.id: str(run.header.get("torch", "")) for _, run in self.runs}
        judged = {run.id: programs(store.cases(run.id)) for store, run in self.runs} if len({*ran.values()}) > 1 else {}
        gone, still, tried = (defaultdict[str, dict[str, str]](dict) for _ in range(3))
        for run_id, stored in self._stored.items():
            mine = {result.case_id: program for program, (_, result) in judged.get(run_id, {}).items()}
            for finding in (finding for finding, _, duplicate_of in stored if finding.confirmed and not duplicate_of):
                tried[finding.id] |= dict(finding.releases or ())
                still[finding.id] |= {ran[run_id]: STILL_THERE} if judged else {}
                for other, of_other in judged.items():
                    found = of_other.get(mine.get(finding.case_id, ""))
                    if found is not None and found[1].status is Status.CLEAN:
                        gone[finding.id][ran[other]] = GONE
                    elif found is not None and found[1].status is Status.FINDING:
                        still[finding.id][ran[other]] = STILL_THERE
        for id, of_repro in tried.items():
            keys = {release_key(release) for release in of_repro}  # of a run the build is not always named
            of_runs = {
                release: word for release, word in {**gone[id], **still[id]}.items() if release_key(release) not in keys
            }
            of_repro |= of_runs
        return tried


def programs(cases: Sequence[tuple[int, Case, CaseResult]]) -> dict[str, tuple[Case, CaseResult]]:
    """By a key that is the same under every release of torch: what was run, and how, whatever drew it."""
    return {program_of(case, result): (case, result) for _, case, result in cases}


def program_of(case: Case, result: CaseResult) -> str:
    """The key of :func:`programs`."""
    recipe = Recipe.parse(result.recipe) if result.recipe else case.recipe
    return replace(case, torch="", avoid=(), favour=(), chain=(), recipe=recipe).id


def folder_of(state: Path, stored: str, id: str) -> Path:
    """Where a finding's files are now: a state folder may have been moved since."""
    here = next((place for of in ("findings", "seen") if (place := state / of / id).is_dir()), None)
    return here or (Path(stored) if stored else state / "findings" / id)


@contextmanager
def united(states: Sequence[Path]) -> Iterator[United]:
    """The runs of these folders; raises ``StoreError`` where one holds no state."""
    with ExitStack() as opened:
        yield United([opened.enter_context(Store(state, write=False)) for state in states])
