"""Inductor's pattern matcher: every registered entry by name, and a few entries applied alone.

All ``PatternMatcherPass`` objects of ``torch._inductor.fx_passes`` are found by reading its
modules after every ``lazy_init``; what a release lacks is left out.  Where an entry comes from
``register_replacement`` its :class:`Source` is read from the closure of its check, which works
however early the registration ran; example inputs are recorded while it runs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import pkgutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map

from fxmorph.torchapi.optional_passes import as_compiling, sort_graph

#: Modules of ``torch._inductor.fx_passes`` with a ``lazy_init``, and the stage each belongs to.
_INITIALISED = {
    "pre_grad": "pre_grad",
    "joint_graph": "joint",
    "freezing_patterns": "freezing",
    "post_grad": "post_grad",
}
#: Stage of the other modules that hold passes; those not named here run after the partitioner.
_STAGES = {
    **_INITIALISED,
    "replace_random": "joint",
    "binary_folding": "freezing",
    "apply_gumbel_max_trick": "pre_grad",
    "efficient_conv_bn_eval": "pre_grad",
}


@dataclass(frozen=True)
class Source:
    """What ``register_replacement`` was given.

    ``example_inputs`` (fake tensors) is empty where the registration ran before it could be
    recorded; ``extra_check`` is the author's own check, not the one that traces again.
    """

    search_fn: Callable[..., Any]
    replace_fn: Callable[..., Any]
    trace_fn: Callable[..., Any]
    extra_check: Callable[[Any], Any]
    example_inputs: tuple[Any, ...]
    scalars: dict[str, Any]

    @property
    def training(self) -> bool:
        """Whether the pattern is of a joint forward and backward graph."""
        return getattr(self.trace_fn, "__name__", "") == "joint_fwd_bwd"


@dataclass(frozen=True, eq=False)
class Entry:
    """One registered pattern entry.

    ``pass_name`` is its pass list (``joint.pass_patterns[0]``), ``name`` PyTorch's own name of it,
    unique there; ``kind`` is ``replacement``, ``graph`` or ``lowering`` (whose result is Inductor's
    IR and cannot be run in eager); ``keys`` the (op, target) pairs that it is registered under.
    """

    pass_name: str
    name: str
    kind: str
    entry: Any
    keys: tuple[tuple[str, Any], ...]
    source: Source | None

    @property
    def full_name(self) -> str:
        return f"{self.pass_name}/{self.name}"

    @property
    def handler(self) -> Callable[..., Any] | None:
        """What runs on a match, where it is a function of its own."""
        return getattr(self.entry, "handler", None)


def _matcher() -> Any:
    return importlib.import_module("torch._inductor.pattern_matcher")


def _modules() -> list[ModuleType]:
    """The modules of ``fx_passes`` that import here, those with a stage of their own first."""
    package = importlib.import_module("torch._inductor.fx_passes")
    names = sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.ispkg)
    ordered = [*(n for n in _STAGES if n in names), *(n for n in names if n not in _STAGES)]
    found = []
    for name in ordered:
        with contextlib.suppress(Exception):  # some need a GPU's libraries, or packages that are not there
            found.append(importlib.import_module(f"{package.__name__}.{name}"))
    return found


@contextlib.contextmanager
def _recording() -> Iterator[dict[tuple[int, int], tuple[Any, ...]]]:
    """Example inputs of each ``register_replacement``, by the identities of search and trace functions."""
    matcher, seen = _matcher(), {}
    original = matcher.register_replacement
    signature = inspect.signature(original)

    @functools.wraps(original)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        seen[id(given["search_fn"]), id(given["trace_fn"])] = tuple(given["example_inputs"])
        return original(*args, **kwargs)

    holders = [m for m in [matcher, *_modules()] if getattr(m, "register_replacement", None) is original]
    for module in holders:
        setattr(module, "register_replacement", recorded)  # noqa: B010
    try:
        yield seen
    finally:
        for module in holders:
            setattr(module, "register_replacement", original)  # noqa: B010


def _initialise() -> dict[tuple[int, int], tuple[Any, ...]]:
    """Run every ``lazy_init``; they are cached, so compiles after this one do not register again."""
    with _recording() as seen:
        for name in _INITIALISED:
            with contextlib.suppress(Exception):  # a backend that this build lacks
                module: Any = importlib.import_module(f"torch._inductor.fx_passes.{name}")
                # A CPU compile passes its device: the same argument makes it find this call in the cache.
                takes = "input_device" in inspect.signature(module.lazy_init).parameters
                passes_device = takes and name == "joint_graph"
                module.lazy_init(torch.device("cpu")) if passes_device else module.lazy_init()
    return seen


def _passes() -> list[tuple[str, Any]]:
    """(name, ``PatternMatcherPass``) of each pass list, each object once."""
    kind, found, named = _matcher().PatternMatcherPass, {}, []
    for module in _modules():
        leaf = module.__name__.rpartition(".")[2]
        stage = _STAGES.get(leaf, "post_grad")
        holders = sorted(vars(module).items(), key=lambda item: not isinstance(item[1], (list, tuple, dict)))
        for attribute, value in holders:
            if isinstance(value, kind):
                own = getattr(value, "pass_name", None) or (attribute if attribute != "patterns" else leaf)
                members = [(f"{stage}.{own}", value)]
            elif isinstance(value, dict):
                home = "pre_grad" if attribute.startswith("PRE_GRAD") else stage
                home = "post_grad" if attribute.startswith("POST_GRAD") else home
                members = [(f"{home}.{key}", v) for key, v in value.items() if isinstance(v, kind)]
            elif isinstance(value, (list, tuple)):
                members = [(f"{stage}.{attribute}[{i}]", v) for i, v in enumerate(value) if isinstance(v, kind)]
            else:
                continue
            for name, member in members:
                if id(member) not in found:
                    found[id(member)] = member
                    named.append((name, member))
    return named


def _closure(function: Any) -> dict[str, Any]:
    cells = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a variable that was never set
            cells[name] = cell.cell_contents
    return cells


def _source(entry: Any, examples: dict[tuple[int, int], tuple[Any, ...]], precompiled: dict[int, Any]) -> Source | None:
    check = entry.extra_check
    if not hasattr(check, "__code__"):
        return None
    given = _closure(check)
    if not {"search_fn", "replace_fn", "trace_fn"} <= given.keys():
        return None
    inputs = precompiled.get(id(entry.pattern))
    if inputs is None:
        inputs = examples.get((id(given["search_fn"]), id(given["trace_fn"])), ())
    return Source(
        given["search_fn"],
        given["replace_fn"],
        given["trace_fn"],
        given.get("extra_check", _matcher()._return_true),
        tuple(inputs),
        dict(given.get("scalar_workaround") or {}),
    )


_KINDS = {"ReplacementPatternEntry": "replacement", "LoweringPatternEntry": "lowering"}


def _own_name(entry: Any, source: Source | None) -> str:
    """PyTorch's own name, else the search function's or the handler's (with the function that made it)."""
    named = getattr(entry, "pattern_name", None)
    if named:
        return str(named)
    function = source.search_fn if source else getattr(entry, "handler", None)
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(entry).__name__)
    return str(name).replace(".<locals>", "").replace("<lambda>", "lambda")


