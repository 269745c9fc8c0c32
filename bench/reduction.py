"""Known bugs inside graphs of 20 to 60 calls: how small they become again, and whether they stay themselves.

    python bench/reduction.py BUGS [--names NAME ...] [--seconds 300] [--out FILE]

BUGS is a folder of seeds named ``pt<issue>*.py`` (``corpus/regressions``); those of :data:`LIVE` are taken, and
the planted faults of ``tests/quality/test_blame.py`` besides.  A line a bug, then medians.  FILE gets a line of
JSON a bug; those that are in it already are not measured again.  Each is measured in a process of its own; as in
a campaign, once more with processes of their own for all that is compiled, where it does not survive that.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from embedding import embedded, program_of

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.ladder import STAGE, kinds_of
from fxmorph.judge.trial import GraphSubject, Trial
from fxmorph.model import Case, CaseResult, CompileConfig, Status, ValuePlan
from fxmorph.programs.capture import capture_torch
from fxmorph.programs.forked import Said, forked
from fxmorph.programs.graph import calls, function_of, read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.load import Invocation, load_seed
from fxmorph.rules import load_rules
from fxmorph.torchapi.compiling import BACKEND_LADDER, quiet, reset
from fxmorph.triage.blame.probe import cpu_seconds
from fxmorph.triage.identity import kind_group
from fxmorph.triage.investigate import investigate

#: Planted faults, with the calls of the smallest program that shows them, found by hand.  Those of Dynamo's capture
#: are left out: what is reduced is a captured graph, in which they are not.
PLANTED = {
    "pre_grad pass": 1, "decomposition": 1, "inner decomposition": 1, "decomposition's strides": 1,
    "backward decomposition": 1, "joint pass": 1, "joint pass, gradient": 1, "joint graph entry": 2,
    "post_grad pass": 1, "view_to_reshape": 1, "cse": 1, "partitioner": 1, "captured graph": 1,
    "attention pattern": 5, "post_grad entry": 3, "reinplace": 1, "freezing": 1, "opt-in entry": 2,
    "lowering": 1, "reduction's lowering": 1, "vectorised code": 1, "scalar code": 1, "code of a reduction": 1,
}  # fmt: skip
#: Public bugs of torch 2.13.0, by issue: unit (a prefix), calls by hand.
LIVE = {
    "189518": ("post_grad.pass_patterns[1]/pointless_cumsum_replacement", 2),
    "195320": ("joint.pass_patterns[0]/_sfdp", 7),
    "195451": ("post_grad.reinplace_inplaceable_ops", 2),
    "195579": ("decomposition.aten.addmm", 1),
    "195675": ("lowering.aten.clamp", 1),
    "197431": ("lowering.aten.as_strided", 3),
    "198033": ("post_grad.reinplace_inplaceable_ops", 2),
    "198131": ("", 3),
    "198364": ("decomposition.aten.", 1),
    "197089": ("decomposition.aten.", 1),
}


@dataclass(frozen=True)
class Bug:
    """``plant`` is entered while it is compiled; ``file`` is its seed, or ``fn`` and ``inputs`` its program."""

    name: str
    unit: str
    hand: int
    plant: Callable[[], AbstractContextManager[Any]]
    file: str = ""
    fn: Any = None
    inputs: tuple[Any, ...] = ()
    config: CompileConfig = field(default_factory=CompileConfig.make)
    no_grad: bool = False


@dataclass(frozen=True)
class Outcome:
    """``slipped``: another unit or kind is guilty of the reduced program; ``seconds`` of CPU in all."""

    name: str
    before: int
    after: int
    hand: int
    seconds: float
    rung: str
    slipped: bool
    unit: str
    tests: int
    finished: bool
    program: str


def planted() -> Iterator[Bug]:
    """The planted faults."""
    path = Path(__file__).resolve().parents[1] / "tests" / "quality" / "test_blame.py"
    spec = importlib.util.spec_from_file_location("planted_faults", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name, hand in PLANTED.items():
        case = module.CASES[name]
        yield Bug(name, case.unit, hand, case.plant, "", case.fn, case.inputs, case.config, case.no_grad)


def live(folder: Path) -> Iterator[Bug]:
    """The public bugs whose seeds are in the folder."""
    for issue, (unit, hand) in LIVE.items():
        for file in sorted(folder.glob(f"pt{issue}*.py"))[:1]:
            yield Bug(file.stem, unit, hand, contextlib.nullcontext, str(file))


def measured(bug: Bug, rules: Any, seconds: float) -> Outcome | str:
    """What :func:`measure` says, in a process of its own that may die."""

    def work(in_children: bool) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            got = measure(bug, Path(folder), rules, seconds, in_children)
        yield json.dumps(got if isinstance(got, str) else asdict(got))

    for _, said in forked([False, True], work, 10 * seconds):
        if isinstance(said, Said):
            told = json.loads(said.line)
            return told if isinstance(told, str) else Outcome(**told)
        if not said.reason.startswith("crashed"):
            break
    return said.reason


def measure(bug: Bug, folder: Path, rules: Any, seconds: float, in_children: bool) -> Outcome | str:
    """Embed, judge and investigate one bug; a text where it cannot be embedded."""
    meta: dict[str, Any] = {"no_grad": bug.no_grad, "config": dict(bug.config.inductor)}
    if bug.file:
        (seed,), _ = find_seeds([bug.file])
        loaded = load_seed(seed)
        (captured,) = capture_torch(loaded.fresh(0), loaded.config(bug.config), loaded.no_grad)
        meta = {"no_grad": loaded.no_grad, "config": loaded.meta.get("config", {})}
    else:
        given = InputSet.snapshot(bug.inputs).rebuild()
        made = Invocation(bug.fn, given, lambda g: g(*given))
        (captured,) = capture_torch(made, bug.config, bug.no_grad)
    config = CompileConfig.make(inductor=meta["config"])
    reset()

    def kinds(text: str, inputs: InputSet) -> frozenset[Any]:
        try:
            return kinds_of(_trial(text, inputs, config, meta["no_grad"]).judge(ValuePlan.SEED))
        except RuntimeError:
            return frozenset()

    def stage(text: str, inputs: InputSet) -> str:
        for backend in BACKEND_LADDER:
            early = _trial(text, inputs, replace(config, backend=backend), meta["no_grad"]).judge(ValuePlan.SEED)
            if kinds_of(early) & accused:
                return STAGE[backend]
        return "inductor"

    with bug.plant():
        accused = kinds(captured.text, captured.inputs)
    if not accused:
        return "the bug shows nothing by itself"

    def shows(text: str, inputs: InputSet) -> bool:
        """Under the plant alone: rewrites may bring in a public bug."""
        reset()
        with bug.plant():
            found = kinds(text, inputs)
        reset()
        right = bool(found) and kind_group(found) == kind_group(accused)
        return right and (bool(bug.file) or not kinds(text, inputs))

    made_ = embedded(captured.graph, captured.inputs, meta["no_grad"], rules, 0, shows)
    if made_ is None:
        return "no embedding shows it"
    text, inputs = made_
    reset()
    with bug.plant():
        torch.save(inputs.rebuild(), folder / "inputs.pt")
        (folder / "seed.py").write_text(program_of(text, meta))
        (seed,), _ = find_seeds([str(folder / "seed.py")])
        case = Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make())
        result = CaseResult(case.id, Status.FINDING, tuple(sorted(kinds(text, inputs))), stage=stage(text, inputs))
        started = cpu_seconds()
        got = investigate(case, result, load_rules([]), Clock(), seconds, apart=in_children)
        used = cpu_seconds() - started
    reset()
    guilty = [got.unit, *(got.blame.off if got.blame else ())]
    same = any(unit.startswith(bug.unit) for unit in guilty) and kind_group(got.kinds) == kind_group(accused)
    before = len(calls(read_graph(text)))
    return Outcome(
        bug.name, before, got.nodes, bug.hand, round(used, 1), got.rung, not same, got.unit, got.tests, got.finished,
        got.program,
    )  # fmt: skip


def _trial(text: str, inputs: InputSet, config: CompileConfig, no_grad: bool) -> Trial:
    subject = GraphSubject(function_of(text), {ValuePlan.SEED: inputs}, lambda c: c, no_grad)
    return Trial(subject, config, 0, Clock())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bugs", metavar="BUGS", type=Path)
    # Not ``--only``: Inductor looks for that among the process's arguments, and writes what follows into its code.
    parser.add_argument("--names", nargs="*", default=())
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    # Rules that write, or that make a cumsum of ones, bring in public bugs of their own.
    rules = [r for r in load_rules([]) if r.site != "late" and r.family != "mutate" and "cumsum" not in r.id]
    outcomes: list[Outcome] = []
    if options.out and options.out.exists():
        outcomes = [Outcome(**json.loads(line)) for line in options.out.read_text().splitlines()]
    done = {o.name for o in outcomes}
    bugs = [b for b in (*live(options.bugs), *planted()) if not options.names or b.name in options.names]
    for bug in [b for b in bugs if b.name not in done]:
        got = measured(bug, rules, options.seconds)
        if isinstance(got, str):
            print(f"{bug.name:28} {got}", flush=True)
            continue
        outcomes.append(got)
        flags = ("" if got.finished else " time") + (" SLIPPED" if got.slipped else "")
        print(
            f"{got.name:28} {got.before:3} -> {got.after:2} calls (by hand {got.hand}) {got.seconds:6.1f} s"
            f" {got.rung:4} {got.tests:4} tests  {got.unit}{flags}",
            flush=True,
        )
        if options.out:
            with options.out.open("a") as to:
                to.write(json.dumps(asdict(got)) + "\n")
    _summary(outcomes, len(bugs))


def _summary(outcomes: list[Outcome], bugs: int) -> None:
    if not outcomes:
        return
    near = sum(o.after <= o.hand + 1 for o in outcomes)
    print(f"{len(outcomes)} of {bugs} bugs; median {median(o.after for o in outcomes)} calls")
    print(f"at most one call from the form made by hand: {near}; slipped: {sum(o.slipped for o in outcomes)}")
    for rung in sorted({o.rung for o in outcomes}):
        print(f"median CPU of {rung}: {median(o.seconds for o in outcomes if o.rung == rung):.1f} s")


if __name__ == "__main__":
    main()
