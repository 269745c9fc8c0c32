"""A night: shards of a campaign under the torch of an environment, what findings of before show under it, the record.

The process that does this runs no operator, and does without torch.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fxmorph.campaign.shard_processes import ShardEnded, run_shards
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE, release_key, telling
from fxmorph.core.nights import Night
from fxmorph.core.store import Store, StoredRun
from fxmorph.core.torch_environment import TorchEnvironment
from fxmorph.core.united import folder_of
from fxmorph.core.versions import versions
from fxmorph.model import Finding
from fxmorph.triage.folder.releases import bisect_releases, keep_releases
from fxmorph.triage.folder.replay import Replayed, replay_line, replays

#: Nights whose cases are kept.
KEPT_CASES = 2
_SHOWS = {Replayed.FIXED: GONE, Replayed.FAILS: STILL_THERE, Replayed.ERROR: BREAKS}
#: What a night ends with where a shard did, the first of them.
_WORST = (Exit.INTERRUPTED, Exit.INTERNAL, Exit.UNSOUND)


def unclaimed(store: Store) -> list[StoredRun]:
    """Runs that no night has, oldest first; of a store that was opened to be written once."""
    claimed = {run_id for night in store.nights() for run_id in night.runs}
    return [run for run in store.runs() if run.id not in claimed]


def of_torch(runs: Iterable[StoredRun], torch: str) -> list[StoredRun]:
    """Those under this torch: a run does not always name the build."""
    return [run for run in runs if release_key(str(run.header.get("torch", ""))) == release_key(torch)]


class NightRun:
    """One night in the state folder of ``settings``.  Its runs are those under the environment's torch that no earlier
    night has: its own shards, and those that were run elsewhere and merged.
    """

    def __init__(self, settings: Settings, environment: TorchEnvironment, say: Callable[[str], None]) -> None:
        self._settings, self._environment, self._say = settings, environment, say
        self._started = time.time()
        self._ended: list[ShardEnded] = []
        self._shows: dict[str, str] = {}

    def run(self, arguments: Sequence[str], shards: int, pythons: Sequence[str]) -> tuple[Exit, Night | None]:
        """Shards, earlier findings again, new ones under other releases; recorded however it ends.

        ``arguments`` are those of ``fxmorph run``, ``pythons`` interpreters of other releases.  Returns what the shards
        ended with (:data:`Exit.OK` where they came to their end) and the night, None where the first one refused its
        arguments.
        """
        codes: set[Exit] = set()
        try:
            for ended in run_shards(self._environment, [*arguments, "--state", self._settings.state], shards):
                if ended.code == Exit.USAGE and not self._ended:
                    return Exit.USAGE, None
                self._ended.append(ended)
                codes.add(ended.exit)
                if ended.trouble:
                    self._say(ended.trouble)
                if ended.exit is Exit.INTERRUPTED:
                    break
            if Exit.INTERRUPTED not in codes:
                self._replay()
                self._bisect(pythons)
        except KeyboardInterrupt:
            codes.add(Exit.INTERRUPTED)
            self._say("interrupted; what was judged is stored")
        return next((code for code in _WORST if code in codes), Exit.OK), self._record()

    def _runs(self, store: Store) -> list[StoredRun]:
        return of_torch(unclaimed(store), self._environment.torch)

    def _replay(self) -> None:
        """Run the repros of earlier findings that tonight's runs did not make; those that were gone already come last.

        What they show is kept as it comes.
        """
        with Store(self._settings.state_dir) as store:
            tonight = {finding.id for run in self._runs(store) for finding in store.findings(run.id)}
            made_by = {finding.id: run for run in store.runs() for finding in store.findings(run.id)}
            gone = {id for night in store.nights() for id, word in night.replayed if word == GONE}
            earlier = [f for f in store.findings() if f.confirmed and f.id not in tonight]
            places = [(f, self._folder(store, f)) for f in earlier]
        found = [(finding, str(place)) for finding, place in places if place is not None]
        found.sort(key=lambda row: row[0].id in gone)
        shown = replays(found, self._settings.effective_jobs, self._environment.scripts)
        for (finding, folder), (word, said) in zip(found, shown, strict=True):
            self._say(replay_line(word, finding, folder, said))
            self._shows[finding.id] = _SHOWS[word]
            self._keep(made_by[finding.id], finding, Path(folder))

    def _folder(self, store: Store, finding: Finding) -> Path | None:
        """Where the finding's repro lies, None where it has none."""
        folder = folder_of(self._settings.state_dir, store.place(finding.id)[0], finding.id)
        return folder if (folder / "repro.py").is_file() else None

    def _keep(self, run: StoredRun, finding: Finding, folder: Path) -> None:
        """Write into the finding what this release shows, where that says something."""
        torch, word = self._environment.torch, self._shows[finding.id]
        # Builds from source share a name from one commit to the next: there only nights tell.
        if word == BREAKS or not finding.program or of_torch([run], torch):
            return
        rows = telling({**dict(finding.releases or ()), torch: word}.items())
        with Store(self._settings.state_dir) as store:
            keep_releases(store, run.id, replace(finding, releases=None), folder, dict(rows), versions())

    def _bisect(self, pythons: Sequence[str]) -> None:
        """Run what is new by the interpreters of other releases too."""
        if not pythons:
            return
        with Store(self._settings.state_dir) as store:
            tonight = [run.id for run in self._runs(store)]
            before = {f.id for run in store.runs() if run.id not in tonight for f in store.findings(run.id)}
            found = {f.id: f for run_id in tonight for f in store.findings(run_id) if f.confirmed and f.program}
            new = [f.id for f in found.values() if f.id not in before and self._folder(store, f) is not None]
        for id in new:
            bisect_releases(self._settings, id, [*pythons, self._environment.python], versions(), self._say)

    def _record(self) -> Night:
        """The night, stored; of nights that are long past cases are forgotten, and what was only seen."""
        state = self._settings.state_dir
        with Store(state) as store:
            runs, nights = self._runs(store), store.nights()
            night = Night(
                number=nights[-1].number + 1 if nights else 1,
                started=min([self._started, *(run.started for run in runs)]),
                torch=self._environment.torch,
                runs=tuple(run.id for run in runs),
                cases=sum(store.progress(run.id)[1] for run in runs),
                seen=sum(not finding.confirmed for run in runs for finding in store.findings(run.id)),
                replayed=tuple(self._shows.items()),
                trouble=tuple(ended.trouble for ended in self._ended if ended.trouble),
            )
            store.add_night(night)
            past = [*nights, night][:-KEPT_CASES]
            store.forget_cases(run_id for old in past for run_id in old.runs)
            stored = {finding.id for finding in store.findings(duplicates=True)}
        for folder in (state / "seen").glob("*"):
            if folder.name not in stored:
                with suppress(OSError):  # it is in the way of nothing
                    shutil.rmtree(folder)
        return night
