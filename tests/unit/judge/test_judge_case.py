"""A case from its record to its result, with backends that need no C++ compiler."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.judge.journal import noting
from fxmorph.model import (
    CONTEXTS,
    RESHAPES,
    SIZE_PLANS,
    Case,
    CaseResult,
    CompileConfig,
    GraphLevel,
    Kind,
    Level,
    Recipe,
    Status,
    ValuePlan,
    Verdict,
)
from fxmorph.programs.observe import Observation, frozen
from fxmorph.rules import Registry, Rule
from fxmorph.torchapi.compiling import register_backend
from fxmorph.triage.blame.probe import Died, apart
from fxmorph.triage.investigate import as_found, investigate, nearest_miss

pytestmark = pytest.mark.usefixtures("torch_quiet")
SOFTMAX = "def make_inputs(): return [torch.randn(3, 4)]\ndef fn(x): return torch.softmax(x * 2, -1)\n"


def case_at(folder: Path, text: str, **parts: Any) -> Case:
    (folder / "seed.py").write_text("import torch\n" + text)
    (seed,), _ = find_seeds([str(folder / "seed.py")])
    plans = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.MASK)
    return replace(Case(seed, 0, 0, plans, CompileConfig.make("aot_eager")), **parts)


def judge(folder: Path, rules: Registry, text: str, **parts: Any) -> CaseResult:
    return judge_case(case_at(folder, text, **parts), rules, Clock())


def test_a_right_program_is_clean(tmp_path: Path, rules: Registry) -> None:
    got = judge(tmp_path, rules, SOFTMAX)
    assert (got.status, got.kinds, got.recipe) == (Status.CLEAN, (), "")


def test_a_case_that_takes_long_says_what_it_was_not_judged_under(tmp_path: Path, rules: Registry) -> None:
    plans = (ValuePlan.SEED, ValuePlan.LAYOUT, ValuePlan.EXACT)
    case, clock = case_at(tmp_path, SOFTMAX, plans=plans), Clock()
    clock.enough = 0.0
    cut = judge_case(case, rules, clock)
    assert (cut.status, cut.reason.partition(", which")[0]) == (Status.CLEAN, "not judged under layout, exact")
    assert judge_case(case, rules, clock).reason == ""  # that was of one case


def test_what_is_judged_so_far_is_told_and_taken_back_where_something_differs(
    tmp_path: Path, rules: Registry, wrong: CompileConfig
) -> None:
    told: list[Any] = []
    case, clock = case_at(tmp_path, SOFTMAX), Clock(so_far=told.append)
    assert judge_case(case, rules, clock).verdicts == told[-1].verdicts
    known = [(so_far.case_id, so_far.status) for so_far in told]
    assert known == [(case.id, Status.CLEAN)] * 2  # no mask is among the inputs
    told.clear()
    differing = case_at(tmp_path, SUB.format("(x - y)"), compile=wrong)
    assert judge_case(differing, rules, clock).status is Status.FINDING
    assert told == [None]


def test_sparse_inputs_are_unsupported(tmp_path: Path, rules: Registry) -> None:
    sparse = "def make_inputs(): return [torch.eye(3).to_sparse(), torch.ones(3)]\ndef fn(s, x): return s @ x + x\n"
    got = judge(tmp_path, rules, sparse)
    assert (got.status, got.reason) == (Status.UNSUPPORTED, "call: inputs of layout sparse_coo are not judged")
    assert judge(tmp_path, rules, sparse, number=1).status is Status.UNSUPPORTED


REBINDS = """
class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
    def forward(self, x):
        self.n = self.n + 1
        return x * self.n
fn = Counting()
def make_inputs(): return [torch.ones(3)]
"""


def test_a_module_that_gets_another_buffer_is_made_anew_for_each_plan(tmp_path: Path, rules: Registry) -> None:
    plans = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.AGAIN)
    got = judge(tmp_path, rules, REBINDS, plans=plans)
    assert got.status is Status.CLEAN, got.reason
    assert not got.ladder


BESIDE = """
class Windowed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.arange(9.0)[:8])
    def forward(self, x):
        return x * self.window
