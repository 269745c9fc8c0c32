"""A pass of the user's on graphs that are made from it: which it changes, whether that is right."""

from __future__ import annotations

import copy
import itertools
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied
from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.firing.firing_search import Attempt, FiringSearch
from fxmorph.inductor.firing.reached_lines import unmet
from fxmorph.inductor.firing.small_program import Built, build, in_shape
from fxmorph.inductor.firing.vocabulary import Vocabulary
from fxmorph.inductor.graphs_from_code import MADE
from fxmorph.inductor.metadata import wrong_notes
from fxmorph.inductor.own.numbered import with_numbers
from fxmorph.inductor.own.own_pass import MalformedGraph, OwnPass, PassError, apply_pass
from fxmorph.inductor.own.pattern_proof import pattern_proof
from fxmorph.inductor.own.prelude import LeftOut, Prelude
from fxmorph.inductor.pair_check import graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Status
from fxmorph.programs.graph import copy_graph
from fxmorph.programs.interpreter import program
from fxmorph.prove.prover import Prover
from fxmorph.torchapi.optional_passes import lazy_module
from fxmorph.torchapi.patterns import Source

#: What stages are called.
_LEVEL = {Stage.AOT: "export"}
#: Exceptions that say that the pass does not understand a graph which it should have left alone.
_MISUNDERSTOOD = (ValueError, IndexError, TypeError, AttributeError, UnboundLocalError, KeyError, ZeroDivisionError)
#: How, and where, torch says that a module has none of the name that a made graph calls.
_MISPLACED, _MODULES = re.compile(r"has no attribute [`'](block|module_\d+)[`']"), "torch/nn/modules/module.py"
#: CPU seconds of proofs, of graphs that are made, together.
PROOF_SECONDS = 2.0

#: The share of the time for graphs in the edge dialect, where a pass names operators as torch has them, too.
EDGE_SHARE = 0.8
#: The size that takes the place of 0.
FILLED = 4
#: Other sizes at which a graph of symbolic ones is judged, and those that are tried for it.
OTHER_SIZES, MOST_SIZES = 2, 8

#: How torch says that a kernel does not take a dtype.
_NO_KERNEL = re.compile(r"not (supported|implemented) for|expected .* d?type|must be .*(float|dtype)", re.IGNORECASE)

#: Judges one graph and what the pass made of it: record, graph, result, whether to prove.
Judge = Callable[[Pair, StageGraph, Applied, bool], Pair]


