"""What fused attention rounds otherwise than the operators that a program spells it with.

It rounds the logsumexp of each row, and its backward makes the weights again, from scores and their logsumexp.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from fxmorph.judge.reference.lanes import Lane, Lanes
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import UNIT
from fxmorph.judge.reference.tables import ATTENTION_WEIGHTS
from fxmorph.programs.inputs import flat_storage
from fxmorph.torchapi.storages import storage_key

#: Units for its exponentials, which matrices are multiplied before: a shorter polynomial.
FUSED_UNITS = 8.0


def with_logsumexp_rounded(
    lane: Lane, name: str, dtype: torch.dtype, s: torch.Tensor, args: tuple[Any, ...]
) -> torch.Tensor:
    """``s``, a (log-)softmax, off by the error of exp(x - logsumexp) with the logsumexp rounded.

    A row's error is the roundoff of its logsumexp: large where every score is about -1e4.
    """
    x, dim = args[0], args[1]
    if not isinstance(x, torch.Tensor) or not isinstance(dim, int) or not x.numel() or x.ndim == 0:
        return s
    peak = torch.nan_to_num(x.logsumexp(dim, keepdim=True).abs(), nan=0.0, posinf=0.0)
    size = 2 * UNIT[dtype] * peak * lane.noise(peak)
    return s + size if "log" in name else s * (1 + size)


class RemadeWeights:
    """Attention's weights as its fused backward makes them again, and what comes of their errors.

    Those are kept in wide memory by storage, and are added to the perturbed lanes.
    """

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        #: Relative errors of weights by storage: of a row, of each.
        self._weights: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        #: Errors of those weights and of the gradient of their scores.
        self._errors: dict[int, torch.Tensor] = {}

    def note_weights(self, call: OperatorCall, weights: torch.Tensor) -> None:
        """The result of a call, if it may be attention's weights.

        The scores that they are made again from are rounded otherwise than the ones of the logsumexp, and the two
        errors do not cancel, however surely a row has decided.
        """
        if call.name not in ATTENTION_WEIGHTS or not call.args[0].ndim:
            return
        scores, dim = call.args[0], call.args[1]
        unit = UNIT[torch.float64 if scores.dtype == torch.float64 else torch.float32]
        peak = self._lanes.wide.shadow(scores).logsumexp(dim, keepdim=True).abs().nan_to_num(posinf=0.0)
        each, row = math.sqrt(2) * self._lanes.deviation(scores) + FUSED_UNITS * unit, 2 * unit * peak
        self._weights[storage_key(weights)] = (row, each)
        wide = self._lanes.wide.shadow(weights)
        self._remake(weights, wide * (row.square() + each.square()).sqrt())
        self._spread(weights, wide * each)

    def follow(self, call: OperatorCall, out: Any) -> None:
        """Into what a call makes of the weights."""
        if call.name == "_softmax_backward_data" and storage_key(call.args[1]) in self._weights:
            self._into_scores(call.args[0], call.args[1], call.args[2], out)
        if self._errors and call.name in ("mul", "div", "mm", "bmm"):
            self._into_product(call.name, call.args, out)

    def _remake(self, native: torch.Tensor, errors: torch.Tensor) -> None:
        base = torch.zeros_like(flat_storage(native), dtype=torch.float64)
        base.as_strided(native.shape, native.stride(), native.storage_offset()).copy_(errors)
        self._errors[storage_key(native)] = base

    def _into_product(self, name: str, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """A product of what attention's backward makes again: the squares of the errors add up.

        In the lanes, errors of two terms that are most of a sum have opposite signs everywhere now and then.
        """
        for i, t in enumerate(args[:2]):
            if not isinstance(t, torch.Tensor) or storage_key(t) not in self._errors:
                continue
            errors = self._errors[storage_key(t)].as_strided(t.shape, t.stride(), t.storage_offset())
            other = args[1 - i]
            other = self._lanes.wide.shadow(other) if isinstance(other, torch.Tensor) else other
            if name == "mul":
                self._remake(out, errors * other)
            elif name == "div" and i == 0:
                self._remake(out, errors / other)
            elif name in ("mm", "bmm"):
                squares = (errors.square(), other.square())
                self._spread(out, torch.matmul(*(squares if i == 0 else squares[::-1])).sqrt())

    def _into_scores(self, grad: torch.Tensor, weights: torch.Tensor, dim: int, out: torch.Tensor) -> None:
        """The gradient of the scores, weights * (grad - sum(weights * grad)), as fused attention's backward has it.

        Its sum is one of outputs times their gradients, whose rounding is not that of ``grad``.
        """
        row, each = self._weights[storage_key(weights)]
        wide, result = self._lanes.wide.shadow(weights), self._lanes.wide.shadow(out)
        error = self._lanes.deviation(grad)
        total = (wide * error).sum(dim, keepdim=True)
        squares = result.square() * (row.square() + each.square()) + wide.square() * (error.square() + total.square())
        size = squares.sqrt()
        self._remake(out, size)
        self._spread(out, size)

    def _spread(self, native: torch.Tensor, size: torch.Tensor) -> None:
        """Add an error of ``size`` to what perturbed lanes are off by, in squares.

        It has the sign of what is there: a draw of its own might cancel that.
        """
        centres = {lane.casts_round: lane.shadow(native).clone() for lane in (self._lanes.wide, self._lanes.cast)}
        size = size.nan_to_num(nan=0.0, posinf=0.0)
        for lane in self._lanes:
            if lane.perturb is not None:
                view, centre = lane.shadow(native), centres[lane.casts_round]
                off = view - centre
                sign = torch.where(off == 0, lane.noise(off), off.sign())
                with torch.no_grad():
                    view.copy_(centre + sign * (off.square() + size.square()).sqrt())
