"""Units and stages in the words of PyTorch's own issues, and which of its logs show them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fxmorph.core.finding_parts import NOBODY
from fxmorph.core.units import Stage
from fxmorph.model import Finding

#: What begins a title, by the first backend that goes wrong.
_PREFIX: Mapping[str, str] = {
    "dynamo": "dynamo", "aot": "aot_autograd", "partitioner": "aot_autograd", "decomposition": "decomp",
}  # fmt: skip
_PASS_STAGES: Mapping[str, str] = {
    "pre_grad": "pre-grad passes",
    "joint": "joint graph passes",
    "freezing": "freezing passes",
    "post_grad": "post-grad passes",
}
#: What TORCH_LOGS should name to see what a stage does.
_LOGS: Mapping[Stage, str] = {
    Stage.DYNAMO: "graph_code,guards,recompiles",
    Stage.PRE_GRAD: "graph_code,pre_grad_graphs",
    Stage.DECOMPOSITION: "aot_joint_graph,aot_graphs",
    Stage.AOT: "aot_joint_graph,aot_graphs",
    Stage.FUNCTIONALIZATION: "aot,aot_joint_graph,aot_graphs",
    Stage.RUNTIME_WRAPPERS: "aot,aot_graphs",
    Stage.PARTITIONER: "aot_joint_graph,aot_graphs",
    Stage.JOINT: "aot_joint_graph,aot_graphs",
    Stage.FREEZING: "aot_graphs,post_grad_graphs",
    Stage.POST_GRAD: "aot_graphs,post_grad_graphs",
    Stage.LOWERING: "post_grad_graphs,ir_pre_fusion,output_code",
    Stage.SCHEDULER: "ir_pre_fusion,ir_post_fusion,fusion,output_code",
    Stage.CODEGEN: "ir_post_fusion,output_code",
}
_MODULE: Mapping[str, str] = {
    "dynamo": "module: dynamo",
    "aot": "module: aotdispatch",
    "partitioner": "module: aotdispatch",
    "decomposition": "module: decompositions",
}
_OF_AOT: Mapping[str, str] = {
    "aot": "AOTAutograd",
    "functionalization": "functionalization",
    "runtime_wrappers": "AOTAutograd's runtime",
    "partitioner": "the partitioner",
}
#: In which language kernels are, by how the name of their class begins; longer beginnings first.
_LANGUAGES: Mapping[str, str] = {"CppVec": "vectorised C++", "Cpp": "C++", "Triton": "Triton"}
_OVERLOAD = re.compile(r"\.default$")


def prefix(finding: Finding) -> str:
    """``[inductor]`` and so on."""
    return f"[{_PREFIX.get(_place(finding), 'inductor')}]"


def module_label(finding: Finding) -> str:
    return _MODULE.get(_place(finding), "module: inductor")


def _place(finding: Finding) -> str:
    """The first backend that goes wrong; of a decomposition it says where that is taken apart, which is no matter."""
    decomposed = finding.unit.startswith(f"{Stage.DECOMPOSITION}.") and (finding.blame or NOBODY).confirmed
    return str(Stage.DECOMPOSITION) if decomposed else finding.stage


def logs(finding: Finding) -> str:
    """What to give as TORCH_LOGS."""
    stage = (finding.blame or NOBODY).stage
    return _LOGS[stage] if stage else "aot_graphs,post_grad_graphs,output_code"


def pass_name(unit: str) -> str:
    """The name of the pass or pattern over graphs, "" where the unit is none."""
    stage, _, name = unit.partition(".")
    entry = name.rpartition("/")[2]
    return entry if stage in _PASS_STAGES and entry.isidentifier() else ""


def done_without(unit: str) -> str:
    """How the unit is done without: some parts have no switch, and what they do is done in a plain way instead."""
    stage, _, name = unit.partition(".")
    plain = stage in ("functionalization", "runtime_wrappers") or (stage == "codegen" and not name.startswith("CppVec"))
    return "replaced by a plain version" if plain else "switched off"


def unit_in_words(unit: str) -> str:
    """The unit as PyTorch's engineers call it."""
    stage, _, name = unit.partition(".")
    within, _, entry = name.partition("/")
    if stage in _PASS_STAGES:
        where = _PASS_STAGES[stage]
        if not name:
            return f"the {where}"
        if entry and "pattern" not in within:  # a function that a pass calls
            return f"`{entry}` of `{within}` ({where})"
        return f"the pattern `{entry}` ({where})" if entry else f"`{within}` ({where})"
    if stage in ("decomposition", "lowering"):
        if name.startswith(("aten.", "prims.")):
            return f"the {stage} of `{_OVERLOAD.sub('', name)}`"
        return f"the setting `{name}`" if stage == "lowering" else f"the decomposition `{name}`"
    if stage == "codegen":
        kernel, _, operation = name.partition(".")
        language = next((words for start, words in _LANGUAGES.items() if kernel.startswith(start)), "")
        if language and kernel.endswith(("Kernel", "Overrides")):
            return f"{language} code" + (f" of `{operation}`" if operation else "")
        return f"`{name.replace('/', '.')}` (code generation)"
    if stage == "scheduler":
        return f"the scheduler (`{name}`)" if name else "the scheduler"
    if stage in _OF_AOT:
        where = _OF_AOT[stage]
        return f"{where} (`{name}`)" if name else where
    return f"`{unit}`"
