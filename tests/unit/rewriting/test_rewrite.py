"""Recipes: drawn safely, replayed exactly, and the same in every process."""

from __future__ import annotations

import contextlib
import itertools
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Preloaded

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import check_rewrite, make_variant
from fxmorph.model import Case, CompileConfig, Level, Recipe, Rewrite, TensorSpec, ValuePlan
from fxmorph.programs.capture import CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable, calls, print_graph, read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.load import load_seed
from fxmorph.programs.profile import profile
from fxmorph.rewriting.claims import Inapplicable, Unsound, check_claim
from fxmorph.rewriting.instances import Instance, bind_sizes, holds
from fxmorph.rewriting.recipes import replay_recipe
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Rule, RuleError

pytestmark = pytest.mark.usefixtures("torch_quiet")
ROOT = Path(__file__).parents[3]
SEEDS, _ = find_seeds([str(ROOT / "corpus")])
SAMPLE = SEEDS[:: len(SEEDS) // 20][:20]


def case_of(seed: Any, number: int, recipe: Recipe | None = None) -> Case:
    plans = (ValuePlan.SEED, ValuePlan.EXACT)
    return Case(seed, number, 0, plans, CompileConfig.make(), recipe=recipe)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, id=Path(seed.path).stem, marks=pytest.mark.slow if number % 2 else ())
        for number, seed in enumerate(SAMPLE)
    ],
)
def test_drawn_recipes_keep_the_meaning_and_replay(seed: Any, rules: Any) -> None:
    loaded = load_seed(seed)
    for number in (1, 2):
        try:
            variant = make_variant(case_of(seed, number), loaded, rules, Clock())
        except (CaptureFailed, Unprintable) as error:
            pytest.skip(str(error)[:80])
        refused = check_rewrite(case_of(seed, number), variant, Clock())
        assert refused is None or refused.status != "unsound-rewrite", refused
        again = make_variant(case_of(seed, number, Recipe.parse(str(variant.recipe))), loaded, rules, Clock())
        assert again.text == variant.text
        assert again.recipe == variant.recipe


INSIDE = {
    "vmap": "torch.func.vmap(torch.dot)(x, x)",
    "grad": "torch.func.grad(lambda a: (a.sin() * a).sum())(x)",
    "jvp": "torch.func.jvp(lambda a: a.sin() * a, (x,), (x,))[1]",
    "dual": "fa.unpack_dual(fa.make_dual(x, x).sin()).tangent",
}


@pytest.mark.parametrize("transform", INSIDE)
def test_programs_that_hold_a_transform_are_rewritten_where_it_is_gone(
    transform: str, rules: Any, tmp_path: Path
) -> None:
    """Dynamo's graph calls operators inside of it, on tensors that have no memory of their own."""
    file = tmp_path / "inside.py"
    within = "with fa.dual_level():" if transform == "dual" else "if True:"
    file.write_text(
        "import torch\nimport torch.autograd.forward_ad as fa\n"
        "def make_inputs():\n    return [torch.randn(3, 4)]\n"
        f"def fn(x):\n    {within}\n        return {INSIDE[transform]} + 1\n"
    )
    (seed,), _ = find_seeds([str(file)])
    for number in range(1, 5):  # of both levels
        case = case_of(seed, number)
        variant = make_variant(case, load_seed(seed), rules, Clock())
        assert variant.recipe
        assert check_rewrite(case, variant, Clock()) is None


DRAW = """
import sys, torch
from fxmorph.core.clock import Clock
from fxmorph.judge.case import make_variant
from fxmorph.programs.load import load_seed
from fxmorph.model import Case, CompileConfig, ValuePlan
from fxmorph.rules import load_rules
from fxmorph.core.seeds import find_seeds
rules = load_rules()
for path in sys.argv[1:]:
    (seed,), _ = find_seeds([path])
    for number in (5,):
        case = Case(seed, number, 9, (ValuePlan.SEED,), CompileConfig.make())
        variant = make_variant(case, load_seed(seed), rules, Clock())
        print(case.id, variant.hash, variant.recipe)
"""


