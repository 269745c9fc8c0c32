"""Judging one case from its record alone: a seed as it is, or a variant of one of its graphs."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxmorph.core.clock import Clock
from fxmorph.judge.accused_results import with_accused_results
from fxmorph.judge.compiled_run import tried_compiled
from fxmorph.judge.journal import note
from fxmorph.judge.ladder import CACHE_STAGE, STAGE, Climbed, Ladder, emulating, kinds_of
from fxmorph.judge.operator_promises import broken_promises
from fxmorph.judge.outside_state import may_be_held, steadied
from fxmorph.judge.plans import APART, SETTINGS_ALONE, under
from fxmorph.judge.precondition_inputs import satisfying_sets
from fxmorph.judge.reference.shadows import differ_in_fp64
from fxmorph.judge.steps import Steps
from fxmorph.judge.trial import RESEED, GraphSubject, LazyReference, OutOfMemory, SeedSubject, Subject, Trial, summary
from fxmorph.model import (
    DRAWN_PLANS,
    EXTRA_PLANS,
    LAYOUT_KINDS,
    SIZE_PLANS,
    Case,
    CaseResult,
    CompileConfig,
    GraphLevel,
    Kind,
    Recipe,
    RewriteProof,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
)
from fxmorph.oracle import Evidence
from fxmorph.programs.capture import Captured, CaptureFailed, capture_aten, capture_torch, inputs_under
from fxmorph.programs.graph import Unprintable, calls, function_of, graph_hash, print_graph, windows
from fxmorph.programs.inputs import InputSet, NotApplicable
from fxmorph.programs.load import Invocation, LoadedSeed, SeedFailed, load_case, staged
from fxmorph.programs.observe import Meta, Observation, Slot
from fxmorph.programs.profile import profile
from fxmorph.programs.values import Step
from fxmorph.prove.prover import Prover
from fxmorph.rewriting.claims import Unsound
from fxmorph.rewriting.recipes import draw_chain, draw_recipe, replay_recipe
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import check_settings, spoken
from fxmorph.torchapi.devices import out_of_memory
from fxmorph.torchapi.dispatch import opens_transform
from fxmorph.torchapi.new_memory import garbage_in_new_memory

#: A variant is made of a window of at most so many calls of its graph, drawn anew for each:
#: small programs compile fast, and rewrites meet in them.
WINDOWS = (8, 16, 32, 80)
#: Of accusations that NaN and Inf have a part in, among the inputs or made inside.
NONFINITE_CODES = (VerdictCode.NONFINITE_INPUTS, VerdictCode.FINITENESS)


#: Plans of several calls, and how a reason begins where one of them is wrong.
SEVERAL_CALLS = {ValuePlan.AGAIN: "in the second call", ValuePlan.CACHED: "called in turn"}


@dataclass
class Variant:
    """A rewritten graph, ready to be judged, and the graph that it came from."""

    seed_graph: GraphSubject
    subject: GraphSubject
    recipe: Recipe
    text: str
    hash: str
    kept: frozenset[str]  # what all rewrites promise to keep, of rules.PRESERVABLE
    bitwise: bool
    proofs: tuple[RewriteProof, ...] = ()


def judge_case(case: Case, rules: Registry, clock: Clock, prover: Prover | None = None) -> CaseResult:
    """The whole judgement of a case; only ``ToolchainMissing`` and interrupts pass through."""
    started = time.monotonic()
    try:
        with contextlib.ExitStack() as stage:
            with clock.activity("capture"):
                loaded = stage.enter_context(staged(case))
            stage.enter_context(garbage_in_new_memory())
            result = _judge(case, loaded, rules, clock, prover)
    except SeedFailed as error:
        result = _result(case, Status.ERROR, f"seed: {error}")
    except CaptureFailed as error:
        result = _result(case, Status.UNSUPPORTED, f"capture: {error}")
    except Unprintable as error:
        result = _result(case, Status.UNSUPPORTED, f"graph has no text form: {error}")
    except OutOfMemory as error:
        result = _result(case, Status.ERROR, f"out of memory in {error}")
    except Unsound as error:
        result = replace(_result(case, Status.UNSOUND_REWRITE, str(error)), recipe=str(error.rewrite))
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        result = _result(case, Status.ERROR, f"out of memory in {clock.failed_in or 'capture'}: {spoken(error)}")
    return replace(result, seconds=clock.take(), wall=round(time.monotonic() - started, 3))


def _result(case: Case, status: Status, reason: str) -> CaseResult:
    return CaseResult(case.id, status, reason=reason)


def _judge(case: Case, loaded: LoadedSeed, rules: Registry, clock: Clock, prover: Prover | None) -> CaseResult:
    threads = loaded.config(case.compile).threads
    if threads > 1:
        note(f"on {threads} threads")
    if case.reshaped:
        note(f"inputs: {loaded.reshaped or f'none accepted that are {case.reshaped}'}")
    if loaded.meta.get("device") == "cuda" and not torch.cuda.is_available():
        return _result(case, Status.UNSUPPORTED, "the seed is for a CUDA device, and there is none")
    try:
        check_settings(loaded.config(case.compile))
    except ValueError as error:  # of the seed's META: what a run is told is checked before it starts
        return _result(case, Status.UNSUPPORTED, str(error))
    if case.number == 0 and not case.recipe:
        result = judge_subject(case, SeedSubject(loaded), clock)
        again = steadied(load_case(case), case.input_seed) if may_be_held(result) else loaded
        if not again.reloads:
            return result
        note("the seed keeps state outside: loaded anew for each run")
        return judge_subject(case, SeedSubject(again), clock)
    variant = make_variant(case, loaded, rules, clock, prover)
    if not variant.recipe:
        return _result(case, Status.SKIPPED, "no rewrite applies")
    result = replace(
        judge_variant(case, variant, clock), recipe=str(variant.recipe), graph_hash=variant.hash, proofs=variant.proofs
    )
    return result


# -- subjects ------------------------------------------------------------------


def captured_graph(case: Case, loaded: LoadedSeed, clock: Clock) -> Captured:
    """The graph of the seed that this case works on; raises :class:`CaptureFailed`."""
    with clock.activity("capture"):
        graphs = _graphs(case.level, case, loaded)
        pick = random.Random(f"graph {case.campaign_seed} {case.seed.hash} {case.number}")
        weights = [len(calls(g.graph)) for g in graphs]
        chosen = pick.choices(graphs, weights)[0]
        size = pick.choice(WINDOWS)
        whole = len(calls(chosen.graph))
        if whole > size:
            chosen = _window(chosen, size, pick, loaded.no_grad)
        note(lambda: f"capture: {len(graphs)} graphs; {len(calls(chosen.graph))} of {whole} calls of one of them")
        return chosen


def _graphs(level: GraphLevel, case: Case, loaded: LoadedSeed) -> list[Captured]:
    """The graphs at a level; those that AOTAutograd makes where Dynamo's hold a transform of ``torch.func``."""
    capture = capture_torch if level is GraphLevel.TORCH else capture_aten
    graphs = capture(loaded.fresh(case.input_seed), loaded.config(case.compile), loaded.no_grad)
    if level is GraphLevel.TORCH and any(opens_transform(g.graph) for g in graphs):
        # Inside of it tensors have no memory of their own, by which rewrites are checked.
        return _graphs(GraphLevel.ATEN, case, loaded)
    return graphs


