"""What a pass is promised of its graphs: passes that run before it, predicates, settings, a dialect, a device."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Command
from torch import fx

from fxmorph.core.seeds import find_seeds
from fxmorph.inductor.own.call import PassError
from fxmorph.inductor.own.graph_source import GraphSource, seed_graphs
from fxmorph.programs.load import load_seed
from fxmorph.testing import check_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
SEEDS = Path(__file__).parents[3] / "corpus" / "seeds"


def fold_into_addcmul(graph: fx.Graph) -> None:
    """a * b + c as addcmul, without a look at ``alpha``."""
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        product, other = node.args
        both = all(isinstance(n, fx.Node) for n in (product, other)) and product.target is aten.mul.Tensor
        if both and all(isinstance(n, fx.Node) for n in product.args):
            with graph.inserting_before(node):
                new = graph.call_function(aten.addcmul.default, (other, *product.args))
            node.replace_all_uses_with(new)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def multiply_alpha(graph: fx.Graph) -> None:
    for node in graph.find_nodes(op="call_function", target=aten.add.Tensor):
        if "alpha" in node.kwargs:
            with graph.inserting_before(node):
                scaled = graph.call_function(aten.mul.Tensor, (node.args[1], node.kwargs["alpha"]))
            node.args, node.kwargs = (node.args[0], scaled), {}


def without_alpha(graph: fx.Graph) -> bool:
    return all("alpha" not in node.kwargs for node in graph.nodes)


def counts(gm: fx.GraphModule) -> int:
    return len(gm.graph.nodes)


def raises(graph: fx.Graph) -> None:
    raise KeyError("mine")


QUICK: dict[str, Any] = {"corpus": (), "graphs": 300}


def test_what_is_wrong_without_a_promise_is_right_with_it() -> None:
    with pytest.raises(AssertionError, match="WRONG"):
        check_pass(fold_into_addcmul, **QUICK)
    assert check_pass(fold_into_addcmul, assume=[without_alpha], **QUICK) > 0
    assert check_pass(fold_into_addcmul, prelude=[multiply_alpha], **QUICK) > 0


def test_a_promise_that_no_graph_keeps_is_no_pass_that_was_checked() -> None:
    with pytest.raises(AssertionError, match=r"fired on 0 .*left out: --assume <lambda> does not hold"):
        check_pass(fold_into_addcmul, assume=[lambda graph: False], **QUICK)
    with pytest.raises(AssertionError, match=r"left out: --prelude raises raises KeyError"):
        check_pass(fold_into_addcmul, prelude=[raises], **QUICK)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"assume": [counts]}, "--assume counts returns int"),
        ({"assume": [raises]}, "--assume raises raises KeyError"),
        ({"assume": ["nowhere"]}, "NameError"),
        ({"prelude": ["nowhere.py:none"]}, "no such file"),
        ({"compile": {"mode": "slow"}}, "--compile mode=slow: want default"),
    ],
)
def test_a_promise_that_is_none_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(PassError, match=words):
        check_pass(fold_into_addcmul, **QUICK, **given)


def test_seeds_come_under_the_mode_and_sizes_that_are_asked_for() -> None:
    symbolic = []

    def note(gm: fx.GraphModule) -> fx.GraphModule:
        values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
        symbolic.append(any(isinstance(v, torch.SymInt) for v in values))
        return gm

    seed = SEEDS / "mlp_swiglu_chunk.py"
    for dynamic in (False, True):
        symbolic.clear()
        options = {"mode": "max-autotune", "dynamic": dynamic}
        check_pass(note, seed, "post_grad", compile=options, fires=False, training=False, graphs=10)
        assert any(symbolic) is dynamic


def test_options_and_entries_at_the_command_line(tmp_path: Path, fxmorph: Command) -> None:
    names = ("fold_into_addcmul", "multiply_alpha", "without_alpha")
    text = Path(__file__).read_text()
    parts = [text[text.index(f"def {name}(") :].partition("\n\n\n")[0] for name in names]
    head = "import torch\nfrom torch import fx\n\naten = torch.ops.aten"
    (tmp_path / "p.py").write_text("\n\n\n".join([head, *parts]))
    (tmp_path / "fxmorph.toml").write_text(
        '[[pass]]\nname = "mine"\npass = "p.py:fold_into_addcmul"\nprelude = ["p.py:multiply_alpha"]\n'
    )
    calls = {
        ("p.py:fold_into_addcmul",): 1,
        ("p.py:fold_into_addcmul", "--assume", "without_alpha"): 0,
        ("mine",): 0,
        ("mine", "--device", "cpu,cuda"): 2,
    }
    for arguments, code in calls.items():
        done = fxmorph("check-pass", *arguments, "--json", cwd=tmp_path)
        assert done.returncode == code, done.stderr
        if not code:
            end = json.loads(done.stdout.splitlines()[-1])
            assert end["fired"] > 0
            assert bool(end["left_out"]) is ("--assume" in arguments)


# -- ExecuTorch's dialect ----------------------------------------------------------


class EdgeOpOverload:
    """As ExecuTorch's: an object that stands for an operator of ATen and calls it."""

    def __init__(self, operator: Any) -> None:
        self._op = operator
        self.__name__ = f"edge.{operator}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)


