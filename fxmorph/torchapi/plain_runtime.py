"""AOTAutograd's runtime with parts of it done by us, plainly: where a finding goes, torch's part is to blame.

AOTAutograd lays wrappers around what it compiles, each with a Python function of what it wraps.  So the
compiled program can be replaced by that function at each of its levels, and what is outside of it stays torch's.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

from fxmorph.torchapi.storages import storage_key

#: A compiled function: it takes its arguments as a list that it may empty.
Boxed = Callable[[list[Any]], Any]


def _boxed(function: Callable[[list[Any]], Any]) -> Boxed:
    function._boxed_call = True  # type: ignore[attr-defined]
    return function


def run_plainly(function: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """What a level's function returns of these arguments: it tells what its results are besides."""
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # Dynamo's graph is run by an interpreter that asks for a fake mode, and has no use for it.  Torch makes views of
    # a common base like the fake tensors that it traced, which no values may be compared with.
    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))), plain_aliases():
        results, _ = function(*args)
    return list(results)


@contextlib.contextmanager
def levels() -> Iterator[list[Callable[..., Any]]]:
    """The program as each wrapper made it, from outside in, of the last compile."""
    from torch._functorch._aot_autograd import graph_compile

    functions: list[Callable[..., Any]] = []
    original = graph_compile.pre_compile

    @functools.wraps(original)
    def pre_compile(wrappers: Any, function: Any, args: Any, descs: Any, config: Any, *, fw_metadata: Any) -> Any:
        functions[:] = [function]
        made = function, args, descs, fw_metadata
        for wrapper in wrappers:
            made = original([wrapper], *made[:3], config, fw_metadata=made[3])
            functions.append(made[0])
        return made

    with mock.patch.object(graph_compile, original.__name__, pre_compile):
        yield functions


@contextlib.contextmanager
def program_at_level(level: int) -> Iterator[None]:
    """The program itself runs inside the first ``level`` wrappers; -1: inside all of them."""
    from torch._functorch._aot_autograd import graph_compile

    original = graph_compile.post_compile

    with levels() as functions:

        @functools.wraps(original)
        def post_compile(wrappers: Any, _compiled: Any, config: Any, *, runtime_metadata: Any) -> Any:
            number = len(wrappers) if level < 0 else min(level, len(wrappers))
            function = functions[number]
            plain = _boxed(lambda args: run_plainly(function, args))
            return original(wrappers[:number], plain, config, runtime_metadata=runtime_metadata)

        with mock.patch.object(graph_compile, original.__name__, post_compile):
            yield


@contextlib.contextmanager
def wrappers_that_work() -> Iterator[list[str]]:
    """Names of the wrappers, from outside in, that have something to do in compiles inside."""
    from torch._functorch._aot_autograd import graph_compile

    found: list[str] = []
    original = graph_compile.post_compile

    @functools.wraps(original)
    def post_compile(wrappers: Any, *args: Any, **kwargs: Any) -> Any:
        found[:] = [type(w).__name__ if getattr(w, "needs_post_compile", True) else "" for w in wrappers]
        return original(wrappers, *args, **kwargs)

    with mock.patch.object(graph_compile, original.__name__, post_compile):
        yield found


# -- the innermost wrapper, which writes inputs and makes views ---------------------


@contextlib.contextmanager
def _runtime_wrapper(change: Callable[..., Any]) -> Iterator[None]:
    """``change(torch's own maker, compiled function, its keyword arguments)`` makes the innermost wrapper."""
    from torch._functorch._aot_autograd import runtime_wrappers

    original = runtime_wrappers._create_runtime_wrapper

    def make(compiled: Any, **given: Any) -> Any:
        return change(original, compiled, given)

    with mock.patch.object(runtime_wrappers, original.__name__, make):
        yield


@contextlib.contextmanager
def program_without_effects() -> Iterator[None]:
    """In the place of graphs and autograd's function runs the program, with written inputs among its results."""
    with levels() as functions:

        def change(original: Any, _compiled: Any, given: dict[str, Any]) -> Any:
            function, meta, joint = functions[-1], given["runtime_metadata"], given["trace_joint"]
            return original(_boxed(lambda args: _without_effects(function, args, meta, joint)), **given)

        with _runtime_wrapper(change):
            yield


