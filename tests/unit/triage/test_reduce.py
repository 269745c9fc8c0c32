"""Smaller programs that still show the finding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.model import CompileConfig, Recipe
from fxmorph.programs.graph import calls, function_of, print_graph, read_graph
from fxmorph.programs.inputs import InputSet
from fxmorph.triage.reduce.candidate import Candidate
from fxmorph.triage.reduce.crash import crash_of
from fxmorph.triage.reduce.driver import Reduction
from fxmorph.triage.reduce.order import outputs, simplicity
from fxmorph.triage.reduce.recipe import fewest_rewrites
from fxmorph.triage.reduce.sequence import DETAIL, STRUCTURE

pytestmark = pytest.mark.usefixtures("torch_quiet")
LONG = """def fn(x, y, z):
    a = x + y
    b = torch.sin(a)
    c = b * 2
    d = c.sum(0)
    e = torch.cos(z)
    f = torch.exp(e)
    g = d - f
    return (g, c, e)
"""
VALUES = [torch.randn(4, 3), torch.randn(4, 3), torch.randn(3)]


def has(*names: str) -> Callable[[fx.Graph, InputSet], bool]:
    """Whether the graph still calls all of these; candidates must run."""

    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        function_of(print_graph(graph))(*inputs.rebuild())
        here = {getattr(n.target, "__name__", n.target) for n in calls(graph)}
        return set(names) <= here

    return still


def program(text: str = LONG, values: Any = None, config: CompileConfig | None = None) -> Candidate:
    given = VALUES if values is None else values
    return Candidate(read_graph(text), InputSet.snapshot(given), config or CompileConfig.make())


def reduced(
    still: Callable[[fx.Graph, InputSet], bool], text: str = LONG, seconds: float = 30.0, passes: Any = STRUCTURE
) -> Candidate:
    return search(program(text), lambda c: still(c.graph, c.inputs), seconds, passes).best


def search(
    start: Candidate, shows: Callable[[Candidate], bool], seconds: float = 30.0, passes: Any = (*STRUCTURE, *DETAIL)
) -> Reduction:
    made = Reduction(start, shows, lambda _: True, seconds)
    made.run(passes)
    return made


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "sub", "sum"])
def test_one_guilty_call_is_left_alone(name: str) -> None:
    best = reduced(has(name))
    assert len(calls(best.graph)) == 1
    assert has(name)(best.graph, best.inputs)


def test_two_guilty_calls_keep_what_is_between_them_or_inputs() -> None:
    best = reduced(has("sin", "exp"))
    assert len(calls(best.graph)) <= 3


def test_unused_inputs_go() -> None:
    best = reduced(has("cos"))
    assert len([n for n in best.graph.nodes if n.op == "placeholder"]) == len(best.inputs.rebuild()) == 1


def test_what_replaces_a_node_carries_its_value() -> None:
    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        if not has("sum")(graph, inputs):
            return False
        d = next(n for n in graph.nodes if n.target == "sum")
        source = d.args[0]
        holders = [n for n in graph.nodes if n.op == "placeholder"]
        if source in holders:
            given = inputs.rebuild()[holders.index(source)]
            return torch.equal(given, torch.sin(VALUES[0] + VALUES[1]) * 2)
        return True

    assert len(calls(reduced(still).graph)) == 1


def test_writes_that_matter_are_kept() -> None:
    body = ("a = x.clone()", "b = a[0]", "w = b.add_(1)", "c = a * 2", "d = z + 1", "return (c, d)")
    text = "def fn(x, y, z):\n" + "".join(f"    {line}\n" for line in body)

    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        return has("add_", "mul")(graph, inputs)

    best = reduced(still, text)
    assert has("add_", "mul")(best.graph, best.inputs)
    assert not has("add")(best.graph, best.inputs)


def test_nothing_is_lost_where_nothing_can_go() -> None:
    best = reduced(lambda graph, inputs: False)
    assert print_graph(best.graph) == print_graph(read_graph(LONG))


def test_without_budget_the_program_is_returned_as_it_is() -> None:
    made = search(program(), lambda c: has("sin")(c.graph, c.inputs), seconds=-1.0)
    assert (made.best.text, made.tests) == (LONG, 0)


def test_a_candidate_that_breaks_is_not_kept() -> None:
    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        if len(calls(graph)) < 4:
            raise RuntimeError("the compiler fell over")
        return True

    assert len(calls(reduced(still).graph)) >= 4


# -- the order, and the other passes -----------------------------------------------


def runs(candidate: Candidate) -> list[Any]:
    """What the candidate returns in eager."""
    return list(function_of(candidate.text)(*candidate.inputs.rebuild()))


def test_every_step_is_simpler_and_the_result_is_the_same_each_time() -> None:
    taken: list[Any] = []

    def shows(candidate: Candidate) -> bool:
        good = has("exp", "sum")(candidate.graph, candidate.inputs)
        if good:
            taken.append(simplicity(candidate))
        return good

    first = search(program(), shows).best
    assert taken == sorted(taken, reverse=True)
    assert simplicity(first) == taken[-1]
    assert search(program(), shows).best.digest == first.digest


def test_memory_stays_shared_where_that_is_the_cause() -> None:
    """What replaces a call is one of its operands, where a copy of its value would not do."""
    text = "def fn(x):\n    a = x.clone()\n    b = a[0]\n    w = b.add_(1)\n    c = a * 2\n    return (c,)\n"

    def shows(candidate: Candidate) -> bool:
        values = candidate.inputs.rebuild()
        before = [v.clone() for v in values if isinstance(v, torch.Tensor)]
        function_of(candidate.text)(*values)
        written = any(not torch.equal(a, b) for a, b in zip(before, values, strict=True))
        return "add_" in candidate.text and (written or "clone" in candidate.text)

    best = search(program(text, [torch.randn(3, 4)]), shows, passes=STRUCTURE).best
    assert (best.nodes, "add_" in best.text) == (1, True), best.text


BETWEEN = {
    "indices moved and moved back": (
        ["p = torch.topk(x, 2, 1)", "q = p[1]", "s = q.add_(3)", "t = s.sub_(3)", "r = x.gather(1, t)"],
        ("topk", "gather"), {"add_", "sub_"},
    ),
    "one part of what is cut": (
        ["p = torch.tril(x)", "q = p.chunk(3, 1)", "s = q[2]", "r = torch.flip(s, [1])"], ("tril", "flip"), {"chunk"},
    ),
    "a shape and back": (
        ["p = torch.tril(x)", "q = p.sum(0)", "s = torch.stack([q, q, q, q])", "r = torch.triu(s)"],
        ("tril", "triu"), {"sum", "stack"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BETWEEN)
def test_what_lies_between_two_guilty_calls_goes(name: str) -> None:
    lines, (first, second), between = BETWEEN[name]
    text = "def fn(x):\n" + "".join(f"    {line}\n" for line in lines) + "    return (r,)\n"

    def still(graph: fx.Graph, inputs: InputSet) -> bool:
        if not has(first, second)(graph, inputs):
            return False
        above = [next(n for n in calls(graph) if getattr(n.target, "__name__", n.target) == second)]
        for node in above:
            above.extend(node.all_input_nodes)
        return any(getattr(n.target, "__name__", n.target) == first for n in above)

    start = program(text, [torch.arange(12.0).reshape(4, 3)])
    best = search(start, lambda c: still(c.graph, c.inputs), passes=STRUCTURE).best
    assert not between & {getattr(n.target, "__name__", n.target) for n in calls(best.graph)}, best.text


def test_sizes_ranks_and_values_become_plain_but_odd_sizes_stay_odd() -> None:
    text = "def fn(x):\n    a = x.view(10, 77)\n    b = torch.sin(a)\n    return (b,)\n"

    def shows(candidate: Candidate) -> bool:
        (out,) = runs(candidate)
        return "sin" in candidate.text and out.shape[-1] % 2 == 1 and out.ndim == 2 and out.shape[-1] > 1

    best = search(program(text, [torch.randn(2, 5, 77)]), shows).best
    (value,) = best.values
    assert best.nodes == 1
    assert value.shape == (2, 3)
    assert not value.any()


def test_dtypes_layouts_and_gradients_become_plain() -> None:
    value = torch.randn(6, 4, dtype=torch.bfloat16).t().requires_grad_()
    text = "def fn(x):\n    a = torch.sin(x)\n    return (a,)\n"
    best = search(program(text, [value]), lambda c: "sin" in c.text and bool(runs(c))).best
    (got,) = best.values
    assert (got.dtype, got.requires_grad, got.is_contiguous()) == (torch.float32, False, True)


def test_a_layout_that_matters_is_kept() -> None:
    text = "def fn(x):\n    a = torch.sin(x)\n    return (a,)\n"

    def shows(candidate: Candidate) -> bool:
        return "sin" in candidate.text and not candidate.values[0].is_contiguous() and bool(runs(candidate))

    (got,) = search(program(text, [torch.randn(6, 4).t()]), shows).best.values
    assert not got.is_contiguous() and got.shape == (2, 2)


def test_arguments_go_to_their_defaults_and_constants_to_small_numbers() -> None:
    text = (
        "def fn(x):\n    a = torch.nn.functional.softplus(x, beta=3, threshold=17)\n    b = a[1:3]\n    return (b,)\n"
    )

    def shows(candidate: Candidate) -> bool:
        return "softplus" in candidate.text and "[" in candidate.text.replace("return", "") and bool(runs(candidate))

    best = search(program(text, [torch.randn(4, 3)]), shows).best
    assert "softplus(x)" in best.text
    assert "17" not in best.text and "1:3" not in best.text


def test_settings_that_are_not_needed_go() -> None:
    config = CompileConfig.make(inductor={"freezing": True, "max_fusion_size": 1}, options={"dynamic": True})

    def shows(candidate: Candidate) -> bool:
        return dict(candidate.config.inductor).get("freezing") is True and "sin" in candidate.text

    best = search(program(config=config), shows).best
    assert best.config == CompileConfig.make(inductor={"freezing": True})


def test_an_input_becomes_a_number_where_that_will_do() -> None:
    text = "def fn(x, y):\n    a = torch.sin(x)\n    b = a * y\n    return (b,)\n"
    values = [torch.randn(4), torch.randn(4)]
    best = search(program(text, values), lambda c: has("sin", "mul")(c.graph, c.inputs), passes=STRUCTURE).best
    assert len(best.values) == 1


def test_only_the_rewrites_that_are_needed_stay() -> None:
    recipe = Recipe.parse("a@x ; b@y ; c@z ; d@w")
    wanted = {"b", "d"}
    left = fewest_rewrites(recipe, lambda r: wanted <= {w.rule for w in r.rewrites})
    assert [w.rule for w in left.rewrites] == ["b", "d"]


# -- slipping ------------------------------------------------------------------------


def test_a_pass_that_goes_over_to_another_finding_is_done_again_step_by_step() -> None:
    """Two faults show: cos is the one that was found, exp another."""

    def shows(candidate: Candidate) -> bool:
        here = {getattr(n.target, "__name__", n.target) for n in calls(candidate.graph)}
        return bool(runs(candidate)) and bool({"cos", "exp"} & here)

    def same(candidate: Candidate) -> bool:
        return "cos" in candidate.text

    slipping = Reduction(program(), shows, lambda _: True, 30.0).run(STRUCTURE)
    kept = Reduction(program(), shows, same, 30.0)
    best = kept.run(STRUCTURE)
    assert "cos" not in slipping.text
    assert "cos" in best.text and best.nodes == 1
    assert kept.slips > 0


# -- crashes ------------------------------------------------------------------------


def test_a_crash_is_told_from_an_exception_and_reduced() -> None:
    import os
    import signal

    def run(candidate: Candidate) -> None:
        if "cos" in candidate.text and "exp" in candidate.text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "exp" not in candidate.text:
            raise ValueError("not a crash")

    start = program()
    assert crash_of(start, run) == "crashed (SIGKILL)"
    best = search(start, lambda c: crash_of(c, run) == "crashed (SIGKILL)", passes=STRUCTURE).best
    assert best.nodes == 2
    assert len(outputs(best.graph)) == 1


UNDER_AUTOCAST = """import torch
def fn(x, y):
    a = x + 1
    enter = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)
    b = a @ y
    c = b * 2
    leave = torch.amp.autocast_mode._exit_autocast(enter)
    d = c.float()
    return (d,)
