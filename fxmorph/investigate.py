"""From a case that was found to a finding that stands alone: reduce, blame, write as a program.

The program holds only torch: what it makes and what it runs are the reduced graph's text and
inputs, or the seed's own source where the difference needs the seed's callable.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.blame import Blame
from fxmorph.canon import canonical
from fxmorph.capture import CaptureFailed, capture_torch
from fxmorph.clock import Clock
from fxmorph.graph import Unprintable, calls, copy_graph, function_of, graph_hash, imports_of, print_graph
from fxmorph.inputs import InputSet, NotApplicable
from fxmorph.judge.case import captured_graph, make_variant, plan_inputs
from fxmorph.judge.ladder import kinds_of
from fxmorph.judge.numeric import CAST_ELIDED
from fxmorph.judge.trial import GraphSubject, SeedSubject, Subject, Trial
from fxmorph.load import LoadedSeed, ambient, load_case
from fxmorph.localize import IN_EAGER, localize
from fxmorph.model import (
    SIZE_PLANS,
    BugClass,
    Case,
    CaseResult,
    CompileConfig,
    Kind,
    Recipe,
    Status,
    ValuePlan,
    Verdict,
    digest,
)
from fxmorph.probing import Answer, Probe
from fxmorph.program import inputs_text
from fxmorph.reduce import Reduced, Reducer
from fxmorph.rewrite import Inapplicable, Unsound, Workbench, replay_recipe
from fxmorph.rules import Registry

#: The backend that shows a stage's faults, cheapest.
BACKEND_OF = {"dynamo": "eager", "aot": "aot_eager", "decomposition": "aot_eager_decomp_partition"}
#: Share of the budget for finding the guilty unit.
BLAME_SHARE = 0.4


@dataclass(frozen=True)
class Investigated:
    """What the parent writes down.  ``operations`` are those of the reduced graph."""

    case_id: str
    program: str
    kinds: tuple[Kind, ...]
    blame: Blame | None
    recipe: str
    rewrites: tuple[str, ...]
    operations: tuple[str, ...]
    structure: str
    evidence: tuple[str, ...]
    nodes: int
    tests: int
    config: dict[str, Any]
    check: dict[str, Any]
    seconds: tuple[tuple[str, float], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Name of the guilty unit; "" where none is known."""
        return self.blame.unit if self.blame is not None else ""


def investigate(case: Case, result: CaseResult, rules: Registry, clock: Clock, seconds: float) -> Investigated:
    """Reduce and blame a found case within about ``seconds`` of this process's CPU time."""
    with clock.activity("reduce"), ambient(case.context, case.device):
        loaded = load_case(case)
        plan = next((v.plan for v in result.verdicts if v.status is Status.FINDING and v.plan), ValuePlan.SEED)
        work = _Investigation(case, result, loaded, plan, rules, clock, seconds)
        out = work.run()
    return replace(out, seconds=clock.take())


