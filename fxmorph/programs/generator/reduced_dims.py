"""The dimensions that a reduction reduces, and how they are spelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from fxmorph.programs.generator.draft import Draft
from fxmorph.programs.generator.shapes import Shape, reduced
from fxmorph.programs.generator.spans import NoFit
from fxmorph.programs.generator.spelling import dim_text, dims_text


@dataclass(frozen=True)
class ReducedDims:
    """Dimensions to reduce, as text (nothing for all of them), and whether they are kept."""

    dims: tuple[int, ...]
    text: str
    keep: bool

    def of(self, shape: Shape) -> Shape:
        """What is left of a shape."""
        return reduced(shape, self.dims, self.keep)

    def count(self, shape: Shape) -> int:
        """How many elements become one."""
        return prod(shape[d] for d in self.dims)

    def named(self) -> list[str]:
        """The arguments under torch's own names."""
        return ([f"dim={self.text}"] if self.text else []) + (["keepdim=True"] if self.keep else [])

    def spelled(self, draft: Draft) -> list[str]:
        """The arguments by place, or by one of their names."""
        if not self.text or draft.dice.chance(0.3):
            return self.named()
        if draft.dice.chance(0.5):
            flag = [draft.dice.one_of(("True", "keepdim=True", "keepdims=True"))] if self.keep else []
            return [self.text, *flag]
        flag = [draft.dice.one_of(("keepdim=True", "keepdims=True"))] if self.keep else []
        return [f"{draft.dice.one_of(('dim', 'axis'))}={self.text}", *flag]


def draw_dims(draft: Draft, kinds: Sequence[str], rank: int) -> ReducedDims:
    """Dimensions of a value of that rank; ``kinds`` says how many may be drawn: "none" (all), "one", "many"."""
    kind = draft.dice.one_of(kinds)
    if kind == "none":
        return ReducedDims(tuple(range(rank)), "", False)
    if rank == 0:
        raise NoFit("no dimension")
    keep = draft.dice.chance(0.4)
    if kind == "one" or rank < 2:
        dim = draft.dice.below(rank)
        return ReducedDims((dim,), dim_text(draft, dim, rank), keep)
    dims = draft.dice.shuffled(range(rank))[: draft.dice.between(2, min(rank, 3))]
    return ReducedDims(tuple(dims), dims_text(draft, dims, rank), keep)
