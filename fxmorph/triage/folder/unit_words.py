"""Units and stages in the words of PyTorch's own issues, and which of its logs show them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fxmorph.core.finding_parts import NOBODY
from fxmorph.core.units import CXX, UNVECTORISED, Stage
from fxmorph.model import Finding, Kind

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
_PARTS: Mapping[str, str] = {
    "aot": "AOTAutograd",
    "functionalization": "functionalization",
    "runtime_wrappers": "AOTAutograd's runtime",
    "partitioner": "the partitioner",
    "scheduler": "the scheduler",
}
#: Units that have to do with attention.
_ATTENTION = re.compile(r"_sfdp_|scaled_dot_product|attention")
#: Labels that say what is seen, by kind.
_SEEN: Mapping[Kind, str] = {
    Kind.CRASH: "module: crash",
    Kind.NONFINITE: "module: NaNs and Infs",
}
#: In which language kernels are, by how the name of their class begins; longer beginnings first.
_LANGUAGES: Mapping[str, str] = {"CppVec": "vectorised C++", "Cpp": "C++", "Triton": "Triton"}
#: The setting that is off by default.
_SWITCHED_ON = "lowering.emulate_precision_casts"
_OVERLOAD = re.compile(r"\.default$")


def prefix(finding: Finding) -> str:
    """``[inductor]`` and so on."""
    return f"[{_PREFIX.get(_place(finding), 'inductor')}]"


def labels(finding: Finding) -> list[str]:
    """Labels of PyTorch's repository that fit: who looks after it, which part of the compiler, what is seen."""
    place = _place(finding)
    found = ["oncall: pt2", _MODULE.get(place, "module: inductor")]
    if finding.unit.startswith(f"{Stage.FUNCTIONALIZATION}."):
        found.append("module: functionalization")
    if finding.unit.startswith(f"{Stage.CODEGEN}.Cpp"):
        found.append("oncall: cpu inductor")
    if _ATTENTION.search(finding.unit):
        found.append("module: sdpa")
    if (finding.config.get("compile") or {}).get("dynamic") or finding.config.get("sizes"):
        found.append("module: dynamic shapes")
    return [*found, *(label for kind, label in _SEEN.items() if kind in finding.kinds)]


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


def where_to_look(finding: Finding) -> Iterator[str]:
    """A line on the functions that do the unit's work, where they are known."""
    if finding.units[1:]:
        yield f"- Functions of torch that do its work: {', '.join(f'`{name}`' for name in finding.units[1:])}."


def gone_without(unit: str) -> str:
    """``gone with …``: some parts have no switch, and are done in a plain way instead."""
    stage, _, name = unit.partition(".")
    words = unit_in_words(unit)
    if stage in ("functionalization", "runtime_wrappers"):
        return f"gone with {words} replaced by a plain version"
    if stage != "codegen":
        return f"gone with {words} switched {'on' if unit == _SWITCHED_ON else 'off'}"
    if unit == CXX:
        return f"gone where the C++ compiler is given `-{UNVECTORISED}`, and where kernels are interpreted"
    kernel, _, operation = name.partition(".")
    if kernel.startswith("CppVec"):
        part = f"; of that code, `{operation}` is to blame" if operation else ""
        return f"gone with vectorised C++ code switched off{part}"
    if kernel in ("CppKernel", "TritonKernel") and not operation:
        return f"gone where the loops that {words} is generated from are interpreted instead"
    return f"gone with {words} replaced by a plain version"


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
    if unit == CXX:
        return "what the C++ compiler makes of generated code"
    if stage == "codegen":
        kernel, _, operation = name.partition(".")
        language = next((words for start, words in _LANGUAGES.items() if kernel.startswith(start)), "")
        if language and kernel.endswith(("Kernel", "Overrides")):
            return f"{language} code" + (f" of `{operation}`" if operation else "")
        return f"`{name.replace('/', '.')}` (code generation)"
    if stage in _PARTS:
        where = _PARTS[stage]
        return f"`{name.replace('/', '.')}` ({where.removeprefix('the ')})" if name else where
    return f"`{unit}`"
