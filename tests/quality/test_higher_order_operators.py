"""Higher-order operators are judged by the operators that they call, as all else is, and leave nothing behind."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from decompositions_exchanged import instead

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Status, ValuePlan
from fxmorph.programs.load import in_other_layout, load_seed
from fxmorph.programs.observe import observe
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import reset
from fxmorph.torchapi.storages import storage_key

pytestmark = pytest.mark.usefixtures("torch_quiet")
PROGRAMS = {
    "cond": """
def make_inputs(): return [torch.randn(4, 3) + 1, torch.randn(3, 3)]
def fn(x, w): return torch.cond(x.sum() > 0, lambda x: (x @ w).sigmoid(), lambda x: (x @ w).cos(), (x,)) * 2
""",
    "while_loop": """
from torch._higher_order_ops.while_loop import while_loop
def make_inputs(): return [torch.randn(4, 3)]
def fn(x): return while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, (x * 2).sigmoid() + x), (torch.tensor(0), x))[1]
""",
    "flex_attention": """
from torch.nn.attention.flex_attention import flex_attention
def make_inputs(): return [torch.randn(1, 2, 8, 16) for _ in range(3)]
def fn(q, k, v): return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * (i - j).float().sigmoid())
""",
    "associative_scan": """
from torch._higher_order_ops.associative_scan import associative_scan
def make_inputs(): return [torch.rand(6, 4) + 0.5]
def fn(x): return associative_scan(lambda a, b: a + b, x.sigmoid(), 0, combine_mode="generic")
""",
    "gradient of cond": """
def make_inputs(): return [torch.randn(4, 3).requires_grad_(), torch.randn(3, 3).requires_grad_()]
def fn(x, w):
    y = torch.cond(x.sum() > -99, lambda x: (x @ w).sigmoid() * 2, lambda x: (x @ w).cos(), (x,))
    return y - y.detach()
""",
    "gradient of map": """
from torch._higher_order_ops.map import map
def make_inputs(): return [torch.randn(4, 3).requires_grad_(), torch.randn(3).requires_grad_()]
def fn(x, w):
    y = map(lambda row: (row * w).sigmoid(), x)
    return y - y.detach()
""",
    "a function that the program itself compiles": """
