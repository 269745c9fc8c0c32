"""Which rewrites of a recipe are needed at all."""

from __future__ import annotations

from collections.abc import Callable

from fxmorph.model import Recipe


def fewest_rewrites(recipe: Recipe, shows: Callable[[Recipe], bool]) -> Recipe:
    """The recipe without those rewrites that the finding does without: the last one first, at least one is left.

    Later rewrites may need earlier ones, never the reverse.
    """
    for rewrite in reversed(recipe.rewrites):
        smaller = Recipe(tuple(r for r in recipe.rewrites if r is not rewrite))
        if smaller and shows(smaller):
            recipe = smaller
    return recipe
