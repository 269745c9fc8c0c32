"""Changes of small programs that make larger ones: a call more behind, before, or with other arguments."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from fxmorph.inductor.derive.derived_graph import InputSpec
from fxmorph.inductor.firing.argument_values import Fresh, Given, New, Words
from fxmorph.inductor.firing.operator_calls import Call, calls, first_shapes, name_of, takes_tensors, varied
from fxmorph.inductor.firing.small_program import (
    In,
    Misfit,
    Out,
    Sizes,
    SmallProgram,
    Step,
    build,
    in_shape,
    references,
    tensor_spec,
)
from fxmorph.torchapi.dispatch import OpOverload, schema_of, tree_leaves

#: Variants of a call's arguments that are tried of one place.
VARIANTS = 16
#: Results of a call that are taken together.
MOST_GATHERED = 6
#: Variants of a call that is put before each of several inputs.
OF_EACH = 3


def begun(target: Any, words: Words, most: int = 1) -> Iterator[SmallProgram]:
    """Programs of one call, ``most`` for each shape and dtype of a value, one of each in turn."""
    specs = [tensor_spec(shape, dtype) for shape in first_shapes(target) for dtype in _dtypes(words)]
    starts = [SmallProgram((spec,), (), (In(0),), "") for spec in specs]
    streams = [_some(appended(start, target, words), most) for start in starts]
    for turn in itertools.zip_longest(*streams):
        yield from (program for program in turn if program is not None)


def _dtypes(words: Words) -> list[str]:
    told = [str(d).removeprefix("torch.") for d in words.dtypes]
    kept = ("float16", "bfloat16", "int64", "complex64")
    return list(dict.fromkeys(["float32", *(d for d in told if d in kept)]))


def _some(programs: Iterator[SmallProgram], most: int) -> Iterator[SmallProgram]:
    """The first that can be run, as many as wanted."""
    for program in programs:
        if most <= 0:
            return
        try:
            build(program)
        except Misfit:
            continue
        most -= 1
        yield program


def appended(program: SmallProgram, target: Any, words: Words, at: int = 0) -> Iterator[SmallProgram]:
    """With a call on the result number ``at`` behind."""
    try:
        value = value_of(program, at)
    except Misfit:
        return
    given = program.outputs[at]
    if isinstance(value, (tuple, list)) and target is not operator.getitem:
        tensors = [i for i, v in enumerate(value) if isinstance(v, torch.Tensor)]
        if not tensors:
            return
        yield from gathered(program, given, value, target, words)
        picked = Step("call_function", operator.getitem, (given, tensors[0]))
        given, value = Out(len(program.steps)), value[tensors[0]]
        program = replace(program, steps=(*program.steps, picked))
    made = " > ".join(p for p in (program.made, name_of(target)) if p)
    for number, call in enumerate(calls(target, value, words)):
        if number >= VARIANTS * 2:
            return
        grown = with_call(program, call, given)
        if isinstance(target, OpOverload) and not schema_of(target).returns:  # as assertions: what they read is read on
            behind = Step("call_function", torch.ops.aten.sin.default, (given,))
            grown = replace(grown, steps=(*grown.steps, behind), outputs=(Out(len(grown.steps)),))
        yield replace(grown, made=made)


def gathered(
    program: SmallProgram, given: In | Out, value: Sequence[Any], target: Any, words: Words
) -> Iterator[SmallProgram]:
    """With a call behind that takes a list of tensors, of all results of a call in order: ``cat`` of ``split``."""
    if not 1 < len(value) <= MOST_GATHERED or not all(isinstance(v, torch.Tensor) for v in value):
        return
    picked = tuple(Step("call_function", operator.getitem, (given, i)) for i in range(len(value)))
    parts = [Out(len(program.steps) + i) for i in range(len(value))]
    taken = replace(program, steps=(*program.steps, *picked), outputs=tuple(parts))
    made = " > ".join(p for p in (program.made, f"{name_of(target)} of all") if p)
    seen: set[str] = set()
    split = program.steps[given.at] if isinstance(given, Out) else None
    own = [v for v in (split.args[1:] if split else ()) if isinstance(v, int)][-1:]  # its dim, where that is given
    likely = sorted(
        itertools.islice(calls(target, value[0], words), 2 * VARIANTS), key=lambda c: list(c.args[1:]) != own
    )
    for call in likely[:VARIANTS]:
        if not call.args or not isinstance(call.args[0], (list, tuple)) or Given() not in call.args[0]:
            continue
        whole = replace(call, args=(parts, *call.args[1:]))
        if repr(whole) not in seen:
            seen.add(repr(whole))
            yield replace(with_call(taken, whole, parts[0]), made=made)


def value_of(program: SmallProgram, at: int = 0) -> Any:
    """The fake value of a result, in sizes that are numbers; raises :class:`Misfit`."""
    built = build(replace(program, sizes=Sizes.STATIC))
    place = program.outputs[at]
    inputs = len(program.inputs)
    return built.values[place.at if isinstance(place, In) else inputs + place.at]


def with_call(program: SmallProgram, call: Call, given: In | Out) -> SmallProgram:
    """The program with a call behind, whose result is the only one; what is not used any more is gone."""
    (*before, step), inputs = _placed(program, call, given)
    steps = (*program.steps, *before, step)
    return without_unused(replace(program, inputs=inputs, steps=steps, outputs=(Out(len(steps) - 1),)))


def without_unused(program: SmallProgram) -> SmallProgram:
    """Without inputs that nothing reads."""
    used: set[int] = set()

    def note(ref: Any) -> Any:
        if isinstance(ref, In):
            used.add(ref.at)
        return ref

    program.mapped(note)
    if len(used) == len(program.inputs):
        return program
    number = {old: new for new, old in enumerate(sorted(used))}
    moved = program.mapped(lambda ref: In(number[ref.at]) if isinstance(ref, In) else ref)
    return replace(moved, inputs=tuple(program.inputs[i] for i in sorted(used)))


def prepended(program: SmallProgram, at: int, target: Any, words: Words) -> Iterator[SmallProgram]:
    """With a call before: its result is read where input number ``at`` was."""
    spec = program.inputs[at]
    if spec.constant:
        return
    if isinstance(target, OpOverload) and not takes_tensors(target):
        yield from _made_in_place(program, at, target, words)
        return
    for front in _fronts(spec, target, words):
        yield joined(front, _as_wide(program, at, front), at, name_of(target))


def _fronts(spec: InputSpec, target: Any, words: Words) -> Iterator[SmallProgram]:
    """Programs of one call whose result may be read in the place of an input."""
    for shape in dict.fromkeys((spec.shape, *first_shapes(target), _transposed(spec.shape))):
        start = SmallProgram((tensor_spec(shape, spec.dtype, spec.fill),), (), (In(0),))
        yield from appended(start, target, words)


def prepended_to_each(program: SmallProgram, target: Any, words: Words) -> Iterator[SmallProgram]:
    """With the same call before each of several inputs: all, and all but the first, which are alike."""
    for first in (0, 1):
        places = [i for i, s in enumerate(program.inputs) if i >= first and not s.constant]
        if len(places) < 2:
            return
        fronts = zip(
            *(itertools.islice(_fronts(program.inputs[i], target, words), OF_EACH) for i in places), strict=False
        )
        for each in fronts:
            wide = _as_wide(program, places[0], each[0])
            yield before_each(wide, places, each, name_of(target))


def before_each(
    program: SmallProgram, places: Sequence[int], fronts: Sequence[SmallProgram], name: str
) -> SmallProgram:
    """With the result of a program of its own in the place of each of these inputs."""
    grown = program
    for done, (place, front) in enumerate(zip(reversed(places), reversed(fronts), strict=True)):
        at = place + len(grown.inputs) - len(program.inputs) + done  # those of calls before come first
        grown = joined(front, grown, at, name)
    return replace(grown, made=f"{name} > each operand of {program.made}")


def _as_wide(program: SmallProgram, at: int, front: SmallProgram) -> SmallProgram:
    """The program with inputs that are as large as input ``at`` made as large as the front's result."""
    old = program.inputs[at].shape
    if not any(s.shape == old for i, s in enumerate(program.inputs) if i != at):
        return program
    try:
        value = value_of(front, 0)
    except Misfit:
        return program
    if not isinstance(value, torch.Tensor) or tuple(value.shape) == old:
        return program
    inputs = (in_shape(s, tuple(value.shape)) if s.shape == old else s for s in program.inputs)
    return replace(program, inputs=tuple(inputs))


