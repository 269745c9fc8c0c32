"""For the tests of projects that own FX passes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any


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

    Raises ``AssertionError`` with the first counterexample, ``ValueError`` for what is no pass or no corpus.
    """
    from fxmorph.inductor.checking import STAGES, Checker
    from fxmorph.inductor.checkpass import ordered, pass_source, shipped_corpus, told
    from fxmorph.inductor.ownpass import load_pass, own_pass, source_of
    from fxmorph.inductor.units import Stage
    from fxmorph.load import SeedFailed, load_seed
    from fxmorph.model import Status
    from fxmorph.report.pairs import finding_lines
    from fxmorph.seeds import find_seeds

    if stage not in list(STAGES):
        raise ValueError(f"stage {stage!r}: want {', '.join(STAGES)}")
    given = [corpus] if isinstance(corpus, (str, Path)) else list(corpus or [shipped_corpus()])
    checked = load_pass(own) if isinstance(own, str) else own_pass(own)
    checker = Checker(checked, Stage(stage))
    graphs = fired = 0
    trouble = ""
    seeds, _ = find_seeds([os.fspath(path) for path in given])
    for seed, train in ordered(seeds, pass_source(own) if isinstance(own, str) else source_of(own)):
        if train and not training:
            continue
        try:
            results = list(checker.check(load_seed(seed), train))
        except SeedFailed:
            continue  # the corpus' fault, and not the pass's
        for result in results:
            graphs += bool(result.part)
            trouble = trouble or ("" if result.part else f" ({result.seed}: {result.reason})")
            fired += result.fired
            if result.status is Status.FINDING:
                raise AssertionError("\n".join(finding_lines(told(checked.name, result, ""))))
    if fires and not fired:
        raise AssertionError(f"{checked.name} fired on 0 of {graphs} {stage} graphs: nothing was checked{trouble}")
    return fired