fn = Windowed()
def make_inputs(): return [torch.randn(8)]
"""


def test_what_a_plan_writes_beside_a_buffer_is_gone_under_the_next(tmp_path: Path, rules: Registry) -> None:
    plans = (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.NEAR, ValuePlan.AGAIN)
    got = judge(tmp_path, rules, BESIDE, plans=plans)
    assert got.status is Status.CLEAN and not got.ladder, got.reason


def test_a_variant_says_its_recipe_and_its_hash(tmp_path: Path, rules: Registry) -> None:
    got = judge(tmp_path, rules, SOFTMAX, number=1)
    assert got.status in {Status.CLEAN, Status.EXPECTED}
    assert Recipe.parse(got.recipe)
    assert len(got.graph_hash) == 16


def test_a_result_is_a_function_of_the_case(tmp_path: Path, rules: Registry) -> None:
    a, b = (judge(tmp_path, rules, SOFTMAX, number=2) for _ in range(2))
    assert (a.case_id, a.recipe, a.graph_hash, a.status) == (b.case_id, b.recipe, b.graph_hash, b.status)
    assert judge(tmp_path, rules, SOFTMAX, number=3).recipe != a.recipe


def test_variants_of_aten_graphs_are_judged(tmp_path: Path, rules: Registry) -> None:
    got = judge(tmp_path, rules, SOFTMAX, number=1, level=GraphLevel.ATEN)
    assert got.status in {Status.CLEAN, Status.EXPECTED, Status.SKIPPED}, got.reason


@pytest.mark.parametrize(
    ("text", "status", "word"),
    [
        ("def make_inputs(): raise ValueError('gone')\ndef fn(x): return x\n", Status.ERROR, "gone"),
        ("import nowhere\ndef make_inputs(): return []\ndef fn(): return 1\n", Status.ERROR, "nowhere"),
        (SOFTMAX + "META = {'config': {'no_such': 1}}\n", Status.UNSUPPORTED, "no inductor setting 'no_such'"),
        (SOFTMAX + "META = {'config': {'max_autotune': 'yes'}}\n", Status.UNSUPPORTED, "'yes', want bool"),
        (SOFTMAX + "META = {'config': {'cpp.threads': 2.5}}\n", Status.UNSUPPORTED, "2.5, want int"),
        (SOFTMAX + "META = {'dynamo_config': {'no_such': 1}}\n", Status.UNSUPPORTED, "no dynamo setting 'no_such'"),
        (SOFTMAX + "META = {'compile': {'mode': 'bogus'}}\n", Status.UNSUPPORTED, "got 'bogus'"),
    ],
)
def test_what_cannot_be_judged_says_why(tmp_path: Path, rules: Registry, text: str, status: Status, word: str) -> None:
    got = judge(tmp_path, rules, text)
    assert got.status is status
    assert word in got.reason


#: More than any address space holds.
HUGE = "torch.zeros(1).expand(2**58)"


@pytest.mark.parametrize(
    "inputs, body, where",
    [
        ("torch.ones(2)", f"x.sum() + {HUGE} * 2", "out of memory in eager"),
        (f"{HUGE} + 1", "x + 1", "out of memory where its inputs are made"),
    ],
)
def test_what_the_machine_has_no_room_for_is_said_before_anything_is_compiled(
    tmp_path: Path, rules: Registry, inputs: str, body: str, where: str
) -> None:
    result = judge(tmp_path, rules, f"def make_inputs(): return [{inputs}]\ndef fn(x): return {body}\n")
    assert result.status is Status.ERROR and where in result.reason
    assert "compile" not in dict(result.seconds)


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ("['no_grad']", "META is a list, want a dict"),
        ("{'no_grads': True}", "unknown key 'no_grads'; did you mean 'no_grad'?"),
        ("{'calls': '3'}", "META['calls'] is '3', want a whole number"),
        ("{'config': 5}", "META['config'] is 5, want a dict"),
    ],
)
def test_what_a_seed_says_wrongly_of_itself_is_an_error(
    tmp_path: Path, rules: Registry, meta: str, words: str
) -> None:
    got = judge(tmp_path, rules, f"{SOFTMAX}META = {meta}\n")
    assert got.status is Status.ERROR and words in got.reason


OWN_OPERATOR = """
lib = torch.library.Library("judged_case", "DEF")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
lib.impl("twice", lambda x: torch.empty_like(x), "Meta")
def make_inputs(): return [torch.randn(3, 4)]
def fn(x): return torch.softmax(torch.ops.judged_case.twice(x), -1) + 1
"""


def test_a_seed_with_operators_of_its_own_is_judged_case_after_case(tmp_path: Path, rules: Registry) -> None:
    got = [judge(tmp_path, rules, OWN_OPERATOR, number=number) for number in (0, 0, 1, 2)]
    assert [r.status for r in got[:2]] == [Status.CLEAN] * 2, got
    assert {r.status for r in got[2:]} <= {Status.CLEAN, Status.SKIPPED, Status.EXPECTED}, got


def test_a_program_that_gives_no_graph_has_no_variants(tmp_path: Path, rules: Registry) -> None:
    got = judge(tmp_path, rules, "def make_inputs(): return [torch.ones(2)]\ndef fn(x): return x\n", number=1)
    assert got.status is Status.UNSUPPORTED


def wrong_backend(gm: Any, inputs: Any) -> Any:
    """A compiler that adds one to its first output where the graph subtracts."""
    import operator

    if not any(n.target in (operator.sub, torch.sub) for n in gm.graph.nodes):
        return gm.forward

    def run(*args: Any) -> Any:
        first, *rest = gm.forward(*args)
        return (first + 1, *rest)

    return run


@pytest.fixture
def wrong() -> CompileConfig:
    from fxmorph.torchapi.compiling import register_backend

    register_backend("fxmorph_test_wrong", wrong_backend)
    return CompileConfig.make("fxmorph_test_wrong")


SUB = "def make_inputs(): return [torch.randn(3), torch.randn(3)]\ndef fn(x, y): return {} * 2\n"


def test_a_wrong_compiler_is_found_on_the_seed(tmp_path: Path, rules: Registry, wrong: CompileConfig) -> None:
    got = judge(tmp_path, rules, SUB.format("(x - y)"), compile=wrong)
    assert (got.status, got.kinds) == (Status.FINDING, ("value",))
    assert got.stage == "fxmorph_test_wrong"


def only(**parts: Any) -> Registry:
    registry = Registry()
    defaults: dict[str, Any] = {"args": {"x": "...", "y": "..."}, "doc": "A rule.", "claim": Level.BIT_EXACT}
    registry.add(Rule(**{**defaults, **parts}))
    return registry


def test_who_is_wrong_is_told_apart(tmp_path: Path, wrong: CompileConfig) -> None:
    to_sub = only(id="algebra_j1", before=lambda x, y: x + y, after=lambda x, y: x - (-y))
    got = judge(tmp_path, to_sub, SUB.format("(x + y)"), compile=wrong, number=1, recipe=Recipe.parse("algebra_j1@add"))
    assert (got.status, got.triangle) == (Status.FINDING, "variant-miscompiled")
    swapped = only(id="algebra_j2", before=lambda x, y: x - y, after=lambda x, y: -(y - x), claim=Level.EXACT_REAL)
    recipe = Recipe.parse("algebra_j2@sub")
    got = judge(tmp_path, swapped, SUB.format("(x - y)"), compile=wrong, number=1, recipe=recipe)
    assert (got.status, got.triangle) == (Status.FINDING, "both")


def test_an_unsound_rewrite_is_never_blamed_on_the_compiler(tmp_path: Path) -> None:
    unsound = only(id="algebra_j3", before=lambda x, y: x + y, after=lambda x, y: x - y)
    got = judge(tmp_path, unsound, SUB.format("(x + y)"), number=1, recipe=Recipe.parse("algebra_j3@add"))
    assert (got.status, got.kinds) == (Status.UNSOUND_REWRITE, ())
    assert "algebra_j3@add" in got.recipe


def test_a_rewrite_that_is_wrong_on_other_values_alone_is_unsound(tmp_path: Path) -> None:
    """Right on the seed's values, which the claim is checked on first; wrong on integers."""
    parts: dict[str, Any] = {"args": {"x": "..."}, "before": lambda x: x.ceil(), "after": lambda x: x.floor() + 1}
    text = "def make_inputs(): return [torch.rand(9) + 0.001]\ndef fn(x): return torch.ceil(x)\n"
    got = judge(tmp_path, only(id="algebra_j4", **parts), text, number=1, recipe=Recipe.parse("algebra_j4@ceil"))
    assert got.status is Status.UNSOUND_REWRITE


