"""Reduction of what one unit of Inductor does alone to a graph: some milliseconds a candidate."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from torch import fx

from fxmorph.inductor.replaying import export_program, judge_alone, read_program
from fxmorph.model import CompileConfig, Kind, Status, ValuePlan
from fxmorph.programs.graph import copy_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.triage.identity import kind_group
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.sequence import DETAIL, STRUCTURE


@dataclass(frozen=True)
class ReducedAlone:
    """Calls before and after, judged candidates, and whether it went as far as it goes."""

    before: int
    nodes: int
    tests: int
    finished: bool


def reduce_alone(folder: Path, unit: str, kinds: Collection[Kind], seconds: float) -> ReducedAlone:
    """Make the seed in ``folder`` smaller while ``unit`` alone changes its meaning in a kind of the same group.

    The unit is the guilty one by construction.  Raises ``ValueError`` where the seed shows nothing any more,
    ``OSError``, and what the unit raises on the seed as it is.
    """

    def shows(program: Candidate) -> bool:
        judged = judge_alone(copy_graph(program.graph), program.inputs.rebuild(), unit)
        if judged is None or judged[1].status is not Status.FINDING:
            return False
        return kind_group(judged[1].kinds) == kind_group(kinds)

    graph, inputs = read_program(folder)
    start = Candidate(graph, InputSet.snapshot(inputs), CompileConfig.make(), no_grad=True)
    if not shows(start):
        raise ValueError(f"{unit} does not change the meaning of {folder / 'seed.py'} any more")
    search = Reduction(start, shows, lambda _: True, seconds)
    best = search.run((*STRUCTURE, *DETAIL))
    judged = judge_alone(copy_graph(best.graph), best.inputs.rebuild(), unit)
    assert judged is not None
    title = f"What {unit} was given, reduced: {', '.join(judged[1].kinds)}: {judged[1].reason}"
    gm = fx.GraphModule({}, copy_graph(best.graph))
    plan = judged[1].plan or ValuePlan.SEED
    settings = _settings_of(folder)
    # The values on which it shows are written as the seed's own.
    export_program(folder, title, gm, judged[0], best.inputs, plan, settings)
    return ReducedAlone(start.nodes, best.nodes, search.tests, not search.spent)


def _settings_of(folder: Path) -> dict[str, object]:
    """Settings of Inductor's that the seed's META asks for."""
    import ast

    for statement in ast.parse((folder / "seed.py").read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "META":
            settings: dict[str, object] = ast.literal_eval(statement.value).get("config", {})
            return settings
    return {}