def _without_effects(function: Callable[..., Any], args: list[Any], meta: Any, joint: bool) -> list[Any]:
    """What the compiled part of a program returns: new values of inputs, results, bases of views."""
    from torch._functorch._aot_autograd.schemas import MutationType, OutputType, TensorAlias

    inside = MutationType.MUTATED_IN_GRAPH
    written = {i for i, info in enumerate(meta.input_info) if info.mutation_type is inside}
    own = [_copied(a) if isinstance(a, torch.Tensor) and i not in written else a for i, a in enumerate(args)]
    results = run_plainly(function, own)
    kept = [
        r._base
        for r, info in zip(results, meta.output_info, strict=True)
        if info.output_type is OutputType.alias_of_intermediate_save_as_output and joint
    ]
    if joint:
        views = set(meta.aliased_out_indices)
        results = [TensorAlias(r) if i in views else r for i, r in enumerate(results)]
    inputs = []
    for i in meta.mutated_inp_runtime_indices:
        only_shape = meta.input_info[i].mutates_metadata and not meta.input_info[i].mutates_data
        inputs.append(TensorAlias(own[i]) if joint and only_shape else own[i])
    return [*inputs, *results, *kept]


def results_without_effects(function: Callable[..., Any], args: list[Any], meta: Any, joint: bool) -> list[Any]:
    """What is written, results and bases of views, as tensors, of a program that writes its arguments."""
    return [_bare(value) for value in _without_effects(function, args, meta, joint)]


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in memory of its own, laid out alike as far as gradients allow."""
    if tensor.requires_grad:
        return tensor.clone()
    memory = tensor.untyped_storage().clone()
    return tensor.new_empty(0).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


@contextlib.contextmanager
def plain_writing() -> Iterator[None]:
    """What a program wrote to its inputs is written back by us."""
    with _epilogue("_apply_mutations_", _write_back):
        yield


@contextlib.contextmanager
def plain_views() -> Iterator[None]:
    """Results that are views of inputs or of each other are made by us."""
    with _epilogue("_replay_aliases_", _results):
        yield


@contextlib.contextmanager
def _epilogue(name: str, ours: Callable[..., Any]) -> Iterator[None]:
    """A function that the innermost wrapper's text calls is replaced by ``ours(metadata, joint, *its arguments)``."""
    from torch._functorch._aot_autograd import runtime_wrappers

    original = runtime_wrappers._codegen_epilogue

    @functools.wraps(original)
    def generate(lines: Any, names: dict[str, Any], meta: Any, epilogue: Any, *args: Any) -> Any:
        result = original(lines, names, meta, epilogue, *args)
        if name in names:
            names[name] = functools.partial(ours, meta, epilogue.trace_joint)
        return result

    with mock.patch.object(runtime_wrappers, original.__name__, generate):
        yield


def _bare(value: Any) -> Any:
    from torch._functorch._aot_autograd.schemas import TensorAlias

    return value.alias if isinstance(value, TensorAlias) else value


def _write_back(meta: Any, joint: bool, inputs: dict[int, Any], updated: Sequence[Any]) -> None:
    for number, value in zip(meta.mutated_inp_runtime_indices, updated, strict=True):
        info, target, new = meta.input_info[number], inputs[number], _bare(value)
        if info.mutates_storage_metadata:
            with torch.no_grad():
                target.set_(new)
            continue
        if info.mutates_metadata:
            target.as_strided_(new.size(), new.stride(), new.storage_offset())
        if info.mutates_data:
            (target.detach() if info.is_leaf and target.requires_grad else target).copy_(new)


def _results(meta: Any, joint: bool, inputs: dict[int, Any], outputs: Sequence[Any]) -> list[Any]:
    from torch._functorch._aot_autograd.schemas import OutputType

    made = []
    for info, output in zip(meta.output_info, outputs, strict=False):  # bases of views come after the results
        value = _bare(output)
        if info.output_type is OutputType.is_input:
            value = inputs[info.base_idx]
        elif info.output_type is OutputType.alias_of_input:
            value = _view_like(inputs[info.base_idx], value, info.requires_grad)
        elif info.output_type is OutputType.alias_of_intermediate_base_is_user_output:
            value = _view_like(_bare(outputs[info.base_idx]), value, info.requires_grad)
        elif info.output_type.name.startswith("alias_of_intermediate"):
            value = _view_like(_bare(outputs[len(meta.output_info) + info.base_idx]), value, info.requires_grad)
        made.append(value)
    return made


