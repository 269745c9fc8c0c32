"""What shows on several threads alone, in some runs alone, or where compile caches answer: faults, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.campaign.finding_queue import finding_of
from fxmorph.core.clock import Clock
from fxmorph.core.exits import ReproExit
from fxmorph.core.seeds import find_seeds, shipped_corpus
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan, VerdictCode
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import cpp_compiler, register_backend
from fxmorph.triage.folder.confirm import write_finding
from fxmorph.triage.folder.repro import Script
from fxmorph.triage.folder.repro_run import run_repro
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")
CLEAN, FINDING = Status.CLEAN, Status.FINDING


def judge(folder: Path, text: str, backend: str, *plans: ValuePlan) -> tuple[Case, CaseResult]:
    (folder / "seed.py").write_text("import torch\nimport torch.nn.functional as F\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED, *plans), CompileConfig.make(backend))
    return case, judge_case(case, Registry(), Clock())


# -- threads -----------------------------------------------------------------------


def parallel(change: Callable[[torch.Tensor, int], torch.Tensor]) -> Callable[[Any, Any], Any]:
    """A backend whose results ``change`` (given the number of the run) where loops run in parallel."""
    runs = [0]

    def compile_(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            outs = gm(*args)
            runs[0] += torch.get_num_threads() > 1
            return tuple(change(o, runs[0]) for o in outs) if torch.get_num_threads() > 1 else outs

        return run

    return compile_


def chunk_lost(out: torch.Tensor, run: int) -> torch.Tensor:
    """The last thread's part is never written."""
    flat = out.flatten()
    return torch.cat([flat[:-3], flat.new_zeros(3)]).reshape(out.shape)


def sometimes_lost(out: torch.Tensor, run: int) -> torch.Tensor:
    return chunk_lost(out, run) if run % 3 == 0 else out


def other_order(out: torch.Tensor, run: int) -> torch.Tensor:
    """Threads add up in another order each time."""
    return torch.nextafter(out, torch.full_like(out, torch.inf)) if run % 2 else out


register_backend("fxmorph_chunk_lost", parallel(chunk_lost))
register_backend("fxmorph_sometimes_lost", parallel(sometimes_lost))
register_backend("fxmorph_other_order", parallel(other_order))

SCALED = "def make_inputs(): return [torch.randn(5, 7)]\ndef fn(x): return (x.sin() * 3).cumsum(1)\n"
SUMS = "def make_inputs(): return [torch.randn(16, 300)]\ndef fn(x): return x.exp().sum(1), x.std(0)\n"
POOLED = "def make_inputs(): return [torch.rand(1, 2, 9, 9) + 1]\ndef fn(x): return F.avg_pool2d(x, 3, 2, 1)\n"


@pytest.mark.parametrize("text", [SCALED, SUMS, POOLED], ids=["scaled", "sums", "pooled"])
@pytest.mark.parametrize("backend", ["fxmorph_chunk_lost", "fxmorph_sometimes_lost"])
def test_what_several_threads_alone_show_is_a_finding_and_says_so(tmp_path: Path, text: str, backend: str) -> None:
    _, got = judge(tmp_path, text, backend, ValuePlan.THREADS)
    if got.status is Status.INCONCLUSIVE and backend == "fxmorph_sometimes_lost":
        pytest.skip("the race did not show in the second compile")
    assert (got.status, got.kinds) == (FINDING, (Kind.VALUE,)), got.reason
    assert got.reason.startswith("on 4 threads: ")
    assert dict(got.ladder)["1 thread"] == "agrees"
    assert judge(tmp_path, text, backend)[1].status is CLEAN  # on one


ONE_BY_META = f"{SCALED}META = {{'threads': 1}}\n"


@pytest.mark.parametrize(
    ("text", "backend"),
    [(SUMS, "fxmorph_other_order"), (POOLED, "aot_eager"), (ONE_BY_META, "fxmorph_chunk_lost")],
    ids=["another order of summation", "right", "threads by META"],
)
def test_what_several_threads_may_do_is_clean(tmp_path: Path, text: str, backend: str) -> None:
    _, got = judge(tmp_path, text, backend, ValuePlan.THREADS)
    assert got.status is CLEAN, got.reason
    assert torch.get_num_threads() == 1


def test_what_one_thread_shows_too_is_found_there(tmp_path: Path) -> None:
    register_backend("fxmorph_always_lost", lambda gm, _: lambda *args: tuple(chunk_lost(o, 0) for o in gm(*args)))
    _, got = judge(tmp_path, SCALED, "fxmorph_always_lost", ValuePlan.THREADS)
    assert got.status is FINDING
    assert "threads" not in got.reason


