"""Equivalents of minimum, maximum, clamp, where, relu and the sigmoid family."""

import torch

from fxmorph.model import FLOATS, INTS, Level
from fxmorph.rules import rule

F = torch.nn.functional
NUMBERS = FLOATS + INTS
SIGNED = (*FLOATS, "int64", "int32", "int16", "int8")
ANY = (*NUMBERS, "bool")


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("iod", "clamp"))
class algebra_relu_as_clamp:
    """Takes relu by clamp(min=0).

    Why equivalent: Equal, NaN stays.
    Limits: The gradient at 0 is 1 instead of 0.
    """

    def before(x): return F.relu(x)

    def after(x): return x.clamp(min=0)


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "where"))
class algebra_relu_as_where:
    """Takes relu by a select that keeps NaN.

    Why equivalent: x <= 0 is false for NaN. The gradient at 0 is 0 as in relu.
    """

    def before(x): return F.relu(x)

    def after(x): return torch.where(x <= 0, torch.zeros_like(x), x)


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("kc", "maximum"))
class algebra_relu_as_maximum:
    """Takes relu by maximum with a 0-dim zero.

    Why equivalent: Equal, NaN stays.
    Limits: The gradient at 0 is one half.
    """

    def before(x): return F.relu(x)

    def after(x): return torch.maximum(x, torch.zeros((), dtype=x.dtype, device=x.device))


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation"),
      targets=("kc",))
class algebra_relu_as_half_sum:
    """Takes relu as half the sum of x and its absolute value.

    Why equivalent: Exact for finite x without overflow.
    """

    def before(x): return F.relu(x)

    def after(x): return (x + torch.abs(x)) * 0.5


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, assumes=("finite",), preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iot"))
class algebra_relu_as_masked:
    """Takes relu as x times its positive mask.

    Why equivalent: x * True is x, x * False is 0 for finite x.
    Provokes: A bool operand in a floating product.
    """

    def before(x): return F.relu(x)

    def after(x): return x * (x > 0)


@rule(args={"x": "..."}, dtypes=NUMBERS, claim=Level.BIT_EXACT, preserves=("dtype", "mutation", "gradient"),
      targets=("bam", "reinplace_inplaceable_ops"))
class algebra_relu_in_place:
    """Takes relu in place on a clone.

    Why equivalent: The clone is fresh memory; relu's backward keeps its result.
    """

    def before(x): return F.relu(x)

    def after(x): return x.clone().relu_()


@rule(args={"x": "..."}, where=["type(lo) in (int, float)", "type(hi) in (int, float)"],
      scalars={"lo": None, "hi": None}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("iod", "clamp"))
class algebra_clamp_as_min_max:
    """Clamps by maximum and then minimum with uniform tensors.

    Why equivalent: The definition of clamp, also where lo > hi.
    Provokes: Uniform constants instead of scalars.
    """

    def before(x, lo, hi): return torch.clamp(x, lo, hi)

    def after(x, lo, hi):
        return torch.minimum(torch.maximum(x, torch.full_like(x, lo)), torch.full_like(x, hi))


@rule(args={"x": "..."}, where=["type(lo) in (int, float)", "type(hi) in (int, float)", "lo <= hi"],
      scalars={"lo": None, "hi": None}, claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"),
      targets=("iod", "clamp"))
class algebra_clamp_in_two:
    """Clamps below, then above.

    Why equivalent: The definition of clamp.
    """

    def before(x, lo, hi): return torch.clamp(x, lo, hi)

    def after(x, lo, hi): return x.clamp(min=lo).clamp(max=hi)


@rule(args={"x": "...", "y": "..."}, dtypes=FLOATS, claim=Level.BIT_EXACT_MOD_ZERO_SIGN,
      preserves=("dtype", "mutation", "gradient"), targets=("kc", "minimum"))
class algebra_minimum_as_maximum:
    """Takes the minimum as minus the maximum of the negatives.

    Why equivalent: Negation reverses the order; ties share the gradient both ways.
    """

    def before(x, y): return torch.minimum(x, y)

    def after(x, y): return -torch.maximum(-x, -y)


@rule(args={"x": "...", "y": "..."}, dtypes=("float32", "float64", "int64", "int32"), claim=Level.EXACT_REAL,
      assumes=("no_nan",), preserves=("dtype", "mutation"), targets=("kc", "where"))
class algebra_maximum_as_where:
    """Takes the maximum by a select.

    Why equivalent: Equal without NaN.
    Limits: Ties give their gradient to one side.
    """

    def before(x, y): return torch.maximum(x, y)

    def after(x, y): return torch.where(x > y, x, y)


@rule(args={"x": "...", "y": "..."}, where=["x.shape == y.shape"], dtypes=NUMBERS,
      claim=Level.BIT_EXACT_MOD_ZERO_SIGN, preserves=("dtype", "mutation"), targets=("kc", "amax"))
class algebra_maximum_as_stack_amax:
    """Takes the maximum as amax over a stack of two.

    Why equivalent: The same two elements; both share the gradient of a tie.
    Provokes: A reduction over a cat.
    """

    def before(x, y): return torch.maximum(x, y)

    def after(x, y): return torch.stack([x, y]).amax(0)


@rule(args={"x": "...", "y": "...", "m": "..."}, where=["m.dtype == 'bool'", "x.dtype == y.dtype"], dtypes=ANY,
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "where"))
class algebra_where_inverted:
    """Selects under the complemented mask with swapped arms.

    Why equivalent: By definition.
    Provokes: bitwise_not of a mask feeding where.
    """

    def before(x, y, m): return torch.where(m, x, y)

    def after(x, y, m): return torch.where(~m, y, x)


