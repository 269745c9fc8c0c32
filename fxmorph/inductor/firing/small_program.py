"""Small programs as data: what is tried on a pass, changed a little, and tried again."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.inductor.derive.derived_graph import InputSpec, fill, spec_for
from fxmorph.inductor.firing.module_calls import made_module
from fxmorph.programs.inputs import InputSet, relocate
from fxmorph.torchapi.dispatch import OpOverload, tree_leaves, tree_map
from fxmorph.torchapi.factories import device_of
from fxmorph.torchapi.fake import FakeTensorMode, tensor_notes, unlogged
from fxmorph.torchapi.optional_passes import lazy_module
from fxmorph.torchapi.storages import storage_key
from fxmorph.torchapi.symbolic_sizes import SymbolicSizes, at_sizes, symbol_hint

#: Elements that a result may have.
LARGE = 200_000


class Misfit(Exception):
    """The program does not run on its inputs' shapes and dtypes."""


@dataclass(frozen=True)
class In:
    """Input number ``at``."""

    at: int


@dataclass(frozen=True)
class Out:
    """The result of step number ``at``."""

    at: int


@dataclass(frozen=True)
class Step:
    """One call: ``op`` and ``target`` are a node's; of ``call_module`` the target makes the module."""

    op: str
    target: Any
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()


class Sizes(StrEnum):
    """What sizes of inputs are in the graph: numbers; symbols that calls read off tensors, as ``torch.export`` leaves
    them; or symbols that are inputs themselves, as Dynamo and AOTAutograd hand them on.
    """

    STATIC = "static"
    READ = "read"
    GIVEN = "given"


@dataclass(frozen=True)
class SmallProgram:
    """Inputs, calls in order, results; ``made`` says how it came to be.

    ``stated``: its inputs are those that the author of a pattern gave as an example.  ``shared``: results may be
    inputs themselves, as those of exported programs.  ``flat``: modules are the program's own, and not those of a
    module inside of it.
    """

    inputs: tuple[InputSpec, ...]
    steps: tuple[Step, ...]
    outputs: tuple[In | Out, ...]
    made: str = ""
    stated: bool = False
    shared: bool = False
    flat: bool = False
    sizes: Sizes = Sizes.STATIC

    @property
    def key(self) -> str:
        return repr((self.inputs, self.steps, self.outputs, self.flat, self.sizes))

    def mapped(self, change: Callable[[Any], Any]) -> SmallProgram:
        """With every reference to an input or a result changed."""
        steps = tuple(
            replace(s, args=references(s.args, change), kwargs=references(s.kwargs, change)) for s in self.steps
        )
        return replace(self, steps=steps, outputs=tuple(change(o) for o in self.outputs))


@dataclass(frozen=True)
class Built:
    """A program as a graph with fake results in ``meta``, and the inputs that it runs on, on ``device``.

    ``symbols`` are those of its sizes, None where these are numbers.
    """

    program: SmallProgram
    gm: fx.GraphModule
    values: tuple[Any, ...]
    device: str = "cpu"
    symbols: SymbolicSizes | None = None

    def inputs(self) -> InputSet:
        return self._filled(self.program.inputs, {} if self.symbols is None else self.symbols.traced)

    def elsewhere(self) -> Iterator[tuple[InputSet, Mapping[Any, int]]]:
        """(Inputs of other sizes of which all holds that was assumed of the symbols, values of these there)."""
        for numbers in self.symbols.other_values() if self.symbols is not None else ():
            specs = (
                spec if spec.constant else in_shape(spec, [at_sizes(n, numbers) for n in value.shape])
                for spec, value in zip(self.program.inputs, self.values, strict=False)
            )
            yield self._filled(tuple(specs), numbers), numbers

    def _filled(self, specs: Sequence[InputSpec], numbers: Mapping[Any, int]) -> InputSet:
        sizes = [n.meta["val"] for n in self.gm.graph.nodes if n.op == "placeholder"]
        sizes = [at_sizes(size, numbers) for size in sizes if isinstance(size, torch.SymInt)]
        given = [fill(spec, i) for i, spec in enumerate(specs) if not spec.constant]
        return InputSet.snapshot([*sizes, *relocate(given, self.device)])


