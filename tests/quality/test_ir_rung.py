"""Faults planted before code is generated are seen where kernels are interpreted, though a kernel's values be right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from fxmorph.core.clock import Clock
from fxmorph.core.kernel_faults import faults_noted
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.journal import noting
from fxmorph.model import Case, CaseResult, CompileConfig, Kernels, Kind, Rung, Status, ValuePlan, VerdictCode
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import compile_callable, configured, cpp_compiler
from fxmorph.torchapi.planting import planted_lowering
from fxmorph.torchapi.planting_backend import planted_fusion_check, planted_fusion_for_gpus, planted_inplace
from fxmorph.torchapi.planting_text import planted_text
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")
FLAVOURS = (Kernels.CPP, Kernels.GPU)


@contextmanager
def bound_is_one_more() -> Iterator[None]:
    """What is padded is read up to one element too far."""
    from torch._inductor import lowering
    from torch._inductor.virtualized import ops

    def too_high(i: Any, high: Any) -> Any:
        return ops.le(ops.index_expr(i, torch.int64), ops.index_expr(high, torch.int64))

    with mock.patch.object(lowering, "range_mask_high", too_high):
        yield


@contextmanager
def modulo_dropped() -> Iterator[None]:
    """What is repeated is read as if it were as long as its repetitions."""
    from torch._inductor import lowering
    from torch.utils._sympy.functions import FloorDiv

    with mock.patch.object(lowering, "ModularIndexing", lambda x, by, _: FloorDiv(x, by)):
        yield


@contextmanager
def stride_is_one_more() -> Iterator[None]:
    from torch._inductor import lowering

    keys = [k for k in lowering.lowerings if str(k) in ("aten.as_strided", "aten.as_strided.default")]
    before = {k: lowering.lowerings[k] for k in keys}

    def wrong(x: Any, size: Any, stride: Any, *rest: Any) -> Any:
        return next(iter(before.values()))(x, size, [stride[0] + 1, *stride[1:]], *rest)

    with mock.patch.dict(lowering.lowerings, dict.fromkeys(keys, wrong)):
        yield


@contextmanager
def cast_forgotten() -> Iterator[None]:
    """What is to be cast is said to be of the new dtype, and stays what it was."""
    from torch._inductor import ir, lowering

    def wrong(x: Any, dtype: torch.dtype, **_: Any) -> Any:
        return ir.Pointwise.create(
            device=x.get_device(), dtype=dtype, inner_fn=x.make_loader(), ranges=list(x.get_size())
        )

    with mock.patch.object(lowering, "to_dtype", wrong):
        yield


def reversed_sums(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum(1, keepdim=True).flip(0)


def padded(x: torch.Tensor) -> torch.Tensor:
    return F.pad(x * 2, (1, 2)) + 1


def repeated(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).repeat(3, 1) * 2


def strided(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).as_strided((4, 3), (84, 1)) * 2


def counted(x: torch.Tensor) -> torch.Tensor:
    return (x * 4).to(torch.int32)


def taken_over(x: torch.Tensor) -> torch.Tensor:
    return (x @ x).flip(0).sin()


FAULTS: dict[str, tuple[Callable[[], AbstractContextManager[None]], Callable[..., Any], set[Kind], bool]] = {
    "fusion of what others wrote": (
        lambda: planted_fusion_check("fusable_read_and_write"), reversed_sums, {Kind.ORDER}, True,
    ),
    "memory that others still read": (planted_inplace, taken_over, {Kind.ORDER}, False),
    "a bound that is one too high": (bound_is_one_more, padded, {Kind.OUT_OF_BOUNDS}, False),
    "a modulo that is dropped": (modulo_dropped, repeated, {Kind.OUT_OF_BOUNDS}, False),
    "a cast that is forgotten": (cast_forgotten, counted, {Kind.DTYPE}, True),
    "a stride that is one too large": (stride_is_one_more, strided, {Kind.OUT_OF_BOUNDS}, False),
}  # fmt: skip


@pytest.mark.parametrize("kernels", FLAVOURS, ids=str)
@pytest.mark.parametrize("name", FAULTS)
def test_what_a_kernel_may_not_do_is_seen(name: str, kernels: Kernels) -> None:
    plant, fn, kinds, value_is_right = FAULTS[name]
    x = torch.randn(16, 16)
    config = CompileConfig.make(kernels=kernels)

    def run() -> tuple[torch.Tensor, set[Kind]]:
        with configured(config), faults_noted() as faults, torch.no_grad():
            got = compile_callable(fn, config)(x.clone())
        return got, {fault.kind for fault in faults.found}

    got, seen = run()
    torch.testing.assert_close(got, fn(x))
    assert seen == set()
    with plant():
        got, seen = run()
    assert seen == kinds
    if value_is_right:
        torch.testing.assert_close(got, fn(x))


PROGRAM = """import torch
def make_inputs(): return [torch.linspace(0.5, 3, 64).view(8, 8)]
def fn(x): return x.sin() * x.sum(1, keepdim=True).flip(0)
"""


def case_in(folder: Path, plans: tuple[ValuePlan, ...] = (ValuePlan.SEED,), text: str = PROGRAM) -> Case:
    file = folder / "program.py"
    file.write_text(text)
    config = CompileConfig.make(kernels=Kernels.CPP)
    return Case(find_seeds([str(file)])[0][0], 0, 0, plans, config, rung=Rung.IR)


def judged(folder: Path, *plans: ValuePlan) -> CaseResult:
    return judge_case(case_in(folder, (ValuePlan.SEED, *plans)), Registry(), Clock())


@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_what_a_compiled_run_shows_too_is_a_finding(tmp_path: Path) -> None:
    lines: list[str] = []
    with planted_lowering("sin", "cos"), noting(lines):
        result = judged(tmp_path)
    assert (result.status, result.kinds, result.compiled) == (Status.FINDING, (Kind.VALUE,), True)
    # Of what it shows in the same way the ladder has said what there is to say.
    assert sum("ladder: compiled again" in str(line) for line in lines) == 1


@pytest.mark.slow  # by the same ways as what a compile alone shows, which test_planted.py has
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_what_a_compiled_run_shows_too_is_reported_as_its_finding(tmp_path: Path) -> None:
    with planted_lowering("sin", "cos"):
        result = judged(tmp_path)
        found = investigate(case_in(tmp_path), result, Registry(), Clock(), 40.0)
    assert (result.status, result.kinds, result.compiled) == (Status.FINDING, (Kind.VALUE,), True)
    assert found.blame is not None and found.blame.unit == "lowering.aten.sin.default"
    assert (found.nodes, found.rung) == (1, "ir")
    assert any("executed in fp64 are wrong too" in said for said in found.blame.evidence)


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_a_lowering_that_rounds_is_told_from_one_that_is_wrong(tmp_path: Path) -> None:
    with sine_then(rounded):
        result = judged(tmp_path)
        found = investigate(case_in(tmp_path), result, Registry(), Clock(), 40.0)
    assert found.blame is not None and found.blame.unit == "lowering.aten.sin.default"
    assert any("right: what is wrong is how they round" in said for said in found.blame.evidence)


@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_what_no_compiled_run_shows_is_said_to_be_of_this_rung(tmp_path: Path) -> None:
    """A program that is fused wrongly for a GPU alone."""
    with planted_fusion_for_gpus():
        result = judged(tmp_path, ValuePlan.GPU)
    assert (result.status, result.kinds, result.compiled) == (Status.IR_ONLY, (Kind.ORDER,), False)
    assert "fused as for a GPU" in result.reason


def test_a_right_program_is_clean_and_nothing_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import codecache

    monkeypatch.setattr(codecache, "CppPythonBindingsCodeCache", None)
    assert judged(tmp_path, ValuePlan.AGAIN, ValuePlan.THREADS, ValuePlan.GPU).status is Status.CLEAN


@contextmanager
def sine_then(change: Callable[[dict[Any, Callable[..., Any]], Any], Any]) -> Iterator[None]:
    """``change`` is made of what a sine is lowered to."""
    from torch._inductor import lowering

    keys = [k for k in lowering.lowerings if str(k) in ("aten.sin", "aten.sin.default")]
    right = lowering.lowerings[torch.ops.aten.sin.default]
    with mock.patch.dict(
        lowering.lowerings, dict.fromkeys(keys, lambda x: change(lowering.lowerings, right(x)))
    ):
        yield


def a_little_larger(lowered: dict[Any, Callable[..., Any]], sine: Any) -> Any:
    """By a part of what bfloat16 rounds."""
    return lowered[torch.ops.aten.mul.Tensor](sine, 1 + 2**-12)


def rounded(lowered: dict[Any, Callable[..., Any]], sine: Any) -> Any:
    """To a multiple of 2^-10, in float32; in fp64 to nothing."""
    return lowered[torch.ops.aten.sub.Tensor](lowered[torch.ops.aten.add.Tensor](sine, 12345.0), 12345.0)


IN_HALVES = """import torch
def make_inputs(): return [torch.linspace(0.5, 3, 64).view(8, 8).to(torch.bfloat16)]
def fn(x): return (x.sin() + x).softmax(1)
"""


@pytest.mark.parametrize("kernels", FLAVOURS, ids=str)
def test_what_16_bits_hide_is_seen_in_fp64(tmp_path: Path, kernels: Kernels) -> None:
    case = replace(case_in(tmp_path, text=IN_HALVES), compile=CompileConfig.make(kernels=kernels))
    assert judge_case(case, Registry(), Clock()).status is Status.CLEAN
    with sine_then(a_little_larger):
        result = judge_case(case, Registry(), Clock())
    assert result.status is Status.IR_ONLY
    assert {(v.slot, v.code) for v in result.verdicts if v.status is Status.FINDING} == {("out0", VerdictCode.IN_FP64)}


FOLDED = """import torch
def make_inputs(): return [torch.linspace(0.5, 3, 64).view(8, 8).to(torch.bfloat16)]
def fn(x): return (x * (torch.full((8,), 0.1, dtype=torch.bfloat16) * 3.3)).sin()
"""


def test_constants_that_are_folded_in_16_bits_are_no_fault(tmp_path: Path) -> None:
    result = judge_case(case_in(tmp_path, text=FOLDED), Registry(), Clock())
    assert result.status is Status.CLEAN
    assert VerdictCode.FOLDED in {v.code for v in result.verdicts}


WRITTEN_BETWEEN = """import torch
def make_inputs(): return [torch.linspace(0.5, 3, 64).view(8, 8).to(torch.bfloat16), torch.ones(8, 8)]
@torch._dynamo.disable
def in_python(x): x.mul_(1.1)
def fn(x, y):
    {first}
    z = x.sin() + y
    {second}
    return z