@rule(args={"x": "...", "y": "...", "m": "..."}, where=["m.dtype == 'bool'", "x.dtype == y.dtype"], dtypes=ANY,
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("kc", "where"))
class algebra_where_twice:
    """Selects again from the selection under the same mask.

    Why equivalent: Where m holds the first select already gave x.
    """

    def before(x, y, m): return torch.where(m, x, y)

    def after(x, y, m): return torch.where(m, torch.where(m, x, y), y)


@rule(args={"x": "...", "y": "...", "m": "..."},
      where=["m.dtype == 'bool'", "x.dtype == y.dtype", "x.shape == y.shape", "m.shape == x.shape"], dtypes=ANY,
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation", "gradient"), targets=("bam", "kc"))
class algebra_where_into_clone:
    """Selects by copying the selection into a clone of y.

    Why equivalent: The copy_ writes every element with where's result; the read of the clone precedes its write.
    """

    def before(x, y, m): return torch.where(m, x, y)

    def after(x, y, m):
        kept = y.clone()
        kept.copy_(torch.where(m, x, kept))
        return kept


@rule(args={"x": "...", "y": "...", "m": "..."},
      where=["m.dtype == 'bool'", "x.dtype == y.dtype", "x.shape == y.shape", "m.shape == x.shape"], dtypes=ANY,
      mixed=True, claim=Level.INDEX_EXACT, preserves=("dtype", "mutation"), targets=("kc", "gather"))
class algebra_where_as_gather:
    """Selects by gathering from a stack of both arms with the mask as index.

    Why equivalent: Index 1 is x, index 0 is y.
    Provokes: A mask converted to an index of an indirect load.
    """

    def before(x, y, m): return torch.where(m, x, y)

    def after(x, y, m): return torch.stack([y, x]).gather(0, m.to(torch.int64).unsqueeze(0)).squeeze(0)


@rule(args={"x": "...", "m": "..."},
      where=["m.dtype == 'bool'", "x.floating", "m.shape == x.shape", "type(c) in (int, float)"],
      scalars={"c": None}, dtypes=(*FLOATS, "bool"), mixed=True, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "masked_fill"))
class algebra_where_scalar_as_masked_fill:
    """Fills under the complemented mask instead of selecting against a number.

    Why equivalent: The number rounds to the dtype both ways.
    """

    def before(x, m, c): return torch.where(m, x, c)

    def after(x, m, c): return x.masked_fill(~m, c)


@rule(args={"x": "...", "m": "..."},
      where=["m.dtype == 'bool'", "x.floating", "m.shape == x.shape", "type(c) in (int, float)"],
      scalars={"c": None}, dtypes=(*FLOATS, "bool"), mixed=True, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "masked_fill"))
class algebra_masked_fill_as_where:
    """Selects against a number instead of filling under a mask.

    Why equivalent: By definition.
    Provokes: Attention masks come in both spellings.
    """

    def before(x, m, c): return x.masked_fill(m, c)

    def after(x, m, c): return torch.where(m, torch.full((), c, dtype=x.dtype, device=x.device), x)


@rule(args={"x": "...", "m": "..."},
      where=["m.dtype == 'bool'", "x.floating", "m.shape == x.shape", "type(c) in (int, float)"],
      scalars={"c": None}, dtypes=(*FLOATS, "bool"), mixed=True, claim=Level.BIT_EXACT,
      preserves=("dtype", "mutation", "gradient"), targets=("bam", "reinplace_inplaceable_ops"))
class algebra_masked_fill_in_place:
    """Fills a clone in place.

    Why equivalent: The clone is fresh memory.
    """

    def before(x, m, c): return x.masked_fill(m, c)

    def after(x, m, c): return x.clone().masked_fill_(m, c)


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.EXACT_REAL, preserves=("dtype", "mutation"),
      targets=("kc", "iod", "sigmoid"))
class algebra_sigmoid_as_exp:
    """Takes the sigmoid as 1 / (1 + exp(-x)).

    Why equivalent: The definition.
    Limits: For very negative x its gradient is NaN.
    """

    def before(x): return torch.sigmoid(x)

    def after(x): return 1 / (1 + torch.exp(-x))


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iod", "sigmoid"))
class algebra_sigmoid_as_tanh:
    """Takes the sigmoid by tanh of half the argument.

    Why equivalent: An identity over the reals, without overflow.
    """

    def before(x): return torch.sigmoid(x)

    def after(x): return torch.tanh(x * 0.5) * 0.5 + 0.5


@rule(args={"x": "..."}, claim=Level.EXACT_REAL, preserves=("dtype", "mutation", "gradient"),
      targets=("kc", "iod", "tanh"))
class algebra_tanh_as_sigmoid:
    """Takes tanh by the sigmoid of twice the argument.

    Why equivalent: An identity over the reals, without overflow to NaN.
    """

    def before(x): return torch.tanh(x)

    def after(x): return torch.sigmoid(x * 2) * 2 - 1


@rule(args={"x": "..."}, dtypes=("float32", "float64"), claim=Level.EXACT_REAL,
      preserves=("dtype", "mutation", "gradient"), targets=("iod", "log_sigmoid"))
class algebra_logsigmoid_as_softplus:
    """Takes logsigmoid as minus softplus of -x.

    Why equivalent: An identity over the reals (softplus is linear beyond 20).
    """

    def before(x): return F.logsigmoid(x)

    def after(x): return -F.softplus(-x)
