"""Running scalar expressions in eager without being killed by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt.scalars import Const, Expression, Op, Slot, Var, apply_operator, walk

#: Dtypes whose truncated division of the least number by -1 ends the process (SIGFPE; torch 2.13 on x86).
TRAPPING = (torch.int32, torch.int64)


class Traps(NotModelled):
    """These values would end the process."""


#: Operators that raise for integer denominators of zero.
DIVISIONS = frozenset("div divide floor_divide remainder fmod".split())


def evaluate(
    expression: Expression,
    values: Sequence[torch.Tensor],
    *,
    scattered: bool = False,
    excused: list[torch.Tensor] | None = None,
) -> torch.Tensor:
    """The expression's value by aten's own kernels, for each element of the variables' tensors.

    Raises :class:`NotModelled` where an operator cannot be called on elements, :class:`Traps` where a kernel
    would end the process.  ``values``: of each variable, 1-D, alike long.  Returns a tensor of their shape.
    ``scattered``: every operand lies in memory with gaps, so that kernels take their scalar loops and not
    their vector ones.  ``excused``: elements that would raise or trap are divided by one
    instead, and a mask of them is added.
    """
    done: dict[int, torch.Tensor] = {}
    like = values[0] if values else torch.zeros(1)
    for node in walk(expression):
        if isinstance(node, Var):
            done[id(node)] = values[node.number]
        elif isinstance(node, Const):
            done[id(node)] = torch.full(like.shape, node.value, dtype=node.dtype, device=like.device)
        else:
            operands = [done[id(o)] for o in node.operands]
            if node.name in DIVISIONS and not node.dtype.is_floating_point:
                operands = _guarded(node, operands, excused)
            if scattered:
                operands = [_scattered(o) for o in operands]
            done[id(node)] = apply_operator(node, operands)
    return done[id(expression)]


def _scattered(t: torch.Tensor) -> torch.Tensor:
    room = torch.empty(len(t), 2, dtype=t.dtype, device=t.device)
    room[:, 0] = t
    return room[:, 0]


def _guarded(node: Op, operands: list[torch.Tensor], excused: list[torch.Tensor] | None) -> list[torch.Tensor]:
    given = dict(node.arguments)
    below = given.get("other")

    def operand(value: Any) -> Any:
        return operands[value.number] if isinstance(value, Slot) else value

    bad = torch.zeros(0, dtype=torch.bool)
    if node.name in ("div", "divide") and given.get("rounding_mode") == "trunc" and node.dtype in TRAPPING:
        least = operand(given["self"]) == torch.iinfo(node.dtype).min
        bad = torch.as_tensor(least & (operand(below) == -1))
        if excused is None and bool(bad.any()):
            raise Traps("the least integer divided by -1")
    if excused is None or not isinstance(below, Slot):
        return operands
    divisor = operands[below.number]
    bad = (divisor == 0) | bad if bad.numel() else divisor == 0
    excused.append(bad)
    return [torch.where(bad, torch.ones_like(o), o) if i == below.number else o for i, o in enumerate(operands)]


def bits_differ(left: torch.Tensor, right: torch.Tensor, modulo_zero_sign: bool = False) -> torch.Tensor:
    """Where two tensors of one shape and dtype differ in bits, all NaNs being one.  Returns bool, of their shape."""
    if not left.is_floating_point():
        return left != right
    same = (left == right) | (left.isnan() & right.isnan())
    if not modulo_zero_sign:
        same &= left.isnan() | (left.signbit() == right.signbit())
    return ~same