def _window(captured: Captured, size: int, pick: random.Random, no_grad: bool) -> Captured:
    """A random window of a graph, with the values that the whole graph feeds it.

    Values that required grad in the whole graph are leaves that require it here, unless the
    window writes to them; half of the windows run without gradients.
    """
    graph, feeds = pick.choice(list(windows(captured.graph, size)))
    with torch.set_grad_enabled(not no_grad):
        seen = profile(captured.graph, captured.inputs)
    nodes = {n.name: n for n in seen.order}
    values: list[Any] = [seen.values.get(nodes[name]) for name in feeds]
    if any(value is None for value in values):
        raise CaptureFailed("a window of the graph needs values that cannot be rebuilt")
    plain = Captured(graph, InputSet.snapshot(values), captured.level, captured.part)
    if no_grad or pick.random() < 0.5:
        return plain
    wanted = [name in nodes and seen.specs[nodes[name]].requires_grad for name in feeds]
    with torch.no_grad():
        inside = profile(graph, plain.inputs)
    holders = [n for n in graph.nodes if n.op == "placeholder"]
    for value, grad, holder in zip(values, wanted, holders, strict=True):
        if grad and not inside.written_after(inside.storages[holder], -1):
            value.requires_grad_(True)
    return replace(plain, inputs=InputSet.snapshot(values))


