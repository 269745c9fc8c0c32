"""Plan ``random``: a program under the compiler's own random numbers, as users run it.

Under ``fallback_random`` a compiled program draws what eager draws, and every other plan is judged so.  But then
Inductor's generators are not compiled, nor what the partitioner does with the seeds that a backward pass has to draw
from again.  Here they are, and numbers are others by design: what does not hang on them must be what it is in eager,
what does must be distributed as eager's is (``fxmorph/judge/exchangeable.py``), each call must draw anew, a seed must
give the same numbers again, and gradients must be those of the numbers that the call has drawn: the slope of the
compiled program itself, under one seed, bears them out, as eager's does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from fxmorph.judge.exchangeable import COMPILED, EAGER, SLOPES, SMOOTH, STEP, TIMES, WRONG, odd
from fxmorph.judge.journal import note
from fxmorph.model import RNG_SEED, Kind, Status, ValuePlan, Verdict, accusations
from fxmorph.programs.bits import same_bits
from fxmorph.programs.contents import differing, same_plain
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation, Slot, generators_before, named_tensors, same_observation

if TYPE_CHECKING:
    from fxmorph.judge.trial import Trial

#: Compiled runs, each under another seed, that must all show an accusation of what does not hang on numbers.
SHOWING = 4
#: CPU seconds of one eager run beyond which a program is not run under as many seeds.
SLOW = 0.5

_PLAN = ValuePlan.RANDOM


def judge_numbers(trial: Trial, eager: Observation) -> list[Verdict]:
    """Verdicts of plan ``random``; ``eager`` is a run under ``RNG_SEED``.

    Raises ``NotApplicable`` where eager draws nothing, or where more than values hangs on what it draws.
    """
    if eager.raised or eager.generators == generators_before():
        raise NotApplicable("draws no random numbers")
    began = time.process_time()
    if not same_observation(eager, trial.eager(_PLAN)):
        raise NotApplicable("eager gives other results when it is run again")
    if time.process_time() - began > SLOW:
        note("too slow to be run under many seeds: random numbers of the compiler's own are not judged")
        raise NotApplicable("too slow")
    family = [eager, *(trial.eager(_PLAN, rng_seed=RNG_SEED + k) for k in range(1, EAGER))]
    if any(one.raised or (one.structure, one.aliases, one.meta()) != _form(eager) for one in family):
        raise NotApplicable("more than values hangs on random numbers")
    runs = _Runs(trial, family)
    compiled = runs.compiled(0)
    if compiled.raised:
        return trial.weigh(_PLAN, eager, compiled)
    verdicts = _borne_out(runs, trial.weigh(_PLAN, eager, runs.steady(compiled)))
    if any(v.status is Status.FINDING for v in verdicts):
        return verdicts
    return [*verdicts, *_accusations(runs)]


def _form(seen: Observation) -> tuple[object, object, object]:
    return seen.structure, seen.aliases, seen.meta()


@dataclass
class _Runs:
    """Runs of both sides under several seeds; compiled ones are made when asked for."""

    trial: Trial
    eager: Sequence[Observation]

    def __post_init__(self) -> None:
        self._compiled: dict[int, Observation] = {}
        first = self.eager[0]
        #: Slots that are not the same under all seeds.
        self.drawn = {
            name for name, slot in first.slots().items()
            if any(not _same(slot, other.slots()[name]) for other in self.eager[1:])
        }  # fmt: skip

    def compiled(self, number: int) -> Observation:
        if number not in self._compiled:
            self._compiled[number] = self.again(number)
        return self._compiled[number]

    def again(self, number: int) -> Observation:
        """A compiled run of its own."""
        return self.trial.compiled(_PLAN, rng_seed=RNG_SEED + number)

    def steady(self, compiled: Observation) -> Observation:
        """``compiled`` with eager's values where they hang on random numbers, and eager's generators."""
        mine = self.eager[0].slots()

        def shown(slots: list[Slot]) -> list[Slot]:
            return [self._without_numbers(slot, mine.get(slot.name)) for slot in slots]

        changed = any(
            differing(a, b)
            for one in self.eager[1:]
            for a, b in ((self.eager[0].objects, one.objects), (self.eager[0].objects_after, one.objects_after))
        )
        objects = {"objects": self.eager[0].objects, "objects_after": self.eager[0].objects_after} if changed else {}
        return replace(
            compiled, outputs=shown(compiled.outputs), after=shown(compiled.after),
            gradients=shown(compiled.gradients), backward=shown(compiled.backward),
            generators=self.eager[0].generators, **objects,  # type: ignore[arg-type]
        )  # fmt: skip

    def _without_numbers(self, slot: Slot, mine: Slot | None) -> Slot:
        if slot.name not in self.drawn or mine is None:
            return slot
        if slot.meta is None or mine.meta is None:
            return mine
        alike = (slot.meta.shape, slot.meta.dtype) == (mine.meta.shape, mine.meta.dtype)
        return replace(slot, value=mine.value) if alike else slot


def _same(a: Slot, b: Slot) -> bool:
    if isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor):
        return a.value.layout != torch.strided or same_bits(a.value, b.value)
    return same_plain(a.value, b.value) is not False


def _borne_out(runs: _Runs, verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts, without accusations that not all runs under other seeds show."""
    accused = accusations(verdicts)
    for number in range(1, SHOWING):
        if not accused:
            break
        other = runs.trial.weigh(_PLAN, runs.eager[0], runs.steady(runs.compiled(number)))
        accused &= accusations(other)
    return [v for v in verdicts if v.status is not Status.FINDING or (v.slot, v.kind) in accused]


