"""One program on trial: eager, compiled and reference runs of it, judged.

A :class:`Subject` gives fresh programs; a :class:`Trial` compiles it once under a
configuration and judges it on each value plan.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

import torch

from fxmorph.core.clock import Clock
from fxmorph.core.kernel_faults import faults_noted
from fxmorph.judge.batch_invariance import judge_rows
from fxmorph.judge.fp64_execution import compare_in_fp64, executed_in_fp64
from fxmorph.judge.journal import note
from fxmorph.judge.numeric import NonFinite, compare
from fxmorph.judge.own_numbers import judge_numbers
from fxmorph.judge.plans import RACES
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.shadows import Shadows, Taken
from fxmorph.judge.reference.uninitialised import FillEmpty
from fxmorph.judge.restored import restored
from fxmorph.judge.steps import Steps
from fxmorph.judge.unstable import loses_numbers, move, moves_as_far
from fxmorph.model import (
    DRAWN_PLANS,
    NUMERIC_KINDS,
    SIZE_PLANS,
    CompileConfig,
    Kernels,
    Kind,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
    worst,
)
from fxmorph.oracle import Evidence, load_oracles, promises_bits
from fxmorph.programs.bits import plain, same_bits
from fxmorph.programs.called_in_turn import Turns, turns
from fxmorph.programs.contents import differing, same_plain
from fxmorph.programs.fewer_results import returning
from fxmorph.programs.inputs import InputSet, NotApplicable, Unsupported
from fxmorph.programs.load import Invocation, LoadedSeed, in_other_layout, mixes_dtypes
from fxmorph.programs.observe import Observation, as_is, observe, same_observation
from fxmorph.programs.other_rows import OtherRows, other_rows
from fxmorph.programs.signature import Signature
from fxmorph.programs.sizes import Sizes
from fxmorph.programs.values import Step, apply_plan
from fxmorph.torchapi.compile_queries import told_compiled
from fxmorph.torchapi.compiling import (
    compile_callable,
    configured,
    forget_unfinished,
    freezes,
    has_own_caches,
    on_threads,
    reset,
    toolchain_trouble,
)
from fxmorph.torchapi.devices import out_of_memory, require_device, without_tf32
from fxmorph.torchapi.firing import noting
from fxmorph.torchapi.new_memory import other_garbage
from fxmorph.torchapi.strict_numerics import is_strict

#: How the RNG seed of the inputs differs under RESEED, and that of another draw of perturbed lanes.
RESEED, OTHER_DRAW = 7001, 104_729
#: Draws more that an accusation of a value must stand; as many as equal elements need, of which any may be taken (each
#: draw takes two others), up to a few more.
DRAWS, MOST_DRAWS = 2, 8
_OF_VALUES = (
    VerdictCode.OUTSIDE_ENVELOPE, VerdictCode.UNEQUAL, VerdictCode.EXACT_ARITHMETIC, VerdictCode.FINITENESS,
)  # fmt: skip


class ToolchainMissing(Exception):
    """Compilation cannot work on this machine; the message says what is missing."""


class OutOfMemory(Exception):
    """Eager has no room for the program's own inputs; the message says where and for how much."""


class Subject(Protocol):
    """A program that can be made fresh with given values any number of times."""

    #: Of the plans that change them.
    sizes: Sizes
    #: Where it hears in eager, too, that it is compiled: given the modules that ask.
    askers: set[str] | None

    @property
    def no_grad(self) -> bool: ...

    @property
    def inference(self) -> bool:
        """Whether it runs in inference mode."""
        ...

    @property
    def converted(self) -> bool:
        """Whether its dtypes are not those that it was written for, so that eager may refuse it."""
        ...

    def refuses(self, input_seed: int) -> bool:
        """Whether it is a test where eager raises on its own inputs: of whether compiled code raises too."""
        ...

    def changes_dtype(self, plan: ValuePlan) -> bool:
        """Whether the plan has the program called in another dtype too, which is another program."""
        ...

    def rows(self, input_seed: int) -> OtherRows:
        """Raises ``NotApplicable`` of a program that does not promise batch invariance."""
        ...

    def fresh(self, plan: ValuePlan, input_seed: int) -> Invocation:
        """Raises ``NotApplicable`` when the plan changes nothing in this program, ``Unsupported`` of its inputs."""
        ...

    def config(self, base: CompileConfig) -> CompileConfig: ...

    def told(self, askers: set[str]) -> Subject:
        """The same program, which hears in eager, too, that it is compiled; ``askers`` is given who asks."""
        ...

    def returning(self, places: frozenset[int], input_seed: int) -> Subject | None:
        """The program with None for all of its results but some; None where more than a call of a function is run."""
        ...


