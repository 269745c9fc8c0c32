"""From a case that was found to a finding that stands alone: reduce, blame, write as a program.

The program holds only torch: what it makes and what it runs are the reduced graph's text and
inputs, or the seed's own source where the difference needs the seed's callable.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.judge.case import is_of_later_calls, make_variant, plan_inputs
from fxmorph.judge.ladder import kinds_of
from fxmorph.judge.outside_state import steadied
from fxmorph.judge.plans import under
from fxmorph.judge.trial import GraphSubject, SeedSubject, Subject, Trial
from fxmorph.model import (
    NUMERIC_KINDS,
    SIZE_PLANS,
    Case,
    CaseResult,
    CompileConfig,
    Kernels,
    Kind,
    Recipe,
    Rung,
    Status,
    ValuePlan,
    Verdict,
    VerdictCode,
    digest,
)
from fxmorph.programs.called_in_turn import ONCE, turns
from fxmorph.programs.canon import canonical
from fxmorph.programs.capture import CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable, calls, function_of, graph_hash, imports_of, print_graph, read_graph
from fxmorph.programs.inputs import InputSet, NotApplicable, Unsupported, redrawn
from fxmorph.programs.load import LoadedSeed, in_other_layout, staged
from fxmorph.programs.observe import Observation, same_observation
from fxmorph.programs.signature import Signature
from fxmorph.programs.source import inputs_text, run_inputs
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rules import Registry
from fxmorph.torchapi.new_memory import garbage_in_new_memory, other_garbage
from fxmorph.triage.blame.around_graphs import AROUND_GRAPHS
from fxmorph.triage.blame.generated_code import ALL
from fxmorph.triage.blame.inside_unit import functions_inside
from fxmorph.triage.blame.localize import IN_EAGER, localize
from fxmorph.triage.blame.probe import Answer, Died, Held, Probe, apart, cpu_seconds
from fxmorph.triage.blame.raised_in import fake_kernel_named
from fxmorph.triage.conclusion import Investigated, evidence_of, made_by, without_function, without_tail
from fxmorph.triage.folder.program_text import defined
from fxmorph.triage.identity import group_of, same_group, skeleton
from fxmorph.triage.reduce.calls import returning
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.crash import crash_of
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.order import outputs
from fxmorph.triage.reduce.recipe import fewest_rewrites
from fxmorph.triage.reduce.same_finding import Showing, compiled, in_eager, interpreted, without_guilty
from fxmorph.triage.reduce.sequence import DETAIL, STRUCTURE

#: The backend that shows a stage's faults, cheapest.
BACKEND_OF = {
    "dynamo": "eager",
    "aot": "aot_eager_default_partitioner",
    "partitioner": "aot_eager",
    "decomposition": "aot_eager_decomp_partition",
}
#: Plans that leave a program's values as they are, and forms of seeds that are Python source.
_OWN_VALUES = frozenset({ValuePlan.SEED, ValuePlan.AGAIN, ValuePlan.RANDOM, ValuePlan.STRICT, *SIZE_PLANS})
#: Plans whose program makes several calls, which no graph holds.
_OF_CALLS = (ValuePlan.CACHED, ValuePlan.ROWS)
#: Codes of what differs where right code gives one number.
_EXACT = {VerdictCode.EXACT_ARITHMETIC, VerdictCode.NOT_EAGERS_BITS, VerdictCode.HANGS_ON_OTHER_ROWS}
_SOURCES = frozenset({"module", "class"})
_DRIVE = re.compile(r"^def drive\(", re.MULTILINE)
#: How many other values are tried on a reduced program.
OTHERS = 3
#: What scripts allow, far above rounding, where what differs is farther apart.
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}
#: Has what a program keeps outside of its function made anew for each run.
_EXECUTED_ANEW = """

