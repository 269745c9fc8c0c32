"""Spellings of the key's layout in attention: how heads are split and keys transposed."""

from fxmorph.model import FLOATS, Level
from fxmorph.rules import rule

KEEPS = ("dtype", "stride", "alias", "mutation", "gradient", "raises")


@rule(args={"x": "b t h d"}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS, targets=("ugo", "fuse_attention"))
class layout_keys_in_one_permute:
    """Folds the head split and the transposition of keys into one permutation.

    Why equivalent: permute(0, 2, 1, 3) and then swapping the last two dims is permute(0, 2, 3, 1).
    Provokes: The attention patterns expect two permutations of the key: one is a near miss.
    """

    def before(x): return x.permute(0, 2, 1, 3).transpose(-2, -1)

    def after(x): return x.permute(0, 2, 3, 1)


@rule(args={"x": "b t h d"}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS, targets=("ugo", "fuse_attention"))
class layout_keys_transposed_twice:
    """Folds two transpositions of keys into one permutation.

    Why equivalent: transpose(1, 2) and then swapping the last two dims is permute(0, 2, 3, 1).
    Provokes: A near miss of the attention patterns, which expect the key's head split apart.
    """

    def before(x): return x.transpose(1, 2).transpose(-2, -1)

    def after(x): return x.permute(0, 2, 3, 1)


@rule(args={"x": "b t h d"}, dtypes=FLOATS, claim=Level.INDEX_EXACT, preserves=KEEPS, targets=("ugo", "fuse_attention"))
class layout_keys_by_two_permutes:
    """Folds the permuted key's second permutation into the first.

    Why equivalent: permute(0, 2, 1, 3) and then permute(0, 1, 3, 2) is permute(0, 2, 3, 1).
    Provokes: A near miss of the attention patterns that are spelled with permute.
    """

    def before(x): return x.permute(0, 2, 1, 3).permute(0, 1, 3, 2)

    def after(x): return x.permute(0, 2, 3, 1)


@rule(args={"q": "b h t d", "k": "b h s d"}, dtypes=FLOATS, claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("ugo", "fuse_attention"))
class layout_scores_transposed:
    """Computes attention scores as the transpose of keys times queries.

    Why equivalent: (q k^T)^T = k q^T: the same products summed over the head dimension.
    Provokes: The attention patterns want the query on the left.
    """

    def before(q, k): return q @ k.transpose(-2, -1)

    def after(q, k): return (k @ q.transpose(-2, -1)).transpose(-2, -1)