def test_drawing_is_the_same_in_every_process(tmp_path: Path, preloaded: Preloaded) -> None:
    """In one that hashes in an order of its own and has drawn nothing, and in a fork of one that hashes otherwise."""
    paths = [SAMPLE[3].path, SAMPLE[9].path]
    env = {"PYTHONHASHSEED": "2", "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": "/tmp"}
    command = [sys.executable, "-c", DRAW, *paths[::-1]]
    one = subprocess.run(command, capture_output=True, text=True, env=env, check=True).stdout.splitlines()
    (tmp_path / "draw.py").write_text(f"import sys\nsys.argv[1:] = {paths!r}\n{DRAW}")
    two = preloaded.script(tmp_path / "draw.py").stdout.splitlines()
    assert sorted(one) == sorted(two)
    assert len(set(one)) == 2


def bench_of(text: str, *values: Any, no_grad: bool = True) -> Workbench:
    return Workbench(read_graph(text), InputSet.snapshot(values), no_grad)


_serial = itertools.count()


def made(**parts: Any) -> Rule:
    """A rule under an id of its own: patterns are kept by id."""
    defaults: dict[str, Any] = {
        "id": f"algebra_test{next(_serial)}",
        "before": lambda x: x * 2,
        "after": lambda x: x + x,
        "args": {"x": "..."},
        "doc": "A rule.",
    }
    return Rule(**{**defaults, **parts})


def test_a_rule_matches_every_spelling() -> None:
    for line in ("a = x * 2", "a = torch.mul(x, 2)", "a = x.mul(2)", "a = torch.ops.aten.mul.Scalar(x, 2)"):
        bench = bench_of(f"def fn(x):\n    {line}\n    return (a,)\n", torch.ones(3))
        bench.apply(made(), Rewrite("algebra_test", "a"))
        assert print_graph(bench.graph).splitlines()[1].strip() == "add = x + x"


def test_a_write_is_not_matched_as_its_functional_form() -> None:
    bench = bench_of("def fn(x):\n    a = x.mul_(2)\n    return (a,)\n", torch.ones(3))
    assert list(bench.sites(made())) == []


@pytest.mark.parametrize("literal", ["3", "2.5", "x"])
def test_other_literals_do_not_match(literal: str) -> None:
    bench = bench_of(f"def fn(x):\n    a = x * {literal}\n    return (a,)\n", torch.ones(3))
    with pytest.raises(Inapplicable):
        bench.apply(made(), Rewrite("algebra_test", "a"))


def test_a_value_that_is_addressed_by_absolute_offset_keeps_its_layout(rules: Any) -> None:
    text = "def fn(x):\n    a = x * 2\n    b = a.as_strided([1, 3], [3, 1], 0)\n    c = a + 1\n    return (b, c)\n"
    exchange = rules["mutate_slot_exchange"]
    bench = bench_of(text, torch.ones(3))
    with pytest.raises(Inapplicable, match="b addresses the memory"):
        bench.apply(exchange, Rewrite(exchange.id, "a"))
    assert print_graph(bench.graph).count("=") == text.count("=")
    bench.apply(exchange, Rewrite(exchange.id, "a", "c"))


def test_exposing_what_a_later_write_makes_differentiable_changes_gradients() -> None:
    body = ["a = x.new_zeros(3)", "b = x.new_zeros(3)", "c = x * 2", "a.copy_(c)", "return (c,)"]
    text = "\n    ".join(["def fn(x):", *body]) + "\n"
    for site, kept in (("a", False), ("b", True)):
        bench = bench_of(text, torch.ones(3, requires_grad=True), no_grad=False)
        bench.expose(Rewrite("expose", site))
        assert ("gradient" in bench.kept) is kept


def test_a_refused_rewrite_leaves_the_graph_as_it_was() -> None:
    text = "def fn(x):\n    a = x * 2\n    return (a,)\n"
    bench = bench_of(text, torch.ones(3))
    with pytest.raises(Inapplicable):
        bench.apply(made(after=lambda x: x.reshape(7, 7)), Rewrite("algebra_test", "a"))
    assert print_graph(bench.graph) == text
    assert bench.applied == []


