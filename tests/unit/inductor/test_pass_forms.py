"""Each form in which a pass may be written is one call on a graph; what it needs is given, said or asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphModulePass, CustomGraphPass, CustomInferenceAwareGraphPass
from torch._inductor.pattern_matcher import CallFunction, KeywordArg, PatternMatcherPass, register_graph_pattern
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.fx.passes.infra.pass_manager import PassManager
from torch.fx.passes.operator_support import OperatorSupportBase

from fxmorph.core.config import ConfigError, load_settings, pass_tables
from fxmorph.core.units import Stage
from fxmorph.inductor.firing.small_program import In, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.own.own_pass import PassError, apply_pass, load_pass, own_pass
from fxmorph.inductor.own.pass_request import PassRequest, arguments, from_table, merged

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten


@dataclass
class Settings:
    factor: int = 3


def scaled(graph: fx.Graph, factor: int = 2) -> None:
    for node in list(graph.nodes):
        if node.target in (aten.sin.default, torch.sin):
            with graph.inserting_after(node):
                made = graph.call_function(aten.mul.Tensor, (node, factor))
            node.replace_all_uses_with(made, delete_user_cb=lambda user, made=made: user is not made)


def with_settings(gm: fx.GraphModule, settings: Settings) -> fx.GraphModule:
    scaled(gm.graph, settings.factor)
    return gm


def with_inputs(gm: fx.GraphModule, example_inputs: list[torch.Tensor]) -> None:
    scaled(gm.graph, example_inputs[0].shape[0])


def settings_before(settings: Settings, gm: fx.GraphModule) -> None:
    scaled(gm.graph, settings.factor)


class Made:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, graph: fx.Graph) -> None:
        scaled(graph, self.factor)


class Processes:
    def process(self, gm: fx.GraphModule) -> bool:
        scaled(gm.graph)
        return True


class Result(PassBase):
    def call(self, graph_module: fx.GraphModule) -> PassResult:
        scaled(graph_module.graph)
        return PassResult(graph_module, True)


class OfGraphs(CustomGraphPass):
    def __call__(self, graph: fx.Graph) -> None:
        scaled(graph)

    def uuid(self) -> None:
        return None


class OfModules(CustomGraphModulePass):
    def __call__(self, gm: fx.GraphModule) -> None:
        scaled(gm.graph)

    def uuid(self) -> None:
        return None


class OfInference(CustomInferenceAwareGraphPass):
    def __call__(self, graph: fx.Graph, is_inference: bool) -> None:
        scaled(graph, 2 if is_inference else 1)

    def uuid(self) -> None:
        return None


def register(patterns: PatternMatcherPass) -> None:
    @register_graph_pattern(CallFunction(aten.sin.default, KeywordArg("x")), pass_dict=patterns)
    def sine(match: Any, x: fx.Node) -> None:
        match.replace_by_example(lambda x: aten.cos.default(x), [x])


class Registers:
    def register(self, pm_pass: PatternMatcherPass) -> None:
        register(pm_pass)


def patterns() -> PatternMatcherPass:
    made = PatternMatcherPass()
    register(made)
    return made


class Cosine(fx.Transformer):
    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return super().call_function(torch.cos if target is torch.sin else target, args, kwargs)


class Sines(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        return node.target in (aten.sin.default, torch.sin)


PAIR = (lambda x: torch.sin(x), lambda x: torch.cos(x), [torch.empty(4, 6)])
BARE = (lambda x: torch.sin(x), lambda x: torch.cos(x))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (with_settings, {}), (with_inputs, {}), (settings_before, {}), (Made, {"factor": 2}), (Made(2), {}),
        (scaled, {"factor": 5}), (Processes, {}), (Processes(), {}), (Result, {}), (OfGraphs, {}), (OfModules, {}),
        (OfInference, {}), (register, {}), (Registers(), {}), (patterns, {}), (patterns(), {}), (PAIR, {}),
        ([scaled, Result()], {}), ({"first": scaled}, {}), (PassManager([Result()]), {}), (lambda: Made(2), {}),
        (CapabilityBasedPartitioner, {"operator_support": Sines(), "allows_single_node_partition": True}),
    ],
)  # fmt: skip
def test_a_form_is_a_pass(value: Any, said: dict[str, Any]) -> None:
    assert applied(own_pass(value, "passes.py:p", said), aten.sin.default)


@pytest.mark.parametrize("value", [Cosine, BARE, PAIR])
def test_a_form_is_a_pass_over_functions_of_torch(value: Any) -> None:
    assert applied(own_pass(value, "passes.py:p"), torch.sin)


def applied(own: Any, function: Any) -> bool:
    program = SmallProgram((tensor_spec((4, 6)),), (Step("call_function", function, (In(0),)),), (Out(0),))
    built = build(program)
    stage = Stage.POST_GRAD if function is aten.sin.default else Stage.PRE_GRAD
    return apply_pass(own, built.gm, stage, lambda: built.inputs().rebuild()).fired


@pytest.mark.parametrize(
    ("value", "said", "words"),
    [
        (with_settings, {"nothing": 1}, "has no parameter 'nothing'; its parameters are (gm, settings)"),
        (Made, {}, "give it as --arg factor=VALUE"),
        (CapabilityBasedPartitioner, {}, "give it as --arg operator_support=VALUE"),
        ([scaled, 3], {}, "is a list, whose members must be passes in their order: int is a int"),
        ([], {}, "is an empty list"),
    ],
)
def test_what_does_not_fit_says_what_to_give(value: Any, said: dict[str, Any], words: str) -> None:
    with pytest.raises(PassError) as error:
        own_pass(value, "passes.py:p", said)
    assert words in str(error.value)


TEXT = """
import contextlib, torch
from torch import fx
ready = []

