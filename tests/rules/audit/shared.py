"""Arguments that are the same tensor or overlap, and scratch work in place that is undone."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

NUMBERS = FLOATS + INTS
ANY = NUMBERS + ("bool",)
SAME = ["x.shape == y.shape"]
NG = ["not x.requires_grad", "not y.requires_grad"]


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=INTS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_subtract_in_place_and_undo:
    """Subtracts in place, keeps a copy, and adds back (integers)."""

    def before(x, y):
        return x - y

    def after(x, y):
        x.sub_(y)
        r = x.clone()
        x.add_(y)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG, "x.ndim >= 1"],
    dtypes=ANY,
    claim=Level.INDEX_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_swap_by_two_copies:
    """Swaps the arguments, concatenates, and swaps them back."""

    def before(x, y):
        return torch.cat([y, x])

    def after(x, y):
        one = x.clone()
        x.copy_(y.clone())
        y.copy_(one)
        r = torch.cat([x, y])
        two = x.clone()
        x.copy_(y.clone())
        y.copy_(two)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=INTS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_xor_swap:
    """Swaps by three exclusive ors and back."""

    def before(x, y):
        return torch.stack([y, x])

    def after(x, y):
        x.bitwise_xor_(y)
        y.bitwise_xor_(x)
        x.bitwise_xor_(y)
        r = torch.stack([x, y])
        x.bitwise_xor_(y)
        y.bitwise_xor_(x)
        x.bitwise_xor_(y)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=NUMBERS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_scale_other_in_place:
    """Doubles y in place for the sum and restores it."""

    def before(x, y):
        return x + y * 2

    def after(x, y):
        save = y.clone()
        y.mul_(2)
        r = x + y
        y.copy_(save)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=NUMBERS,
    claim=Level.EXACT_REAL,
    preserves=("dtype", "mutation"),
)
class shared_add_twice_in_place:
    """Adds y twice in place and restores x."""

    def before(x, y):
        return x + y + y

    def after(x, y):
        save = x.clone()
        x.add_(y).add_(y)
        r = x.clone()
        x.copy_(save)
        return r


@rule(
    args={"x": "... n", "y": "... n"},
    where=[*SAME, *NG, "x.numel > 0"],
    dtypes=FLOATS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_two_extrema_in_place:
    """Subtracts the largest and the smallest of y from x in place."""

    def before(x, y):
        return x - y.amax() - y.amin()

    def after(x, y):
        save = x.clone()
        x.sub_(y.amax())
        x.sub_(y.amin())
        r = x.clone()
        x.copy_(save)
        return r


@rule(
    args={"x": "n n", "y": "n n"},
    where=NG,
    dtypes=("float32", "float64"),
    claim=Level.EXACT_REAL,
    assumes=("finite",),
    preserves=("dtype", "mutation"),
)
class shared_add_identity_in_place:
    """Takes x @ y + x by adding one to the diagonal of y for a while."""

    def before(x, y):
        return x @ y + x

    def after(x, y):
        save = y.clone()
        y.diagonal().add_(1)
        r = x @ y
        y.copy_(save)
        return r


@rule(
    args={"x": "...", "y": "..."}, where=SAME, dtypes=("bool",), claim=Level.BIT_EXACT, preserves=("dtype", "mutation")
)
class shared_complement_in_place:
    """Complements y in place, takes the conjunction, and complements it back."""

    def before(x, y):
        return x & ~y

    def after(x, y):
        y.logical_not_()
        r = x & y
        y.logical_not_()
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=(*FLOATS, "int64", "int32"),
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_negate_other_in_place:
    """Negates y in place for the difference."""

    def before(x, y):
        return x - y

    def after(x, y):
        y.neg_()
        r = x + y
        y.neg_()
        return r


@rule(
    args={"x": "... n", "y": "... n"},
    where=[*SAME, *NG, "n >= 1"],
    dtypes=NUMBERS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_reverse_in_place:
    """Reverses x in place for the sum with y."""

    def before(x, y):
        return x.flip(-1) + y

    def after(x, y):
        x.copy_(x.flip(-1))
        r = x + y
        x.copy_(x.flip(-1))
        return r


@rule(args={"x": "n n", "y": "n n"}, where=NG, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class shared_tril_in_place:
    """Clears above the diagonal of x in place, adds y, and restores x."""

    def before(x, y):
        return x.tril() + y

    def after(x, y):
        save = x.clone()
        x.tril_()
        r = x + y
        x.copy_(save)
        return r


@rule(
    args={"x": "..."},
    site="value",
    where=["not x.requires_grad"],
    dtypes=INTS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_increment_and_undo:
    """Adds one in place, takes it off in a copy, and restores."""

    def after(x):
        x.add_(1)
        r = x - 1
        x.sub_(1)
        return r


@rule(
    args={"x": "m n"},
    where=["m == 2", "not x.requires_grad"],
    dtypes=ANY,
    claim=Level.INDEX_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_swap_rows_through_view:
    """Swaps two rows of a clone through a saved row that is a view."""

    def before(x):
        return x.flip(0)

    def after(x):
        out = x.clone()
        first = out[0]
        out[0] = out[1]
        out[1] = first
        return out


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=("float32", "float64"),
    claim=Level.EXACT_REAL,
    assumes=("finite",),
    preserves=("dtype", "mutation"),
)
class shared_addcmul_then_add:
    """Takes x + y * y + y by addcmul_ and add_."""

    def before(x, y):
        return x + y * y + y

    def after(x, y):
        save = x.clone()
        x.addcmul_(y, y)
        x.add_(y)
        r = x.clone()
        x.copy_(save)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=NUMBERS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_clear_other_while_reading:
    """Uses y as the buffer of the maximum and restores it before x is read again."""

    def before(x, y):
        return torch.stack([torch.maximum(x, y), x])

    def after(x, y):
        save = y.clone()
        y.copy_(torch.maximum(x, y))
        r = torch.stack([y, x])
        y.copy_(save)
        return r


@rule(
    args={"x": "n", "y": "n"},
    where=[*NG, "n >= 2"],
    dtypes=INTS,
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_prefix_of_overlapping:
    """Zeroes the first element of y for a product of sums and puts it back."""

    def before(x, y):
        return x.sum() * y[1:].sum()

    def after(x, y):
        head = y[:1].clone()
        y[:1].zero_()
        r = x.sum() * y.sum()
        y[:1].copy_(head)
        return r


@rule(
    args={"x": "...", "y": "..."},
    where=[*SAME, *NG],
    dtypes=("float32", "float64"),
    claim=Level.BIT_EXACT,
    preserves=("dtype", "mutation"),
)
class shared_restore_in_other_order:
    """Halves x in place, doubles y in place, and restores both from copies taken one after the other."""

    def before(x, y):
        return x * 0.5 - y * 2

    def after(x, y):
        a = x.clone()
        x.mul_(0.5)
        b = y.clone()
        y.mul_(2)
        r = x - y
        x.copy_(a)
        y.copy_(b)
        return r