def _made_in_place(program: SmallProgram, at: int, target: OpOverload, words: Words) -> Iterator[SmallProgram]:
    """With a call that makes a tensor of no other, as ``zeros``, in the place of an input: in its shape, and others."""
    spec = program.inputs[at]
    like = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
    for call in itertools.islice(calls(target, None, words, like), VARIANTS):
        front = SmallProgram((), (Step(call.op, call.target, call.args, call.kwargs),), (Out(0),))
        yield joined(front, program, at, name_of(target))


def siblings(program: SmallProgram) -> Iterator[SmallProgram]:
    """The same calls once more, on one of the inputs and on others for the rest: what horizontal fusions look for."""
    count, steps = len(program.inputs), len(program.steps)
    if any(step.op == "call_module" for step in program.steps):
        others = [replace(s, target=_another(s.target)) if s.op == "call_module" else s for s in program.steps]
        again = replace(program, steps=tuple(others)).mapped(lambda r: Out(r.at + steps) if isinstance(r, Out) else r)
        both, outputs = (*program.steps, *again.steps), (*program.outputs, *again.outputs)
        yield replace(program, steps=both, outputs=outputs, made=f"{program.made}, twice on one input")
    for shared in range(count) if count > 1 else ():
        inputs = (*program.inputs, *(s for i, s in enumerate(program.inputs) if i != shared))
        place = {old: new for new, old in enumerate((i for i in range(count) if i != shared), count)}

        def moved(ref: Any, place: dict[int, int] = place) -> Any:
            return Out(ref.at + steps) if isinstance(ref, Out) else In(place.get(ref.at, ref.at))

        again = program.mapped(moved)
        made = f"{program.made}, twice on input {shared}"
        yield replace(
            program, inputs=inputs, steps=(*program.steps, *again.steps), outputs=(*program.outputs, *again.outputs),
            made=made,
        )  # fmt: skip


