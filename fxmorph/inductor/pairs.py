"""Judging one pair of graphs: what a pass was given, and what it made of it.

The same oracles and the same numeric policy that judge compiled programs judge the pair: ``before``
is the program, interpreted in eager and in fp64, ``after`` is what stands in for the compiled one.
Results that are equal bit for bit need no reference, so that most pairs cost milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch.fx.immutable_collections import immutable_list

from fxmorph.core.clock import Clock
from fxmorph.inductor.metadata import wrong_notes
from fxmorph.judge.float32_constants import SAID, computes_in_float64
from fxmorph.judge.reference.shadows import differ_in_fp64, loses_float64, same_in_fp64, tolerance_of
from fxmorph.judge.trial import TOLD, GraphSubject, Trial, summary
from fxmorph.model import CompileConfig, Kind, Level, Status, ValuePlan, Verdict, VerdictCode
from fxmorph.programs.bits import plain, same_bits
from fxmorph.programs.capture import inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, Unsupported
from fxmorph.programs.interpreter import draws, program
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation
from fxmorph.torchapi.first_on_cpu import on_gpu, refused_values

#: The seed's own values, exact ones, masks outside {0, 1}, signed zeros with Inf and NaN.
PLANS = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK, ValuePlan.SPECIAL)
#: Those of them on which native kernels may be called whose tests have no Inf and NaN: some crash then.
SAFE_PLANS = (ValuePlan.SEED, ValuePlan.EXACT)
_SEQUENCES = frozenset({tuple, list, immutable_list})
_LAYOUT = frozenset({Kind.STRIDE, Kind.OFFSET})
_ALIASES = frozenset({Kind.ALIAS, Kind.IDENTITY})


@dataclass(frozen=True)
class PairVerdict:
    """What is to be said of a pair.

    ``plan`` is that of the values on which ``status`` was decided, None where values do not matter.
    ``notes`` are differences that the caller allows (strides) or that only matter later.
    ``best`` is the strongest level that no values contradicted, TESTED where there was nothing to run.
    """

    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    plan: ValuePlan | None = None
    verdicts: tuple[Verdict, ...] = ()
    notes: tuple[str, ...] = ()
    best: Level = Level.TESTED

    @property
    def edges(self) -> tuple[VerdictCode, ...]:
        """The sorts of edge case that ``reason`` tells of, where that is what it tells of."""
        told = [v for v in self.verdicts if v.status is self.status][:TOLD]
        return tuple(v.code for v in told) if self.status is Status.EDGE_CASE else ()


class _Pair(Trial):
    """A trial whose compiled side is the graph after the pass."""

    def __init__(self, subject: GraphSubject, after: Callable[..., Any]) -> None:
        super().__init__(subject, CompileConfig.make(), 0, Clock())
        self._after = after
        other = GraphSubject(after, subject.inputs, lambda c: c, no_grad=True)
        #: The graph after the pass as a program of its own.
        self._alone = Trial(other, CompileConfig.make(), 0, Clock())

    def compiled(
        self, plan: ValuePlan, prepare: Callable[[Invocation], None] | None = None, **more: Any
    ) -> Observation:
        return self.observe(plan, lambda _: self._after, prepare, **more)

    def rounds_otherwise(self, plan: ValuePlan, slot: str, old: Observation, new: Observation) -> str:
        """How both graphs give the same in fp64, explicit casts rounded and not; "" where they do not.

        Results that are float64 themselves must come out so, and not from float32 in between.

        The envelope is that of ``before``, and a fused kernel may have a wider one: what it computes
        is the same nevertheless.
        """
        value = old.slots()[slot].value
        if loses_float64(value, new.slots()[slot].value):
            return ""
        mine = self.reference(plan, old).shadows(slot)
        theirs = self._alone.reference(plan, new).shadows(slot)
        near = tolerance_of(value)
        if not all(differ_in_fp64(mine, theirs, lane, True, near) is False for lane in ("wide", "cast")):
            return ""
        if mine is not None and theirs is not None and same_in_fp64(mine, theirs, near):
            return "equal in fp64"
        return "in fp64 they differ where a comparison ties or a number is not finite, and nowhere else"


def judge_pair(
    before: fx.GraphModule,
    after: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    aliases: bool,
    strides: bool = False,
    identity: bool = True,
    notes: bool = True,
    plans: Sequence[ValuePlan] = PLANS,
    seed: int = 0,
    decomposed: bool = False,
) -> PairVerdict:
    """Judge ``after`` against ``before`` on ``inputs`` (tensors and numbers) and on other values in their place.

    ``aliases``: which outputs share memory with what counts; only graphs that came through AOTAutograd
    share memory as programs do.  ``strides``: strides and storage offsets of outputs count; elsewhere
    later stages restore those that the caller sees.  ``identity``: where outputs share memory as they did, whether
    they are the same object counts too.  ``notes``: dtypes and shapes that nodes of
    ``after`` note count, unless ``before`` notes the same wrongly.  ``seed`` is that of drawn values.
    ``decomposed``: ``after`` is the decomposition of a call, whose kernel may be the one that is off.
    Raises nothing for what the graphs do.
    """
    wrong = _wrong_metadata(before, after) if notes else ([], [])
    try:
        base = InputSet.snapshot(inputs)
    except Unsupported as error:
        return PairVerdict(Status.UNSUPPORTED, reason=f"inputs: {error}")
    subject = GraphSubject(program(before), _values(base, plans, seed), lambda c: c, no_grad=True)
    pair = _Pair(subject, _in_the_container_of(before, after))
    verdicts: list[Verdict] = list(wrong[0])
    told: list[str] = [*wrong[1]]
    seen: dict[ValuePlan, str] = {}
    full_precision = decomposed and computes_in_float64([after.graph])
    wrong_values, guarded = False, on_gpu(inputs)
    for plan, given in pair.subject.inputs.items():  # type: ignore[attr-defined]
        if guarded and (refused := refused_values(before, given.rebuild())):
            if plan is ValuePlan.SEED:
                return PairVerdict(Status.UNSUPPORTED, reason=f"before would raise {refused}", plan=plan)
            continue
        old = pair.eager(plan)
        if old.raised:
            if plan is ValuePlan.SEED:
                return PairVerdict(Status.UNSUPPORTED, reason=f"before raises {old.raised}", plan=plan)
            continue
        new = pair.compiled(plan)
        seen[plan] = _equality(old, new)
        for verdict in pair.weigh(plan, old, new):
            if (
                verdict.status is Status.FINDING
                and verdict.kind is Kind.VALUE
                and not wrong_values  # of this kind one is told
                and (how := pair.rounds_otherwise(plan, verdict.slot, old, new))
            ):
                verdict = replace(
                    verdict, status=Status.EXPECTED, kind=None, reason=f"{how}; {verdict.reason}",
                    code=VerdictCode.EQUAL_IN_FP64,
                )  # fmt: skip
            if verdict.status is Status.FINDING and verdict.single and full_precision:
                verdict = replace(
                    verdict, status=Status.EDGE_CASE, kind=None, reason=f"{SAID}; {verdict.reason}",
                    code=VerdictCode.FLOAT32_CONSTANT,
                )  # fmt: skip
            if verdict.status is Status.FINDING and verdict.code is VerdictCode.NONFINITE_INPUTS:
                verdict = replace(verdict, status=Status.EDGE_CASE, kind=None)  # folds that lose them may be accepted
            wrong_values |= verdict.status is Status.FINDING and verdict.kind is Kind.VALUE
            said = replace(verdict, reason=_in_words(verdict.reason), plan=plan)
            dropped = (
                (verdict.kind in _LAYOUT and not strides)
                or (verdict.kind in _ALIASES and not aliases)
                or (verdict.kind is Kind.IDENTITY and not identity)
            )
            skipped = verdict.status is Status.SKIPPED and plan is not ValuePlan.SEED
            if dropped or skipped:
                told.append(f"{said.slot}: {said.reason}")
            else:
                verdicts.append(said)
    return _verdict(verdicts, tuple(dict.fromkeys(told)), _best(seen), draws(before) or draws(after))


def _in_the_container_of(before: fx.GraphModule, after: fx.GraphModule) -> Callable[..., Any]:
    """``after`` as a function whose results come in a tuple where those of ``before`` do, or in a list: who calls a
    graph takes them one by one, and passes that edit the arguments of its output make lists of tuples.
    """
    kinds: list[Any] = [type(gm.graph.output_node().args[0]) for gm in (before, after)]
    (wanted, given), run = kinds, program(after)
    if wanted is given or not {wanted, given} <= _SEQUENCES:
        return run
    return lambda *args: wanted(run(*args))


def _values(base: InputSet, plans: Sequence[ValuePlan], seed: int) -> dict[ValuePlan, InputSet]:
    out: dict[ValuePlan, InputSet] = {}
    for plan in plans:
        try:
            out[plan] = base if plan is ValuePlan.SEED else inputs_under(plan, base, seed)
        except NotApplicable:
            continue
    return out


def _verdict(verdicts: list[Verdict], notes: tuple[str, ...], best: Level, random: str) -> PairVerdict:
    if random:
        # Another order of draws gives other numbers, which is no difference in meaning.
        skipped: dict[str, Any] = {"status": Status.SKIPPED, "kind": None, "code": VerdictCode.RANDOM_VALUES}
        verdicts = [
            replace(v, **skipped, reason=f"random numbers of {random}; {v.reason}")
            if v.kind in (Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.RNG)
            else v
            for v in verdicts
        ]
    status, kinds, reason = summary(verdicts)
    if kinds:  # one reason of each kind
        first = {v.kind: v for v in reversed(verdicts) if v.status is status}
        reason = "; ".join(dict.fromkeys(f"{v.slot}: {v.reason}" for v in (first[k] for k in kinds)))
    plan = next((v.plan for v in verdicts if v.status is status), None)
    return PairVerdict(status, kinds, reason, plan, tuple(verdicts), notes, best)


def _wrong_metadata(before: fx.GraphModule, after: fx.GraphModule) -> tuple[list[Verdict], list[str]]:
    """Verdicts on the notes of ``after``, and strides that are noted wrongly."""
    found = wrong_notes(after)
    if found:
        old = {(w.node, w.kind) for w in wrong_notes(before)}
        found = [w for w in found if (w.node, w.kind) not in old]
    verdicts = [Verdict(Status.FINDING, w.kind, w.node, str(w)) for w in found if w.kind is not Kind.STRIDE]
    return verdicts, [str(w) for w in found if w.kind is Kind.STRIDE]


def _in_words(reason: str) -> str:
    """A reason of the oracles, which speak of eager and of compiled programs."""
    return reason.replace("eager", "before").replace("compiled", "after")


# -- what values leave open ------------------------------------------------------


def _equality(old: Observation, new: Observation) -> str:
    """``bits``, ``zero`` (equal but for the sign of zero) or ``no``."""
    mine, theirs = old.slots(), new.slots()
    if new.raised or mine.keys() != theirs.keys():
        return "no"
    worst = "bits"
    for name, slot in mine.items():
        a, b = slot.value, theirs[name].value
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            continue
        if same_bits(a, b):
            continue
        zero = a.is_floating_point() and a.dtype == b.dtype and same_bits(plain(a) + 0.0, plain(b) + 0.0)
        worst = "zero" if zero and worst != "no" else "no"
    return worst


def _best(seen: dict[ValuePlan, str]) -> Level:
    if not seen:
        return Level.TESTED
    ordinary = {word for plan, word in seen.items() if plan is not ValuePlan.SPECIAL}
    if "no" in ordinary:
        return Level.EXACT_REAL
    if seen.get(ValuePlan.SPECIAL) == "no":
        return Level.UNDER_PRECONDITION
    return Level.BIT_EXACT_MOD_ZERO_SIGN if "zero" in seen.values() else Level.BIT_EXACT
