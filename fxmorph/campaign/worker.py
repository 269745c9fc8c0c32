"""What a worker process does: judge cases, investigate findings.

Imported by the fork server, so that torch and the compiler's modules are loaded once; at
import nothing is executed that starts threads.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fxmorph.campaign.jobs import (
    Confirm,
    Derive,
    Identify,
    Investigate,
    Judge,
    Judged,
    JudgePasses,
    KeepProgram,
    ListOperators,
    ListUnits,
    Manner,
    WriteUp,
)
from fxmorph.campaign.kept_text import kept_text
from fxmorph.core.clock import Clock
from fxmorph.core.installed_lists import OPERATORS
from fxmorph.core.pool import Lost, Unequipped, answer_jobs, answers_so_far, phases, print_to
from fxmorph.core.scripts import ForkedScripts, Scripts
from fxmorph.judge.case import judge_case
from fxmorph.judge.trial import ToolchainMissing
from fxmorph.model import Case, Rung, Status
from fxmorph.oracle import use_oracles
from fxmorph.programs.subnormals import subnormals_kept
from fxmorph.propose.admitted import rules_with
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.prover import RUN_BUDGET, Prover
from fxmorph.rules import Registry
from fxmorph.torchapi.asked_vector_units import know_vector_units
from fxmorph.torchapi.compiling import quiet, warm_imports
from fxmorph.torchapi.devices import DeviceLost, require_device
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.demonstration import with_exhibit
from fxmorph.triage.folder.confirm import confirm, ending_kernel
from fxmorph.triage.folder.write_up import written_up
from fxmorph.triage.investigate import as_found, investigate
from fxmorph.triage.known.exact_match import exact_match

warm_imports()


def serve(
    connection: Connection,
    transforms: Sequence[str],
    cache: str,
    log: str,
    proofs: str,
    packs: Sequence[str] = (),
    oracles: Sequence[str] = (),
    scripts: str = "",
) -> None:
    """Answer jobs until the connection closes; what programs and compilers print goes to ``log``.

    ``proofs`` is the folder of certificates, ``packs`` folders of proposals whose admitted rules are used,
    ``transforms`` and ``oracles`` folders of loose files; ``scripts`` is the address of the server that findings'
    scripts are forked from, "" where there is none.
    """
    import torch

    print_to(log)
    quiet()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    torch.set_num_threads(1)
    rules = rules_with([Path(p) for p in packs], [Path(p) for p in transforms])
    prover = Prover(Certificates(Path(proofs)), RUN_BUDGET)
    use_oracles([Path(p) for p in oracles])

    fresh = ForkedScripts(scripts) if scripts else Scripts()
    tell = phases(connection)
    clock = Clock(on_change=tell, since_birth=True, so_far=answers_so_far(connection))

    def answer(job: Any) -> Any:
        try:
            with subnormals_kept():
                return _with_device(lambda: _answer(job, rules, prover, clock, cache, fresh, tell))
        except DeviceLost as error:
            if clock.failed_in:
                tell(clock.failed_in)
            raise Lost(str(error)) from None
        except ToolchainMissing as error:
            raise Unequipped(f"toolchain: {error}") from None
        finally:
            clock.take()

    answer_jobs(connection, answer)


def _with_device(work: Callable[[], Any]) -> Any:
    """What ``work`` returns or raises; raises ``DeviceLost`` where the device does not work any more after it."""
    try:
        value = work()
    except DeviceLost:
        raise
    except Exception:
        require_device()
        raise
    require_device()
    return value


def _about_units(
    job: JudgePasses | Derive | ListUnits, rules: Registry, prover: Prover, clock: Clock, tell: Callable[[str], None]
) -> Any:
    """The answer to a job of the pass rung, whose modules other runs do not load."""
    if isinstance(job, ListUnits):
        from fxmorph.inductor.rung import chosen

        with clock.activity("passes"):
            listed_units = chosen(job.patterns)
        return listed_units, clock.take()
    if isinstance(job, JudgePasses):
        from fxmorph.inductor.inventory import listed
        from fxmorph.inductor.rung import judge_source

        with clock.activity("passes"):
            units = [listed(name).unit for name in job.units]
            judged = judge_source(
                job.source, units, prover if job.prove else None, rules, job.campaign_seed, Path(job.folder), job.skip,
                tell,
            )  # fmt: skip
        spent = clock.take()
        return replace(judged, seconds=round(sum(used for _, used in spent), 3)), spent
    from fxmorph.inductor.derive.entries import derive_all
    from fxmorph.torchapi.patterns import entries

    with clock.activity("derive"):
        wanted = [e for e in entries() if e.full_name in job.entries]
        made = tuple(derive_all(wanted, job.seed, near=job.near))
    return made, clock.take()


def _listed(clock: Clock) -> Any:
    from fxmorph.torchapi.operator_programs import listed_operators

    with clock.activity("capture"):
        return OPERATORS.found(listed_operators), clock.take()


def _judged(case: Case, rules: Registry, prover: Prover, clock: Clock) -> Judged:
    _before_forks(case, case.rung is Rung.CPU, clock)
    result = judge_case(case, rules, clock, prover)
    if result.status is not Status.FINDING:
        return Judged(result)
    try:
        return Judged(result, as_found(case, result, rules, clock))
    except (DeviceLost, ToolchainMissing):
        raise
    except Exception:  # that the case differs is said all the same
        traceback.print_exc()  # to the log
        return Judged(result)


def _before_forks(case: Case, generated: bool, clock: Clock) -> None:
    """Where code is generated processes are forked for some of the compiles: each would find out for itself."""
    if generated and case.device == "cpu" and case.compile.backend == "inductor":
        with clock.activity("start"):
            know_vector_units()


def _investigated(job: Investigate, rules: Registry, clock: Clock) -> Investigated:
    if job.manner is Manner.AS_FOUND:
        return as_found(job.case, job.result, rules, clock, job.blame)
    _before_forks(job.case, job.case.rung is Rung.CPU or job.result.compiled, clock)
    if job.manner is Manner.APART:
        return investigate(job.case, job.result, rules, clock, job.seconds, job.groups, apart=True, blame=job.blame)
    if job.manner is Manner.BLAMED:
        return investigate(job.case, job.result, rules, clock, job.seconds, job.groups, reduce=False)
    found = investigate(job.case, job.result, rules, clock, job.seconds, job.groups)
    return with_exhibit(found, job.case, job.result, rules, clock)


def _answer(
    job: Any, rules: Registry, prover: Prover, clock: Clock, cache: str, scripts: Scripts, tell: Callable[[str], None]
) -> Any:
    """The answer to a job; raises ``DeviceLost`` when this process can run nothing any more.

    ``tell`` hears which unit of Inductor runs.
    """
    if isinstance(job, Judge):
        clock.enough = job.enough
        return _judged(job.case, rules, prover, clock)
    if isinstance(job, ListOperators):
        return _listed(clock)
    if isinstance(job, Investigate):
        return _investigated(job, rules, clock)
    if isinstance(job, KeepProgram):
        with clock.activity("capture"):
            text = kept_text(job.case, job.result, rules, clock)
        return text, clock.take()
    if isinstance(job, (JudgePasses, Derive, ListUnits)):
        return _about_units(job, rules, prover, clock, tell)
    assert isinstance(job, (Confirm, Identify, WriteUp))
    with clock.activity("confirm"):
        where = Path(job.folder), Path(cache)
        if isinstance(job, WriteUp):
            return written_up(*where), clock.take()
        answer = confirm(*where, 1 if isinstance(job, Identify) else job.times, scripts)
        if answer.stands:
            match = exact_match(job.finding, *where, shown=True, scripts=scripts)
            answer = replace(answer, match=match, kernel=ending_kernel(job.finding, *where))
    return answer, clock.take()
