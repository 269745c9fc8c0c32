"""A program while it is drawn: its values, the memory they lie in, its inputs, its lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from fxmorph.programs.generator.dice import Dice
from fxmorph.programs.generator.promotion import PART, sort_of
from fxmorph.programs.generator.shapes import MOST, Shape
from fxmorph.programs.generator.spans import BITS, NoFit, Span, fitted
from fxmorph.programs.generator.strided import Layout, contiguous

MOST_INPUTS = 6


@dataclass(eq=False)
class Storage:
    """Memory that several values may share; what is known of it holds for all of them."""

    span: Span
    dtype: str
    #: Values on it are part of autograd's graph.
    grad: bool = False
    #: An input that requires grad, which nothing may write to.
    leaf: bool = False
    #: Autograd keeps what it holds for the backward pass: a write would make that raise.
    saved: bool = False
    #: Drawn as random numbers of full precision, no two of them equal.
    distinct: bool = False
    given: bool = False
    written: bool = False
    #: An input whose interval something relies on: a second call must find values inside of it, so it is not written.
    kept: bool = False
    #: The inputs that what it holds was computed from.
    sources: frozenset[Storage] = frozenset()


@dataclass(frozen=True)
class Value:
    """A tensor of the program."""

    name: str
    dtype: str
    layout: Layout
    storage: Storage
    #: One of several views that one call gives: autograd refuses writes to it.
    one_of_many: bool = False

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def rank(self) -> int:
        return len(self.layout.shape)

    @property
    def numel(self) -> int:
        return prod(self.layout.shape)

    @property
    def grad(self) -> bool:
        return self.storage.grad

    @property
    def bits(self) -> bool:
        """Whether it holds bits of values of another dtype."""
        own = self.storage.dtype
        kin = self.dtype in (own, PART.get(own)) or PART.get(self.dtype) == own
        return not kin or self.storage.span.lo == BITS.lo

    @property
    def span(self) -> Span:
        return BITS._replace(rounded=self.storage.span.rounded) if self.bits else self.storage.span

    @property
    def exact(self) -> bool:
        """Whether a decision about its values cannot be moved by rounding."""
        return not self.span.rounded

    @property
    def distinct(self) -> bool:
        return self.storage.distinct and not self.layout.overlap and not self.bits


@dataclass(frozen=True)
class Mood:
    """What one program leans to."""

    #: The dtype of most inputs.
    dtype: str
    #: Floats that are asked for are small whole numbers, so that results are exact.
    whole: bool
    #: Float inputs require grad.
    grad: bool
    #: The share of inputs with a layout of their own.
    layouts: float
    #: The share of inputs of another dtype.
    mixed: float


@dataclass
class Draft:
    """What was drawn so far."""

    dice: Dice
    mood: Mood
    values: list[Value] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    #: Lines of ``make_inputs`` before its list, and the expressions of the list by name of the input.
    prepared: list[str] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)
    #: Names of what something read after it was last written.
    read: set[str] = field(default_factory=set)
    #: Names of rows that were drawn.
    rows: list[str] = field(default_factory=list)

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo what was drawn inside where it raises :class:`NoFit`, or an interval grows without end."""
        parts: list[list[Any]] = [self.values, self.lines, self.prepared, self.rows]
        lengths = [len(part) for part in parts]
        given, read = dict(self.given), set(self.read)
        storages = {id(v.storage): (v.storage, dict(vars(v.storage))) for v in self.values}
        try:
            yield
        except (NoFit, OverflowError) as error:
            for part, length in zip(parts, lengths, strict=True):
                del part[length:]
            self.given, self.read = given, read
            for storage, state in storages.values():
                vars(storage).update(state)
            raise NoFit(str(error)) from None

    # -- operands --

    def existing(self, fits: Callable[[Value], bool]) -> Value | None:
        """A value that fits, or None: results rather than inputs, unread ones and late ones rather than others."""
        found = [v for v in self.values if fits(v)]
        for share, likes in ((0.65, self._is_made), (0.5, self._is_unread)):
            liked = [v for v in found if likes(v)]
            if liked and self.dice.chance(share):
                found = liked
        return found[max(self.dice.below(len(found)), self.dice.below(len(found)))] if found else None

    def _is_made(self, value: Value) -> bool:
        return value.name not in self.given

    def _is_unread(self, value: Value) -> bool:
        return self._is_made(value) and value.name not in self.read

    def take(
        self, fits: Callable[[Value], bool], make: Callable[[], Value] | None = None, reuse: float = 0.85
    ) -> Value:
        """A value that fits, or one made for it; raises :class:`NoFit` where there is neither."""
        crowded = len(self.given) >= MOST_INPUTS
        if crowded or make is None or self.dice.chance(reuse):
            found = self.existing(fits)
            if found is not None:
                return found
        if make is None or crowded:
            raise NoFit("no such value")
        return make()

    # -- results --

    def emit(
        self,
        text: str,
        shape: Shape,
        dtype: str,
        span: Span,
        operands: Sequence[Value],
        dense: bool | None = None,
        saves: bool = True,
        copied: bool = False,
    ) -> Value:
        """A line that makes a tensor of its own.

        ``dense``: its strides are those of a contiguous tensor; None: they are if those of all operands are.
        ``saves``: autograd keeps operands or the result.  ``copied``: values of operands and nothing else.
        """
        if prod(shape) > 2 * MOST:
            raise NoFit("too many elements")
        storage = Storage(span if copied else fitted(span, dtype), dtype)
        self._follow(storage, operands, dtype, saves)
        known = all(o.layout.in_order for o in operands) if dense is None else dense
        layout = contiguous(shape) if known else Layout(shape, None)
        return self._named(text, Value("", dtype, layout, storage), operands)

    def alias(
        self, text: str, base: Value, layout: Layout, dtype: str | None = None, one_of_many: bool = False
    ) -> Value:
        """A line that makes a view."""
        made = Value("", dtype or base.dtype, layout, base.storage, base.one_of_many or one_of_many)
        return self._named(text, made, [base])

    def several(self, text: str, made: Sequence[Value], operands: Sequence[Value]) -> list[Value]:
        """A line that makes several tensors at once."""
        named = [self._listed(value) for value in made]
        if self.mood.grad:
            # Autograd refuses views of a call with several results once their base was written.
            for value in named:
                value.storage.saved |= value.one_of_many
        self.lines.append(f"{', '.join(v.name for v in named)}{',' if len(named) == 1 else ''} = {text}")
        self._note_read(operands)
        return named

    def tensor(self, shape: Shape, dtype: str, span: Span, operands: Sequence[Value], saves: bool = True) -> Value:
        """A result for :meth:`several`, without a name yet; its strides are not known."""
        storage = Storage(fitted(span, dtype), dtype)
        self._follow(storage, operands, dtype, saves)
        # Indices beside values are kept for the backward pass too.
        storage.saved |= saves and any(o.grad for o in operands)
        return Value("", dtype, Layout(shape, None), storage)

    def _named(self, text: str, value: Value, operands: Sequence[Value]) -> Value:
        named = self._listed(value)
        self.lines.append(f"{named.name} = {text}")
        self._note_read(operands)
        return named

    def _listed(self, value: Value) -> Value:
        named = replace(value, name=f"t{sum(v.name.startswith('t') for v in self.values)}")
        self.values.append(named)
        return named

    def _note_read(self, operands: Sequence[Value]) -> None:
        self.read.update(o.name for o in operands)

    def beside(self, value: Value) -> None:
        """Note that a call reads a value that stands among its arguments as text; autograd may keep that."""
        self.read.add(value.name)
        value.storage.saved |= self.mood.grad

    @staticmethod
    def _follow(storage: Storage, operands: Sequence[Value], dtype: str, saves: bool) -> None:
        """Note where what a storage holds comes from, and what autograd makes of that."""
        for operand in operands:
            given = {operand.storage} if operand.storage.given else set()
            storage.sources |= operand.storage.sources | given
        if sort_of(dtype) < 2 or not any(o.grad for o in operands):
            return
        storage.grad = True
        if saves:
            for kept in (storage, *(o.storage for o in operands)):
                kept.saved = True

    # -- writes --

    def writable(self, value: Value) -> bool:
        """Whether the program may write to it, as eager and autograd see it."""
        storage = value.storage
        kept = storage.kept or storage.leaf or storage.saved or (self.mood.grad and value.one_of_many)
        return not (value.layout.overlap or kept or value.bits)

    def rely(self, value: Value) -> bool:
        """Count on the value's interval, in a second call on the same inputs too; False where writes may leave it."""
        sources = value.storage.sources | ({value.storage} if value.storage.given else set())
        if any(s.written for s in sources):
            return False
        for source in sources:
            source.kept = True
        return True

    def may_take_grad(self, target: Value, operands: Sequence[Value]) -> bool:
        """Whether what is written may be part of autograd's graph: not into an input that is none."""
        return target.grad or not target.storage.given or not any(o.grad for o in operands)

    def apart(self, operand: Value, target: Value, same: bool = False) -> str:
        """The operand as text, copied where it shares memory with what is written.

        ``same``: unless it is what is written, and autograd does not keep it.
        """
        if operand.storage is not target.storage or (same and operand.name == target.name and not target.grad):
            return operand.name
        return f"{operand.name}.clone()"

    def write(
        self, text: str, target: Value, span: Span, operands: Sequence[Value] = (), saves: bool = True,
        named: float = 0.2,
    ) -> None:  # fmt: skip
        """A line that writes values of ``span`` into ``target``; with the chance ``named`` its result gets a name.

        Raises :class:`NoFit` where the target may not be written.
        """
        if not self.writable(target) or not self.may_take_grad(target, operands):
            raise NoFit("not writable")
        storage = target.storage
        storage.span = storage.span.join(fitted(span, target.dtype))
        storage.written, storage.distinct = True, False
        self._follow(storage, [target, *operands], target.dtype, saves)
        self._note_read(operands)
        if named and self.dice.chance(named):
            self._named(text, replace(target, name=""), ())
        else:
            self.lines.append(text)
            self.read.discard(target.name)
