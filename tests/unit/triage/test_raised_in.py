"""Whom an exception of the compiler points to, where nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch._functorch import partitioners

from fxmorph.core.clock import Clock
from fxmorph.core.finding_parts import Blame
from fxmorph.core.seeds import find_seeds
from fxmorph.core.units import Stage
from fxmorph.judge.trial import Trial
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.programs.signature import Signature
from fxmorph.rules import Registry
from fxmorph.torchapi.raising_frames import raising_frames
from fxmorph.triage.blame.localize import localize
from fxmorph.triage.blame.probe import Probe
from fxmorph.triage.blame.raised_in import fake_kernel_named, raised_in
from fxmorph.triage.investigate import as_found

DRIVERS = (("_dynamo/eval_frame.py", "compile_wrapper"), ("_inductor/compile_fx.py", "compile_fx"))


def raised() -> BaseException:  # type: ignore[return]
    try:
        try:
            partitioners.get_name_to_node(None)
        except Exception as inner:
            raise RuntimeError("backend raised") from inner
    except RuntimeError as error:
        return error


def test_frames_are_those_of_the_first_exception_of_the_chain() -> None:
    frames = raising_frames(raised())
    assert frames and frames[-1][0] == "_functorch/partitioners.py"


@pytest.mark.parametrize(
    ("file", "name", "stage", "unit"),
    [
        ("_functorch/partitioners.py", "classify_nodes", Stage.PARTITIONER, "partitioner.classify_nodes"),
        ("_refs/__init__.py", "addr", Stage.DECOMPOSITION, "decomposition.addr"),
        (
            "_subclasses/functional_tensor.py", "FunctionalTensorMode.__torch_dispatch__", Stage.FUNCTIONALIZATION,
            "functionalization.FunctionalTensorMode.__torch_dispatch__",
        ),
        ("_inductor/ir.py", "Reduction.create.<locals>.fn", Stage.LOWERING, "lowering.Reduction.create"),
    ],
)  # fmt: skip
def test_the_innermost_part_is_named(file: str, name: str, stage: Stage, unit: str) -> None:
    around, within = ("_inductor/codegen/cpp.py", "outer"), ("_subclasses/fake_tensor.py", "f")
    found = raised_in((*DRIVERS, around, (file, name), within))
    assert found is not None
    assert (found.stage, found.unit, found.confirmed) == (stage, unit, False) and file in found.evidence[0]


def test_what_drives_the_compile_is_not_blamed() -> None:
    assert raised_in(DRIVERS) is None


def test_what_the_compiler_raised_in_is_named_where_no_time_is_left() -> None:
    signature = Signature("LoweringException", "torch/_inductor/lowering.py:clamp", "aten.clamp.default")

    def blame(kind: Kind, seen: Signature | None) -> Blame:
        def trial(config: CompileConfig) -> Trial:
            raise AssertionError("nothing is compiled")

        spent = Probe(trial, CompileConfig.make(), ValuePlan.SEED, frozenset({kind}), -1.0, signature=seen)
        return localize(spent, "inductor")

    named = blame(Kind.COMPILE_ERROR, signature)
    assert (named.unit, named.confirmed) == ("lowering.clamp", False)
    assert any("no time for more" in said for said in named.evidence)
    assert not blame(Kind.VALUE, None).unit
    assert not blame(Kind.COMPILE_ERROR, None).unit


def test_a_fake_kernel_that_says_another_layout_is_named() -> None:
    said = (
        "call: compiled raises AssertionError: expected size 2==2, stride 1==30 at dim=1\n"
        "Error in op: torch.ops.aten.replication_pad2d_backward.default\nThis error most often comes from"
    )
    found = fake_kernel_named(said)
    assert found is not None
    assert (found.stage, found.unit, found.confirmed) == (
        Stage.AOT, "aot.fake.aten.replication_pad2d_backward.default", False,
    )  # fmt: skip
    assert fake_kernel_named("expected size 2==3, stride 1==1 at dim=0") is None  # of an input


def test_it_is_named_of_a_finding_told_as_found_whose_blame_came_to_nothing(tmp_path: Path, rules: Registry) -> None:
    text = "import torch\ndef fn(x): return x + 1\ndef make_inputs(): return [torch.ones(2)]\n"
    (tmp_path / "seed.py").write_text(text)
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make())
    said = "compiled raises AssertionError: expected size 2==2, stride 1==30 Error in op: torch.ops.aten.x.default"
    result = CaseResult(case.id, Status.FINDING, (Kind.RAISES,), said)
    for known in (None, Blame(None, "", False)):
        assert as_found(case, result, rules, Clock(), known).unit == "aot.fake.aten.x.default"
    other = Blame(Stage.LOWERING, "lowering.aten.x.default", True)
    assert as_found(case, result, rules, Clock(), other).unit == other.unit
