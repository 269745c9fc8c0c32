"""Inductor's graph transformations that no pipeline function names: opt-in fusions, no-op rules, AOTAutograd's passes.

What a release lacks is left out.  Passes that pipelines call by name are in ``pipelines.py``, pattern
entries in ``patterns.py``.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.torchapi.pipelines import CannotRun, setting

_FX_PASSES = "torch._inductor.fx_passes"
#: The function that runs all fusions of groups of nodes.
_GROUP_FUSIONS = "group_batch_fusion_passes"


@dataclass(frozen=True)
class Opted:
    """A name that a user can put into ``pre_grad_fusion_options`` or ``post_grad_fusion_options``.

    ``made_by`` is the class of a fusion of groups of nodes, None for a pattern pass.
    """

    name: str
    option: str
    made_by: type | None

    @property
    def settings(self) -> dict[str, Any]:
        """What switches it on; groups of two are fused too (torch's default, 5, is for large models)."""
        options = {} if self.made_by is None else {"min_fuse_set_size": 2}
        return {self.option: {self.name: options}}


@dataclass(frozen=True)
class NoopRule:
    """One rule of ``remove_noop_ops``: ``condition`` says when these operators do nothing."""

    name: str
    condition: Callable[..., Any]
    operators: tuple[Any, ...]


@dataclass(frozen=True)
class Extra:
    """A pass outside the pipelines: ``function`` of a graph module, or of a graph if ``on_graph``."""

    stage: str
    name: str
    function: Callable[..., Any]
    on_graph: bool


def _attribute(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None


def opted() -> list[Opted]:
    """Opt-in passes in the order in which torch registers them."""
    found = []
    for option, patterns, fusions in (
        ("pre_grad_fusion_options", "PRE_GRAD_PATTERNS", "PRE_GRAD_FUSIONS"),
        ("post_grad_fusion_options", "POST_GRAD_PATTERNS", "POST_GRAD_FUSIONS"),
    ):
        found += [Opted(n, option, None) for n in _attribute(f"{_FX_PASSES}.split_cat", patterns) or ()]
        classes = _attribute(f"{_FX_PASSES}.group_batch_fusion", fusions) or {}
        found += [Opted(name, option, made_by) for name, made_by in classes.items()]
    return found


def option_of(rule: Any) -> str:
    """The name that a user opts in to the fusion ``rule`` by; that of its class where it has none."""
    return next((o.name for o in opted() if o.made_by is type(rule)), type(rule).__name__)


def is_group_fusions(observed: str, function: Any) -> bool:
    """Whether a pass, under the name that its observer says, is all fusions of groups of nodes one after the other."""
    called = getattr(function, "func", function)
    return _GROUP_FUSIONS in (observed, getattr(called, "__name__", ""))


def run_fusion(fusion: Opted, gm: fx.GraphModule) -> None:
    """Fuse groups of nodes of ``gm`` in place, this one fusion alone; raises :class:`CannotRun`."""
    import torch._inductor.config as config

    run: Any = _attribute(f"{_FX_PASSES}.group_batch_fusion", _GROUP_FUSIONS)
    with config.patch(fusion.settings):
        try:
            run(gm.graph, pre_grad=fusion.option.startswith("pre_grad"))
        except AttributeError as error:
            if "_OpNamespace" in str(error):
                raise CannotRun(f"{fusion.name} needs an operator that this build lacks: {error}") from error
            raise


#: AOTAutograd's passes over a whole graph, and Inductor's between it and ``post_grad_passes``: stage, module,
#: function, whether it takes the graph rather than its module.
_EXTRAS = (
    ("partitioner", "torch._functorch.compile_utils", "fx_graph_cse", True),
    ("partitioner", "torch._functorch.compile_utils", "raise_getitems", False),
    ("partitioner", "torch._functorch.partitioners", "raise_getitems", False),
    ("partitioner", "torch._functorch.partitioners", "reordering_to_mimic_autograd_engine", False),
    ("post_grad", f"{_FX_PASSES}.post_grad", "view_to_reshape", False),
)


def extras() -> list[Extra]:
    """Passes outside the pipelines, each once."""
    found: dict[str, Extra] = {}
    for stage, module, name, on_graph in _EXTRAS:
        function = _attribute(module, name)
        if function is not None:
            found.setdefault(name, Extra(stage, name, function, on_graph))
    return list(found.values())


def run_extra(extra: Extra, gm: fx.GraphModule) -> Any:
    """Run it on ``gm``; what it returns, a new graph or module if it makes one."""
    return extra.function(gm.graph if extra.on_graph else gm)


def _registry() -> dict[Any, tuple[Callable[..., Any], Any]]:
    return _attribute(f"{_FX_PASSES}.post_grad", "noop_registry") or {}


def noop_rules() -> list[NoopRule]:
    """The rules of ``remove_noop_ops``, under the names of their conditions (``#2`` for a second use of one)."""
    groups: dict[tuple[int, str], list[Any]] = {}
    conditions: dict[tuple[int, str], Callable[..., Any]] = {}
    for operator, (condition, source) in _registry().items():
        key = (id(condition), repr(source))
        groups.setdefault(key, []).append(operator)
        conditions[key] = condition
    found, times = [], dict[str, int]()
    for key, operators in groups.items():
        name = conditions[key].__name__
        times[name] = times.get(name, 0) + 1
        found.append(NoopRule(name if times[name] == 1 else f"{name}#{times[name]}", conditions[key], tuple(operators)))
    return found


def run_noop_rule(rule: NoopRule, gm: fx.GraphModule) -> None:
    """``remove_noop_ops`` on ``gm`` in place with this rule alone."""
    registry = _registry()
    everything = dict(registry)
    try:
        for operator in set(everything) - set(rule.operators):
            del registry[operator]
        _attribute(f"{_FX_PASSES}.post_grad", "remove_noop_ops")(gm.graph)
    finally:
        registry.clear()
        registry.update(everything)


def fake_inputs(graph: fx.Graph) -> list[Any]:
    """What the placeholders stand for: fake tensors and sizes, None where the graph does not say."""
    nodes = (n for n in graph.nodes if n.op == "placeholder")
    return [n.meta.get("val", n.meta.get("example_value")) for n in nodes]


def fake_mode_of(graph: fx.Graph) -> Any:
    """The fake tensor mode of a graph's metadata, None where it has none."""
    for node in graph.nodes:
        for key in ("val", "example_value"):
            mode = getattr(node.meta.get(key), "fake_mode", None)
            if mode is not None:
                return mode
    return None


def lazy_module(root: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module that generates the code of its graph when it is first called, as the modules of a compile do.

    Passes may put what has no source text into a graph (a built-in method as an argument): only the
    interpreter can run those.
    """
    made = _attribute("torch.fx._lazy_graph_module", "_LazyGraphModule") or fx.GraphModule
    module: fx.GraphModule = made(root, graph, type(root).__name__)
    return module


@contextlib.contextmanager
def as_compiling(graph: fx.Graph) -> Iterator[None]:
    """What a pass finds around it while Inductor compiles: no autograd, the graph's fake mode."""
    from torch._inductor.virtualized import V

    mode = fake_mode_of(graph)
    with torch.no_grad(), contextlib.nullcontext() if mode is None else V.set_fake_mode(mode):
        yield


def sort_graph(graph: fx.Graph) -> None:
    """Put nodes after what they read, as pipelines do after patterns and fusions, which may not."""
    from torch._inductor.pattern_matcher import stable_topological_sort

    stable_topological_sort(graph)


def propagate_shapes(gm: fx.GraphModule) -> None:
    """Give each node the ``tensor_meta`` that passes over torch-level graphs read."""
    from torch.fx.passes.shape_prop import ShapeProp

    ShapeProp(gm, fake_mode=fake_mode_of(gm.graph)).propagate(*fake_inputs(gm.graph))


def metadata_updater(gm: fx.GraphModule) -> Callable[[], object]:
    """A function that recomputes ``meta['val']`` where the graph has changed since, as ``post_grad_passes`` does."""
    from torch._inductor.fx_utils import FakeTensorUpdater

    make: Any = FakeTensorUpdater
    try:
        updater = make(gm)
    except AttributeError:  # older releases take the graph
        updater = make(gm.graph)
    update: Callable[[], object] = updater.incremental_update
    return update


def configuration(settings: dict[str, Any]) -> contextlib.AbstractContextManager[None]:
    """These settings of Inductor, as far as this torch has them."""
    import torch._inductor.config as config

    known = {name: value for name, value in settings.items() if setting(name) is not ...}
    patched: contextlib.AbstractContextManager[None] = config.patch(known)
    return patched
