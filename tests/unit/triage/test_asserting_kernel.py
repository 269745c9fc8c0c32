"""Which kernel a crash is laid at: named by what the script prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.finding_parts import Repro
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.asserting_kernel import AssertingKernel, named_in
from fxmorph.triage.folder.confirm import ending_kernel

TRITON = (
    "{file}:35: unknown: block: [0,0,0], thread: [{thread},0,0] "
    "Assertion `index out of bounds: 5*x1 < 10` failed.\n"
)
GENERATED = "@triton_heuristics.pointwise(inductor_meta={'grid_type': 'G', 'kernel_name': 'triton_poi_fused_index_3'})"


def test_an_assertion_of_a_generated_kernel_names_it(tmp_path: Path) -> None:
    file = tmp_path / "cyt.py"
    file.write_text(GENERATED)
    printed = "".join(TRITON.format(file=file, thread=n) for n in (3, 4)) + "CUDA error: device-side assert triggered\n"
    got = named_in(printed)
    assert got == AssertingKernel("triton_poi_fused_index_3", "index out of bounds: 5*x1 < 10", 35)
    assert str(got) == (
        "ends in the kernel triton_poi_fused_index_3, whose line 35 asserts `index out of bounds: 5*x1 < 10`"
    )


def test_one_of_a_native_kernel_names_its_file() -> None:
    printed = (
        "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:111: operator(): block: [0,0,0], thread: [1,0,0] "
        'Assertion `-sizes[i] <= index && index < sizes[i] && "index out of bounds"` failed.\n'
    )
    got = named_in(printed)
    assert got is not None and got.name == "operator() of IndexKernel.cu" and got.line == 111


def test_without_one_it_is_the_kernel_that_was_started_last() -> None:
    printed = (
        'File "c.py", line 90, in call\n    triton_poi_fused_add_0.run(arg0_1, buf0, 4, stream=stream0)\n'
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    )
    assert named_in(printed) == AssertingKernel("triton_poi_fused_add_0")


@pytest.mark.parametrize("printed", ["", "Assertion failed: x\n", "gone\n"], ids=["nothing", "other", "gone"])
def test_nothing_else_names_one(printed: str) -> None:
    assert named_in(printed) is None


@pytest.mark.parametrize(
    ("kind", "device", "said"),
    [(Kind.CRASH, "cuda", "ends in the kernel triton_x"), (Kind.CRASH, "cpu", ""), (Kind.VALUE, "cuda", "")],
    ids=["crash on a GPU", "crash on the CPU", "values on a GPU"],
)
def test_only_crashes_on_a_gpu_run_once_more(tmp_path: Path, kind: Kind, device: str, said: str) -> None:
    finding = Finding(
        "aa", "aa", "s", "", (kind,), BugClass.UGO, "inductor", "", "", "aa", "", "", repro=Repro({"device": device})
    )
    (tmp_path / "repro.py").write_text("import os, sys\nprint('triton_x.run(', os.environ['CUDA_LAUNCH_BLOCKING'])\n")
    assert ending_kernel(finding, tmp_path, tmp_path) == said
