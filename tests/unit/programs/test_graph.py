"""Graphs as text and back, their hash, their windows."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.core.seeds import find_seeds
from fxmorph.model import CompileConfig
from fxmorph.programs.capture import Captured, CaptureFailed, capture_torch
from fxmorph.programs.graph import (
    Unprintable,
    Unreadable,
    calls,
    copy_graph,
    function_of,
    graph_hash,
    print_graph,
    read_graph,
    resolve,
    target_path,
    windows,
)
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.programs.profile import profile

pytestmark = pytest.mark.usefixtures("torch_quiet")
CORPUS = Path(__file__).parents[3] / "corpus"
SEEDS, _ = find_seeds([str(CORPUS)], regressions=True)
SAMPLE = SEEDS[::6]


def call(target: Any, *args: Any, op: str = "call_function", returned: bool = True, **kwargs: Any) -> fx.Graph:
    """A graph of one call; the text "x" among the arguments stands for its input."""
    graph = fx.Graph()
    x = graph.placeholder("x")

    def fill(value: Any) -> Any:
        if isinstance(value, list):
            return [fill(v) for v in value]
        return x if isinstance(value, str) and value == "x" else value

    made = graph.create_node(op, target, tuple(map(fill, args)), {k: fill(v) for k, v in kwargs.items()})
    graph.output((made,) if returned else (x,))
    return graph


def round_trip(graph: fx.Graph) -> fx.Graph:
    text = print_graph(graph)
    back = read_graph(text)
    assert graph_hash(back) == graph_hash(graph)
    assert print_graph(back) == text
    return back


def only_call(graph: fx.Graph) -> fx.Node:
    (node,) = calls(graph)
    return node


HAND_MADE = {
    "infix": call(operator.add, "x", 2),
    "infix with negative constants": call(operator.mul, "x", -2.5),
    "negative constant first": call(operator.pow, -2, "x"),
    "comparison": call(operator.le, "x", 0.0),
    "prefix": call(operator.neg, "x"),
    "invert": call(operator.invert, "x"),
    "in-place operator": call(operator.iadd, "x", 1),
    "slices": call(operator.getitem, "x", (slice(None), slice(1, None, 2), slice(-3, -1))),
    "one slice": call(operator.getitem, "x", slice(None, 3)),
    "ellipsis and None": call(operator.getitem, "x", (Ellipsis, None, 0)),
    "one-tuple index": call(operator.getitem, "x", (0,)),
    "empty index": call(operator.getitem, "x", ()),
    "list index": call(operator.getitem, "x", [0, 1]),
    "setitem": call(operator.setitem, "x", (slice(None), 1), -0.0, returned=False),
    "setitem with a slice of slices": call(operator.setitem, "x", slice(0, 2), 3, returned=False),
    "dtype": call("to", "x", torch.float16, op="call_method"),
    "device": call("to", "x", torch.device("cpu"), op="call_method"),
    "device with an index": call("to", "x", torch.device("cuda:1"), op="call_method"),
    "memory format": call("contiguous", "x", op="call_method", memory_format=torch.channels_last),
    "layout": call(torch.zeros_like, "x", layout=torch.strided),
    "keyword and dtype": call(torch.sum, "x", dim=(0, 1), dtype=torch.int64, keepdim=True),
    "nested lists": call(torch.nn.functional.pad, "x", [1, 1], "constant", None),
    "list of tensors": call(torch.cat, ["x", "x"], dim=-1),
    "list in list": call(torch.tensor, [[1, 2], [3, 4]]),
    "infinity": call(torch.full_like, "x", math.inf),
    "minus infinity": call(torch.masked_fill, "x", "x", -math.inf),
    "nan": call(torch.full_like, "x", math.nan),
    "minus zero": call(torch.add, "x", -0.0),
    "large int": call(torch.add, "x", 2**62),
    "bool": call(torch.sum, "x", 0, True),
    "text": call(torch.einsum, "ij->ji", "x"),
    "text with quotes": call(torch.einsum, "it's \"quoted\"\n", "x"),
    "complex": call(torch.mul, "x", complex(1.5, -2)),
    "complex minus zero real": call(torch.mul, "x", complex(-0.0, 1.0)),
    "complex minus zero imaginary": call(torch.mul, "x", complex(1.0, -0.0)),
    "complex nan": call(torch.mul, "x", complex(math.nan, 1.0)),
    "complex nan imaginary": call(torch.mul, "x", complex(0.0, math.nan)),
    "complex infinities": call(torch.mul, "x", complex(-math.inf, math.inf)),
    "ATen overload": call(torch.ops.aten.add.Tensor, "x", "x", alpha=2),
    "ATen default overload": call(torch.ops.aten.relu.default, "x"),
    "function of torch._C._nn": call(torch._C._nn.gelu, "x", approximate="tanh"),
    "getattr": call(getattr, "x", "T"),
    "method of no argument": call("relu", "x", op="call_method"),
    "dict": call(torch.add, "x", "x", out=None),
}


@pytest.mark.parametrize("name", HAND_MADE)
def test_hand_made_graphs_read_back_equal(name: str) -> None:
    round_trip(HAND_MADE[name])


@pytest.mark.parametrize("value", [complex(-0.0, 0.0), complex(0.0, -0.0), complex(math.nan, -0.0)])
def test_complex_constants_keep_their_bits(value: complex) -> None:
    back = only_call(round_trip(call(torch.mul, "x", value))).args[1]
    assert isinstance(back, complex)
    for a, b in ((back.real, value.real), (back.imag, value.imag)):
        assert math.copysign(1, a) == math.copysign(1, b)
        assert a == b or (a != a and b != b)


def test_a_constant_keeps_its_type() -> None:
    for value in (1, 1.0, True, -0.0):
        back = only_call(round_trip(call(torch.add, "x", value))).args[1]
        assert (type(back), str(back)) == (type(value), str(value))


def test_an_integer_minus_is_a_constant_and_not_a_call() -> None:
    assert len(calls(round_trip(call(torch.roll, "x", -1, -2)))) == 1


@pytest.mark.parametrize("name", ["operator", "math", "builtins", "lambda_", "self", "_", "fn"])
def test_a_node_may_have_any_name(name: str) -> None:
    graph = fx.Graph()
    x = graph.create_node("placeholder", name, name=name)
    assert x.name == name
    graph.output((graph.call_function(operator.iadd, (x, math.inf)),))
    back = round_trip(graph)
    got = function_of(print_graph(back))(torch.ones(2))[0]
    assert got.tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("name", ["class", "None", "two words", "a.b"])
def test_a_name_that_is_no_identifier_is_unprintable(name: str) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x._rename("x")
    x.name = name
    graph.output((x,))
    with pytest.raises(Unprintable, match="name"):
        print_graph(graph)


def local_function(x: torch.Tensor) -> torch.Tensor:
    return x


UNPRINTABLE = {
    "a function of the user's": call(local_function, "x"),
    "a lambda": call(lambda x: x, "x"),
    "a tensor constant": call(torch.add, "x", torch.ones(1)),
    "an object": call(torch.add, "x", object()),
    "a module": call(torch.add, "x", torch),
    "a submodule": call("layer", "x", op="call_module"),
    "an attribute": call("weight", op="get_attr"),
    "setitem's result in use": call(operator.setitem, "x", 0, 1),
}


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_what_has_no_text_form_is_refused(name: str) -> None:
    with pytest.raises(Unprintable):
        print_graph(UNPRINTABLE[name])


UNREADABLE = {
    "not Python": "def fn(x:\n",
    "no function": "x = 1\n",
    "two functions": "def fn(x):\n    return (x,)\ndef g(x):\n    return (x,)\n",
    "a loop": "def fn(x):\n    for i in x:\n        pass\n    return (x,)\n",
    "an unknown name": "def fn(x):\n    return (y,)\n",
    "another root": "def fn(x):\n    y = os.system('true')\n    return (y,)\n",
    "no such operator": "def fn(x):\n    y = torch.no_such_operator(x)\n    return (y,)\n",
    "a comprehension": "def fn(x):\n    y = [t for t in x]\n    return (y,)\n",
    "a chained comparison": "def fn(x):\n    y = 1 < x < 2\n    return (y,)\n",
    "an if expression": "def fn(x):\n    y = torch.add(x, 1 if x else 2)\n    return (y,)\n",
    "an import": "def fn(x):\n    import os\n    return (x,)\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_text_of_another_form_is_refused(name: str) -> None:
    with pytest.raises(Unreadable):
        read_graph(UNREADABLE[name])


def test_reading_executes_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = f"def fn(x):\n    y = torch.save(x, {str(mark)!r})\n    return (x,)\n"
    read_graph(text)
    assert not mark.exists()


def test_a_path_names_its_own_target() -> None:
    for target in (torch.add, torch.nn.functional.softmax, operator.iadd, torch.ops.aten.add.Tensor):
        assert resolve(target_path(target)) is target


def graph_of(text: str) -> fx.Graph:
    return read_graph("def fn(x, y):\n" + "".join(f"    {line}\n" for line in text.split("; ")))


def test_hash_ignores_names() -> None:
    one = graph_of("a = x + y; return (a,)")
    two = read_graph("def fn(p, q):\n    other = p + q\n    return (other,)\n")
    assert graph_hash(one) == graph_hash(two)


DIFFERENT = [
    "a = x + y; return (a,)",
    "a = y + x; return (a,)",
    "a = torch.add(x, y); return (a,)",
    "a = x.add(y); return (a,)",
    "a = x + 1; return (a,)",
    "a = x + 1.0; return (a,)",
    "a = x + True; return (a,)",
    "a = x + -0.0; return (a,)",
    "a = x + 0.0; return (a,)",
    "a = torch.mul(x, complex(0.0, -0.0)); return (a,)",
    "a = torch.mul(x, complex(0.0, 0.0)); return (a,)",
    "a = x[0:1]; return (a,)",
    "a = x[0:2]; return (a,)",
    "a = torch.sum(x, [0]); return (a,)",
    "a = torch.sum(x, (0,)); return (a,)",
    "a = torch.sum(x, 0, keepdim=True); return (a,)",
    "a = x + y; return a",
    "a = x + y; return (a, a)",
    "a = x + y; b = x + y; return (a, b)",
]


def test_hash_tells_different_graphs_apart() -> None:
    hashes = [graph_hash(graph_of(text)) for text in DIFFERENT]
    assert len(set(hashes)) == len(hashes)


def test_a_copy_is_equal_and_its_own() -> None:
    graph = graph_of("a = x + y; b = a[0:1]; return (b,)")
    copy = copy_graph(graph)
    assert print_graph(copy) == print_graph(graph)
    calls(copy)[0].target = operator.sub
    assert calls(graph)[0].target is operator.add


# -- the corpus ----------------------------------------------------------------


def captured(seed: Any) -> list[Captured]:
    try:
        loaded = load_seed(seed)
        return capture_torch(loaded.fresh(0), loaded.config(CompileConfig.make()), loaded.no_grad)
    except (CaptureFailed, SeedFailed) as error:
        pytest.skip(str(error)[:80])


def read_back_and_run(seed: Any) -> None:
    for found in captured(seed):
        text = found.text
        round_trip(found.graph)
        torch.manual_seed(2)
        expected = fx.Interpreter(fx.GraphModule(torch.nn.Module(), found.graph)).run(*found.inputs.rebuild())
        torch.manual_seed(2)
        got = function_of(text)(*found.inputs.rebuild())
        torch.testing.assert_close(list(got), list(expected), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("seed", SAMPLE, ids=lambda s: Path(s.path).stem)
def test_captured_graphs_read_back_equal(seed: Any) -> None:
    read_back_and_run(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS, ids=lambda s: Path(s.path).stem)
def test_all_captured_graphs_read_back_equal(seed: Any) -> None:
    read_back_and_run(seed)


# -- windows -------------------------------------------------------------------

LONG = """def fn(x, y):
    a = x + y
    b = a * 2
    c = torch.split(b, 2)
    d = c[0]
    e = c[1]
    f = d - e
    g = f.sum()
    h = a * g
    return (h, f)
