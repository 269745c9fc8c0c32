"""How a person leaves out one of Inductor's passes, in this release."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from torch._ops import OpOverload

#: Subsystems of ``torch._inductor.compiler_bisector``, by stage.
_SUBSYSTEMS = {
    "pre_grad": "pre_grad_passes",
    "joint": "joint_graph_passes",
    "post_grad": "post_grad_passes",
    "lowering": "lowerings",
    "decomposition": "decomposition",
}


def stage_of_subsystem(subsystem: str) -> str:
    """The stage that PyTorch's observers and bisector call ``subsystem``; "" where it is none."""
    return next((stage for stage, name in _SUBSYSTEMS.items() if name == subsystem), "")


def disabling_variable(name: str) -> str:
    """The environment variable that leaves out the observed pass ``name``; "" where this torch has none."""
    import torch._inductor.config as config

    return f"TORCHINDUCTOR_DISABLED_PASSES={name}" if hasattr(config, "disabled_passes") else ""


def bisecting_call(stage: str) -> str:
    """Environment that has the bisector apply only the first N units of a stage; "" where it cannot."""
    try:
        from torch._inductor.compiler_bisector import BACKENDS
    except ImportError:
        return ""
    wanted = _SUBSYSTEMS.get(stage)
    for backend, subsystems in BACKENDS.items():
        if any(subsystem.name == wanted for subsystem in subsystems):
            return f"TORCH_BISECT_BACKEND={backend} TORCH_BISECT_SUBSYSTEM={wanted} TORCH_BISECT_MAX=N"
    return ""


def removing_statements(entry: Any) -> list[str]:
    """Python that takes a pattern entry out of its pass after ``lazy_init``, the last of a list first."""
    for module_name, module in sorted(sys.modules.items()):
        if module_name.startswith("torch._inductor.fx_passes."):
            for path, owner in _pattern_passes(module):
                places = [
                    (operation, target, index)
                    for (operation, target), group in owner.patterns.items()
                    for index, each in reversed(list(enumerate(group)))
                    if each is entry
                ]
                if places:
                    where = f"{module_name}.{path}.patterns"
                    return [f"del {where}[{op!r}, {spelled(target)}][{index}]" for op, target, index in places]
    return []


def _pattern_passes(module: Any) -> Iterator[tuple[str, Any]]:
    from torch._inductor.pattern_matcher import PatternMatcherPass

    for name, value in list(vars(module).items()):
        members: Iterable[tuple[str, Any]] = [(name, value)]
        if isinstance(value, (list, tuple)):
            members = [(f"{name}[{i}]", v) for i, v in enumerate(value)]
        elif isinstance(value, dict):
            members = [(f"{name}[{k!r}]", v) for k, v in value.items()]
        yield from ((path, member) for path, member in members if isinstance(member, PatternMatcherPass))


def spelled(target: Any) -> str:
    """A call target as Python text."""
    if isinstance(target, OpOverload):
        return f"torch.ops.{target}"
    if isinstance(target, str) or not hasattr(target, "__name__"):
        return repr(target)
    return f"{target.__module__ or 'torch'}.{target.__name__}"


def pattern_text(entry: Any) -> str:
    """A pattern as the matcher holds it, in the notation of its constructors."""
    from torch._inductor.pattern_matcher import PatternPrettyPrinter

    try:
        return str(PatternPrettyPrinter.run(entry.pattern))
    except Exception:  # the printer does not cover every pattern
        return repr(entry.pattern)