def _accusations(runs: _Runs) -> list[Verdict]:
    """Accusations of random numbers, and of gradients, where the numbers are right."""
    if runs.compiled(1).generators == generators_before(RNG_SEED + 1):
        text = "the random generator is left as it was before the call, so that the next one draws the same"
        return [_accused(Kind.RNG, "call", text)]
    if _is_steady(runs) and not same_observation(runs.compiled(1), runs.again(1)):
        return [_accused(Kind.RNG, "call", "one seed gives other results when the program is run again")]
    found = [v for name in sorted(runs.drawn) if (v := _odd(runs, name)) is not None]
    return found or _slopes(runs)


def _is_steady(runs: _Runs) -> bool:
    """Whether equal numbers give equal bits: sums that threads share, or atomics of a GPU, may take any order."""
    devices = {slot.meta.device for slot in runs.eager[0].slots().values() if slot.meta is not None}
    return runs.trial.settings.threads == 1 and devices <= {"cpu"}


def _accused(kind: Kind, slot: str, text: str) -> Verdict:
    return Verdict(Status.FINDING, kind, slot, f"under the compiler's own random numbers {text}", far=True)


def _odd(runs: _Runs, name: str) -> Verdict | None:
    compiled = [runs.compiled(k) for k in range(COMPILED)]
    mine = [one.slots()[name].value for one in runs.eager]
    theirs = [slot.value for one in compiled if (slot := one.slots().get(name)) is not None]
    if len(theirs) < COMPILED or not all(isinstance(t, torch.Tensor) and t.shape == mine[0].shape for t in theirs):
        return None  # what is not there, or of another shape, was told of the first run
    if any(t.layout != torch.strided for t in (*mine, *theirs)):
        return None
    text = odd(mine, theirs)
    if not text:
        note(f"  {name}: under other random numbers as eager's")
        return None
    kind = Kind.GRADIENT if name.startswith("grad:") else Kind.VALUE if name.startswith("out") else Kind.MUTATION
    return _accused(kind, name, text)


def _slopes(runs: _Runs) -> list[Verdict]:
    """Whether gradients are those of the numbers that the call has drawn."""
    trial, wanted = runs.trial, [s.name.removeprefix("grad:") for s in runs.eager[0].gradients]
    if not wanted or not any(s.name in runs.drawn for s in runs.eager[0].gradients):
        return []
    sides: list[list[float]] = []
    for run in (trial.eager, trial.compiled):
        sides.append([_off(run, RNG_SEED + k, wanted) for k in range(SLOPES)])
        if not all(off <= SMOOTH for off in sides[0]):
            note(f"  gradients: eager's are off from slopes by {max(sides[0]):.2g}: not judged by them")
            return []
    mine, theirs = max(sides[0]), min(sides[1])
    note(f"  gradients: off from slopes by {theirs:.2g} of them and more; eager's by {mine:.2g} at most")
    if not theirs > WRONG + TIMES * mine:
        return []
    text = f"gradients are off from the slopes of the same program under the same seed by {theirs:.0%}, and more"
    return [_accused(Kind.GRADIENT, "gradients", text)]


def _off(run: Callable[..., Observation], seed: int, wanted: list[str]) -> float:
    """How far the gradients of a run are from the slope of its loss along their signs, relative to that slope."""
    seen = run(_PLAN, rng_seed=seed)
    towards = {n: slot.value for n in wanted if (slot := seen.slots().get(f"grad:{n}")) is not None}
    moved: dict[str, float] = {}

    def along(sign: float) -> Callable[[Invocation], None]:
        def move(made: Invocation) -> None:
            with torch.no_grad():
                for name, t in named_tensors(made).items():
                    # Elements that share a place cannot be moved one by one.
                    if name in towards and t.is_floating_point() and 0 not in t.stride():
                        moved[name] = STEP * float(t.abs().amax()) if t.numel() else 0.0
                        t.add_(sign * moved[name] * towards[name].sign())

        return move

    up, down = (run(_PLAN, rng_seed=seed, prepare=along(sign)) for sign in (1.0, -1.0))
    if seen.raised or up.raised or down.raised or up.loss is None or down.loss is None:
        return float("nan")
    told = sum(2 * size * float(towards[name].double().abs().sum()) for name, size in moved.items())
    return abs((up.loss - down.loss) - told) / told if told else float("nan")
