"""One operator in all lanes: on each lane's own values, perturbed where a lane is, into the lane's memory."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from fxmorph.judge.reference.authored import authored
from fxmorph.judge.reference.decisions import DISCRETE, tie_broken
from fxmorph.judge.reference.divisions import as_operand, decided
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.kernels import NEVER_LEAVING, same_over_the_reals
from fxmorph.judge.reference.lanes import BACKWARD_TOO, Anew, Lane, Lanes
from fxmorph.judge.reference.operator_call import OperatorCall, strided
from fxmorph.judge.reference.own_dtype import in_own_dtype
from fxmorph.judge.reference.perturbed_kernels import perturbed_kernel
from fxmorph.judge.reference.poles import at_poles, leave_numbers
from fxmorph.judge.reference.precision import UNIT, WIDE, flushed, widened
from fxmorph.judge.reference.rounding import Opaque, Rounding, accumulates
from fxmorph.judge.reference.signs import SPREAD
from fxmorph.judge.reference.tables import COMPUTED_ANEW, FACTORIES, FACTORS, KERNELS, POWERS, STEPPED, functional_name
from fxmorph.torchapi.dispatch import in_backward_pass, tensors_of, tree_leaves, tree_map

#: Operators that draw truth values, each with the chance that it is given: rounding changes one in as many draws as
#: it changes chances by, so that fewer than these change by it.
CHANCES, OTHER_DRAWS = frozenset({"bernoulli", "bernoulli_"}), 1e-4
#: Dtypes of what says where elements are.
PLACES = (torch.int32, torch.int64)


class LaneExecution:
    """Runs operators in the lanes of one run.

    An operator that has no fp64 kernel (``opaque``) runs on each lane's own values in the native dtypes: rows and
    indices among them are in the lane's own order.  Where that does not run, lanes take its native result.
    """

    def __init__(self, lanes: Lanes, rounding: Rounding, gates: Gates) -> None:
        self._lanes, self._rounding, self._gates = lanes, rounding, gates

    def calls(self, call: OperatorCall) -> list[OperatorCall]:
        """The call in each lane, on its values as they are now."""
        common = _narrowed_to(call)
        everywhere = _computed_anew(call)
        backward = in_backward_pass()

        def convert(lane: Lane, value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return widened(value)
            if not isinstance(value, torch.Tensor):
                return as_operand(call, value)
            s = lane.shadow(value)
            if lane.casts_round and call.name in DISCRETE and value.dtype in WIDE:
                s = s.to(value.dtype).to(s.dtype)
            if common is not None and value.ndim == 0 and value.dtype in UNIT:
                s = s.to(common).to(s.dtype)
            written = any(value is t for t in call.written)
            if written and not everywhere and isinstance(lane, Anew):
                s = lane.beside.shadow(value)
            if lane.perturb is not None and not written and (least := flushed(value)):
                s = torch.where(s.abs() < least, s + s * lane.noise(s), s)  # nothing, or twice as much
            return s

        def of(lane: Lane, anew: OperatorCall | None = None) -> OperatorCall:
            args, kwargs = tree_map(functools.partial(convert, lane), (call.args, call.kwargs))
            return call.of_lane(args, kwargs, anew)

        def beside(lane: Lane, anew: Anew) -> OperatorCall:
            if everywhere:
                for t in call.written:
                    anew.own(t)
                return of(lane, of(anew))
            return of(lane if backward and lane.row % SPREAD not in BACKWARD_TOO else anew)

        return [of(lane) if lane.anew is None else beside(lane, lane.anew) for lane in self._lanes]

    def run(self, lane_calls: list[OperatorCall], out: Any) -> None:
        """Run each lane's call, beside the native result ``out``."""
        first = lane_calls[0]
        stepped = first.name in STEPPED and same_over_the_reals(first.func, first.name, first.args, first.kwargs)
        poles = at_poles(self._lanes, first)
        for lane, call in zip(self._lanes, lane_calls, strict=True):
            self._run(lane, call, out, stepped)
        if poles is not None:
            for t in first.written or strided(tree_leaves(out)):
                leave_numbers(self._lanes, t, poles)

    def draw_again(
        self, lane_calls: list[OperatorCall], generator: torch.Tensor, out: Any, made: list[torch.Tensor]
    ) -> None:
        """Run a random operator in the lanes from the same generator state.

        Where fp64 does not draw what the native dtype drew, or the device has a generator of its
        own, lanes take the native values; if those were computed from rounded ones, rounding is lost.
        """
        after = torch.get_rng_state()
        drawn = all(t.device.type == "cpu" for t in made)
        if drawn:
            for lane, call in zip(self._lanes, lane_calls, strict=True):
                torch.set_rng_state(generator)
                self._run(lane, call, out)
            torch.set_rng_state(after)
            drawn = all(map(self._alike, made))
        if not drawn:
            least = OTHER_DRAWS if lane_calls[0].name in CHANCES else 0.0
            self._gates.random_values |= any(not self._off(t) <= least for t in _read_to_draw(lane_calls[0]))
            for t in made:
                self._lanes.start_again(t)

    def _off(self, t: torch.Tensor) -> float:
        """By how much rounding may move all elements together."""
        wide = self._lanes.wide.shadow(t)
        return float(torch.maximum(self._lanes.deviation(t), (wide - t.detach().to(wide.dtype)).abs()).sum())

    def _alike(self, t: torch.Tensor) -> bool:
        wide, native = self._lanes.wide.shadow(t).double(), t.detach().double()
        scale = float(torch.nan_to_num(native.abs(), nan=0.0, posinf=0.0).max()) if t.numel() else 0.0
        return torch.allclose(wide, native, rtol=1e-2, atol=1e-2 * scale, equal_nan=True)

    def _run(self, lane: Lane, call: OperatorCall, out: Any, stepped: bool = False) -> None:
        """``stepped``: perturbed lanes run the kernel's steps."""
        if lane.anew is not None:
            lane.anew.draw_as_beside()
        self._run_alone(lane, call, out, stepped)
        if lane.anew is not None and call.anew is not None:
            self._run_alone(lane.anew, call.anew, out, stepped)
        elif lane.anew is not None:
            for t in call.written:
                lane.anew.follow(t)

    def _run_alone(self, lane: Lane, call: OperatorCall, out: Any, stepped: bool) -> None:
        if call.name in FACTORIES or call.name == POWERS:
            call = call.of_lane(call.args, {**call.kwargs, "dtype": widened(out.dtype)})
        given = _kept(call)
        result, opaque = self._result(lane, call, out, stepped)
        for place, (native, shadow) in enumerate(zip(tree_leaves(out), tree_leaves(result), strict=False)):
            if not isinstance(native, torch.Tensor) or not isinstance(shadow, torch.Tensor) or lane.knows(native):
                continue
            if shadow.shape != native.shape and place and native.dtype not in UNIT:
                shadow = native  # what a kernel keeps for its backward pass: ``embedding_bag`` does not in float64
            if shadow.shape != native.shape:
                lane.broken = f"{call.name}: data-dependent shape"
                self._gates.undecided = self._gates.undecided or f"the size of what {call.name} returns"
                shadow = native
            lane.adopt(native, self._rounding.rounded(lane, given, native.dtype, shadow, opaque, stepped, place))
        for place, t in enumerate(call.written):
            view = lane.shadow(t)
            with torch.no_grad():
                new = self._rounding.rounded(lane, given, t.dtype, view, opaque, stepped, -1 - place)
                if new is not view:
                    view.copy_(new)

    def _result(self, lane: Lane, call: OperatorCall, out: Any, stepped: bool) -> tuple[Any, Opaque]:
        run: Callable[..., Any] = in_own_dtype(call) or NEVER_LEAVING.get(call.name, call.func)
        if call.decided:
            return decided(call), Opaque.NO
        told = authored(call.name)
        if told is not None:
            return told(*call.args, **call.kwargs), Opaque.NO
        if lane.perturb is not None and call.name in KERNELS:
            run = perturbed_kernel(self._rounding, lane, call, stepped)
        try:
            try_moved_places(call)
            result = tie_broken(self._lanes, lane, call, self._gates)
            return (run(*call.args, **call.kwargs) if result is None else result), Opaque.NO
        except Exception:
            self._gates.opaque.add(call.name)
            self._gates.not_exact(call.name)
            for t in call.written:
                lane.start_again(t)
            run_again, narrow = _in_native_dtypes(lane, call, out)
            if not run_again or "::" not in call.name:  # what is not PyTorch's own is the same code when compiled
                self._gates.blind.add(call.name)
            wide = tree_map(lambda o: o.to(widened(o.dtype)) if isinstance(o, torch.Tensor) else o, narrow)
            return wide, Opaque.RUN if run_again else Opaque.TAKEN


