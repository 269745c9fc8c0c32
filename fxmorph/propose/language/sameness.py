"""Which rule a rule is the same as, whatever its arguments and sizes are called and its operations spelled.

Both sides are traced on sample arguments; nodes are written by canonical operation (``canon.py``) and
arguments by their order of first use.  A rule whose two graphs are those of a known rule on each of its
samples, at which the known one holds too, is a duplicate of it or an instance of it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx

from fxmorph.programs.canon import canonical
from fxmorph.programs.inputs import spec_of, strided_clone
from fxmorph.rewriting.instances import holds
from fxmorph.rewriting.samples import sample_arguments
from fxmorph.rewriting.tracing import trace
from fxmorph.rules import Rule

#: Samples that two rules are compared on.
SAMPLES = 3


@dataclass(frozen=True)
class Traced:
    """Both sides of a rule on some arguments, as canonical text, and the operations in them."""

    before: str
    after: str
    operations: str


def traced(rule: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any]) -> Traced:
    """Raises what tracing raises."""
    order = {name: i for i, name in enumerate(rule.args)}
    before, first = _side(rule.before, order, tensors, scalars)
    after, second = _side(rule.after, order, tensors, scalars)
    return Traced(before, after, f"{rule.site}: {first} -> {second}")


def _side(
    side: Any, order: dict[str, int], tensors: dict[str, torch.Tensor], scalars: dict[str, Any]
) -> tuple[str, str]:
    graph = fx.Graph()
    given = {n: (graph.placeholder(n), strided_clone(t)) for n, t in tensors.items()}
    with torch.no_grad():
        out, made = trace(side, graph, given, scalars)
    names = {node: f"arg{order[n]}" for n, (node, _) in given.items()}
    names |= {node: f"%{i}" for i, node in enumerate(made)}

    def show(value: Any) -> str:
        if isinstance(value, fx.Node):
            return names[value]
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(show, value))}]"
        if isinstance(value, slice):
            return f"{show(value.start)}:{show(value.stop)}:{show(value.step)}"
        return repr(value)

    operations = [canonical(node) for node in made]
    lines = [f"{op.name}({', '.join(f'{k}={show(v)}' for k, v in op.arguments)})" for op in operations]
    return "; ".join([*lines, names[out.node]]), " ".join(sorted(op.name for op in operations))


def ordered(rule: Rule) -> Rule | None:
    """The rule with its arguments in the order in which ``before``, then ``after``, first use them."""
    sample = sample_arguments(rule, random.Random("order"))
    if sample is None:
        return None
    seen: list[str] = []
    for side in (rule.before, rule.after):
        graph = fx.Graph()
        given = {n: (graph.placeholder(n), strided_clone(t)) for n, t in sample[0].items()}
        try:
            with torch.no_grad():
                _, made = trace(side, graph, given, sample[1])
        except Exception:
            return None
        seen += [a.name for node in made for a in node.all_input_nodes if a.name in rule.args]
    names = dict.fromkeys([*seen, *rule.args])
    return replace(rule, args={n: rule.args[n] for n in names})


def samples(rule: Rule) -> Iterator[tuple[dict[str, torch.Tensor], dict[str, Any]]]:
    for k in range(SAMPLES):
        found = sample_arguments(rule, random.Random(f"same {k}"), dtypes=rule.dtypes[:1] if not rule.mixed else ())
        if found is not None:
            yield found


def changes_nothing(rule: Rule) -> bool:
    """Whether both sides are the same graph on every sample."""
    made = [traced(rule, *sample) for sample in samples(rule)]
    return bool(made) and all(t.before == t.after for t in made)


class Known:
    """Rules that proposals are compared with."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_operations: defaultdict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            self.add(rule)

    def add(self, rule: Rule) -> None:
        arranged = ordered(rule)
        sample = next(samples(arranged), None) if arranged is not None else None
        if arranged is None or sample is None:
            return
        try:
            self._by_operations[traced(arranged, *sample).operations].append(arranged)
        except Exception:
            return  # it cannot be compared with

    def same_as(self, rule: Rule) -> str:
        """The id of a known rule that this one is the same as, or an instance of; "" where there is none.

        Raises what tracing the rule raises.
        """
        arranged = ordered(rule)
        drawn = list(samples(arranged)) if arranged is not None else []
        if arranged is None or not drawn:
            return ""
        mine = [traced(arranged, *sample) for sample in drawn]
        for other in self._by_operations.get(mine[0].operations, ()):
            if other.id == rule.id or not set(other.assumes) <= set(rule.assumes):
                continue
            if all(_agrees(other, *s, t) for s, t in zip(drawn, mine, strict=True)):
                return other.id
        return ""


def _agrees(other: Rule, tensors: dict[str, torch.Tensor], scalars: dict[str, Any], mine: Traced) -> bool:
    """Whether ``other`` holds for these arguments, taken in its own order, and traces to the same graphs."""
    if len(other.args) != len(tensors) or len(other.scalars) != len(scalars):
        return False
    given = dict(zip(other.args, tensors.values(), strict=True))
    numbers = dict(zip(other.scalars, scalars.values(), strict=True))
    for name, among in other.scalars.items():
        if among is not None and numbers[name] not in among:
            return False
    if not holds(other, {n: spec_of(t) for n, t in given.items()}, numbers):
        return False
    try:
        theirs = traced(other, given, numbers)
    except Exception:
        return False
    return (theirs.before, theirs.after) == (mine.before, mine.after)
