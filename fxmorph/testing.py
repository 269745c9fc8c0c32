"""For the tests of other projects: that a program is compiled right, that an FX pass keeps what graphs mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fxmorph.judge.reference.authored import reference
from fxmorph.model import CaseResult, CompileConfig, Seed, Status

__all__ = ["assert_equivalent", "check_pass", "judge_seed", "reference", "said"]


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
    stage: str = "post_grad",
    training: bool = True,
    fires: bool = True,
) -> int:
    """Assert that an FX pass keeps what graphs mean; returns on how many graphs it fired.

    ``own``: a callable on a ``Graph`` or ``GraphModule``, a ``PatternMatcherPass``, a ``CustomGraphPass``
    (instance or class), or a text as ``fxmorph check-pass`` takes it.  ``corpus``: folders and files
    of seeds; None is the corpus that comes with fxmorph.  ``stage``: ``pre_grad``, ``joint`` or
    ``post_grad``, whose graphs it is given.  ``training``: also graphs of training.  ``fires``: a
    pass that changes none of the graphs is an error too.  Runs in this process.

    Raises ``AssertionError`` with the first counterexample, ``ValueError`` for what is no pass, what cannot be
    called with a graph alone, and what is no corpus.
    """
    from fxmorph.core.seeds import find_seeds
    from fxmorph.core.units import Stage
    from fxmorph.inductor.own.check import Count, ordered, pass_source, shipped_corpus, told
    from fxmorph.inductor.own.own_pass import load_pass, own_pass, source_of
    from fxmorph.inductor.own.pass_verdict import STAGES, Checker
    from fxmorph.programs.load import SeedFailed
    from fxmorph.report.pair_lines import finding_lines

    if stage not in list(STAGES):
        raise ValueError(f"stage {stage!r}: want {', '.join(STAGES)}")
    given = [corpus] if isinstance(corpus, (str, Path)) else list(corpus or [shipped_corpus()])
    checked = load_pass(own) if isinstance(own, str) else own_pass(own)
    checker = Checker(checked, Stage(stage))
    count = Count()
    trouble = ""
    seeds, _ = find_seeds([os.fspath(path) for path in given])
    for seed, train in ordered(seeds, pass_source(own) if isinstance(own, str) else source_of(own)):
        if train and not training:
            continue
        try:
            pairs = checker.check(seed, train)
        except SeedFailed:
            continue  # the corpus' fault, and not the pass's
        for pair in pairs:
            count.add(pair)
            trouble = trouble or ("" if pair.part else f" ({pair.source}: {pair.reason})")
            if pair.status is Status.FINDING:
                raise AssertionError("\n".join(finding_lines(told(pair, checker.stage, ""))))
    if fires and not count.fired:
        raise AssertionError(
            f"{checked.name} fired on 0 of {count.graphs} {stage} graphs: nothing was checked{trouble}"
        )
    return count.fired
