"""Made graphs whose sizes are symbols: where these stand, at which other sizes a graph runs, and what is judged."""

from __future__ import annotations

import operator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.inductor.firing.small_program import In, Misfit, Out, Sizes, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.firing.symbolic_programs import with_symbols
from fxmorph.inductor.firing.vocabulary import vocabulary
from fxmorph.testing import check_pass

pytestmark = pytest.mark.usefixtures("torch_quiet")
aten = torch.ops.aten
BOTH = (Sizes.READ, Sizes.GIVEN)
#: So many are tried on any machine.
GRAPHS = 250


def one(target: Any, *args: Any) -> SmallProgram:
    op = "call_method" if isinstance(target, str) else "call_function"
    return SmallProgram((tensor_spec((4, 6)),), (Step(op, target, (In(0), *args)),), (Out(0),), "one")


def graphs(program: SmallProgram, *forms: Sizes) -> list[Any]:
    found = []
    for each in with_symbols(program, forms or (Sizes.READ,)):
        try:
            found.append(build(each))
        except Misfit:
            continue
    return found


def called(built: Any) -> list[Any]:
    return [n.target for n in built.gm.graph.nodes if n.op in ("call_function", "call_method")]


def test_a_bound_is_a_size() -> None:
    found = [called(b) for b in graphs(one(aten.slice.Tensor, 0, -2, 2**63 - 1))]
    assert [aten.sym_size.int, operator.neg, aten.slice.Tensor] in [calls[:3] for calls in found]


def test_sizes_are_those_of_the_operand() -> None:
    product = [aten.sym_size.int, aten.sym_size.int, operator.mul, aten.view.default]
    assert product in [called(b)[:4] for b in graphs(one(aten.view.default, [24]))]
    (own,) = [b for b in graphs(one(aten.view.default, [4, 6])) if called(b)[:2] == [aten.sym_size.int] * 2]
    assert [n.args[1] for n in own.gm.graph.nodes if n.target is aten.sym_size.int] == [0, 1]


def test_no_bound_is_the_size_of_the_dimension() -> None:
    found = [b.gm.graph for b in graphs(one(aten.slice.Tensor, 1, 0, 2**63 - 1))]
    sized = [(n.args[1], n.args[3].args[1]) for g in found for n in g.nodes if _sized_by_operand(n)]
    assert (1, 1) in sized


def _sized_by_operand(node: fx.Node) -> bool:
    ends = node.args[3:] if node.target is aten.slice.Tensor else ()
    return any(isinstance(end, fx.Node) and end.args[0] is node.args[0] for end in ends)


def test_methods_take_symbols_too() -> None:
    assert ["size", "size", "view"] in [called(b)[:3] for b in graphs(one("view", 4, 6))]


def test_dims_and_orders_are_no_sizes() -> None:
    for program in (one(aten.permute.default, [1, 0]), one(aten.softmax.int, 1)):
        for built in graphs(program):
            if aten.sym_size.int in called(built):  # of the result
                assert called(built)[1:] == [aten.sym_size.int, aten.mul.Tensor]


def test_sizes_are_read_or_given() -> None:
    program = one(aten.slice.Tensor, 0, 0, 2)
    read, given = (graphs(program, form)[0] for form in BOTH)
    assert aten.sym_size.int in called(read) and aten.sym_size.int not in called(given)
    first = next(iter(given.gm.graph.nodes))
    assert first.op == "placeholder" and isinstance(first.meta["val"], torch.SymInt)
    count, *rest = given.inputs().rebuild()
    assert count == 2 and len(rest) == 2 and given.gm(count, *rest)[0].shape == (2, 6)


def test_other_sizes_keep_what_was_assumed() -> None:
    for built in graphs(one(aten.slice.Tensor, 0, -2, 2**63 - 1), *BOTH):
        elsewhere = [inputs.rebuild() for inputs, _ in islice(built.elsewhere(), 6)]
        assert elsewhere and any(x.shape != (4, 6) for values in elsewhere for x in values if hasattr(x, "shape"))
        for values in elsewhere:
            built.gm(*values)


def test_what_fits_one_size_is_no_program_of_symbols() -> None:
    with pytest.raises(Misfit, match="these sizes alone"):
        build(SmallProgram(**{**vars(one(aten.expand.default, [4, 6])), "sizes": Sizes.READ}))


def reads_sizes(graph: fx.Graph) -> None:
    for node in graph.nodes:
        node.meta["seen"] = node.target is aten.sym_size.int


def reads_symbols(graph: fx.Graph) -> None:
    for node in graph.nodes:
        node.meta["seen"] = isinstance(node.meta["val"], torch.SymInt)


def reads_neither(graph: fx.Graph) -> None:
    for node in graph.nodes:
        node.meta["seen"] = node.target is aten.slice.Tensor


def test_a_pass_says_that_it_knows_symbols() -> None:
    assert vocabulary((reads_sizes,)).symbolic and vocabulary((reads_symbols,)).symbolic
    assert not vocabulary((reads_neither,)).symbolic


# -- passes ----------------------------------------------------------------------


class FullSlices:
    """Slices up to the size of what is sliced, dropped: right where dims are compared."""

    def __init__(self, careful: bool) -> None:
        self.careful = careful

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is not aten.slice.Tensor or len(node.args) != 4 or node.args[2] != 0:
                continue
            read, dim, _, end = node.args
            if not isinstance(end, fx.Node) or end.target is not aten.sym_size.int or end.args[0] is not read:
                continue
            if not self.careful or end.args[1] == dim:
                with graph.inserting_before(node):
                    node.replace_all_uses_with(graph.call_function(aten.alias.default, (read,)))
                graph.erase_node(node)


def test_a_right_pass_over_sizes_fires() -> None:
    assert check_pass(FullSlices(True), (), graphs=GRAPHS) > 0


def test_a_wrong_pass_over_sizes_is_found() -> None:
    with pytest.raises(AssertionError, match="symbolic sizes"):
        check_pass(FullSlices(False), (), graphs=GRAPHS)


class SumsAsMeans:
    """A sum as a mean by a size that the pass looks up, in one of three ways."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, graph: fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.target is not aten.sum.dim_IntList or node.args[1] != [0] or node.args[2:] or node.kwargs:
                continue
            value = node.args[0].meta["val"]
            size = value.shape[0] if value.ndim else 1
            if not isinstance(size, torch.SymInt) or value.dtype is not torch.float32:
                continue
            match self.how:
                case "remembered":
                    size = size.node.hint
                case "guarded":
                    size = int(size)
            with graph.inserting_before(node):
                mean = graph.call_function(aten.mean.dim, (node.args[0], [0]))
                total = graph.call_function(aten.mul.Tensor, (mean, size))
            node.replace_all_uses_with(total)
            graph.erase_node(node)


def test_a_size_that_was_traced_is_wrong_elsewhere() -> None:
    with pytest.raises(AssertionError, match="at other sizes than it was traced with"):
        check_pass(SumsAsMeans("remembered"), (), graphs=GRAPHS)


@pytest.mark.parametrize("how", ["guarded", "symbol"])
def test_sizes_that_are_guarded_or_stay_symbols_are_right(how: str) -> None:
    assert check_pass(SumsAsMeans(how), (), graphs=GRAPHS) > 0
