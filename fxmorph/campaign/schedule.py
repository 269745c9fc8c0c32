"""What a run judges and in which order, and what schedules have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.pool import Ended, Trouble
from fxmorph.core.versions import version_of
from fxmorph.judge.plans import RELAID_EVERY, kernels_of, plans_of, threads_of
from fxmorph.model import RESHAPES, Case, CaseResult, CompileConfig, GraphLevel, Kind, Rung, Seed, Status, digest

#: Of the variants that keep their layout, one of about so many gets inputs of other sizes or ranks.
RESHAPED_EVERY = 4
#: More errors of fxmorph's own than these, and than this share of all, fail a run.
FEW_ERRORS, ERRORS_SHARE = 3, 0.2
#: Nothing at all starts after this share of the budget: findings of units need one compile each.
LATEST = 0.97


def too_many(errors: int, of: int) -> bool:
    """Whether so many errors of fxmorph's own fail a run."""
    return errors > FEW_ERRORS and errors > ERRORS_SHARE * of


class Schedule(Protocol):
    """Yields jobs for workers, hears what became of them, and says what remains.

    What differs it hands to the finding queue; the run gives its jobs to workers.
    """

    @property
    def rung(self) -> Rung:
        """Of what is compiled, or alone at."""

    @property
    def rungs(self) -> Mapping[str, int]:
        """How many cases were judged at each that there are cases of."""

    @property
    def until(self) -> float:
        """No new job starts after this share of the budget; what is left goes to findings."""

    @property
    def planned(self) -> int | None:
        """How many cases there are, None where only limits end the run."""

    @property
    def judged(self) -> int:
        """How many cases have a verdict so far."""

    @property
    def unjudged(self) -> int:
        """How many seeds there are of which an error alone is known, and jobs of units where those are too many."""

    def jobs(self) -> Iterator[Any]:
        """Jobs, each with an ``index``, in order; None where the results so far must come in first."""

    @property
    def late_jobs(self) -> Iterator[Any]:
        """Those of :meth:`jobs` that start when time for others is over: what they find needs no investigation."""

    def limit(self, job: Any) -> float:
        """CPU seconds that the job may take."""

    def recalled(self, job: Any) -> bool:
        """Whether an earlier part of the run has the job's result, which is then taken."""

    def hear(self, ended: Ended) -> None:
        """One of the jobs ended."""

    def end(self) -> None:
        """The run ends, uninterrupted: say what remains."""

    def coverage(self) -> dict[str, Any]:
        """What was reached, a plain table."""


def rung_of(settings: Settings) -> Rung:
    """The rung of whole programs."""
    if settings.interprets:
        return Rung.IR
    return Rung.CUDA if settings.device == "cuda" else Rung.CPU


def can_interpret() -> bool:
    """Whether the installed torch has what interpreted kernels need."""
    from fxmorph.torchapi.compiling import no_interpreter

    return not no_interpreter()


def placed(settings: Settings, case: Case, place: int) -> Case:
    """The case with the threads, and the kernels of a variant, of its place in an order of one rung."""
    kernels = kernels_of(settings, place) if case.number else case.compile.kernels
    return replace(case, compile=replace(case.compile, threads=threads_of(settings, place), kernels=kernels))


def compile_config(settings: Settings) -> CompileConfig:
    return CompileConfig.make(
        settings.backend, dict(settings.compile), dict(settings.inductor), dict(settings.dynamo),
        settings.threads or 1, kernels_of(settings, 0),
    )  # fmt: skip


def case_of(
    settings: Settings, seed: Seed, number: int, rung: Rung, avoid: tuple[str, ...] = (), favour: tuple[str, ...] = ()
) -> Case:
    """Variant ``number`` of the seed (0: as it is), by rules that are rather of ``favour`` and not of ``avoid``."""
    return Case(
        seed=seed,
        number=number,
        campaign_seed=settings.seed,
        plans=plans_of(settings, seed, number),
        compile=compile_config(settings),
        rung=rung,
        device=settings.device,
        level=GraphLevel(settings.level),
        avoid=avoid,
        favour=favour,
        torch=version_of("torch"),
        dtype=settings.dtype,
        context=settings.context,
        relaid=number % RELAID_EVERY == 0 and number > 0,
        reshaped=_reshaped(settings, seed, number),
    )


def _reshaped(settings: Settings, seed: Seed, number: int) -> str:
    """Of variants whose inputs keep their layout."""
    drawn = int(digest([settings.seed, seed.hash, number]), 16)
    if number % RELAID_EVERY == 0 or drawn % RESHAPED_EVERY or not settings.rewrites:
        return ""
    return RESHAPES[drawn // RESHAPED_EVERY % len(RESHAPES)]


def result_of_loss(case: Case, ended: Ended) -> CaseResult:
    """The result of a case that took its worker with it, or that the harness failed on.

    Of one whose time ended outside of compiled code, or that eager alone dies of under a later plan, it is what was
    judged until then, on the program's own values at least.
    Raises :class:`ConfigError` where it is the toolchain that fails.
    """
    seconds = ((ended.phase or "start", ended.cpu),)
    in_compiler = ended.phase in ("compile",)
    if ended.trouble is Trouble.ERROR:
        if ended.unequipped:
            raise ConfigError(f"{ended.detail.removeprefix('toolchain: ')} (see `fxmorph doctor`)")
        return CaseResult(case.id, Status.ERROR, reason=f"harness: {ended.detail}")
    where = "compiled program or compiler" if in_compiler else f"{ended.phase or 'start'} (not compiled code)"
    reason = f"{ended.trouble} in {where}: {ended.detail}"
    if ended.trouble is Trouble.KILLED:
        reason += "; out of memory, most likely"
    so_far = ended.so_far
    judged = isinstance(so_far, CaseResult) and so_far.case_id == case.id
    if judged and not in_compiler and (ended.trouble is Trouble.TIMEOUT or ended.alone):
        why = f"more of --case-timeout allows: {reason}"
        if ended.alone:
            why = f"eager alone dies of, too: {ended.detail}"
        return replace(so_far.with_more(f"not judged further, which {why}"), seconds=seconds)
    if ended.trouble is Trouble.TIMEOUT:
        reason += "; --case-timeout allows more"
    crashed = in_compiler and ended.trouble is Trouble.CRASH
    status = Status.FINDING if crashed else Status.INCONCLUSIVE if in_compiler else Status.ERROR
    kinds = (Kind.CRASH,) if crashed else ()
    stage = "inductor" if crashed else ""
    return CaseResult(case.id, status, kinds, reason, stage=stage, seconds=seconds)