"""


def test_what_is_left_of_a_region_of_autocast_leaves_it() -> None:
    """Scripts run both sides in one process: a region that is entered and not left is that of the other side too."""

    def in_bfloat16(candidate: Candidate) -> bool:
        values = candidate.profile.values
        return any(n.name == "b" and v.dtype == torch.bfloat16 for n, v in values.items() if torch.is_tensor(v))

    start = program(UNDER_AUTOCAST, [torch.ones(2, 2), torch.ones(2, 2)])
    best = Reduction(start, in_bfloat16, lambda _: True, 20.0).run((*STRUCTURE, *DETAIL))
    assert best.nodes == 3 and "_enter_autocast" in best.text and "_exit_autocast" in best.text, best.text


TWO_REGIONS = """import torch
def fn(x, y):
    off = torch._C._set_grad_enabled(False)
    a = x + 1
    on = torch._C._set_grad_enabled(True)
    enter = torch.amp.autocast_mode._enter_autocast('cpu', torch.bfloat16, True, None)
    b = a @ y
    leave = torch.amp.autocast_mode._exit_autocast(enter)
    return (b,)
"""


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_a_region_that_is_not_needed_goes(dtype: torch.dtype | None) -> None:
    def shows(candidate: Candidate) -> bool:
        values = candidate.profile.values.items()
        return any(n.name == "b" and dtype in (None, v.dtype) for n, v in values if torch.is_tensor(v))

    start = program(TWO_REGIONS, [torch.ones(2, 2), torch.ones(2, 2)])
    best = Reduction(start, shows, lambda _: True, 20.0).run((*STRUCTURE, *DETAIL))
    assert "_set_grad_enabled" not in best.text, best.text
    assert ("_autocast" in best.text) is (dtype is not None), best.text