@dataclass
class MadeGraphs:
    """The graphs that are made for one pass, judged.

    ``stages`` are those at whose level they are made, on ``device``; ``prelude`` comes before the pass; ``symbolic``:
    sizes are to be symbols, too, which they are anyway where the pass knows such.  ``tried`` counts them, ``fired_on``
    says how the first one was made of which it changed more than dead code, or how one that had no more; ``patterns``
    say what was shown of patterns and replacements themselves.
    """

    own: OwnPass
    judge: Judge
    words: Vocabulary
    noted: Sequence[Source]
    stages: Sequence[Stage]
    prover: Prover
    prelude: Prelude = field(default_factory=Prelude)
    device: str = "cpu"
    symbolic: bool = False
    tried: int = 0
    fired: int = 0
    fired_on: str = ""
    proved: float = 0.0
    patterns: list[str] = field(default_factory=list)
    left_out: str = ""
    _changed: bool = False
    _searches: dict[tuple[Stage, bool], FiringSearch] = field(default_factory=dict)

    def records(self, budget: Budget) -> Iterator[Pair]:
        """A record for each graph on which the pass fired, findings as they are found."""
        turns = [(stage, edge) for stage in self._ordered() or list(self.stages) for edge in self._dialects()]
        for number, (stage, self.prelude.edge) in enumerate(turns):
            if not self.prelude.edge and self.words.edge and self._changed:
                continue  # the dialect is the one that it is for
            share = EDGE_SHARE if self.prelude.edge and len(turns) - number == 2 else 1 / (len(turns) - number)
            yield from self._of_stage(stage, budget.part(share, self.tried))
        yield from self._of_pairs()

    def _dialects(self) -> tuple[bool, ...]:
        """Whether operators are those of the edge dialect: a pass that runs before it comes may name those, too."""
        return (True, False) if self.words.edge and self.words.plain else (self.prelude.edge,)

    def _of_pairs(self) -> Iterator[Pair]:
        """What is shown of patterns and replacements themselves; sizes that refute one are tried on the pass."""
        end = time.process_time() + PROOF_SECONDS
        for source in self.noted:
            if time.process_time() > end:
                return
            shown = pattern_proof(source, self.prover)
            if shown is None:
                continue
            self.patterns.append(str(shown))
            for (stage, _), search in self._searches.items():
                for attempt in search.on(shown.refuting if stage is not Stage.PRE_GRAD else ()):
                    if attempt.applied is not None and (record := self._judged(attempt, stage)) is not None:
                        yield record

    def _ordered(self) -> list[Stage]:
        """Those at whose level the pass names something, torch's first where it names none of ATen's operators."""
        exported = self.own.exported and self.words.at_torch  # by names of what is called there
        at_aten = bool(self.words.operators or self.words.patterns) or exported
        rewriting = any(not source.example_inputs for source in self.noted)
        at_torch = self.words.at_torch or rewriting
        wanted = [s for s in self.stages if (at_torch if s is Stage.PRE_GRAD else at_aten) or not (at_aten or at_torch)]
        return sorted(wanted, key=lambda s: (s is Stage.PRE_GRAD) is not (at_torch and not at_aten))

    def _of_stage(self, stage: Stage, budget: Budget) -> Iterator[Pair]:
        search = FiringSearch(
            lambda built: self._applied(built, stage), self.words, self.noted, stage is not Stage.PRE_GRAD,
            not self.own.exported or stage is Stage.PRE_GRAD, device=self.device, symbolic=self._symbolic,
            prepare=lambda built: self._prepared(built, stage),
        )  # fmt: skip
        self._searches[stage, self.prelude.edge] = search
        raised: list[Attempt] = []
        held: list[Pair] = []
        fired = 0
        for attempt in search.attempts(budget):
            self.tried = sum(s.tried for s in self._searches.values())
            if attempt.error is not None:
                if self._misunderstands(attempt.error) and self._is_meant_for(attempt.built):
                    raised.append(attempt)
                continue
            fired += 1
            self.fired += 1
            assert attempt.applied is not None
            if not attempt.applied.tidied and not self._changed:
                self._changed, self.fired_on = True, attempt.built.program.made
            self.fired_on = (
                self.fired_on
                or f"{attempt.built.program.made}: nothing but dead code and how calls are written was changed"
            )
            record = self._judged(attempt, stage)
            if record is not None and record.kinds == (Kind.ALIAS,):
                held.append(record)  # there may be worse
            elif record is not None:
                yield record
        self.tried = sum(s.tried for s in self._searches.values())
        if fired and raised:
            yield self._of_error(raised[0], stage)
        yield from held

    @property
    def _symbolic(self) -> bool:
        return self.symbolic or self.words.symbolic

    def _is_meant_for(self, built: Built) -> bool:
        """Whether an exception tells: few programs have calls by name alone, and many passes know no symbols."""
        return not _calls_by_name_alone(built) and (built.symbols is None or self._symbolic)

    def _prepared(self, built: Built, stage: Stage) -> Built | None:
        try:
            gm = self.prelude.prepared(built.gm, stage, lambda: built.inputs().rebuild())
        except LeftOut as why:
            self.left_out = self.left_out or str(why)
            return None
        return built if gm is built.gm else replace(built, gm=gm)

    def _applied(self, built: Built, stage: Stage) -> Applied:
        return apply_pass(self.own, _of_its_own(built.gm), stage, lambda: built.inputs().rebuild())

    def _judged(self, attempt: Attempt, stage: Stage) -> Pair | None:
        graph = StageGraph(stage, MADE, attempt.built.gm, attempt.built.inputs())
        assert attempt.applied is not None
        prove = not attempt.near and self.proved < PROOF_SECONDS
        began = time.process_time()
        record = replace(self._record(attempt.built, stage, graph), tidied=attempt.applied.tidied)
        record = self._at_all_sizes(record, graph, attempt, prove)
        self.proved += time.process_time() - began if prove else 0.0
        if record.status is Status.UNSUPPORTED and (attempt.near or attempt.built.symbols is not None):
            return None  # it does not run
        raises = record.kinds == (Kind.RAISES,)
        if raises and not self._is_meant_for(attempt.built):
            return None
        if raises and attempt.near and (_NO_KERNEL.search(record.reason) or not _runs_with_elements(attempt.built)):
            return None  # of a dtype that nobody means
        if record.status is not Status.FINDING and (edited := _edited_notes(attempt.built.gm, attempt.applied.after)):
            return replace(record, status=Status.FINDING, kinds=(Kind.DTYPE,), reason=edited)
        return record

    def _at_all_sizes(self, record: Pair, graph: StageGraph, attempt: Attempt, prove: bool) -> Pair:
        """The verdict at the sizes that were traced; where they are symbols and nothing is found, that at others."""
        symbols, applied = attempt.built.symbols, attempt.applied
        assert applied is not None
        if symbols is None:
            return self.judge(record, graph, applied, prove)
        first = self.judge(record, graph, _with_numbers(applied, symbols.traced), prove)
        if first.status in (Status.FINDING, Status.UNSUPPORTED):
            return first
        ran = 0
        for inputs, numbers in itertools.islice(attempt.built.elsewhere(), MOST_SIZES):
            again = self.judge(record, replace(graph, inputs=inputs), _with_numbers(applied, numbers), False)
            if again.status is Status.FINDING:
                return replace(again, reason=f"at other sizes than it was traced with: {again.reason}")
            ran += again.status is not Status.UNSUPPORTED
            if ran >= OTHER_SIZES:
                break
        return first

    def _record(self, built: Built, stage: Stage, graph: StageGraph) -> Pair:
        nodes = len(built.gm.graph.nodes)
        label = f"{MADE}: {built.program.made}"
        key, level = graph_key(graph), _LEVEL.get(stage, stage.value)
        return Pair(self.own.name, label, MADE, key, 0, Status.CLEAN, fired=True, nodes=nodes, stage=level)

    def _misunderstands(self, error: Exception) -> bool:
        """Whether an exception accuses the pass: it comes out of its own code, and is none that refuses."""
        if isinstance(error, MalformedGraph):
            return True
        if not isinstance(error, _MISUNDERSTOOD) or isinstance(error, PassError):
            return False
        if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
            return False  # a note of nodes that these graphs do not have
        frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        if _MISPLACED.search(str(error)):  # it looks in the wrong place for a module that is called
            frames = [f for f in frames if not f.endswith(_MODULES)]
        return bool(frames) and frames[-1] in self.words.files

    def _of_error(self, attempt: Attempt, stage: Stage) -> Pair:
        graph = StageGraph(stage, MADE, attempt.built.gm, attempt.built.inputs())
        record = self._record(attempt.built, stage, graph)
        assert attempt.error is not None
        reason = f"the pass raises {said(attempt.error, 300)}"
        changes = tuple(f"     {line.strip()}" for line in str(attempt.built.gm.graph).splitlines()[1:])
        return replace(record, status=Status.FINDING, kinds=(Kind.RAISES,), reason=reason, changes=changes)

    @property
    def has_changed_what_it_names(self) -> bool:
        """Whether it has changed more than dead code, or has to do with nothing else."""
        return self._changed or (bool(self.fired) and not self.words.targets)

    def why_not(self) -> str:
        """What was tried of a pass that fired on nothing, and what it asks that was never so."""
        names = [str(t).removeprefix("OpOverload") for t in self.words.targets]
        shown = ", ".join(_short(t) for t in self.words.targets[:6]) + (", ..." if len(names) > 6 else "")
        about = f"of {shown}" if shown else "of what every program calls: the pass names no operators"
        places = {place for search in self._searches.values() for place in search.places}
        condition = unmet(places) if places else ""
        errors = [text for search in self._searches.values() for text in search.errors]
        tail = f"; never met: {condition}" if condition else ""
        left_out = f"; left out: {self.left_out}" if self.left_out else ""
        return f"{self.tried} graphs {about}{tail}{left_out}" + (f"; it raised {errors[0]}" if errors else "")


