"""The part of the compiler that an exception was raised in, where nothing else says whom to blame."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.triage.blame.culprit import redo_of

#: Stages by what a file's place below torch's folder begins with; what drives all of a compile is of none.
_STAGES: tuple[tuple[str, Stage], ...] = (
    ("_functorch/partitioners.py", Stage.PARTITIONER),
    ("_functorch/_aot_autograd/functional_utils.py", Stage.FUNCTIONALIZATION),
    ("_functorch/_aot_autograd/collect_metadata_analysis.py", Stage.FUNCTIONALIZATION),
    ("_functorch/_aot_autograd/graph_capture_wrappers.py", Stage.FUNCTIONALIZATION),
    ("_functorch/_aot_autograd/input_output_analysis.py", Stage.FUNCTIONALIZATION),
    ("_subclasses/functional_tensor.py", Stage.FUNCTIONALIZATION),
    ("_inductor/decomposition.py", Stage.DECOMPOSITION),
    ("_decomp/", Stage.DECOMPOSITION),
    ("_refs/", Stage.DECOMPOSITION),
    ("_inductor/fx_passes/joint_graph.py", Stage.JOINT),
    ("_inductor/fx_passes/post_grad.py", Stage.POST_GRAD),
    ("_inductor/fx_passes/reinplace.py", Stage.POST_GRAD),
    ("_inductor/fx_passes/pre_grad.py", Stage.PRE_GRAD),
    ("_inductor/lowering.py", Stage.LOWERING),
    ("_inductor/ir.py", Stage.LOWERING),
    ("_inductor/kernel/", Stage.LOWERING),
    ("_inductor/scheduler.py", Stage.SCHEDULER),
    ("_inductor/dependencies.py", Stage.SCHEDULER),
    ("_inductor/codegen/", Stage.CODEGEN),
)

#: How generated code says of what an operator of eager returned that it is laid out otherwise.
_LAID_OUT_OTHERWISE = re.compile(r"expected size .*Error in op: torch\.ops\.([\w.]*\w)", re.DOTALL)


def fake_kernel_named(said: str) -> Blame | None:
    """The fake kernel that generated code complains of: it said another layout than the operator's own kernel gives."""
    named = _LAID_OUT_OTHERWISE.search(said)
    if named is None:
        return None
    return fake_kernel(named[1], f"generated code finds another layout than the fake kernel of {named[1]} says")


def fake_kernel(operator: str, *evidence: str) -> Blame:
    """The fake kernel of an overload, not confirmed."""
    unit = f"{Stage.AOT}.fake.{operator}"
    return Blame(Stage.AOT, unit, False, evidence, redo_of(Stage.AOT, unit))


def raised_in(frames: Sequence[tuple[str, str]]) -> Blame | None:
    """Not confirmed: what raises may only be the first to see that something is wrong."""
    for file, name in reversed(frames):
        stage = next((stage for start, stage in _STAGES if file.startswith(start)), None)
        if stage is not None:
            unit = f"{stage}.{name.partition('.<locals>')[0]}"
            said = f"raised in {name}, torch/{file}; no part that can be switched off explains it"
            return Blame(stage, unit, False, (said,), redo_of(stage, unit))
    return None
