"""Right rules about gradients and memory."""

import torch

from fxmorph.model import Level
from fxmorph.rules import rule


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype",))
class right_relu_as_clamp_without_gradient:
    """The values agree; the gradient at 0 does not, and is not promised."""

    def before(x): return torch.relu(x)
    def after(x): return x.clamp(min=0)


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "gradient"))
class right_gradient_of_doubling:
    """Both sides have gradient 2."""

    def before(x): return x * 2
    def after(x): return x + x


@rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "alias"))
class right_write_by_copy:
    """x ends as x * 2 both ways, and is what is returned."""

    def before(x): return x.mul_(2)
    def after(x): return x.copy_(x * 2)


@rule(args={"x": "... n"}, where=["n >= 2"], claim=Level.INDEX_EXACT, preserves=("dtype", "alias"))
class right_view_by_narrow:
    """The same view: later writes go to the same memory."""

    def before(x): return x[..., 1:]
    def after(x): return x.narrow(-1, 1, x.shape[-1] - 1)


@rule(args={"x": "..."}, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient", "alias"), site="late")
class right_late_write_back:
    """Adds nothing: the memory ends as it was."""

    def before(x): return x
    def after(x): return x.copy_(x.clone())


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


WITNESS = {
    "right_relu_as_clamp_without_gradient": lambda: {"x": leaf(1.0, 0.0, -1.0)},
    "right_gradient_of_doubling": lambda: {"x": leaf(1.0, 2.0)},
    "right_write_by_copy": lambda: {"x": torch.tensor([1.0, 2.0])},
    "right_view_by_narrow": lambda: {"x": torch.arange(4.0)},
    "right_late_write_back": lambda: {"x": torch.arange(4.0)},
}
PROGRAM = {
    "right_view_by_narrow": ("def fn(x):\n    a = x[..., 1:]\n    b = a.add_(1)\n    return (b,)\n", "a"),
    "right_late_write_back": ("def fn(x):\n    a = x.clone()\n    b = a * 2\n    c = a + b\n    return (c,)\n", "a>b"),
}
