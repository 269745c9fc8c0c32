"""Programs that keep state outside of themselves, and those that rounding upsets: what is judged, and what is not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Preloaded

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.unstable import loses_numbers, move, moves_as_far
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Status, ValuePlan
from fxmorph.programs.load import Invocation
from fxmorph.programs.observe import Observation, frozen
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import register_backend
from fxmorph.triage.investigate import investigate

pytestmark = pytest.mark.usefixtures("torch_quiet")
CLEAN, FINDING, ILL = Status.CLEAN, Status.FINDING, Status.ILL_CONDITIONED


def case_at(folder: Path, text: str, backend: str, *plans: ValuePlan, **options: Any) -> Case:
    (folder / "seed.py").write_text("import torch\nimport torch.nn.functional as F\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    return Case(seed, 0, 0, (ValuePlan.SEED, *plans), CompileConfig.make(backend, options))


def judge(folder: Path, text: str, backend: str, *plans: ValuePlan, **options: Any) -> CaseResult:
    return judge_case(case_at(folder, text, backend, *plans, **options), Registry(), Clock())


def off_by(part: float) -> Any:
    """A backend whose floating-point results are off by a part of themselves."""

    def compile_(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            return tuple(o * (1 + part) if isinstance(o, torch.Tensor) else o for o in gm(*args))

        return run

    return compile_


register_backend("fxmorph_off_by_a_tenth", off_by(0.1))

# -- state outside -----------------------------------------------------------------

INPUTS = "def make_inputs(): return [torch.randn(8)]\n"
STATE = {
    "a class that drive writes": """
class Holder:
    scale = 1.0
def fn(x): return x * Holder.scale
def drive(g, x):
    first = g(x)
    Holder.scale = 3.0
    return first, g(x)
""",
    "a counter": """
STEP = 0
def fn(x):
    global STEP
    STEP += 1
    return x.sin() + STEP
""",
    "a tensor that is written": "BUFFER = torch.zeros(8)\ndef fn(x):\n    BUFFER.add_(1)\n    return x * BUFFER\n",
    "what is remembered": """
KEPT = {}
def fn(x):
    KEPT["w"] = KEPT["w"] * 2 if "w" in KEPT else torch.arange(8.0)
    return x + KEPT["w"]
""",
    "a closure": """
def made():
    n = [0]
    def counted(x):
        n[0] += 1
        return x * n[0]
    return counted
fn = made()
""",
}


@pytest.mark.parametrize("name", STATE)
def test_state_outside_of_the_program_is_made_anew_for_each_run(tmp_path: Path, name: str) -> None:
    assert judge(tmp_path, STATE[name] + INPUTS, "aot_eager", ValuePlan.EXACT).status is CLEAN
    wrong = judge(tmp_path, STATE[name] + INPUTS, "fxmorph_off_by_a_tenth", ValuePlan.EXACT)
    assert wrong.status is FINDING and Kind.VALUE in wrong.kinds, wrong.reason


LEFT = {
    "another mode": """
def make_fn(): return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
def drive(g, x):
    first = g(x)
    g.eval()
    return first, g(x)
""",
    "a counter of its own": """
class Net(torch.nn.Module):
    calls, kept = 0, None
    def forward(self, x):
        self.calls += 1
        self.kept = x.sin() if self.kept is None else self.kept + x
        return self.kept * self.calls
