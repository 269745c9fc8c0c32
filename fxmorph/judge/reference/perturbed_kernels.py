"""A kernel of several roundings, as a perturbed lane computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxmorph.judge.reference.attention import FUSED_UNITS
from fxmorph.judge.reference.kernels import kernel_steps
from fxmorph.judge.reference.lanes import Lane
from fxmorph.judge.reference.operator_call import OperatorCall
from fxmorph.judge.reference.precision import DEFAULT_AMPLITUDE, OWN_PRECISION, UNIT, is_wide
from fxmorph.judge.reference.rounding import Rounding, jittered
from fxmorph.judge.reference.sums import ordered_units
from fxmorph.judge.reference.tables import SHIFTED, STEPPED
from fxmorph.judge.reference.welford import drift
from fxmorph.programs.operators import operator_name
from fxmorph.torchapi.dispatch import DispatchMode, OpOverload, no_dispatch, tensors_of, tree_map
from fxmorph.torchapi.storages import storage_key

#: Units for exponentials inside of them, beyond their own: they are rescaled when a larger one comes (online softmax).
ONLINE_UNITS = 4.0


def perturbed_kernel(rounding: Rounding, lane: Lane, call: OperatorCall, stepped: bool) -> Callable[..., Any]:
    """What stands for ``call.func`` in the lane, whose call it is; ``stepped``: by steps of fxmorph's own."""
    # Kernels compute in float32 at least.
    fine = all(t.dtype in (torch.float64, torch.complex128) for t in call.tensors if t.dtype in UNIT)
    inside = torch.float64 if fine else torch.float32
    # What is written to must stay the lane's own memory.
    kept = {(storage_key(t), t.dtype) for t in call.written}
    own = {storage_key(base) for key, base in lane.bases.items() if key in kept}

    def moved(args: Any, size: float) -> Any:
        def one(s: Any) -> Any:
            return jittered(lane, s, size, inside) if is_wide(s) and storage_key(s) not in own else s

        return tree_map(one, args)

    def whole(*args: Any, **kwargs: Any) -> Any:
        return call.func(*moved(args, 4 * DEFAULT_AMPLITUDE), **kwargs)

    def steps(*args: Any, **kwargs: Any) -> Any:
        with _Elementary(rounding, lane, inside) as elementary:
            return elementary.kernel(call.func, moved(args, 1.0) if call.name in SHIFTED else args, kwargs)

    return steps if stepped else whole


class _Elementary(DispatchMode):
    """Runs the steps of a kernel on a lane's values, each operator of them rounded in ``dtype``.

    A :class:`fxmorph.judge.reference.welford.RunningMean`.
    """

    def __init__(self, rounding: Rounding, lane: Lane, dtype: torch.dtype) -> None:
        super().__init__()
        self._rounding, self._lane, self._dtype = rounding, lane, dtype

    def kernel(self, func: OpOverload, args: Any, kwargs: Any) -> Any:
        """Called with the mode on."""
        return kernel_steps(self, operator_name(func), *args, **kwargs)

    def seen(self, mean: torch.Tensor, terms: float) -> torch.Tensor:
        with no_dispatch():
            return jittered(self._lane, mean, ordered_units(terms), self._dtype)

    def drifted(
        self, x: torch.Tensor, dims: list[int], squares: torch.Tensor, mean: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same way in both: one mean drifts."""
        with no_dispatch():
            unit = UNIT[self._dtype] * OWN_PRECISION.get(self._dtype, 1.0)
            of_squares, of_mean = (t.reshape(mean.shape) for t in drift(x, dims, unit))
            way = self._lane.noise(mean)
            return squares + of_squares * way, mean + of_mean * way

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        step = OperatorCall(func, operator_name(func), args, kwargs, [], [])
        stepped = step.name in STEPPED
        if stepped:
            with self:
                out = self.kernel(func, args, kwargs)
        else:
            out = step.run()
        self._rounding.note(step.name)
        if step.name == "_to_copy":
            return out
        taken = {storage_key(t) for t in tensors_of((args, kwargs))}

        def rounded(o: Any) -> Any:
            if not is_wide(o) or storage_key(o) in taken:  # views and writes
                return o
            o = self._rounding.rounded(self._lane, step, self._dtype, o, stepped=stepped)
            return self._exponential(o) if step.name == "exp" else o

        return tree_map(rounded, out)

    def _exponential(self, o: torch.Tensor) -> torch.Tensor:
        if not self._rounding.multiplied:
            return jittered(self._lane, o, ONLINE_UNITS, self._dtype)
        o = jittered(self._lane, o, FUSED_UNITS, self._dtype)
        # The shorter polynomial has no subnormal results.
        return o + torch.finfo(self._dtype).smallest_normal * self._lane.noise(o)
