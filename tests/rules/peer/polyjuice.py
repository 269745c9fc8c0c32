"""The rewrite rules of PolyJuice, an e-graph based fuzzer of tensor compilers, restated as rules of ours.

Source: github.com/ChijinZ/PolyJuice-Fuzzer, commit f4e5b042fb7b661b2e1896a854702108d23460d4, file
equality_saturation_helper/rust_helper/src/rules.rs, function ``rules``: 22 entries.  Where two entries are the
two directions of one equation it stands here once, which leaves 18: ``matmul-trans``, which is false,
``geometry-of-concatenation``, which lacks a condition, and 16 that are right.  The geometry stands here
a second time with the condition it needs.  Their language has matrices and larger tensors in mind: the matrix rules
are given for two dimensions (with a vector for y, x y + x z = x (y + z) would be false under broadcasting).

EXPECTED says what is to become of each.
"""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

ANY = (*FLOATS, *INTS, "bool")
KEEPS = ("dtype", "mutation", "gradient")
SAME = ["x.shape == y.shape"]
DIMS = ["type(i) is int", "type(j) is int", "-x.ndim <= i < x.ndim", "-x.ndim <= j < x.ndim"]


def first_half(x, d):
    return x.split(x.shape[d] // 2, d)[0] if x.shape[d] else x


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@rule(args={"x": "...", "y": "...", "z": "..."}, where=["x.shape == y.shape == z.shape"], preserves=KEEPS)
class peer_addition_is_associative:
    """ewadd-is-associative-0 and -1."""

    def before(x, y, z): return x + (y + z)
    def after(x, y, z): return (x + y) + z


@rule(args={"x": "...", "y": "..."}, where=SAME, claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_addition_is_commutative:
    """ewadd-is-commutative."""

    def before(x, y): return x + y
    def after(x, y): return y + x


@rule(args={"x": "...", "y": "...", "z": "..."}, where=["x.shape == y.shape == z.shape"], preserves=KEEPS)
class peer_multiplication_is_associative:
    """ewmul-is-associative-0 and -1."""

    def before(x, y, z): return x * (y * z)
    def after(x, y, z): return (x * y) * z


@rule(args={"x": "...", "y": "..."}, where=SAME, claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_multiplication_is_commutative:
    """ewmul-is-commutative."""

    def before(x, y): return x * y
    def after(x, y): return y * x


@rule(args={"x": "...", "y": "...", "z": "..."}, where=["x.shape == y.shape == z.shape"], preserves=KEEPS)
class peer_multiplication_distributes:
    """ewmul-distributivity-0 and -1."""

    def before(x, y, z): return (x + y) * z
    def after(x, y, z): return x * z + y * z


@rule(args={"x": "m k", "y": "k n", "z": "n p"}, preserves=KEEPS)
class peer_matmul_is_associative:
    """matmul-is-associative-0."""

    def before(x, y, z): return x @ (y @ z)
    def after(x, y, z): return (x @ y) @ z


@rule(args={"x": "m k", "y": "k n", "z": "k n"}, preserves=KEEPS)
class peer_matmul_is_linear:
    """matmul-is-linear-0 and -1."""

    def before(x, y, z): return x @ y + x @ z
    def after(x, y, z): return x @ (y + z)


@rule(args={"x": "..."}, where=DIMS, scalars={"i": None, "j": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=(*KEEPS, "stride", "alias"))
class peer_transposed_twice:
    """trans-reduce."""

    def before(x, i, j): return x.transpose(i, j).transpose(i, j)
    def after(x, i, j): return x.view(x.shape)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, "x.ndim >= 2"], claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_sum_through_transposes:
    """add-trans."""

    def before(x, y): return x + y
    def after(x, y): return (x.transpose(0, 1) + y.transpose(0, 1)).transpose(0, 1)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, "x.ndim >= 2"], claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_product_through_transposes:
    """mul-trans."""

    def before(x, y): return x * y
    def after(x, y): return (x.transpose(0, 1) * y.transpose(0, 1)).transpose(0, 1)


@rule(args={"x": "m k", "y": "k n"}, preserves=KEEPS)
class peer_matmul_through_transposes:
    """matmul-trans, false: the transpose of x^T y^T is y x.  Few shapes but squares let it run at all."""

    def before(x, y): return x @ y
    def after(x, y): return (x.transpose(0, 1) @ y.transpose(0, 1)).transpose(0, 1)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, *DIMS], scalars={"i": None, "j": None}, claim=Level.BIT_EXACT,
      preserves=KEEPS)
class peer_transpose_of_sum:
    """trans-add."""

    def before(x, y, i, j): return (x + y).transpose(i, j)
    def after(x, y, i, j): return x.transpose(i, j) + y.transpose(i, j)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, *DIMS], scalars={"i": None, "j": None}, claim=Level.BIT_EXACT,
      preserves=KEEPS)