def make_fn():  # all that is above is executed anew: it keeps state from one run to the next
    anew = {{"__file__": __file__, "__name__": __name__}}
    torch.manual_seed(0)
    exec(open(__file__).read().rpartition("\\ndef make_fn")[0], anew)
    globals().update({{name: value for name, value in anew.items() if name != "make_fn"}})
    torch.manual_seed(1)
    return anew[{function!r}]{called}
"""
#: Shares of the budget for finding the guilty unit, at first and of the reduced program at least, and of what is left
#: for each way to reduce.
BLAME_SHARE, AGAIN_SHARE, REDUCTION_SHARE = 0.4, 0.25, 0.6
#: CPU seconds within which a second compile of the reduced program may begin, to see which functions it runs.
LOOK_SECONDS = 10.0


def investigate(
    case: Case, result: CaseResult, rules: Registry, clock: Clock, seconds: float, groups: Collection[str] = (),
    apart: bool = False, blame: Blame | None = None, reduce: bool = True,
) -> Investigated:  # fmt: skip
    """Blame and reduce a found case within about ``seconds`` of this process's CPU time.

    A case of one of ``groups`` (:func:`fxmorph.triage.identity.group_of`) is blamed and left as it is.  ``apart``: all
    that is compiled runs in processes of its own, for cases of which a candidate took a worker with it; ``blame`` is
    what that worker had found out.  The clock is told of the blame before candidates are run.
    Without ``reduce`` it is blamed and left as it was found.
    """
    with clock.activity("reduce"), staged(case) as loaded, garbage_in_new_memory():
        asked = _Investigation(case, result, loaded, rules, clock, seconds, groups, apart, blame)
        # OpenMP's threads do not survive a fork.
        as_it_is = apart and asked.threads > 1
        out = asked.as_found() if as_it_is else asked.run() if reduce else asked.blamed()
    return replace(out, seconds=clock.take())


def as_found(case: Case, result: CaseResult, rules: Registry, clock: Clock, blame: Blame | None = None) -> Investigated:
    """A found case as the program that it is, neither blamed (unless ``blame`` is known) nor reduced: nothing is
    compiled.

    For cases whose investigation takes its process with it, such as programs that end in a
    device-side assertion of CUDA.
    """
    with clock.activity("reduce"), staged(case) as loaded:
        out = _Investigation(case, result, loaded, rules, clock, 0.0, (), blame=blame).as_found()
    return replace(out, seconds=clock.take())


class _Investigation:
    def __init__(
        self, case: Case, result: CaseResult, loaded: LoadedSeed, rules: Registry, clock: Clock, seconds: float,
        groups: Collection[str], apart: bool = False, blame: Blame | None = None,
    ) -> None:  # fmt: skip
        if result.inductor:
            case = replace(case, compile=replace(case.compile, inductor=result.inductor))
        if result.compiled:
            case = replace(case, compile=replace(case.compile, kernels=Kernels.GENERATED), rung=Rung.CPU)
        self.result = result
        self.loaded = loaded if result.recipe else steadied(loaded, case.input_seed)
        self.plan = result.shown_under or ValuePlan.SEED
        if self.plan is ValuePlan.LAYOUT:
            self.loaded, self.plan = in_other_layout(self.loaded, case.input_seed) or self.loaded, ValuePlan.SEED
        config, self.plan = under(self.plan, case.compile)
        #: Whether all is right until something is called again.
        self.later = is_of_later_calls(self.plan, result.stage)
        if self.plan is ValuePlan.CACHED and not self.later:
            config = config.with_inductor({"fx_graph_cache": False})
        self.case = replace(case, compile=config)
        self.threads = self.loaded.config(config).threads
        self.rules, self.clock, self.seconds, self.groups = rules, clock, seconds, groups
        #: What another worker found out.
        self.known = blame
        self._until = cpu_seconds() + seconds
        #: Of kinds that one cause does not show as, the strongest are what is reduced.
        self.accused = same_group(frozenset(result.kinds) - {Kind.SECOND_CALL})
        self.apart = apart and Kind.CRASH not in self.accused  # each of those has a process of its own as it is
        self.backend = BACKEND_OF.get(result.stage, case.compile.backend)
        self.signature: Signature | None = None
        #: Of the last judgement, by how much what differs is apart where that is less than scripts allow; else None.
        self.nearest: float | None = None

    def run(self) -> Investigated:
        if self.plan in SIZE_PLANS:
            return self._at_other_size()
        if self.plan in _OF_CALLS or self.loaded.reloads:
            return self._as_seed()
        if Kind.CRASH in self.accused:
            # Neither a GPU's context nor OpenMP's threads survive the fork that each candidate would be judged in.
            forks = self.case.device == "cpu" and self.threads == 1
            return self._crash() if forks else self.as_found()
        start, recipe = self._start()
        if start is None:
            return self._as_seed()
        blame = self.known or self._blame(start, self.seconds * BLAME_SHARE)
        group = self._group(blame)
        if group in self.groups:
            return self._left(blame, group)
        if blame.confirmed and self.known is None:  # a candidate may take the process with it
            self.clock.so_far(blame)
        reduction, recipe, rung = self._reduced(start, recipe, blame)
        best, made, verdicts = self._written(reduction.best)
        if not verdicts:  # what the reduction took for the finding does not stand alone
            return replace(self.as_found(), blame=blame, group=group, tests=reduction.tests)
        blame = self._blamed_again(best, blame) if self.known is None else self.known
        blame = self._looked_into(self._subject(best), best.config, blame)
        others = self._with_other_values(best, IN_EAGER if rung == Rung.PASS and self.backend == "inductor" else ALL)
        return Investigated(
            case_id=self.case.id,
            program=imports_of(best.text) + made + "\n\n" + best.text,
            kinds=self._kinds(verdicts),
            blame=blame,
            recipe=str(recipe),
            rewrites=tuple(r.rule for r in recipe.rewrites),
            operations=tuple(sorted(canonical(n).name for n in calls(best.graph))),
            structure=graph_hash(best.graph),
            skeleton=skeleton(best.graph),
            signature=str(self.signature or ""),
            evidence=(*evidence_of(verdicts), *others),
            nodes=best.nodes,
            tests=reduction.tests,
            config={**self._config(best.config), **self._memory(best, verdicts)},
            check=self._check(verdicts),
            group=group,
            rung=rung,
            finished=not reduction.spent,
        )

    def _crash(self) -> Investigated:
        """A program that takes its process with it: each candidate is compiled and run in a process of its own."""
        recipe = self._recipe()
        start = self._variant(recipe) if recipe else self._graph()
        crash = crash_of(start, self._judge) if start is not None else ""
        if start is None or not crash:
            return replace(self.as_found(), blame=Blame(None, "", False, ("the graph alone does not crash",)))
        seconds = REDUCTION_SHARE * self.seconds
        search = Reduction(start, lambda c: crash_of(c, self._judge) == crash, lambda _: True, seconds)
        best = search.run((*STRUCTURE, *DETAIL))
        blame = self.known or self._blame(best, max(self._rest, AGAIN_SHARE * self.seconds))
        return replace(
            self._left(blame, self._group(blame)),
            program=self._standing(best),
            recipe=str(recipe),
            rewrites=tuple(r.rule for r in recipe.rewrites),
            operations=tuple(sorted(canonical(n).name for n in calls(best.graph))),
            structure=graph_hash(best.graph),
            skeleton=skeleton(best.graph),
            signature=crash,
            evidence=(f"crash: {crash}",),
            nodes=best.nodes,
            tests=search.tests,
            config=self._config(best.config),
            check=self._check([]),
            rung=str(self.case.rung),
            finished=not search.spent,
        )

    def blamed(self) -> Investigated:
        """The program as it was judged, with what is to blame where the seconds that there are show it."""
        if Kind.CRASH in self.accused:  # each question takes a process
            return self.as_found()
        one_graph = self.plan not in SIZE_PLANS and self.plan not in _OF_CALLS and not self.loaded.reloads
        start = self._start()[0] if one_graph else None
        if start is not None:
            self.known = self._blame(start, self._rest)
        elif not self.result.recipe:
            self.known = self._blame_of(SeedSubject(self.loaded), self.loaded.config(self.case.compile), self._rest)
        group = self._group(self.known) if self.known is not None else ""
        if self.known is not None and group in self.groups:
            return self._left(self.known, group)
        return self.as_found()

    def as_found(self) -> Investigated:
        """The program as it was judged, with what the judgement said of it."""
        verdicts = [v for v in self.result.verdicts if v.status is Status.FINDING and v.kind in self.accused]
        recipe = self._recipe()
        sizes = self._sizes(recipe) if self.plan in SIZE_PLANS else None
        if sizes is not None:
            self.plan = ValuePlan.SEED  # the script calls the program at its own sizes first
        settings = self.loaded.config(self.case.compile)
        start = self._variant(recipe) if recipe else None
        if not recipe and (self.plan not in _OWN_VALUES or self.case.seed.form not in _SOURCES):
            start = self._graph()  # which holds what the plan makes of parameters too
        program = self._standing(start) if start is not None else self._source()
        objects = self._objects(SeedSubject(self.loaded), settings) if start is None else {}
        blame = self.known or Blame(None, "", False)
        if not blame.unit:
            blame = fake_kernel_named(self.result.reason) or blame
        return replace(
            self._left(blame, self._group(blame)),
            program=program,
            recipe=str(recipe),
            rewrites=tuple(r.rule for r in recipe.rewrites),
            operations=tuple(sorted(canonical(n).name for n in calls(start.graph))) if start is not None else (),
            structure=digest([self.case.seed.hash, str(recipe)]),
            evidence=evidence_of(verdicts) or (self.result.reason,),
            config={**self._config(settings), **objects, **({"sizes": sizes} if sizes else {})},
            check=self._check(verdicts),
            rung=str(self.case.rung),
            finished=False,
        )

    def _group(self, blame: Blame) -> str:
        return group_of(self.accused, blame.unit, self.case.seed.hash) if blame.confirmed else ""

    def _sizes(self, recipe: Recipe) -> tuple[int, int] | None:
        """The size that the plan changes, and what it becomes."""
        subject: SeedSubject | GraphSubject = SeedSubject(self.loaded)
        if recipe:
            subject = make_variant(replace(self.case, recipe=recipe), self.loaded, self.rules, self.clock).subject
        subject.fresh(self.plan, self.case.input_seed)
        return subject.sizes.chosen.get(self.plan)

    @property
    def _rest(self) -> float:
        """CPU seconds of the budget that are not spent."""
        return max(self._until - cpu_seconds(), 0.0)

    # -- the program under reduction -------------------------------------------

    def _recipe(self) -> Recipe:
        """The case's recipe; drawn again where what it was drawn to be was lost with the worker."""
        recipe = Recipe.parse(self.result.recipe)
        if recipe or not self.case.number or Kind.CRASH not in self.accused:
            return recipe
        return make_variant(self.case, self.loaded, self.rules, self.clock).recipe

    def _standing(self, program: Candidate) -> str:
        """The program with its inputs, as source text."""
        return f"{imports_of(program.text)}{self._inputs_text(program.inputs)}\n\n{program.text}"

    def _inputs_text(self, inputs: InputSet) -> str:
        made = inputs_text(inputs, "literal", self.plan) or inputs_text(inputs, "bytes", self.plan)
        assert made is not None
        return made

    def _source(self) -> str:
        """The seed's own source, with a ``make_inputs`` of the case's where they have other values, shapes or layout.

        "" where the seed is no Python module.
        """
        seed = self.case.seed
        if seed.form not in _SOURCES:
            return ""
        source = without_tail(Path(seed.path).read_text())
        if seed.form == "class":
            source += made_by(seed.name, seed.mode)
        if self.plan is ValuePlan.CACHED:
            calls = turns(self.loaded, self.case.input_seed)
            if self.loaded.driver is not None:
                source, renamed = _DRIVE.subn(f"def {ONCE}(", source)
                source += "" if renamed else f"\n\n{ONCE} = drive\n"
            return f"{source.rstrip()}\n\n\n{calls.text(self.loaded.driver is not None)}\n"
        if self.plan is ValuePlan.ROWS and self.loaded.driver is None:
            rows = SeedSubject(self.loaded).rows(self.case.input_seed)
            return f"{source.rstrip()}\n\n\n{rows.text()}\n"
        if self.loaded.executed_anew:
            made = "make_fn" in defined(source)
            source += _EXECUTED_ANEW.format(function="make_fn" if made else "fn", called="()" if made else "")
        if self.loaded.reshaped is None and not self.loaded.relaid and self.plan in _OWN_VALUES:
            return source
        try:
            inputs = InputSet.snapshot(SeedSubject(self.loaded).fresh(self.plan, self.case.input_seed).args)
        except (NotApplicable, Unsupported):  # no text holds them; the source alone may not show it
            return source
        return f"{without_function(source, 'make_inputs')}\n\n{self._inputs_text(inputs)}"

    def _start(self) -> tuple[Candidate | None, Recipe]:
        """The graph that shows the finding, with the recipe that made it; None where only the callable does."""
        recipe = Recipe.parse(self.result.recipe)
        if recipe:
            start = self._variant(recipe)
            self._compiled(start)
            return start, recipe
        graph = self._graph()
        return (self._of_what_differs(graph) if graph is not None else None), recipe

    def _of_what_differs(self, program: Candidate) -> Candidate | None:
        """The program with the first of the results that differ alone, where that shows the finding as well, so that
        little is compiled from there on; None where the program does not show it.
        """
        verdicts, self.signature = self._judged(self._subject(program), program.config)
        wrong = [v.slot for v in verdicts if v.status is Status.FINDING and v.kind in self.accused]
        if not wrong:
            return None
        returned = [int(slot[3:]) for slot in wrong if re.fullmatch(r"out\d+", slot)]
        count = len(outputs(program.graph))
        if not returned or count == 1 or returned[0] >= count:
            return program
        signature = self.signature
        alone = returning(program, {returned[0]})
        if self._compiled(alone):
            return alone
        self.signature = signature
        return program

    def _graph(self) -> Candidate | None:
        """The seed's one graph; None where it has another number, or where it has no text."""
        try:
            graphs = capture_torch(
                self.loaded.fresh(self.case.input_seed), self.loaded.config(self.case.compile), self.loaded.no_grad
            )
            fn = function_of(print_graph(graphs[0].graph))
            inputs = plan_inputs([self.plan], graphs[0].inputs, self.case.input_seed, fn, self.loaded.no_grad)
        except (CaptureFailed, Unprintable):
            return None
        return self._candidate(graphs[0].graph, inputs[self.plan]) if len(graphs) == 1 and self.plan in inputs else None

    def _candidate(self, graph: fx.Graph, inputs: InputSet) -> Candidate:
        return Candidate(graph, inputs, self.loaded.config(self.case.compile), self.loaded.no_grad)

    def _variant(self, recipe: Recipe) -> Candidate:
        variant = make_variant(replace(self.case, recipe=recipe), self.loaded, self.rules, self.clock)
        return self._candidate(read_graph(variant.text), variant.subject.inputs[self.plan])

    def _subject(self, program: Candidate) -> GraphSubject:
        inference = self.loaded.context == "inference"
        fn = function_of(program.text)
        return GraphSubject(fn, {self.plan: program.inputs}, lambda c: c, program.no_grad, inference)

    def _trial(self, subject: Subject, config: CompileConfig) -> Trial:
        return Trial(subject, config, self.case.input_seed, self.clock)

    def _judge(self, program: Candidate) -> list[Verdict]:
        return self._judged(self._subject(program), program.config)[0]

    def _judged(self, subject: Subject, config: CompileConfig) -> tuple[list[Verdict], Signature | None]:
        """Verdicts under the backend that shows the finding, and the signature of what was raised there."""

        def judged() -> tuple[list[Verdict], Signature | None]:
            trial = self._trial(subject, replace(config, backend=self.backend))
            try:
                verdicts = trial.judge(self.plan)
            except NotApplicable:
                return [], None
            self.nearest = nearest_miss(trial.sides, verdicts)
            return verdicts, trial.signature

        if not self.apart:
            return judged()
        try:
            return apart(judged)
        except Died:
            return [], None

    def _compiled(self, program: Candidate) -> bool:
        """Whether the program shows the finding compiled; what it raises there becomes the finding's signature."""
        verdicts, self.signature = self._judged(self._subject(program), program.config)
        return bool(kinds_of(verdicts) & self.accused)

    def _reduced(self, start: Candidate, recipe: Recipe, blame: Blame) -> tuple[Reduction, Recipe, str]:
        """The reduction, what is left of the recipe, and the rung that it ran at.

        By Inductor's graphs run in eager where they show the finding: that takes a tenth of a compile.  Else by
        kernels that are interpreted, where those do: that takes no C++ compiler.
        """
        ways = []
        if self.backend == "inductor" or blame.stage in (*AROUND_GRAPHS, Stage.DECOMPOSITION):
            ways.append(in_eager(start, blame, self._probe, self._unit))
        if ways == [None] and self.backend == "inductor":
            ways.append(interpreted(start, blame, self._probe))
        mild = Rung.PASS if self.backend != "inductor" else self.case.rung
        ways.append(compiled(blame, self._milder if self.backend != "inductor" else self._probe, mild))
        for way in filter(None, ways):
            program, fewer = start, recipe
            if recipe:
                fewer = fewest_rewrites(recipe, lambda r, way=way: self._still_with(r, way))  # type: ignore[misc]
                program = self._variant(fewer)
            reduction = Reduction(program, way.shows, way.same, REDUCTION_SHARE * self._rest)
            reduction.run((*STRUCTURE, *DETAIL))
            if way is ways[-1] or self._probe(reduction.best).ask(ALL) is Answer.SHOWS:
                break
        return reduction, fewer, str(way.rung)

    def _still_with(self, recipe: Recipe, way: Showing) -> bool:
        try:
            return way.shows(self._variant(recipe))
        except (Inapplicable, Unsound, KeyError):  # KeyError: the plan changes nothing in it
            return False

    def _written(self, program: Candidate) -> tuple[Candidate, str, list[Verdict]]:
        """The program with inputs as the shortest source text that still shows the finding, the text, and its verdicts.

        There are no verdicts where no text shows it.
        """
        for style in ("arange", "random", "literal", "bytes"):
            text = inputs_text(program.inputs, style, self.plan)
            if text is None:
                continue
            made = replace(program, inputs=InputSet.snapshot(run_inputs(text)))
            # Others were excused by the ladder.
            verdicts = [v for v in self._judge(made) if v.status is Status.FINDING and v.kind in self.accused]
            if verdicts:
                return made, text, verdicts
        return program, "", []

    def _memory(self, program: Candidate, verdicts: Sequence[Verdict]) -> dict[str, bool]:
        """What a script is told where the compiled program reads what nothing wrote: new processes have zeros there."""
        if self.apart or self.case.device != "cpu" or not kinds_of(verdicts) & NUMERIC_KINDS:
            return {}
        trial = self._trial(self._subject(program), replace(program.config, backend=self.backend))
        seen = trial.compiled(self.plan)
        with other_garbage():
            other = trial.compiled(self.plan)
        return {} if same_observation(seen, other) else {"garbage": True}

    def _with_other_values(self, program: Candidate, held: Held) -> tuple[str, ...]:
        """In words, whether other floating-point values show it too; nothing where no time is left to see."""
        if not self._rest or not any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in program.values):
            return ()
        others = [replace(program, inputs=redrawn(program.inputs, seed)) for seed in range(1, OTHERS + 1)]
        shown = sum(self._milder(other).ask(held) is Answer.SHOWS for other in others)
        return (f"with other random values: shows with {shown} of {OTHERS}",)

    # -- blame -----------------------------------------------------------------

    def _blame(self, program: Candidate, seconds: float) -> Blame:
        """The guilty stage and unit; no stage where the case is not of Inductor's."""
        return self._blame_of(self._subject(program), program.config, seconds)

    def _blame_of(self, subject: Subject, config: CompileConfig, seconds: float) -> Blame:
        if self.case.compile.backend != "inductor" or (self.plan is ValuePlan.CACHED and self.later):
            return Blame(None, "", False)
        try:
            return localize(self._asking(subject, config, seconds), self.result.stage)
        except Exception as error:  # a pass that is held back may leave others without what they rely on
            text = f"blame ended in {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            return Blame(None, "", False, (text,))

    def _looked_into(self, subject: Subject, config: CompileConfig, blame: Blame) -> Blame:
        """The same with the functions named that do the unit's work: two compiles, whatever time is left."""
        gone = without_guilty(blame) if blame.confirmed else None
        if gone is None or blame.stage is None:
            return blame
        probe = self._asking(subject, config, max(self._rest, LOOK_SECONDS))
        try:
            return replace(blame, functions=functions_inside(probe, blame.stage, gone))
        except Exception as error:  # the finding stands without them
            note = f"functions of the unit: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            return replace(blame, evidence=(*blame.evidence, note))

    def _unit(self, program: Candidate) -> str:
        """The guilty unit by graphs run in eager alone."""
        probe = replace(self._probe(program), in_eager=True)
        return localize(probe, self.result.stage).unit

    def _blamed_again(self, program: Candidate, before: Blame) -> Blame:
        """Blame of the reduced program, which says more of its place; ``before`` where it says less."""
        now = self._blame(program, max(self._rest, AGAIN_SHARE * self.seconds))
        if now.confirmed and (not before.confirmed or now.unit in (before.unit, *before.off)):
            return now
        if before.confirmed and now.confirmed:
            note = f"of the reduced program {now.unit} would do as well"
            return replace(before, evidence=(*before.evidence, note))
        return before if before.confirmed else now

    def _probe(self, program: Candidate) -> Probe:
        return self._asking(self._subject(program), program.config, self.seconds)

    def _milder(self, program: Candidate) -> Probe:
        return self._asking(self._subject(program), replace(program.config, backend=self.backend), self.seconds)

    def _asking(self, subject: Subject, config: CompileConfig, seconds: float) -> Probe:
        return Probe(
            lambda changed: self._trial(subject, changed), config, self.plan, self.accused, seconds, self.case.device,
            self.signature, apart=self.apart, crash=Kind.CRASH in self.accused,
        )  # fmt: skip

    # -- output ----------------------------------------------------------------

    def _left(self, blame: Blame, group: str) -> Investigated:
        """A case like one that was reduced before."""
        return Investigated(
            self.case.id, "", self.result.kinds, blame, self.result.recipe, (), (), "", (), 0, 0, {}, {}, group=group
        )

    def _as_seed(self, subject: SeedSubject | GraphSubject | None = None) -> Investigated:
        """The seed's own source where no single graph shows the finding."""
        source = self._source()
        subject = subject or SeedSubject(self.loaded)
        settings = self.loaded.config(self.case.compile)
        verdicts, self.signature = self._judged(subject, settings)
        verdicts = [v for v in verdicts if v.kind in self.accused]
        blame = self._blame_of(subject, settings, self.seconds * BLAME_SHARE) if source else None
        return Investigated(
            case_id=self.case.id,
            program=source,
            kinds=self._kinds(verdicts),
            blame=blame and self._looked_into(subject, settings, blame),
            recipe="",
            rewrites=(),
            operations=(),
            structure=self.case.seed.hash,
            evidence=evidence_of(verdicts),
            nodes=0,
            tests=0,
            config={**self._config(settings), **self._objects(subject, settings)},
            check=self._check(verdicts),
            signature=str(self.signature or ""),
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
        second = (Kind.SECOND_CALL,) if self.later else ()
        return tuple(sorted({*kinds_of(verdicts), *second})) if verdicts else self.result.kinds

    def _config(self, settings: CompileConfig) -> dict[str, Any]:
        return {
            "backend": settings.backend,
            "compile": dict(settings.options),
            "inductor": dict(settings.inductor),
            "dynamo": dict(settings.dynamo),
            "no_grad": self.loaded.no_grad,
            "calls": self.loaded.meta.get("calls", 1) if not self.result.recipe else 1,
            "device": self.case.device,
            **({"threads": self.threads} if self.threads > 1 else {}),
            **({"own_numbers": True} if self.plan is ValuePlan.RANDOM else {}),
            "context": self.case.context,
            "dtype": self.case.dtype if not self.result.recipe else "",
        }

    def _objects(self, subject: Subject, settings: CompileConfig) -> dict[str, bool]:
        """Whether a program that was not reduced returns or takes objects that hold something."""
        seen = self._trial(subject, settings).eager(self.plan)
        return {"objects": True} if seen.objects.forms or seen.objects_after.forms else {}

    def _check(self, verdicts: Sequence[Verdict]) -> dict[str, Any]:
        """Tolerances of the repro, exact where the case was, else far above rounding; whether inputs differ too, and
        whether what differs is written in the backward pass.
        """
        codes = {v.code for v in verdicts}
        exact = bool(_EXACT & codes)
        of_inputs = any(v.slot.startswith("after:") and v.kind is not Kind.MUTATION for v in verdicts)
        inputs = {"inputs": True} if of_inputs else {}
        inputs |= {"backward": True} if any(v.slot.startswith("backward:") for v in verdicts) else {}
        if self.nearest is not None and not exact:
            return {"exact": False, "rtol": 0.0, "atol": self.nearest / 2, **inputs}
        if VerdictCode.CAST_ELIDED in codes:
            return {"exact": False, "rtol": 1e-5, "atol": 1e-6, **inputs}
        return {"exact": exact, **(dict.fromkeys(TOLERANCE, 0.0) if exact else TOLERANCE), **inputs}


def nearest_miss(sides: tuple[Observation, Observation] | None, verdicts: Sequence[Verdict]) -> float | None:
    """The largest difference of the accused slots where TOLERANCE would let all of them pass; else None.

    Near zeros, and in float64, an error far above rounding is a small number.
    """
    accused = {v.slot for v in verdicts if v.status is Status.FINDING and v.kind in NUMERIC_KINDS}
    if sides is None or not accused:
        return None
    mine, theirs = (side.slots() for side in sides)
    largest = 0.0
    for name in accused & mine.keys() & theirs.keys():
        a, b = mine[name].value, theirs[name].value
        if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) and a.shape == b.shape):
            return None
        if not a.is_floating_point():
            return None
        a, b = a.double(), b.double()
        if not torch.allclose(a, b, TOLERANCE["rtol"], TOLERANCE["atol"], equal_nan=True):
            return None
        largest = max(largest, float((a - b).abs().nan_to_num(0.0, 0.0, 0.0).max()) if a.numel() else 0.0)
    return largest or None
