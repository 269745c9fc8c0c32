"""A graph that a pattern expression matches, built from the expression itself.

The recursion follows the expression: named arguments are one node each, an expression object that
occurs twice is one node, what may be anything is filled by :mod:`fxmorph.inductor.derive.leaves`.  Every
node is run on fake tensors as it is made, so that shapes and dtypes are known to what comes next.
"""

from __future__ import annotations

import operator
import random
from dataclasses import dataclass, field, replace
from types import MethodType
from typing import Any

import torch
from torch import fx

from fxmorph.inductor.derive.derived_graph import InputSpec, spec_for
from fxmorph.inductor.derive.leaves import (
    ARITHMETIC,
    RANKS,
    RESHAPING,
    SAME_SHAPE,
    TENSORS,
    Choices,
    Place,
    choices,
    scalar,
    tensor_shape,
)
from fxmorph.programs.graph import print_graph
from fxmorph.torchapi.dispatch import OpOverload, OpOverloadPacket, schema_of, tree_map
from fxmorph.torchapi.fake import FakeTensorMode
from fxmorph.torchapi.pattern_expressions import Call, Leaf, Outputs, Repeated

#: Overloads to try of an operator that a pattern names without one.
_OVERLOADS = ("Tensor", "default", "self", "Scalar", "dim", "int")


class Misfit(Exception):
    """This attempt gives no graph; the message says why."""


@dataclass(frozen=True)
class Sketch:
    """Graph text and the inputs that its placeholders take, in order."""

    text: str
    inputs: tuple[InputSpec, ...]