class peer_transpose_of_product:
    """trans-mul."""

    def before(x, y, i, j): return (x * y).transpose(i, j)
    def after(x, y, i, j): return x.transpose(i, j) * y.transpose(i, j)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, "x.ndim >= 1"], claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_half_of_a_doubled_sum:
    """concat-split-0."""

    def before(x, y): return x + y
    def after(x, y): return first_half(torch.cat([x + y, x + y], 0), 0)


@rule(args={"x": "...", "y": "..."}, where=[*SAME, "x.ndim >= 1"], claim=Level.BIT_EXACT, preserves=KEEPS)
class peer_half_of_a_doubled_product:
    """concat-split-1."""

    def before(x, y): return x * y
    def after(x, y): return first_half(torch.cat([x * y, x * y], 0), 0)


@rule(args={"x": "..."}, where=DIMS, scalars={"i": None, "j": None}, dtypes=ANY, claim=Level.INDEX_EXACT,
      preserves=KEEPS)
class peer_half_of_a_doubled_transpose:
    """concat-split-2."""

    def before(x, i, j): return x.transpose(i, j)
    def after(x, i, j): return first_half(torch.cat([x.transpose(i, j), x.transpose(i, j)], i), i)


@rule(args={"x": "m n", "y": "k n"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class peer_half_of_a_doubled_concatenation:
    """concat-split-3, along the first dimension."""

    def before(x, y): return torch.cat([x, y], 0)
    def after(x, y): return first_half(torch.cat([torch.cat([x, y], 0), torch.cat([x, y], 0)], 0), 0)


@rule(args={"x": "...", "y": "...", "z": "...", "w": "..."}, where=["type(i) is int", "type(j) is int"],
      scalars={"i": None, "j": None}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class peer_blocks_joined_either_way_without_a_condition:
    """geometry-of-concatenation as published: along one dimension twice, x y z w becomes x z y w."""

    def before(x, y, z, w, i, j): return torch.cat([torch.cat([x, y], i), torch.cat([z, w], i)], j)
    def after(x, y, z, w, i, j): return torch.cat([torch.cat([x, z], j), torch.cat([y, w], j)], i)


@rule(args={"x": "a c", "y": "a d", "z": "b c", "w": "b d"}, dtypes=ANY, claim=Level.INDEX_EXACT, preserves=KEEPS)
class peer_blocks_joined_either_way:
    """geometry-of-concatenation where the dimensions differ and the blocks fit both in rows and in columns."""

    def before(x, y, z, w): return torch.cat([torch.cat([x, y], 1), torch.cat([z, w], 1)], 0)
    def after(x, y, z, w): return torch.cat([torch.cat([x, z], 0), torch.cat([y, w], 0)], 1)


def two(*shape):
    return {"x": normal(*shape), "y": normal(*shape, seed=1)}


def three(*shape):
    return {**two(*shape), "z": normal(*shape, seed=2)}


WITNESS = {
    "peer_addition_is_associative": lambda: three(2, 3),
    "peer_addition_is_commutative": lambda: two(2, 3),
    "peer_multiplication_is_associative": lambda: three(2, 3),
    "peer_multiplication_is_commutative": lambda: two(2, 3),
    "peer_multiplication_distributes": lambda: three(2, 3),
    "peer_matmul_is_associative": lambda: {"x": normal(2, 3), "y": normal(3, 4), "z": normal(4, 5)},
    "peer_matmul_is_linear": lambda: {"x": normal(2, 3), "y": normal(3, 4), "z": normal(3, 4, seed=1)},
    "peer_transposed_twice": lambda: {"x": normal(2, 3, 4), "i": 0, "j": -1},
    "peer_sum_through_transposes": lambda: two(2, 3, 4),
    "peer_product_through_transposes": lambda: two(2, 3, 4),
    "peer_matmul_through_transposes": lambda: two(2, 2),
    "peer_transpose_of_sum": lambda: {**two(2, 3, 4), "i": 0, "j": -1},
    "peer_transpose_of_product": lambda: {**two(2, 3, 4), "i": 1, "j": 1},
    "peer_half_of_a_doubled_sum": lambda: two(3, 2),
    "peer_half_of_a_doubled_product": lambda: two(3, 2),
    "peer_half_of_a_doubled_transpose": lambda: {"x": normal(2, 3, 4), "i": 0, "j": -1},
    "peer_half_of_a_doubled_concatenation": lambda: {"x": normal(2, 3), "y": normal(1, 3)},
    "peer_blocks_joined_either_way_without_a_condition": lambda: {**three(2, 2), "w": normal(2, 2), "i": 0, "j": 0},
    "peer_blocks_joined_either_way": lambda: {
        "x": normal(2, 3), "y": normal(2, 1), "z": normal(1, 3), "w": normal(1, 1)
    },
}  # fmt: skip
WRONG = ("peer_matmul_through_transposes", "peer_blocks_joined_either_way_without_a_condition")
EXPECTED = {name: "refuted" if name in WRONG else "proved" for name in WITNESS}