def make_fn(): return Net()
""",
}


@pytest.mark.parametrize("name", LEFT)
def test_a_module_is_as_it_was_made_in_each_run(tmp_path: Path, name: str) -> None:
    text = f"META = {{'threads': 4}}\n{LEFT[name]}def make_inputs(): return [torch.randn(8, 8)]\n"
    assert judge(tmp_path, text, "aot_eager", ValuePlan.EXACT, ValuePlan.NEAR).status is CLEAN
    wrong = judge(tmp_path, text, "fxmorph_off_by_a_tenth", ValuePlan.EXACT)
    assert wrong.status is FINDING and Kind.VALUE in wrong.kinds, wrong.reason


def test_a_program_that_no_load_makes_steady_is_skipped(tmp_path: Path) -> None:
    text = f"import time\ndef fn(x): return x * (time.perf_counter_ns() % 1000)\n{INPUTS}"
    assert judge(tmp_path, text, "aot_eager").status is Status.SKIPPED


@pytest.mark.parametrize("backend", ["aot_eager", "fxmorph_off_by_a_tenth"])
def test_the_script_makes_state_anew_too(tmp_path: Path, backend: str, preloaded: Preloaded) -> None:
    from fxmorph.campaign.finding_queue import finding_of
    from fxmorph.triage.folder.repro import repro_text

    case = case_at(tmp_path, STATE["a class that drive writes"] + INPUTS, "fxmorph_off_by_a_tenth")
    got = judge_case(case, Registry(), Clock())
    finding = finding_of(case, got, investigate(case, got, Registry(), Clock(), 5.0), 0)
    text = repro_text(finding)
    wrong = "lambda gm, _: lambda *args: tuple(o * 1.1 for o in gm(*args))"
    planted = wrong if backend == "fxmorph_off_by_a_tenth" else repr(backend)
    assert text.count("backend='fxmorph_off_by_a_tenth'") == 1
    (tmp_path / "repro.py").write_text(text.replace("backend='fxmorph_off_by_a_tenth'", f"backend={planted}"))
    done = preloaded.script(tmp_path / "repro.py")
    assert done.returncode == (1 if backend == "fxmorph_off_by_a_tenth" else 0), done.stdout + done.stderr


# -- rounding ----------------------------------------------------------------------


def other_rounding(gm: Any, inputs: Any) -> Any:
    """A backend that computes in float64 and rounds once: better than eager, and another rounding."""

    def run(*args: Any) -> Any:
        wide = [a.double() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a for a in args]
        return tuple(o.float() if o.dtype == torch.float64 else o for o in gm(*wide))

    return run


register_backend("fxmorph_other_rounding", other_rounding)
LOGISTIC = "def fn(x):\n    for _ in range(STEPS): x = 3.99 * x * (1 - x)\n    return x\n"
UNSTABLE = {
    "a chaotic iteration": LOGISTIC.replace("STEPS", "40") + "def make_inputs(): return [torch.rand(64)]\n",
    "the direction of nothing": """
def make_inputs(): return [torch.randn(2, 3, 8, 8)]
def fn(x):
    y = F.normalize(F.adaptive_avg_pool2d(F.instance_norm(x), 1), dim=1)
    return F.hardswish(y * 3)
""",
    "differences of equals": """
def make_inputs(): return [torch.randn(64)]
def fn(x):
    d = (x * 1.1 + 0.7) / 1.1 - 0.7 / 1.1 - x
    return d / d.abs().amax()
