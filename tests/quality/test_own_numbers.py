"""Programs under the compiler's own random numbers: what is wrong about them, and what is another draw alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from fxmorph.core.clock import Clock
from fxmorph.core.finding_parts import Repro
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.plans import PLANS
from fxmorph.model import BugClass, Case, CaseResult, CompileConfig, Finding, Kind, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import cpp_compiler, register_backend
from fxmorph.torchapi.planting_text import planted_text
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")
needs_compiler = pytest.mark.skipif(cpp_compiler() is None, reason="needs a C++ compiler")


def judge(folder: Path, text: str, backend: str = "inductor") -> tuple[Case, CaseResult]:
    (folder / "seed.py").write_text("import torch\nimport torch.nn.functional as F\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.RANDOM,), CompileConfig.make(backend))
    return case, judge_case(case, Registry(), Clock())


class Drawn(TorchFunctionMode):
    """What is drawn is changed."""

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.change = change

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        return self.change(out) if getattr(func, "__name__", "") in ("rand", "randn", "dropout") else out


def drawing(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Any], Any]:
    """A backend with a generator of its own, seeded from torch's, whose numbers ``change`` makes what they are."""

    def compile_(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            seed = int(torch.randint(2**60, ()))
            after = torch.get_rng_state()
            torch.manual_seed(seed)
            with Drawn(change):
                out = gm(*args)
            torch.set_rng_state(after)
            return out

        return run

    return compile_


def unseeded(gm: Any, inputs: Any) -> Any:
    """The same numbers in every call."""

    def run(*args: Any) -> Any:
        torch.randint(2**60, ())
        after = torch.get_rng_state()
        torch.manual_seed(11)
        out = gm(*args)
        torch.set_rng_state(after)
        return out

    return run


def restored(gm: Any, inputs: Any) -> Any:
    """The generator is as it was before the call."""

    def run(*args: Any) -> Any:
        with torch.random.fork_rng():
            return gm(*args)

    return run


def rows_alike(drawn: torch.Tensor) -> torch.Tensor:
    return drawn.reshape(-1)[: (drawn.numel() + 7) // 8].repeat_interleave(8)[: drawn.numel()].reshape(drawn.shape)


register_backend("fxmorph_own_numbers", drawing(lambda t: t))
register_backend("fxmorph_mirrored", drawing(lambda t: 1 - t))
register_backend("fxmorph_too_large", drawing(lambda t: t * 1.5))
register_backend("fxmorph_squared", drawing(lambda t: t.square()))
register_backend("fxmorph_in_blocks", drawing(rows_alike))
register_backend("fxmorph_unseeded", unseeded)
register_backend("fxmorph_restored", restored)

UNIFORM = "def make_inputs(): return [torch.randn(40, 30)]\ndef fn(x): return x + torch.rand(40, 30), x * 2\n"
NUMBER = "def make_inputs(): return [torch.randn(5)]\ndef fn(x): return x * 2, torch.rand(1) + 1\n"
DROPPED = """
def make_inputs(): return [torch.randn(40, 30, requires_grad=True), torch.randn(30, 20, requires_grad=True)]
def fn(x, w): return F.dropout(F.dropout(x.sin() @ w, 0.3).relu(), 0.5) * 2, x * 2
"""
MODULE = """
def make_inputs(): return [torch.randn(33, 10)]
def make_fn(): return torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.Dropout(0.1), torch.nn.BatchNorm1d(10))
"""
MANY = """
def make_inputs(): return [torch.randn(40, 30)]
def fn(x):
    return (torch.rand_like(x) + x, torch.randn(100, dtype=torch.bfloat16), torch.randint(0, 5, (50,)),
            torch.bernoulli(x.sigmoid()), torch.rand(1) - torch.rand(1), x.clone().exponential_(), torch.randperm(10),
            torch.rand(20000, dtype=torch.bfloat16), torch.full((7,), 2.0).bernoulli_(0.01))
"""
WRITTEN = "def make_inputs(): return [torch.randn(40, 30)]\ndef fn(x): return x.add_(torch.randn(40, 30)).sum()\n"
CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint
def make_inputs(): return [torch.randn(16, 16, requires_grad=True)]
def fn(x): return checkpoint(lambda y: F.dropout(y.sin(), 0.4).cos() * y, x, use_reentrant=False)
"""
VARYING = "def make_inputs(): return [torch.randn(40)]\ndef fn(x): return x[torch.rand(40) > 0.5]\n"
FEW = "def make_inputs(): return [torch.randn(1, 3, 4, 4)]\ndef fn(x): return F.dropout2d(x, 0.3), x > torch.rand(())\n"
STEADY = "def make_inputs(): return [torch.randn(40)]\ndef fn(x): return x.sin() * 2\n"


@pytest.mark.parametrize(
    ("backend", "text", "kind", "said"),
    [
        ("fxmorph_too_large", UNIFORM, Kind.VALUE, "lie outside of what eager gives"),
        ("fxmorph_too_large", DROPPED, Kind.VALUE, "lie outside of what eager gives"),
        ("fxmorph_too_large", WRITTEN, Kind.MUTATION, "otherwise between"),
        ("fxmorph_squared", UNIFORM, Kind.VALUE, "values lie otherwise between"),
        ("fxmorph_in_blocks", UNIFORM, Kind.VALUE, "values change from one to the next otherwise"),
        ("fxmorph_unseeded", UNIFORM, Kind.VALUE, "the numbers are the same under 8 seeds"),
        ("fxmorph_unseeded", NUMBER, Kind.VALUE, "the numbers are the same under 8 seeds"),
        ("fxmorph_restored", NUMBER, Kind.RNG, "left as it was before the call"),
    ],
)
def test_wrong_numbers_are_findings(tmp_path: Path, backend: str, text: str, kind: Kind, said: str) -> None:
    _, got = judge(tmp_path, text, backend)
    assert (got.status, kind in got.kinds) == (Status.FINDING, True), got
    assert said in got.reason


@pytest.mark.parametrize("backend", ["fxmorph_own_numbers", "aot_eager"])
@pytest.mark.parametrize("text", [UNIFORM, NUMBER, DROPPED, MODULE, MANY, WRITTEN, VARYING, FEW])
def test_other_numbers_of_the_same_kind_are_clean(tmp_path: Path, text: str, backend: str) -> None:
    _, got = judge(tmp_path, text, backend)
    assert got.status is Status.CLEAN, got.reason


def test_what_is_distributed_alike_is_clean(tmp_path: Path) -> None:
    assert judge(tmp_path, UNIFORM, "fxmorph_mirrored")[1].status is Status.CLEAN


def test_what_does_not_hang_on_numbers_is_judged_as_ever(tmp_path: Path) -> None:
    def lost(gm: Any, inputs: Any) -> Any:
        return lambda *args: (lambda out: (out[0], torch.zeros_like(out[1])))(drawing(lambda t: t)(gm, inputs)(*args))

    register_backend("fxmorph_steady_lost", lost)
    _, got = judge(tmp_path, UNIFORM, "fxmorph_steady_lost")
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got.reason
    assert got.reason.startswith("out1: ")


def test_a_program_that_draws_nothing_is_not_run_so(tmp_path: Path) -> None:
    _, got = judge(tmp_path, STEADY, "fxmorph_too_large")
    assert got.status is Status.CLEAN and not got.verdicts
    assert ValuePlan.RANDOM not in PLANS


#: What is in the others too: dropout with its gradients, and in a module.
SLOW = [pytest.param(text, marks=pytest.mark.slow) for text in (DROPPED, MODULE)]


@needs_compiler
@pytest.mark.parametrize("text", [*SLOW, MANY, WRITTEN, CHECKPOINTED])
def test_inductors_own_numbers_are_clean(tmp_path: Path, text: str) -> None:
    _, got = judge(tmp_path, text)
    assert got.status is Status.CLEAN, got.reason


@needs_compiler
@pytest.mark.slow
def test_a_mask_drawn_again_in_the_backward_pass_is_found_blamed_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partitioner takes random numbers for what may be computed twice."""
    from torch._functorch import partitioners

    original = partitioners.get_default_op_list
    prims = torch.ops.prims
    again = [getattr(prims, n) for n in ("inductor_seeds", "inductor_lookup_seed", "inductor_random")]

    def computed_again() -> Any:
        ops = original()
        return replace(ops, recomputable_ops={*ops.recomputable_ops, *again})

    monkeypatch.setattr(partitioners, "get_default_op_list", computed_again)
    case, got = judge(tmp_path, DROPPED)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.GRADIENT,)), got.reason
    assert "off from the slopes" in got.reason
    found = investigate(case, got, Registry(), Clock(), 60.0)
    assert found.blame is not None and str(found.blame.stage) == "partitioner", found.blame
    assert 0 < found.nodes <= 3, found.program
    finding = Finding(
        id="0", case_id="0", seed=case.seed.path, recipe="", kinds=found.kinds, bug_class=BugClass.UGO,
        stage="inductor", unit=found.blame.unit, triangle="", fingerprint="0", reason=got.reason,
        program=found.program, repro=Repro(found.config, found.check, random=True),
    )  # fmt: skip
    script = tmp_path / "repro.py"
    script.write_text(repro_text(finding))

    def run(cache: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / cache)}
        return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)

    right = run("right")
    assert right.returncode == 0, right.stdout + right.stderr  # without the fault
    added = f"{again!r}".replace("<OpOverloadPacket(op='prims.", "torch.ops.prims.").replace("')>", "")
    plant = (
        "import torch._functorch.partitioners as p, dataclasses\nbefore = p.get_default_op_list\n"
        "p.get_default_op_list = lambda: (lambda ops: dataclasses.replace(ops, recomputable_ops={*ops.recomputable_ops,"
        f" *{added}}}))(before())\n"
    )
    text = script.read_text()
    script.write_text(text.replace("\nimport torch\n", f"\nimport torch\n{plant}", 1))
    wrong = run("wrong")
    assert wrong.returncode == 1, wrong.stdout + wrong.stderr
    assert "gradients are off by" in wrong.stdout


@needs_compiler
@pytest.mark.slow
def test_one_seed_for_all_numbers_is_blamed_on_what_hands_seeds_out(tmp_path: Path) -> None:
    """Two dropouts drop the same elements: which a program that compares them shows."""
    text = (
        "def make_inputs():\n    return [torch.rand(16, 32) + 1]\n"
        "def fn(x):\n    return ((F.dropout(x, 0.5, True) == 0) == (F.dropout(x, 0.5, True) == 0)).all()\n"
    )
    home = "torch._inductor.fx_passes.replace_random"
    with planted_text(home, "fuse_seed_creation_pass", "(combined, idx)", "(combined, 0)"):
        case, got = judge(tmp_path, text)
        assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got.reason
        found = investigate(case, got, Registry(), Clock(), 60.0)
    assert found.blame is not None and found.blame.confirmed
    assert found.blame.unit == "joint.replace_random_passes/fuse_seed_creation_pass", found.blame
