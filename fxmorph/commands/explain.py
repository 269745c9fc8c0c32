"""``fxmorph explain``: judge one case again and say every step.

Torch is imported once the case is found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile

from fxmorph.campaign.eager_alone import eager_alone
from fxmorph.campaign.jobs import Judge
from fxmorph.campaign.schedule import result_of_loss
from fxmorph.core.clock import Clock
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import campaign_of
from fxmorph.core.operator_seeds import PREFIX
from fxmorph.core.pool import Ended, Trouble
from fxmorph.core.seeds import SUFFIXES, find_seeds
from fxmorph.core.store import Store
from fxmorph.judge.plans import kernels_of, plans_of, threads_of
from fxmorph.model import Case, CaseResult, CompileConfig, Kernels, Recipe, Rung
from fxmorph.programs.forked import Crashed, Ending, forked

#: Wall seconds that a judgement may take here: somebody waits for each of its lines, and may interrupt.
LONGEST = 24 * 3600.0


def explain(settings: Settings, name: str, say: Callable[[str], None]) -> int:
    """Judge the case that ``name`` means, in a child that it may crash; exit code 0.

    ``name`` is a seed (judged as it is), the start of a case id, or the number of a case in the
    last run.  Raises :class:`ConfigError` where there is no such case, or no such backend or setting.
    """
    is_seed = name.endswith(SUFFIXES) or ".py:" in name or name.startswith(PREFIX) or Path(name).exists()
    case, packs = (_seed_case(settings, name), []) if is_seed else _stored_case(settings, name)
    import torch

    from fxmorph.judge.case import judge_case
    from fxmorph.judge.journal import noting
    from fxmorph.oracle import use_oracles
    from fxmorph.propose.admitted import rules_with
    from fxmorph.torchapi.compiling import check_settings, quiet

    try:
        check_settings(case.compile)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    quiet()
    use_oracles([Path(p) for p in settings.oracles])
    rules = rules_with(packs, [Path(p) for p in settings.transforms])
    what = "as it is" if not case.number and case.recipe is None else f"variant {case.number}"
    under = [case.compile.backend, case.device, *filter(None, (case.dtype, case.context))]
    if case.compile.kernels is not Kernels.GENERATED:
        under.append(f"kernels interpreted ({case.compile.kernels})")
    say(f"case {case.id}: {case.seed.label}, {what}, {', '.join(under)}, torch {torch.__version__}")

    def ended(case: Case, tell: Callable[[str], None]) -> Ended:
        """What became of a child that judges a case, and says its verdict where it has one."""
        with TemporaryFile() as told:

            def judged(case: Case) -> Iterator[str]:
                def noted(phase: str) -> None:
                    os.write(told.fileno(), f"{phase}\n".encode())

                with noting(_Saying(tell)):
                    result = judge_case(case, rules, Clock(noted))
                _say_verdict(tell, result)
                yield result.status

            ((_, end),) = forked([case], judged, LONGEST)
            told.seek(0)
            phases = told.read().decode().split()
        if not isinstance(end, Crashed):
            return Ended(Judge(0, case))
        trouble = Trouble.ERROR if end.ending is Ending.RAISED else Trouble.CRASH
        phase = phases[-1] if phases else ""
        return Ended(Judge(0, case), None, trouble, phase, end.reason, phases=frozenset(phases))

    end = ended(case, say)
    if doubt := eager_alone(end):
        end = doubt.settled(ended(doubt.job.case, lambda line: None))
    if end.trouble:
        _say_verdict(say, result_of_loss(case, end))
    return Exit.OK


def _say_verdict(say: Callable[[str], None], result: CaseResult) -> None:
    kinds = f" {','.join(result.kinds)}" if result.kinds else ""
    where = f" at {result.stage}" if result.stage else ""
    _aloud(say, f"verdict {result.status}{kinds}{where}" + (f": {result.reason}" if result.reason else ""))


class _Saying(list[str]):
    """Lines that are said as they come: who says them may crash before the next."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def append(self, line: str) -> None:
        _aloud(self._say, line)


def _aloud(say: Callable[[str], None], line: str) -> None:
    say(line)
    sys.stdout.flush()


def _seed_case(settings: Settings, path: str) -> Case:
    seeds, refused = find_seeds([path])
    if len(seeds) != 1:
        why = refused[0].reason if refused else f"it holds {len(seeds)} seeds"
        raise ConfigError(f"{path}: want one seed: {why}")
    compiled = CompileConfig.make(
        settings.backend,
        dict(settings.compile),
        dict(settings.inductor),
        dict(settings.dynamo),
        threads_of(settings, 0),
        kernels_of(settings, 0),
    )
    return Case(
        seeds[0], 0, settings.seed, plans_of(settings, seeds[0], 0), compiled,
        rung=Rung.IR if settings.interprets else Rung.CPU, device=settings.devices[0], dtype=settings.dtype,
        context=settings.context,
    )  # fmt: skip


def _stored_case(settings: Settings, name: str) -> tuple[Case, list[Path]]:
    """From the last run, with other shards of its campaign: by position, or by the start of the id; with its packs."""
    with Store(settings.state_dir, write=False) as store:
        runs = store.runs()
        rows = [row for run in campaign_of(runs[-1], runs) for row in store.cases(run.id)] if runs else []
    found = [
        (i, c, r) for i, c, r in rows if (str(i) == name if name.isdigit() and len(name) < 8 else c.id.startswith(name))
    ]
    if len(found) != 1:
        trouble = f"{len(found)} cases start with it" if found else "the last run has no such case"
        raise ConfigError(f"explain {name}: {trouble} (state in {settings.state})")
    _, case, result = found[0]
    if result.recipe and case.recipe is None:
        case = replace(case, recipe=Recipe.parse(result.recipe))
    return case, [Path(p) for p in runs[-1].header.get("packs", ())]
