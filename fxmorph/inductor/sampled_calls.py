"""Graphs of one call each, of operators that decompositions take apart, on the samples of torch's own tests."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.inductor.inventory import Decomposition, listed
from fxmorph.inductor.pairs import SAFE_PLANS
from fxmorph.inductor.stages import StageGraph
from fxmorph.judge.reference.precision import widened
from fxmorph.model import ValuePlan
from fxmorph.programs.bits import same_bits
from fxmorph.programs.capture import inputs_under
from fxmorph.programs.inputs import InputSet, NotApplicable, dtype_name
from fxmorph.programs.operators import EMPTY, operator_name
from fxmorph.torchapi.dispatch import tree_flatten, tree_map, tree_unflatten
from fxmorph.torchapi.fake import annotate
from fxmorph.torchapi.first_on_cpu import on_gpu, refused_call
from fxmorph.torchapi.operator_samples import SampleCall, sample_calls
from fxmorph.torchapi.storages import storage_key

#: The part that such a graph is.
SAMPLED = "sample"
#: How many jobs the operators of torch's tests are divided among.
PARTS = 96
#: By how many units in the last place results may be apart that are taken for the same without a reference, if those in
#: fp64 are apart by so many at most.
ROUNDED, IN_FP64 = 4.0, 2.0**20


@dataclass(frozen=True)
class Sampled:
    """A call of an operator that ``unit`` decomposes: its graph, None where the decomposition, called in its place,
    gives the same.
    """

    unit: str
    part: str
    graph: StageGraph | None


def sampled_calls(
    units: Collection[Unit], part: int, turn: int, tell: Callable[[str], None] = lambda _: None, device: str = "cpu"
) -> Iterator[Sampled]:
    """One part of :data:`PARTS` in one of the turns, of the decompositions among ``units``, on ``device``; ``tell``
    hears the unit that runs.

    The first call of each has a graph in any case: tracing shows what noted dtypes and sizes are.
    """
    decompositions = {h.operator: (u.name, h.function) for u in units if (h := _handle(u)) is not None}
    traced: set[str] = set()
    wanted = {o for o in decompositions if operator_name(o) not in EMPTY}
    for call in sample_calls(wanted, part, PARTS, turn, device):
        unit, function = decompositions[call.overload]
        said = f"{SAMPLED} {call.overload} {dtype_name(call.dtype)} of {call.operator}"
        tell(unit)
        if refused_call(call.overload, call.args, call.kwargs):
            continue
        if unit in traced and _agrees(call, function):
            yield Sampled(unit, said, None)
            continue
        traced.add(unit)
        try:
            graph = graph_of(call, said)
        except Exception:  # what fake tensors do not take, or eager not twice
            continue
        yield Sampled(unit, said, graph)


def _handle(unit: Unit) -> Decomposition | None:
    handle = listed(unit.name).handle if unit.kind is UnitKind.DECOMPOSITION else None
    return handle if isinstance(handle, Decomposition) else None


def _agrees(call: SampleCall, function: Callable[..., Any]) -> bool:
    """Whether both give the same, on the call's own values and on exact ones: to the bit, or nearly so and in fp64 too.

    Layouts and shared memory are the same then.  What the filter lets through has no reference computed.
    """
    leaves, form = tree_flatten((call.args, call.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    try:
        base = InputSet.snapshot([leaves[i] for i in places])
        for plan in SAFE_PLANS:
            given = base if plan is ValuePlan.SEED else inputs_under(plan, base, 0)

            def arguments(wide: bool, given: InputSet = given) -> tuple[list[Any], Any]:
                tensors = [t.to(widened(t.dtype)) if wide else t for t in given.rebuild()]
                values = dict(zip(places, tensors, strict=True))
                taken = [
                    values.get(i, widened(v) if wide and isinstance(v, torch.dtype) else v)
                    for i, v in enumerate(leaves)
                ]
                return tensors, tree_unflatten(taken, form)

            def called(what: Callable[..., Any], wide: bool) -> tuple[list[Any], Any]:
                tensors, (args, kwargs) = arguments(wide)
                with torch.no_grad():
                    return tensors, what(*args, **kwargs)

            if on_gpu(leaves) and refused_call(call.overload, *arguments(False)[1]):
                continue
            one, other = called(call.overload, False), called(function, False)
            if not _same(one, other, ROUNDED):
                return False
            if not _same(one, other, 0.0) and not _same(called(call.overload, True), called(function, True), IN_FP64):
                return False
    except NotApplicable:
        return True
    except Exception:  # what raises, or is declined, is looked at as a graph
        return False
    return True


def _same(one: tuple[list[Any], Any], other: tuple[list[Any], Any], units: float) -> bool:
    """Whether tensors are, and results are but for so many units in the last place; 0.0: to the bit."""
    (mine, form), (theirs, its_form) = tree_flatten(one), tree_flatten(other)
    alike = form == its_form and all(_same_leaf(a, b, units) for a, b in zip(mine, theirs, strict=True))
    return alike and _shared(mine) == _shared(theirs)


def _same_leaf(a: Any, b: Any, units: float) -> bool:
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return type(a) is type(b) and bool(a == b)
    if not (a.layout == b.layout == torch.strided and a.stride() == b.stride()):
        return False
    return same_bits(a, b) or (units > 0 and a.dtype == b.dtype and a.dtype.is_floating_point and _near(a, b, units))


def _near(a: torch.Tensor, b: torch.Tensor, units: float) -> bool:
    """Whether floats of one shape are apart by so many units of themselves and of their root mean square at most."""
    x, y = a.double(), b.double()
    finite = torch.isfinite(x)
    if not torch.equal(torch.where(finite, 0.0, x).nan_to_num(1.0), torch.where(finite, 0.0, y).nan_to_num(1.0)):
        return False
    x, y = x[finite], y[finite]
    largest = x.abs().max() if x.numel() else x.sum()
    mean = largest * (x / largest.clamp(min=1e-300)).square().mean().sqrt() if x.numel() else largest
    return bool(((x - y).abs() <= units * torch.finfo(a.dtype).eps * (x.abs() + mean)).all())


def _shared(leaves: Sequence[Any]) -> list[int]:
    """For each tensor the first one in the same storage."""
    keys = [storage_key(t) if isinstance(t, torch.Tensor) else None for t in leaves]
    return [keys.index(key) for key in keys]


def graph_of(call: SampleCall, part: str) -> StageGraph:
    """The graph of one call, on its tensors; raises what fake tensors or eager raise."""
    graph, values = fx.Graph(), list[torch.Tensor]()

    def placed(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        values.append(value)
        return graph.placeholder(f"input{len(values)}")

    node = graph.call_function(call.overload, *tree_map(placed, (call.args, call.kwargs)))
    with torch.no_grad():
        out = call.overload(*call.args, **call.kwargs)
    if isinstance(out, (tuple, list)):
        given = [i for i, o in enumerate(out) if o is not None]
        graph.output(tuple(graph.call_function(operator.getitem, (node, i)) for i in given))
    else:
        graph.output((node,))
    gm = fx.GraphModule({}, graph)
    inputs = InputSet.snapshot(values)
    annotate(gm, inputs.rebuild())
    return StageGraph(Stage.DECOMPOSITION, part, gm, inputs)