""",
}
FIRM = {
    "a stable chain": "def make_inputs(): return [torch.rand(64)]\ndef fn(x): return (x * 1.1).tanh().exp()\n",
    "a norm": "def make_inputs(): return [torch.randn(4, 64)]\ndef fn(x): return F.layer_norm(x, (64,)).softmax(1)\n",
    "whole numbers": "def make_inputs(): return [torch.arange(64.0) + 1]\ndef fn(x): return x.floor() / 3\n",
}


@pytest.mark.parametrize("name", UNSTABLE)
def test_what_eager_itself_does_not_hold_on_to_is_not_accused(tmp_path: Path, name: str) -> None:
    got = judge(tmp_path, UNSTABLE[name], "fxmorph_other_rounding")
    assert got.status in (CLEAN, ILL, Status.TIE), got.reason


@pytest.mark.parametrize("name", FIRM)
def test_what_it_holds_on_to_is_judged(tmp_path: Path, name: str) -> None:
    assert judge(tmp_path, FIRM[name], "fxmorph_other_rounding").status is CLEAN
    wrong = judge(tmp_path, FIRM[name], "fxmorph_off_by_a_tenth")
    assert wrong.status is FINDING, wrong.reason


def chaotic(x: torch.Tensor) -> torch.Tensor:
    for _ in range(60):
        x = 3.99 * x * (1 - x)
    return x


@pytest.mark.parametrize(
    ("fn", "wrong", "rounds", "excused"),
    [
        (chaotic, lambda x: chaotic(torch.nextafter(x, torch.ones_like(x))), True, True),
        (lambda x: chaotic(x).cumsum(0), lambda x: chaotic(x * (1 + 2**-22)).cumsum(0), True, True),
        (lambda x: x * 2, lambda x: x * 2.2, True, False),
        (lambda x: torch.cat([chaotic(x), x]), lambda x: torch.cat([chaotic(x + 2**-24), x * 1.1]), True, False),
        (chaotic, lambda x: chaotic(x + 2**-24), False, False),  # decided on exact values
    ],
    ids=["a neighbour", "sums", "stable", "stable in part", "exact"],
)
def test_only_what_moves_as_far_in_eager_is_excused(fn: Any, wrong: Any, rounds: bool, excused: bool) -> None:
    x = torch.rand(16, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    native = fn(x)
    lanes = {"wide": native.double(), "wide:0": native.double() * (1 + rounds * 2.0**-24)}

    def run(draw: int) -> Observation:
        (moved,) = move(Invocation(fn, [x.clone()], lambda g: None), draw).args
        return Observation(outputs=[frozen("out0", fn(moved))])

    sides = frozen("out0", native), frozen("out0", wrong(x))
    assert moves_as_far(*sides, Shadows(native, lanes), run) is excused


@pytest.mark.parametrize(
    ("fn", "value", "excused"),
    [
        (lambda x: x[:4] / (x[:4] * 3 - x[4:8]), 1e20, True),  # what cancels to 0, or nearly
        (lambda x: torch.cat([x[:4] / (x[:4] * 3 - x[4:8]), x[8:] * 0 / 0]), 1e20, False),  # and what does not
        (lambda x: x[8:] * 0 / 0, 1.0, False),
    ],
)
def test_only_a_number_that_eager_loses_to_a_rounding_may_be_lost(fn: Any, value: float, excused: bool) -> None:
    base = torch.tensor([0.1, 0.37, 0.73, 1.9], dtype=torch.float64)
    x = torch.cat([base, base * 3, base])
    native = fn(x)
    assert not torch.isfinite(native).any()

    def run(draw: int) -> Observation:
        (moved,) = move(Invocation(fn, [x.clone()], lambda g: None), draw).args
        return Observation(outputs=[frozen("out0", fn(moved))])

    sides = frozen("out0", native), frozen("out0", torch.full_like(native, value))
    assert loses_numbers(*sides, run) is excused
    assert not loses_numbers(sides[0], sides[0], run)


def test_what_cancels_in_16_bits_is_decided() -> None:
    """A neighbour of the input moves the difference as far; but no rounding of the program reaches its zero."""
    x = torch.tensor([0.1, -0.3, 0.7], dtype=torch.bfloat16)
    native, wrong = x - x.clone(), (x.double() - torch.tensor([0.1, -0.3, 0.7]).double()).bfloat16()
    noise = torch.finfo(torch.bfloat16).smallest_normal * 2.0**-8
    lanes = {"wide": native.double(), "wide:0": native.double() + noise}

    def run(draw: int) -> Observation:
        (moved,) = move(Invocation(torch.neg, [x.clone()], lambda g: None), draw).args
        return Observation(outputs=[frozen("out0", moved - x)])

    assert not moves_as_far(frozen("out0", native), frozen("out0", wrong), Shadows(native, lanes), run)


def test_equal_inputs_move_alike_and_whole_numbers_stay() -> None:
    x = torch.tensor([0.3, 0.3, 2.0, -0.7, 0.0, torch.inf] * 20)
    for draw in range(1, 9):
        args = [x.clone(), x.double()[:2].half()]
        move(Invocation(torch.neg, args, lambda g: None), draw)
        moved = args[0]
        assert all(len(moved[k::6].unique()) == 1 for k in range(6))
        assert (moved[0::6] == moved[1::6]).all()
        assert (moved[2::6] == 2).all() and (moved[4::6] == 0).all() and moved[5::6].isinf().all()
        assert ((moved - x).nan_to_num(0).abs() <= 2.0**-23).all()
    draws = {float(move(Invocation(torch.neg, [torch.tensor([0.3])], lambda g: None), d).args[0]) for d in range(1, 17)}
    assert len(draws) == 3  # down, as it is, up


def test_a_size_of_nothing_is_said_as_what_it_is(tmp_path: Path) -> None:
    def refuses_nothing(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            if any(isinstance(a, torch.Tensor) and a.numel() == 0 for a in args):
                raise RuntimeError("no elements")
            return gm(*args)

        return run

    register_backend("fxmorph_refuses_nothing", refuses_nothing)
    text = "def make_inputs(): return [torch.randn(6, 5)]\ndef fn(x): return x.sin().sum(1)\n"
    got = judge(tmp_path, text, "fxmorph_refuses_nothing", ValuePlan.EMPTY, dynamic=True)
    assert (got.status, got.kinds) == (FINDING, (Kind.RAISES,)), got.reason
    assert got.reason.startswith("at size 0, compiled at 6 before: ")
    assert judge(tmp_path, text, "aot_eager", ValuePlan.EMPTY, dynamic=True).status is CLEAN


class _Scaled(torch.autograd.Function):
    """The value, and a gradient ``by`` times as large."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        ctx.by = by
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad * ctx.by, None


