"""Small programs of what every stage knows, for passes that name no operators: dead and repeated nodes, copies, views.

Each is text that :func:`fxmorph.programs.graph.read_graph` reads, with the inputs that it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fxmorph.inductor.derive.derived_graph import InputSpec
from fxmorph.inductor.firing.small_program import SmallProgram, program_of, tensor_spec
from fxmorph.programs.graph import read_graph

_X, _Y = tensor_spec((4, 6)), tensor_spec((4, 6))
_W = tensor_spec((6, 8))
_PARAMETER = InputSpec("float32", (4, 6), (6, 1), "normal", True)
_IMAGE = tensor_spec((2, 4, 6, 6))
_HALF = tensor_spec((4, 6), "float16")
_WHOLE = tensor_spec((4, 6), "int64")

#: (What it is, inputs, statements, ...)
_ATEN: tuple[tuple[Any, ...], ...] = (
    ("one call", (_X,), "a = aten.sin.default(x0)", "return (a,)"),
    (
        "equal calls",
        (_X,),
        "a = aten.sin.default(x0)",
        "b = aten.sin.default(x0)",
        "c = aten.mul.Tensor(a, b)",
        "return (c,)",
    ),
    (
        "almost equal calls",
        (_WHOLE,),
        "a = aten.mul.Tensor(x0, 2)",
        "b = aten.mul.Tensor(x0, 2.0)",
        "c = aten.div.Tensor(a, b)",
        "d = aten.cat.default([a, a])",
        "e = aten.neg.default(b)",
        "return (e, c, d)",
    ),
    ("a call that nothing reads", (_X,), "a = aten.sin.default(x0)", "b = aten.cos.default(x0)", "return (a,)"),
    ("a copy of an input", (_X,), "a = aten.clone.default(x0)", "return (a,)"),
    (
        "a copy between calls",
        (_X,),
        "a = aten.sin.default(x0)",
        "b = aten.clone.default(a)",
        "c = aten.cos.default(b)",
        "return (c,)",
    ),
    (
        "a sum of products",
        (_X, _Y),
        "a = aten.mul.Tensor(x0, x1)",
        "b = aten.add.Tensor(a, x0)",
        "c = aten.relu.default(b)",
        "return (c,)",
    ),
    ("a product of matrices", (_X, _W), "a = aten.mm.default(x0, x1)", "b = aten.relu.default(a)", "return (b,)"),
    (
        "two products of one matrix",
        (_X, _W, _W),
        "a = aten.mm.default(x0, x1)",
        "b = aten.mm.default(x0, x2)",
        "return (a, b)",
    ),
    (
        "a parameter",
        (_X, _PARAMETER),
        "a = aten.add.Tensor(x0, x1)",
        "b = aten.mul.Tensor(x1, 2.0)",
        "c = aten.mul.Tensor(a, b)",
        "return (c,)",
    ),
    ("made constants", (_X,), "a = aten.full.default([4, 6], 2.0)", "b = aten.mul.Tensor(x0, a)", "return (b,)"),
    (
        "views there and back",
        (_X,),
        "a = aten.view.default(x0, [24])",
        "b = aten.view.default(a, [4, 6])",
        "c = aten.sin.default(b)",
        "return (c,)",
    ),
    (
        "a split that is joined",
        (_X,),
        "a = aten.split.Tensor(x0, 2)",
        "b = a[0]",
        "c = a[1]",
        "d = aten.cat.default([b, c])",
        "return (d,)",
    ),
    (
        "casts there and back",
        (_X,),
        "a = prims.convert_element_type.default(x0, torch.float16)",
        "b = prims.convert_element_type.default(a, torch.float32)",
        "c = aten.add.Tensor(b, 1)",
        "return (c,)",
    ),
    ("half arithmetic", (_HALF, _HALF), "a = aten.mul.Tensor(x0, x1)", "b = aten.add.Tensor(a, x0)", "return (b,)"),
    ("whole numbers", (_WHOLE,), "a = aten.sum.default(x0)", "b = aten.add.Tensor(x0, a)", "return (b,)"),
    (
        "a norm in simple calls",
        (_X,),
        "a = aten.pow.Tensor_Scalar(x0, 2)",
        "b = aten.mean.dim(a, [-1], True)",
        "c = aten.add.Tensor(b, 1e-5)",
        "d = aten.rsqrt.default(c)",
        "e = aten.mul.Tensor(x0, d)",
        "return (e,)",
    ),
    (
        "a softmax in simple calls",
        (_X,),
        "a = aten.amax.default(x0, [-1], True)",
        "b = aten.sub.Tensor(x0, a)",
        "c = aten.exp.default(b)",
        "d = aten.sum.dim_IntList(c, [-1], True)",
        "e = aten.div.Tensor(c, d)",
        "return (e,)",
    ),
    (
        "an image",
        (_IMAGE, tensor_spec((4, 4, 3, 3))),
        "a = aten.convolution.default(x0, x1, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)",
        "b = aten.relu.default(a)",
        "return (b,)",
    ),
    ("several results", (_X,), "a = aten.max.dim(x0, 1)", "b = a[0]", "c = a[1]", "return (b, c)"),
    (
        "a write into an input",
        (_X,),
        "a = aten.mul.Tensor(x0, 2)",
        "b = aten.copy_.default(x0, a)",
        "c = aten.add.Tensor(a, 1)",
        "return (c,)",
    ),
)
_TORCH: tuple[tuple[Any, ...], ...] = (
    ("one call", (_X,), "a = torch.sin(x0)", "return (a,)"),
    ("equal calls", (_X,), "a = torch.sin(x0)", "b = torch.sin(x0)", "c = a * b", "return (c,)"),
    (
        "almost equal calls",
        (_WHOLE,),
        "a = x0 * 2",
        "b = x0 * 2.0",
        "c = a / b",
        "d = a + 1",
        "e = -b",
        "return (e, c, d)",
    ),
    ("a call that nothing reads", (_X,), "a = torch.sin(x0)", "b = torch.cos(x0)", "return (a,)"),
    ("operators of Python", (_X, _Y), "a = x0 * x1", "b = a + x0", "c = torch.relu(b)", "return (c,)"),
    (
        "methods",
        (_X,),
        "a = x0.view(24)",
        "b = a.contiguous()",
        "c = b.reshape(4, 6)",
        "d = c.detach()",
        "e = d.sin()",
        "return (e,)",
    ),
    (
        "a linear layer",
        (_X, tensor_spec((8, 6)), tensor_spec((8,))),
        "a = torch.nn.functional.linear(x0, x1, x2)",
        "b = torch.nn.functional.relu(a)",
        "return (b,)",
    ),
    (
        "a split that is joined",
        (_X,),
        "a = torch.split(x0, 2)",
        "b = a[0]",
        "c = a[1]",
        "d = torch.cat([b, c])",
        "return (d,)",
    ),
    (
        "drop-out that drops nothing",
        (_X,),
        "a = torch.nn.functional.dropout(x0, 0.5, False)",
        "b = torch.sin(a)",
        "return (b,)",
    ),
    (
        "arguments by numpy's names",
        (_X, _Y),
        "a = torch.mul(x1=x0, x2=x1)",
        "b = torch.sum(a, axis=-1, keepdims=True)",
        "c = torch.amax(x0, axis=0)",
        "d = b + c",
        "return (d,)",
    ),
    ("a write into an intermediate", (_X,), "a = torch.sin(x0)", "b = a.add_(1)", "c = a * b", "return (c,)"),
)


def commonplace(aten: bool) -> Iterator[SmallProgram]:
    """Those of ATen's operators, or of torch's functions."""
    for what, inputs, *lines in _ATEN if aten else _TORCH:
        text = "".join(f"    {line}\n" for line in lines)
        body = text.replace("aten.", "torch.ops.aten.").replace("prims.", "torch.ops.prims.")
        graph = read_graph(f"def fn({', '.join(f'x{i}' for i in range(len(inputs)))}):\n{body}")
        yield program_of(graph, inputs, what)
