"""Programs that campaigns keep: what made a pass or a pattern entry fire that no seed and no kept program does.

They are seed files in the state folder, from which the next campaign there starts, as fuzzers do from their corpus.
Lowerings and decompositions do not count: operators of torch's own tests reach them, which each campaign tries in an
order that reaches every one first.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxmorph.campaign.jobs import KeepProgram
from fxmorph.campaign.ledger import Emit
from fxmorph.campaign.portfolio import is_portfolio
from fxmorph.core.config import ConfigError, Settings, Source
from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import DiskError
from fxmorph.core.units import UnitKind, kind_of
from fxmorph.events import Warned
from fxmorph.model import Case, CaseResult, Seed, Status

#: The folder of the state folder that they lie in.
FOLDER = "corpus"
#: So many are kept, of so many bytes each at most.
MOST, BYTES = 128, 64 * 1024
#: What a kept program's file calls the units that it was the first to make fire.
FIRES = "FIRES"
#: What shows a fault is a finding, and no program to start from: it would show it in every campaign.
_RIGHT = (Status.CLEAN, Status.TIE, Status.ILL_CONDITIONED, Status.EXPECTED, Status.EDGE_CASE)


def kept_programs(settings: Settings, check: bool, emit: Emit, begun: Mapping[str, str] | None = None) -> list[Seed]:
    """Those that a run starts from, by name: of a campaign over all sources alone, and of no shard, whose order must
    not hang on a folder.

    ``begun`` are those that a run to be resumed started from, hashes by file name: raises :class:`ConfigError` where
    one is not as it was.
    """
    folder = settings.state_dir / FOLDER
    starts = is_portfolio(settings, check) and settings.shard is None and Source.GENERATED in settings.sources
    found, refusals = find_seeds([str(folder)] if starts and folder.is_dir() else [])
    if begun is None:
        for refusal in refusals:
            emit(Warned(f"{refusal.path}: not started from: {refusal.reason}"))
        return found
    there = {Path(seed.path).name: seed for seed in found}
    for name, hash in begun.items():
        if name not in there or there[name].hash != hash:
            raise ConfigError(
                f"{folder / name}: the run to be resumed started from it, and it is not as it was:"
                " start anew without --resume"
            )
    return [there[name] for name in begun]


def fires_of(seed: Seed) -> tuple[str, ...]:
    """The units that a kept program was the first to make fire; none of a file that does not say."""
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        for line in ast.parse(Path(seed.path).read_text(encoding="utf-8")).body:
            if isinstance(line, ast.Assign) and getattr(line.targets[0], "id", "") == FIRES:
                return tuple(map(str, ast.literal_eval(line.value)))
    return ()


@dataclass(frozen=True)
class _Candidate:
    index: int
    case: Case
    result: CaseResult


class Keeper:
    """Decides which programs of a run are kept, in the order of its cases and not in that of its answers.

    ``started`` are those that it started from, ``seeds`` the seeds that it judges as they are: what these reach is
    known before anything is kept.
    """

    def __init__(self, state: Path, started: Sequence[Seed], seeds: Collection[Seed]) -> None:
        self._folder = state / FOLDER
        self._count = len(started)
        self._reached = {unit for seed in started for unit in fires_of(seed)}
        self._own = {seed.hash for seed in (*started, *seeds)}
        self._unseen = {seed.hash for seed in seeds}
        #: Answers that others are to come before, by their place in the order of the run.
        self._early: dict[int, _Candidate] = {}
        self._next = 0
        self._waiting: list[_Candidate] = []

    def hear(self, index: int, case: Case, result: CaseResult) -> None:
        """A case was judged."""
        self._early[index] = _Candidate(index, case, result)
        while self._next in self._early:
            self._take(self._early.pop(self._next))
            self._next += 1

    def _take(self, one: _Candidate) -> None:
        if one.case.seed.hash in self._own and not one.case.number:
            self._reached |= _counted(one.result)
            self._unseen.discard(one.case.seed.hash)
        elif one.result.status in _RIGHT:
            self._waiting.append(one)

    def jobs(self, ended: bool = False) -> Iterator[KeepProgram]:
        """What workers are to write of the cases so far, once all seeds were seen or the run has ``ended``."""
        if self._unseen and not ended:
            return
        for one in self._waiting:
            first = _counted(one.result) - self._reached
            if not first or self._count == MOST:
                continue
            self._reached |= first
            self._count += 1
            if not self._file(one.case).exists():  # of a run that goes on it may be
                yield KeepProgram(one.index, one.case, one.result, tuple(sorted(first)))
        self._waiting.clear()

    def keep(self, job: KeepProgram, text: str) -> None:
        """Write the program's file, unless it has no text or too much; raises :class:`DiskError`."""
        if not text:
            return
        content = f"{text.rstrip()}\n\n\n{FIRES} = {job.first!r}\n".encode()
        if len(content) > BYTES:
            return
        file = self._file(job.case)
        part = file.with_suffix(".part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(content)
            part.replace(file)
        except OSError as error:
            why = f"{file}: cannot keep a program ({error.strerror}); free space or choose --state"
            raise DiskError(why) from None

    def _file(self, case: Case) -> Path:
        return self._folder / f"kept_{case.id[:12]}.py"


def _counted(result: CaseResult) -> set[str]:
    return {unit for unit in result.fired if kind_of(unit) in (UnitKind.PASS, UnitKind.ENTRY)}
