"""What is tried before anything is called a bug, and where it first goes wrong.

Mitigations: compile again from a clean state; ``emulate_precision_casts`` where 16-bit types
are involved; ``layout_optimization=False`` and no fusion patterns for strides.  Then the
backends, mildest first: the first that shows the difference names the stage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from fxmorph.core.clock import Clock
from fxmorph.judge import journal
from fxmorph.judge.accepted_folds import accepted, without
from fxmorph.judge.float32_constants import SAID, decompose_in_float64
from fxmorph.judge.journal import noting
from fxmorph.judge.trial import Subject, Trial
from fxmorph.model import (
    AGREES,
    LAYOUT_KINDS,
    NUMERIC_KINDS,
    CompileConfig,
    Kind,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
)
from fxmorph.programs.load import SEED_MODULE
from fxmorph.torchapi.aot import DECOMPOSED, decomposed_graphs
from fxmorph.torchapi.compiling import BACKEND_LADDER, forget_headers

#: The stage that a backend adds to the one before it.
STAGE = {
    "eager": "dynamo",
    "aot_eager_default_partitioner": "aot",
    "aot_eager": "partitioner",  # the min-cut one, as of Inductor
    "aot_eager_decomp_partition": "decomposition",
    "inductor": "inductor",
}
#: The stage of what only compile caches show.
CACHE_STAGE = "cache"


@dataclass(frozen=True)
class Climbed:
    """``status`` FINDING where the accusation stands, else ``code`` says what excuses it, ``reason`` to people.

    ``rows`` are (rung, kinds that it showed or AGREES).
    """

    status: Status
    reason: str
    stage: str
    kinds: frozenset[Kind]
    rows: tuple[tuple[str, str], ...]
    code: VerdictCode = VerdictCode.PLAIN


def kinds_of(verdicts: Iterable[Verdict]) -> frozenset[Kind]:
    """Kinds of the findings among verdicts."""
    return frozenset(v.kind for v in verdicts if v.status is Status.FINDING and v.kind is not None)


def emulating(config: CompileConfig) -> CompileConfig:
    """``config`` with every rounding of the program kept."""
    return config.with_inductor({"emulate_precision_casts": True})


class Ladder:
    """Re-judges one subject on one plan under changed configurations."""

    def __init__(self, subject: Subject, config: CompileConfig, input_seed: int, plan: ValuePlan, clock: Clock) -> None:
        self.subject, self.config, self.input_seed, self.plan, self.clock = subject, config, input_seed, plan, clock

    def kinds(self, **change: object) -> frozenset[Kind]:
        """Finding kinds under a fresh compile with ``backend`` or Inductor settings changed."""
        backend = change.pop("backend", self.config.backend)
        return self._with(replace(self.config, backend=str(backend)).with_inductor(change))

    def _with(self, config: CompileConfig) -> frozenset[Kind]:
        with noting(None):
            return kinds_of(Trial(self.subject, config, self.input_seed, self.clock).judge(self.plan))

    def _told(self) -> tuple[frozenset[Kind], set[str]]:
        """What is shown where eager, too, takes the way that the program has for when it is compiled, and who asked.

        Nobody, and nothing is compiled, where no module of the program asks.
        """
        askers: set[str] = set()
        told = self.subject.told(askers)
        Trial(told, self.config, self.input_seed, self.clock).eager(self.plan)
        if not askers:
            return frozenset(), askers
        return Ladder(told, self.config, self.input_seed, self.plan, self.clock).kinds(), askers

    def elided_still(self) -> bool:
        """Whether casts are elided under ``emulate_precision_casts=True`` too."""
        with noting(None):
            still = bool(
                kinds_of(Trial(self.subject, emulating(self.config), self.input_seed, self.clock).judge(self.plan))
            )
        journal.note(f"  ladder: emulate_precision_casts=True: {'casts are still elided' if still else 'agrees'}")
        return still

    def climb(
        self, accused: frozenset[Kind], low_precision: bool, dense: bool, far: bool = False,
        folded: tuple[frozenset[Kind], Collection[str]] = (frozenset(), ()), in_fp64: frozenset[Kind] = frozenset(),
        single: frozenset[Kind] = frozenset(),
    ) -> Climbed:  # fmt: skip
        """Try every mitigation, then walk the backends.

        ``low_precision``: 16-bit types or narrowing casts are involved; ``dense``: the strided
        outputs are permutations of contiguous ones, so a kernel may have chosen their order; ``far``:
        values are further off than precision kept in a fusion explains; ``folded``: kinds that concern NaN and Inf
        alone, and the units that were at work; ``in_fp64``: kinds that only kernels executed in fp64 show; ``single``:
        kinds that a number in float32 explains.
        """
        rows: list[tuple[str, str]] = []

        def note(rung: str, kinds: frozenset[Kind]) -> None:
            rows.append((rung, ", ".join(sorted(kinds)) or AGREES))
            journal.note(f"  ladder: {rung}: {rows[-1][1]}")

        if Kind.COMPILE_ERROR in accused:
            forget_headers()
        again = self.kinds() & accused
        note("compiled again", again)
        if not again:
            reason, code = "not seen again in a fresh compile", VerdictCode.NOT_SEEN_AGAIN
            return Climbed(Status.INCONCLUSIVE, reason, "", accused, tuple(rows), code)
        inductor = self.config.backend == "inductor"
        folds = accepted(folded[1]) if again & folded[0] and inductor else {}
        if folds:
            left = without(folds, self.kinds)
            note(f"without {', '.join(folds)}", left)
            again = frozenset(k for k in again if k not in folded[0] or k in left)
            if not again:
                reason = f"only NaN or Inf are lost: {'; '.join(sorted(set(folds.values())))}"
                return Climbed(Status.EDGE_CASE, reason, "inductor", accused, tuple(rows), VerdictCode.ACCEPTED_FOLD)
        if again & in_fp64:
            left = self.kinds(joint_graph_constant_folding=False)
            note("joint_graph_constant_folding=False", left)
            again = frozenset(k for k in again if k not in in_fp64 or k in left)
            if not again:
                reason, code = "constants are folded in the program's own dtypes, as eager has them", VerdictCode.FOLDED
                return Climbed(Status.CLEAN, reason, "inductor", accused, tuple(rows), code)
        if again & LAYOUT_KINDS and inductor:
            left = self.kinds(layout_optimization=False)
            note("layout_optimization=False", left)
            again = frozenset(k for k in again if k not in LAYOUT_KINDS or k in left)
            if again & LAYOUT_KINDS and dense:
                left = self.kinds(pattern_matcher=False)
                note("pattern_matcher=False", left)
                again = frozenset(k for k in again if k not in LAYOUT_KINDS or k in left)
            if not again:
                reason = "strides chosen by layout optimisation or by a fused kernel"
                return Climbed(Status.CLEAN, reason, "inductor", accused, tuple(rows), VerdictCode.LAYOUT_CHOSEN)
        if (again - in_fp64) & NUMERIC_KINDS and low_precision and inductor:
            left = self.kinds(emulate_precision_casts=True)
            note("emulate_precision_casts=True", left)
            if not again & left and again <= NUMERIC_KINDS and not far:
                reason, code = "vanishes under emulate_precision_casts", VerdictCode.CASTS_EMULATED
                return Climbed(Status.INCONCLUSIVE, reason, "inductor", again, tuple(rows), code)
        stage = STAGE.get(self.config.backend, self.config.backend)
        if self.subject.config(self.config).threads > 1:
            note("1 thread", self._with(replace(self.config, threads=1)))
        if dict(self.config.inductor).get("fx_graph_cache"):
            left = self.kinds(fx_graph_cache=False)
            note("without caches", left)
            if not again & left:
                return Climbed(Status.FINDING, "", CACHE_STAGE, again, tuple(rows))
            if self.subject.changes_dtype(self.plan):
                again -= left
                if not again:
                    reason = "the program in another dtype, without caches too, which --dtype judges"
                    return Climbed(Status.CLEAN, reason, stage, accused, tuple(rows), VerdictCode.OTHER_DTYPE)
        for backend in BACKEND_LADDER if inductor else ():
            seen = self.kinds(backend=backend)
            note(backend, seen)
            if seen & again:
                stage = STAGE[backend]
                if backend == "aot_eager_default_partitioner":  # people know it by the other one's name
                    note("aot_eager", self.kinds(backend="aot_eager"))
                break
        if stage == STAGE["aot_eager_decomp_partition"] and again <= single:
            with decomposed_graphs() as graphs:
                alike = self.kinds(backend=DECOMPOSED) >= again and decompose_in_float64(graphs)
            if alike:
                code = VerdictCode.FLOAT32_CONSTANT
                return Climbed(Status.EDGE_CASE, SAID, stage, accused, tuple(rows), code)
        if self.subject.askers is None and (stage == STAGE["eager"] or not inductor):
            left, askers = self._told()
            if askers and left < again:
                note("eager, told that it is compiled", left)
                libraries = sorted(name for name in askers if not name.startswith(SEED_MODULE))
                reason = f"{', '.join(libraries) or 'the program'} asks whether it is compiled, and does otherwise then"
                return Climbed(Status.EXPECTED, reason, "", accused, tuple(rows), VerdictCode.ASKS)
        note(self.config.backend, again)
        return Climbed(Status.FINDING, "", stage, again, tuple(rows))
