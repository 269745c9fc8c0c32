"""A pass of the user's on the graphs of one program: did it fire, is it right, can that be proved?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from fxmorph.core.said import said
from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied
from fxmorph.inductor.firing.budget import Budget
from fxmorph.inductor.firing.vocabulary import Vocabulary, home_of, vocabulary
from fxmorph.inductor.graphs_from_code import MADE
from fxmorph.inductor.own.graph_source import EXPORTED, GraphSource, seed_graphs
from fxmorph.inductor.own.guilty_step import guilty_step
from fxmorph.inductor.own.made_verdicts import MadeGraphs
from fxmorph.inductor.own.own_pass import OwnPass, PassError, apply_pass
from fxmorph.inductor.own.pair_judge import PairJudge
from fxmorph.inductor.own.pass_stage import IN_TURN, PassStage
from fxmorph.inductor.own.prelude import LeftOut, Prelude
from fxmorph.inductor.own.runs_here import require_runs
from fxmorph.inductor.pair_check import graph_key
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.stages import StageGraph
from fxmorph.model import Kind, Seed, Status
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.load import load_seed
from fxmorph.torchapi.patterns import Source


@dataclass
class Checker:
    """Checks one pass on many programs; graphs that were met before are left out.

    ``source`` says which graphs, ``prelude`` what becomes of them first, ``noted`` what replacements the pass
    registered when it was loaded.
    """

    own: OwnPass
    judge: PairJudge
    source: GraphSource = field(default_factory=GraphSource)
    noted: Sequence[Source] = ()
    prelude: Prelude = field(default_factory=Prelude)
    made: MadeGraphs | None = None
    words: Vocabulary = field(init=False)
    _met: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.words = vocabulary(self.own.origin, home_of(self.own.origin))
        self.prelude.edge = self.prelude.edge or self.words.edge
        named = self.words.exported or self.words.edge
        exported = self.own.exported or named or self.source.stage in EXPORTED
        self.own = replace(self.own, exported=exported)
        require_runs(self.own, self.prelude)
        self.prelude.left_out = 0

    def made_graphs(self, budget: Budget) -> Iterator[Pair]:
        """One record for each graph that is made from the pass, and that it changes; :attr:`made` counts the rest."""
        stages = self.source.made_stages(self.own.exported)
        self.made = MadeGraphs(
            self.own, self._judged, self.words, self.noted, stages, self.judge.prover, self.prelude, self.source.device,
            self.source.dynamic,
        )  # fmt: skip
        yield from self.made.records(budget)

    def check(self, seed: Seed, training: bool, stage: str = "") -> list[Pair]:
        """One record for each new graph of a program, of ``stage`` or that of the source.

        A program that gives no graph has one record, UNSUPPORTED, of part ``""``.  Raises ``SeedFailed``, and
        :class:`PassError` where the pass turns out to be none.
        """
        source = replace(self.source, stage=self._in_turn(stage) if stage else self.source.stage)
        if self.source.stage == PassStage.ANY and not self._may_take(source.seed_stage):
            return []
        loaded = load_seed(seed, self.source.device)
        try:
            graphs = seed_graphs(loaded, source, training)
        except CaptureFailed as error:
            return [Pair(self.own.name, seed.label, "", "", 0, Status.UNSUPPORTED, reason=str(error), fired=False)]
        records = []
        for graph in graphs:
            key = graph_key(graph)
            if key not in self._met:
                self._met.add(key)
                record = Pair(
                    self.own.name, seed.label, graph.part, key, 0, Status.CLEAN, fired=False,
                    nodes=len(graph.gm.graph.nodes), stage=source.seed_stage.value,
                )  # fmt: skip
                records.append(self._one(record, graph))
        return records

    def _may_take(self, stage: PassStage) -> bool:
        """Whether graphs of a stage are any for a pass of which nobody says at which it runs."""
        if self.words.exported:
            return stage in EXPORTED
        return stage is not PassStage.PRE_GRAD or self.words.at_torch or bool(self.noted) or not self.words.operators

    def _in_turn(self, stage: str) -> str:
        """The stage that comes in the place of one: what is exported is first for passes that are made for it."""
        first, exported = IN_TURN[0], PassStage.EXPORT
        if self.source.stage != PassStage.ANY or not self.own.exported:
            return stage
        return {first: exported, exported: first}.get(PassStage(stage), stage)

    def _one(self, record: Pair, graph: StageGraph) -> Pair:
        inputs = graph.inputs
        given = inputs.rebuild if inputs is not None else tuple
        inference = graph.part not in ("joint", "forward", "backward")
        try:
            graph = replace(graph, gm=self.prelude.prepared(graph.gm, graph.stage, given, inference))
            applied = apply_pass(self.own, graph.gm, graph.stage, given, inference)
        except LeftOut as why:
            return replace(record, status=Status.SKIPPED, reason=str(why))
        except PassError:
            raise  # what is no pass is not a wrong one
        except NotImplementedError as error:
            return replace(record, status=Status.UNSUPPORTED, reason=f"the pass refuses: {error}")
        except Exception as error:
            reason = f"the pass raises {said(error, 300)}"
            return replace(record, fired=True, status=Status.FINDING, kinds=(Kind.RAISES,), reason=reason)
        if not applied.fired:
            return record
        record = replace(record, tidied=applied.tidied)
        if inputs is None:
            return replace(record, fired=True, status=Status.SKIPPED, reason="the graph ran on nothing that is known")
        return self._judged(record, graph, applied, True)

    def _judged(self, record: Pair, graph: StageGraph, applied: Applied, prove: bool) -> Pair:
        """A pass for exported graphs is not asked for memory that is shared, nor for notes that its caller renews."""
        made, exported = graph.part == MADE, self.own.exported
        return self.judge.judged(
            record, graph, applied.after, prove=prove,
            aliases=not exported if made else graph.stage is not Stage.PRE_GRAD,
            notes=not made or (graph.stage is not Stage.PRE_GRAD and not exported),
            guilty_step=lambda expanded, values: guilty_step(self.own, expanded, values),
        )  # fmt: skip
