"""Rules whose returned value is right and whose other promises are not: gradients, memory, strides.

WITNESS holds inputs; PROGRAM, where the rule must sit in a larger program to be seen, its text
with the node at which the rule is applied.
"""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "gradient"))
class wrong_gradient_at_zero:
    """relu has gradient 0 at 0, clamp(min=0) has 1."""

    def before(x): return torch.relu(x)
    def after(x): return x.clamp(min=0)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "gradient"))
class wrong_gradient_detached:
    """The value is the same and no gradient flows."""

    def before(x): return x * 2
    def after(x): return x.detach() * 2


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], claim=Level.BIT_EXACT,
      preserves=("dtype", "gradient"))
class wrong_gradient_of_maximum:
    """At a tie maximum gives each side half of the gradient, where gives all to one."""

    def before(x, y): return torch.maximum(x, y)
    def after(x, y): return torch.where(x >= y, x, y)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class wrong_write_into_the_input:
    """mul_ leaves its result in x, which the caller sees."""

    def before(x): return x * 2
    def after(x): return x.mul_(2)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation"))
class wrong_write_dropped:
    """The caller's x is no longer written."""

    def before(x): return x.mul_(2)
    def after(x): return x * 2


@rule(args={"x": "... n"}, where=["n >= 2"], claim=Level.INDEX_EXACT, preserves=("dtype", "alias", "mutation"))
class wrong_view_becomes_a_copy:
    """A write through the slice no longer reaches x."""

    def before(x): return x[..., 1:]
    def after(x): return x[..., 1:].clone()


@rule(args={"x": "..."}, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_copy_becomes_a_view:
    """A later write into the copy now reaches x."""

    def before(x): return x.clone()
    def after(x): return x.view(x.shape)


@rule(args={"x": "m n"}, where=["m > 1", "n > 1"], claim=Level.INDEX_EXACT, preserves=("dtype", "stride"))
class wrong_stride_promised:
    """contiguous() changes the strides of a transposed tensor."""

    def before(x): return x.mT.clone()
    def after(x): return x.mT.contiguous().clone(memory_format=torch.contiguous_format)


@rule(args={"x": "..."}, claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class wrong_output_alias:
    """The caller gets a view of its own input where it got a tensor of its own."""

    def before(x): return x.clone()
    def after(x): return x.view_as(x)


@rule(args={"x": "..."}, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation"), site="late")
class wrong_late_write:
    """Says that it leaves memory alone, and adds one to it."""

    def before(x): return x
    def after(x): return x.add_(1)


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


WITNESS = {
    "wrong_gradient_at_zero": lambda: {"x": leaf(1.0, 0.0, -1.0)},
    "wrong_gradient_detached": lambda: {"x": leaf(1.0, 2.0)},
    "wrong_gradient_of_maximum": lambda: {"x": leaf(1.0, 2.0), "y": leaf(1.0, 3.0)},
    "wrong_write_into_the_input": lambda: {"x": torch.tensor([1.0, 2.0])},
    "wrong_write_dropped": lambda: {"x": torch.tensor([1.0, 2.0])},
    "wrong_view_becomes_a_copy": lambda: {"x": torch.arange(4.0)},
    "wrong_copy_becomes_a_view": lambda: {"x": torch.arange(4.0)},
    "wrong_stride_promised": lambda: {"x": torch.arange(6.0).reshape(2, 3)},
    "wrong_output_alias": lambda: {"x": torch.arange(4.0)},
    "wrong_late_write": lambda: {"x": torch.arange(4.0)},
}
PROGRAM = {
    "wrong_view_becomes_a_copy": ("def fn(x):\n    a = x[..., 1:]\n    b = a.add_(1)\n    return (b,)\n", "a"),
    "wrong_copy_becomes_a_view": (
        "def fn(x):\n    a = x.clone()\n    b = a.add_(1)\n    c = x * b\n    return (c,)\n", "a",
    ),
    "wrong_late_write": ("def fn(x):\n    a = x.clone()\n    b = a * 2\n    c = a + b\n    return (c,)\n", "a>b"),
}  # fmt: skip
