"""``fxmorph prove --fuzz``: wrong rules made of the rules, to see that none of them is proved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from fxmorph.commands.rule_proofs import chosen
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Pool
from fxmorph.events import MutantTried, Warned
from fxmorph.prove.fuzz.fuzz_worker import Judged, MakeMutant, Tried, serve
from fxmorph.prove.fuzz.mutants import draws
from fxmorph.prove.prover import BUDGET
from fxmorph.rules import load_rules

#: CPU seconds that a mutant may take.
LIMIT = 60.0


def fuzz_prover(settings: Settings, names: Sequence[str], seconds: float, emit: Callable[[object], None]) -> int:
    """Try mutants for so long, or ``max_cases`` of them, tell each; 4 where one is proved wrongly, else 0.

    The order of mutants depends on the seed alone.
    """
    rules = load_rules([Path(p) for p in settings.transforms])
    wanted = [rule for rule in chosen(rules, names) if rule.site != "late" or "mutation" in rule.preserves]
    state = settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + seconds

    def jobs() -> Iterator[MakeMutant]:
        for rule, dtype, number in islice(draws(wanted, settings.seed), settings.max_cases):
            if time.monotonic() > until:
                return
            yield MakeMutant(rule.id, dtype, settings.seed, number)

    counted: dict[Judged, int] = dict.fromkeys(Judged, 0)
    arguments = (settings.transforms, BUDGET, str(state / "workers.log"))
    with Pool(settings.effective_jobs, serve, arguments, ["fxmorph.prove.fuzz.fuzz_worker"]) as pool:
        for ended in pool.run(jobs(), LIMIT):
            told = _told(ended)
            if isinstance(told, MutantTried):
                counted[Judged(told.judged)] += 1
            if told is not None:
                emit(told)
    if counted[Judged.PROVED]:
        return Exit.UNSOUND
    return Exit.OK if sum(counted.values()) else Exit.NOTHING_RAN


def _told(ended: Ended) -> MutantTried | Warned | None:
    job, tried = ended.job, ended.value
    if not isinstance(tried, Tried):
        return Warned(f"mutant {job.number} of {job.rule} ({job.dtype}): {ended.trouble}: {ended.detail}")
    if tried.judged is Judged.NONE:
        return None
    return MutantTried(
        job.rule, job.dtype, job.number, tried.family, tried.judged, tried.what, tried.level, tried.method,
        tried.assumptions, tried.seconds, tried.text, tried.witness,
    )  # fmt: skip