def _read_to_draw(call: OperatorCall) -> list[torch.Tensor]:
    """Floats that what a random operator draws hangs on: their sizes are all that some of them read."""
    if call.name.endswith("_like"):
        return []
    return [t for t in call.tensors if t.dtype in UNIT and not any(t is w for w in call.written)]


def try_moved_places(call: OperatorCall, device: str = "cuda") -> None:
    """Where a lane has other integers on a GPU than the program, run its call on the CPU: raises what that raises.

    Rounding may have moved places out of range, which a GPU answers by ending its process.
    """
    if torch.Tag.pointwise in call.func.tags:
        return
    pairs = zip(tensors_of((call.args, call.kwargs)), call.tensors, strict=True)
    if not any(t.device.type == device and t.dtype in PLACES and not torch.equal(mine, t) for mine, t in pairs):
        return
    args, kwargs = tree_map(
        lambda v: v.to("cpu", copy=True) if isinstance(v, torch.Tensor) else v, (call.args, call.kwargs)
    )
    with contextlib.suppress(NotImplementedError):
        call.func(*args, **kwargs)


def _computed_anew(call: OperatorCall) -> bool:
    """Whether compiled code computes what the operator gives at each of its uses, and keeps it in no memory."""
    if torch.Tag.nondeterministic_seeded in call.func.tags:
        return False
    return torch.Tag.pointwise in call.func.tags or functional_name(call.name) in COMPUTED_ANEW


