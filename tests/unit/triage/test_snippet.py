"""Snippets are short, run as they are, and show what the finding says; what they print was printed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.finding_parts import Blame, Draft, Repro
from fxmorph.core.records import to_json
from fxmorph.core.units import Stage
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.blame.culprit import redo_of
from fxmorph.triage.folder.generated_kernels import kernels
from fxmorph.triage.folder.hand_style import hand_calls, hand_function
from fxmorph.triage.folder.public_names import FUNCTIONAL, with_public_names
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.folder.short_inputs import short_expressions
from fxmorph.triage.folder.snippet import MOST_LINES, forms, line_count, sketches
from fxmorph.triage.folder.snippet_trial import Trials, run_text, shortest
from fxmorph.triage.folder.write_up import how_it_died, said_of_sides, traceback_printed, written_up


def finding(program: str, *kinds: Kind, **config: Any) -> Finding:
    return Finding(
        "ab12cd34", "0" * 16, "s", "", kinds, BugClass.UGO, "inductor", "", "seed-miscompiled", "ab12cd34", "",
        program, repro=Repro({"backend": "inductor", **config}, {"exact": True}),
        blame=Blame(Stage.LOWERING, "lowering.aten.copysign.default", True),
    )  # fmt: skip


# -- as a person would write it --------------------------------------------------


def by_hand(source: str) -> str:
    fn = ast.parse(source).body[0]
    assert isinstance(fn, ast.FunctionDef)
    made = hand_function(fn)
    return "" if made is None else "\n".join(made.lines())


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def fn(l_x_):\n    a = l_x_ + 1\n    b = a.sin()\n    return (b,)", ["return (x + 1).sin()"]),
        ("def fn(x_in, unused):\n    return (x_in, x_in)", ["return (x, x)"]),
        # Used twice, or not by the next statement alone.
        ("def fn(x):\n    a = x.sin()\n    return (a, a)", ["a = x.sin()", "return (a, a)"]),
        ("def fn(x):\n    a = x.sin()\n    x.add_(1)\n    return (a,)", ["a = x.sin()", "x.add_(1)", "return a"]),
        # A call that writes stays before the others.
        (
            "def fn(x, y):\n    a = x.add_(1)\n    b = torch.add(y.sin(), a)\n    return (b,)",
            ["a = x.add_(1)", "return torch.add(y.sin(), a)"],
        ),
        ("def fn(x):\n    x[1:] = x[:-1].clone()\n    return ()", ["x[1:] = x[:-1].clone()"]),
        ("def fn(f, torch_in):\n    return (f - torch_in,)", ["return x - y"]),  # `f` is the function
    ],
)
def test_a_function_is_written_by_hand(source: str, lines: list[str]) -> None:
    assert [line.strip() for line in by_hand(source).splitlines()[1:]] == lines


@pytest.mark.parametrize(
    "source", ["def fn(x):\n    if x.sum() > 0:\n        return x\n    return -x", "def fn(*xs):\n    return xs"]
)
def test_other_functions_stay_as_they_are(source: str) -> None:
    assert by_hand(source) == ""


def test_what_drives_the_calls_becomes_them() -> None:
    drive = ast.parse("def drive(h, x_in, w):\n    y = h(x_in, w)\n    y.add_(1)\n    return (y, w.sum())").body[0]
    assert isinstance(drive, ast.FunctionDef)
    assert hand_calls(drive, "g") == (("x", "w"), ("y = g(x, w)", "y.add_(1)"), "(y, w.sum())")


def test_names_are_public_ones_of_the_same_functions() -> None:
    text = "torch._C._nn.gelu(x) + torch._C._fft.fft_rfft(x) + torch._C._nn.nothing(x)"
    public = "torch.nn.functional.gelu(x) + torch.fft.rfft(x) + torch._C._nn.nothing(x)"
    assert with_public_names(text) == public
    assert all(hasattr(torch.nn.functional, name) and hasattr(torch._C._nn, name) for name in FUNCTIONAL)
    x = torch.randn(1, 2, 4, 4)
    for name in ("glu", "leaky_relu", "hardswish", "silu", "mish", "relu6", "hardsigmoid", "softplus"):
        assert torch.equal(getattr(torch.nn.functional, name)(x), getattr(torch._C._nn, name)(x))


# -- inputs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "plainest"),
    [
        (torch.randn(2, 3), "torch.ones(2, 3)"),
        (torch.randn(()), "torch.tensor(1.0)"),
        (torch.tensor([4, 0]), "torch.tensor([4, 0])"),
        (torch.arange(9).reshape(3, 3), "torch.arange(9).reshape(3, 3)"),
        (torch.tensor([True, False]), "torch.tensor([True, False])"),
        (torch.randn(2, 3).half(), "torch.ones(2, 3, dtype=torch.float16)"),
        (torch.randn(3, requires_grad=True), "torch.ones(3, requires_grad=True)"),
    ],
)
def test_inputs_have_short_expressions(value: torch.Tensor, plainest: str) -> None:
    assert next(iter(short_expressions(value))) == plainest
    for text in short_expressions(value):
        made = eval(text)
        assert (made.shape, made.dtype) == (value.shape, value.dtype) and made.requires_grad == value.requires_grad


def test_a_transposed_input_has_transposed_expressions() -> None:
    strides = {eval(text).stride() for text in short_expressions(torch.randn(4, 3).t())}
    assert strides == {(4, 1), (1, 3)}
    assert list(short_expressions(3)) == []


# -- every kind --------------------------------------------------------------------

C = "torch.compiler.is_compiling()"
#: Kind to statements of a program that differs so where it is compiled, and what the snippet prints.
FAULTS: dict[Kind, tuple[str, str]] = {
    Kind.VALUE: (f"return (x * (3 if {C} else 2),)", 'print("eager:", f(x))'),
    Kind.NONFINITE: (f"return (x / (0 if {C} else 1),)", 'print("eager:", f(x))'),
    Kind.DTYPE: (f"return (x.to(torch.float64 if {C} else torch.float32),)", 'print("eager:", f(x).dtype)'),
    Kind.SHAPE: (f"return (x[:1 if {C} else 2],)", 'print("eager:", f(x).shape)'),
    Kind.STRIDE: (f"return (x.clone().t() if {C} else x.t().contiguous(),)", 'print("eager:", f(x).stride())'),
    Kind.OFFSET: (f"return (x[1 if {C} else 0],)", 'print("eager:", f(x).storage_offset())'),
    Kind.ALIAS: (f"return (x.view(-1) if {C} else x.flatten().clone(),)", "f(x).data_ptr() == x.data_ptr())"),
    Kind.IDENTITY: (f"return (x if {C} else x.clone(),)", 'print("eager:", f(x) is x)'),
    Kind.MUTATION: (f"x.add_(1 if {C} else 2)\n    return ()", 'print(f"{name}:", x)'),
    Kind.GRADIENT: (f"return (x * (x.detach() if {C} else x),)", 'print(f"{name}:", x.grad)'),
    Kind.REQUIRES_GRAD: (f"return (x.detach() if {C} else x * 1,)", 'print("eager:", f(x).requires_grad)'),
    Kind.RAISES: (f"return (x.view(4 if {C} else 3),)", "except Exception as error:"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_has_its_form(kind: Kind) -> None:
    body, printed = FAULTS[kind]
    grad = ".requires_grad_()" if kind in (Kind.GRADIENT, Kind.REQUIRES_GRAD) else ""
    program = (
        f"def make_inputs():\n    return [(torch.arange(4.0).reshape(2, 2) * 1.5){grad}]\n\ndef fn(x):\n    {body}\n"
    )
    draft = shortest(finding(program, kind, backend="eager"), 60)
    assert draft.shown == kind and printed in draft.snippet
    assert line_count(draft.snippet) <= MOST_LINES and "* 1.5" not in draft.snippet
    assert draft.eager != draft.compiled


#: Statements of a program whose gradients are wrong in a way that few losses show, and what shows it.
GRADIENTS = [
    (f"return (x.detach() if {C} else x * 1,)", 'print(f"{name}:", g(x).requires_grad)'),
    (f"return (x.mT.clone().mT * 1 + (x.sin() - x.mT.sin() if {C} else 0),)", ".flatten().cumsum(0).sum().backward()"),
]


@pytest.mark.parametrize(("body", "shown"), GRADIENTS, ids=["none at all", "of other elements"])
def test_what_a_sum_hides_of_gradients_is_shown(body: str, shown: str) -> None:
    program = (
        "def make_inputs():\n    return [torch.zeros(2, 2).requires_grad_()]\n\ndef fn(x):\n" f"    {body}\n"
    )
    draft = shortest(finding(program, Kind.GRADIENT, backend="eager"), 60)
    assert shown in draft.snippet and draft.eager != draft.compiled


def test_of_several_outputs_the_one_that_differs_is_printed() -> None:
    body = f"    return (x + 1, torch.zeros(40, 40) + x * (3 if {C} else 2))\n"
    program = f"def make_inputs():\n    return [torch.tensor(2.5)]\n\ndef fn(x):\n{body}"
    draft = shortest(finding(program, Kind.VALUE, backend="eager"), 60)
    assert 'print("eager:", f(x)[1][0, 0])' in draft.snippet
    assert (draft.eager, draft.compiled) == ("tensor(2.)", "tensor(3.)")


def test_each_side_draws_the_same_inputs() -> None:
    body = f"    x.mul_(3 if {C} else 2)\n    return (x + 0,)\n"
    program = f"def make_inputs():\n    return [torch.randn(3)]\n\ndef fn(x):\n{body}"
    (sketch, *_) = sketches(finding(program, Kind.VALUE, backend="eager"))
    drawn = replace(sketch, inputs=(("x", "torch.randn(3)"),), fresh=True)
    trials = Trials({"rtol": 1e-3, "atol": 1e-3}, 60.0)
    shown = replace(drawn, form=next(forms(drawn, [Kind.VALUE])))
    assert trials.steady(shown) and trials.differing(shown) is not None


def test_what_differs_without_the_compiler_is_no_snippet() -> None:
    program = "def make_inputs():\n    return [torch.ones(3)]\n\ndef fn(x):\n    return (x + torch.randn(3),)\n"
    assert not shortest(finding(program, Kind.VALUE, backend="eager"), 60).snippet


def test_the_second_call_is_the_one_that_is_printed() -> None:
    program = "def make_inputs():\n    return [torch.ones(2)]\n\ndef fn(x):\n    return (x + 1,)\n"
    (sketch, *_) = sketches(finding(program, Kind.VALUE, Kind.SECOND_CALL))
    (form, *_) = forms(sketch, (Kind.VALUE, Kind.SECOND_CALL))
    assert (form.statements, form.printed) == (("g(x)",), "g(x)")


def test_settings_of_the_compile_are_in_it() -> None:
    program = "def make_inputs():\n    return [torch.ones(2)]\n\ndef fn(x):\n    return (x + 1,)\n"
    made = finding(
        program, Kind.VALUE, compile={"dynamic": True}, inductor={"freezing": True}, no_grad=True, context="autocast"
    )
    text = next(sketches(made)).text()
    assert "torch.compile(f, dynamic=True, options={'freezing': True})" in text
    assert "torch.set_grad_enabled(False)" in text and "with torch.autocast('cpu', torch.bfloat16):" in text


def test_where_nothing_differs_there_is_no_snippet() -> None:
    program = "def make_inputs():\n    return [torch.ones(2)]\n\ndef fn(x):\n    return (x + 1,)\n"
    assert shortest(finding(program, Kind.VALUE, backend="eager"), 60).snippet == ""


def test_what_an_input_is_made_of_keeps_its_meaning() -> None:
    program = (
        "import torch\n\ndef make_inputs():\n    rest = torch.ones(3)\n    memory = torch.arange(6.0) % 4\n"
        "    return [memory.as_strided((2, 3), (1, 2)), rest, rest[1:]]\n\n"
        "def fn(x, rest, z):\n    return (x + rest,)\n"
    )
    (sketch, *_) = sketches(finding(program, Kind.MUTATION))
    sketch = replace(sketch, form=next(forms(sketch, [Kind.MUTATION])))
    text = sketch.text()
    assert "x = (torch.arange(6.0) % 4).as_strided((2, 3), (1, 2))" in text and "rest = rest\n" not in text
    assert all(run_text(text).values())


def test_other_inputs_with_which_both_agree_are_told() -> None:
    program = (
        "import torch\n\ndef make_inputs():\n    return [torch.rand(3, 4, dtype=torch.float16).mT]\n\n"
        f"def fn(x):\n    return (x + 1 if {C} and {{}} else x + 0,)\n"
    )
    of_type = program.format("x.dtype is torch.float16")
    assert shortest(finding(of_type, Kind.VALUE, backend="eager"), 60).contrast == (
        "With inputs of float32 or float64 both agree."
    )
    # A shorter snippet keeps the strides, which are what it takes.
    of_layout = program.format("not x.is_contiguous()")
    assert shortest(finding(of_layout, Kind.VALUE, backend="eager"), 60).contrast == (
        "With contiguous inputs both agree."
    )
    assert shortest(finding(program.format("True"), Kind.VALUE, backend="eager"), 60).contrast == ""


def test_a_module_is_made_once_and_its_source_is_kept() -> None:
    program = (
        "import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def forward(self, x):\n"
        f"        return x * (3 if {C} else 2)\n\ndef make_fn():\n    return Net().eval()\n\n"
        "def make_inputs():\n    return [torch.rand(3)]\n"
    )
    draft = shortest(finding(program, Kind.VALUE, backend="eager"), 60)
    assert "f = Net().eval()" in draft.snippet and "from torch import nn" in draft.snippet


# -- run alone -----------------------------------------------------------------------

COPYSIGN = """\
def make_inputs():
    return [torch.rand(4, 3).mT, torch.rand(3, 4) - 0.5]