@pytest.mark.parametrize(("keeps", "status"), [((), Status.SKIPPED), (("raises",), Status.UNSOUND_REWRITE)])
def test_a_rewrite_that_raises_on_other_values_breaks_a_promise_where_one_was_made(
    tmp_path: Path, keeps: tuple[str, ...], status: Status
) -> None:
    """Runs on the seed's values, which lie between 0 and 1; raises on integers."""

    def after(x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x < 1).all())
        return x.ceil()

    parts: dict[str, Any] = {"args": {"x": "..."}, "before": lambda x: x.ceil(), "after": after}
    text = "def make_inputs(): return [torch.rand(9) + 0.001]\ndef fn(x): return torch.ceil(x)\n"
    found = only(id=f"algebra_j5{len(keeps)}", **parts, preserves=frozenset(keeps))
    got = judge(tmp_path, found, text, number=1, recipe=Recipe.parse(f"algebra_j5{len(keeps)}@ceil"))
    assert got.status is status, got.reason
    assert "raises" in got.reason


def test_values_that_a_rewrite_is_not_stable_on_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At limits the product overflows; elsewhere both sides agree."""
    parts: dict[str, Any] = {"claim": Level.EXACT_REAL, "args": {"x": "..."}}
    far = only(id="algebra_j5", before=lambda x: x.neg(), after=lambda x: (x * 2.0**120).neg() * 2.0**-120, **parts)
    text = "def make_inputs(): return [torch.randn(99)]\ndef fn(x): return -x\n"

    def under_limits() -> Status:
        plans = (ValuePlan.SEED, ValuePlan.LIMITS)
        return judge(tmp_path, far, text, number=1, recipe=Recipe.parse("algebra_j5@neg"), plans=plans).status

    assert under_limits() is Status.CLEAN
    monkeypatch.setattr("fxmorph.judge.case.EXTRA_PLANS", ())
    assert under_limits() is Status.INCONCLUSIVE


def test_time_is_accounted_for(tmp_path: Path, rules: Registry) -> None:
    seconds = dict(judge(tmp_path, rules, SOFTMAX, number=1).seconds)
    assert {"capture", "rewrite", "compile", "eager"} <= set(seconds)


def second_call_breaks(gm: Any, example_inputs: list[Any]) -> Any:
    """A backend whose second call of a compiled graph is off by one."""
    calls = 0

    def run(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        out = gm.forward(*args)
        return tuple(o + 1 for o in out) if calls == 2 else out

    return run


def only_first_size(gm: Any, example_inputs: list[Any]) -> Any:
    """A backend that bakes the first size in: other sizes get zeros."""
    first: list[Any] = []

    def run(*args: Any) -> Any:
        shapes = [a.shape for a in args if isinstance(a, torch.Tensor)]
        first.append(shapes)
        out = gm.forward(*args)
        return out if shapes == first[0] else tuple(o * 0 for o in out)

    return run


def wrong_at_one(gm: Any, example_inputs: list[Any]) -> Any:
    """A backend that is wrong for inputs with a dimension of size 1."""

    def run(*args: Any) -> Any:
        out = gm.forward(*args)
        return tuple(o + o.new_ones(()) for o in out) if any(1 in a.shape for a in args) else out

    return run


def draws_one_more(gm: Any, example_inputs: list[Any]) -> Any:
    """A backend that takes a random number of its own."""

    def run(*args: Any) -> Any:
        out = gm.forward(*args)
        torch.rand(1)
        return out

    return run


def only_contiguous(gm: Any, example_inputs: list[Any]) -> Any:
    """A backend that is wrong for inputs that are not contiguous."""

    def run(*args: Any) -> Any:
        out = gm.forward(*args)
        return out if args[0].is_contiguous() else tuple(o + 1 for o in out)

    return run


def dies_when_short(gm: Any, _: Any) -> Any:
    """Computes all outputs one off; ends the process where the graph has less than three calls."""
    if len(gm.graph.find_nodes(op="call_method")) < 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda *args: tuple(out + 1 for out in gm.forward(*args))


@pytest.fixture
def broken_backends() -> None:
    register_backend("only_contiguous", only_contiguous)
    register_backend("draws_one_more", draws_one_more)
    register_backend("second_call_breaks", second_call_breaks)
    register_backend("only_first_size", only_first_size)
    register_backend("wrong_at_one", wrong_at_one)
    register_backend("dies_when_short", dies_when_short)


PLUS = "def make_inputs(): return [torch.randn(3, 4)]\ndef fn(x): return x + 2\n"


@pytest.mark.usefixtures("broken_backends")
def test_a_fault_of_the_second_call_has_its_own_kind(tmp_path: Path, rules: Registry) -> None:
    broken = CompileConfig.make("second_call_breaks")
    alone = judge(tmp_path, rules, PLUS, compile=broken, plans=(ValuePlan.AGAIN,))
    assert (alone.status, set(alone.kinds)) == (Status.FINDING, {Kind.VALUE, Kind.SECOND_CALL})
    assert judge(tmp_path, rules, PLUS, compile=broken, plans=(ValuePlan.SEED,)).status is Status.CLEAN
    right = judge(tmp_path, rules, PLUS, plans=(ValuePlan.SEED, ValuePlan.AGAIN))
    assert right.status is Status.CLEAN


def test_a_second_call_sees_what_the_first_one_wrote(tmp_path: Path, rules: Registry) -> None:
    text = "def make_inputs(): return [torch.ones(3)]\ndef fn(x): return x.add_(1).clone()\n"
    assert judge(tmp_path, rules, text, plans=(ValuePlan.AGAIN,)).status is Status.CLEAN


@pytest.mark.usefixtures("broken_backends")
@pytest.mark.parametrize("plan", SIZE_PLANS[:3])
def test_a_fault_at_other_sizes_is_found_where_shapes_are_dynamic(
    tmp_path: Path, rules: Registry, plan: ValuePlan
) -> None:
    def at(**options: Any) -> CaseResult:
        config = CompileConfig.make("only_first_size", options)
        return judge(tmp_path, rules, PLUS, compile=config, plans=(plan,))

    found = at(dynamic=True)
    if plan is ValuePlan.ONE:  # Dynamo compiles size 1 by itself: it is that compile's first size
        assert found.status is Status.CLEAN
        return
    assert (found.status, found.kinds) == (Status.FINDING, (Kind.VALUE,))
    assert at().status is Status.CLEAN


@pytest.mark.usefixtures("broken_backends")
def test_a_fault_in_another_layout_is_found_on_a_seed_as_it_is(tmp_path: Path, rules: Registry) -> None:
    broken, plans = CompileConfig.make("only_contiguous"), (ValuePlan.SEED, ValuePlan.LAYOUT)
    drawn = [judge(tmp_path, rules, PLUS, compile=broken, plans=plans, campaign_seed=k) for k in range(4)]
    found = [got for got in drawn if got.status is Status.FINDING]
    assert found and {got.kinds for got in found} == {(Kind.VALUE,)}
    assert {v.plan for got in found for v in got.verdicts} == {ValuePlan.LAYOUT}
    assert judge(tmp_path, rules, PLUS, compile=broken, number=1, plans=(ValuePlan.LAYOUT,)).status is Status.CLEAN
    assert judge(tmp_path, rules, PLUS, plans=plans).status is Status.CLEAN


@pytest.mark.parametrize("kind", RESHAPES)
def test_a_sound_compiler_is_clean_on_inputs_of_other_shapes(tmp_path: Path, rules: Registry, kind: str) -> None:
    lines: list[str] = []
    with noting(lines):
        got = judge(tmp_path, rules, SOFTMAX, number=1, reshaped=kind)
    assert got.status is Status.CLEAN and got.recipe, got.reason
    assert lines[0].startswith("inputs: ") and "none accepted" not in lines[0]


@pytest.mark.usefixtures("broken_backends")
def test_a_fault_at_size_1_is_found_and_its_program_has_that_size(tmp_path: Path, rules: Registry) -> None:
    config = CompileConfig.make("wrong_at_one")
    assert judge(tmp_path, rules, PLUS, compile=config, number=1).status is Status.CLEAN
    got = judge(tmp_path, rules, PLUS, compile=config, number=1, reshaped="one")
    assert (got.status, got.kinds, got.triangle) == (Status.FINDING, (Kind.VALUE,), "both")
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 1, 0, (ValuePlan.SEED,), config, reshaped="one")
    for found in (investigate(case, got, rules, Clock(), 1.0), as_found(case, got, rules, Clock())):
        program: dict[str, Any] = {"torch": torch}
        exec(found.program, program)
        assert any(1 in t.shape for t in program["make_inputs"]())


@pytest.mark.usefixtures("broken_backends")
def test_where_the_seed_itself_is_the_program_its_inputs_are_the_cases(tmp_path: Path, rules: Registry) -> None:
    config = CompileConfig.make("wrong_at_one")
    breaks = PLUS.replace("x + 2", "x + (2 if x.sum() > -1e9 else 3)")  # two graphs
    got = judge(tmp_path, rules, breaks, compile=config, reshaped="one")
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,))
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED,), config, reshaped="one")
    found = investigate(case, got, rules, Clock(), 5.0)
    program: dict[str, Any] = {}
    exec(found.program, program)
    assert "-1000000000.0" in found.program and 1 in program["make_inputs"]()[0].shape
    assert found.kinds == (Kind.VALUE,) and not found.recipe


@pytest.mark.usefixtures("broken_backends")
def test_candidates_may_die_where_they_run_apart(tmp_path: Path, rules: Registry) -> None:
    text = "def make_inputs(): return [torch.ones(3)]\ndef fn(x): return x.abs().sin().cos().tan().exp()\n"
    config = CompileConfig.make("dies_when_short")
    got = judge(tmp_path, rules, text, compile=config)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,))
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED,), config)
    found = investigate(case, got, rules, Clock(), 60.0, apart=True)  # in this process it would not come back
    assert (found.kinds, found.nodes, found.finished) == ((Kind.VALUE,), 3, True)


def test_what_runs_apart_is_answered_or_died() -> None:
    assert apart(lambda: [1, Kind.VALUE]) == [1, Kind.VALUE]
    with pytest.raises(Died, match="SIGKILL"):
        apart(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(Died, match="ValueError"):
        apart(lambda: int("no"))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_programs_are_judged_in_other_dtypes(tmp_path: Path, rules: Registry, dtype: str) -> None:
    got = judge(tmp_path, rules, SOFTMAX, dtype=dtype, number=1)
    assert got.status in {Status.CLEAN, Status.EXPECTED}, got.reason
    text = "def make_inputs(): return [torch.randn(3, 3)]\ndef fn(x): return x @ torch.eye(3)\n"
    assert judge(tmp_path, rules, text, dtype=dtype).status is Status.UNSUPPORTED


@pytest.mark.parametrize("context", CONTEXTS)
def test_programs_are_judged_under_a_context(tmp_path: Path, rules: Registry, context: str) -> None:
    text = (
        "def make_inputs(): return [torch.randn(3, 4, requires_grad=True), torch.randn(4, 5)]\n"
        "def fn(x, w): return (x @ w).relu(), torch.is_inference_mode_enabled()\n"
    )
    for number in (0, 1):
        got = judge(tmp_path, rules, text, context=context, number=number)
        assert got.status in {Status.CLEAN, Status.EXPECTED}, got.reason


@pytest.mark.usefixtures("broken_backends")
def test_a_random_number_too_many_is_found(tmp_path: Path, rules: Registry) -> None:
    text = "def make_inputs(): return [torch.ones(8)]\ndef fn(x): return torch.nn.functional.dropout(x, 0.5)\n"
    assert judge(tmp_path, rules, text).status is Status.CLEAN
    for program in (text, PLUS):
        got = judge(tmp_path, rules, program, compile=CompileConfig.make("draws_one_more"))
        assert (got.status, got.kinds) == (Status.FINDING, (Kind.RNG,)), got.reason


# -- threads -----------------------------------------------------------------------


def one_thread_alone(gm: Any, inputs: Any) -> Any:
    """A backend whose code is wrong where loops run in parallel."""

    def run(*args: Any) -> Any:
        outs = gm(*args)
        return tuple(o + 1 for o in outs) if torch.get_num_threads() > 1 else outs

    return run


@pytest.mark.parametrize(
    ("asked", "meta", "status"),
    [
        (1, "", Status.CLEAN),
        (4, "", Status.FINDING),
        (1, "META = {'threads': 2}\n", Status.FINDING),
        (4, "META = {'threads': 1}\n", Status.CLEAN),
    ],
)
def test_a_case_has_the_threads_that_it_says(
    tmp_path: Path, rules: Registry, asked: int, meta: str, status: Status
) -> None:
    register_backend("fxmorph_test_threads", one_thread_alone)
    config, before = CompileConfig.make("fxmorph_test_threads", threads=asked), torch.get_num_threads()
    got = judge(tmp_path, rules, SOFTMAX + meta, compile=config)
    assert got.status is status, got.reason
    assert torch.get_num_threads() == before


def test_the_script_of_a_finding_has_its_threads(tmp_path: Path, rules: Registry) -> None:
    register_backend("fxmorph_test_threads", one_thread_alone)
    case = case_at(tmp_path, SOFTMAX, compile=CompileConfig.make("fxmorph_test_threads", threads=4))
    found = as_found(case, judge_case(case, rules, Clock()), rules, Clock())
    assert found.config["threads"] == 4
    one = replace(case, compile=replace(case.compile, threads=1))
    alone = as_found(one, CaseResult(case.id, Status.FINDING), rules, Clock())
    assert "threads" not in alone.config


# -- as it was found ---------------------------------------------------------------

AS_CLASS = """
class Net(torch.nn.Module):
    @staticmethod
    def make_inputs(): return [torch.randn(3, 4), torch.randn(3, 4)]
    def forward(self, x, y): return x - y