def plan_inputs(
    plans: Sequence[ValuePlan], base: InputSet, input_seed: int, fn: Callable[..., Any], no_grad: bool = False
) -> dict[ValuePlan, InputSet]:
    """The base inputs of ``fn`` under each plan that changes something."""
    out: dict[ValuePlan, InputSet] = {}
    steps = Steps()

    def invocation(plan: ValuePlan, step: Step) -> Invocation:
        args = inputs_under(plan, base, input_seed, step).rebuild()
        return Invocation(fn, args, lambda g: g(*args))

    for plan in plans:
        if plan in (*SIZE_PLANS, ValuePlan.ROWS) or (plan in APART and plan not in SETTINGS_ALONE):
            continue  # made when asked for; of a seed as it is alone
        try:
            if plan is ValuePlan.SEED:
                out[plan] = base
            else:
                step = steps.of(plan, lambda step, plan=plan: invocation(plan, step), no_grad)  # type: ignore[misc]
                out[plan] = inputs_under(plan, base, input_seed, step)
        except NotApplicable:
            continue
    return out


def make_variant(
    case: Case, loaded: LoadedSeed, rules: Registry, clock: Clock, prover: Prover | None = None
) -> Variant:
    """Capture, rewrite, and set up both programs.  Raises :class:`Unsound`, :class:`CaptureFailed`."""
    captured = captured_graph(case, loaded, clock)
    with clock.activity("eager"):
        fn = function_of(captured.text)
        inputs = plan_inputs(case.plans, captured.inputs, case.input_seed, fn, loaded.no_grad)
    if ValuePlan.RESEED in case.plans:
        other = captured_graph(replace(case, input_seed=case.input_seed + RESEED), loaded, clock)
        if other.text == captured.text:  # control flow did not depend on the values
            inputs[ValuePlan.RESEED] = other.inputs
    with clock.activity("rewrite"):
        text = captured.text
        bench = Workbench(captured.graph, captured.inputs, loaded.no_grad, prover, clock)
        if case.recipe is not None:
            replay_recipe(bench, rules, case.recipe)
        else:
            rng = random.Random(f"recipe {case.campaign_seed} {case.seed.hash} {case.number}")
            if case.chain:
                draw_chain(bench, rules, case.chain, rng)
            else:
                draw_recipe(bench, rules, rng, case.avoid, case.favour)
        new = print_graph(bench.graph)
    recipe = Recipe(tuple(bench.applied))
    note(lambda: f"rewrite: {recipe}")
    for p in bench.proofs:
        shown = f"  {p.rewrite}: {p.proof.level} ({p.proof.method}), certificate {p.certificate}"
        note(shown.__str__)
    note(lambda: f"  now {len(calls(bench.graph))} calls; it keeps values, {', '.join(sorted(bench.kept))}")

    with clock.activity("rewrite"):
        inputs = satisfying_sets(bench, captured, inputs, loaded.no_grad, rules)

    def subject(text: str) -> GraphSubject:
        return GraphSubject(
            function_of(text), inputs, loaded.config, loaded.no_grad, inference=loaded.context == "inference"
        )

    return Variant(
        subject(text),
        subject(new),
        recipe,
        new,
        graph_hash(bench.graph),
        bench.kept,
        all(level.bitwise for level in bench.levels),
        tuple(bench.proofs),
    )


# -- judgement -----------------------------------------------------------------


def judge_plans(subject: Subject, config: CompileConfig, case: Case, clock: Clock) -> list[Verdict]:
    """Verdicts on every plan of the case that applies, on one compile, before any ladder."""
    trial = Trial(subject, config, case.input_seed, clock)
    verdicts: list[Verdict] = []
    for plan in case.plans:
        with contextlib.suppress(NotApplicable):
            verdicts += trial.judge(plan)
    return verdicts


def is_of_later_calls(plan: ValuePlan, stage: str) -> bool:
    """Whether what a plan of several calls shows is wrong in a later one, where the first was right.

    The first of plan ``cached`` has no gradients, and no other plan has judged it: what neither a cache nor Dynamo's
    guards are to blame for may as well be wrong there.
    """
    return plan is ValuePlan.AGAIN or (plan is ValuePlan.CACHED and stage in (CACHE_STAGE, STAGE["eager"]))