#: Whose gradient autograd computes by another formula where anything watches the operators.
WATCHED = {
    "prod": lambda x: x.prod(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "prod of all": lambda x: x[0].prod(),
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_is_computed_otherwise_when_watched_is_judged(name: str, judged: Any) -> None:
    fn = WATCHED[name]
    x = (torch.rand(50, 9, generator=torch.Generator().manual_seed(0)) + 0.5).requires_grad_()
    assert not [v for v in judged(fn, lambda x: fn(_Scaled.apply(x, 1.0 + 1e-7)), [x]) if v.status is not Status.CLEAN]
    found = judged(fn, lambda x: fn(_Scaled.apply(x, 1.0001)), [x])
    assert [v.kind for v in found if v.status is Status.FINDING] == [Kind.GRADIENT], found


def in_turn(*programs: Any) -> Any:
    """One that is the next of them at each call."""
    turns = itertools.cycle(programs)
    return lambda x: next(turns)(x)


def test_sums_in_another_order_each_time_are_judged_by_their_envelope(judged: Any) -> None:
    """As atomic additions on a GPU make them."""
    x = torch.randn(3000, 4, generator=torch.Generator().manual_seed(0))
    eager = in_turn(lambda x: x.sum(0), lambda x: x.flip(0).sum(0), lambda x: x[::2].sum(0) + x[1::2].sum(0))
    assert eager(x).tolist() != eager(x).tolist()
    assert {v.status for v in judged(eager, lambda x: x.cumsum(0)[-1], [x])} <= {Status.CLEAN}
    for wrong in (lambda x: x.sum(0) * 1.001, lambda x: x.sum(0).t().t().double(), lambda x: x[1:].sum(0)):
        assert Status.FINDING in {v.status for v in judged(eager, wrong, [x])}


@pytest.mark.parametrize(
    ("result", "change"),
    [
        (lambda x: x.sum(0), lambda out, run: out * (1 + run / 100)),
        (lambda x: x.argmax(0), lambda out, run: out + run),
        (lambda x: x.sum(0), lambda out, run: out.unsqueeze(0) if run else out),
    ],
    ids=["other values", "other places", "other shapes"],
)
def test_what_is_more_than_another_order_is_no_test(result: Any, change: Any, judged: Any) -> None:
    eager = in_turn(*(lambda x, run=run: change(result(x), run) for run in range(3)))
    found = judged(eager, lambda x: result(x) + 9, [torch.randn(30, 4)])
    assert found and not [v for v in found if v.status is Status.FINDING], found


def test_a_compiler_that_leaves_keys_of_dispatch_behind_does_not_break_what_follows(tmp_path: Path) -> None:
    def breaks(gm: Any, inputs: Any) -> Any:
        torch._C._dispatch_tls_set_dispatch_key_included("PythonDispatcher", True)
        raise RuntimeError("in the midst of tracing")

    register_backend("fxmorph_breaks_dispatch", breaks)
    text = "def make_inputs(): return [torch.randn(4)]\ndef fn(x): return x.sin()\n"
    got = judge(tmp_path, text, "fxmorph_breaks_dispatch", ValuePlan.EXACT)
    assert (got.status, got.kinds) == (FINDING, (Kind.COMPILE_ERROR,)), got.reason
    assert judge(tmp_path, text, "aot_eager", ValuePlan.EXACT).status is CLEAN