def _another(make: functools.partial[Any]) -> functools.partial[Any]:
    """What makes another module like it."""
    return functools.partial(make.func, *make.args, **make.keywords)


def _transposed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else shape


def joined(front: SmallProgram, program: SmallProgram, at: int, name: str) -> SmallProgram:
    """``program`` with the result of ``front`` in the place of an input."""
    shift, inputs = len(front.steps), len(front.inputs)

    def moved(ref: Any) -> Any:
        if isinstance(ref, Out):
            return Out(ref.at + shift)
        return front.outputs[0] if ref.at == at else In(ref.at + inputs)

    behind = program.mapped(moved)
    both = replace(
        behind,
        inputs=(*front.inputs, *program.inputs),
        steps=(*front.steps, *behind.steps),
        made=" > ".join(p for p in (name, program.made) if p),
    )
    return without_unused(both)


def merged_inputs(program: SmallProgram) -> Iterator[SmallProgram]:
    """Two inputs that are alike are one: ``x * x`` for ``x * y``."""
    for i, one in enumerate(program.inputs):
        for j in range(i + 1, len(program.inputs)):
            if program.inputs[j] == one:
                same = program.mapped(lambda ref, i=i, j=j: In(i) if ref == In(j) else ref)  # type: ignore[misc]
                yield without_unused(same)


def crossed(program: SmallProgram) -> Iterator[SmallProgram]:
    """An input is the result of a step instead, or another one of several: a diamond."""
    for number, step in enumerate(program.steps):
        for earlier in range(number):
            for i in range(len(program.inputs)):

                def swap(ref: Any, i: int = i, earlier: int = earlier) -> Any:
                    return Out(earlier) if ref == In(i) else ref

                args = references(step.args, swap)
                if args != step.args:
                    steps = (*program.steps[:number], replace(step, args=args), *program.steps[number + 1 :])
                    yield without_unused(replace(program, steps=steps))

    for number, step in enumerate(program.steps):
        if step.target is operator.getitem and isinstance(step.args[1], int):
            yield from _crossed_by(program, number, replace(step, args=(step.args[0], step.args[1] + 1)))