class Config:
    def __init__(self, factor): self.factor = factor

def make_config(): return Config(4)
def get_ready(): ready.append(1)

@contextlib.contextmanager
def inside():
    ready.append(2)
    yield
    ready.pop()

class Pass:
    def __init__(self, config): self.config = config
    def __call__(self, graph):
        assert ready
        for node in list(graph.nodes):
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default

def factory(kind, factor=2): return kind(Config(factor))
"""


@pytest.mark.parametrize(
    "asked",
    [
        {"args": (("config", "make_config()"),), "setup": "get_ready"},
        {"args": (("config", "Config(3)"),), "context": "inside"},
        {"make": "it(Config(1))", "context": "inside"},
        {"make": "FILE:factory", "args": (("factor", "7"),), "setup": "get_ready()"},
    ],
)
def test_a_pass_is_made_as_it_is_said(asked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "engine.py"
    file.write_text(TEXT)
    asked = {key: value.replace("FILE", str(file)) if key == "make" else value for key, value in asked.items()}
    assert applied(load_pass(PassRequest(f"{file}:Pass", **asked)), aten.sin.default)


def test_what_is_no_value_of_an_argument_says_so(tmp_path: Path) -> None:
    (tmp_path / "engine.py").write_text(TEXT)
    with pytest.raises(
        PassError, match=r"'no_config\(\)' is no literal, no module:name, and as an expression NameError"
    ):
        load_pass(PassRequest(f"{tmp_path}/engine.py:Pass", args=(("config", "no_config()"),)))


def test_entries_of_pyproject_are_passes_by_name(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.fxmorph]\nquiet = true\n[[tool.fxmorph.pass]]\nname = "mine"\npass = "engine.py:Pass"\n'
        'args = { config = "make_config()" }\nstub-ops = "engine"\ninductor = { freezing = true }\n'
    )
    ((where, table),) = pass_tables(tmp_path)
    entry = from_table(table, where)
    assert (entry.name, entry.target, entry.args) == ("mine", "engine.py:Pass", (("config", "make_config()"),))
    assert (entry.stub_ops, entry.inductor) == (("engine",), (("freezing", True),))
    assert merged(entry, PassRequest("mine", stage="joint")).stage == "joint"
    assert load_settings({}, tmp_path, {}).quiet
    with pytest.raises(ConfigError, match="unknown key 'stge' of a pass"):
        from_table({"name": "x", "stge": "joint"}, where)
    with pytest.raises(ConfigError, match="--arg x: want NAME=VALUE"):
        arguments(["x"])