class _Investigation:
    def __init__(
        self, case: Case, result: CaseResult, loaded: LoadedSeed, plan: ValuePlan, rules: Registry, clock: Clock,
        seconds: float,
    ) -> None:  # fmt: skip
        if result.inductor:
            case = replace(case, compile=replace(case.compile, inductor=result.inductor))
        self.case, self.result, self.loaded, self.plan = case, result, loaded, plan
        self.rules, self.clock, self.seconds = rules, clock, seconds
        self.accused = frozenset(result.kinds) - {Kind.SECOND_CALL}
        backend = BACKEND_OF.get(result.stage, case.compile.backend)
        self.config = replace(case.compile, backend=backend)

    def run(self) -> Investigated:
        if self.plan in SIZE_PLANS:
            return self._at_other_size()
        start = self._graph()
        if start is None:
            return self._as_seed()
        graph, inputs, recipe = start
        budget = self.seconds * (1 - BLAME_SHARE)
        best = self._reduced(graph, inputs, budget)
        inputs, made = self._plain_inputs(best.graph, best.inputs)
        subject = self._subject(best.graph, inputs)
        verdicts = self._judge(subject, self.config)
        verdicts = [v for v in verdicts if v.kind in self.accused]  # others were excused by the ladder
        text = print_graph(best.graph)
        program = imports_of(text) + made + "\n\n" + text
        return Investigated(
            case_id=self.case.id,
            program=program,
            kinds=self._kinds(verdicts),
            blame=self._blame(subject),
            recipe=str(recipe),
            rewrites=tuple(r.rule for r in recipe.rewrites),
            operations=tuple(sorted(canonical(n).name for n in calls(best.graph))),
            structure=graph_hash(best.graph),
            evidence=_evidence(verdicts),
            nodes=len(calls(best.graph)),
            tests=best.tests,
            config=self._config(),
            check=self._check(verdicts),
        )

    # -- the program under reduction -------------------------------------------

    def _graph(self) -> tuple[fx.Graph, InputSet, Recipe] | None:
        """The graph that shows the finding, with the fewest rewrites; None where only the callable does."""
        if self.result.recipe:
            recipe = self._fewest_rewrites(Recipe.parse(self.result.recipe))
            made = make_variant(replace(self.case, recipe=recipe), self.loaded, self.rules, self.clock)
            captured = captured_graph(self.case, self.loaded, self.clock)
            bench = Workbench(captured.graph, captured.inputs, self.loaded.no_grad)
            replay_recipe(bench, self.rules, recipe)
            return bench.graph, made.subject.inputs[self.plan], recipe
        try:
            graphs = capture_torch(
                self.loaded.fresh(self.case.input_seed), self.loaded.config(self.case.compile), self.loaded.no_grad
            )
            if len(graphs) != 1:
                return None
            inputs = plan_inputs([self.plan], graphs[0].inputs, self.case.input_seed)
            print_graph(graphs[0].graph)
            if self.plan in inputs and self._still(graphs[0].graph, inputs[self.plan]):
                return graphs[0].graph, inputs[self.plan], Recipe()
        except (CaptureFailed, Unprintable):
            pass
        return None

    def _fewest_rewrites(self, recipe: Recipe) -> Recipe:
        for rewrite in reversed(recipe.rewrites):
            smaller = Recipe(tuple(r for r in recipe.rewrites if r is not rewrite))
            if not smaller:
                break
            try:
                variant = make_variant(replace(self.case, recipe=smaller), self.loaded, self.rules, self.clock)
                if kinds_of(self._judge(variant.subject, self.config)) & self.accused:
                    recipe = smaller
            except (Inapplicable, Unsound):
                continue
        return recipe

    def _subject(self, graph: fx.Graph, inputs: InputSet) -> GraphSubject:
        fn = function_of(print_graph(graph))
        inference = self.loaded.context == "inference"
        return GraphSubject(fn, {self.plan: inputs}, self.loaded.config, self.loaded.no_grad, inference)

    def _judge(self, subject: Subject, config: CompileConfig) -> list[Verdict]:
        try:
            return Trial(subject, config, self.case.input_seed, self.clock).judge(self.plan)
        except NotApplicable:
            return []

    def _still(self, graph: fx.Graph, inputs: InputSet) -> bool:
        return bool(kinds_of(self._judge(self._subject(graph, inputs), self.config)) & self.accused)

    def _reduced(self, graph: fx.Graph, inputs: InputSet, budget: float) -> Reduced:
        """By Inductor's graphs run in eager where they show the finding: that takes a tenth of a compile."""

        def still(graph: fx.Graph, inputs: InputSet) -> bool:
            return self._probe(self._subject(graph, inputs), budget).ask(IN_EAGER) is Answer.SHOWS

        if self.config.backend == "inductor" and still(copy_graph(graph), inputs):
            best = Reducer(graph, inputs, still, budget, self.loaded.no_grad).run()
            if self._still(copy_graph(best.graph), best.inputs):
                return best
        return Reducer(graph, inputs, self._still, budget, self.loaded.no_grad).run()

    def _plain_inputs(self, graph: fx.Graph, inputs: InputSet) -> tuple[InputSet, str]:
        """Inputs as short source text that still shows the finding, and the inputs that it makes."""
        for style in ("arange", "random", "literal"):
            text = inputs_text(inputs, style, self.plan)
            if text is None:
                continue
            made = InputSet.snapshot(run_inputs(text))
            if style == "literal" or self._still(copy_graph(graph), made):
                return made, text
        text = inputs_text(inputs, "bytes", self.plan)
        assert text is not None
        return inputs, text

    # -- blame -----------------------------------------------------------------

    def _blame(self, subject: Subject) -> Blame | None:
        """The guilty stage and unit; None where the case is not of Inductor's."""
        if self.case.compile.backend != "inductor":
            return None

        try:
            return localize(self._probe(subject, self.seconds * BLAME_SHARE), self.result.stage)
        except Exception as error:  # a pass that is held back may leave others without what they rely on
            text = f"blame ended in {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            return Blame(None, "", False, (text,))

    def _probe(self, subject: Subject, seconds: float) -> Probe:
        def trial(config: CompileConfig) -> Trial:
            return Trial(subject, config, self.case.input_seed, self.clock)

        return Probe(trial, self.case.compile, self.plan, self.accused, seconds, self.case.device)

    # -- output ----------------------------------------------------------------

    def _as_seed(self, subject: SeedSubject | GraphSubject | None = None) -> Investigated:
        """The seed's own source where no single graph shows the finding."""
        source = Path(self.case.seed.path).read_text() if self.case.seed.form == "module" else ""
        subject = subject or SeedSubject(self.loaded)
        verdicts = [v for v in self._judge(subject, self.config) if v.kind in self.accused]
        return Investigated(
            case_id=self.case.id,
            program=_without_tail(source),
            kinds=self._kinds(verdicts),
            blame=self._blame(subject) if source else None,
            recipe="",
            rewrites=(),
            operations=(),
            structure=self.case.seed.hash,
            evidence=_evidence(verdicts),
            nodes=0,
            tests=0,
            config=self._config(),
            check=self._check(verdicts),
        )

    def _at_other_size(self) -> Investigated:
        """As it was found: reduction would change the sizes that the compile is about."""
        subject: SeedSubject | GraphSubject = SeedSubject(self.loaded)
        if not self.result.recipe:
            out = self._as_seed(subject)
        else:
            recipe = Recipe.parse(self.result.recipe)
            variant = make_variant(replace(self.case, recipe=recipe), self.loaded, self.rules, self.clock)
            made = inputs_text(variant.subject.inputs[ValuePlan.SEED], "bytes", ValuePlan.SEED)
            subject = variant.subject
            out = replace(
                self._as_seed(subject),
                program=f"{imports_of(variant.text)}{made}\n\n{variant.text}",
                recipe=str(recipe),
                rewrites=tuple(r.rule for r in recipe.rewrites),
                structure=variant.hash,
            )
        return replace(out, config={**out.config, "sizes": subject.sizes.chosen.get(self.plan)})

    def _kinds(self, verdicts: list[Verdict]) -> tuple[Kind, ...]:
        second = (Kind.SECOND_CALL,) if self.plan is ValuePlan.AGAIN else ()
        return tuple(sorted({*kinds_of(verdicts), *second})) if verdicts else self.result.kinds

    def _config(self) -> dict[str, Any]:
        settings = self.loaded.config(self.case.compile)
        return {
            "backend": settings.backend,
            "compile": dict(settings.options),
            "inductor": dict(settings.inductor),
            "dynamo": dict(settings.dynamo),
            "no_grad": self.loaded.no_grad,
            "calls": self.loaded.meta.get("calls", 1) if not self.result.recipe else 1,
            "device": self.case.device,
            "context": self.case.context,
            "dtype": self.case.dtype if not self.result.recipe else "",
        }

    def _check(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Tolerances of the repro: exact where the case was, else far above rounding."""
        exact = any("exact arithmetic" in v.reason for v in verdicts)
        if any(CAST_ELIDED in v.reason for v in verdicts):
            return {"exact": False, "rtol": 1e-5, "atol": 1e-6}
        return {"exact": exact, "rtol": 0.0 if exact else 1e-3, "atol": 0.0 if exact else 1e-4}


def run_inputs(text: str) -> list[Any]:
    """The values that an ``make_inputs`` text makes, seeded as ``repro.py`` seeds."""
    torch.manual_seed(0)
    return list(function_of(text, "make_inputs")())


def _evidence(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    return tuple(f"{v.kind} of {v.slot}: {v.reason}" for v in verdicts if v.status is Status.FINDING)[:6]


#: What a seed file says of itself.
_ABOUT_THE_SEED = ("META", "ORIGIN", "EXPECTED", "BROKEN_IN")


def _without_tail(source: str) -> str:
    """A seed's source without docstring, META and ``if __name__`` block."""
    tree = ast.parse(source)
    body = [
        s
        for s in tree.body
        if not isinstance(s, (ast.If, ast.Expr))
        and not (isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") in _ABOUT_THE_SEED)
    ]
    return ast.unparse(ast.Module(body, []))


def bug_class(kinds: Sequence[Kind], stage: str, unit: str) -> BugClass:
    """The bug class that kinds, stage and unit point to."""
    if stage == "decomposition":
        return BugClass.IOD
    if {Kind.ALIAS, Kind.IDENTITY, Kind.MUTATION} & set(kinds):
        return BugClass.BAM
    if set(kinds) <= {Kind.STRIDE, Kind.OFFSET}:
        return BugClass.ILP
    if Kind.DTYPE in kinds:
        return BugClass.IOT
    if unit.startswith(("pre_grad.", "joint.", "freezing.", "post_grad.")):
        return BugClass.UGO
    return BugClass.KC


#: Kinds that one root cause shows as, strongest first.
_GROUPS: tuple[tuple[str, frozenset[Kind]], ...] = (
    ("value", frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.GRADIENT, Kind.STRUCTURE, Kind.SHAPE})),
    ("dtype", frozenset({Kind.DTYPE})),
    ("alias", frozenset({Kind.ALIAS, Kind.IDENTITY})),
    ("layout", frozenset({Kind.STRIDE, Kind.OFFSET})),
    ("raises", frozenset({Kind.RAISES, Kind.COMPILE_ERROR})),
)
#: Operations that say nothing about a cause.
_COMMON = frozenset(
    "add sub mul div neg getitem view reshape permute transpose unsqueeze squeeze expand contiguous".split()
)


def fingerprint(found: Investigated, stage: str) -> str:
    """Key of deduplication: what goes wrong, at which stage, in which unit.

    A unit that is one pattern, decomposition or lowering is a cause by itself; for whole-graph
    passes and unnamed causes the operations of the reduced graph are part of the key.
    """
    group = next((name for name, kinds in _GROUPS if kinds & set(found.kinds)), str(found.kinds[0]))
    specific = "/" in found.unit or found.unit.startswith(("decomposition.", "lowering."))
    operations = sorted(set(found.operations) - _COMMON) or [found.structure]
    return digest([group, stage, found.unit, None if specific else operations], 12)