@dataclass
class _Builder:
    rng: random.Random
    chosen: Choices
    frozen: bool
    graph: fx.Graph = field(default_factory=fx.Graph)
    mode: Any = field(default_factory=FakeTensorMode)
    inputs: list[tuple[fx.Node, InputSpec]] = field(default_factory=list)
    named: dict[str, Any] = field(default_factory=dict)
    made: dict[int, Any] = field(default_factory=dict)
    users: list[tuple[fx.Node, int]] = field(default_factory=list)

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype, fill: str, constant: bool) -> fx.Node:
        with self.mode:
            value = torch.empty(shape, dtype=dtype)
        node = self.graph.placeholder(f"p{len(self.inputs)}")
        node.meta["val"] = value
        self.inputs.append((node, spec_for(value, fill, constant)))
        return node

    def leaf(self, place: Place) -> Any:
        if place.type.startswith("Optional[Tensor") and not self.chosen.optional:
            return None
        if place.is_tensor:
            dtype, fill = TENSORS.get(place.name) or TENSORS.get(place.argument) or (None, "normal")
            if place.argument == "input" and place.op.startswith("dequantize"):
                dtype = torch.int8 if "channel" in place.op else self.chosen.integer
            elif place.op == "_int_mm" or (place.op == "convert_element_type" and place.is_weight):
                dtype = torch.int8
            elif place.op in ARITHMETIC or (place.name in ("x", "accum") and not place.op.startswith("q")):
                dtype = None
            if dtype is None and place.beside and place.op in SAME_SHAPE | {"mm", "addmm", "bmm", "convolution"}:
                dtype = place.beside[0].dtype
            if place.op == "where" and place.argument == "condition":
                dtype = torch.bool
            if place.name == "packed_weight":
                fill = "packed-linear" if place.op.startswith("qlinear") else "packed-conv"
            shape = tensor_shape(place, self.chosen, self.rng)
            scaling = self.chosen.per_channel and place.op in ARITHMETIC
            constant = self.frozen and (place.is_parameter or scaling)
            made = self.tensor(shape, dtype or self.chosen.dtype, fill, constant)
            if self.chosen.computed and place.op in ARITHMETIC and not constant:
                return self.emit("call_function", torch.ops.aten.neg.default, (made,), {})
            return made
        if place.type.startswith("List[") and "Tensor" in place.type:
            each = Place(place.op, place.argument, "Tensor", "", place.rank, place.beside)
            return [self.leaf(each) for _ in range(self.rng.choice((2, 3)))]
        try:
            return scalar(place, self.chosen, self.rng)
        except KeyError as error:
            raise Misfit(f"no value for a {error.args[0]} ({place.op}, {place.argument or place.name})") from None

    def build(self, value: Any, place: Place) -> Any:
        if isinstance(value, Leaf):
            if not value.name:
                return self.leaf(place)
            if value.name not in self.named:
                named = Place(place.op, place.argument, place.type, value.name, place.rank, place.beside)
                self.named[value.name] = self.leaf(named)
            return self.named[value.name]
        if isinstance(value, Call):
            if value.number not in self.made:
                self.made[value.number] = self.call(value, place.rank)
            return self.made[value.number]
        if isinstance(value, Repeated):
            return self.repeated(value, place)
        if isinstance(value, (list, tuple)):
            return type(value)(self.build(v, place) for v in value)
        return value

    def repeated(self, value: Repeated, place: Place) -> Any:
        if value.several:
            return self.build(value.element, place)
        members = []
        for _ in range(self.rng.choice((2, 3))):
            kept, named = dict(self.made), dict(self.named)
            members.append(self.build(value.element, place))
            shared = {n: m for n, m in self.made.items() if n in kept}
            self.made, self.named = {**shared, **kept}, named
        return members

    def call(self, call: Call, rank: int | None) -> fx.Node:
        problems = []
        for target in self.targets(call):
            state = (dict(self.named), dict(self.made), len(self.inputs), len(self.users), len(self.graph.nodes))
            try:
                node = self.call_target(call, target, rank)
            except Misfit:
                raise
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
                self.undo(*state)
                continue
            if call.users is not None:
                self.users.append((node, call.users))
            return node
        raise Misfit(problems[0] if problems else f"no operator that can be called among {call.targets[:2]}")

    def undo(self, named: dict[str, Any], made: dict[int, Any], inputs: int, users: int, nodes: int) -> None:
        self.named, self.made = named, made
        del self.inputs[inputs:], self.users[users:]
        for node in list(self.graph.nodes)[nodes:][::-1]:
            self.graph.erase_node(node)

    def targets(self, call: Call) -> list[Any]:
        if call.op != "call_function":
            return list(call.targets[:1]) if call.op == "call_method" else []
        overloads = [t for t in call.targets if isinstance(t, OpOverload)]
        if overloads:
            usable = [t for t in overloads if not any(a.is_out for a in schema_of(t).arguments)]
            known = [t for name in _OVERLOADS for t in usable if t._overloadname == name]
            return [*known, *(t for t in usable if t not in known)][:4]
        functions = [t for t in call.targets if not isinstance(t, OpOverloadPacket | MethodType)]
        if not functions:
            raise Misfit(f"no FX graph calls {call.targets[0].__qualname__}")
        return functions[:2]

    def call_target(self, call: Call, target: Any, rank: int | None) -> fx.Node:
        name = target._opname if isinstance(target, OpOverload) else getattr(target, "__name__", str(target))
        arguments = list(schema_of(target).arguments) if isinstance(target, OpOverload) else []
        wanted = call.args
        if wanted is None:
            wanted = tuple(Leaf() for a in arguments if not a.has_default_value() and not a.kwarg_only)
        inner = RANKS.get(name, rank if name in SAME_SHAPE or name == "expand" else None)
        if name in ("reshape", "view") and rank == 2:
            inner = 3  # what is made 2-D for a product of matrices had more dimensions
        if name.startswith(("_conv", "conv", "qconv")) and self.chosen.rank == 5:
            inner = 5
        values: list[Any] = [None] * len(wanted)
        order = sorted(range(len(wanted)), key=lambda i: isinstance(wanted[i], Leaf))
        kwargs: dict[str, Any] = {}

        def place(argument: Any) -> Place:
            kind = str(argument.type) if argument is not None else "Tensor"
            present = [v for v in [*values, *kwargs.values()] if isinstance(v, fx.Node)]
            beside = tuple(v.meta["val"] for v in present if isinstance(v.meta["val"], torch.Tensor))
            resized = name in RESHAPING and "Tensor" not in kind
            return Place(name, getattr(argument, "name", ""), kind, "", rank if resized else inner, beside)

        for i in order:
            at = place(arguments[i] if i < len(arguments) else None)
            if target is operator.getitem and i == 1:
                at = replace(at, type="int", argument="index")
            values[i] = self.build(wanted[i], at)
        by_name = {a.name: a for a in arguments}
        if "out_dtype" in by_name and name.startswith("dequantize") and self.chosen.dtype == torch.bfloat16:
            kwargs["out_dtype"] = torch.bfloat16
        for key, value in call.kwargs.items():
            kwargs[key] = self.build(value, place(by_name.get(key)))
        for argument in arguments[len(values) :]:
            if not argument.has_default_value() and argument.name not in kwargs:
                kwargs[argument.name] = self.leaf(place(argument))
        return self.emit(call.op, target, tuple(values), kwargs)

    def emit(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        def value(x: Any) -> Any:
            return x.meta["val"] if isinstance(x, fx.Node) else x

        real_args, real_kwargs = tree_map(value, args), tree_map(value, kwargs)
        with self.mode, torch.no_grad():
            if op == "call_method":
                result = getattr(real_args[0], target)(*real_args[1:], **real_kwargs)
            else:
                result = target(*real_args, **real_kwargs)
        node = self.graph.create_node(op, target, args, kwargs)
        node.meta["val"] = result
        return node

    def finish(self, roots: list[Any]) -> Sketch:
        outputs: list[fx.Node] = []
        if self.chosen.readers and len(roots) == 1 and isinstance(roots[0].meta["val"], torch.Tensor):
            make = torch.ops.aten.neg.default
            roots = [self.emit("call_function", make, (roots[0],), {}) for _ in range(self.chosen.readers)]
        for root in roots:
            if not isinstance(root, fx.Node):
                continue
            value = root.meta["val"]
            if isinstance(value, torch.Tensor):
                outputs.append(root)
            elif isinstance(value, (tuple, list)):
                outputs.extend(self.element(root, i) for i in range(len(value)))
        for node, users in self.users:
            if node not in outputs and len(node.users) < users:
                outputs.append(node)
        self.graph.output(tuple(outputs))
        ordered = _inputs_first(self.graph)
        return Sketch(print_graph(ordered), tuple(spec for _, spec in self.inputs))

    def element(self, node: fx.Node, index: int) -> fx.Node:
        for user in node.users:
            if user.target is operator.getitem and user.args[1] == index:
                return user
        return self.emit("call_function", operator.getitem, (node, index), {})


def _inputs_first(graph: fx.Graph) -> fx.Graph:
    new = fx.Graph()
    seen: dict[fx.Node, fx.Node] = {}
    for node in sorted(graph.nodes, key=lambda n: n.op != "placeholder"):
        seen[node] = new.node_copy(node, lambda n: seen[n])
    return new


def sketch(expression: Any, seed: int, attempt: int, frozen: bool) -> Sketch:
    """One attempt at a graph that the expression matches; raises :class:`Misfit`.

    ``frozen``: parameters are constants, as after freezing.
    """
    rng = random.Random(f"{seed} {attempt}")
    builder = _Builder(rng, choices(rng, attempt, frozen), frozen)
    anywhere = Place("", "", "Tensor", "", None, ())
    members = expression.members if isinstance(expression, Outputs) else (expression,)
    roots = [builder.build(m, anywhere) for m in members if m is not None]
    return builder.finish([r for root in roots for r in (root if isinstance(root, list) else [root])])
