"""Programs whose arguments are sizes of tensors: what a graph has that is traced with dynamic shapes.

A number among the arguments becomes a size that is read off a tensor, or is computed of one, where the operator takes
symbols.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fxmorph.inductor.firing.operator_calls import name_of, overloads_of
from fxmorph.inductor.firing.small_program import In, Misfit, Out, Sizes, SmallProgram, Step, build, tensor_spec
from fxmorph.torchapi.dispatch import OpOverload, aten_packet, schema_of, symbolic_arguments, tree_leaves

#: How calls say that there is no end.
NO_BOUND = 2**63 - 1
#: The largest number that becomes the size of an input.
LARGEST = 16
#: By how much a size is larger that is larger than all others.
BEYOND = 9


def with_symbols(program: SmallProgram, forms: Sequence[Sizes]) -> Iterator[SmallProgram]:
    """The program with symbols for its sizes, in each of these forms; arguments that are sizes first."""
    if program.sizes is not Sizes.STATIC or any(step.op == "call_module" for step in program.steps):
        return
    for each in (*_with_sizes(program), program):
        for form in forms:
            yield replace(each, sizes=form, made=f"{each.made}, symbolic sizes")


def _with_sizes(program: SmallProgram) -> Iterator[SmallProgram]:
    try:
        values = build(program).values
    except Misfit:
        return
    for number, step in enumerate(program.steps):
        operand = next((v for v in tree_leaves([step.args]) if isinstance(v, (In, Out))), None)
        slots = _slots(step)
        if operand is None or not slots:
            continue
        value = values[operand.at if isinstance(operand, In) else len(program.inputs) + operand.at]
        shape = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        at = _Place(program, number, operand, shape)
        for writing in (_counted, _own, _negated, _beyond, _shifted, _across, _less):
            yield from writing(at, slots)
    yield from _measured(program, values)


def _measured(program: SmallProgram, values: Sequence[Any]) -> Iterator[SmallProgram]:
    """A size of the result is read, and what it is read off is scaled by it."""
    result = program.outputs[0]
    value = values[len(program.inputs) + result.at] if isinstance(result, Out) and program.steps else None
    if not isinstance(value, torch.Tensor) or value.dtype == torch.bool:
        return
    aten = isinstance(program.steps[-1].target, OpOverload)
    last = Out(len(program.steps))
    product = Step("call_function", torch.ops.aten.mul.Tensor if aten else operator.mul, (result, last))
    for dim in range(value.ndim):
        steps = (*program.steps, _size_of(result, dim, aten), product)
        made = f"{program.made}, scaled by its size {dim}"
        yield replace(program, steps=steps, outputs=(Out(len(steps) - 1),), made=made)


def _size_of(tensor: In | Out, dim: int, aten: bool) -> Step:
    """The call that reads a size."""
    if aten:
        return Step("call_function", torch.ops.aten.sym_size.int, (tensor, dim))
    return Step("call_method", "size", (tensor, dim))


@dataclass(frozen=True)
class _Slot:
    """A number among the arguments of a call, in a list where ``inside`` says which."""

    place: int
    inside: int | None
    value: int


def _slots(step: Step) -> list[_Slot]:
    """Numbers of a call that symbols may stand for."""
    found: list[_Slot] = []
    for place, value in enumerate(step.args):
        if place and _takes_symbols(step, place):
            inside = list(enumerate(value)) if isinstance(value, (tuple, list)) else [(None, value)]
            found += [_Slot(place, i, v) for i, v in inside if isinstance(v, int) and not isinstance(v, bool)]
    return found


def _takes_symbols(step: Step, place: int) -> bool:
    if isinstance(step.target, OpOverload):
        overloads = [step.target]
    else:
        packet = aten_packet(name_of(step.target).removesuffix("_"))
        overloads = overloads_of(packet) if packet is not None else []
    for overload in overloads:
        taken = symbolic_arguments(overload)
        if any(taken):
            return taken[min(place, len(taken) - 1)]  # methods spread lists out
    return False


@dataclass(frozen=True)
class _Place:
    """Step ``number`` of a program, whose first tensor is ``operand``, of this shape."""

    program: SmallProgram
    number: int
    operand: In | Out
    shape: tuple[int, ...]

    @property
    def dim(self) -> int | None:
        """The dimension that the step is told of."""
        step = self.program.steps[self.number]
        names = [a.name for a in schema_of(step.target).arguments] if isinstance(step.target, OpOverload) else []
        place = names.index("dim") if "dim" in names else len(step.args)
        told = step.args[place] if place < len(step.args) else None
        return told if isinstance(told, int) and -len(self.shape) <= told < len(self.shape) else None

    def size_of(self, tensor: In | Out, dim: int) -> Step:
        """The call that reads a size."""
        return _size_of(tensor, dim, isinstance(self.program.steps[self.number].target, OpOverload))

    def with_steps(self, steps: Sequence[Step], new: dict[_Slot, Any], count: int | None, what: str) -> SmallProgram:
        """With calls before the step, which number each other from 0 on, and arguments that are their results.

        ``count``: the rows of an input that is there to be counted, :class:`In` of the number of inputs.
        """
        program, first = self.program, self.number

        def later(ref: Any) -> Any:
            return Out(ref.at + len(steps)) if isinstance(ref, Out) and ref.at >= first else ref

        moved = program.mapped(later)
        step = moved.steps[first]
        args = list(step.args)
        for slot, value in new.items():
            if slot.inside is None:
                args[slot.place] = value
            else:
                args[slot.place] = [value if i == slot.inside else v for i, v in enumerate(args[slot.place])]
        changed = (*moved.steps[:first], *steps, replace(step, args=tuple(args)), *moved.steps[first + 1 :])
        inputs = program.inputs if count is None else (*program.inputs, tensor_spec((count, 3)))
        return replace(moved, inputs=inputs, steps=changed, made=f"{program.made}, {what}")

    def result(self, number: int) -> Out:
        """That of the call which comes so many places behind the first new one."""
        return Out(self.number + number)


def _is_bound(slot: _Slot) -> bool:
    return 0 < abs(slot.value) <= LARGEST


def _counted(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """A number is the size of another tensor, or what that is below zero."""
    yield from _each_counted(at, slots, lambda n: n, "is a size")


def _beyond(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """A bound lies beyond all sizes, or as far below zero."""
    yield from _each_below_zero(at, slots, 2 + BEYOND, "a larger size")
    yield from _each_counted(at, slots, lambda n: n + BEYOND, "is a larger size")


def _negated(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """A bound that is none below zero is what a size is below zero: the last rows, as many as another tensor has."""
    yield from _each_below_zero(at, slots, 2, "a size")


def _each_below_zero(at: _Place, slots: Sequence[_Slot], rows: int, size: str) -> Iterator[SmallProgram]:
    for slot in slots:
        if slot.inside is None and 0 <= slot.value <= LARGEST:
            negated = Step("call_function", operator.neg, (at.result(0),))
            steps = [at.size_of(In(len(at.program.inputs)), 0), negated]
            what = f"{slot.value} of call {at.number} is {size} below zero"
            yield at.with_steps(steps, {slot: at.result(1)}, rows, what)


def _each_counted(at: _Place, slots: Sequence[_Slot], rows: Callable[[int], int], what: str) -> Iterator[SmallProgram]:
    other = In(len(at.program.inputs))
    for slot in filter(_is_bound, slots):
        steps = [at.size_of(other, 0)]
        if slot.value < 0:
            steps.append(Step("call_function", operator.neg, (at.result(0),)))
        new = {slot: at.result(len(steps) - 1)}
        yield at.with_steps(steps, new, max(2, rows(abs(slot.value))), f"{slot.value} of call {at.number} {what}")


def _shifted(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """Two bounds are a size and that with a number added, as where a cache is written."""
    bounds = [s for s in slots if s.inside is None and abs(s.value) <= LARGEST]
    if len(bounds) < 2:
        return
    start, end = bounds[:2]
    steps = [at.size_of(In(len(at.program.inputs)), 0)]
    steps.append(Step("call_function", operator.add, (at.result(0), end.value - start.value)))
    yield at.with_steps(
        steps, {start: at.result(0), end: at.result(1)}, max(2, start.value), f"call {at.number} from a size on"
    )


def _own(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """Numbers are sizes of the operand, what is no bound that of its dimension, or the product of all."""
    steps: list[Step] = []
    new: dict[_Slot, Any] = {}
    total = 1
    for size in at.shape:
        total *= size
    for slot in slots:
        if slot.value == NO_BOUND and slot.inside is None and at.dim is not None:
            steps.append(at.size_of(at.operand, at.dim))
            new[slot] = at.result(len(steps) - 1)
        elif slot.value > 1 and slot.value in at.shape:
            same = slot.inside is not None and at.shape[slot.inside : slot.inside + 1] == (slot.value,)
            dim = slot.inside if same and slot.inside is not None else at.shape.index(slot.value)
            steps.append(at.size_of(at.operand, dim))
            new[slot] = at.result(len(steps) - 1)
        elif slot.value == total and len(at.shape) == 2:
            steps += [at.size_of(at.operand, 0), at.size_of(at.operand, 1)]
            factors = (at.result(len(steps) - 2), at.result(len(steps) - 1))
            steps.append(Step("call_function", operator.mul, factors))
            new[slot] = at.result(len(steps) - 1)
    if new:
        yield at.with_steps(steps, new, None, f"call {at.number} with sizes of its operand")


def _across(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """What is no bound is the size of another dimension, the least one."""
    for slot in slots:
        if slot.value == NO_BOUND and slot.inside is None and at.dim is not None:
            others = [d for d in range(len(at.shape)) if d != at.dim % len(at.shape)]
            for dim in sorted(others, key=at.shape.__getitem__)[:1]:
                what = f"call {at.number} up to a size of another dimension"
                yield at.with_steps([at.size_of(at.operand, dim)], {slot: at.result(0)}, None, what)


def _less(at: _Place, slots: Sequence[_Slot]) -> Iterator[SmallProgram]:
    """A bound is so much less than a size of the operand."""
    for slot in slots:
        dim = next((d for d, size in enumerate(at.shape) if size > slot.value), None)
        if slot.inside is None and _is_bound(slot) and slot.value > 0 and dim is not None:
            less = Step("call_function", operator.sub, (at.result(0), at.shape[dim] - slot.value))
            steps = [at.size_of(at.operand, dim), less]
            yield at.with_steps(steps, {slot: at.result(1)}, None, f"{slot.value} of call {at.number} is a size less")
