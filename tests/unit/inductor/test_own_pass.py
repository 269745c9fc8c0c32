"""What is a pass and can be called as one; what is not is refused with what to do, and is never a wrong pass."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.core.units import Stage
from fxmorph.inductor.apply import Applied
from fxmorph.inductor.own.own_pass import PassError, apply_pass, load_pass, own_pass
from fxmorph.inductor.own.pass_request import PassRequest

pytestmark = pytest.mark.usefixtures("torch_quiet")


def doubled(graph: fx.Graph) -> None:
    """Adds a node, so that the graph has changed."""
    (output,) = (n for n in graph.nodes if n.op == "output")
    with graph.inserting_before(output):
        new = graph.call_function(operator.mul, (output.args[0], 2))
    output.args = (new,)


def applied(value: Any) -> Applied:
    gm = fx.symbolic_trace(lambda x: x + 1)
    return apply_pass(own_pass(value, "passes.py:p"), gm, Stage.PRE_GRAD)


def with_config(graph: fx.Graph, config: dict[str, int]) -> None:
    doubled(graph)


def as_backend(gm: fx.GraphModule, example_inputs: list[Any]) -> None:
    doubled(gm.graph)


def keyword_only(graph: fx.Graph, *, level: int) -> None:
    doubled(graph)


def graph_by_keyword(*, graph: fx.Graph) -> None:
    doubled(graph)


def placed(graph: fx.Graph, level: int, /) -> None:
    doubled(graph)


def nothing() -> None: ...


def of_a_node(node: fx.Node) -> None: ...


def of_anything(value: Any) -> None:
    doubled(value)


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def configured(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(graph: fx.Graph) -> Any:
        return function(graph, {})

    return wrapper


class Holder:
    def __init__(self, level: int = 1) -> None:
        self.level = level

    def run(self, graph: fx.Graph) -> None:
        doubled(graph)

    def run_at(self, graph: fx.Graph, level: int) -> None:
        doubled(graph)

    @classmethod
    def made(cls, graph: fx.Graph) -> None:
        doubled(graph)

    @staticmethod
    def alone(graph: fx.Graph) -> None:
        doubled(graph)


class Called(Holder):
    def __call__(self, graph: fx.Graph) -> None:
        doubled(graph)


class CalledWithMore(Holder):
    def __call__(self, graph: fx.Graph, inputs: Any) -> None:
        doubled(graph)


class Needs:
    def __init__(self, level: int) -> None: ...

    def __call__(self, graph: fx.Graph) -> None:
        doubled(graph)


class CannotBeMade:
    def __init__(self) -> None:
        raise TypeError("__init__() missing 1 required positional argument: 'graph'")


async def later(graph: fx.Graph) -> None:
    doubled(graph)


def yields(graph: fx.Graph) -> Iterator[None]:
    doubled(graph)
    yield


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (with_config, ["p(graph)", "(graph, config)", "functools.partial(p, config=...)"]),
        (keyword_only, ["(graph, *, level)", "functools.partial(p, level=...)"]),
        (placed, ["(graph, level, /)", "lambda graph: p(graph, ...)"]),
        (nothing, ["its parameters are ()", "a pass is called with a graph alone"]),
        (functools.partial(doubled, fx.Graph()), ["too many positional arguments"]),
        (functools.partial(with_config, 1, 2, 3), ["binds what with_config(graph, config) does not take"]),
        (functools.partial(with_config), ["functools.partial(p, config=...)"]),
        (Holder.run, ["(self, graph)"]),
        (Holder().run_at, ["(graph, level)", "functools.partial(p, level=...)"]),
        (Needs, ["a required argument: 'level'", "made = p(level=...)"]),
        (CannotBeMade, ["cannot be made as p(): TypeError"]),
        (torch, ["is a module: want a callable"]),
        (3, ["is a int"]),
        (None, ["is a NoneType"]),
        (torch.nn.Linear, ["a program, and no pass"]),
        (torch.nn.ReLU(), ["a program, and no pass"]),
        (of_a_node, ["takes a Node"]),
    ],
)
def test_what_cannot_be_called_with_a_graph_alone_is_refused(value: Any, words: list[str]) -> None:
    with pytest.raises(PassError, match=r"^passes\.py:p ") as error:
        own_pass(value, "passes.py:p")
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("value", [logged(with_config), later, yields, logged(later)])
def test_what_turns_out_to_be_no_pass_when_it_is_called(value: Any) -> None:
    with pytest.raises(PassError, match=r"^passes\.py:p (cannot be called as p\(graph\)|returns a)"):
        applied(value)


@pytest.mark.parametrize(
    "value",
    [
        doubled,
        of_anything,
        lambda graph: doubled(graph),
        lambda *args: doubled(*args),
        lambda unnamed: doubled(unnamed.graph),
        lambda graph, level=2, **more: doubled(graph),
        functools.partial(with_config, config={}),
        functools.partial(keyword_only, level=2),
        functools.partial(lambda level, graph: doubled(graph), 2),
        logged(doubled),
        logged(logged(doubled)),
        configured(with_config),
        Holder().run,
        Holder.made,
        Holder.alone,
        Called,
        Called(),
        CalledWithMore(),
        CalledWithMore,
        Holder,
        as_backend,
        graph_by_keyword,
    ],
)
def test_what_can_be_called_is_a_pass(value: Any) -> None:
    assert applied(value).fired


def returned(graph: fx.Graph) -> fx.Graph:
    new = fx.Graph()
    new.output(new.graph_copy(graph, {}))
    doubled(new)
    return new


@pytest.mark.parametrize(
    ("value", "fired"),
    [
        (returned, True),
        (lambda gm: fx.GraphModule(gm, returned(gm.graph)), True),
        (lambda graph: None, False),
        (lambda graph: 7, False),
        (lambda graph: [graph, "garbage"], False),
        (lambda graph: doubled(graph) or True, True),
    ],
)
def test_what_a_pass_returns_counts_where_it_is_a_graph(value: Any, fired: bool) -> None:
    assert applied(value).fired is fired


def helper(graph: fx.Graph, level: int) -> None: ...


def calls_a_helper_wrongly(graph: fx.Graph) -> None:
    helper(graph)  # type: ignore[call-arg]


def speaks_of_arguments(graph: fx.Graph) -> None:
    raise TypeError("speaks_of_arguments() missing 1 required positional argument: 'config'")


def decorated_and_wrong(graph: fx.Graph, config: int) -> None:
    raise TypeError("inside")


@pytest.mark.parametrize(
    "value",
    [
        calls_a_helper_wrongly,
        speaks_of_arguments,
        logged(speaks_of_arguments),
        configured(decorated_and_wrong),
        logged(calls_a_helper_wrongly),
    ],
)
def test_a_type_error_inside_of_a_pass_is_its_own(value: Any) -> None:
    with pytest.raises(TypeError):
        applied(value)


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("import torch\nfrom torch import no_such_thing\n", "own.py:2", "ImportError: cannot import name"),
        ("x = 1\n\nimport helper_that_fails\n", "helper_that_fails.py:2", "ZeroDivisionError: division by zero"),
        ("import torch\n\n\ntorch.zeros(-1)\n", "own.py:4", "RuntimeError"),
        ("import torch\ntorch.no_such_function()\n", "own.py:2", "AttributeError"),
        ("def p(graph:\n", "own.py:1", "SyntaxError"),
        ("import sys\nsys.exit(4)\n", "own.py:2", "SystemExit: 4"),
        ("import no_such_package\n", "own.py:1", "ModuleNotFoundError: No module named 'no_such_package'"),
    ],
)
def test_what_fails_while_it_is_imported_says_where(
    text: str, place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper_that_fails.py").write_text("y = 0\nz = 1 / y\n")
    (tmp_path / "own.py").write_text(text)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(PassError, match="does not load: ") as error:
        load_pass(f"{tmp_path}/own.py:p")
    assert f"{tmp_path}/{place}: {words}" in str(error.value) and "\n" not in str(error.value)


def test_a_name_that_is_not_there_brings_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def fold_views(graph): pass\n")
    with pytest.raises(PassError, match=r"own.py has no 'fold_view'; did you mean 'fold_views'\?"):
        load_pass(f"{tmp_path}/own.py:fold_view")
    with pytest.raises(PassError, match=r"own.py:: want module:attribute or file.py:attribute"):
        load_pass(f"{tmp_path}/own.py:")


def test_a_call_may_stand_in_the_place_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "doubling.py"
    file.write_text(
        "class Doubling:\n"
        "    def __init__(self, by=2):\n"
        "        self.by = by\n"
        "    def __call__(self, graph):\n"
        "        (output,) = (n for n in graph.nodes if n.op == 'output')\n"
        "        with graph.inserting_before(output):\n"
        "            new = graph.call_function(max, (output.args[0], self.by))\n"
        "        output.args = (new,)\n"
    )
    found = load_pass(f"{file}:Doubling(5)")
    changed = apply_pass(found, fx.symbolic_trace(lambda x: x + 1), Stage.PRE_GRAD)
    assert [n.args[1] for n in changed.after.graph.nodes if n.target is max] == [5]
    with pytest.raises(PassError, match="as an expression NameError: name 'Halving' is not defined"):
        load_pass(f"{file}:Halving()")


def test_a_file_that_imports_its_own_package_is_one_of_it(tmp_path: Path) -> None:
    package = tmp_path / "ownpackage" / "passes"
    package.mkdir(parents=True)
    (tmp_path / "ownpackage" / "names.py").write_text("import torch\nRELU = torch.ops.aten.relu.default\n")
    body = "from ..names import RELU\n\n\ndef fold(graph):\n    return [n for n in graph.nodes if n.target is RELU]\n"
    (package / "fold_relative.py").write_text(body)
    assert load_pass(f"{package / 'fold_relative.py'}:fold").name.endswith(":fold")


def test_an_expression_that_is_a_pass_is_called_on_graphs() -> None:
    request = PassRequest("torch.fx.passes.graph_drawer:FxGraphDrawer", make="lambda gm: gm.graph.lint()")
    made = load_pass(request)
    gm = fx.symbolic_trace(lambda x: x + 1)
    assert apply_pass(made, gm, Stage.POST_GRAD).fired is False
