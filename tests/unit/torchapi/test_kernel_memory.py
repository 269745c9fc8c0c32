"""What is seen of accesses to memory: where they go, whom they belong to, which iterations make them."""

from __future__ import annotations

import pytest
import torch

from fxmorph.model import Kind
from fxmorph.torchapi.kernel_memory import OWNERS, Memory
from fxmorph.torchapi.kernel_order import Lanes, Touched
from fxmorph.torchapi.kernel_reductions import reduce, scan, search

ALL = torch.arange(4)


class Watched:
    """Memory of some buffers, and what was said of it."""

    def __init__(self, own: set[str] | None = None, **buffers: torch.Tensor) -> None:
        names, said = set(buffers), list[tuple[Kind, str]]()
        self.said = said
        own = names if own is None else own
        self.memory = Memory(1, buffers, own, names, names, lambda kind, name, _: said.append((kind, name)))


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    OWNERS.clear()


def test_accesses_inside_are_as_in_torch() -> None:
    watched = Watched(x=torch.arange(4.0))
    assert torch.equal(watched.memory.load("x", ALL, None), torch.arange(4.0))
    watched.memory.store("x", ALL, torch.ones(4), None, False)
    watched.memory.store("x", torch.tensor([1, 1]), torch.ones(2), None, True)
    assert watched.memory.load("x", ALL, None).tolist() == [1, 3, 1, 1]
    assert watched.said == []


def test_what_was_read_stays_when_its_place_is_written() -> None:
    watched = Watched(x=torch.arange(4.0))
    read = watched.memory.load("x", torch.tensor(2), None)
    watched.memory.store("x", torch.tensor(2), torch.tensor(9.0), None, False)
    assert read.item() == 2.0


@pytest.mark.parametrize("at", [-1, 4])
def test_an_address_beside_the_buffer_is_seen_unless_it_is_masked(at: int) -> None:
    watched = Watched(x=torch.arange(6.0)[:4])
    watched.memory.load("x", torch.tensor([0, at]), torch.tensor([True, False]))
    assert watched.said == []
    watched.memory.load("x", torch.tensor([0, at]), torch.tensor([False, True]))
    assert watched.said == [(Kind.OUT_OF_BOUNDS, "x")]


def test_all_memory_around_an_input_may_be_reached() -> None:
    watched = Watched(set(), x=torch.arange(6.0)[1:4])
    assert watched.memory.load("x", torch.tensor([-1, 4]), None).tolist() == [0, 5]
    watched.memory.load("x", torch.tensor([5]), None)
    assert watched.said == [(Kind.OUT_OF_BOUNDS, "x")]


def test_what_is_read_before_it_is_written_is_seen() -> None:
    watched = Watched(x=torch.empty(4))
    watched.memory.begin({"x"}, set())
    watched.memory.store("x", torch.tensor([0, 1]), torch.ones(2), None, False)
    watched.memory.load("x", torch.tensor([1]), None)
    assert watched.said == []
    watched.memory.load("x", torch.tensor([2]), None)
    watched.memory.end({"x"}, set())
    assert watched.said == [(Kind.POISON, "x"), (Kind.POISON, "x")]


def test_a_buffer_that_is_read_after_another_one_got_its_memory_is_seen() -> None:
    memory = torch.empty(4)
    first, second = Watched(x=memory), Watched(y=memory)
    for watched, name in ((first, "x"), (second, "y")):
        watched.memory.begin({name}, set())
        watched.memory.store(name, ALL, torch.ones(4), None, False)
        watched.memory.end({name}, set())
    second.memory.load("y", ALL, None)
    assert first.said == second.said == []
    first.memory.load("x", ALL, None)
    assert first.said == [(Kind.POISON, "x")]


def test_memory_taken_over_in_place_is_read_until_it_is_written() -> None:
    memory = torch.empty(4)
    before = Watched(x=memory)
    before.memory.begin({"x"}, set())
    before.memory.store("x", ALL, torch.ones(4), None, False)
    watched = Watched(x=memory, y=memory)
    watched.memory.begin({"y"}, {"y"})
    watched.memory.load("x", ALL, None)
    watched.memory.store("y", ALL, torch.zeros(4), None, False)
    watched.memory.end({"y"}, set())
    assert watched.said == []


def test_memory_that_is_freed_and_given_out_again_is_nobodys() -> None:
    for _ in range(3):
        watched = Watched(x=torch.empty(4))
        watched.memory.begin({"x"}, set())
    assert len(OWNERS._shadows) == 1


def lanes(*outer: int) -> Lanes:
    return Lanes(torch.tensor(outer), None)


def test_an_iteration_may_touch_again_what_it_touched() -> None:
    touched = Touched(4)
    assert not touched.read(ALL, lanes(0, 1, 2, 3)).any()
    assert not touched.write(ALL, lanes(0, 1, 2, 3), False).any()
    assert not touched.read(ALL, lanes(0, 1, 2, 3)).any()


def test_what_another_iteration_wrote_or_read_is_seen() -> None:
    touched = Touched(4)
    touched.write(ALL, lanes(0, 1, 2, 3), False)
    assert touched.read(ALL, lanes(0, 2, 1, 3)).tolist() == [False, True, True, False]
    touched = Touched(4)
    touched.read(torch.tensor([0, 0, 1]), lanes(0, 1, 1))
    assert touched.write(torch.tensor([0, 1]), lanes(0, 1), False).tolist() == [True, False]


def test_iterations_may_add_to_one_element_and_not_to_what_another_one_set() -> None:
    touched = Touched(1)
    here = torch.tensor([0])
    assert not touched.write(here, lanes(0), True).any()
    assert not touched.write(here, lanes(1), True).any()
    touched.write(here, lanes(1), False)
    assert touched.write(here, lanes(2), True).all()


def test_inner_iterations_are_told_apart_where_both_have_them() -> None:
    touched, zero = Touched(2), torch.zeros(2, dtype=torch.int64)
    touched.write(torch.tensor([0, 1]), Lanes(zero, torch.tensor([0, 1])), False)
    assert not touched.read(torch.tensor([1, 0]), Lanes(zero, None)).any()
    assert touched.read(torch.tensor([1, 0]), Lanes(zero, torch.tensor([0, 1]))).all()


def test_the_place_of_an_extreme_is_the_least_of_those_given() -> None:
    value = torch.tensor([[1.0, 3.0, 3.0, 2.0]])
    places = torch.tensor([[0, 2, 1, 3]])
    assert reduce("argmax", [value], torch.int64).item() == 1
    assert reduce("argmax", [value, places], torch.int64).item() == 1
    best, place = reduce("argmin_with_value", [value, places], torch.int64)
    assert (best.item(), place.item()) == (1.0, 0)
    nan = torch.tensor([[1.0, torch.nan, 3.0]])
    assert reduce("argmax", [nan, torch.tensor([[2, 1, 0]])], torch.int64).item() == 1


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_scans_are_in_order(length: int) -> None:
    x = torch.arange(1.0, length + 1).expand(2, length)
    ((got),) = scan(lambda a, b: (a[0] + b[0],), [x])
    assert torch.equal(got, x.cumsum(1))


@pytest.mark.parametrize("right", [False, True])
def test_searches_agree_with_torch(right: bool) -> None:
    boundaries = torch.tensor([0.0, 1.0, 1.0, 2.5])
    values = torch.tensor([-1.0, 0.0, 1.0, 2.0, 2.5, 9.0, torch.nan])
    got = search(values, 4, lambda i: boundaries[i], right)
    assert torch.equal(got, torch.bucketize(values, boundaries, right=right))
