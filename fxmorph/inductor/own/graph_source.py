"""Which graphs a pass of the user's is given: those of a stage of programs, and at which levels they are made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.own.pass_stage import PassStage
from fxmorph.inductor.stages import StageGraph, aten_graphs, stage_graphs
from fxmorph.model import CompileConfig
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.load import LoadedSeed
from fxmorph.torchapi.compiling import compile_modes, configured
from fxmorph.torchapi.edge_dialect import core_aten, without_views
from fxmorph.torchapi.stage_graphs import run_post_grad_passes

#: What no stage of Inductor follows.
EXPORTED = (PassStage.EXPORT, PassStage.EDGE)


@dataclass(frozen=True)
class GraphSource:
    """``stage`` is a :class:`~fxmorph.inductor.own.pass_stage.PassStage`; ``inductor`` are settings of Inductor,
    ``compile`` arguments of ``torch.compile``; programs run on ``device``.
    """

    stage: str = PassStage.ANY
    dynamic: bool = False
    inductor: tuple[tuple[str, object], ...] = ()
    compile: tuple[tuple[str, object], ...] = ()
    device: str = "cpu"

    @property
    def seed_stage(self) -> PassStage:
        """Whose graphs of a seed's program are taken."""
        return PassStage(self.stage) if self.stage != PassStage.ANY else PassStage.POST_GRAD

    def made_stages(self, exported: bool) -> Sequence[Stage]:
        """The stages whose graphs are made; AOT, where nothing renews notes, for what is exported."""
        aten = Stage.AOT if exported or self.stage in EXPORTED else Stage.POST_GRAD
        match self.stage:
            case PassStage.ANY:
                return (aten, Stage.PRE_GRAD)
            case PassStage.PRE_GRAD:
                return (Stage.PRE_GRAD,)
            case PassStage.JOINT:
                return (Stage.JOINT,)
        return (aten,)


def seed_graphs(loaded: LoadedSeed, source: GraphSource, training: bool) -> list[StageGraph]:
    """The graphs of a seed's own program that a stage takes; raises :class:`CaptureFailed`.

    What the seed's META asks of Inductor and of ``torch.compile`` holds for them.
    """
    options, settings = dict(source.compile), dict(source.inductor)
    if mode := options.pop("mode", ""):
        settings = {**compile_modes()[str(mode)], **settings}
    config = loaded.config(CompileConfig.make("inductor", options, settings, {}))
    stage = source.seed_stage
    dynamic = source.dynamic or bool(dict(config.options).get("dynamic"))
    if training and (loaded.no_grad or stage in (PassStage.FREEZING, *EXPORTED)):
        raise CaptureFailed("the seed runs without gradients" if loaded.no_grad else f"{stage} is for inference")
    made = loaded.fresh()
    with configured(CompileConfig.make("inductor", {}, dict(config.inductor), dict(config.dynamo))):
        if stage in EXPORTED:
            edge = stage is PassStage.EDGE
            table = core_aten() if edge else {}
            found = aten_graphs(made.fn, dynamic=dynamic, drive=made.drive, decompositions=table)
            return [replace(g, gm=_without_views(g.gm)) for g in found] if edge else found
        freezing = stage is PassStage.FREEZING
        found = stage_graphs(made.fn, (), training, dynamic, freezing, made.drive, prepared=False)
        wanted = {PassStage.POST_GRAD_AFTER: "post_grad"}.get(stage, stage.value)
        graphs = [g for g in found if g.stage.value == wanted]
        if stage is PassStage.POST_GRAD_AFTER:
            graphs = [StageGraph(g.stage, f"{g.part} (after)", _simplified(g), g.inputs) for g in graphs]
    return graphs


def _without_views(gm: fx.GraphModule) -> fx.GraphModule:
    try:
        return without_views(gm)
    except Exception as error:
        raise CaptureFailed(f"views cannot be replaced: {type(error).__name__}: {error}") from error


def _simplified(graph: StageGraph) -> fx.GraphModule:
    after = clone_module(graph.gm)
    try:
        run_post_grad_passes(after, graph.part not in ("forward", "backward"))
        return after
    except Exception as error:
        raise CaptureFailed(f"Inductor's own passes raise {type(error).__name__}: {error}") from error
