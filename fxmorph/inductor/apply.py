"""One unit alone on a graph of its stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from fxmorph.core.units import Stage, Unit
from fxmorph.inductor.inventory import Decomposition, Listed, PatternPass, inventory, listed
from fxmorph.programs.graph import copy_graph
from fxmorph.torchapi.decompose import decompose_calls
from fxmorph.torchapi.graph_structure import meaning, structure
from fxmorph.torchapi.lowerings import Lowering
from fxmorph.torchapi.optional_passes import (
    Extra,
    NoopRule,
    Opted,
    as_compiling,
    configuration,
    fake_inputs,
    lazy_module,
    metadata_updater,
    propagate_shapes,
    run_extra,
    run_fusion,
    run_noop_rule,
    sort_graph,
)
from fxmorph.torchapi.patterns import Entry, apply_entries
from fxmorph.torchapi.pipelines import CannotRun, Step, run_step

__all__ = [
    "Applied",
    "CannotRun",
    "NotInEager",
    "apply_unit",
    "clone_module",
    "module_structure",
    "only_respelled",
    "only_tidied",
]

#: Passes that read ``tensor_meta``, which their pipeline computes before them.
_READ_TENSOR_META = ("linear_permute_fusion", "permute_linear_fusion", "permute_matmul_fusion")
#: Passes after the point where ``post_grad_passes`` recomputes the metadata of what changed.
_AFTER_METADATA = (
    "reinplace_inplaceable_ops",
    "fix_auto_functionalized_dtype_views",
    "decompose_triton_kernel_wrapper_functional",
    "decompose_auto_functionalized",
    "decompose_scan_to_while_loop",
    "decompose_map_to_while_loop",
)
#: Passes whose decisions about functionalised calls are notes in ``meta``, which later passes carry out.
_CARRIED_OUT_BY = {
    "post_grad.reinplace_inplaceable_ops": (
        "post_grad.fix_auto_functionalized_dtype_views",
        "post_grad.decompose_triton_kernel_wrapper_functional",
        "post_grad.decompose_auto_functionalized",
    )
}
_FUNCTIONALISED = ("auto_functionalized", "auto_functionalized_v2", "triton_kernel_wrapper_functional")


class NotInEager(Exception):
    """The unit makes Inductor's IR, which eager cannot run."""


@dataclass(frozen=True)
class Applied:
    """What a unit made of a graph.

    ``fired``: the graph has changed, or a pattern matched; ``matches`` counts matches of patterns and
    decomposed calls, and is 0 for passes that do not count.  ``tidied``: all that has changed is that dead code is
    gone, as most passes leave it, whatever they look for; of a user's pass also how arguments are written, as tracing
    anew leaves it.
    """

    after: fx.GraphModule
    fired: bool
    matches: int
    tidied: bool = False


def apply_unit(unit: Unit, gm: fx.GraphModule) -> Applied:
    """Run one unit on a clone of ``gm``, a graph of the unit's stage with that stage's metadata.

    The clone is sorted and its metadata recomputed where the pipeline would, and linted; ``gm`` is as it
    was, and is ``after`` itself where the unit cannot fire.  Of a pattern pass with lowering entries the
    others are applied; what ``reinplace_inplaceable_ops`` decides of functionalised calls is carried out.
    Raises :class:`NotInEager`, :class:`CannotRun` for what needs a running compile,
    an operator or a process group that is not there, ``UnknownUnit``, and whatever the unit itself or the
    lint raises.  Some patterns crash torch on odd shapes: run what is not known to be safe in a process of
    its own.  Run ``after`` with ``fx.Interpreter``: a pass may write what has no source text.
    """
    if not unit.eager:
        raise NotInEager(f"{unit.name} makes Inductor's IR, which eager cannot run")
    item = listed(unit.name)
    if not _may_fire(item, gm.graph):
        return Applied(gm, False, 0)
    after = clone_module(gm)
    completing = _completing(unit, gm.graph)
    before = module_structure(_carried_out(completing, clone_module(gm)) if completing else gm)
    with as_compiling(after.graph), configuration(item.settings):
        update = metadata_updater(after) if _metadata_follows(unit) else None
        result, matches = _run(item, after)
        if isinstance(item.handle, (Entry, PatternPass, Opted)):
            sort_graph(after.graph)
        _carried_out(completing, after)
        changed = isinstance(result, (fx.Graph, fx.GraphModule)) or module_structure(after) != before
        if changed and update is not None:
            update()
    if isinstance(result, fx.GraphModule):
        after = result
    elif isinstance(result, fx.Graph):
        after.graph = result
    after.graph.lint()
    after.recompile()
    fired = matches > 0 or (changed and module_structure(after) != before)
    return Applied(after, fired, matches, fired and not matches and only_tidied(gm, after))