@pytest.mark.parametrize("keeps", [(), ("raises",)])
def test_a_rule_that_may_not_raise_is_unsound_where_it_does(keeps: tuple[str, ...]) -> None:
    bench = bench_of("def fn(x):\n    a = x * 2\n    return (a,)\n", torch.ones(3))
    raising = made(after=lambda x: x.reshape(7, 7), preserves=frozenset(keeps))
    with pytest.raises(Unsound if keeps else Inapplicable, match="shape '\\[7, 7\\]' is invalid"):
        bench.apply(raising, Rewrite("algebra_test", "a"))
    assert len(calls(bench.graph)) == 1 and bench.applied == []


def test_what_cannot_be_recorded_is_no_fault_of_a_rule_that_may_not_raise() -> None:
    bench = bench_of("def fn(x):\n    a = x * 2\n    return (a,)\n", torch.ones(3))
    for after in (lambda x: x * x.sum().item(), lambda x: x + x if x.sum() > 0 else x * 2):
        with pytest.raises(Inapplicable):
            bench.apply(made(after=after, preserves=frozenset({"raises"})), Rewrite("algebra_test", "a"))


@pytest.mark.parametrize("keeps", [(), ("raises",)])
def test_a_rewrite_that_makes_the_program_raise_later_breaks_the_same_promise(keeps: tuple[str, ...]) -> None:
    """Eager refuses a write to a view that was made under no_grad."""
    text = (
        "def fn(x, w):\n    off = torch._C._set_grad_enabled(False)\n    a = x * 2\n"
        "    on = torch._C._set_grad_enabled(True)\n    b = a.add_(w)\n    return (b,)\n"
    )
    values = torch.ones(3), torch.ones(3, requires_grad=True)
    bench = bench_of(text, *values, no_grad=False)
    views = made(
        id="identity_test_view", before=lambda x: x, after=lambda x: x.view(x.shape), site="value",
        claim=Level.INDEX_EXACT, preserves=frozenset({"alias", "mutation", *keeps}),
    )  # fmt: skip
    with pytest.raises(Unsound if keeps else Inapplicable, match="created in no_grad mode"):
        bench.apply(views, Rewrite("identity_test_view", "a"))


def test_a_rule_may_not_read_values() -> None:
    bench = bench_of("def fn(x):\n    a = x * 2\n    return (a,)\n", torch.ones(3))
    with pytest.raises(Inapplicable, match="item"):
        bench.apply(made(after=lambda x: x * x.sum().item()), Rewrite("algebra_test", "a"))


def test_memory_that_is_written_later_keeps_rules_that_change_aliases_away() -> None:
    read_only = "def fn(x):\n    a = x[1:]\n    return (a,)\n"
    written = "def fn(x):\n    a = x[1:]\n    b = a.add_(1)\n    return (b,)\n"
    copying = made(before=lambda x: x[1:], after=lambda x: x[1:].clone(), claim=Level.INDEX_EXACT)
    assert len(list(bench_of(read_only, torch.ones(3)).sites(copying))) == 1
    assert len(list(bench_of(written, torch.ones(3)).sites(copying))) == 0


def test_a_write_between_the_nodes_of_a_pattern_prevents_a_match() -> None:
    text = "def fn(x):\n    a = x * 2\n    w = x.add_(1)\n    b = a + x\n    return (b,)\n"
    tripling = made(before=lambda x: x * 2 + x, after=lambda x: x * 3)
    assert list(bench_of(text, torch.ones(3)).sites(tripling)) == []


def test_late_rules_run_only_after_the_last_use() -> None:
    text = "def fn(x):\n    a = x.clone()\n    b = a + 1\n    c = b * 2\n    return (c,)\n"
    spoiling = made(before=lambda x: x, after=lambda x: x.fill_(0), site="late")
    bench = bench_of(text, torch.ones(3))
    points = {n.name: [p.name for p in bench.late_points(spoiling, n)] for n in bench.graph.nodes if n.name in "abc"}
    assert points["a"] == ["b", "c"]
    assert points["c"] == []
    bench.apply(spoiling, Rewrite("algebra_test", "a", "b"))
    with pytest.raises(Inapplicable):
        bench.apply(spoiling, Rewrite("algebra_test", "b", "b"))


