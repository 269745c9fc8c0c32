"""Titles say what the program does and what comes out, in PyTorch's words, on one line."""

from __future__ import annotations

from typing import Any

import pytest

from fxmorph.core.exhibit import Exhibit
from fxmorph.core.finding_parts import Draft, Repro
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.title import MOST, title, what
from fxmorph.triage.folder.unit_words import gone_without, unit_in_words

PROGRAM = """\
def make_inputs():
    return [torch.ones(2), torch.ones(2)]

def fn(l_x_, l_y_):
{}
"""


def finding(kind: Kind, *lines: str, stage: str = "inductor", unit: str = "", **more: Any) -> Finding:
    program = PROGRAM.format("\n".join(f"    {line}" for line in lines or ("add = l_x_ + l_y_", "return (add,)")))
    return Finding(
        "ab", "c", "s", "", (kind,), BugClass.UGO, stage, unit, "seed-miscompiled", "ab", "", program,
        **{"repro": Repro({}), **more},
    )  # fmt: skip


def seen(kind: Kind, eager: str, compiled: str, snippet: str = "") -> Draft:
    return Draft(snippet, f"eager: {eager}\ncompiled: {compiled}", kind.value, eager, compiled)


@pytest.mark.parametrize(
    ("kind", "eager", "compiled", "said"),
    [
        (Kind.VALUE, "1.0", "2.0", "returns wrong values"),
        (Kind.VALUE, "tensor(1.)", "tensor(nan)", "gives NaN where eager is finite"),
        (Kind.NONFINITE, "tensor(inf)", "tensor(1.)", "loses the Inf of eager"),
        (Kind.DTYPE, "torch.float16", "torch.int64", "returns int64 instead of float16"),
        (Kind.STRIDE, "(1, 4)", "(3, 1)", "returns strides (3, 1) instead of (1, 4)"),
        (Kind.SHAPE, "torch.Size([2])", "torch.Size([3])", "returns shape [3] instead of [2]"),
        (Kind.ALIAS, "False", "True", "returns memory of its input"),
        (Kind.ALIAS, "True", "False", "returns a copy instead of a view of its input"),
        (Kind.IDENTITY, "False", "True", "returns its input itself"),
        (Kind.GRADIENT, "tensor([1., 2.])", "tensor([0., -0.])", "gives zero gradients"),
        (Kind.GRADIENT, "tensor([1., 2.])", "tensor([0., 1.])", "gives wrong gradients"),
        (Kind.REQUIRES_GRAD, "True", "False", "returns requires_grad=False instead of True"),
        (Kind.MUTATION, "tensor(1.)", "tensor(2.)", "leaves wrong values in its input"),
    ],
)
def test_the_outcome_is_what_was_printed(kind: Kind, eager: str, compiled: str, said: str) -> None:
    assert title(finding(kind, draft=seen(kind, eager, compiled))) == f"[inductor] `x + y` {said}"


OF_SEVERAL = """\
import torch

def f(x, y):
    a = x.cos()
    x.add_(1)
    c = y.sin()
    return (a, c * 2)

x, y = torch.ones(2), torch.ones(2)
print("eager:", f(x, y)[{}])
print("compiled:", torch.compile(f)(x, y)[{}])
"""


def test_of_several_results_the_title_tells_what_makes_the_one_that_is_printed() -> None:
    made = title(finding(Kind.VALUE, draft=seen(Kind.VALUE, "1", "2", OF_SEVERAL.format(1, 1))))
    assert made == "[inductor] `x.add_(1); y.sin() * 2` returns wrong values"
    made = title(finding(Kind.VALUE, draft=seen(Kind.VALUE, "1", "2", OF_SEVERAL.format(0, 0))))
    assert made == "[inductor] `a = x.cos(); x.add_(1)` returns wrong values"
    whole = OF_SEVERAL.replace("[{}]", "[0, 1]")
    assert "cos" in title(finding(Kind.VALUE, draft=seen(Kind.VALUE, "1", "2", whole)))


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_a_title_without_a_snippet(kind: Kind) -> None:
    assert title(finding(kind)).startswith("[inductor] `x + y` ") and what(finding(kind))


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (("RuntimeError: no", ""), "does not raise the RuntimeError of eager"),
        (("", "ValueError: no"), "raises ValueError, eager does not"),
    ],
)
def test_who_raises_is_told(raised: tuple[str, str], said: str) -> None:
    assert title(finding(Kind.RAISES, exhibit=Exhibit(raised=raised))) == f"[inductor] `x + y` {said}"


