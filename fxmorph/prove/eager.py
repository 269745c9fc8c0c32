"""Running scalar expressions in eager without being killed by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fxmorph.prove.expressions import Const, Expression, Op, Slot, Var, apply_operator, walk
from fxmorph.prove.shadowing import NotModelled

#: Dtypes whose truncated division of the least number by -1 ends the process (SIGFPE; torch 2.13 on x86).
TRAPPING = (torch.int32, torch.int64)


class Traps(NotModelled):
    """These values would end the process."""


def evaluate(expression: Expression, values: Sequence[torch.Tensor]) -> torch.Tensor:
    """As ``expressions.evaluate``; raises :class:`Traps` where a kernel would end the process.

    ``values``: of each variable, 1-D, alike long.  Returns a tensor of their shape.
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
            if node.name in ("div", "divide"):
                _guard(node, operands)
            done[id(node)] = apply_operator(node, operands)
    return done[id(expression)]


def _guard(node: Op, operands: list[torch.Tensor]) -> None:
    given = dict(node.arguments)
    if given.get("rounding_mode") != "trunc" or node.dtype not in TRAPPING:
        return

    def operand(value: Any) -> Any:
        return operands[value.number] if isinstance(value, Slot) else value

    least = operand(given["self"]) == torch.iinfo(node.dtype).min
    minus = operand(given["other"]) == -1
    if bool(torch.as_tensor(least & minus).any()):
        raise Traps("the least integer divided by -1")


def bits_differ(left: torch.Tensor, right: torch.Tensor, modulo_zero_sign: bool = False) -> torch.Tensor:
    """Where two tensors of one shape and dtype differ in bits, all NaNs being one.  Returns bool, of their shape."""
    if not left.is_floating_point():
        return left != right
    same = (left == right) | (left.isnan() & right.isnan())
    if not modulo_zero_sign:
        same &= left.isnan() | (left.signbit() == right.signbit())
    return ~same
