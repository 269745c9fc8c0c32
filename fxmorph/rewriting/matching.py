"""Where a rule's pattern lies in a graph: operations by structure, then literals on the values of the site."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.programs.canon import Operation, canonical
from fxmorph.programs.inputs import relocate, strided_clone
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.tracing import BoundFloat, BoundInt, trace
from fxmorph.rules import Rule


@dataclass
class Pattern:
    """``before`` traced on sample tensors: operations by node, parameters as wildcards."""

    root: fx.Node
    params: dict[fx.Node, str]
    operations: dict[fx.Node, Operation]


_patterns: dict[tuple[str, Callable[..., Any]], Pattern | None] = {}


def pattern_of(rule: Rule) -> Pattern | None:
    """The structure that ``before`` matches; None where it cannot be traced on samples."""
    key = (rule.id, rule.before)  # of a proposal another may have its name and place
    if key not in _patterns:
        rng = random.Random(f"pattern {rule.id}")
        made: Pattern | None = None
        for _ in range(20):
            sample = sample_arguments(rule, rng)
            if sample is None:
                break
            tensors, scalars = sample
            for name, choices in rule.scalars.items():
                if choices is None:
                    kind = BoundFloat if isinstance(scalars[name], float) else BoundInt
                    scalars[name] = kind(scalars[name])
                    scalars[name].name = name
            graph = fx.Graph()
            given = {n: (graph.placeholder(n), t) for n, t in tensors.items()}
            try:
                out, nodes = trace(rule.before, graph, given, scalars)
            except Exception:
                continue
            if nodes:
                made = Pattern(out.node, {n: k for k, (n, _) in given.items()}, {n: canonical(n) for n in nodes})
                break
        _patterns[key] = made
    return _patterns[key]


@dataclass
class Match:
    """A place where a rule's pattern lies in a graph."""

    root: fx.Node
    args: dict[str, fx.Node]
    scalars: dict[str, Any]
    inner: list[fx.Node]


def match_at(pattern: Pattern, node: fx.Node, ops: dict[fx.Node, Operation]) -> Match | None:
    """The match whose last operation is ``node``, literals apart."""
    args: dict[str, fx.Node] = {}
    scalars: dict[str, Any] = {}
    matched: dict[fx.Node, fx.Node] = {}

    def same(want: Any, got: Any) -> bool:
        if isinstance(want, fx.Node):
            if not isinstance(got, fx.Node):
                return False
            if want in pattern.params:
                return args.setdefault(pattern.params[want], got) is got
            return nodes(want, got)
        if isinstance(want, (BoundFloat, BoundInt)):
            if isinstance(got, bool) or not isinstance(got, (int, float)):
                return False
            return scalars.setdefault(want.name, got) == got
        if isinstance(want, (list, tuple)):
            return isinstance(got, (list, tuple)) and len(want) == len(got) and all(map(same, want, got))
        if isinstance(want, slice):
            return isinstance(got, slice)
        return not isinstance(got, fx.Node)  # literals are compared at the site

    def nodes(want: fx.Node, got: fx.Node) -> bool:
        if want in matched:
            return matched[want] is got
        a, b = pattern.operations.get(want), ops.get(got)
        if a is None or b is None or a.name != b.name or len(a.arguments) != len(b.arguments):
            return False
        matched[want] = got
        return all(k == j and same(v, w) for (k, v), (j, w) in zip(a.arguments, b.arguments, strict=True))

    if not nodes(pattern.root, node):
        return None
    return Match(node, args, scalars, [n for n in matched.values() if n is not node])


def literals_agree(rule: Rule, match: Match, ops: dict[fx.Node, Operation], tensors: dict[str, torch.Tensor]) -> bool:
    """Trace ``before`` on the site's values and compare every literal.

    It runs on the CPU: with literals that are not the site's, indices may be out of bounds,
    which breaks a GPU for good.
    """
    graph = fx.Graph()
    device = next(iter(tensors.values())).device
    try:
        given = {n: (graph.placeholder(n), relocate(strided_clone(t), "cpu")) for n, t in tensors.items()}
        out, made = trace(rule.before, graph, given, match.scalars)
    except Exception:
        return False
    back: dict[fx.Node, fx.Node] = {node: match.args[n] for n, (node, _) in given.items()}
    floating = all(t.is_floating_point() for t in tensors.values())

    def same(want: Any, got: Any) -> bool:
        if isinstance(want, fx.Node):
            if want in back:
                return back[want] is got
            return isinstance(got, fx.Node) and nodes(want, got)
        if isinstance(got, fx.Node):
            return False
        if isinstance(want, (list, tuple)):
            return isinstance(got, (list, tuple)) and len(want) == len(got) and all(map(same, want, got))
        if isinstance(want, torch.device):
            return bool(got == (device if want.type == "cpu" else want))
        if isinstance(want, slice):
            return isinstance(got, slice) and (want.start, want.stop, want.step) == (got.start, got.stop, got.step)
        if isinstance(want, (int, float)) and isinstance(got, (int, float)) and floating:
            return want == got and isinstance(want, bool) == isinstance(got, bool)
        return type(want) is type(got) and want == got

    def nodes(want: fx.Node, got: fx.Node) -> bool:
        a, b = canonical(want), ops.get(got)
        if b is None or a.name != b.name or len(a.arguments) != len(b.arguments):
            return False
        back[want] = got
        return all(k == j and same(v, w) for (k, v), (j, w) in zip(a.arguments, b.arguments, strict=True))

    return bool(made) and nodes(out.node, match.root)


def root_operation(rule: Rule) -> str:
    """Canonical name of the last operation of a rule's pattern; "" where it has none."""
    pattern = pattern_of(rule)
    return pattern.operations[pattern.root].name if pattern else ""