@dataclass
class SeedSubject:
    """The seed's own callable."""

    loaded: LoadedSeed
    sizes: Sizes = field(default_factory=Sizes)
    steps: Steps = field(default_factory=Steps)
    #: What changes from call to call under plan ``cached``, once it was asked for.
    _turns: list[Turns] = field(default_factory=list)
    #: The seed in another layout, or None, once it was asked for.
    _layouts: list[LoadedSeed | None] = field(default_factory=list)
    #: Whether the program runs on the CPU on a plan's values: asked before a GPU is given them.
    _runs_on_cpu: dict[tuple[ValuePlan, int, int], bool] = field(default_factory=dict)
    askers: set[str] | None = None

    @property
    def no_grad(self) -> bool:
        return self.loaded.no_grad

    @property
    def inference(self) -> bool:
        return self.loaded.context == "inference"

    @property
    def converted(self) -> bool:
        return bool(self.loaded.dtype) or self.loaded.context == "autocast"

    def refuses(self, input_seed: int) -> bool:
        return bool(self.loaded.meta.get("raises")) or mixes_dtypes(self.loaded, input_seed)

    def changes_dtype(self, plan: ValuePlan) -> bool:
        return plan is ValuePlan.CACHED and any(t.of_dtype for t in self._turns)

    def rows(self, input_seed: int) -> OtherRows:
        if not self.loaded.meta.get("batch_invariant"):
            raise NotApplicable("batch invariance is not promised")
        return other_rows(self.loaded.fresh(input_seed).args)

    def fresh(self, plan: ValuePlan, input_seed: int) -> Invocation:
        if plan in SIZE_PLANS:
            return self.sizes.changed(plan, lambda change: self.loaded.fresh(input_seed, change))
        if plan is ValuePlan.LAYOUT:
            return self._relaid(input_seed)
        if plan is ValuePlan.ROWS:
            return self.loaded.fresh(input_seed, self.rows(input_seed).of)
        if plan is ValuePlan.CACHED:
            self._turns = self._turns or [turns(self.loaded, input_seed)]
            return self._turns[0].of(self.loaded, input_seed)
        step = self.steps.of(plan, lambda step: self._at(plan, input_seed, step), self.no_grad)
        return self._at(plan, input_seed, step)

    def _relaid(self, input_seed: int) -> Invocation:
        if not self._layouts:
            self._layouts.append(None if self.loaded.relaid else in_other_layout(self.loaded, input_seed))
        other = self._layouts[0]
        if other is None:
            raise NotApplicable("no other layout")
        return other.fresh(input_seed)

    def _at(self, plan: ValuePlan, input_seed: int, step: Step) -> Invocation:
        # An operator that refuses values on a GPU takes the process with it: the CPU refuses them with an exception.
        if plan in DRAWN_PLANS and self.loaded.device == "cuda" and isinstance(step, int):
            runs = self._on_cpu(plan, input_seed, step)
            if not runs and self._on_cpu(ValuePlan.SEED, input_seed, 0):
                raise NotApplicable("the CPU refuses these values")
        return self._on(self.loaded, plan, input_seed, step)

    def _on_cpu(self, plan: ValuePlan, input_seed: int, step: int) -> bool:
        key = plan, input_seed, step
        if key not in self._runs_on_cpu:
            try:
                made = self._on(replace(self.loaded, device="cpu"), plan, input_seed, step)
                with torch.no_grad():
                    made.drive(made.fn)
                self._runs_on_cpu[key] = True
            except Exception:
                self._runs_on_cpu[key] = False
        return self._runs_on_cpu[key]

    def _on(self, loaded: LoadedSeed, plan: ValuePlan, input_seed: int, step: Step) -> Invocation:
        made = loaded.fresh(input_seed + (RESEED if plan is ValuePlan.RESEED else 0))
        tensors = made.tensors
        layout = next((t.layout for t in tensors if t.layout != torch.strided), None)
        if layout is not None:
            raise Unsupported(f"inputs of layout {str(layout).removeprefix('torch.')} are not judged")
        apply_plan(plan, tensors, input_seed, step)
        return made

    def config(self, base: CompileConfig) -> CompileConfig:
        return self.loaded.config(base)

    def told(self, askers: set[str]) -> Subject:
        return replace(self, askers=askers)

    def returning(self, places: frozenset[int], input_seed: int) -> Subject | None:
        other = self.loaded.returning(places, input_seed)
        return None if other is None else SeedSubject(other, askers=self.askers)


