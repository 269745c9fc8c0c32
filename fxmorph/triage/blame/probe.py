"""Asking whether a finding shows under a compile of which parts are held back."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from fxmorph.core.units import Stage
from fxmorph.judge.journal import noting
from fxmorph.judge.ladder import kinds_of
from fxmorph.judge.trial import Trial
from fxmorph.model import CompileConfig, Kind, ValuePlan
from fxmorph.programs.forked import Crashed, Ending, forked
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.observe import Observation
from fxmorph.programs.signature import Signature
from fxmorph.torchapi.compiling import is_compiler_error
from fxmorph.torchapi.disabling import without_decompositions
from fxmorph.torchapi.eager_pipeline import graphs_in_eager
from fxmorph.torchapi.functions_run import Function, functions_noted
from fxmorph.torchapi.new_memory import garbage_in_new_memory
from fxmorph.torchapi.plain_guards import plain_sizes
from fxmorph.torchapi.plain_parts import Plain, plainly
from fxmorph.torchapi.plain_runtime import without_graph_wrapper
from fxmorph.torchapi.scheduler_checks import scheduler_mended
from fxmorph.torchapi.scheduler_steps import without_scheduler_step
from fxmorph.torchapi.tracking import Group, Step, Tracker, tracked
from fxmorph.torchapi.unseen_passes import GraphFunction, without_graph_function, without_stages

LOUD = frozenset({Kind.COMPILE_ERROR, Kind.RAISES, Kind.CRASH})
#: Files of torch whose functions run a graph as it is.
_RUNNERS = ("torch/fx/interpreter.py:", "torch/_dynamo/backends/debugging.py:")
#: Wall seconds for one compile and its judgement in a process of its own.
CHILD_SECONDS = 120.0
#: What writes beside its memory does not end its process each time: so often it must not, to be gone.
CRASH_TRIES = 3
T = TypeVar("T")


class Answer(StrEnum):
    """What one compile shows of a finding."""

    SHOWS = "shows"
    GONE = "gone"  #: and nothing else goes wrong
    BROKEN = "broken"  #: the compile does not work with these parts held back


@dataclass(frozen=True)
class Held:
    """What is held back from a compile.

    Of each group of steps those from number ``upto`` on; units and details in ``off``;
    ``decompositions`` by unit name (None: all of them); the backend (graphs then run in eager); one of the
    wrappers around a graph; a step of the scheduler; whole ``stages`` of passes, or a function over graphs.
    ``plain`` parts are done by us, and so are those decisions of Inductor's about symbolic ``sizes``; what the function
    ``mended`` of the scheduler does wrong is put right, and ``settings`` of Inductor are changed besides.
    """

    upto: tuple[tuple[Group, int], ...] = ()
    off: frozenset[str] = frozenset()
    decompositions: frozenset[str] | None = frozenset()
    backend: bool = False
    wrapper: str = ""
    scheduler_step: str = ""
    stages: tuple[Stage, ...] = ()
    function: GraphFunction | None = None
    plain: tuple[Plain, ...] = ()
    sizes: tuple[str, ...] = ()
    mended: str = ""
    settings: tuple[tuple[str, Any], ...] = ()

    def below(self, group: Group, number: int) -> Held:
        """The same with only the first ``number`` steps of a group."""
        return replace(self, upto=tuple({**dict(self.upto), group: number}.items()))

    def with_plain(self, *parts: Plain) -> Held:
        """The same with these parts done by us too."""
        return replace(self, plain=(*self.plain, *parts))

    def without(self, *units: str) -> Held:
        """The same with these units switched off too."""
        ops = frozenset(u for u in units if u.startswith("decomposition."))
        kept = self.decompositions if self.decompositions is None else self.decompositions | ops
        return replace(self, off=self.off | (frozenset(units) - ops), decompositions=kept)


class Died(Exception):
    """What was run in a process of its own ended that process, or raised; ``ending`` says which."""

    def __init__(self, reason: str, ending: Ending) -> None:
        super().__init__(reason)
        self.ending = ending


def apart(work: Callable[[], T]) -> T:
    """What ``work`` returns, run in a fork of this process; raises :class:`Died`.

    It must be picklable; CUDA does not survive a fork.
    """

    def told(_: None) -> Iterator[str]:
        yield pickle.dumps(work()).hex()

    ((_, said),) = forked([None], told, CHILD_SECONDS)
    if isinstance(said, Crashed):
        raise Died(said.reason, said.ending)
    answer: T = pickle.loads(bytes.fromhex(said.line))
    return answer


class Missing(Exception):
    """This release of torch does not have what was to be held back, or watched."""


class OutOfTime(Exception):
    """The CPU seconds of a probe are spent."""


@dataclass
class Probe:
    """Judges one program again and again.

    ``trial`` makes a fresh trial under a configuration; ``accused`` are the finding's kinds;
    ``seconds`` of CPU, compilers' included, may be spent; generated code is for ``device``.
    ``signature`` is that of the exception that the finding is about: another one is another finding.
    ``in_eager``: no code is generated, whatever is asked; ``interpreted``: nor for kernels.  ``apart``: every compile
    is judged in a process of its own.  ``crash``: it is, and that this process ends is the finding.
    """

    trial: Callable[[CompileConfig], Trial]
    config: CompileConfig
    plan: ValuePlan
    accused: frozenset[Kind]
    seconds: float
    device: str = "cpu"
    signature: Signature | None = None
    in_eager: bool = False
    interpreted: bool = False
    apart: bool = False
    crash: bool = False
    asked: int = 0
    #: What was held back when the finding last was gone.
    last_gone: Held | None = None
    _started: float = field(default_factory=lambda: cpu_seconds())

    @property
    def spent(self) -> bool:
        return cpu_seconds() - self._started > self.seconds

    def ask(self, held: Held) -> Answer:
        """Raises :class:`OutOfTime`."""
        return self.watch(held)[0]

    def watch(self, held: Held) -> tuple[Answer, Mapping[Group, list[Step]]]:
        """The answer, and the steps of the compile; raises :class:`OutOfTime`."""
        answer, steps = self._seen(held)
        if self.crash and answer is Answer.SHOWS:  # who crashed says nothing: up to its kernels all is the same here
            steps = self._seen(held.with_plain(Plain.KERNELS))[1]
        if answer is Answer.GONE:
            self.last_gone = held
        return answer, steps

    def _seen(self, held: Held) -> tuple[Answer, Mapping[Group, list[Step]]]:
        if self.spent:
            raise OutOfTime(f"after {self.asked} compiles in {self.seconds:g} s")
        self.asked += 1
        held = replace(held, backend=True) if self.in_eager else held
        held = held.with_plain(Plain.KERNELS) if self.interpreted else held
        if not (self.apart or self.crash):
            return self._watched(held)
        for _ in range(CRASH_TRIES if self.crash else 1):
            try:
                seen = apart(lambda: self._watched(held))
            except Died as died:
                crashed = self.crash and died.ending in (Ending.CRASHED, Ending.EXITED)
                return Answer.SHOWS if crashed else Answer.BROKEN, {group: [] for group in Group}
        return seen

    def functions(self, held: Held) -> Collection[Function]:
        """The functions of torch that run when that is asked, in their order; raises :class:`OutOfTime`."""
        with functions_noted() as run:
            self.ask(held)
        return run

    def right_in_fp64(self) -> bool | None:
        """Whether interpreted kernels are right where they are executed in fp64; None where that is not known."""
        if self.apart or self.crash or self.spent or self.device != "cpu":
            return None
        try:
            with present(lambda: plainly(Plain.KERNELS)), noting(None), garbage_in_new_memory():
                return self.trial(self.config).right_in_fp64(self.plan)
        except (NotApplicable, Missing):
            return None

    def raised(self) -> Observation | None:
        """What the compiled program shows where it raises; None where it is not run in this process."""
        if self.apart or self.crash or self.spent:
            return None
        trial = self.trial(self.config)
        with garbage_in_new_memory():
            trial.judge(self.plan)
        return trial.sides[1] if trial.sides is not None and trial.sides[1].raised else None

    def _watched(self, held: Held) -> tuple[Answer, Mapping[Group, list[Step]]]:
        tracker = Tracker(dict(held.upto), held.off, eager=held.backend)
        trial = self.trial(self.config.with_inductor(dict(held.settings)))
        try:
            with holding_back(held, tracker), noting(None), garbage_in_new_memory():
                kinds = kinds_of(trial.judge(self.plan))
        except (NotApplicable, Missing):
            return Answer.BROKEN, tracker.steps
        return self._answer(kinds, trial), tracker.steps

    def _answer(self, kinds: Collection[Kind], trial: Trial) -> Answer:
        if _raises_for_the_compiler(trial):
            return Answer.BROKEN
        other = LOUD if _another(self.signature, trial.signature) else frozenset()
        if (self.accused - other) & set(kinds):
            return Answer.SHOWS
        return Answer.BROKEN if LOUD & set(kinds) else Answer.GONE


def _another(known: Signature | None, seen: Signature | None) -> bool:
    """Whether another exception was raised than is known.  What only runs a graph says nothing of where it was."""
    if known is None or seen is None or known == seen:
        return known not in (None, seen)
    if (known.type, known.operator) != (seen.type, seen.operator):
        return True
    return not all(signature.frame.startswith(_RUNNERS) for signature in (known, seen))


def _raises_for_the_compiler(trial: Trial) -> bool:
    """Whether eager raises, and what was compiled last only since the compiler itself failed: no error of eager's."""
    if trial.sides is None:
        return False
    eager, compiled = trial.sides
    if not eager.raised or compiled.exception is None or not is_compiler_error(compiled.exception):
        return False
    return eager.raised.partition(": ")[2] not in str(compiled.exception)


