"""What an engineer is told to type for each kind of unit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from fxmorph.core.finding_parts import Blame
from fxmorph.core.records import from_json, to_json
from fxmorph.core.units import Stage
from fxmorph.judge.trial import Trial
from fxmorph.model import CompileConfig, Kind, ValuePlan, Verdict
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.triage.blame.culprit import redo_of
from fxmorph.triage.blame.generated_code import Kernels
from fxmorph.triage.blame.probe import Answer, Held, Probe


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("post_grad.pass_patterns[1]/pointless_cumsum_replacement", "TORCHINDUCTOR_DISABLED_PASSES=PASS_PATTERN_1 "),
        ("post_grad.reinplace_inplaceable_ops", "TORCHINDUCTOR_DISABLED_PASSES=REINPLACE_INPLACEABLE_OPS "),
        ("post_grad.batch_linear_post_grad", "config.post_grad_fusion_options.pop('batch_linear_post_grad', None)"),
        ("decomposition.aten.silu.default", "decompositions.pop(torch.ops.aten.silu.default)"),
        ("lowering.aten.sin.default", "lowerings[torch.ops.aten.sin.default]"),
        ("scheduler.can_fuse_vertical", "max_fusion_size = 1"),
        ("scheduler.inplace_buffers", "config.inplace_buffers = False"),
        ("partitioner.fx_graph_cse", "torch._functorch.config.cse = False"),
        ("codegen.CppVecKernel", "config.cpp.simdlen = 1"),
        ("codegen.CppVecOverrides.exp", "config.cpp.simdlen = 1"),
    ],
)
def test_it_names_the_switch(unit: str, wanted: str) -> None:
    assert wanted in "\n".join(redo_of(Stage(unit.partition(".")[0]), unit))


def test_of_what_has_no_switch_nothing_is_named() -> None:
    assert redo_of(Stage.AOT, "aot.graph_capture") == ()


def test_kernels_are_interpreted_once() -> None:
    asked: list[Held] = []

    def ask(held: Held) -> Answer:
        asked.append(held)
        return Answer.GONE

    kernels = Kernels(cast(Probe, SimpleNamespace(ask=ask, device="cpu")), {})
    assert kernels.interpreted is kernels.interpreted and kernels.interpreted[0] is Answer.GONE
    assert asked == [Held(plain=(Plain.KERNELS,))]


def test_of_a_crash_the_part_is_found_that_it_goes_without(tmp_path: Path) -> None:
    """As of vector code that ends its process the second time that it runs."""
    ran = tmp_path / "ran"

    class CrashingTrial:
        sides, signature = None, None

        def __init__(self, config: CompileConfig) -> None:
            self.vectors = "cpp.simdlen" not in dict(config.inductor)

        def judge(self, plan: ValuePlan) -> list[Verdict]:
            if self.vectors and ran.exists():
                os.kill(os.getpid(), signal.SIGKILL)
            ran.touch()
            return []

    made = cast(Callable[[CompileConfig], Trial], CrashingTrial)
    probe = Probe(made, CompileConfig.make(), ValuePlan.SEED, frozenset({Kind.CRASH}), 60.0, crash=True)
    assert probe.ask(Held()) is Answer.SHOWS
    assert probe.ask(Held(settings=(("cpp.simdlen", 1),))) is Answer.GONE


def test_a_blame_is_a_record_that_goes_to_json_and_back() -> None:
    for stage in (Stage.JOINT, None):
        blame = Blame(stage, "joint.x" if stage else "", bool(stage), ("seen",), ("type",))
        assert from_json(Blame, to_json(blame)) == blame