def _with_numbers(applied: Applied, numbers: Mapping[Any, int]) -> Applied:
    return replace(applied, after=with_numbers(applied.after, numbers))


def _calls_by_name_alone(built: Built) -> bool:
    """Whether a call has no argument by its place: few programs are written so, and a pass that raises then tells."""
    return any(step.op == "call_function" and step.kwargs and not step.args for step in built.program.steps)


def _runs_with_elements(built: Built) -> bool:
    """Whether what has inputs without elements runs with some: kernels refuse less of nothing."""
    empty = [0 in spec.shape for spec in built.program.inputs]
    if not any(empty):
        return True
    inputs = (
        in_shape(s, [n or FILLED for n in s.shape]) if none else s
        for s, none in zip(built.program.inputs, empty, strict=True)
    )
    try:
        filled = build(replace(built.program, inputs=tuple(inputs)), built.device)
        program(filled.gm)(*filled.inputs().rebuild())
        return True
    except Exception:  # whatever it refuses
        return False


def _of_its_own(gm: fx.GraphModule) -> fx.GraphModule:
    """With copies of modules and parameters: a pass may change them in place."""
    if not any(node.op in ("call_module", "get_attr") for node in gm.graph.nodes):
        return gm
    root = torch.nn.Module()
    for name, child in gm.named_children():
        root.add_module(name, copy.deepcopy(child))
    for name, value in gm.named_buffers(recurse=False):
        root.register_buffer(name, value.clone())
    for name, parameter in gm.named_parameters(recurse=False):
        root.register_parameter(name, torch.nn.Parameter(parameter.detach().clone(), parameter.requires_grad))
    return lazy_module(root, copy_graph(gm.graph))  # type: ignore[arg-type]


def _short(target: object) -> str:
    return str(target) if isinstance(target, str) else getattr(target, "__name__", str(target)) or str(target)


def _edited_notes(before: fx.GraphModule, after: fx.GraphModule) -> str:
    """A node that both graphs have whose note was edited while its result stayed: one dictionary for two nodes."""
    old = {node.name: node for node in before.graph.nodes}
    for wrong in wrong_notes(after):
        node = old.get(wrong.node)
        new = next((n for n in after.graph.nodes if n.name == wrong.node), None)
        if node is None or new is None or wrong.kind is Kind.STRIDE or str(node.target) != str(new.target):
            continue
        noted = node.meta.get("val")
        real = str(getattr(noted, "dtype", "")) if wrong.kind is Kind.DTYPE else str(tuple(getattr(noted, "shape", ())))
        if real == wrong.real and real != wrong.noted:
            return f"{wrong}: the pass edited the note of a node that it left alone"
    return ""