def _view_like(base: torch.Tensor, like: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A view of ``base`` with the layout of ``like``."""
    if base.dtype != like.dtype:
        base = torch.view_as_real(base) if base.is_complex() and not like.is_complex() else base.view(like.dtype)
    view = base.as_strided(like.size(), like.stride(), like.storage_offset())
    return view if requires_grad or not view.requires_grad else view.detach()


@contextlib.contextmanager
def plain_aliases() -> Iterator[None]:
    """Which results are views, and of what, is torch's to say; each view is made by us."""
    from torch._functorch._aot_autograd import runtime_wrappers

    def alias(base: torch.Tensor, like: torch.Tensor, requires_grad: bool, *_: Any, **__: Any) -> torch.Tensor:
        return _view_like(base, like, requires_grad)

    with mock.patch.object(runtime_wrappers, "gen_alias_from_base", alias):
        yield


@contextlib.contextmanager
def overlaps_overlooked() -> Iterator[list[str]]:
    """Pairs of inputs that share elements, one of them written, and are not made views of one base."""
    from torch._functorch._aot_autograd import runtime_wrappers

    found: list[str] = []
    original = runtime_wrappers.merge_view_inputs

    @functools.wraps(original)
    def merge(config: Any, inputs: Any, descs: Any, infos: Any, **given: Any) -> Any:
        made = original(config, inputs, descs, infos, **given)
        kept = made[2] or range(len(inputs))
        apart = [i for i, t in enumerate(inputs) if isinstance(t, torch.Tensor) and isinstance(kept[i], int)]
        found.extend(
            f"inputs {i} and {j}"
            for n, i in enumerate(apart)
            for j in apart[n + 1 :]
            if (infos[i].mutates_data or infos[j].mutates_data) and _overlap(inputs[i], inputs[j])
        )
        return made

    with mock.patch.object(runtime_wrappers, original.__name__, merge):
        yield found


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors, of values or of sizes alone, have an element of one storage in common."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    if storage_key(a) != storage_key(b) or not a.numel() or not b.numel():
        return False
    layouts = [([int(n) for n in t.size()], [int(n) for n in t.stride()], int(t.storage_offset())) for t in (a, b)]
    ends = [at + sum((n - 1) * step for n, step in zip(*each, strict=True)) + 1 for *each, at in layouts]
    with unset_fake_temporarily():
        touched = torch.zeros(max(ends), dtype=torch.bool)
        touched.as_strided(*layouts[0]).fill_(True)
        return bool(touched.as_strided(*layouts[1]).any())


@contextlib.contextmanager
def plain_runtime_wrapper() -> Iterator[None]:
    """The whole innermost wrapper is ours."""

    def change(_: Any, compiled: Any, given: dict[str, Any]) -> Any:
        meta, joint = given["runtime_metadata"], given["trace_joint"]
        detached = set(given["indices_of_inps_to_detach"])
        call = compiled if getattr(compiled, "_boxed_call", False) else lambda args: compiled(*args)

        def run(args: list[Any]) -> Any:
            inputs = dict(enumerate(args))
            if given["keep_input_mutations"]:
                torch.autograd.graph.increment_version(
                    [inputs[i] for i in meta.mutated_graph_handled_indices_seen_by_autograd]
                )
            own = [a.detach() if joint and i in detached and isinstance(a, torch.Tensor) else a
                   for i, a in inputs.items()]  # fmt: skip
            args.clear()
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.set_grad_enabled(joint))
                if given["disable_amp"]:
                    stack.enter_context(torch.amp.autocast("cpu", enabled=False))
                outputs = list(call(own))
            written = len(meta.mutated_inp_runtime_indices)
            _write_back(meta, joint, inputs, outputs[:written])
            results = _results(meta, joint, inputs, outputs[written:])
            if meta.grad_enabled_mutation is not None:
                torch.set_grad_enabled(meta.grad_enabled_mutation)
            return results

        return _boxed(run)

    with _runtime_wrapper(change):
        yield


# -- wrappers around one graph -----------------------------------------------


def _wrapper_classes() -> list[type]:
    """Classes of wrappers that AOTAutograd lays around one graph, which change nothing of an ordinary one."""
    from torch._functorch._aot_autograd import runtime_wrappers
    from torch._functorch._aot_autograd.graph_compile import _create_wrappers_for_dispatch

    outer = {type(w) for w in _create_wrappers_for_dispatch(False)} | {runtime_wrappers.RuntimeWrapper}
    kinds = filter(None, [runtime_wrappers.CompilerWrapper, getattr(runtime_wrappers, "InductorWrapper", None)])
    return [c for c in dict.fromkeys(c for kind in kinds for c in kind.__subclasses__()) if c not in outer]


@contextlib.contextmanager
def graph_wrappers_that_work() -> Iterator[list[str]]:
    """Names of the wrappers around one graph that put something around it in compiles inside."""
    found: list[str] = []

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def post_compile(self: Any, compiled: Any, *args: Any, **kwargs: Any) -> Any:
            made = original(self, compiled, *args, **kwargs)
            if made is not compiled and type(self).__name__ not in found:
                found.append(type(self).__name__)
            return made

        return post_compile

    with contextlib.ExitStack() as stack:
        for c in _wrapper_classes():
            if "post_compile" in vars(c):
                stack.enter_context(mock.patch.object(c, "post_compile", watched(vars(c)["post_compile"])))
        yield found