def _known_precompiled() -> list[Any]:
    return list(getattr(_matcher(), "_known_precompiled_patterns", []))


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Every pattern entry of this torch, freezing and mkldnn included: by pass list, then by key."""
    examples = _initialise()
    # Tuples up to 2.14, records with the same fields in the same order after.
    known = [p if isinstance(p, tuple) else tuple(vars(p).values()) for p in _known_precompiled()]
    precompiled = {id(item[4]): tuple(item[1]) for item in known}
    found: list[Entry] = []
    for pass_name, pass_object in _passes():
        keys: dict[int, list[tuple[str, Any]]] = {}
        objects: dict[int, Any] = {}
        for key, registered in pass_object.patterns.items():
            for entry in registered:
                objects[id(entry)] = entry
                where = keys.setdefault(id(entry), [])
                if key not in where:
                    where.append(key)
        times: dict[str, int] = {}
        for number, entry in objects.items():
            source = _source(entry, examples, precompiled)
            name = _own_name(entry, source)
            times[name] = times.get(name, 0) + 1
            name = name if times[name] == 1 else f"{name}#{times[name]}"
            kind = _KINDS.get(type(entry).__name__, "graph")
            found.append(Entry(pass_name, name, kind, entry, tuple(keys[number]), source))
    return tuple(found)


@contextlib.contextmanager
def registered(keep: Callable[[Entry], bool]) -> Iterator[None]:
    """Compiles inside see only the pattern entries that ``keep`` accepts.

    All but one switch an entry off; one alone shows what it does in a whole compile, as a ``lowering``
    entry, whose result only Inductor can run, needs.
    """
    kept: dict[str, set[int]] = {}
    for entry in entries():
        if keep(entry):
            kept.setdefault(entry.pass_name, set()).add(id(entry.entry))
    before = [(pass_object, pass_object.patterns) for _, pass_object in _passes()]
    try:
        for name, pass_object in _passes():
            chosen = kept.get(name, set())
            left: defaultdict[Any, list[Any]] = defaultdict(list)
            for key, registered_there in pass_object.patterns.items():
                members = [e for e in registered_there if id(e) in chosen]
                if members:
                    left[key] = members
            pass_object.patterns = left
        yield
    finally:
        for pass_object, patterns in before:
            pass_object.patterns = patterns


def search_graph(source: Source, resize: Callable[[list[int]], list[int]] = list) -> fx.GraphModule:
    """The search function's graph on its example inputs, with fake ``meta['val']``.

    ``resize`` gives the sizes of each input from those of the example.

    Placeholders are the search function's arguments and, of a training pattern, tangents.
    Raises what tracing raises, ``ValueError`` where the example inputs are not known.
    """
    names = list(inspect.signature(source.search_fn).parameters)
    if len(source.example_inputs) + len(source.scalars) < len(names):
        raise ValueError("example inputs unknown: the pattern was registered before it could be recorded")
    mode = FakeTensorMode()
    given = iter(source.example_inputs)

    def fresh(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = empty_in_order(resize([int(s) for s in value.shape]), value)
        return made.requires_grad_(value.requires_grad)

    with mode:  # as when the pattern was registered
        arguments = [source.scalars[n] if n in source.scalars else tree_map(fresh, next(given)) for n in names]
        traced: fx.GraphModule = source.trace_fn(source.search_fn, arguments)
    return traced


def empty_in_order(shape: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    """A dense tensor of the sizes ``shape`` whose dimensions lie in memory in the order of those of ``like``."""
    order = sorted(range(like.ndim), key=like.stride().__getitem__, reverse=True)
    made = torch.empty([shape[d] for d in order], dtype=like.dtype, device=like.device)
    return made.permute([order.index(d) for d in range(like.ndim)])


def apply_entries(graph: fx.Graph, chosen: Sequence[Entry]) -> int:
    """Apply only these entries, in this order, to the graph in place; the number of matches.

    The graph needs an ``owning_module`` and the ``meta`` that its stage has (``val``, or
    ``example_value`` before AOTAutograd).  What a handler or check raises is raised.
    """
    alone = _matcher().PatternMatcherPass()
    for entry in chosen:
        for key in entry.keys:
            alone.patterns[key].append(entry.entry)
    with as_compiling(graph):
        matches = int(alone.apply(graph) or 0)
    if matches:  # handlers insert nodes before what they read; every stage sorts after its patterns
        sort_graph(graph)
    return matches
