"""Windows that move along spatial dimensions, solved so that each has a place."""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.operands import operand
from fxmorph.programs.generator.shapes import Shape


def tuple_text(draft: Draft, numbers: list[int]) -> str:
    """The numbers as one where they are equal, else as a tuple."""
    return str(numbers[0]) if len(set(numbers)) == 1 and draft.dice.chance(0.6) else str(tuple(numbers))


@dataclass(frozen=True)
class Window:
    """How a window moves along the spatial dimensions."""

    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]

    def out(self, sizes: Shape, ceil: bool = False) -> Shape:
        """Places of the window; a last one that begins in the padding on the right does not count."""
        made = []
        for n, k, s, p, d in zip(sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True):
            room = n + 2 * p - d * (k - 1) - 1
            count = (-(-room // s) if ceil else room // s) + 1
            if ceil and (count - 1) * s >= n + p:
                count -= 1
            made.append(count)
        return tuple(made)


def window(draft: Draft, sizes: Shape, largest: int = 3, dilates: bool = True, half: bool = False) -> Window:
    """A window that fits at least once; its padding is at most half of it where ``half``."""
    kernel, stride, padding, dilation = [], [], [], []
    for n in sizes:
        p = draft.dice.one_of((0, 0, 1, 2))
        d = draft.dice.one_of((1, 1, 1, 2)) if dilates else 1
        k = draft.dice.between(1, largest)
        while k > 1 and n + 2 * p < d * (k - 1) + 1:
            k -= 1
        p = min(p, k // 2) if half else p
        while n + 2 * p < d * (k - 1) + 1 and k > 1:
            k -= 1
            p = min(p, k // 2) if half else p
        kernel.append(k)
        stride.append(draft.dice.one_of((1, 1, 2, 3)))
        padding.append(p)
        dilation.append(d if k > 1 else 1)
    return Window(kernel, stride, padding, dilation)


def _spatial(draft: Draft, dims: int, dtypes: tuple[str, ...], alone: bool = True) -> Value:
    """A value of batch, channels and ``dims`` more; without a batch now and then where ``alone``."""
    return operand(draft, dtypes, (dims + 1 if alone else dims + 2, dims + 2), 1)
