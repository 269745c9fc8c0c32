"""The inventory: names, flags, and the reading of pipeline functions."""

from __future__ import annotations

import functools
import importlib.util
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from fxmorph.core.units import Stage, UnitKind
from fxmorph.inductor import inventory as inventory_module
from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.description import describe
from fxmorph.inductor.inventory import UnknownUnit, inventory, listed, near, observed_unit, unwrapped
from fxmorph.inductor.stages import stage_graphs
from fxmorph.torchapi import pipelines
from fxmorph.torchapi.optional_passes import as_compiling
from fxmorph.torchapi.pipelines import Step

EXPECTED = """
pre_grad.numpy_compat_normalization pre_grad.group_batch_fusion_passes pre_grad.split_cat_pass pre_grad.batch_linear
partitioner.fx_graph_cse joint.remove_noop_ops joint.constant_fold_uniform_value joint.pass_patterns[0]
joint.replace_random freezing.constant_fold freezing.binary_folding_pass post_grad.view_to_reshape
post_grad.reorder_for_locality
post_grad.pass_patterns[1] post_grad.reinplace_inplaceable_ops post_grad.decompose_auto_functionalized
post_grad.decompose_mm_pass post_grad.batch_aten_relu post_grad.remove_noop_ops/slice_noop
decomposition.aten.softmax.int lowering.aten.sin.default
""".split()


@pytest.mark.parametrize("name", EXPECTED)
def test_units_have_the_names_that_pytorch_uses(name: str) -> None:
    assert listed(name).unit.name == name


def test_names_are_unique_and_say_their_stage() -> None:
    units = inventory()
    assert len({u.name for u in units}) == len(units)
    assert all(u.name.startswith(f"{u.stage}.") for u in units)
    assert [u.stage for u in units] == sorted((u.stage for u in units), key=list(Stage).index)


def test_what_is_off_by_default_has_a_flag() -> None:
    for unit in inventory():
        assert unit.default == (unit.flag == ""), unit
        assert unit.device in ("all", "cpu", "cuda"), unit
    assert listed("post_grad.batch_aten_relu").unit.flag == "post_grad_fusion_options={'batch_aten_relu': {}}"
    assert listed("freezing.constant_fold").settings == {"freezing": True}