"""


def recompose(graph: fx.Graph, size: int, run: Callable[[str], Any]) -> dict[str, Any]:
    values = dict(zip(("x", "y"), (run("x"), run("y")), strict=True))
    for window, feeds in windows(graph, size):
        out = function_of(print_graph(window))(*(values[name] for name in feeds))
        names = [n.name for n in next(n for n in window.nodes if n.op == "output").args[0]]
        values.update(zip(names, out, strict=True))
    return values


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_windows_compose_to_the_whole(size: int) -> None:
    graph = read_graph(LONG)
    inputs = {"x": torch.arange(12.0).reshape(4, 3), "y": torch.ones(4, 3)}
    values = recompose(graph, size, inputs.__getitem__)
    h, f = function_of(LONG)(**inputs)
    assert torch.equal(values["h"], h)
    assert torch.equal(values["f"], f)


def test_windows_are_of_the_size_asked_for() -> None:
    graph = read_graph(LONG)
    sizes = [len(calls(w)) for w, _ in windows(graph, 3)]
    assert sizes == [3, 3, 2]


def test_a_window_can_be_fed_from_a_profile_of_the_whole() -> None:
    graph = read_graph(LONG)
    seen = profile(graph, InputSet.snapshot([torch.arange(12.0).reshape(4, 3), torch.ones(4, 3)]))
    by_name = {n.name: v for n, v in seen.values.items()}
    _, feeds = list(windows(graph, 3))[-1]
    assert all(isinstance(by_name[name], torch.Tensor) for name in feeds)