"""


BETWEEN = (("in_python(x)", ""), ("", "in_python(z)"), ("y = y / 3; torch._dynamo.graph_break()", ""))


@pytest.mark.parametrize("at", BETWEEN)
def test_what_python_does_between_compiled_parts_is_no_fault(tmp_path: Path, at: tuple[str, str]) -> None:
    text = WRITTEN_BETWEEN.format(first=at[0], second=at[1])
    assert judge_case(case_in(tmp_path, text=text), Registry(), Clock()).status is Status.CLEAN


DIVIDED_SIZES = """import torch
def make_inputs(): return [torch.linspace(-1, 2, 280, dtype=torch.float64).view(2, 4, 5, 7),
                           torch.zeros(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64)]
def fn(x, mean, var): return torch.nn.functional.batch_norm(x, mean, var, training=True, momentum=0.3)
"""


def test_numbers_that_are_made_of_sizes_are_not_rounded_to_float32(tmp_path: Path) -> None:
    config = CompileConfig.make(options={"dynamic": True}, kernels=Kernels.CPP)
    case = replace(case_in(tmp_path, text=DIVIDED_SIZES), compile=config)
    assert judge_case(case, Registry(), Clock()).status is Status.CLEAN


REGROUPED = """import torch
def make_inputs(): return [torch.linspace(0.5, 3, 64).view(4, 4, 4)]
def fn(x): return x.permute(2, 1, 0).reshape(-1) + 1
"""


@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_an_index_that_is_printed_wrongly_is_seen_and_blamed_on_its_printer(tmp_path: Path) -> None:
    wrong = planted_text(
        "torch.utils._sympy.printers", "CppPrinter._print_ModularIndexing", "if div != 1:", "if div not in (1, 4):"
    )
    case = case_in(tmp_path, text=REGROUPED)
    with wrong:
        result = judge_case(case, Registry(), Clock())
        found = investigate(case, result, Registry(), Clock(), 120.0)
    assert (result.status, result.kinds, result.compiled) == (Status.FINDING, (Kind.VALUE,), True)
    assert found.blame is not None and found.blame.confirmed
    assert found.blame.unit == "codegen.CppPrinter"
    assert any(name.endswith("_print_ModularIndexing") for name in found.blame.functions)