@contextlib.contextmanager
def without_graph_wrapper(name: str) -> Iterator[None]:
    """The wrapper of this name does nothing."""
    from torch._functorch._aot_autograd import runtime_wrappers

    with mock.patch.object(getattr(runtime_wrappers, name), "post_compile", lambda self, compiled, *a, **k: compiled):
        yield


# -- autograd's function -----------------------------------------------------


@contextlib.contextmanager
def plain_autograd_function() -> Iterator[None]:
    """Forward and backward graph are called by a ``torch.autograd.Function`` of our own."""
    from torch._functorch._aot_autograd import runtime_wrappers

    factory = runtime_wrappers._AOTDispatchAutogradFunctionFactory
    with mock.patch.object(factory, "build", lambda self: _function(self.spec)):
        yield


def _function(spec: Any) -> type[torch.autograd.Function]:
    from torch._functorch._aot_autograd.runtime_wrappers import _AutogradBackwardCompiler
    from torch._functorch._aot_autograd.schemas import MutationType, TensorAlias

    meta = spec.fw_metadata
    written = [meta.input_info[i] for i in meta.mutated_inp_runtime_indices]
    returned = [i for i in meta.input_info if i.mutation_type is MutationType.MUTATED_OUT_GRAPH]
    known = [*returned, *meta.output_info]
    views = {i for i, info in enumerate(written) if info.mutates_metadata and not info.mutates_data}
    views |= {len(written) + i for i in meta.aliased_out_indices}
    results = len(written) + len(meta.output_info) + meta.num_intermediate_bases
    compiler = _AutogradBackwardCompiler(
        compiled_bw=spec.compiled_bw_func, lazy_backward_info=spec.lazy_backward_info, disable_amp=spec.disable_amp,
        bw_compiler=spec.bw_compiler, aot_config=spec.aot_config, fw_metadata=meta, try_save_cache_entry=None,
    )  # fmt: skip
    backward_graph = spec.lazy_backward_info.bw_module.graph
    tangents = [n for n in backward_graph.nodes if n.op == "placeholder" and n.name.startswith("tangents")]
    taken = [i for i in range(results) if _takes_gradient(i, written, meta)]

    class Plain(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            made = list(spec.compiled_fw_func(list(args)))
            saved = made[results:]
            ctx.numbers = [v for v in saved if not isinstance(v, torch.Tensor)]
            # A view of what is returned would hold its own autograd function.
            ctx.save_for_backward(*(v.detach() if v._is_view() else v for v in saved if isinstance(v, torch.Tensor)))
            out = [TensorAlias(v) if i in views else v for i, v in enumerate(made[:results])]
            fixed = [v for v, info in zip(out, known, strict=False) if not info.requires_grad]
            ctx.mark_non_differentiable(*(v for v in fixed if isinstance(v, torch.Tensor)))
            return tuple(out)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            given = [gradients[i] for i in taken]
            laid = [_laid_out(g, n.meta.get("val")) for g, n in zip(given, tangents, strict=True)]
            run = compiler.get_or_compile(saved_tensors_use_once=False)
            arguments = [*ctx.numbers, *ctx.saved_tensors, *laid]
            return _Backward.apply(run, *arguments) if torch.is_grad_enabled() else tuple(run(arguments))

    return Plain


class _Backward(torch.autograd.Function):
    """A compiled backward pass whose results have a place in a graph, and no gradients."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[list[Any]], Any], *arguments: Any) -> Any:
        return tuple(run(list(arguments)))

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError("no gradients of compiled gradients")


def _takes_gradient(number: int, written: Sequence[Any], meta: Any) -> bool:
    """Whether the gradient of this result of the forward graph is an input of the backward graph."""
    if number < len(written):
        return bool(written[number].mutates_data and written[number].requires_grad)
    number -= len(written)
    if number >= len(meta.output_info):
        return True  # bases of views
    info = meta.output_info[number]
    is_tensor = issubclass(info.raw_type, torch.Tensor)
    return bool(is_tensor and info.requires_grad_for_backward and number not in meta.aliased_out_indices)


def _laid_out(gradient: Any, like: Any) -> Any:
    """The gradient in the memory layout that the backward graph was traced with."""
    if not isinstance(gradient, torch.Tensor) or not isinstance(like, torch.Tensor):
        return gradient
    stride = tuple(int(s) for s in like.stride())
    if gradient.stride() == stride:
        return gradient
    return torch.empty_strided(gradient.size(), stride, dtype=gradient.dtype, device=gradient.device).copy_(gradient)