@dataclass
class GraphSubject:
    """A function of tensors (a captured graph or a variant of one) and its inputs by plan."""

    fn: Callable[..., Any]
    inputs: dict[ValuePlan, InputSet]
    base_config: Callable[[CompileConfig], CompileConfig]
    no_grad: bool = False
    inference: bool = False
    converted: bool = False
    sizes: Sizes = field(default_factory=Sizes)
    askers: set[str] | None = None

    def refuses(self, input_seed: int) -> bool:
        return True  # it was captured from a program that ran, or whoever gives a function means it

    def changes_dtype(self, plan: ValuePlan) -> bool:
        return False

    def rows(self, input_seed: int) -> OtherRows:
        raise NotApplicable("a graph promises nothing")

    def fresh(self, plan: ValuePlan, input_seed: int) -> Invocation:
        if plan in SIZE_PLANS and plan not in self.inputs:
            return self.sizes.changed(plan, self._with)
        if plan not in self.inputs:
            raise NotApplicable(str(plan))
        args = self.inputs[plan].rebuild()
        return Invocation(self.fn, args, lambda g: g(*args))

    def _with(self, change: Callable[[list[Any]], list[Any]] | None) -> Invocation:
        args = self.inputs[ValuePlan.SEED].rebuild()
        args = args if change is None else change(args)
        return Invocation(self.fn, args, lambda g: g(*args))

    def config(self, base: CompileConfig) -> CompileConfig:
        return self.base_config(base)

    def told(self, askers: set[str]) -> Subject:
        return replace(self, askers=askers)

    def returning(self, places: frozenset[int], input_seed: int) -> Subject | None:
        return replace(self, fn=returning(self.fn, places))


class LazyReference:
    """The reference run of a subject under a plan, made when first asked for."""

    def __init__(self, trial: Trial, plan: ValuePlan, eager: Observation, draw: int = 0, loose: bool = False) -> None:
        """``draw`` counts references of one run whose lanes are perturbed otherwise; ``loose``: in some of
        which casts round and others do not.
        """
        self._trial, self._plan, self._eager, self._draw, self._loose = trial, plan, eager, draw, loose
        self._run: ReferenceRun | None = None
        self._seen: Observation | None = None

    def _make(self) -> tuple[ReferenceRun, Observation]:
        if self._run is None or self._seen is None:
            seed = self._trial.input_seed + OTHER_DRAW * self._draw
            run = ReferenceRun(seed, bool(self._eager.gradients), draw=self._draw, loose=self._loose)
            with self._trial.clock.activity("eager"):
                self._seen = self._trial.observe(self._plan, as_is, mode=run, keep=run.keep)
            self._run = run
            if self._seen.raised and not self._eager.raised:
                self._trial.forget()
        return self._run, self._seen

    def explained(self, verdict: Verdict) -> Verdict:
        """Why there is no reference, where that is what is said: the reference run raised what eager did not."""
        raised = self._make()[1].raised if verdict.code is VerdictCode.NO_REFERENCE else ""
        return replace(verdict, reason=f"{verdict.reason}; the reference run raised {raised}") if raised else verdict

    def gates(self, slot: str = "") -> Gates:
        gates, shadows = self._make()[0].gates, self.shadows(slot)
        return gates if shadows is None else gates.around(shadows.closed)

    def taken(self, number: float) -> Taken | None:
        return next((t for t in self._make()[0].taken if t.native == number), None)

    def shadows(self, slot: str) -> Shadows | None:
        found = self._make()[1].slot(slot)
        return found.value if found is not None and isinstance(found.value, Shadows) else None