def fn(a_in, b_in):
    copysign = torch.copysign(a_in, b_in)
    return (copysign,)
"""


STD = """\
import torch

def make_inputs():
    return [torch.tensor([3.1592742378804775e+22, 1.0553574678345316e+24])]

def fn(large):
    return (large.std(),)
"""


def drafted(made: Finding, folder: Path) -> Draft:
    """The draft of a finding that is written to ``folder``."""
    (folder / "finding.json").write_text(json.dumps(to_json(made)))
    (folder / "repro.py").write_text(repro_text(made))
    return written_up(folder, folder / "cache")


@pytest.mark.slow
def test_what_a_report_shows_was_printed_by_a_fresh_process(tmp_path: Path) -> None:
    draft = drafted(finding(COPYSIGN, Kind.STRIDE), tmp_path)
    assert draft.printed == "eager: (1, 3)\ncompiled: (4, 1)", draft.snippet
    assert line_count(draft.snippet) <= 8 and "torch.copysign(x, y)" in draft.snippet
    assert "copysign" in draft.kernels and "torch" in draft.environment
    assert draft.contrast == "With contiguous inputs both agree."
    again = subprocess.run([sys.executable, "-c", draft.snippet], capture_output=True, text=True)
    assert again.stdout.strip() == draft.printed, again.stderr


@pytest.mark.slow
def test_lines_that_help_are_those_that_were_seen_to(tmp_path: Path) -> None:
    made = finding(STD, Kind.NONFINITE)
    for stage, unit, helps in (
        (Stage.DECOMPOSITION, "decomposition.aten.std.correction", True),
        (Stage.CODEGEN, "codegen.CppVecKernel.reduction", False),
    ):
        blame = Blame(stage, unit, True, (), redo_of(stage, unit))
        assert bool(drafted(replace(made, blame=blame), tmp_path).gone_with) is helps


def test_a_script_that_breaks_shows_nothing() -> None:
    sides = run_text('import torch\nprint("eager:", 1)\nraise ValueError\nprint("compiled:", 2)\n')
    assert [len(lines) for lines in sides.values()] == [1, 0]


def test_lines_are_told_apart_by_side() -> None:
    sides = said_of_sides("noise\neager: tensor([1.,\n        2.])\ncompiled: True\n")
    assert list(sides.values()) == ["tensor([1.,\n        2.])", "True"]


@pytest.mark.parametrize(
    ("code", "said", "told"),
    [
        (-6, "a warning\nfree(): invalid pointer\n", "(killed by SIGABRT: free(): invalid pointer)"),
        (-11, "a warning\n", "(killed by SIGSEGV)"),
        (-60, "", "(killed by signal 60)"),
    ],
)
def test_what_the_allocator_says_is_quoted(code: int, said: str, told: str) -> None:
    assert how_it_died(subprocess.CompletedProcess([], code, "", said)) == told


TRACED = """\
Traceback (most recent call last):
  File "/home/me/e/lib/python3.11/site-packages/torch/_inductor/compile_fx.py", line 1, in inner
    compiled = make()
               ^^^^^^
