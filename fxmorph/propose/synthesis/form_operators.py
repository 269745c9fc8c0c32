"""The operators that expressions are made of: how each is written, and what shape and kind it gives.

Shapes are tuples of words: ``...`` first stands for any dimensions, equal words are equal sizes.  A form is
typed only where that holds for all sizes, so that a rule found at a few sizes is a claim about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: ``f``: of the arguments' own dtype; ``b``: bool.
Kind = str
Shape = tuple[str, ...]
Typing = Callable[[Sequence[Shape]], Shape | None]


@dataclass(frozen=True)
class Form:
    """One way to call an operator.

    ``text`` has ``{0}``, ``{1}`` … for the operands; ``kinds`` are theirs, ``gives`` that of the result;
    ``shape`` is the result's, or None where the operands do not fit.  ``swaps``: operands may be exchanged.
    """

    operator: str
    text: str
    kinds: tuple[Kind, ...]
    gives: Kind
    shape: Typing
    swaps: bool = False


def _explicit(shape: Shape) -> int:
    """How many dimensions are named."""
    return len(shape) - (shape[:1] == ("...",))


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The shape of an elementwise result; None where it depends on more than the words say."""
    out = shapes[0]
    for other in shapes[1:]:
        if other == out:
            continue
        long, short = (out, other) if _explicit(out) >= _explicit(other) else (other, out)
        if _explicit(long) != _explicit(short) and short[:1] == ("...",):
            return None
        if _explicit(long) == _explicit(short) and long[:1] != short[:1]:
            long, short = (long, short) if long[:1] == ("...",) else (short, long)
        n = _explicit(short)
        tail = []
        for a, b in zip(long[len(long) - n :], short[len(short) - n :], strict=True):
            if a != b and "1" not in (a, b):
                return None
            tail.append(b if a == "1" else a)
        out = (*long[: len(long) - n], *tail)
    return out


def _keeps(dims: int) -> Typing:
    """The operand's shape, of at least so many named dimensions."""
    return lambda shapes: shapes[0] if _explicit(shapes[0]) >= dims else None


def _replaced(dim: int, word: Callable[[str], str | None]) -> Typing:
    """The operand's shape with another word, or none, at ``dim``, which counts from the end."""

    def shape(shapes: Sequence[Shape]) -> Shape | None:
        (s,) = shapes
        if _explicit(s) < -dim:
            return None
        i = len(s) + dim
        new = word(s[i])
        return (*s[:i], *(() if new is None else (new,)), *s[i + 1 :])

    return shape


def _swapped(shapes: Sequence[Shape]) -> Shape | None:
    (s,) = shapes
    return (*s[:-2], s[-1], s[-2]) if _explicit(s) >= 2 else None


def _joined(dim: int) -> Typing:
    def shape(shapes: Sequence[Shape]) -> Shape | None:
        a, b = shapes
        if _explicit(a) < -dim or len(a) != len(b):
            return None
        i = len(a) + dim
        if (*a[:i], *a[i + 1 :]) != (*b[:i], *b[i + 1 :]):
            return None
        return (*a[:i], "(" + "+".join(sorted((a[i], b[i]))) + ")", *a[i + 1 :])

    return shape


def _with_one(dim: int) -> Typing:
    """The operand's shape with a new dimension of size 1 at ``dim`` of the result."""

    def shape(shapes: Sequence[Shape]) -> Shape | None:
        (s,) = shapes
        i = len(s) + dim + 1
        return (*s[:i], "1", *s[i:]) if _explicit(s) >= -dim - 1 else None

    return shape


def _product(shapes: Sequence[Shape]) -> Shape | None:
    a, b = shapes
    if _explicit(a) < 2 or _explicit(b) < 2 or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    return (*a[:-1], b[-1])


def _elementwise(operator: str, *texts: str, kinds: str = "f", gives: str = "f", swaps: bool = False) -> list[Form]:
    return [Form(operator, t, tuple(kinds), gives, broadcast, swaps) for t in texts]


def _moving(operator: str, text: str, shape: Typing, kinds: str = "f") -> list[Form]:
    """A form for the arguments' dtype and one for bool."""
    return [Form(operator, text, tuple(k * len(kinds)), k, shape) for k in ("f", "b")]


def _reducing(operator: str, *texts: tuple[str, Typing]) -> list[Form]:
    return [Form(operator, text, ("f",), "f", shape) for text, shape in texts]