class Trial:
    """Compiles a subject on first use and judges it on any number of plans.

    Making another trial compile resets Dynamo: an older one must not be used after that.
    """

    def __init__(
        self, subject: Subject, config: CompileConfig, input_seed: int, clock: Clock, fired: set[str] | None = None
    ) -> None:
        """``fired`` is given the names of the units of Inductor that compiling makes use of."""
        self._fired = fired
        self.subject = subject
        self.settings = subject.config(config)
        self.input_seed = input_seed
        self.clock = clock
        self._compiled: dict[int, tuple[Any, Callable[..., Any]]] = {}
        self._module: Invocation | None = None
        #: What was seen of eager and of the compiled program in the last judgement.
        self.sides: tuple[Observation, Observation] | None = None
        #: Of the exception that only one side raised in the last judgement.
        self.signature: Signature | None = None

    def observe(
        self, plan: ValuePlan, wrap: Callable[[Any], Any], prepare: Callable[[Invocation], None] | None = None,
        **more: Any,
    ) -> Observation:  # fmt: skip
        """``prepare`` may change the values of the fresh program; ``more`` is told to ``observe``."""
        made = self.subject.fresh(plan, self.input_seed)
        if prepare is not None:
            prepare(made)
        return self._observe(made, plan, wrap, **more)

    def _observe(self, made: Invocation, plan: ValuePlan, wrap: Callable[[Any], Any], **more: Any) -> Observation:
        askers = self.subject.askers if wrap is as_is else None
        hearing = nullcontext() if askers is None else told_compiled(askers)
        with on_threads(self.settings.threads), without_tf32(), hearing:
            seen = observe(
                made, wrap, no_grad=self.subject.no_grad, inference=self.subject.inference,
                exact=plan is ValuePlan.EXACT, calls=2 if plan is ValuePlan.AGAIN else 1, **more,
            )  # fmt: skip
        require_device()
        return seen

    def _in_module_of_before(self, made: Invocation) -> Invocation:
        """``made`` with its module replaced by the one compiled before, where that can be brought to its state, has no
        parameters that are constants of what was compiled, and is not held by what drives it.
        """
        if not isinstance(made.fn, torch.nn.Module):
            return made
        old = self._module
        other = None if old is None or made.bound or freezes(self.settings) else restored(old, made)
        if other is None:
            self._module = made
        return other or made

    def compiled(
        self, plan: ValuePlan, prepare: Callable[[Invocation], None] | None = None, **more: Any
    ) -> Observation:
        """Raises :class:`ToolchainMissing`."""

        def wrap(fn: Any) -> Any:
            if id(fn) not in self._compiled:
                self._compiled[id(fn)] = (fn, compile_callable(fn, self.settings))
            return self._compiled[id(fn)][1]

        units = nullcontext() if self._fired is None else noting(self._fired)
        with self.clock.activity("compile"), configured(self.settings), units:
            made = self.subject.fresh(plan, self.input_seed)
            made = self._in_module_of_before(made)
            if prepare is not None:
                prepare(made)
            with faults_noted() as faults:
                seen = self._observe(made, plan, wrap, **more)
            seen.faults = faults.found
        if seen.exception is not None and (trouble := toolchain_trouble(seen.exception)):
            raise ToolchainMissing(trouble)
        if seen.exception is not None and forget_unfinished(seen.exception):
            self._compiled.clear()
            return self.compiled(plan, prepare, **more)
        return seen

    def _keeps_casts(self) -> bool:
        """Whether elided casts are held against the program: it was told to keep them, and could."""
        return bool(dict(self.settings.inductor).get("emulate_precision_casts")) and keeps_casts(self.settings)

    def forget(self) -> None:
        """Have what was compiled so far compiled anew: what failed under a mode Dynamo would have fail again."""
        reset()
        self._compiled.clear()

    def eager(self, plan: ValuePlan, **more: Any) -> Observation:
        with self.clock.activity("eager"):
            return self.observe(plan, as_is, **more)

    def reference(self, plan: ValuePlan, eager: Observation, draw: int = 0, loose: bool = False) -> LazyReference:
        return LazyReference(self, plan, eager, draw, loose)

    def judge(self, plan: ValuePlan) -> list[Verdict]:
        """Verdicts on one plan, clean slots left out; ``unsupported`` where inputs are.

        Raises ``NotApplicable``, and :class:`OutOfMemory` of the program's own inputs.
        """
        if plan in SIZE_PLANS:
            if not dict(self.settings.options).get("dynamic"):
                raise NotApplicable("sizes are changed where shapes are dynamic")
            if not self._compiled:  # the compile in question is that of the first size
                self.compiled(ValuePlan.SEED)
        if plan is ValuePlan.CACHED and not has_own_caches():
            raise NotApplicable("this release cannot keep a trial's caches apart")
        try:
            eager = self.eager(plan)
        except Unsupported as error:
            return [_unsupported(str(error), plan, VerdictCode.UNSUPPORTED_INPUTS)]
        if eager.exception is not None and out_of_memory(eager.exception):
            if plan is ValuePlan.SEED:
                raise OutOfMemory(f"eager: {eager.raised}")
            raise NotApplicable("out of memory in eager")
        if eager.raised and self.subject.converted:
            return [_unsupported(f"does not run in this dtype: {eager.raised}", plan, VerdictCode.REFUSED_DTYPE)]
        if "on the same device" in eager.raised or "on cpu" in eager.raised:  # as torch says it
            return [_unsupported(f"does not run on this device: {eager.raised}", plan, VerdictCode.REFUSED_DEVICE)]
        if plan is ValuePlan.RANDOM:
            return [replace(v, plan=plan) for v in judge_numbers(self, eager)]
        if plan is ValuePlan.ROWS:
            return [replace(v, plan=plan) for v in judge_rows(self, eager)]
        reference = self.reference(plan, eager)
        if plan is ValuePlan.STRICT and not self._promised_bits(eager, reference):
            raise NotApplicable("no float whose bits are promised")
        compiled = self.compiled(plan)
        self.sides = eager, compiled
        self.signature = None if eager.raised and compiled.raised else compiled.signature or eager.signature
        note(lambda: f"plan {plan}: eager {_outcome(eager)}; compiled ({self.settings.backend}) {_outcome(compiled)}")
        with self.clock.activity("judge"):
            verdicts = self._no_test(eager, compiled) if plan is ValuePlan.SEED else []
            verdicts += self.weigh(plan, eager, compiled, reference)
        if self.settings.threads > 1 and plan is ValuePlan.SEED:
            verdicts = self._raced(plan, eager, compiled, verdicts)
        return [replace(v, plan=plan) for v in verdicts]

    def _raced(
        self, plan: ValuePlan, eager: Observation, compiled: Observation, verdicts: list[Verdict]
    ) -> list[Verdict]:
        """The verdicts, or the accusations of another run of the same compiled program on equal inputs.

        Threads that race show in some runs.  Bits that differ say nothing alone: sums that threads share may.
        """
        for _ in range(RACES - 1):
            if any(v.status is Status.FINDING for v in verdicts):
                break
            other = self.compiled(plan)
            if same_observation(compiled, other):
                continue
            note("another run on equal inputs gives other bits")
            with self.clock.activity("judge"):
                found = [v for v in self.weigh(plan, eager, other) if v.status is Status.FINDING]
            if found:
                self.sides = eager, other
                return [*verdicts, *(replace(v, reason=f"in one run of several: {v.reason}") for v in found)]
        return verdicts

    def _no_test(self, eager: Observation, compiled: Observation) -> list[Verdict]:
        """``unsupported`` where both raise on the program's own inputs, so that nothing can be compared.

        Where both return, and the backward pass that is run for the gradients raises, that can be.
        """
        both = eager.raised and compiled.raised
        if not both or (eager.returned and compiled.returned) or self.subject.refuses(self.input_seed):
            return []
        where = " in its backward pass" if eager.in_backward else ""
        text = f"raises in eager on its own inputs{where}: {eager.raised}"
        return [Verdict(Status.UNSUPPORTED, None, "call", text, code=VerdictCode.EAGER_RAISES)]

    def weigh(
        self, plan: ValuePlan, eager: Observation, compiled: Observation, reference: LazyReference | None = None
    ) -> list[Verdict]:
        """The order of judgement: exact checks, values, and the gates before any accusation.

        ``reference`` is that of ``eager``, where there is one already.
        """
        reference = reference or self.reference(plan, eager)
        strict = is_strict(dict(self.settings.inductor))
        evidence = Evidence(
            eager, compiled, reference, plan, lambda: self._inputs(plan), strict, lambda: self._in_fp64(plan)
        )
        verdicts: list[Verdict] = []
        for judge in load_oracles():
            for v in judge.judge(evidence):
                if v.status is not Status.CLEAN:
                    verdicts.append(v)
                elif v.reason:
                    note(lambda v=v: f"  {v.slot}: {v.reason}")  # type: ignore[misc]
            if judge.step == 1 and not (eager.returned and compiled.returned):
                break
        verdicts = [reference.explained(v) for v in verdicts]
        if any(v.code is VerdictCode.CAST_ELIDED for v in verdicts) and self._keeps_casts():
            verdicts = [_accused_of_eliding(v) for v in verdicts]
        for line in evidence.summary():
            note(lambda line=line: f"  {line}")  # type: ignore[misc]
        for v in verdicts:
            got = evidence.compared.get(v.slot)
            if got is None or (got.status, got.code) != (v.status, v.code):
                note(lambda v=v: f"  {v.slot}: {v.kind or v.status}: {v.reason}")  # type: ignore[misc]
        if any(v.status is Status.FINDING for v in verdicts):
            again = self.eager(plan)
            gate = self._closed_gate(plan, eager, again, reference)
            note(lambda: f"  gates: {gate.reason if gate else 'all open'}; {reference.gates().summary()}")
            if gate:
                return [gate]
            unread = cache(lambda: self._reads_no_garbage(plan))
            verdicts = [_behind_gates(v, plan, reference.gates(v.slot), unread) for v in verdicts]
            verdicts = [_undecided(v, reference.gates(v.slot), evidence) for v in verdicts]
            unsteady = _unsteady(eager, again)
            verdicts = [_of_one_run(v) if v.slot in unsteady else v for v in verdicts]
            verdicts = self._of_written_memory(plan, eager, again, verdicts)
            draws = min(max(DRAWS, (reference.gates().equals - 1) // 2), MOST_DRAWS)
            casts = reference.gates().narrowing_cast
            others = [self.reference(plan, eager, draw, casts and draw == 1) for draw in range(1, 1 + draws)]
            verdicts = [self._outside_again(v, evidence, others) for v in verdicts]
            verdicts = [self._unstable(v, plan, evidence) for v in verdicts]
        return verdicts if any(v.status is Status.FINDING for v in verdicts) else [*verdicts, *_not_judged(eager)]

    def _promised_bits(self, eager: Observation, reference: LazyReference) -> bool:
        """Whether strict numerics, which the release has, say what any of the results is to the bit."""
        if not is_strict(dict(self.settings.inductor)):
            return False
        results = [s for s in (*eager.outputs, *eager.gradients) if isinstance(s.value, torch.Tensor)]
        return any(s.value.is_floating_point() and promises_bits(reference, s.name) for s in results)

    def _of_written_memory(
        self, plan: ValuePlan, eager: Observation, again: Observation, verdicts: list[Verdict]
    ) -> list[Verdict]:
        """No accusation where eager's own result is what memory held that no kernel of its own wrote.

        The mean over an empty batch of ``multilabel_margin_loss`` is such a result on the CPU.
        """
        accused = {v.slot for v in verdicts if v.status is Status.FINDING and v.kind in NUMERIC_KINDS}
        mine, same = eager.slots(), again.slots()
        steady = {s for s in accused & mine.keys() & same.keys() if _equal(mine[s].value, same[s].value) is True}
        if not steady:
            return verdicts
        with other_garbage():
            other = self.eager(plan).slots()
        dirty = {s for s in steady & other.keys() if _equal(mine[s].value, other[s].value) is False}
        text = "eager gives different results where new memory holds other garbage"
        skipped = {v.slot: _skipped(v.slot, text, VerdictCode.UNSTEADY_EAGER) for v in verdicts if v.slot in dirty}
        return [skipped.get(v.slot, v) for v in verdicts]

    def _outside_again(self, verdict: Verdict, evidence: Evidence, others: list[LazyReference]) -> Verdict:
        """No accusation that more lanes do not bear out: a few of them miss some spread, or decisions, by chance."""
        mine, theirs = (side.slots().get(verdict.slot) for side in (evidence.eager, evidence.compiled))
        if verdict.code not in _OF_VALUES or mine is None or theirs is None:
            return verdict
        if not isinstance(mine.value, torch.Tensor) or not isinstance(theirs.value, torch.Tensor):
            return verdict
        if verdict.slot in evidence.numbers:  # which Python took from a tensor
            return verdict
        shadows = _of_all_draws([side.shadows(verdict.slot) for side in (evidence.reference, *others)])
        got = compare(mine.value, theirs.value, shadows, evidence.reference.gates(verdict.slot), evidence.inputs())
        if got.status is Status.FINDING:
            return verdict
        note(lambda: f"  {verdict.slot}: inside the envelope of more draws")
        return replace(verdict, status=got.status, kind=None, reason=got.reason, code=got.code)

    def _unstable(self, verdict: Verdict, plan: ValuePlan, evidence: Evidence) -> Verdict:
        """No accusation where eager moves as far as the difference when its inputs move by a rounding."""
        mine, theirs = (side.slots().get(verdict.slot) for side in (evidence.eager, evidence.compiled))
        finiteness = verdict.code is VerdictCode.FINITENESS
        if (not finiteness and verdict.code is not VerdictCode.OUTSIDE_ENVELOPE) or mine is None or theirs is None:
            return verdict
        if evidence.reference.gates().decided_quotient:
            return verdict

        def run(draw: int) -> Observation:
            made = self.subject.fresh(plan, self.input_seed)
            return self._observe(move(made, draw), plan, as_is)

        shadows = evidence.reference.shadows(verdict.slot)
        if not (loses_numbers(mine, theirs, run) if finiteness else moves_as_far(mine, theirs, shadows, run)):
            return verdict
        text = f"eager moves as far where its inputs move by a rounding; {verdict.reason}"
        code = VerdictCode.ILL_CONDITIONED
        return replace(verdict, status=Status.ILL_CONDITIONED, kind=None, reason=text, far=False, code=code)

    def _in_fp64(self, plan: ValuePlan) -> dict[str, torch.Tensor]:
        """What interpreted kernels give in fp64, on the program's own values."""
        if plan is not ValuePlan.SEED or self.settings.kernels is Kernels.GENERATED:
            return {}
        return self._executed(plan)

    def _executed(self, plan: ValuePlan) -> dict[str, torch.Tensor]:
        """The same of any plan, once compiled; nothing where parameters are folded into constants, which round."""
        if freezes(self.settings):
            return {}
        return executed_in_fp64(lambda prepare, keep: self.compiled(plan, prepare, keep=keep))

    def right_in_fp64(self, plan: ValuePlan) -> bool | None:
        """Whether all results are right of kernels that are executed in fp64; None where that cannot be said.

        Kernels must be interpreted.
        """
        eager = self.eager(plan)
        if eager.raised or self.compiled(plan).raised or not (executed := self._executed(plan)):
            return None
        reference = self.reference(plan, eager)
        found = (compare_in_fp64(t, reference.shadows(slot), reference.gates(slot)) for slot, t in executed.items())
        return all(got.status is Status.CLEAN for got in found)

    def _inputs(self, plan: ValuePlan) -> NonFinite:
        made = self.subject.fresh(plan, self.input_seed)
        floats = [plain(t) for t in made.tensors if t.is_floating_point()]
        return NonFinite.NONE if all(bool(torch.isfinite(t).all()) for t in floats) else NonFinite.ANY

    def _closed_gate(
        self, plan: ValuePlan, eager: Observation, again: Observation, reference: LazyReference
    ) -> Verdict | None:
        """The verdict where nothing may be said of this run; ``again`` is another one in eager."""
        if bool(eager.raised) != bool(again.raised):
            return _skipped("call", "eager raises only sometimes", VerdictCode.UNSTEADY_EAGER)
        if not eager.returned:
            return None

        def alike(slot: str, first: torch.Tensor, second: torch.Tensor) -> bool:
            got = compare(first, second, reference.shadows(slot), reference.gates(slot))
            return got.status is Status.CLEAN

        if not same_observation(eager, again, alike):
            return _skipped("call", "eager gives different results when run twice", VerdictCode.UNSTEADY_EAGER)
        gates = reference.gates()
        if gates.random and self.settings.own_numbers and plan is not ValuePlan.RANDOM:
            text = "random numbers differ from eager's by design without fallback_random"
            return _skipped("call", text, VerdictCode.RANDOM_BY_DESIGN)
        return None

    def _reads_no_garbage(self, plan: ValuePlan) -> bool:
        """Whether what uninitialised memory holds makes no difference."""
        first, second = (self.observe(plan, as_is, mode=FillEmpty(fill)) for fill in (0, 1))
        return same_observation(first, second)


def _unsupported(reason: str, plan: ValuePlan, code: VerdictCode) -> Verdict:
    return Verdict(Status.UNSUPPORTED, None, "call", reason, plan, code=code)


def _skipped(slot: str, reason: str, code: VerdictCode) -> Verdict:
    return Verdict(Status.SKIPPED, None, slot, reason, code=code)


def _behind_gates(verdict: Verdict, plan: ValuePlan, gates: Gates, reads_no_garbage: Callable[[], bool]) -> Verdict:
    """An accusation of what a closed gate lies before is none."""
    if verdict.status is not Status.FINDING:
        return verdict
    if gates.overlapping_write:
        why, code = f"{gates.overlapping_write} writes into overlapping memory", VerdictCode.OVERLAPPING_WRITE
    elif gates.duplicate_indices:
        why = f"{gates.duplicate_indices} writes different values to one place"
        code = VerdictCode.DUPLICATE_INDICES
    elif gates.unordered_boundaries:
        why = f"{gates.unordered_boundaries} looks up among boundaries that are in no order"
        code = VerdictCode.UNORDERED_BOUNDARIES
    elif verdict.kind is Kind.RNG and gates.fused_dropout:
        why = f"how many numbers attention draws hangs on its kernel, which is {gates.fused_dropout} in eager"
        code = VerdictCode.DRAWN_BY_KERNEL
    elif gates.uninitialised and not reads_no_garbage():
        why, code = "the program reads uninitialised memory", VerdictCode.UNINITIALISED
    else:
        return _at_the_limits(verdict, plan, gates)
    note(lambda: f"  {verdict.slot}: gate: {why}")
    return _skipped(verdict.slot, why, code)


def _not_judged(eager: Observation) -> list[Verdict]:
    """What could not be looked into, in a clean verdict: it changes no status, and is said."""
    unseen = eager.unseen()
    for place, why in unseen.items():
        note(f"  {place}: not judged: {why}")
    several = f", and {len(unseen) - 1} more such places" if len(unseen) > 1 else ""
    return [
        Verdict(Status.CLEAN, None, place, f"not judged: {why}{several}", code=VerdictCode.NOT_JUDGED)
        for place, why in unseen.items()
    ][:1]


def _equal(a: object, b: object) -> bool | None:
    """Whether two tensors of the CPU hold the same bits; None of anything else."""
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.device.type != "cpu":
        return None
    return same_bits(a, b)


def _unsteady(a: Observation, b: Observation) -> set[str]:
    """Slots of plain values, and objects, that two eager runs do not agree on, as times, addresses and counters."""
    theirs = b.slots()
    plain = {name: s.value for name, s in a.slots().items() if s.meta is None}
    changed = {n for n, v in plain.items() if n in theirs and not same_plain(v, theirs[n].value)}
    changed |= {place for place, *_ in differing(a.objects, b.objects)}
    return changed | {f"after:{place}" for place, *_ in differing(a.objects_after, b.objects_after)}


def _of_all_draws(draws: list[Shadows | None]) -> Shadows | None:
    """One value's shadows, with the lanes of several draws: what is no number in others than the first says nothing."""
    known = [shadows for shadows in draws if shadows is not None]
    if not known:
        return None
    lanes = dict(known[0].lanes)
    for draw, other in enumerate(known[1:], 1):
        for name, lane in other.lanes.items():
            if ":" in name:
                lanes[f"{name}:{draw}"] = torch.where(torch.isfinite(lane), lane, lanes["wide"])
    return replace(known[0], lanes=lanes)


def _of_one_run(verdict: Verdict) -> Verdict:
    if verdict.status is not Status.FINDING:
        return verdict
    return _skipped(verdict.slot, "eager gives something else when run twice", VerdictCode.UNSTEADY_EAGER)


def _undecided(verdict: Verdict, gates: Gates, evidence: Evidence) -> Verdict:
    """Where Python's control flow, or two decisions in a row, may hang on rounding, another program may be legal."""
    if verdict.status is not Status.FINDING or verdict.kind in (Kind.COMPILE_ERROR, Kind.CRASH, Kind.TIMEOUT):
        return verdict
    if gates.undecided:
        why, code = f"{gates.undecided} hangs on rounding", VerdictCode.UNDECIDED
    elif gates.number_taken and verdict.slot not in evidence.numbers:
        why, code = "Python takes a number from a tensor that rounding reaches", VerdictCode.NUMBER_TAKEN
    elif gates.tied_twice and verdict.code in (VerdictCode.OUTSIDE_ENVELOPE, VerdictCode.UNEQUAL):
        why = f"{gates.tied_twice} hangs on rounding, and on what an earlier decision that does so has led to"
        code = VerdictCode.TIE
    else:
        return verdict
    return replace(verdict, status=Status.TIE, kind=None, reason=f"{why}; {verdict.reason}", far=False, code=code)


def _at_the_limits(verdict: Verdict, plan: ValuePlan, gates: Gates) -> Verdict:
    """Values that C++ leaves open are the machine's business, not the compiler's.

    Integers of a program's own that overflow wrap in eager, and people count on it.
    """
    if verdict.kind not in (Kind.VALUE, Kind.MUTATION):
        return verdict
    if gates.cast_out_of_range:
        why, code = "a float is cast to an integer type that cannot hold it", VerdictCode.CAST_OUT_OF_RANGE
    elif gates.integer_overflow and plan is ValuePlan.LIMITS:
        why, code = f"{gates.integer_overflow} may overflow its integer type", VerdictCode.INTEGER_OVERFLOW
    else:
        return verdict
    return replace(verdict, status=Status.EDGE_CASE, kind=None, reason=f"{why}; {verdict.reason}", code=code)


@cache
def keeps_casts(config: CompileConfig) -> bool:
    """Whether code compiled under ``config`` rounds where a program casts down and up again.

    Releases differ in what ``emulate_precision_casts`` covers.  Resets Dynamo: what was compiled before is compiled
    anew when it is called.
    """
    device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
    x = torch.linspace(0.1, 3, 64, device=device)

    def pair(x: torch.Tensor) -> torch.Tensor:
        return (x * 1.1).to(torch.bfloat16).float()

    with configured(config):
        return torch.equal(compile_callable(pair, config)(x), pair(x))


def _accused_of_eliding(verdict: Verdict) -> Verdict:
    """Casts that are elided in spite of ``emulate_precision_casts`` are a bug (pytorch 179561)."""
    if verdict.status is not Status.EXPECTED or verdict.code is not VerdictCode.CAST_ELIDED:
        return verdict
    reason = f"in spite of emulate_precision_casts: {verdict.reason}"
    return replace(verdict, status=Status.FINDING, kind=Kind.VALUE, reason=reason)


def _outcome(seen: Observation) -> str:
    if seen.raised:
        return f"raises {seen.raised}"
    return f"returns {len(seen.outputs)} values, {len(seen.gradients)} gradients"


#: Verdicts that the reason of a case tells of, at most.
TOLD = 3


def summary(verdicts: list[Verdict]) -> tuple[Status, tuple[Kind, ...], str]:
    """(status, kinds, reason) of a case from its verdicts."""
    status = worst([v.status for v in verdicts])
    chosen = [v for v in verdicts if v.status is status]
    kinds = tuple(sorted({v.kind for v in chosen if v.kind is not None}))
    reason = "; ".join(dict.fromkeys(f"{v.slot}: {v.reason}" for v in chosen[:TOLD]))
    return status, kinds, reason
