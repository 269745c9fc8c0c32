"""Inside one compile: each pass, pattern entry, lowering and fusion is seen, and may be held back.

A :class:`Tracker` numbers the steps that a compile takes; with a limit it holds back those that come
later, with names it holds back those.  Hooks that a release does not have are left out, and the
steps behind them are then no steps.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import Any

from torch import fx

from fxmorph.core.units import Stage
from fxmorph.torchapi.graph_structure import structure
from fxmorph.torchapi.optional_passes import is_group_fusions, option_of
from fxmorph.torchapi.patterns import Entry, entries


class Group(StrEnum):
    """Kinds of steps, each numbered for itself from 0."""

    PASS = "pass"  #: a whole-graph pass, or one application of a pattern entry
    LOWERING = "lowering"  #: of one node of the final graph
    FUSION = "fusion"  #: of one pair of scheduler nodes


@dataclass(frozen=True)
class Step:
    """``changed``: the graph is another than before; ``detail`` names the nodes of a lowering or fusion.

    ``at_home``: a whole pass that is defined beside the function that runs its stage.
    """

    unit: str
    changed: bool
    detail: str = ""
    at_home: bool = False


#: ``see(stage, unit, graph module)`` after each step that changed a graph, and where a stage starts (unit "").
See = Callable[[Stage, str, fx.GraphModule], None]


@dataclass
class Tracker:
    """What may happen, and what did.

    Of each group only the first ``upto`` steps may; units and details in ``off`` may not.
    """

    upto: Mapping[Group, int] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    see: See | None = None
    #: Entries whose result is Inductor's IR are held back: the graph is going to be run in eager.
    eager: bool = False
    steps: dict[Group, list[Step]] = field(default_factory=lambda: {g: [] for g in Group})
    #: Where the compile is.
    stage: Stage = Stage.DYNAMO
    #: The pattern pass whose entries are steps now, and whether a whole pass is running.
    matching: str = ""
    inside: bool = False
    _counts: Counter[Group] = field(default_factory=Counter)

    def spent(self, group: Group) -> bool:
        """Whether no further step of the group may happen."""
        return self._counts[group] >= self.upto.get(group, 1 << 62)

    def may(self, group: Group, unit: str, detail: str = "") -> bool:
        """Whether the next step of the group may happen; a step that may not is recorded."""
        allowed = not self.spent(group) and unit not in self.off and detail not in self.off
        self._counts[group] += 1
        if not allowed:
            self.steps[group].append(Step(unit, False, detail))
        return allowed

    def did(
        self,
        group: Group,
        unit: str,
        changed: bool,
        graph_module: fx.GraphModule | None,
        detail: str = "",
        at_home: bool = False,
    ) -> None:
        """Record a step that happened."""
        self.steps[group].append(Step(unit, changed, detail, at_home))
        if changed and self.see is not None and graph_module is not None:
            self.see(Stage(unit.partition(".")[0]), unit, graph_module)

    def start(self, stage: Stage, graph_module: Any) -> None:
        """A stage begins with this graph."""
        self.stage = stage
        if self.see is not None and isinstance(graph_module, fx.GraphModule):
            self.see(stage, "", graph_module)


#: Put nodes in order: held back only where they are in order already.
_SORTS = ("stable_sort",)


def _in_order(graph: fx.Graph) -> bool:
    seen: set[fx.Node] = set()
    for node in graph.nodes:
        if any(n not in seen for n in node.all_input_nodes):
            return False
        seen.add(node)
    return True


def pass_name(observed: str) -> str:
    """PyTorch's name of a pass in its module: the observers say ``pass_pattern_0`` of ``pass_patterns[0]``."""
    head, _, number = observed.rpartition("_")
    return f"pass_patterns[{number}]" if head == "pass_pattern" else observed


@functools.cache
def named_entries() -> dict[int, tuple[Entry, ...]]:
    """Pattern entries by the ``id`` of PyTorch's own; the first call has every pattern registered, and traced."""
    named: dict[int, tuple[Entry, ...]] = {}
    for entry in entries():
        named[id(entry.entry)] = (*named.get(id(entry.entry), ()), entry)
    return named