def judge_subject(case: Case, subject: Subject, clock: Clock) -> CaseResult:
    """Judge a program as it is on each plan, with the ladder where something differs.

    The first accusation that stands ends the case; kinds that the ladder has excused on one
    plan are not tried again on the next.  Where what differs is that the program asks whether it is compiled, it is
    judged anew, and hears in eager, too, that it is.
    """
    fired: set[str] = set()
    trial = Trial(subject, case.compile, case.input_seed, clock, fired)
    verdicts: list[Verdict] = []
    rows: tuple[tuple[str, str], ...] = ()
    excused: dict[Kind, Climbed] = {}
    elides = apart = False
    left: list[ValuePlan] = []
    for plan in case.plans:
        if plan is not ValuePlan.SEED and clock.is_enough:
            left.append(plan)
            continue
        config, inputs = under(plan, case.compile)
        if plan in APART or apart:  # in the same trial other strides would be compiled as dynamic ones
            trial, apart = Trial(subject, config, case.input_seed, clock), plan in APART
        if plan is ValuePlan.THREADS and (case.compile.threads > 1 or trial.settings.threads != config.threads):
            continue  # it was judged on several threads, or is to have as many as its META says
        try:
            found = [replace(v, plan=plan) for v in trial.judge(inputs)]
        except NotApplicable:
            continue
        if not elides and _elides(case, found):
            elides = True
            if Ladder(subject, config, case.input_seed, inputs, clock).elided_still():
                kept = emulating(case.compile)
                result = judge_subject(replace(case, compile=kept), subject, clock)
                return replace(result, case_id=case.id, inductor=kept.inductor)
            trial = Trial(subject, config, case.input_seed, clock)  # the other one was reset
        accused = kinds_of(found)
        if accused - excused.keys():
            clock.so_far(None)  # it may be wrong, whatever was right before
            fewer = with_accused_results(subject, config, inputs, case.input_seed, found, clock)
            out = _climb(case, fewer, config, inputs, found, fired, clock)
            rows = out.rows
            if out.status is Status.FINDING:
                if broken := broken_promises(Trial(subject, config, case.input_seed, clock), inputs):
                    return CaseResult(case.id, Status.SKIPPED, (), broken, tuple(verdicts), ladder=out.rows)
                stands = [v for v in found if v.status is not Status.FINDING or v.kind in out.kinds]
                status, kinds, reason = summary(stands)
                if is_of_later_calls(plan, out.stage):
                    kinds = (*kinds, Kind.SECOND_CALL)
                if plan in SEVERAL_CALLS:
                    reason = f"{SEVERAL_CALLS[plan]}: {reason}"
                if plan is ValuePlan.THREADS:
                    reason = f"on {config.threads} threads: {reason}"
                if plan in SIZE_PLANS and (sizes := subject.sizes.chosen.get(plan)) is not None:
                    reason = f"at size {sizes[1]}, compiled at {sizes[0]} before: {reason}"
                result = CaseResult(
                    case.id, status, kinds, reason, (*verdicts, *stands), stage=out.stage, ladder=out.rows,
                    fired=tuple(sorted(fired)),
                )  # fmt: skip
                return tried_compiled(case, fewer, inputs, config, result, clock, judge_subject)
            if out.code is VerdictCode.ASKS:
                return _as_when_compiled(judge_subject(case, subject.told(set()), clock), out)
            mine = dict.fromkeys(accused, out)
            if out.code is not VerdictCode.FOLDED:  # which says nothing of what these kinds are on other values
                excused.update(mine)
            # The ladder reset Dynamo, and what was compiled before a reset is not compiled again.
            trial = Trial(subject, case.compile, case.input_seed, clock)
            found = [_excuse(v, mine) for v in found]
        verdicts += [_excuse(v, excused) for v in found]
        if case.number == 0 and not case.recipe:  # of a variant it is not said whose verdicts these are
            clock.so_far(_concluded(case, verdicts, rows, fired))
    result = _concluded(case, verdicts, rows, fired)
    if not left:
        return result
    return result.with_more(f"not judged under {', '.join(left)}, which more of --case-timeout allows")


def _as_when_compiled(result: CaseResult, out: Climbed) -> CaseResult:
    """The result for a program that was judged against what it does in eager when it hears that it is compiled."""
    if result.status is Status.CLEAN:
        return replace(result, status=out.status, reason=out.reason, ladder=out.rows)
    return result.with_more(out.reason)


