"""What AOTAutograd traces, as Python functions on the way to a graph, each of which can be run instead of traced.

The program is made a function without effects, then (where gradients are asked for) one of gradients too, then
one that runs on functional tensors, and is traced.  The first of these that computes something else than the
one before it on the same values holds the fault.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import fx

from fxmorph.core.strides import visible_strides
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, schema_of, tensors_of, tree_leaves, written_tensors
from fxmorph.torchapi.plain_runtime import levels, results_without_effects, run_plainly
from fxmorph.torchapi.storages import storage_key

#: What AOTAutograd goes on with when it has a graph.
_AFTER_TRACING = ("aot_stage2_autograd", "aot_stage2_inference")
#: Values farther apart than this are others.
RTOL, ATOL = 1e-3, 1e-5


class Step(StrEnum):
    """A step from the program to the graph, and what makes it."""

    FUNCTION = "a function without effects"
    JOINT = "a function of gradients too"
    FUNCTIONALIZED = "functional tensors"
    FRESH = "a function that leaves its inputs as they are"
    WRITTEN = "functional tensors, with writes to inputs"
    WRAPPED = "effect tokens and subclasses"
    TRACED = "a graph"
    CLEANED = "a graph without dead code"
    NONE = "nothing"


@dataclass
class Tracing:
    """One tracing: its functions in order, its graphs, and the values that the compiled program was called on.

    The last of ``programs`` is what became ``prepared`` (where gradients are traced), ``function``,
    then ``functional``, ``wrapped``, ``graph`` and ``final``.
    """

    programs: list[Callable[..., Any]] = field(default_factory=list)
    joint: bool = False
    prepared: Callable[..., Any] | None = None
    function: Callable[..., Any] | None = None
    functional: Callable[..., Any] | None = None
    wrapped: Callable[..., Any] | None = None
    traced_with: Any = None
    graph: fx.GraphModule | None = None
    final: fx.GraphModule | None = None
    values: list[Any] = field(default_factory=list)
    metadata: Any = None


@contextlib.contextmanager
def tracing_watched() -> Iterator[Tracing]:
    """The last tracing of compiles inside, and the first values of what came of it."""
    from torch._functorch._aot_autograd import graph_capture, graph_compile, runtime_wrappers

    seen = Tracing()
    functionalize, create = graph_capture.create_functionalized_fn, graph_capture._create_graph
    prepare, wrapper = graph_capture.fn_prepped_for_autograd, runtime_wrappers._create_runtime_wrapper

    @functools.wraps(prepare)
    def prepared(*args: Any, **kwargs: Any) -> Any:
        seen.prepared = prepare(*args, **kwargs)
        return seen.prepared

    @functools.wraps(functionalize)
    def functionalized(function: Any, *args: Any, **kwargs: Any) -> Any:
        made = functionalize(function, *args, **kwargs)
        seen.function, seen.functional, seen.joint = function, made[0], bool(kwargs.get("trace_joint"))
        return made

    @functools.wraps(create)
    def created(function: Any, args: Any, *more: Any, **kwargs: Any) -> Any:
        made = create(function, args, *more, **kwargs)
        seen.wrapped, seen.traced_with = function, args
        seen.graph = _copy(made)
        return made

    def finished(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_graph(state: Any, captured: Any, *args: Any, **kwargs: Any) -> Any:
            seen.final = _copy(captured.graph_module)
            seen.values.clear()
            return original(state, captured, *args, **kwargs)

        return compile_graph

    def wrapped(compiled: Any, **given: Any) -> Any:
        seen.metadata = given["runtime_metadata"]

        @functools.wraps(compiled)
        def run(*args: Any) -> Any:
            if not seen.values:
                values = args[0] if len(args) == 1 and isinstance(args[0], list) else args
                seen.values[:] = [kept(v) for v in values]
            return compiled(*args)

        run._boxed_call = getattr(compiled, "_boxed_call", False)  # type: ignore[attr-defined]
        return wrapper(run, **given)

    with contextlib.ExitStack() as stack:
        seen.programs = stack.enter_context(levels())
        for home, name, new in (
            (graph_capture, prepare.__name__, prepared),
            (graph_capture, functionalize.__name__, functionalized),
            (graph_capture, create.__name__, created),
            *((graph_compile, name, finished(getattr(graph_compile, name))) for name in _AFTER_TRACING),
            (runtime_wrappers, wrapper.__name__, wrapped),
        ):
            stack.enter_context(mock.patch.object(home, name, new))
        yield seen


def _copy(made: Any) -> fx.GraphModule:
    module = made[0] if isinstance(made, tuple) else made
    return fx.GraphModule(module, copy.deepcopy(module.graph))


def kept(value: Any) -> Any:
    """A copy of a tensor with its memory layout; anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    memory = value.detach().untyped_storage().clone()
    return value.detach().new_empty(0).set_(memory, value.storage_offset(), value.size(), value.stride())


def given_values(seen: Tracing) -> Any:
    """Arguments of the functions: values of the call, and of the gradients that come in what is not too plain."""
    if not seen.joint:
        return tuple(kept(v) for v in seen.values)
    primals, tangents = seen.traced_with
    own = [_differentiable(kept(v), p) for v, p in zip(seen.values, primals, strict=True)]
    return own, [_drawn(t, i) for i, t in enumerate(tangents)]