def entry_unit(entry: Any, matching: str) -> str:
    """The unit name of a pattern entry that is applied in the pass ``matching``."""
    named = named_entries().get(id(entry), ())
    best = next((e for e in named if e.pass_name == matching), named[0] if named else None)
    if best is not None:
        return best.full_name
    handler = getattr(entry, "handler", None) or getattr(entry, "normalize_args", entry)
    return f"{matching}/{getattr(handler, '__name__', type(handler).__name__)}"


def run_pass(
    tracker: Tracker, unit: str, where: Any, call: Callable[[], Any], instead: Any = None, at_home: bool = False
) -> Any:
    """Run one whole pass as a step; ``instead`` is the answer where it is held back."""
    graph_module = where.owning_module if isinstance(where, fx.Graph) else where
    if tracker.inside or not isinstance(graph_module, fx.GraphModule):
        return call()
    if unit.rpartition(".")[2] in _SORTS and not _in_order(graph_module.graph):
        return call()
    if not tracker.may(Group.PASS, unit):
        return instead
    before = structure(graph_module.graph)
    tracker.inside = True
    try:
        result = call()
    except Exception:
        tracker.did(Group.PASS, unit, True, None, "raises")
        raise
    finally:
        tracker.inside = False
    after = result if isinstance(result, fx.GraphModule) else graph_module
    changed = structure(result if isinstance(result, fx.Graph) else after.graph) != before
    tracker.did(Group.PASS, unit, changed, after, at_home=at_home)
    return result


# -- hooks -------------------------------------------------------------------


@contextlib.contextmanager
def tracked(tracker: Tracker, fusions: bool = True) -> Iterator[None]:
    """Compiles in this process go through ``tracker`` until the context is left; ``fusions``: those are steps too."""
    hooks = (_observers, _pattern_passes, _group_fusions, _functions, _stages, _lowerings)
    with contextlib.ExitStack() as stack:
        for hook in (*hooks, _fusions) if fusions else hooks:
            for where, name, value in hook(tracker):
                stack.callback(setattr, where, name, where.__dict__[name])
                setattr(where, name, value)
        yield


Hooks = Iterator[tuple[Any, str, Any]]