def test_code_of_a_write_is_told_without_what_is_returned() -> None:
    made = finding(Kind.VALUE, "l_x_[1:] = l_x_[:-1].clone()", "return (l_x_,)", unit="post_grad.remove_noop_ops")
    assert title(made) == "[inductor] `x[1:] = x[:-1].clone()` returns wrong values (`remove_noop_ops`)"


def test_of_long_programs_the_operators_of_the_unit_come_first_then_those_nearest_the_output() -> None:
    lines = (
        "a = torch.full((3, 3), 2.0).cumsum(0)",
        "b = torch.matmul(a, l_x_.reshape(3, 1)).softmax(-1)",
        "c = torch.nn.functional.gelu(b, approximate='tanh') + a + a",
        "return (c.amax(0), a)",
    )
    made = finding(Kind.VALUE, *lines, unit="post_grad.pass_patterns[1]/pointless_cumsum_replacement")
    assert title(made).startswith("[inductor] `cumsum` + `gelu` + `amax` returns wrong values")
    assert len(title(made)) <= MOST


@pytest.mark.parametrize(
    ("stage", "prefix"),
    [("dynamo", "[dynamo]"), ("aot", "[aot_autograd]"), ("decomposition", "[decomp]"), ("inductor", "[inductor]")],
)
def test_the_stage_comes_first(stage: str, prefix: str) -> None:
    assert title(finding(Kind.VALUE, stage=stage)).startswith(prefix + " ")


def test_essential_facts_of_inputs_and_compile_are_told() -> None:
    snippet = "import torch\n\ndef f(x):\n    return x.sum()\n\nx = torch.ones(3, 2, dtype=torch.float16).mT\n"
    made = finding(Kind.STRIDE, draft=seen(Kind.STRIDE, "(1,)", "(2,)", snippet))
    assert title(made).endswith("instead of (1,) for a transposed input for float16")
    assert title(finding(Kind.VALUE, repro=Repro({"compile": {"dynamic": True}}))).endswith(" with dynamic=True")


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("post_grad.pass_patterns[1]/pointless_cumsum_replacement", "the pattern `pointless_cumsum_replacement`"),
        ("joint.constant_fold_uniform_value/remove_no_ops", "`remove_no_ops` of `constant_fold_uniform_value` (joint"),
        ("joint.remove_noop_ops", "`remove_noop_ops` (joint graph passes)"),
        ("decomposition.aten.addmm.default", "the decomposition of `aten.addmm`"),
        ("lowering.aten.max.dim", "the lowering of `aten.max.dim`"),
        ("lowering.layout_optimization", "the setting `layout_optimization`"),
        ("codegen.CppVecOverrides.remainder", "vectorised C++ code of `remainder`"),
        ("codegen.CppKernel", "C++ code"),
        ("codegen.TritonOverrides.exp", "Triton code of `exp`"),
        ("codegen.CppPrinter", "`CppPrinter` (code generation)"),
        ("codegen.SizeVarAllocator/_simplify_loops_impl", "`SizeVarAllocator._simplify_loops_impl` (code generation)"),
        ("scheduler.inplace_buffers", "`inplace_buffers` (scheduler)"),
        ("aot.graph_capture", "`graph_capture` (AOTAutograd)"),
    ],
)  # fmt: skip
def test_units_are_told_in_pytorchs_words(unit: str, words: str) -> None:
    assert unit_in_words(unit).startswith(words)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("joint.remove_noop_ops", "with `remove_noop_ops` (joint graph passes) switched off"),
        ("lowering.emulate_precision_casts", "with the setting `emulate_precision_casts` switched on"),
        ("functionalization.gen_alias_from_base", "with `gen_alias_from_base` (functionalization) replaced by a plain"),
        ("codegen.CppVecKernel.reduction", "with vectorised C++ code switched off; of that code, `reduction` is"),
        ("codegen.CppKernel", "where the loops that C++ code is generated from are interpreted instead"),
        ("codegen.cpp_builder", "where the C++ compiler is given `-fno-tree-vectorize`, and where kernels are"),
    ],
)
def test_what_makes_it_go_is_told(unit: str, words: str) -> None:
    assert gone_without(unit).startswith(f"gone {words}")


def test_what_caches_answer_is_told() -> None:
    cached = finding(Kind.VALUE, stage="cache", draft=seen(Kind.VALUE, "1.0", "2.0"))
    assert title(cached) == "[inductor] `x + y` returns wrong values when compile caches answer"