inner = torch.compile(lambda x: x.sigmoid() * 2, backend="eager")
def make_inputs(): return [torch.randn(4, 3)]
def fn(x): return inner(x).cos() + 1
""",
}


def case_at(folder: Path, text: str) -> Case:
    (folder / "seed.py").write_text(f"import torch\n{text}")
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    config = CompileConfig.make("aot_eager_decomp_partition")
    return Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.AGAIN), config)


def judge(folder: Path, text: str, factor: float) -> CaseResult:
    case = case_at(folder, text)
    damage = nullcontext() if factor == 1 else instead("sigmoid", lambda x: factor / (1 + (-x).exp()))
    with damage:
        reset()
        return judge_case(case, Registry(), Clock())


#: Ten seconds, and like another that is quicker.
_SLOW = ("gradient of map",)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in _SLOW else n for n in PROGRAMS])
def test_a_wrong_value_inside_is_found(tmp_path: Path, name: str) -> None:
    got = judge(tmp_path, PROGRAMS[name], 1.001)
    assert got.status is Status.FINDING and "fp64" in got.reason, got.reason


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("factor", [1, 1 + 2**-22])
def test_a_right_one_is_clean(tmp_path: Path, name: str, factor: float) -> None:
    got = judge(tmp_path, PROGRAMS[name], factor)
    assert got.status is Status.CLEAN, got.reason


@pytest.mark.parametrize("name", PROGRAMS)
def test_eager_is_what_it_was_after_the_reference_run(tmp_path: Path, name: str) -> None:
    from fxmorph.judge.reference.reference_run import ReferenceRun

    reset()
    loaded = load_seed(case_at(tmp_path, PROGRAMS[name]).seed)
    before = observe(loaded.fresh())
    run = ReferenceRun(0)
    assert not observe(loaded.fresh(), mode=run, keep=run.keep).raised
    after = observe(loaded.fresh())
    assert not before.raised and not after.raised


CONTROL = """
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
def make_inputs(): return [torch.rand(4, 3).requires_grad_(), torch.rand(3).requires_grad_()]
def fn(x, w): return {}
"""


@pytest.mark.parametrize(
    "result",
    [
        "torch.cond(x.sum() > 0, lambda x: (x * w).sin(), lambda x: x + w, (x,))",
        "torch.cond(x[0, 0] < 0, lambda: -x, lambda: torch.cond(w[0] > 0, lambda x: x * w, lambda x: x - w, (x,)))",
        "map(lambda row: (row * w).sin(), x)",
        "scan(lambda sum, row: (sum * w + row, (sum * w).sin()), x[0] * 2, x)[1]",
        "associative_scan(lambda a, b: a * b, x * w, 0, combine_mode='generic')",
        "while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, (y * 2).sin() + y), (torch.tensor(0), x * w))[1]",
    ],
)
def test_gradients_of_control_flow_have_a_reference(tmp_path: Path, result: str) -> None:
    """Also where parts close over tensors, and are nested."""
    from fxmorph.judge.reference.reference_run import ReferenceRun

    reset()
    loaded = load_seed(case_at(tmp_path, CONTROL.format(result)).seed)
    run = ReferenceRun(0, differentiated=True)
    eager, beside = observe(loaded.fresh()), observe(loaded.fresh(), mode=run, keep=run.keep)
    assert not eager.raised and not beside.raised, eager.raised or beside.raised
    assert [g.name for g in eager.gradients] == [g.name for g in beside.gradients] == ["grad:input0", "grad:input1"]
    for mine, its in zip(eager.gradients, beside.gradients, strict=True):
        assert torch.allclose(its.value.lanes["wide"], mine.value.double(), 1e-5)


@pytest.mark.parametrize("layout", map(str, range(6)))
def test_inputs_of_another_layout_share_no_memory_where_control_flow_takes_them(tmp_path: Path, layout: str) -> None:
    text = """
def make_inputs(): return [torch.randn(8, 12), torch.randn(12, 12)]
def fn(x, w):
    return torch.cond(x.sum() > 0, lambda x, w: (x @ w).tanh(), lambda x, w: (x - 1) @ w.t(), (x, w))
"""
    loaded = load_seed(case_at(tmp_path, text).seed)
    loaded.layout = layout
    other = in_other_layout(loaded, 0)
    assert other is not None
    x, w = other.fresh(0).args
    assert storage_key(x) != storage_key(w)


def test_without_control_flow_some_share_memory(tmp_path: Path) -> None:
    text = "def make_inputs(): return [torch.randn(8, 12), torch.randn(12, 12)]\ndef fn(x, w): return x @ w\n"
    loaded = load_seed(case_at(tmp_path, text).seed)
    shared = set()
    for number in range(6):
        loaded.layout = str(number)
        other = in_other_layout(loaded, 0)
        shared |= {len({storage_key(t) for t in other.fresh(0).args})} if other is not None else set()
    assert shared == {1, 2}


@pytest.mark.slow
def test_weights_of_flex_attention_may_be_rounded_before_they_are_normalised(tmp_path: Path) -> None:
    """As compiled kernels do; the kernel of eager rounds them afterwards, and neither is nearer to what is meant."""
    text = """
from torch.nn.attention.flex_attention import flex_attention
def make_inputs(): return [torch.randn(2, 4, 128, 64).half() for _ in range(3)]
def fn(q, k, v):
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s.where(i >= j, -float("inf")))
"""
    (tmp_path / "seed.py").write_text(f"import torch\n{text}")
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    reset()
    made = judge_case(Case(seed, 0, 0, (ValuePlan.SEED,), CompileConfig.make()), Registry(), Clock())
    assert made.status in (Status.CLEAN, Status.ILL_CONDITIONED), made.reason