def module(name: str) -> ModuleType | None:
    """The module, or None where this torch has none of that name."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


#: Modules of the functions that run a stage's passes.
_HOMES = {
    Stage.PRE_GRAD: "torch._inductor.fx_passes.pre_grad",
    Stage.JOINT: "torch._inductor.fx_passes.joint_graph",
    Stage.POST_GRAD: "torch._inductor.fx_passes.post_grad",
}


def _observers(tracker: Tracker) -> Hooks:
    """Passes that Inductor runs under a ``GraphTransformObserver``."""
    from torch._inductor.pattern_matcher import PatternMatcherPass
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(self: Any, pass_fn: Any) -> Any:
            unit = f"{tracker.stage}.{pass_name(self.passname)}"
            if is_group_fusions(self.passname, pass_fn):  # each of them is a step of its own
                return original(self, pass_fn)
            if isinstance(getattr(pass_fn, "__self__", None), PatternMatcherPass) and not tracker.inside:
                tracker.matching = unit
                try:
                    return original(self, pass_fn)
                finally:
                    tracker.matching = ""
            home = getattr(getattr(pass_fn, "func", pass_fn), "__module__", None)
            at_home = home == _HOMES.get(tracker.stage)
            return run_pass(tracker, unit, self.gm, lambda: original(self, pass_fn), at_home=at_home)

        return apply

    for name in ("apply_gm_pass", "apply_graph_pass"):
        if hasattr(GraphTransformObserver, name):
            yield GraphTransformObserver, name, wrapped(getattr(GraphTransformObserver, name))


def _pattern_passes(tracker: Tracker) -> Hooks:
    """Each application of an entry, whoever applies its pass."""
    from torch._inductor import pattern_matcher

    apply_pass = pattern_matcher.PatternMatcherPass.apply

    @functools.wraps(apply_pass)
    def applied(self: Any, graph: Any) -> Any:
        outer = tracker.matching
        tracker.matching = outer or f"{tracker.stage}.{getattr(self, 'pass_name', None) or 'patterns'}"
        try:
            return apply_pass(self, graph)
        finally:
            tracker.matching = outer

    yield pattern_matcher.PatternMatcherPass, "apply", applied

    def wrapped(original: Callable[..., Any], to_ir: bool) -> Callable[..., Any]:
        @functools.wraps(original)
        def apply(self: Any, match: Any, graph: fx.Graph, node: fx.Node) -> Any:
            if tracker.inside or not tracker.matching:
                return original(self, match, graph, node)
            unit = entry_unit(self, tracker.matching)
            owner = None if to_ir else graph.owning_module  # no graph of operators any more
            if (to_ir and tracker.eager) or not tracker.may(Group.PASS, unit, node.name):
                return None
            name = node.name
            try:
                original(self, match, graph, node)
            except Exception:
                tracker.did(Group.PASS, unit, True, None, f"{name} raises")
                raise
            tracker.did(Group.PASS, unit, True, owner, name)
            return None

        return apply

    for name in ("GraphPatternEntry", "ReplacementPatternEntry", "LoweringPatternEntry"):
        entry = getattr(pattern_matcher, name, None)
        if entry is not None:
            yield entry, "apply", wrapped(entry.apply, name == "LoweringPatternEntry")


def _group_fusions(tracker: Tracker) -> Hooks:
    """Each fusion of groups of nodes that a user opted in to, under the name of its option."""
    home = module("torch._inductor.fx_passes.group_batch_fusion")
    original = getattr(home, "apply_group_batch_fusion", None)
    if original is None:
        return

    @functools.wraps(original)
    def apply(graph: fx.Graph, rule: Any) -> None:
        unit = f"{tracker.stage}.{option_of(rule)}"
        run_pass(tracker, unit, graph, lambda: original(graph, rule))

    yield home, "apply_group_batch_fusion", apply


#: Passes that no observer sees: stage (None: where the compile is), module, name, and what a call that
#: is held back answers: its argument, a count of 0, or nothing.
_UNOBSERVED: tuple[tuple[Stage | None, str, str, str], ...] = (
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "numpy_compat_normalization", ""),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "sink_cat_after_pointwise", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "linear_permute_fusion", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "permute_linear_fusion", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "permute_matmul_fusion", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "remove_identity", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.pre_grad", "fuse_conv_bn", "argument"),
    (Stage.PRE_GRAD, "torch._inductor.fx_passes.quantization", "quant_lift_up", ""),
    (Stage.PARTITIONER, "torch._functorch.partitioners", "fx_graph_cse", "argument"),
    (Stage.PARTITIONER, "torch._functorch.partitioners", "cleanup_recompute_tags", "argument"),
    (Stage.PARTITIONER, "torch._functorch.partitioners", "reordering_to_mimic_autograd_engine", "argument"),
    (Stage.PARTITIONER, "torch._functorch.partitioners", "raise_getitems", "argument"),
    (Stage.PARTITIONER, "torch._functorch.partitioners", "thread_graphsafe_rng_from_hops", "argument"),
    (Stage.JOINT, "torch._inductor.fx_passes.joint_graph", "canonicalize_aten_ir_passes", ""),
    (Stage.JOINT, "torch._inductor.fx_passes.joint_graph", "replace_random_passes", "count"),
    (Stage.FREEZING, "torch._inductor.freezing", "view_to_reshape", ""),
    (Stage.FREEZING, "torch._inductor.freezing", "fx_graph_cse", "argument"),
    (Stage.FREEZING, "torch._inductor.freezing", "constant_fold", ""),
    (Stage.FREEZING, "torch._inductor.fx_passes.mkldnn_fusion", "_eliminate_duplicate_packed_nodes", ""),
    (Stage.POST_GRAD, "torch._inductor.compile_fx", "view_to_reshape", ""),
    (Stage.POST_GRAD, "torch._inductor.fx_passes.mkldnn_fusion", "grouped_gemm_pass", ""),
    (Stage.POST_GRAD, "torch._inductor.fx_passes.quantization", "concat_linear_woq_int4", ""),
)


def _functions(tracker: Tracker) -> Hooks:
    """Passes that are plain functions, called without an observer."""

    def wrapped(original: Callable[..., Any], unit: str, answer: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def function(where: Any, *args: Any, **kwargs: Any) -> Any:
            instead = {"argument": where, "count": 0}.get(answer)
            return run_pass(tracker, unit, where, lambda: original(where, *args, **kwargs), instead)

        return function

    for stage, home, name, answer in _UNOBSERVED:
        found = module(home)
        if found is not None and callable(getattr(found, name, None)):
            yield found, name, wrapped(getattr(found, name), f"{stage}.{name.lstrip('_')}", answer)


#: Where a stage starts: module, function whose first argument is the stage's graph (``freeze``: its second).
_STARTS = (
    (Stage.PRE_GRAD, "torch._inductor.compile_fx", "_recursive_pre_grad_passes", 0),
    (Stage.JOINT, "torch._inductor.compile_fx", "_recursive_joint_graph_passes", 0),
    (Stage.FREEZING, "torch._inductor.freezing", "freeze", 1),
    (Stage.POST_GRAD, "torch._inductor.compile_fx", "_recursive_post_grad_passes", 0),
)


def _stages(tracker: Tracker) -> Hooks:
    def wrapped(original: Callable[..., Any], stage: Stage, place: int) -> Callable[..., Any]:
        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            outer = tracker.stage
            tracker.start(stage, args[place] if place < len(args) else None)
            try:
                return original(*args, **kwargs)
            finally:
                tracker.stage = outer

        return function

    for stage, home, name, place in _STARTS:
        found = module(home)
        if found is not None and hasattr(found, name):
            yield found, name, wrapped(getattr(found, name), stage, place)


def _lowerings(tracker: Tracker) -> Hooks:
    """Nodes of built-in operators may be given to the eager kernel where Inductor would lower them."""
    from torch._inductor import graph

    original = getattr(graph, "fallback_node_due_to_unsupported_type", None)
    if original is None:
        return

    @functools.wraps(original)
    def falls_back(node: Any, *args: Any, **kwargs: Any) -> bool:
        if original(node, *args, **kwargs):
            return True
        unit = f"{Stage.LOWERING}.{node.target}"
        if not tracker.may(Group.LOWERING, unit, node.name):
            return True
        tracker.did(Group.LOWERING, unit, True, None, node.name)
        return False

    yield graph, "fallback_node_due_to_unsupported_type", falls_back


def _fusions(tracker: Tracker) -> Hooks:
    """Pairs of scheduler nodes that Inductor wants to fuse."""
    from torch._inductor.scheduler import Scheduler

    original = getattr(Scheduler, "can_fuse", None)
    if original is None:
        return

    @functools.wraps(original)
    def can_fuse(self: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> bool:
        if tracker.spent(Group.FUSION) or not original(self, first, second, *args, **kwargs):
            return False
        vertical = bool(first.get_operation_names() & second.ancestors)
        unit = f"{Stage.SCHEDULER}.can_fuse_{'vertical' if vertical else 'horizontal'}"
        detail = f"{_origins(first)} + {_origins(second)}"
        if not tracker.may(Group.FUSION, unit, detail):
            return False
        tracker.did(Group.FUSION, unit, True, None, detail)
        return True

    yield Scheduler, "can_fuse", can_fuse


def _origins(node: Any) -> str:
    """``buf0 (sin)``: the buffers of a scheduler node and the FX nodes that they come from."""
    names = {
        origin.name: None
        for part in node.get_nodes()
        if getattr(part, "node", None) is not None
        for origin in getattr(part.node, "origins", ())
    }
    return f"{'_'.join(sorted(node.get_buffer_names()))} ({', '.join(sorted(names))})"