_LAST, _SECOND = -1, -2


def _rest(word: str) -> str:
    return f"({word}-1)"


def _reduced(name: str, keepdim: bool = True) -> list[Form]:
    forms = [(f"torch.{name}({{0}}, {d})", _replaced(d, lambda _: None)) for d in (_LAST, _SECOND)]
    if keepdim:
        forms.append((f"torch.{name}({{0}}, -1, keepdim=True)", _replaced(_LAST, lambda _: "1")))
    return _reducing(name, *forms)


_UNARY = "neg abs relu sign square sqrt exp reciprocal".split()

#: Elementwise operators on numbers of one operand; a rule that holds of one by its kind holds of all of them.
FORMS: tuple[Form, ...] = (
    *(form for name in _UNARY for form in _elementwise(name, f"torch.{name}({{0}})")),
    *_elementwise("add", "({0} + {1})", kinds="ff", swaps=True),
    *_elementwise("add", "({0} + 1)"),
    *_elementwise("sub", "({0} - {1})", kinds="ff"),
    *_elementwise("sub", "(1 - {0})"),
    *_elementwise("mul", "({0} * {1})", kinds="ff", swaps=True),
    *_elementwise("mul", "({0} * {1})", kinds="fb"),
    *_elementwise("mul", "({0} * 2)"),
    *_elementwise("div", "({0} / {1})", kinds="ff"),
    *_elementwise("div", "({0} / 2)"),
    *_elementwise("maximum", "torch.maximum({0}, {1})", kinds="ff", swaps=True),
    *_elementwise("minimum", "torch.minimum({0}, {1})", kinds="ff", swaps=True),
    *_elementwise("lt", "({0} < {1})", kinds="ff", gives="b"),
    *_elementwise("lt", "({0} < 0)", gives="b"),
    *_elementwise("where", "torch.where({0}, {1}, {2})", kinds="bff"),
    *_elementwise("where", "torch.where({0}, {1}, 0)", kinds="bf"),
    *_elementwise("logical_not", "torch.logical_not({0})", kinds="b", gives="b"),
    *_elementwise("logical_and", "torch.logical_and({0}, {1})", kinds="bb", gives="b", swaps=True),
    *_moving("transpose", "torch.transpose({0}, -1, -2)", _swapped),
    *_moving("flip", "torch.flip({0}, (-1,))", _keeps(1)),
    *_moving("flip", "torch.flip({0}, (-2,))", _keeps(2)),
    *_moving("roll", "torch.roll({0}, 1, -1)", _keeps(1)),
    *_moving("roll", "torch.roll({0}, 1, -2)", _keeps(2)),
    *_moving("cat", "torch.cat(({0}, {1}), -1)", _joined(_LAST), kinds="ff"),
    *_moving("cat", "torch.cat(({0}, {1}), -2)", _joined(_SECOND), kinds="ff"),
    *_moving("slice", "{0}[..., 1:]", _replaced(_LAST, _rest)),
    *_moving("slice", "{0}[..., :-1]", _replaced(_LAST, _rest)),
    *_moving("slice", "{0}[..., 1:, :]", _replaced(_SECOND, _rest)),
    *_moving("unsqueeze", "torch.unsqueeze({0}, -1)", _with_one(_LAST)),
    *_moving("unsqueeze", "torch.unsqueeze({0}, -2)", _with_one(_SECOND)),
    *_reduced("sum"),
    *_reduced("mean"),
    *_reduced("amax"),
    *_reduced("amin", keepdim=False),
    *_reducing("cumsum", *((f"torch.cumsum({{0}}, {d})", _keeps(-d)) for d in (_LAST, _SECOND))),
    Form("matmul", "torch.matmul({0}, {1})", ("f", "f"), "f", _product),
)

#: Every operator's name, in the order of the table.
OPERATORS: tuple[str, ...] = tuple(dict.fromkeys(f.operator for f in FORMS))
LAYOUT = frozenset("transpose flip roll cat slice unsqueeze".split())
REDUCTION = frozenset("sum mean amax amin cumsum matmul".split())
ELEMENTWISE = frozenset(OPERATORS) - LAYOUT - REDUCTION


def chosen_operators(text: str) -> tuple[str, ...]:
    """The operators of a comma-separated list; all where it is empty.  Raises ``ValueError`` for another name."""
    names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        raise ValueError(f"{unknown[0]!r}: not one of {', '.join(OPERATORS)}")
    return names or OPERATORS
