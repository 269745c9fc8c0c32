"""What of Inductor a proposal makes fire: the last thing that the gate finds out, of those that it admits.

It refuses nothing.  Campaigns try first what makes units fire that have not fired (``ideas.py``).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fxmorph.model import CompileConfig
from fxmorph.programs.graph import Unprintable, function_of, print_graph
from fxmorph.programs.inputs import InputSet, strided_clone
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.tracing import trace
from fxmorph.rules import Rule
from fxmorph.torchapi.compiling import compile_callable, configured, reset
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.firing import noting, written_only


def fired_by(graph: fx.Graph, inputs: InputSet, config: CompileConfig, no_grad: bool) -> tuple[str, ...]:
    """The units that a compile of the graph uses, forward and backward, by name; as far as it goes."""
    fired: set[str] = set()
    with contextlib.suppress(Unprintable):
        _compile(function_of(print_graph(graph)), inputs, config, no_grad, fired)
    return tuple(sorted(fired))


def _compile(fn: Callable[..., Any], inputs: InputSet, config: CompileConfig, no_grad: bool, fired: set[str]) -> None:
    """What the compile or the call raises does not matter: campaigns will see it."""
    seed_generators(0)
    grad = torch.set_grad_enabled(not no_grad)
    with configured(config), written_only(), noting(fired), grad, contextlib.suppress(Exception):
        compile_callable(fn, config)(*inputs.rebuild())
    reset()


def fired_by_rule(rule: Rule) -> tuple[str, ...]:
    """The units that the right side of a rule makes fire and the left side does not, on the first arguments found."""
    sample = sample_arguments(rule, random.Random(rule.id))
    if sample is None:
        return ()
    try:
        before, after = (_side(rule, side, *sample) for side in (rule.before, rule.after))
    except Exception:  # what does not trace is compiled nowhere
        return ()
    given = InputSet.snapshot([strided_clone(t) for t in sample[0].values()])
    config = CompileConfig.make()
    without = fired_by(before, given, config, no_grad=True)
    return tuple(unit for unit in fired_by(after, given, config, no_grad=True) if unit not in without)


def _side(rule: Rule, side: Callable[..., Any], tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> fx.Graph:
    graph = fx.Graph()
    given = {n: (graph.placeholder(n), strided_clone(t)) for n, t in tensors.items()}
    with torch.no_grad():
        out, _ = trace(side, graph, given, scalars)
    first = given[next(iter(rule.args))][0]
    graph.output((out.node if rule.site != "late" else first,))
    return graph