def _concluded(case: Case, verdicts: list[Verdict], rows: tuple[tuple[str, str], ...], fired: set[str]) -> CaseResult:
    """The result of a case that has these verdicts, and no accusation that stands."""
    status, kinds, reason = summary(_deciding(case, verdicts))
    return CaseResult(case.id, status, kinds, reason, tuple(verdicts), ladder=rows, fired=tuple(sorted(fired)))


def _deciding(case: Case, verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts that say what becomes of the case: on the program's own values all, on others accusations alone.

    On values that were drawn a right program may leave the range of numbers, or its own domain.  Where edge
    cases are wanted those count too.
    """
    told = {Status.FINDING, Status.EDGE_CASE} if ValuePlan.SPECIAL in case.plans else {Status.FINDING}
    return [v for v in verdicts if v.plan not in DRAWN_PLANS or v.status in told]


def _elides(case: Case, found: list[Verdict]) -> bool:
    """Whether casts are elided, which is intended unless it was forbidden (pytorch 179561, 183761)."""
    if case.compile.backend != "inductor" or emulating(case.compile) == case.compile or kinds_of(found):
        return False
    return any(v.status is Status.EXPECTED and v.code is VerdictCode.CAST_ELIDED for v in found)


def _excuse(verdict: Verdict, excused: dict[Kind, Climbed]) -> Verdict:
    if verdict.status is not Status.FINDING or verdict.kind is None:
        return verdict
    out = excused[verdict.kind]
    return replace(verdict, status=out.status, kind=None, reason=f"{out.reason}; {verdict.reason}", code=out.code)


def _climb(
    case: Case, subject: Subject, config: CompileConfig, plan: ValuePlan, found: list[Verdict],
    fired: Collection[str], clock: Clock,
) -> Climbed:  # fmt: skip
    accused = kinds_of(found)
    trial = Trial(subject, config, case.input_seed, clock)
    eager = trial.eager(plan)
    low = _low_precision(trial, plan, eager, accused)
    ladder = Ladder(subject, config, case.input_seed, plan, clock)
    far = any(v.far for v in found if v.status is Status.FINDING)
    return ladder.climb(
        accused, low, _dense(found, eager), far,
        (_kinds_of_only(found, lambda v: v.kind is Kind.NONFINITE or v.code in NONFINITE_CODES), fired),
        _kinds_of_only(found, lambda v: v.code is VerdictCode.IN_FP64),
        _kinds_of_only(found, lambda v: v.single),
    )  # fmt: skip


def _kinds_of_only(found: list[Verdict], concerns: Callable[[Verdict], bool]) -> frozenset[Kind]:
    """Accused kinds of which every accusation is such a one."""
    accused = [v for v in found if v.status is Status.FINDING]
    return kinds_of(accused) - kinds_of(v for v in accused if not concerns(v))


def _low_precision(trial: Trial, plan: ValuePlan, eager: Observation, accused: frozenset[Kind]) -> bool:
    if accused <= LAYOUT_KINDS or eager.raised:
        return False
    return trial.reference(plan, eager).gates().low_precision


def _dense(verdicts: list[Verdict], eager: Observation) -> bool:
    """Whether every output accused of its strides is a permutation of a contiguous tensor in eager."""
    slots = eager.slots()
    accused = [slots[v.slot].meta for v in verdicts if v.kind is Kind.STRIDE and v.slot in slots]
    return all(meta is not None and _permuted_contiguous(meta) for meta in accused)


def _permuted_contiguous(meta: Meta) -> bool:
    dims = sorted((st, sz) for st, sz in zip(meta.stride, meta.shape, strict=True) if sz != 1)
    expected = 1
    for stride, size in dims:
        if stride != expected:
            return False
        expected *= size
    return True


def judge_variant(case: Case, variant: Variant, clock: Clock) -> CaseResult:
    """Check the rewrite in eager, judge the variant, and say who is wrong."""
    refusal = check_rewrite(case, variant, clock)
    if refusal is not None:
        return refusal
    result = judge_subject(case, variant.subject, clock)
    if result.status is not Status.FINDING:
        return result
    seed = kinds_of(judge_plans(variant.seed_graph, case.compile, case, clock))
    same = seed & set(result.kinds)
    triangle = "both" if same else "variant-miscompiled"
    if seed and not same:
        triangle = "variant-miscompiled"  # the seed is wrong too, but in another way
    return replace(result, triangle=triangle)


def check_rewrite(case: Case, variant: Variant, clock: Clock) -> CaseResult | None:
    """E(G) against E(G') on what the rewrites promise to keep; None where they agree.

    Input sets of EXTRA_PLANS that the rewrites are not stable on are taken from the variant and its seed.
    """
    for plan in list(variant.subject.inputs):
        if plan is ValuePlan.AGAIN:
            continue  # rewrites need not keep what a first call leaves behind
        refusal = _check_on(plan, case, variant, clock)
        if refusal is None:
            continue
        if refusal.status is Status.UNSOUND_REWRITE or plan not in EXTRA_PLANS:
            return refusal
        note(f"plan {plan} left out: {refusal.reason}")
        for subject in (variant.subject, variant.seed_graph):
            subject.inputs = {p: given for p, given in subject.inputs.items() if p is not plan}
    return None


def _check_on(plan: ValuePlan, case: Case, variant: Variant, clock: Clock) -> CaseResult | None:
    """The same on one input set, which is kept."""
    seed = Trial(variant.seed_graph, case.compile, case.input_seed, clock)
    other = Trial(variant.subject, case.compile, case.input_seed, clock)
    mine, theirs = seed.eager(plan), other.eager(plan)
    if mine.raised:
        return None
    if theirs.raised and "raises" in variant.kept:
        return _unsound(case, f"plan {plan}: the rewritten program raises in eager: {theirs.raised}")
    if theirs.raised:
        return _result(case, Status.SKIPPED, f"the rewritten program raises in eager: {theirs.raised}")
    evidence = Evidence(mine, theirs, seed.reference(plan, mine), plan)
    slots = [*evidence.paired_outputs()]
    slots += [*evidence.paired_after()] if "mutation" in variant.kept else []
    if "gradient" in variant.kept:
        slots += [*evidence.paired(mine.gradients, theirs.gradients)]
    note(f"E(G) against E(G'), plan {plan}")
    broken = _broken_promise(variant, mine, theirs)
    if broken:
        return _unsound(case, broken)
    with clock.activity("judge"):
        refusal = _compare_sides(case, variant, plan, evidence, slots, lambda: other.reference(plan, theirs))
    for line in evidence.summary():
        note(f"  {line}")
    return refusal


def _compare_sides(
    case: Case, variant: Variant, plan: ValuePlan, evidence: Evidence, slots: list[tuple[str, Slot, Slot]],
    reference: Callable[[], LazyReference],
) -> CaseResult | None:  # fmt: skip
    """Values of seed and variant in eager; ``reference`` is the variant's."""
    for name, a, b in slots:
        if not isinstance(a.value, torch.Tensor) or not isinstance(b.value, torch.Tensor):
            continue
        if a.value.shape != b.value.shape:
            return _unsound(case, f"{name}: shape {tuple(a.value.shape)} becomes {tuple(b.value.shape)}")
        got = evidence.compare(name, a, b)
        if got.status is not Status.FINDING:
            continue
        if variant.bitwise or not a.value.is_floating_point():
            return _unsound(case, f"{name}: {got.reason}")
        if differ_in_fp64(evidence.reference.shadows(name), reference().shadows(name)):
            return _unsound(case, f"{name}: in fp64 too: {got.reason}")
        return _result(case, Status.INCONCLUSIVE, f"the rewrite is not stable on these values: {name}: {got.reason}")
    return None


def _broken_promise(variant: Variant, mine: Observation, theirs: Observation) -> str:
    """What the rewrites promise to keep beside values and did not, or ""."""
    if "gradient" in variant.kept:
        given = {s.name for s in theirs.gradients}
        lost = [s.name for s in mine.gradients if s.name not in given]
        if lost:
            return f"{lost[0]}: no gradient any more"
    outputs = {s.name: s for s in theirs.outputs}
    for slot in mine.outputs:
        a, b = slot.meta, outputs[slot.name].meta
        if "stride" in variant.kept and a and b and a.numel and a.visible_strides != b.visible_strides:
            return f"{slot.name}: stride {a.stride} becomes {b.stride}"
    if "alias" in variant.kept:
        names = {s.name for s in mine.outputs}
        now = {pair for pair in theirs.aliases if pair[0] in names and (pair[1] in names or "out" not in pair[1])}
        if now != mine.aliases:
            return f"aliasing {sorted(mine.aliases)} becomes {sorted(now)}"
    return ""


def _unsound(case: Case, reason: str) -> CaseResult:
    return _result(case, Status.UNSOUND_REWRITE, reason)