"""


def test_a_class_is_its_own_program_as_it_was_found(tmp_path: Path, rules: Registry, wrong: CompileConfig) -> None:
    (tmp_path / "net.py").write_text("import torch\n" + AS_CLASS)
    seeds, _ = find_seeds([f"{tmp_path / 'net.py'}:Net"])
    for seed in seeds:
        case = Case(seed, 0, 0, (ValuePlan.SEED,), wrong)
        result = judge_case(case, rules, Clock())
        found = as_found(case, result, rules, Clock())
        names: dict[str, Any] = {"torch": torch}
        exec(found.program, names)
        assert names["make_fn"]().training == (seed.mode == "train") and len(names["make_inputs"]()) == 2


def test_a_size_that_was_changed_is_in_the_script_as_it_was_found(tmp_path: Path, rules: Registry) -> None:
    case = case_at(tmp_path, SOFTMAX, compile=CompileConfig.make("aot_eager", {"dynamic": True}))
    verdict = Verdict(Status.FINDING, Kind.VALUE, "out0", "off", ValuePlan.LARGER)
    result = CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off", (verdict,))
    old, new = as_found(case, result, rules, Clock()).config["sizes"]
    assert old in (3, 4) and new > old


@pytest.mark.parametrize(
    ("eager", "compiled", "apart"),
    [(1.0, 2.0, None), (1e-6, 3e-6, 2e-6), (1.0, 1.0, None), (0.0, float("nan"), None)],
)
def test_scripts_allow_less_than_what_differs(eager: float, compiled: float, apart: float | None) -> None:
    sides = tuple(Observation([frozen("out0", torch.tensor([v, 1.0]))]) for v in (eager, compiled))
    verdict = Verdict(Status.FINDING, Kind.VALUE, "out0")
    got = nearest_miss(sides, [verdict])  # type: ignore[arg-type]
    assert got == (None if apart is None else pytest.approx(apart, rel=1e-3))


def test_a_program_as_it_was_found_has_the_values_that_show_it(tmp_path: Path, rules: Registry) -> None:
    case = case_at(tmp_path, SOFTMAX)
    for plan in (ValuePlan.SEED, ValuePlan.EXACT):
        verdict = Verdict(Status.FINDING, Kind.VALUE, "out0", "off", plan)
        result = CaseResult(case.id, Status.FINDING, (Kind.VALUE,), "off", (verdict,))
        names: dict[str, Any] = {"torch": torch}
        exec(as_found(case, result, rules, Clock()).program, names)
        torch.manual_seed(0)
        (x,) = names["make_inputs"]()
        assert bool((x * 4 == (x * 4).round()).all()) == (plan is ValuePlan.EXACT)
