"""Scalar expressions: what one element is computed from, and claims that two of them are equal.

An expression's operators are aten's, with the arguments that the program gave them, so it can be
evaluated by the very kernels that the program calls; a solver's model of them is elsewhere.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.torchapi.dispatch import aten_packet


@dataclass(frozen=True)
class Var:
    """Variable ``number`` of an obligation."""

    number: int
    dtype: torch.dtype


@dataclass(frozen=True)
class Const:
    """A constant.  ``bits`` are those of its value as float64, int64 or 0/1."""

    value: int | float | bool
    dtype: torch.dtype

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Const) and self.text == other.text

    @property
    def text(self) -> str:
        """Equal for equal bits only: NaN is itself, and -0.0 is not 0.0."""
        v = self.value
        return f"{dtype_name(self.dtype)}:{struct.pack('<d', v).hex() if isinstance(v, float) else int(v)}"


@dataclass(frozen=True)
class Slot:
    """Where operand ``number`` goes in an operator's arguments.

    ``scalar``: it was a 0-dim tensor of another dtype than the operator computes in, which some
    16-bit kernels treat differently from an element.
    """

    number: int
    scalar: bool = False


@dataclass(frozen=True)
class Op:
    """An aten operator of one element of each operand.

    ``name`` is the functional operator, or ``cast`` (to ``dtype``), or one over a row of operands
    (``sum``, ``mean``, ``prod``, ``amax``, ``amin``, ``any``, ``all``; ``dot``: the first half of the
    operands times the second half, summed).  ``arguments`` are the operator's by name, with
    :class:`Slot` for tensors; ``dtype`` is the result's.
    """

    name: str
    arguments: tuple[tuple[str, Any], ...]
    dtype: torch.dtype
    operands: tuple[Expression, ...]


Expression = Var | Const | Op
ROWS = frozenset("sum mean prod amax amin any all dot".split())


def walk(expression: Expression) -> Iterator[Expression]:
    """Every distinct node, operands before what uses them."""
    seen: set[int] = set()
    stack: list[tuple[Expression, bool]] = [(expression, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            if isinstance(node, Op):
                stack += [(o, False) for o in reversed(node.operands)]


def text_of(expression: Expression) -> str:
    """An S-expression, the same in every process; shared nodes are written once."""
    names: dict[int, str] = {}
    lines: list[str] = []
    for node in walk(expression):
        if isinstance(node, Var):
            names[id(node)] = f"v{node.number}"
        elif isinstance(node, Const):
            names[id(node)] = node.text
        else:
            given = " ".join(f"{k}={_argument_text(v)}" for k, v in node.arguments)
            inner = " ".join(names[id(o)] for o in node.operands)
            names[id(node)] = f"t{len(lines)}"
            lines.append(f"{names[id(node)]}:{dtype_name(node.dtype)} = ({node.name} [{given}] {inner})")
    return "\n".join([*lines, names[id(expression)]])


def _argument_text(value: Any) -> str:
    if isinstance(value, Slot):
        return f"${value.number}{'s' if value.scalar else ''}"
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, (list, tuple)):
        return f"({','.join(map(_argument_text, value))})"
    return dtype_name(value) if isinstance(value, torch.dtype) else repr(value)


@dataclass(frozen=True)
class Obligation:
    """The claim that ``left`` and ``right`` are equal for all values of the variables.

    ``variables`` are their dtypes.  ``inputs`` says of each whether it is an element of an argument
    of the rule; the others stand for values that both sides compute alike (*cut*), so that a
    counterexample in them need not be reachable.
    """

    left: Expression
    right: Expression
    variables: tuple[torch.dtype, ...]
    inputs: tuple[bool, ...]

    @property
    def text(self) -> str:
        kinds = " ".join(dtype_name(d) for d in self.variables)
        return f"variables {kinds}\nleft\n{text_of(self.left)}\nright\n{text_of(self.right)}"

    @property
    def hash(self) -> str:
        """32 hex digits; variables are numbered by first occurrence, so that equal claims are equal."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:32]

    @property
    def dtypes(self) -> set[torch.dtype]:
        """All dtypes that occur."""
        nodes = [*walk(self.left), *walk(self.right)]
        return {n.dtype for n in nodes}


def apply_operator(node: Op, operands: list[torch.Tensor]) -> torch.Tensor:
    """One operator on 1-D tensors of operands."""
    if node.name == "cast":
        return operands[0].to(node.dtype)
    if node.name == "dot":
        half = len(operands) // 2
        left, right = torch.stack(operands[:half]), torch.stack(operands[half:])
        return (left * right).sum(0).to(node.dtype)
    packet = aten_packet(node.name)
    if packet is None:
        raise NotModelled(node.name)
    if node.name in ROWS:
        out = torch.stack(operands)
        return (packet(out) if out.ndim == 0 else packet(out, 0)).to(node.dtype)
    return packet(**{k: _filled(v, operands) for k, v in node.arguments}).to(node.dtype)


def _filled(value: Any, operands: list[torch.Tensor]) -> Any:
    if isinstance(value, Slot):
        if value.scalar:
            raise NotModelled("a 0-dim operand of another dtype")
        return operands[value.number]
    return type(value)(_filled(v, operands) for v in value) if isinstance(value, (list, tuple)) else value
