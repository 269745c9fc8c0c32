"""The reference run: eager, with fp64 shadows of every tensor carried beside it.

A dispatch mode runs each operator natively and once more in each *lane* on shadows of its
arguments.  Shadows belong to storages, not tensors, so views, in-place writes, aliasing, saved
tensors of autograd and Python control flow are the native program's own, and only values differ.

Lanes (``lanes.py``):

``wide``     fp64 throughout: R_wide.  Casts do not round.
``cast``     fp64, but explicit casts round, and so do operands of discrete decisions: R_cast.
``wide:k``   ``wide`` with every rounding operation perturbed at random (``rounding.py``), so that their
             spread around ``wide`` estimates each element's rounding error.  Kernels of several roundings run
             as steps of fxmorph's own, each perturbed (``kernels.py``): PyTorch's decompositions are what is
             compiled, and a wrong one would widen the spread by its error.
``cast:k``   the same around ``cast``.
``loose:k``  ``cast`` with some of the casts rounded, others in each, of a further run where a program has casts.
``tie:±``    ``wide`` with ties at index-giving operators broken upwards, then downwards (``decisions.py``).

The same run checks the gates (``gates.py``): random numbers, uninitialised memory, duplicate indices in
non-accumulating scatters, writes into overlapping memory, overflow that only the native
dtype has; and whether the run was exact, so that no legal reordering could round (``exactness.py``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fxmorph.judge.reference.attention import RemadeWeights
from fxmorph.judge.reference.bit_casts import OTHER_DTYPES, BitCasts
from fxmorph.judge.reference.decisions import DISCRETE, INDEX_GIVING, decided_both_ways
from fxmorph.judge.reference.divisions import is_decided, rounds_quotient
from fxmorph.judge.reference.exactness import check_exactness, on_grid
from fxmorph.judge.reference.gates import TO_PYTHON, ClosedBefore, Gates, check_operands, check_overflow
from fxmorph.judge.reference.lane_execution import LaneExecution
from fxmorph.judge.reference.lanes import Lanes
from fxmorph.judge.reference.operator_call import OperatorCall, operator_call, strided
from fxmorph.judge.reference.precision import UNIT
from fxmorph.judge.reference.rounding import Rounding
from fxmorph.judge.reference.selections import Selections
from fxmorph.judge.reference.shadows import Shadows, Taken
from fxmorph.judge.reference.single_roundings import rounds_freely
from fxmorph.programs.operators import EMPTY
from fxmorph.torchapi.dispatch import (
    DispatchMode,
    HigherOrderOperator,
    OpOverload,
    is_control_flow,
    is_random,
    no_dispatch,
    tree_leaves,
)


class ReferenceRun(DispatchMode):
    """Dispatch mode of the reference run; see the module's docstring.

    ``seed`` begins the perturbed lanes' draws, and ``draw`` counts runs of one program, which take others of equal
    elements.  ``differentiated``: gradients are wanted, for which fused
    attention computes its scores once more.  ``wide_alone``: without the other lanes, which is all that it takes to
    say whether the run was exact.  ``loose``: with lanes in which some casts
    round and others do not.
    """

    def __init__(
        self, seed: int = 0, differentiated: bool = False, wide_alone: bool = False, draw: int = 0, loose: bool = False
    ) -> None:
        super().__init__()
        self._differentiated = differentiated
        self.gates = Gates()
        self.lanes = Lanes(seed, wide_alone, draw, loose)
        #: Floating-point numbers that Python took.
        self.taken: list[Taken] = []
        self._rounding = Rounding()
        self._execution = LaneExecution(self.lanes, self._rounding, self.gates)
        self._remade = RemadeWeights(self.lanes)
        self._closed = ClosedBefore()
        self._selections = Selections()
        self._bits = BitCasts(self.lanes)

    def keep(self, t: torch.Tensor) -> Shadows:
        """The shadows of ``t`` now, cloned; for :func:`fxmorph.programs.observe.observe`."""
        if t.layout != torch.strided:
            return Shadows(t.detach().clone(), {})
        t = t.detach()
        known = self.lanes.known_as(t) is not None
        if known:
            self._bits.see(t, self.gates.exact)
        closed = self._closed.of(t) | ({"bit_cast"} if self._bits.rounded(t) else set())
        self.gates.bit_cast |= "bit_cast" in closed
        with no_dispatch():
            lanes = {lane.name: lane.shadow(t).clone() for lane in self.lanes if not lane.broken and known}
            return Shadows(t.clone(), lanes, closed)

    def inside(self, operator: HigherOrderOperator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._rounding.of_kernel(not is_control_flow(operator)):
            return super().inside(operator, args, kwargs)

    def called(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        call = operator_call(func, args, kwargs)
        before = self.gates.opened()
        out = self._beside_lanes(call)
        self._closed.note(call, self.gates.closed_since(before), out)
        return out

    def _beside_lanes(self, call: OperatorCall) -> Any:
        """Run one operator natively, and in the lanes."""
        if any(type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided for t in call.tensors):
            self.gates.opaque.add(call.name)
            self.gates.rounds_freely = call.name
            self.gates.not_exact(call.name)
            return call.run()
        self.gates.ops += 1
        self._rounding.note(call.name)
        for t in call.tensors:
            self._bits.see(t, self.gates.exact)
        check_operands(self.gates, call)
        operands_on_grid = self.gates.exact and all(map(on_grid, call.tensors))
        if rounds_quotient(call):
            call = replace(call, decided=is_decided(self.lanes, call))
            self.gates.decided_quotient |= call.decided
        generator = torch.get_rng_state() if is_random(call.func, call.args, call.kwargs) else None
        lane_calls = self._execution.calls(call)
        of_bits = any(map(self._bits.rounded, call.tensors))

        out = call.run()

        if call.name in TO_PYTHON:
            self._note_taken(call, lane_calls, out)
            return out
        fresh = [o for o in strided(tree_leaves(out)) if not self.lanes.know(o)]
        if self._only_memory(call, fresh):
            return out
        if rounds_freely(call):
            self.gates.rounds_freely = call.name
        if of_bits:
            self.gates.bit_cast = True
            self.gates.not_exact("view.dtype")
        made = [*fresh, *call.written]
        if generator is not None:
            self.gates.random = True
            self.gates.not_exact(call.name)
            self._execution.draw_again(lane_calls, generator, out, made)
            return out
        decided_both_ways(self.lanes, call, lane_calls, self.gates, self._selections)
        self._execution.run(lane_calls, out)
        self._selections.note(call, out)
        if self._differentiated and self._rounding.multiplied:
            self._remade.note_weights(call, out)
        self._remade.follow(call, out)
        self._bits.note(call, made)
        self._note_ties(call, made)
        check_overflow(self.gates, made, self.lanes.wide)
        check_exactness(self.gates, call, operands_on_grid, made, self.lanes.wide)
        if self.gates.exact:
            # What was decided so far no rounding decides; numbers may be computed otherwise from what came before.
            for t in made:
                if t.dtype not in UNIT and not self.lanes.wide.broken:
                    self.lanes.settle(t)
        return out

    def _note_ties(self, call: OperatorCall, made: list[torch.Tensor]) -> None:
        """Close the gates behind a decision that the lanes do not agree on."""
        if call.name not in DISCRETE | INDEX_GIVING or self.gates.exact:
            return
        for t in made:
            if t.dtype not in UNIT and self.lanes.differ(t):
                self.gates.tied = True
                if any("tied" in self._closed.of(operand) for operand in strided(call.tensors)):
                    self.gates.tied_twice = call.name

    def _only_memory(self, call: OperatorCall, fresh: list[torch.Tensor]) -> bool:
        """Whether a call that has run computed nothing; what it did to memory the lanes have then."""
        if call.name in EMPTY:
            self.gates.uninitialised = True
        if call.name in ("set_", "resize_"):
            for t in call.written:
                self.lanes.start_again(t)
            return True
        if call.func in OTHER_DTYPES or (not fresh and not call.written):
            return True  # a view
        if call.name in EMPTY:
            for t in (*fresh, *call.written):
                self.lanes.start_again(t)
            return True
        return False

    def _note_taken(self, call: OperatorCall, lane_calls: list[OperatorCall], out: Any) -> None:
        """A number or a truth value leaves the tensors: whether all lanes agree on it.

        Lanes follow the native program's control flow, so where they do not agree, what comes after is one
        of two legal programs, and compiled code may have taken the other.
        """
        seen = {lane.name: of.run() for lane, of in zip(self.lanes, lane_calls, strict=True) if not lane.broken}
        if all(s == out or (s != s and out != out) for s in seen.values()):
            return
        if isinstance(out, float):
            lanes = {name: torch.tensor(s, dtype=torch.float64) for name, s in seen.items()}
            self.taken.append(Taken(out, call.tensors[0].dtype, lanes, self.gates.number_taken))
        if isinstance(out, (float, complex)):
            self.gates.number_taken = True
        else:
            self.gates.undecided = self.gates.undecided or f"{out!r}, which Python takes from a tensor,"