def test_assumptions_are_checked_on_the_values() -> None:
    rule = made(before=lambda x: x - x, after=lambda x: torch.zeros_like(x), assumes=("finite",), claim=Level.BIT_EXACT)
    text = "def fn(x):\n    a = x - x\n    return (a,)\n"
    bench_of(text, torch.ones(3)).apply(rule, Rewrite("algebra_test", "a"))
    with pytest.raises(Inapplicable, match="finite"):
        bench_of(text, torch.tensor([1.0, float("inf")])).apply(rule, Rewrite("algebra_test", "a"))


def test_a_rule_that_writes_takes_no_arguments_that_share_memory() -> None:
    def with_scratch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kept = x.clone()
        x.mul_(2)
        out = x + y
        x.copy_(kept)
        return out

    rule = made(before=lambda x, y: x * 2 + y, after=with_scratch, args={"x": "n", "y": "n"}, claim=Level.BIT_EXACT)
    text = "def fn(x, y):\n    a = x{0}\n    b = y{0}\n    c = a * 2\n    d = c + b\n    return (d,)\n"
    apart = bench_of(text.format(".view(3)"), torch.ones(3), torch.ones(3))
    apart.apply(rule, Rewrite(rule.id, "d"))
    whole = torch.arange(4.0)
    with pytest.raises(Inapplicable, match="two of which share memory at d"):
        bench_of(text.format(".view(3)"), whole[1:], whole[:3]).apply(rule, Rewrite(rule.id, "d"))


def claim(level: Level, old: list[float], new: list[float], rule: Rule | None = None) -> None:
    chosen = rule or made(claim=level)
    x = {"x": torch.tensor(old)}
    check_claim(Rewrite("r", "s"), Instance(chosen, x, {}), torch.tensor(old), torch.tensor(new))


def test_claims_are_checked_as_exactly_as_they_are_made() -> None:
    claim(Level.BIT_EXACT, [1.0, float("nan")], [1.0, float("nan")])
    claim(Level.BIT_EXACT_MOD_ZERO_SIGN, [0.0], [-0.0])
    for level, old, new in (
        (Level.BIT_EXACT, [0.0], [-0.0]),
        (Level.INDEX_EXACT, [1.0], [1.0000001]),
        (Level.BIT_EXACT_MOD_ZERO_SIGN, [1.0], [1.0000001]),
    ):
        with pytest.raises(Unsound):
            claim(level, old, new)


def test_a_side_that_overflows_is_no_rewrite_here() -> None:
    text = "def fn(x):\n    p = torch.nn.functional.softmax(x, dim=-1)\n    return (p,)\n"
    shifted = made(
        before=lambda x: torch.nn.functional.softmax(x, dim=-1),
        after=lambda x: torch.nn.functional.softmax(x - x.mean(-1, keepdim=True), dim=-1),
        assumes=("finite",),
    )
    with pytest.raises(Inapplicable, match="overflows"):
        bench_of(text, torch.tensor([[1.0, -3.4e38, -3.4e38]])).apply(shifted, Rewrite("algebra_test", "p"))


def test_an_unknown_site_or_rule_is_refused(rules: Any) -> None:
    bench = bench_of("def fn(x):\n    a = x * 2\n    return (a,)\n", torch.ones(3))
    with pytest.raises(Inapplicable, match="nowhere"):
        bench.apply(made(), Rewrite("algebra_test", "nowhere"))
    with pytest.raises(RuleError, match="did you mean"):
        replay_recipe(bench, rules, Recipe.parse("algebra_sub_as_add_nge@a"))


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(dtype, shape, torch.empty(shape).stride())


