"""Graphs as programs: what Inductor's own operators mean."""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor import inductor_prims

from fxmorph.programs.interpreter import program


def test_an_accumulating_write_is_made_once() -> None:
    """Eager runs Inductor's operator twice."""
    graph = fx.Graph()
    x, index, values = (graph.placeholder(name) for name in ("x", "index", "values"))
    graph.output(graph.call_function(inductor_prims._unsafe_index_put_, (x, [index], values, True)))
    given = torch.zeros(2, 3), torch.tensor([0, 0]), torch.ones(2, 3)
    assert program(fx.GraphModule({}, graph))(*given).tolist() == [[2.0] * 3, [0.0] * 3]