def _completing(unit: Unit, graph: fx.Graph) -> list[Listed]:
    """The passes that carry out what this one decides, where the graph has something to decide."""
    names = _CARRIED_OUT_BY.get(unit.name, ())
    if not names or not any(getattr(node.target, "__name__", "") in _FUNCTIONALISED for node in graph.nodes):
        return []
    existing = {each.name for each in inventory()}
    return [listed(name) for name in names if name in existing]


def _carried_out(completing: Sequence[Listed], gm: fx.GraphModule) -> fx.GraphModule:
    with as_compiling(gm.graph):
        for item in completing:
            _run(item, gm)
    return gm


def _may_fire(item: Listed, graph: fx.Graph) -> bool:
    """False where the graph has none of the operators that the unit starts from."""
    match item.handle:
        case Entry() | PatternPass():
            members = [item.handle] if isinstance(item.handle, Entry) else item.handle.entries
            wanted: set[Any] = {key for member in members for key in member.keys}
            if any(op == "call_module" for op, _ in wanted):  # keyed by the class of the module
                return True
        case Decomposition():
            wanted = {("call_function", item.handle.operator)}
        case NoopRule():
            wanted = {("call_function", operator) for operator in item.handle.operators}
        case _:
            return True
    return any((node.op, node.target) in wanted for node in graph.nodes)


def _run(item: Listed, gm: fx.GraphModule) -> tuple[Any, int]:
    """(What the unit returned, matches)."""
    handle = item.handle
    match handle:
        case Entry():
            return None, apply_entries(gm.graph, [handle])
        case PatternPass():
            return None, apply_entries(gm.graph, [e for e in handle.entries if e.kind != "lowering"])
        case Decomposition():
            return None, decompose_calls(gm, handle.operator, handle.function)
        case Step():
            if handle.name in _READ_TENSOR_META:
                propagate_shapes(gm)
            return run_step(handle, gm, fake_inputs(gm.graph)), 0
        case Extra():
            return run_extra(handle, gm), 0
        case NoopRule():
            run_noop_rule(handle, gm)
            return None, 0
        case Opted():
            if handle.made_by is not None:
                run_fusion(handle, gm)
            return None, 0
        case Lowering():
            raise NotInEager(f"{item.unit.name} makes Inductor's IR, which eager cannot run")


def _metadata_follows(unit: Unit) -> bool:
    """Whether the pipeline recomputes ``meta['val']`` after the unit, which does not do so itself."""
    return unit.stage is Stage.POST_GRAD and unit.name.partition(".")[2] not in _AFTER_METADATA


def clone_module(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy whose graph and subgraphs can be edited; tensors, modules and ``meta`` values are shared."""
    made = lazy_module(gm, copy_graph(gm.graph))
    made.meta = dict(gm.meta)
    for name, child in gm.named_children():
        if isinstance(child, fx.GraphModule):
            setattr(made, name, clone_module(child))
    return made


def only_tidied(before: fx.GraphModule, after: fx.GraphModule) -> bool:
    """Whether ``after`` is ``before`` less what nothing reads and nothing notices."""
    tidy = clone_module(before)
    tidy.graph.eliminate_dead_code()
    return module_structure(after) == module_structure(tidy)


def only_respelled(before: fx.GraphModule, after: fx.GraphModule) -> bool:
    """Whether, but for what nothing reads, both make the same calls, however their arguments are written."""
    sides = [clone_module(gm) for gm in (before, after)]
    for side in sides:
        side.graph.eliminate_dead_code()
    return module_structure(sides[0], meaning) == module_structure(sides[1], meaning)


def module_structure(gm: fx.GraphModule, of: Callable[[fx.Graph], tuple[Any, ...]] = structure) -> tuple[Any, ...]:
    """The structure of a graph and of its subgraphs; equal for equal graphs whatever the names."""
    children = ((n, c) for n, c in gm.named_children() if isinstance(c, fx.GraphModule))
    return (of(gm.graph), *((name, module_structure(child, of)) for name, child in children))