def test_every_pass_that_a_compile_observes_is_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes import post_grad
    from torch.fx.passes.graph_transform_observer import GraphTransformObserver

    seen: set[tuple[str, str]] = set()
    original = GraphTransformObserver.__init__

    def spy(self: object, gm: object, passname: str, subsystem: str | None = None, *args: object) -> None:
        seen.add((subsystem or "", passname))
        original(self, gm, passname, subsystem, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(GraphTransformObserver, "__init__", spy)
    graphs = {g.stage: g.gm for g in stage_graphs(lambda x: (x @ x).softmax(1) + 1, (torch.randn(4, 4),))}
    with as_compiling(graphs[Stage.POST_GRAD].graph):
        compile_fx._recursive_post_grad_passes(clone_module(graphs[Stage.POST_GRAD]), is_inference=True)
    named = {(subsystem, name) for subsystem, name in seen if subsystem and name != "pattern_matcher"}
    assert {s for s, _ in named} >= {"joint_graph_passes", "post_grad_passes"}
    unknown = {(s, n) for s, n in named if not observed_unit(s, n)}
    # group_batch_fusion_passes borrows the name of the user's pass; a list without entries does nothing.
    empty = {("post_grad_passes", f"pass_pattern_{i}") for i, p in enumerate(post_grad.pass_patterns) if not p.patterns}
    assert unknown <= {("post_grad_passes", "post_grad_custom_pre_pass"), *empty}


def test_lowerings_and_lowering_entries_are_not_for_eager() -> None:
    for unit in inventory():
        if unit.kind is UnitKind.LOWERING or unit.note == "lowering":
            assert not unit.eager, unit
    assert listed("lowering.aten.sin.default").unit.note == ""
    assert any(u.note == "fallback" for u in inventory() if u.kind is UnitKind.LOWERING)


def test_the_inventory_is_the_same_each_time() -> None:
    def made_anew() -> Any:
        inventory_module._listed.cache_clear()
        pipelines.steps.cache_clear()
        return inventory()

    # Compiles of other tests may have added lowerings of their own since it was made.
    assert made_anew() == made_anew()


@pytest.mark.skipif(not torch.__version__.startswith("2.13.0"), reason="counts of one release")
def test_counts_on_the_release_of_the_checks() -> None:
    units = inventory()
    patterns = [u for u in units if u.note in ("replacement", "graph", "lowering")]
    assert len(patterns) >= 530
    assert sum(u.kind is UnitKind.PASS for u in units) >= 100
    assert sum("fusion_options" in u.flag and u.kind is UnitKind.PASS for u in units) == 41
    assert sum(u.kind is UnitKind.DECOMPOSITION for u in units) >= 1062
    assert sum(u.note == "fallback" for u in units) >= 357  # what a compile finds no lowering for becomes a fallback
    assert sum(u.note == "rule" for u in units) == 13


def test_a_typing_error_gets_near_names() -> None:
    with pytest.raises(UnknownUnit, match=r"did you mean .*joint\.remove_noop_ops"):
        listed("remove_nop_ops")
    assert near("reinplace")[0] == "post_grad.reinplace_inplaceable_ops"
    assert near("nothing like it at all") == ()


def test_describing_names_file_and_line_of_pattern_and_replacement() -> None:
    name = next(u.name for u in inventory() if "_sfdp_pattern_18" in u.name and u.note == "replacement")
    rows = list(describe(listed(name)))
    for what, function in (("pattern:", "_sfdp_pattern_18"), ("replacement:", "_sfdp_replacement_18")):
        (row,) = [r for r in rows if r.strip().startswith(what)]
        file, line = row.split()[1].rsplit(":", 1)
        assert Path(file).read_text().splitlines()[int(line) - 1].startswith(f"def {function}(")
    assert any("CallFunction(aten.bmm.default" in r for r in rows)


def test_every_unit_can_be_described() -> None:
    seen: set[tuple[str, str]] = set()
    for unit in inventory():
        if (key := (unit.stage, f"{unit.kind}{unit.note}{unit.module}")) not in seen:
            seen.add(key)
            assert any("module:" in row for row in describe(listed(unit.name)))


def test_unwrapping_finds_the_function_of_that_name() -> None:
    def inner(x: int) -> int:
        return x

    def made(function: object) -> object:
        def wrapper(x: int) -> object:
            return function

        wrapper.__name__ = "inner"
        return wrapper

    assert unwrapped(functools.partial(made(functools.partial(inner, 1)), 1)) is inner  # type: ignore[arg-type]


PIPELINE = """
import functools

from torch._inductor import config
from torch.fx.passes.graph_transform_observer import GraphTransformObserver


def rename(graph, prefix="seen"):
    for node in graph.find_nodes(op="placeholder"):
        node.meta[prefix] = True


def _hidden(gm): rename(gm.graph, "hidden")
def late(gm): rename(gm.graph, "late")
def other(made, gm): rename(gm.graph, made)
def lint_only(gm): pass


def pipeline(gm, example_inputs=()):
    made = "made" + str(len(example_inputs))
    GraphTransformObserver(gm, "observed", subsystem="x").apply_graph_pass(functools.partial(rename, prefix="partial"))
    if config.dce:
        GraphTransformObserver(gm, "lambda_pass").apply_graph_pass(lambda graph: rename(graph, "lambda"))
    for custom_pass in ():
        GraphTransformObserver(gm, "custom_pre").apply_graph_pass(custom_pass)
    with GraphTransformObserver(gm, "inside"):
        gm = _hidden(gm)
    other(made, gm)
    gm.graph.lint()
    if not config.freezing:
        return gm
    late(gm)
    return gm
"""


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "made_pipeline.py").write_text(textwrap.dedent(PIPELINE))
    spec = importlib.util.spec_from_file_location("made_pipeline", tmp_path / "made_pipeline.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "made_pipeline", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(pipelines, "PIPELINES", (("joint", "made_pipeline", "pipeline", "gm"),))
    pipelines.steps.cache_clear()
    yield module
    pipelines.steps.cache_clear()


def graph_module() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(lambda x: x + 1)


def test_reading_finds_every_form_of_call_with_its_condition(pipeline: ModuleType) -> None:
    found = {step.name: step for step in pipelines.steps()}
    assert list(found) == ["observed", "lambda_pass", "inside", "other", "late"]
    assert found["lambda_pass"].off() == ("config.dce",)
    assert found["lambda_pass"].settings() == {"dce": True}
    assert found["late"].off() == ("not (not config.freezing)",)
    assert found["observed"].off() == found["inside"].off() == ()
    assert found["observed"].function is pipeline.rename
    assert found["inside"].function is pipeline._hidden
    assert [s.observed for s in found.values()] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("name", "mark"), [("observed", "partial"), ("lambda_pass", "lambda"), ("inside", "hidden"), ("other", "made1")]
)
def test_each_call_runs_alone_in_the_namespace_of_its_pipeline(pipeline: ModuleType, name: str, mark: str) -> None:
    step: Step = next(s for s in pipelines.steps() if s.name == name)
    gm = graph_module()
    pipelines.run_step(step, gm, [None])
    (placeholder,) = gm.graph.find_nodes(op="placeholder")
    assert list(placeholder.meta) == [mark]