def each_second(wrong: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any, Any], Any]:
    """A backend whose every second result ``wrong`` changes: what lies in memory that it never wrote."""
    runs = [0]

    def compile_(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            runs[0] += 1
            return tuple(wrong(o) if runs[0] % 2 == 0 else o for o in gm(*args))

        return run

    return compile_


@pytest.mark.parametrize("name", ["SCALED", "SUMS", "POOLED"])
def test_runs_on_equal_inputs_are_judged_each(tmp_path: Path, name: str) -> None:
    # Each begins to count anew.
    garbage, rounding, text = f"fxmorph_reads_garbage_{name}", f"fxmorph_rounds_otherwise_{name}", globals()[name]
    register_backend(garbage, each_second(lambda out: chunk_lost(out, 0)))
    register_backend(rounding, each_second(lambda out: torch.nextafter(out, torch.zeros_like(out))))
    _, got = judge(tmp_path, text, garbage, ValuePlan.AGAIN)
    assert got.status is FINDING and Kind.SECOND_CALL in got.kinds, got.reason
    assert judge(tmp_path, text, rounding, ValuePlan.AGAIN)[1].status is CLEAN


GRADIENTS = """
def make_inputs():
    shapes = (2, 3, 6, 7), (4, 3, 3, 3), (4,)
    return [torch.randn(shape, requires_grad=True) for shape in shapes]
def fn(x, w, b):
    y = F.interpolate(x, scale_factor=(1.5, 1.25), mode="bilinear", align_corners=False)[:, :, 1:7, 1:8]
    conv = F.conv2d(y, w, b, padding=1)
    pool = F.max_pool2d(conv, 3, stride=1, padding=1)
    return torch.where(conv > pool.mean(dim=(2, 3), keepdim=True), conv, pool)
"""


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
def test_gradients_that_are_wrong_on_several_threads(tmp_path: Path) -> None:
    if not torch.__version__.startswith("2.13.0"):
        pytest.skip("mended later (pytorch 185509)")
    _, got = judge(tmp_path, GRADIENTS, "inductor", ValuePlan.THREADS)
    assert (got.status, got.kinds, got.stage) == (FINDING, (Kind.GRADIENT,), "inductor"), got.reason
    assert "on 4 threads" in got.reason


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize(
    "text",
    [
        SUMS.replace("16, 300", "64, 4096"),
        """
def make_inputs(): return [torch.randn(50, 64, requires_grad=True), torch.arange(400) % 50]
def fn(w, i): return F.embedding(i, w).tanh()
""",
        """
def make_inputs(): return [torch.randn(50, 64), torch.arange(4000) % 50, torch.randn(4000, 64)]
def fn(a, i, s): return a.index_add(0, i, s.exp()), s.argmax(), s.softmax(1)
""",
    ],
    ids=["sums", "embedding", "added at indices"],
)
def test_programs_that_inductor_runs_in_parallel_are_clean(tmp_path: Path, text: str) -> None:
    _, got = judge(tmp_path, text, "inductor", ValuePlan.THREADS)
    assert got.status in (CLEAN, Status.TIE), got.reason


# -- caches ------------------------------------------------------------------------


def forgetful() -> Callable[[Any, Any], Any]:
    """A backend whose cache, where it is on, knows a graph by its operators: what they are called with is no part."""
    kept: dict[str, Any] = {}

    def compile_(gm: Any, inputs: Any) -> Any:
        import torch._inductor.config as config

        if not config.fx_graph_cache:
            return gm.forward
        key = " ".join(f"{n.op} {n.target}" for n in gm.graph.nodes if n.op != "placeholder")
        return kept.setdefault(f"{torch.compiler.config.cache_key_tag} {key}", gm).forward  # type: ignore[attr-defined]

    return compile_


register_backend("fxmorph_forgetful", forgetful())
EACH = "META = {'dynamo_config': {'specialize_float': True}}\n"
STALE = {
    "a float": f"def make_inputs(): return [torch.randn(6), 0.3]\ndef fn(x, s): return (x + s).clamp(max=s)\n{EACH}",
    "training": """
class Net(torch.nn.Module):
    def forward(self, x): return x.tanh() * (2.0 if self.training else 3.0)
fn = Net()
def make_inputs(): return [torch.randn(6)]
""",
    "dtype": """
def make_inputs(): return [torch.randn(6)]
def fn(x): return torch.full((6,), 0.1, dtype=x.dtype) * x
""",
}
ONE_MEMORY = """
def make_inputs():
    state = torch.randn(5, 4)
    return [state, state[1:]]
def fn(state, rest):
    state.add_(1)
    return rest * 2
"""
KEPT = {
    "one memory": ONE_MEMORY,
    "nothing to change": "def make_inputs(): return [torch.arange(6)]\ndef fn(x): return x * 3\n",
    "a dtype that changes nothing": "def make_inputs(): return [torch.randn(6)]\ndef fn(x): return x.sin() * 2\n",
    "whole numbers that eager refuses": """
def make_inputs(): return [torch.randn(6), 6]
def fn(x, n): return x.reshape(n).cos()
""",
}


@pytest.mark.parametrize("name", STALE)
def test_a_stale_entry_of_a_cache_is_a_finding(tmp_path: Path, name: str) -> None:
    _, got = judge(tmp_path, STALE[name], "fxmorph_forgetful", ValuePlan.CACHED)
    assert (got.status, got.stage) == (FINDING, "cache"), got.reason
    assert Kind.SECOND_CALL in got.kinds
    assert dict(got.ladder)["without caches"] == "agrees"


def made_for_memory() -> Callable[[Any, Any], Any]:
    """A backend that makes another program of inputs that share no memory, and has no guard that they do not."""

    def compile_(gm: Any, inputs: Any) -> Any:
        kept: list[bool] = []

        def run(*args: Any) -> Any:
            kept.append(len({t.untyped_storage().data_ptr() for t in args}) < len(args))
            if kept[0]:
                return gm.forward(*args)
            copies = [t.clone() for t in args]
            outs = gm.forward(*copies)
            for t, copied in zip(args, copies, strict=True):
                t.copy_(copied)
            return outs

        return run

    return compile_


def test_what_is_kept_of_inputs_apart_does_not_answer_for_one_memory(tmp_path: Path) -> None:
    register_backend("fxmorph_made_for_memory", made_for_memory())
    assert judge(tmp_path, ONE_MEMORY, "fxmorph_made_for_memory")[1].status is CLEAN  # no call before it
    case, got = judge(tmp_path, ONE_MEMORY, "fxmorph_made_for_memory", ValuePlan.CACHED)
    assert got.status is FINDING and Kind.VALUE in got.kinds, got.reason
    assert "v.detach().clone()" in finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0).program