AssertionError: first

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/me/e/lib/python3.11/site-packages/torch/_inductor/graph.py", line 2, in make
    raise Wrapped(error)
torch.Wrapped: first
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] a line of a log
"""


def test_the_last_traceback_is_told_without_folders_of_this_machine() -> None:
    told = traceback_printed(TRACED)
    assert told.splitlines()[1] == '  File "torch/_inductor/graph.py", line 2, in make'
    assert told.endswith("torch.Wrapped: first") and "^" not in told
    long = TRACED + '  File "x.py", line 3, in f\n' * 200
    assert traceback_printed(long.replace("V1123", "V")).splitlines()[1] == "  …"
    assert traceback_printed("nothing was raised\n") == ""


LOG = """\
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] Output code:
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] cpp_fused_add_0 = async_compile.cpp_pybinding(['float*'], r'''
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] #include <torch/csrc/inductor/cpp_prefix.h>
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] void kernel(float* out) {}
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] ''')
V1123 09:00:46.1 12 torch/_inductor/graph.py:2345] [0/0] [__output_code] def call(args):
something else
"""  # noqa: E501


def test_kernels_are_taken_out_of_the_log() -> None:
    assert kernels(LOG) == (
        "// cpp_fused_add_0\n#include <torch/csrc/inductor/cpp_prefix.h>\nvoid kernel(float* out) {}"
    )
    assert kernels("nothing") == ""