def references(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested arguments with every :class:`In` and :class:`Out` changed."""
    if isinstance(value, (In, Out)):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)(references(v, change) for v in value)
    return value


def build(program: SmallProgram, device: str = "cpu") -> Built:
    """Raises :class:`Misfit`."""
    try:
        with unlogged():
            return _build(program, device)
    except Misfit:
        raise
    except Exception as error:
        raise Misfit(said(error)) from error


def _build(program: SmallProgram, device: str) -> Built:
    root, graph = torch.nn.Module(), fx.Graph()
    symbols = None if program.sizes is Sizes.STATIC else SymbolicSizes()
    mode = FakeTensorMode(allow_non_fake_inputs=True) if symbols is None else symbols.mode
    sized = [] if symbols is None else _symbolic(program, symbols, device)
    inputs: list[fx.Node] = []
    with mode, torch.no_grad():
        for i, spec in enumerate(program.inputs):
            if not spec.constant:
                fake = _empty(spec, device) if symbols is None else sized[i]
                inputs.append(_noted(graph.placeholder(f"arg{i}_1"), fake))
                continue
            inputs.append(graph.placeholder(f"arg{i}_1"))  # in the order of inputs; it becomes an attribute below
        for i, spec in enumerate(program.inputs):
            if spec.constant:
                root.register_buffer(f"constant_{i}", torch.empty(0))  # its values come below
                attribute = _noted(graph.get_attr(f"constant_{i}"), _empty(spec, device))
                graph.erase_node(inputs[i])
                inputs[i] = attribute
        modules = _modules(root, program)
        steps: list[fx.Node] = []
        for step in program.steps:
            steps.append(_emitted(root, graph, step, modules, inputs, steps, device))
    if symbols is not None and not symbols.free:
        raise Misfit("it fits these sizes alone")
    if program.sizes is Sizes.GIVEN:
        _give_sizes(graph)
    place: dict[Any, fx.Node] = {**{In(i): n for i, n in enumerate(inputs)}, **{Out(i): n for i, n in enumerate(steps)}}
    given = [place[o] for o in program.outputs]
    outputs = given if program.shared else _apart(given, graph, mode)
    graph.output(tuple(outputs))
    for i, spec in enumerate(program.inputs):
        if spec.constant:
            _set_constant(root, f"constant_{i}", relocate(fill(spec, i), device))
    values = tuple(n.meta["val"] for n in [*inputs, *steps])
    return Built(program, lazy_module(root, graph), values, device, symbols)  # type: ignore[arg-type]


def _symbolic(program: SmallProgram, symbols: SymbolicSizes, device: str) -> list[torch.Tensor]:
    """Inputs with symbols for sizes; that of one whose size is read and nothing else is no other's."""
    counted = _only_counted(program)
    return [symbols.fake(_empty(s, device), f"x{i}", i in counted) for i, s in enumerate(program.inputs)]


def _only_counted(program: SmallProgram) -> set[int]:
    """Inputs of which a size is read and nothing else."""
    read = {i for step in program.steps if not is_size(step) for i in _inputs_of(step)}
    return {i for step in program.steps for i in _inputs_of(step)} - read


def is_size(step: Step) -> bool:
    """Whether a call reads one size of a tensor."""
    return step.target is torch.ops.aten.sym_size.int or (step.op == "call_method" and step.target == "size")


def _inputs_of(step: Step) -> Iterator[int]:
    for value in tree_leaves([step.args, [v for _, v in step.kwargs]]):
        if isinstance(value, In):
            yield value.at


def _give_sizes(graph: fx.Graph) -> None:
    """Symbols are inputs, before all others, in the place of calls that read them."""
    given: dict[str, fx.Node] = {}
    first = next(iter(graph.nodes))
    for node in list(graph.nodes):
        value = node.meta["val"]
        if not isinstance(value, torch.SymInt) or not is_size(Step(node.op, node.target)):
            continue
        if str(value) not in given:
            with graph.inserting_before(first):
                given[str(value)] = _noted(graph.placeholder(f"arg_{value}"), value)
        node.replace_all_uses_with(given[str(value)])
        graph.erase_node(node)


def _set_constant(root: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    """A parameter of what can be trained, as exported and frozen models have them; a buffer of the rest."""
    if value.is_floating_point():
        delattr(root, name)
        root.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    else:
        setattr(root, name, value)


def _empty(spec: InputSpec, device: str) -> torch.Tensor:
    return torch.empty_strided(spec.shape, spec.stride, dtype=getattr(torch, spec.dtype), device=device)


def _noted(node: fx.Node, value: Any) -> fx.Node:
    node.meta.update(tensor_notes(value))
    return node


def _emitted(
    root: torch.nn.Module,
    graph: fx.Graph,
    step: Step,
    modules: dict[Any, str],
    inputs: list[fx.Node],
    steps: list[fx.Node],
    device: str,
) -> fx.Node:
    def place(ref: Any) -> fx.Node:
        return inputs[ref.at] if isinstance(ref, In) else steps[ref.at]

    args, kwargs = references(step.args, place), dict(references(step.kwargs, place))
    target = step.target
    kwargs |= device_of(target, args, kwargs, device)
    real_args, real_kwargs = tree_map(_value, args), tree_map(_value, kwargs)
    if step.op == "call_module":
        target = modules[step.target]
        result = root.get_submodule(target)(*real_args, **real_kwargs)
    elif step.op == "call_method":
        result = getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
    else:
        result = target(*real_args, **real_kwargs)
    if any(symbol_hint(t.numel()) > LARGE for t in tree_leaves(result) if isinstance(t, torch.Tensor)):
        raise Misfit("large results")
    return _noted(graph.create_node(step.op, target, tuple(args), kwargs), result)


def _modules(root: torch.nn.Module, program: SmallProgram) -> dict[Any, str]:
    """Names of the modules that are called, each made once however often it is, by what makes them."""
    names: dict[Any, str] = {}
    makers = dict.fromkeys(step.target for step in program.steps if step.op == "call_module")
    inside = root
    if makers and not program.flat:
        inside = torch.nn.Module()
        root.add_module("block", inside)
    for make in makers:
        name = f"module_{len(names)}"
        inside.add_module(name, made_module(make))
        names[make] = name if program.flat else f"block.{name}"
    return names


def _value(value: Any) -> Any:
    return value.meta["val"] if isinstance(value, fx.Node) else value


def _apart(outputs: Sequence[fx.Node], graph: fx.Graph, mode: Any) -> list[fx.Node]:
    """Results that share memory with an input or with each other are computed from: no graph of AOTAutograd has such.

    Of what is no tensor, its tensors.
    """
    flat: list[fx.Node] = []
    with mode, torch.no_grad():
        for node in outputs:
            value = node.meta["val"]
            if isinstance(value, (tuple, list)):
                picked = [i for i, v in enumerate(value) if isinstance(v, torch.Tensor)]
                flat += [_noted(graph.call_function(operator.getitem, (node, i)), value[i]) for i in picked]
            elif isinstance(value, torch.Tensor):
                flat.append(node)
        held = {_memory(n) for n in graph.nodes if n.op in ("placeholder", "get_attr")}
        out = []
        for node in flat:
            if _memory(node) in held:
                node = _computed_from(node, graph)
            held.add(_memory(node))
            out.append(node)
    if not out:
        raise Misfit("no results")
    return out


def _memory(node: fx.Node) -> int:
    value = node.meta["val"]
    return storage_key(value) if isinstance(value, torch.Tensor) else -1


def _computed_from(node: fx.Node, graph: fx.Graph) -> fx.Node:
    aten = torch.ops.aten
    at_torch = not any(isinstance(n.target, OpOverload) for n in graph.nodes)
    boolean = node.meta["val"].dtype == torch.bool
    function = (torch.logical_not if boolean else torch.neg) if at_torch else (
        aten.logical_not.default if boolean else aten.neg.default
    )  # fmt: skip
    return _noted(graph.call_function(function, (node,)), function(node.meta["val"]))


def program_of(graph: fx.Graph, inputs: Sequence[InputSpec], made: str) -> SmallProgram:
    """The program that a graph is; ``inputs`` are those of its placeholders.  Raises :class:`Misfit`."""
    place: dict[fx.Node, In | Out] = {}
    steps: list[Step] = []
    outputs: list[In | Out] = []
    count = itertools.count()

    def ref(value: Any) -> Any:
        map_arg: Any = fx.node.map_arg
        return map_arg(value, lambda read: place[read])

    for node in graph.nodes:
        if node.op == "placeholder":
            place[node] = In(next(count))
        elif node.op == "output":
            outputs = [place[n] for n in node.all_input_nodes]
        elif node.op in ("call_function", "call_method"):
            place[node] = Out(len(steps))
            args, kwargs = _plain(ref(node.args)), _plain(ref(node.kwargs))
            steps.append(Step(node.op, node.target, tuple(args), tuple(kwargs.items())))
        else:
            raise Misfit(f"{node.op} {node.target}")
    if next(count) != len(inputs):
        raise Misfit("inputs that are not known")
    return SmallProgram(tuple(inputs), tuple(steps), tuple(outputs), made)


def _plain(value: Any) -> Any:
    """Arguments in plain lists and dictionaries: those of a graph cannot be changed."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(v) for v in value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


def tensor_spec(shape: Sequence[int], dtype: str = "float32", fill: str = "normal") -> InputSpec:
    """A contiguous input."""
    return spec_for(torch.empty(tuple(shape), dtype=getattr(torch, dtype), device="meta"), fill)


def in_shape(spec: InputSpec, shape: Sequence[int]) -> InputSpec:
    """The input in another shape, contiguous; what it holds, and whether it is a parameter, stay."""
    return replace(tensor_spec(shape, spec.dtype, spec.fill), constant=spec.constant)
