"""For the tests of other projects: that a program is compiled right, that an FX pass keeps what graphs mean."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fxmorph.judge.reference.authored import reference
from fxmorph.model import CaseResult, CompileConfig, Seed, Status

if TYPE_CHECKING:
    from fxmorph.inductor.own.judged_pair import Judged
    from fxmorph.inductor.pair_record import Pair
    from fxmorph.inductor.snapshots import Snapshot

__all__ = ["Watched", "assert_equivalent", "check_pass", "judge_pair", "judge_seed", "reference", "said", "watch"]


def assert_equivalent(
    fn: Callable[..., Any],
    inputs: Sequence[Any] | Callable[[], Sequence[Any]],
    *,
    backend: str = "inductor",
    no_grad: bool = False,
    inductor: dict[str, Any] | None = None,
    **options: Any,
) -> None:
    """Assert that ``torch.compile(fn, backend=backend, **options)`` does what ``fn`` does.

    ``fn``: a function or an ``nn.Module``.  ``inputs``: its arguments (leaves that can be copied), or
    what makes them anew for each run.  Compared are values (against an fp64 reference, so that
    rounding is no difference), dtypes, strides, aliasing, in-place writes, gradients, exceptions.
    ``inductor``: settings of ``torch._inductor.config``.  Runs in this process.

    Raises ``AssertionError`` that says what differs and from which backend on; ``ValueError`` where
    no verdict could be reached.
    """
    import copy

    from fxmorph.programs.load import LoadedSeed

    def make() -> tuple[Callable[..., Any], list[Any]]:
        return copy.deepcopy(fn), list(inputs() if callable(inputs) else copy.deepcopy(list(inputs)))

    seed = Seed(path=getattr(fn, "__name__", type(fn).__name__), form="module", hash="")
    loaded = LoadedSeed(seed, {"no_grad": no_grad}, make)
    result = _judged(seed, CompileConfig.make(backend, options, inductor), loaded)
    if result.status is Status.FINDING:
        raise AssertionError(said(result))
    if result.status in (Status.ERROR, Status.UNSUPPORTED):
        raise ValueError(f"{seed.label} could not be judged: {result.reason}")


def judge_seed(path: str | Path, backend: str = "inductor") -> CaseResult:
    """The verdict on a seed file as it is, judged in this process; raises ``ValueError`` where it holds none."""
    from fxmorph.core.seeds import find_seeds
    from fxmorph.programs.load import SeedFailed, load_seed

    seeds, refused = find_seeds([os.fspath(path)])
    if len(seeds) != 1:
        raise ValueError(f"{path}: want one seed: {refused[0].reason if refused else f'it holds {len(seeds)}'}")
    try:
        return _judged(seeds[0], CompileConfig.make(backend), load_seed(seeds[0]))
    except SeedFailed as error:
        raise ValueError(f"{path}: {error}") from None


def _judged(seed: Seed, config: CompileConfig, loaded: Any) -> CaseResult:
    from fxmorph.core.clock import Clock
    from fxmorph.judge.case import judge_subject
    from fxmorph.judge.trial import SeedSubject
    from fxmorph.model import Case, ValuePlan

    case = Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.AGAIN), config)
    return judge_subject(case, SeedSubject(loaded), Clock())


def said(result: CaseResult) -> str:
    """What differs, for people."""
    rows = [f"  {name}: {shown}" for name, shown in result.ladder]
    at = f" at {result.stage}" if result.stage else ""
    return "\n".join([f"torch.compile and eager differ{at}: {', '.join(result.kinds)}", f"  {result.reason}", *rows])


def check_pass(
    own: Any,
    corpus: str | Path | Sequence[str | Path] | None = None,
    stage: str = "any",
    training: bool = True,
    fires: bool = True,
    *,
    args: Mapping[str, Any] | None = None,
    rtol: float = 0.0,
    inductor: Mapping[str, Any] | None = None,
    dynamic: bool = False,
    device: str = "cpu",
    compile: Mapping[str, Any] | None = None,
    prelude: Sequence[Any] = (),
    assume: Sequence[Any] = (),
    stub_ops: Sequence[str] = (),
    seconds: float = 5.0,
    graphs: int | None = None,
) -> int:
    """Assert that an FX pass keeps what graphs mean; returns on how many graphs it fired.

    ``own``: a pass in any form that ``fxmorph check-pass`` takes, or a text as that takes it; ``args`` are
    arguments of its constructor or call.  It is tried for ``seconds`` on graphs that are made from it, or on so many
    ``graphs`` however long they take, which are the same on every machine; then on those of ``corpus``, folders and
    files of seeds; None is those of the corpus that comes with fxmorph which call what the pass names, for some
    seconds, and ``()`` none.  ``stage``: whose graphs it is given, ``any`` or ``pre_grad``,
    ``joint``, ``post_grad``, ``post_grad_after``, ``freezing``, ``export``, ``edge``; under ``inductor``, settings of
    Inductor, and ``compile``, arguments of ``torch.compile`` (``dynamic``, ``mode``); on ``device``.  ``prelude`` are
    passes that run first, and ``assume`` predicates over the graphs that the pass is for, as texts or objects.
    ``training``: also graphs of training.  ``fires``: a pass that changes none of the graphs is an error too.
    ``rtol``: a difference that is meant, relative to the largest value of a result.  ``stub_ops``: namespaces whose
    missing operators get stand-ins.  Runs in this process.

    Raises ``AssertionError`` with the first counterexample, ``ValueError`` for what is no pass, what cannot be
    called or made, and what is no corpus.
    """
    from fxmorph.core.seeds import find_seeds, shipped_corpus
    from fxmorph.inductor.firing.budget import Budget
    from fxmorph.inductor.own.check import Count, SeedPlan, ordered, pass_source, told
    from fxmorph.inductor.own.loading import checker_of
    from fxmorph.inductor.own.own_pass import source_of
    from fxmorph.inductor.own.pass_request import PassRequest
    from fxmorph.inductor.own.pass_stage import PassStage
    from fxmorph.programs.load import SeedFailed
    from fxmorph.prove.prover import RUN_BUDGET, Prover
    from fxmorph.report.pair_lines import finding_lines

    if stage not in list(PassStage):
        raise ValueError(f"stage {stage!r}: want {', '.join(PassStage)}")
    name = own if isinstance(own, str) else ""
    request = PassRequest(
        name, stage=stage, stub_ops=tuple(stub_ops), inductor=tuple((inductor or {}).items()), dynamic=dynamic,
        rtol=rtol, compile=tuple((compile or {}).items()), device=device,
    )  # fmt: skip
    prover = Prover(budget=RUN_BUDGET)
    checker = checker_of(request, prover, value=None if name else own, said=args, prelude=prelude, assume=assume)
    count = Count()
    trouble = ""

    def take(pair: Any) -> None:
        count.add(pair)
        if pair.status is Status.FINDING:
            raise AssertionError("\n".join(finding_lines(told(pair, pair.stage or stage, ""))))

    for pair in checker.made_graphs(Budget(seconds) if graphs is None else Budget(graphs=graphs)):
        take(pair)
    assert checker.made is not None
    count.made = checker.made.tried
    given = [corpus] if isinstance(corpus, (str, Path)) else [shipped_corpus()] if corpus is None else list(corpus)
    seeds, _ = find_seeds([os.fspath(path) for path in given]) if given else ([], [])
    order = ordered(seeds, pass_source(own) if name else source_of(own))
    for job in SeedPlan(order, stage, corpus is None, float("inf")).jobs(count):
        if job.training and not training:
            continue
        try:
            pairs = checker.check(job.seed, job.training, job.stage)
        except SeedFailed:
            continue  # the corpus' fault, and not the pass's
        for pair in pairs:
            take(pair)
            trouble = trouble or ("" if pair.part else f" ({pair.source}: {pair.reason})")
    count.why_not = "" if checker.made.has_changed_what_it_names else checker.made.why_not()
    if fires and (not count.fired or count.nothing_checked):
        why = count.nothing_checked or f"tried {checker.made.why_not()}"
        raise AssertionError(
            f"{checker.own.name} fired on {count.fired} of {count.graphs} graphs: nothing was checked; {why}{trouble}"
        )
    return count.fired


def judge_pair(
    before: Any,
    after: Any,
    inputs: Sequence[Any],
    *,
    prove: bool = True,
    aliases: bool = True,
    notes: bool = True,
    rtol: float = 0.0,
) -> Judged:
    """Judge ``after`` against ``before`` on ``inputs``, and on other values in their place, and validate the pair.

    ``before``, ``after``: ``torch.fx.GraphModule`` objects, or functions that are traced on the inputs.
    ``aliases``: which results share memory with what counts; ``notes``: what nodes of ``after`` note of their
    results counts.  ``rtol`` is that of :func:`check_pass`.  Runs in this process; raises nothing for what the
    graphs do.
    """
    from fxmorph.inductor.own.judged_pair import judged

    return judged(before, after, inputs, prove=prove, aliases=aliases, notes=notes, rtol=rtol)


@dataclass
class Watched:
    """The steps that changed graphs, in order, once what was watched has ended; they are judged when asked for.

    ``changes`` are graphs before and after each step, as :class:`~fxmorph.inductor.snapshots.Snapshot`.
    """

    changes: list[tuple[Snapshot, Snapshot]] = field(default_factory=list)

    @property
    def steps(self) -> list[str]:
        """Names of the steps: a user's own pass by its hook and its name, Inductor's by theirs."""
        from fxmorph.inductor.own.watched import step_name

        return [step_name(after) for _, after in self.changes]

    def judged(self, prove: bool = False, hooks: bool = False) -> list[Pair]:
        """One record for each step, of the user's ``hooks`` alone or of all passes.

        ``prove``: each is validated as well.  Random numbers, and graphs that eager does not run, are not judged.
        """
        from fxmorph.inductor.own.pair_judge import PairJudge
        from fxmorph.inductor.own.watched import judged_step
        from fxmorph.prove.prover import RUN_BUDGET, Prover

        judge = PairJudge(Prover(budget=RUN_BUDGET))
        wanted = ((before, after) for before, after in self.changes if after.own or not hooks)
        return [judged_step(judge, before, after, prove) for before, after in wanted]

    def require(self, prove: bool = False, hooks: bool = False) -> None:
        """Raises ``AssertionError`` with the first step that is wrong."""
        from fxmorph.inductor.own.check import told
        from fxmorph.report.pair_lines import finding_lines

        for pair in self.judged(prove, hooks):
            if pair.status is Status.FINDING:
                raise AssertionError("\n".join(finding_lines(told(pair, pair.stage, ""))))


@contextlib.contextmanager
def watch() -> Iterator[Watched]:
    """Note what every pass does to the graphs that Inductor compiles inside, to be judged after the context.

    Hooks (``post_grad_custom_pre_pass`` and the like), Inductor's own passes and pattern entries: those that change a
    graph are steps.  Everything is compiled and runs as ever, but for caches, which are off, and for what was compiled
    before, which is compiled anew.  Graphs are kept with the values of their first call; what never ran is not
    judged, nor are graphs with operators in Inductor's IR.

    >>> with watch() as watched:                  # doctest: +SKIP
    ...     torch.compile(model)(x)
    >>> watched.require(hooks=True)               # AssertionError with the first of my passes that is wrong
    """
    from fxmorph.inductor.snapshots import pairs, recording
    from fxmorph.torchapi.compiling import reset

    watched = Watched()
    reset()
    with recording(generate=True) as recorder:
        try:
            yield watched
        finally:
            watched.changes.extend(pairs(recorder.snapshots()))
