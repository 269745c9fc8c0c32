"""Pattern entries by name, and one applied alone."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import fx

from fxmorph.torchapi.fake import annotate
from fxmorph.torchapi.patterns import Entry, apply_entries, entries

aten = torch.ops.aten


def by_name(full_name: str) -> Entry:
    return next(e for e in entries() if e.full_name == full_name)


def test_every_entry_has_a_name_of_its_own() -> None:
    names = [e.full_name for e in entries()]
    assert len(set(names)) == len(names)
    assert {"joint.pass_patterns[0]/_sfdp_pattern_15_inference", "joint.early_patterns/pointless_view"} <= set(names)


@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="counted on torch 2.13")
def test_torch_2_13_has_530_entries_of_every_stage() -> None:
    assert len(entries()) >= 530
    assert {e.pass_name.partition(".")[0] for e in entries()} == {"pre_grad", "joint", "freezing", "post_grad"}
    assert sum(e.kind == "lowering" for e in entries()) == 128


def test_a_registered_replacement_keeps_its_functions_and_inputs() -> None:
    source = by_name("joint.pass_patterns[0]/_sfdp_pattern_14_training").source
    assert source is not None and source.training
    assert source.search_fn.__name__ == "_sfdp_pattern_14"
    assert all(isinstance(x, torch.Tensor) for x in source.example_inputs)


def test_sources_are_found_when_a_compile_ran_first() -> None:
    code = (
        "import torch; from torch._inductor.fx_passes import joint_graph as j; j.lazy_init(torch.device('cpu'));"
        "from fxmorph.torchapi.patterns import entries;"
        "e = [e for e in entries() if e.kind == 'replacement'];"
        "print(len(e) > 100 and all(x.source for x in e))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def double_permute() -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    once = graph.call_function(aten.permute.default, (x, [1, 0]))
    graph.output((graph.call_function(aten.permute.default, (once, [1, 0])),))
    gm = fx.GraphModule({}, graph)
    annotate(gm, [torch.zeros(2, 3)])
    return gm


def test_one_entry_alone_edits_the_graph() -> None:
    gm = double_permute()
    assert apply_entries(gm.graph, [by_name("joint.early_patterns/pointless_permute_pair")]) == 1
    assert not [n for n in gm.graph.nodes if n.target is aten.permute.default and n.users]


def test_another_entry_does_not() -> None:
    gm = double_permute()
    assert apply_entries(gm.graph, [by_name("joint.early_patterns/pointless_view_pair")]) == 0
