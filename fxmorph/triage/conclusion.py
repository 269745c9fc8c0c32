"""What an investigation finds out."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fxmorph.core.exhibit import Exhibit
from fxmorph.core.finding_parts import Blame, Skeleton
from fxmorph.core.units import Stage
from fxmorph.model import CaseResult, Kind, Status, Verdict

#: Stages that a backend before Inductor shows, as the ladder calls them.
_BACKENDS = {
    Stage.DYNAMO: "dynamo",
    Stage.AOT: "aot",
    Stage.FUNCTIONALIZATION: "aot",
    Stage.RUNTIME_WRAPPERS: "aot",
    Stage.PARTITIONER: "partitioner",
    Stage.DECOMPOSITION: "decomposition",
}


@dataclass(frozen=True)
class Investigated:
    """What the parent writes down.

    ``operations`` and ``skeleton`` are those of the reduced graph; ``group`` is the case's by
    :func:`fxmorph.triage.identity.group_of`, "" where nothing is blamed.  ``rung`` is where it was reduced;
    ``finished``: it went as far as it goes.
    """

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
    skeleton: Skeleton = ()
    signature: str = ""
    group: str = ""
    rung: str = ""
    finished: bool = True
    exhibit: Exhibit | None = None

    @classmethod
    def of_result(cls, result: CaseResult) -> Investigated:
        """What the judgement of a case says, where no program was made of it."""
        evidence = evidence_of(result.verdicts) or (result.reason,)
        return cls(
            result.case_id, "", result.kinds, None, result.recipe, (), (), result.case_id, evidence, 0, 0, {}, {},
            finished=False,
        )  # fmt: skip

    @property
    def unit(self) -> str:
        """Name of the guilty unit; "" where none is known."""
        return self.blame.unit if self.blame is not None else ""

    def stage(self, shown: str) -> str:
        """Stage of the first backend that differs, as ``shown`` says; that of the guilty unit where Dynamo is innocent.

        Random numbers of a checkpointed region are drawn anew where AOTAutograd does not see to them.
        """
        if shown != Stage.DYNAMO or self.blame is None or not self.blame.confirmed or not self.blame.stage:
            return shown
        return _BACKENDS.get(self.blame.stage, "inductor")


def evidence_of(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    return tuple(f"{v.kind} of {v.slot}: {v.reason}" for v in verdicts if v.status is Status.FINDING)[:6]


#: What a seed file says of itself.
_ABOUT_THE_SEED = ("META", "ORIGIN", "EXPECTED", "BROKEN_IN")


def made_by(name: str, mode: str) -> str:
    """Lines that make the class or factory ``name`` of a module its ``make_fn``, in ``mode`` (train, eval or "")."""
    return f"""

def make_fn():
    made = {name}()
    return made.train({mode == "train"}) if isinstance(made, torch.nn.Module) else made


make_inputs = getattr({name}, "make_inputs", None) or make_inputs
"""


def without_tail(source: str) -> str:
    """A seed's source without docstring, META and ``if __name__`` block."""
    tree = ast.parse(source)
    body = [
        s
        for s in tree.body
        if not isinstance(s, (ast.If, ast.Expr))
        and not (isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") in _ABOUT_THE_SEED)
    ]
    return ast.unparse(ast.Module(body, []))


def without_function(source: str, name: str) -> str:
    """The source without the function of that name, which is defined anew; as it is where something of it calls it."""
    tree = ast.parse(source)
    if any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree)):
        return source
    body = [s for s in tree.body if not (isinstance(s, ast.FunctionDef) and s.name == name)]
    return ast.unparse(ast.Module(body, []))