def _differentiable(value: Any, like: Any) -> Any:
    """As traced: what is no leaf may be written in place."""
    if not isinstance(like, torch.Tensor) or not like.requires_grad:
        return value
    return value.requires_grad_() if like.is_leaf else value.requires_grad_().clone()


def _drawn(like: Any, seed: int) -> Any:
    if not isinstance(like, torch.Tensor):
        return like
    sizes, strides = ([int(n) for n in numbers] for numbers in (like.size(), like.stride()))
    drawn = torch.randn(sizes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.empty_strided(sizes, strides, dtype=like.dtype).copy_(drawn)


def first_wrong_step(seen: Tracing, laid_out: bool = False) -> Step | None:
    """The first step after which something else is computed, or is ``laid_out`` otherwise; NONE where a graph without
    gradients is right; None where the values of a call are not known.

    Steps are compared from the last to the first, and what remains is the one that makes a function of the program.
    """
    agree = functools.partial(_agree, laid_out=laid_out)
    if seen.graph is None or seen.final is None or seen.wrapped is None or not seen.values:
        return None
    final, graph = (_run_graph(g, tree_leaves(given_values(seen))) for g in (seen.final, seen.graph))
    if not agree(final, graph):
        return Step.CLEANED
    wrapped = _run_functional(seen.wrapped, given_values(seen))
    if not agree(graph, wrapped):
        return Step.TRACED
    if seen.functional is None or seen.function is None:
        return None
    functional = _run_functional(seen.functional, given_values(seen))
    if not agree(wrapped, functional):
        return Step.WRAPPED
    effects = len(tree_leaves(given_values(seen)))
    plain = _run(seen.function, given_values(seen))
    if agree(functional, plain):
        if not _prepared_well(seen, laid_out):
            return Step.FUNCTION
        return Step.JOINT if seen.joint else Step.NONE
    if not agree(functional[:-effects], plain[:-effects]):
        return Step.FUNCTIONALIZED
    with _inputs_cloned():
        cloned = _run(seen.function, given_values(seen))
    return Step.WRITTEN if agree(plain[:-effects], cloned[:-effects]) else Step.FRESH


def _prepared_well(seen: Tracing, laid_out: bool) -> bool:
    """Whether the function without effects returns what the program does, and what it writes."""
    made = seen.prepared if seen.joint else seen.function
    (mine, theirs) = (given_values(seen)[0] if seen.joint else given_values(seen) for _ in range(2))
    wanted = results_without_effects(seen.programs[-1], mine, seen.metadata, seen.joint)
    assert made is not None
    return _agree(wanted, _run(made, theirs)[: -len(theirs)], laid_out)


@contextlib.contextmanager
def _inputs_cloned() -> Iterator[None]:
    """Inputs that a program writes, and that have gradients, are cloned before it: by us."""
    from torch._functorch._aot_autograd import graph_capture_wrappers

    def fresh(number: int, value: Any, meta: Any) -> Any:
        written = isinstance(value, torch.Tensor) and value.requires_grad and meta.input_info[number].mutates_data
        return value.clone() if written else value

    with mock.patch.object(graph_capture_wrappers, "maybe_to_fresh_input", fresh):
        yield


def _run_graph(graph: fx.GraphModule, args: Sequence[Any]) -> list[Any]:
    with torch.no_grad():
        own = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
        return [*tree_leaves(fx.Interpreter(graph).run(*own)), *own]


def _run_functional(function: Callable[..., Any], args: Any) -> list[Any]:
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.functional_tensor import FunctionalTensorMode

    with enable_python_dispatcher(), FunctionalTensorMode(_allow_token_discovery=True):
        return _run(function, args)


def _run(function: Callable[..., Any], args: Any) -> list[Any]:
    from torch._functorch._aot_autograd import graph_capture_wrappers

    def sync(tensor: Any) -> None:
        """Tensors that are not functional are what they are."""
        if torch._is_functional_tensor(getattr(tensor, "elem", tensor)):
            original(tensor)

    original = graph_capture_wrappers.sync_functional_tensor
    untraced = SimpleNamespace(tracer=SimpleNamespace(graph=SimpleNamespace(nodes=())))
    with (
        mock.patch.object(graph_capture_wrappers, original.__name__, sync),
        mock.patch.object(graph_capture_wrappers, "get_proxy_mode", lambda: untraced),
        # It takes fake tensors alone, and only refuses programs; this one was not refused when it was compiled.
        mock.patch.object(graph_capture_wrappers, "has_metadata_mutation", lambda *args, **kwargs: False),
    ):
        return [*tree_leaves(tuple(run_plainly(function, args))), *tree_leaves(args)]


def _agree(first: Sequence[Any], second: Sequence[Any], laid_out: bool) -> bool:
    """Whether both computed, and wrote, the same tensors."""
    mine, theirs = ([t for t in side if isinstance(t, torch.Tensor)] for side in (first, second))
    return len(mine) == len(theirs) and all(alike(a, b, laid_out) for a, b in zip(mine, theirs, strict=True))


def alike(a: torch.Tensor, b: torch.Tensor, laid_out: bool = False) -> bool:
    """Whether two tensors hold about the same numbers, in whatever shape; ``laid_out``: with the same strides, too."""
    same = a.numel() == b.numel() and a.dtype == b.dtype and a.layout == b.layout == torch.strided
    if laid_out and same and visible_strides(a.shape, a.stride()) != visible_strides(b.shape, b.stride()):
        return False
    a, b = a.detach(), b.detach()
    return same and torch.allclose(a.reshape(-1), b.reshape(-1), RTOL, ATOL, equal_nan=True)


# -- the operator whose functional form is wrong -------------------------------------


@dataclass(frozen=True)
class Followed:
    """The operators of a program beside its graph.

    ``lost`` is the first of which the graph has no result, "" where it has all; ``through``: it has the result, and not
    what is written through that later.  ``custom`` is the last custom operator
    before it that writes its arguments, or "": such are called by another operator.  ``called`` are all that give
    tensors, in order, each once.
    """

    lost: str = ""
    through: bool = False
    custom: str = ""
    called: tuple[str, ...] = ()


def operators_followed(seen: Tracing, laid_out: bool = False) -> Followed:
    """What the program's operators gave, looked for in the graph (``laid_out``: with its strides).

    Where the graph lacks what an operator reads, the one that made it is lost: a view of something written since.
    Where it reads something else there than in the program, the last write to that is: the view that was written.
    """
    if seen.graph is None or not seen.programs:
        return Followed()
    values = _Values(seen.graph)
    values.run(*(a.detach() if isinstance(a, torch.Tensor) else a for a in tree_leaves(given_values(seen))))
    watch = _Watch(values, laid_out)
    given = given_values(seen)
    with torch.no_grad(), watch:
        run_plainly(seen.programs[-1], given[0] if seen.joint else given)
    return Followed(watch.lost, watch.through, watch.custom, tuple(dict.fromkeys(watch.makers.values())))


class _Values(fx.Interpreter):
    """Runs a graph and keeps every tensor in it; ``read`` by calls of operators, each under its plain name."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.seen: list[torch.Tensor] = []
        self.read: list[tuple[str, list[torch.Tensor]]] = []

    def run_node(self, n: fx.Node) -> Any:
        if isinstance(n.target, OpOverload):
            self.read.append((_plain_name(n.target), [kept(t) for t in tensors_of(self.fetch_args_kwargs_from_env(n))]))
        with torch.no_grad():
            result = super().run_node(n)
        self.seen += [kept(t) for t in tensors_of(result)]
        return result


class _Watch(DispatchMode):
    def __init__(self, values: _Values, laid_out: bool) -> None:
        super().__init__()
        self.values, self.laid_out, self.lost, self.custom = values, laid_out, "", ""
        self.through = False
        self.makers: dict[int, str] = {}
        #: What wrote last, by memory: the view that it wrote to where it was one, else the operator.
        self.writers: dict[int, str] = {}
        self.held: list[Any] = []  # so that no two tensors have one id

    def called(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.lost = self.lost or self._maker_of_missing([args, kwargs])
        if not self.lost and func.namespace not in ("aten", "prims") and schema_of(func).is_mutable:
            self.custom = str(func)
        given = tensors_of([args, kwargs])
        before = [] if self.lost else [kept(t) for t in given]
        result = func(*args, **kwargs)
        self.held.append(result)
        if not self.lost and not all(self._known(t) for t in tensors_of(result)):
            through = self._wrongly_written(func, given, before)
            self.lost, self.through = through or str(func), bool(through)
        for t in written_tensors(func, args, kwargs):
            self.writers[_memory(t)] = self.makers.get(id(t), str(func))
        for tensor in tensors_of(result):
            self.makers[id(tensor)] = str(func)
        return result

    def _known(self, tensor: torch.Tensor) -> bool:
        return tensor.numel() == 0 or any(alike(tensor, v, self.laid_out) for v in self.values.seen)

    def _wrongly_written(self, func: OpOverload, given: list[torch.Tensor], before: list[torch.Tensor]) -> str:
        """What last wrote to what is read, where the graph's calls of the operator all read something else."""
        calls = [tensors for name, tensors in self.values.read if name == _plain_name(func)]
        if any(len(tensors) == len(before) and all(map(alike, tensors, before)) for tensors in calls):
            return ""
        return next((self.writers[_memory(t)] for t in given if _memory(t) in self.writers), "") if calls else ""

    def _maker_of_missing(self, read: Any) -> str:
        """What made a tensor that is read and that the graph does not have."""
        made = (t for t in tensors_of(read) if id(t) in self.makers)
        return next((self.makers[id(t)] for t in made if not self._known(t)), "")


def _plain_name(func: OpOverload) -> str:
    """Of an operator that writes its argument, too, that of the one that returns something new."""
    return f"{func.namespace}.{func._schema.name.rpartition('::')[2].rstrip('_')}"


def _memory(t: torch.Tensor) -> int:
    return storage_key(t) if t.layout == torch.strided else id(t)