@pytest.mark.parametrize("wrong", [torch.float64, torch.float32])
def test_what_another_dtype_alone_shows_is_another_program(tmp_path: Path, wrong: torch.dtype) -> None:
    def damaged(gm: Any, inputs: Any) -> Any:
        def call(*args: Any) -> Any:
            return [t * 1.5 if t.dtype == wrong else t for t in gm.forward(*args)]

        return call

    backend = f"fxmorph_wrong_{str(wrong).rpartition('.')[2]}"
    register_backend(backend, damaged)
    _, got = judge(tmp_path, KEPT["a dtype that changes nothing"], backend, ValuePlan.CACHED)
    if wrong == torch.float64:
        assert (got.status, {v.code for v in got.verdicts}) == (CLEAN, {VerdictCode.OTHER_DTYPE})
    else:
        assert got.status is FINDING


@pytest.mark.parametrize("name", [*STALE, *KEPT])
def test_what_caches_answer_rightly_is_clean(tmp_path: Path, name: str) -> None:
    backend = "aot_eager" if name in STALE else "fxmorph_forgetful"
    _, got = judge(tmp_path, {**STALE, **KEPT}[name], backend, ValuePlan.CACHED)
    assert got.status is CLEAN, got.reason


def test_the_script_of_a_stale_entry_calls_in_turn_with_caches_on(tmp_path: Path) -> None:
    case, got = judge(tmp_path, STALE["a float"], "fxmorph_forgetful", ValuePlan.CACHED)
    finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    assert finding.config["inductor"]["fx_graph_cache"] is True
    settings = "\n".join(Script(finding).head())
    assert "torch._functorch.config.enable_autograd_cache = True" in settings
    assert "v * 1.5 + 0.25" in finding.program


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize("name", ["averages_by_another_decay", "pt185382_steps_counted_in_a_tensor"])
def test_the_script_of_a_stale_entry_shows_it(tmp_path: Path, name: str) -> None:
    """Of a program that drives itself, too."""
    if not torch.__version__.startswith("2.13.0"):
        pytest.skip("as of 2.13.0")
    text = Path(shipped_corpus(), "regressions", f"{name}.py").read_text()
    case, got = judge(tmp_path, text, "inductor", ValuePlan.CACHED)
    assert (got.status, got.stage) == (FINDING, "cache"), got.reason
    finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    write_finding(tmp_path / "found", finding, {}, tmp_path)
    assert run_repro(tmp_path / "found", tmp_path / "cache")[0] == ReproExit.STILL_THERE


@pytest.mark.slow
@pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("(x * s).clamp(max=s + 0.1)", FINDING),
        ("F.layer_norm(x * s, (4,), eps=s + 0.1)", FINDING),
        ("F.elu(x * s, s + 0.5)", CLEAN),
        ("(x * s).sin() + s", CLEAN),
    ],
)
def test_floats_that_change_from_call_to_call(tmp_path: Path, body: str, status: Status) -> None:
    if not torch.__version__.startswith("2.13.0"):
        pytest.skip("as of 2.13.0 (pytorch 197889)")
    text = f"def make_inputs(): return [torch.randn(4, 4), 0.3]\ndef fn(x, s): return {body}\n"
    _, got = judge(tmp_path, text, "inductor", ValuePlan.CACHED)
    assert (got.status, got.stage) == (status, "cache" if status is FINDING else ""), got.reason