@pytest.mark.parametrize(
    ("args", "shapes", "sizes"),
    [
        ({"a": "m k", "b": "k n"}, [(2, 3), (3, 4)], {"m": 2, "k": 3, "n": 4}),
        ({"a": "m k", "b": "k n"}, [(2, 3), (4, 4)], None),
        ({"a": "... n"}, [(2, 3, 5)], {"n": 5}),
        ({"a": "b ... n"}, [(2, 5)], {"b": 2, "n": 5}),
        ({"a": "b ... n"}, [(2,)], None),
        ({"a": "n 2"}, [(3, 2)], {"n": 3, "2": 2}),
        ({"a": "n 2"}, [(3, 4)], None),
        ({"a": "n"}, [(3, 4)], None),
        ({"a": ""}, [()], {}),
    ],
)
def test_symbolic_shapes_bind(args: dict[str, str], shapes: list[Any], sizes: dict[str, int] | None) -> None:
    specs = {name: spec(*shape) for name, shape in zip(args, shapes, strict=True)}
    assert bind_sizes(made(args=args), specs) == sizes


def test_where_sees_sizes_scalars_and_specs() -> None:
    rule = made(args={"x": "m n"}, where=("m % k == 0", "x.ndim == 2", "x.contiguous"))
    assert holds(rule, {"x": spec(4, 3)}, {"k": 2})
    assert not holds(rule, {"x": spec(4, 3)}, {"k": 3})
    assert not holds(rule, {"x": TensorSpec("float32", (4, 3), (1, 4))}, {"k": 2})


def test_dtypes_must_agree_unless_the_rule_is_mixed() -> None:
    args = {"x": "...", "y": "..."}
    specs = {"x": spec(2), "y": spec(2, dtype="float16")}
    assert not holds(made(args=args), specs, {})
    assert holds(made(args=args, mixed=True), specs, {})
    assert not holds(made(args=args), {"x": spec(2, dtype="int64"), "y": spec(2, dtype="int64")}, {})


def test_where_can_reach_nothing_but_its_words() -> None:
    for text in ("__import__('os')", "open('x')", "().__class__.__bases__[0].__subclasses__().no"):
        with contextlib.suppress(RuleError):
            assert not holds(made(where=(text,)), {"x": spec(2)}, {})


def test_samples_satisfy_their_rule(rules: Any) -> None:
    for rule in random.Random(0).sample(list(rules), 40):
        sample = sample_arguments(rule, random.Random(1))
        if sample is not None:
            assert set(sample[0]) == set(rule.args)


def test_a_profile_knows_writes_and_shared_memory() -> None:
    graph = read_graph("def fn(x):\n    a = x[1:]\n    b = a.add_(1)\n    c = x + 1\n    return (c,)\n")
    seen = profile(graph, InputSet.snapshot([torch.zeros(3)]))
    by_name = {n.name: n for n in graph.nodes}
    assert seen.storages[by_name["x"]] == seen.storages[by_name["a"]] != seen.storages[by_name["c"]]
    assert [k for k, _ in seen.writes] == [seen.order[by_name["b"]]]
    assert seen.values[by_name["x"]].tolist() == [0, 0, 0]  # as it was when computed
    assert seen.values[by_name["c"]].tolist() == [1, 2, 2]


def test_gradients_flow_through_captured_programs() -> None:
    from fxmorph.programs.load import Invocation

    w = torch.ones(3, requires_grad=True)
    (found,) = capture_torch(Invocation(lambda w: w * 2, [w], lambda g: g(w)), CompileConfig.make(), False)
    assert Workbench(found.graph, found.inputs, False).profile.specs


def test_assumptions_are_of_what_the_site_reads_and_not_of_what_it_was() -> None:
    text = (
        "def fn(x, m):\n    s = x * 2\n    s.masked_fill_(m, -float('inf'))\n"
        "    p = torch.nn.functional.softmax(s, dim=-1)\n    return (p,)\n"
    )
    shifted = made(
        before=lambda x: torch.nn.functional.softmax(x, dim=-1),
        after=lambda x: torch.nn.functional.softmax(x - x.mean(-1, keepdim=True), dim=-1),
        assumes=("finite",), preserves=frozenset({"dtype", "alias"}),
    )  # fmt: skip
    masked = torch.tensor([[True, False, False]] * 2)
    with pytest.raises(Inapplicable, match="finite"):
        bench_of(text, torch.randn(2, 3), masked).apply(shifted, Rewrite("algebra_test", "p"))
    bench_of(text, torch.randn(2, 3), ~masked & masked).apply(shifted, Rewrite("algebra_test", "p"))