def _crossed_by(program: SmallProgram, number: int, other: Step) -> Iterator[SmallProgram]:
    """With ``other`` behind step ``number``, read in the place of an input."""

    def moved(ref: Any) -> Any:
        return Out(ref.at + 1) if isinstance(ref, Out) and ref.at > number else ref

    behind = program.mapped(moved)
    steps = (*behind.steps[: number + 1], other, *behind.steps[number + 1 :])
    for later in range(number + 2, len(steps)):
        for i in range(len(program.inputs)):

            def swap(ref: Any, i: int = i) -> Any:
                return Out(number + 1) if ref == In(i) else ref

            args = references(steps[later].args, swap)
            if args != steps[later].args:
                changed = (*steps[:later], replace(steps[later], args=args), *steps[later + 1 :])
                yield without_unused(replace(behind, steps=changed))


def respelled(program: SmallProgram, words: Words, number: int) -> Iterator[SmallProgram]:
    """Step ``number`` with other arguments, its first tensor kept."""
    step = program.steps[number]
    if step.op == "call_module":
        return
    given = _first_reference(step.args)
    if given is None:
        return
    try:
        built = build(replace(program, sizes=Sizes.STATIC))
    except Misfit:
        return
    value = built.values[given.at if isinstance(given, In) else len(program.inputs) + given.at]
    if isinstance(value, int) or (isinstance(value, (tuple, list)) and step.target is not operator.getitem):
        return
    if isinstance(step.target, OpOverload):
        for call in itertools.islice(varied(step.target, step.args, step.kwargs, value, words), 2 * VARIANTS):
            yield _exchanged(program, number, call, given, keep=False)
    for call in itertools.islice(calls(step.target, value, words), 4 * VARIANTS):
        yield _exchanged(program, number, call, given, keep=True)


def _first_reference(args: Sequence[Any]) -> In | Out | None:
    found = [v for v in tree_leaves(list(args)) if isinstance(v, (In, Out))]
    return found[0] if found else None


def _exchanged(program: SmallProgram, number: int, call: Call, given: In | Out, keep: bool) -> SmallProgram:
    """Another call in the place of a step.

    ``keep``: tensors beside the first stay what they were where there are as many.
    """
    (*_, step), inputs = _placed(program, call, given)
    if keep:
        news = [v for v in tree_leaves(list(step.args)) if isinstance(v, In) and v.at >= len(program.inputs)]
        old = tree_leaves(list(program.steps[number].args))
        others = [v for v in old if isinstance(v, (In, Out)) and v != given]
        if len(others) == len(news):
            swap = dict(zip(news, others, strict=True))
            step = replace(step, args=references(step.args, lambda ref: swap.get(ref, ref)))
    steps = (*program.steps[:number], step, *program.steps[number + 1 :])
    return without_unused(replace(program, inputs=inputs, steps=steps))


def _placed(program: SmallProgram, call: Call, given: In | Out) -> tuple[list[Step], tuple[InputSpec, ...]]:
    """(The call as a step on ``given``, behind steps for it alone; the inputs with those that it wants besides)."""
    inputs: list[InputSpec] = list(program.inputs)
    steps: list[Step] = []

    def place(value: Any) -> Any:
        if isinstance(value, Given):
            return given
        if isinstance(value, New):
            inputs.append(value.spec)
            return In(len(inputs) - 1)
        if isinstance(value, Fresh):
            inputs.append(value.spec)
            steps.append(Step("call_function", torch.ops.aten.clone.default, (In(len(inputs) - 1),)))
            return Out(len(program.steps) + len(steps) - 1)
        if isinstance(value, (tuple, list)):
            return type(value)(place(v) for v in value)
        return value

    args, kwargs = place(call.args), tuple((k, place(v)) for k, v in call.kwargs)
    return [*steps, Step(call.op, call.target, args, kwargs)], tuple(inputs)