def _kept(call: OperatorCall) -> OperatorCall:
    """The call with its operands as they are now, of a sum that overwrites some: what it rounds hangs on its terms."""
    if not call.written or not (accumulates(call) or functional_name(call.name) in FACTORS):
        return call
    return call.of_lane(*tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (call.args, call.kwargs)))


def _in_native_dtypes(lane: Lane, call: OperatorCall, out: Any) -> tuple[bool, Any]:
    """What an operator without an fp64 kernel makes of a lane's values, rounded to the dtypes of the program's.

    What moved the values before it moves what comes after it too.  Where that does not run, False and eager's ``out``.
    """
    natives = iter(call.tensors)
    dtypes = {widened(t.dtype): t.dtype for t in tensors_of(out)}
    rounded: list[tuple[torch.Tensor, torch.Tensor]] = []

    def narrowed(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            native = next(natives)
            rounded.append((native, value.to(native.dtype, copy=True)))
            return rounded[-1][1]
        return dtypes.get(value, value) if isinstance(value, torch.dtype) else value

    if call.written and "::" not in call.name:
        return False, out
    try:
        args, kwargs = tree_map(narrowed, (call.args, call.kwargs))
        result = call.func(*args, **kwargs)
    except Exception:
        return False, out
    for native, mine in rounded:
        if any(native is t for t in call.written):
            lane.shadow(native).copy_(mine)
    return True, result


def _narrowed_to(call: OperatorCall) -> torch.dtype | None:
    """What type promotion converts wider 0-dim operands to, where that rounds.

    On CUDA the conversion is part of the operator (pytorch 185605); on the CPU they stay wide.
    """
    if torch.Tag.pointwise not in call.func.tags:
        return None
    shaped = [t for t in call.tensors if t.ndim and t.is_floating_point()]
    single = [t for t in call.tensors if not t.ndim and t.is_floating_point() and t.is_cuda]
    if not shaped or not single:
        return None
    common = functools.reduce(torch.promote_types, [t.dtype for t in shaped])
    return common if any(UNIT[t.dtype] < UNIT[common] for t in single) else None
