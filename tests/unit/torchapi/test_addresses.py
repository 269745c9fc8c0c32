"""Index expressions as numbers."""

from __future__ import annotations

import sympy
import torch
from torch.utils._sympy.functions import FloorDiv, Mod, ModularIndexing, PythonMod

from fxmorph.torchapi.addresses import addresses

ROW, COLUMN, SIZE = sympy.symbols("i j n", integer=True, nonnegative=True)


def test_addresses_come_in_the_order_of_the_loops() -> None:
    made = addresses(4 * ROW + COLUMN, {ROW: 2, COLUMN: 3}, {})
    assert made is not None and made.tolist() == [0, 1, 2, 4, 5, 6]
    other = addresses(4 * ROW + COLUMN, {COLUMN: 3, ROW: 2}, {})
    assert other is not None and other.tolist() == [0, 4, 1, 5, 2, 6]


def test_quotients_remainders_and_symbolic_sizes_are_numbers_too() -> None:
    loops = {ROW: 2 * SIZE}
    quotient, remainder = (addresses(e, loops, {SIZE: 3}) for e in (FloorDiv(ROW, 2), ModularIndexing(ROW, 1, SIZE)))
    assert quotient is not None and quotient.tolist() == [0, 0, 1, 1, 2, 2]
    assert remainder is not None and remainder.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_constant_is_the_same_in_each_iteration() -> None:
    made = addresses(sympy.Integer(7), {ROW: 3}, {})
    assert made is not None and torch.equal(made, torch.tensor([7, 7, 7]))


def test_loops_of_too_many_iterations_are_not_gone_through() -> None:
    assert addresses(ROW, {ROW: 1 << 40}, {}) is None


def test_remainders_are_those_of_generated_code() -> None:
    """``Mod`` is printed as C's, and whoever divides negative numbers has to ask for Python's."""
    negative = ROW - 3
    made = [addresses(e, {ROW: 4}, {}) for e in (Mod(negative, 2, evaluate=False), PythonMod(negative, 2))]
    assert [m.tolist() for m in made if m is not None] == [[-1, 0, -1, 0], [1, 0, 1, 0]]