class Edge:
    """``exir_ops.edge``: any path of names that ends at an overload."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        key = found if isinstance(found, torch._ops.OpOverload) else None
        return Edge(found) if key is None else _OVERLOADS.setdefault(key, EdgeOpOverload(found))


_OVERLOADS: dict[Any, EdgeOpOverload] = {}
edge = Edge(torch.ops)


@pytest.fixture
def executorch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in of the part of the library that is used, where it is not installed."""
    for name in ("executorch", "executorch.exir", "executorch.exir.dialects", "executorch.exir.dialects._ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["executorch"].__spec__ = types.SimpleNamespace()  # type: ignore[assignment]
    sys.modules["executorch.exir.dialects._ops"].ops = types.SimpleNamespace(edge=edge)  # type: ignore[attr-defined]
    yield


def edge_fold(gm: fx.GraphModule) -> fx.GraphModule:
    """As above, of the operators of the dialect alone."""
    for node in list(gm.graph.nodes):
        if node.target == edge.aten.add.Tensor and getattr(node.args[0], "target", None) == edge.aten.mul.Tensor:
            product, other = node.args
            if isinstance(other, fx.Node) and all(isinstance(n, fx.Node) for n in product.args):
                with gm.graph.inserting_before(node):
                    new = gm.graph.call_function(edge.aten.addcmul.default, (other, *product.args))
                node.replace_all_uses_with(new)
                gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def test_a_pass_over_the_edge_dialect_is_given_its_operators(executorch: None) -> None:
    with pytest.raises(AssertionError, match="WRONG"):
        check_pass(edge_fold, **QUICK)
    assert check_pass(edge_fold, assume=[without_alpha], **QUICK) > 0


def test_edge_graphs_of_seeds_are_core_aten_without_views() -> None:
    (seed,), _ = find_seeds([str(SEEDS / "mlp_swiglu_chunk.py")])
    (graph,) = seed_graphs(load_seed(seed), GraphSource("edge"), training=False)
    met = {str(node.target) for node in graph.gm.graph.nodes if node.op == "call_function"}
    assert {"aten.view_copy.default", "aten.sigmoid.default"} <= met
    assert not met & {"aten.view.default", "aten.silu.default", "aten.linear.default", "aten.split.Tensor"}


@pytest.mark.gpu
def test_graphs_are_on_the_device() -> None:
    devices = set()

    def note(graph: fx.Graph) -> None:
        devices.update(n.meta["val"].device.type for n in graph.nodes if isinstance(n.meta.get("val"), torch.Tensor))
        fold_into_addcmul(graph)

    assert check_pass(note, (), device="cuda", assume=[without_alpha], graphs=100) > 0
    assert "cuda" in devices