@contextlib.contextmanager
def holding_back(held: Held, tracker: Tracker | None = None) -> Iterator[None]:
    """Compiles in this process are without what is held, but for ``settings``, which are the caller's to make.

    Raises :class:`Missing`.
    """
    with present(lambda: _all_of(held, tracker)):
        yield


@contextlib.contextmanager
def _all_of(held: Held, tracker: Tracker | None) -> Iterator[None]:
    contexts: list[AbstractContextManager[Any]] = [
        tracked(tracker or Tracker(dict(held.upto), held.off, eager=held.backend))
    ]
    if held.backend:
        contexts.append(graphs_in_eager())
    if held.wrapper:
        contexts.append(without_graph_wrapper(held.wrapper))
    if held.scheduler_step:
        contexts.append(without_scheduler_step(held.scheduler_step))
    if held.stages:
        contexts.append(without_stages(*held.stages))
    if held.function is not None:
        contexts.append(without_graph_function(held.function))
    if held.sizes:
        contexts.append(plain_sizes(held.sizes))
    if held.mended:
        contexts.append(scheduler_mended(held.mended))
    contexts += [plainly(part) for part in held.plain]
    if held.decompositions is None or held.decompositions:
        contexts.append(without_decompositions(held.decompositions))
    with contextlib.ExitStack() as stack:
        for context in contexts:
            stack.enter_context(context)
        yield


@contextlib.contextmanager
def present(make: Callable[[], AbstractContextManager[T]]) -> Iterator[T]:
    """The context that ``make`` gives; raises :class:`Missing` where this torch lacks what it replaces."""
    with contextlib.ExitStack() as stack:
        try:
            value = stack.enter_context(make())
        except (AttributeError, ImportError) as error:
            raise Missing(str(error)) from error
        yield value


def cpu_seconds() -> float:
    """CPU seconds of this process and of the compilers that it called."""
    return sum(os.times()[:4])


def first_showing(low: int, high: int, shows: Callable[[int], bool]) -> int:
    """The smallest n in (low, high] with ``shows(n)``, known of ``high`` and known not of ``low``."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


def first_step(probe: Probe, held: Held, group: Group, steps: Sequence[int]) -> int:
    """The first of these step numbers that shows the finding where the steps after it are held back.

    With all of them it is known to show, and without any not.  Raises :class:`OutOfTime`.
    """

    def shows(count: int) -> bool:
        return probe.ask(held.below(group, steps[count - 1] + 1)) is Answer.SHOWS

    return steps[first_showing(0, len(steps), shows) - 1]
