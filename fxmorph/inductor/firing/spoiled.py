"""Near misses: a program that a pass changes, with one thing otherwise that the pass may not have looked at."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator
from dataclasses import replace

import torch

from fxmorph.inductor.derive.derived_graph import InputSpec, spec_for
from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.growing import crossed, merged_inputs, respelled, without_unused
from fxmorph.inductor.firing.operator_calls import defaults, further_keywords, name_of
from fxmorph.inductor.firing.small_program import In, Out, SmallProgram, Step, in_shape
from fxmorph.torchapi.dispatch import OpOverload, mutated_arguments, schema_of, tree_leaves
from fxmorph.torchapi.own_patterns import auto_functionalized

aten = torch.ops.aten


def near_misses(program: SmallProgram, words: Words, writes: bool) -> Iterator[SmallProgram]:
    """The likeliest to be overlooked first, of each sort in turn.

    ``writes``: the graph may write into its inputs, which it does at its end, and these may lie in memory as they
    like; exported programs have neither.
    """
    arguments, scalars, modules = _arguments(program, words), _scalars(program), _modules(program)
    sorts = [
        modules,
        modules,
        *([] if program.stated else [arguments, arguments]),  # a pattern's matcher compares those
        scalars,
        scalars,
        *([] if program.stated else [_keywords(program, words), _alike(program, words)]),
        _in_other_order(program),
        *([] if program.stated else [_other_targets(program, words)]),
        _dtypes(program),
        _values(program),
        _ranks(program),
        _dtypes_alone(program),
        _twins(program),
        _results(program),
        _sizes(program),
        *([arguments] if program.stated else [_arguments(squared(program), words)]),
        *([_writes(program), _written_between(program), _layouts(program)] if writes else []),
        merged_inputs(program),
        *([] if program.stated else [crossed(program)]),
        uniform(program),
        _viewed(program),
    ]
    for turn in itertools.zip_longest(*sorts):
        yield from (each for each in turn if each is not None and not _is_made_by_nobody(each))


def _is_made_by_nobody(program: SmallProgram) -> bool:
    return _shares_what_is_written(program) or _reads_what_was_written(program) or _has_misfit_weights(program)


def _reads_what_was_written(program: SmallProgram) -> bool:
    """Whether a call reads an input behind the write of it, which functionalised graphs have at their end."""
    written: set[In] = set()
    for step in program.steps:
        if not written.isdisjoint(v for v in tree_leaves([step.args, dict(step.kwargs)]) if isinstance(v, In)):
            return True
        if step.target is aten.copy_.default and isinstance(step.args[0], In):
            written.add(step.args[0])
    return False


def _has_misfit_weights(program: SmallProgram) -> bool:
    """Whether a norm has weights of another shape than it normalises, or wider ones than its input: its function
    refuses those, and its operator may not.
    """
    for step in program.steps:
        if not isinstance(step.target, OpOverload) or "norm" not in name_of(step.target):
            continue
        names = [a.name for a in schema_of(step.target).arguments]
        given = dict(zip(names, step.args, strict=False)) | dict(step.kwargs)
        held = {n: program.inputs[v.at] for n, v in given.items() if isinstance(v, In)}
        weights = [spec for n, spec in held.items() if n in ("weight", "bias")]
        shape = given.get("normalized_shape")
        if isinstance(shape, list) and any(list(spec.shape) != shape for spec in weights):
            return True
        if "input" in held and any(spec.dtype not in (held["input"].dtype, "float32") for spec in weights):
            return True
    return False


def _shares_what_is_written(program: SmallProgram) -> bool:
    """Whether what a functionalised call writes is read by anything else: engines make it for the call alone."""
    for step in program.steps:
        if step.target is auto_functionalized:
            written = {name for _, name in mutated_arguments(step.args[0])}
            held = [v for k, v in step.kwargs if k in written]
            reads = [v for s in program.steps for v in tree_leaves([s.args, [v for _, v in s.kwargs]])]
            if any([*reads, *program.outputs].count(v) > 1 for v in held if isinstance(v, (In, Out))):
                return True
    return False


def _said(program: SmallProgram, what: str) -> SmallProgram:
    return replace(program, made=f"{program.made}, {what}")


def _arguments(program: SmallProgram, words: Words) -> Iterator[SmallProgram]:
    """Other arguments of each step in turn: keywords and defaults given and left out, other dims, steps, factors."""
    streams = [respelled(program, words, i) for i in range(len(program.steps))]
    for turn in itertools.zip_longest(*streams):
        for number, other in enumerate(turn):
            if other is not None and not (program.stated and _more_keywords(other, program)):
                step = other.steps[number]
                given = [repr(a) for a in step.args if not isinstance(a, (In, Out))]
                given += [f"{k}={v!r}" for k, v in step.kwargs]
                yield _said(other, f"call {number} with {', '.join(given) or 'other operands'}"[:80])


def _alike(program: SmallProgram, words: Words) -> Iterator[SmallProgram]:
    """Calls of one operator that have the same arguments, all of them otherwise: two orders that are to undo each
    other, two dims that are to be one.
    """
    for number, step in enumerate(program.steps):
        same = [i for i, s in enumerate(program.steps) if s.target == step.target and s.args[1:] == step.args[1:]]
        if len(same) < 2 or same[0] != number or tree_leaves([v for v in step.args[1:] if isinstance(v, (In, Out))]):
            continue
        for other in respelled(program, words, number):
            args, kwargs = other.steps[number].args[1:], other.steps[number].kwargs
            if other.inputs == program.inputs and not any(isinstance(v, (In, Out)) for v in tree_leaves(list(args))):
                steps = tuple(
                    replace(s, args=(*s.args[:1], *args), kwargs=kwargs) if i in same else s
                    for i, s in enumerate(program.steps)
                )
                said = f"calls {' and '.join(map(str, same))} with {', '.join(map(repr, args)) or 'defaults'}"
                yield _said(replace(program, steps=steps), said[:80])


def _keywords(program: SmallProgram, words: Words) -> Iterator[SmallProgram]:
    """A call of a function of torch with a keyword more, behind those that it has."""
    for number, step in enumerate(program.steps):
        if step.op == "call_module" or isinstance(step.target, OpOverload):
            continue
        for name, value in further_keywords(step.target, len(step.args), [k for k, _ in step.kwargs], words):
            more = replace(step, kwargs=(*step.kwargs, (name, value)))
            yield _said(_stepped(program, number, more), f"call {number} with {name}={value} too")


def _written_out(program: SmallProgram) -> Iterator[SmallProgram]:
    """With the defaults of all calls of torch's functions written out, by name."""
    steps = []
    for step in program.steps:
        named = [k for k, _ in step.kwargs]
        whole = step.op == "call_module" or isinstance(step.target, OpOverload) or step.target is operator.getitem
        more = {} if whole else defaults(step.target, len(step.args), named)
        steps.append(replace(step, kwargs=(*step.kwargs, *more.items())))
    if tuple(steps) != program.steps:
        yield _said(replace(program, steps=tuple(steps)), "defaults written out")


def _more_keywords(other: SmallProgram, program: SmallProgram) -> bool:
    """Whether a call has a keyword more: Inductor's matcher looks at none that a search function does not name."""
    pairs = zip(other.steps, program.steps, strict=True)
    return any({k for k, _ in new.kwargs} - {k for k, _ in old.kwargs} for new, old in pairs)


def _dtypes(program: SmallProgram) -> Iterator[SmallProgram]:
    """All floating-point inputs of another type."""
    floats = [i for i, s in enumerate(program.inputs) if getattr(torch, s.dtype).is_floating_point]
    for dtype in _other_dtypes(program):
        inputs = tuple(_as(s, dtype) if i in floats else s for i, s in enumerate(program.inputs))
        if floats and inputs != program.inputs:
            yield _said(replace(program, inputs=inputs), f"inputs of {dtype}")


def _other_targets(program: SmallProgram, words: Words) -> Iterator[SmallProgram]:
    """Another call that the pass names in the place of one, with the same arguments: what it takes for alike."""
    for number, step in enumerate(program.steps):
        if step.target in words.targets and step.op != "call_module":
            for other in words.targets:
                if type(other) is type(step.target) and other != step.target:
                    changed = replace(step, target=other)
                    yield _said(_stepped(program, number, changed), f"call {number} is {name_of(other)}")


def _in_other_order(program: SmallProgram) -> Iterator[SmallProgram]:
    """Tensors of a list in another order, one of them twice, one of them missing."""
    for number, step in enumerate(program.steps):
        for place, value in enumerate(step.args):
            if not isinstance(value, list) or len(value) < 2 or not all(isinstance(v, (In, Out)) for v in value):
                continue
            first, second, *rest = value
            for other in ([second, first, *rest], [first, first, *rest], value[:-1], value[::-1]):
                if other != value:
                    changed = replace(step, args=(*step.args[:place], other, *step.args[place + 1 :]))
                    yield _said(_stepped(program, number, changed), f"call {number}: other tensors in its list")


def _dtypes_alone(program: SmallProgram) -> Iterator[SmallProgram]:
    """One input of another type than the others."""
    if len(program.inputs) < 2:
        return
    for dtype in _other_dtypes(program)[:4]:
        for i, spec in enumerate(program.inputs):
            if spec.dtype != dtype and dtype != "bfloat16":
                yield _said(_input(program, i, _as(spec, dtype)), f"input {i} of {dtype}")


def _other_dtypes(program: SmallProgram) -> tuple[str, ...]:
    """Of a pattern whose author gave example inputs those of models: nobody means it for whole numbers, nor for
    float64 unless an example has it.
    """
    if not program.stated:
        return ("int64", "float16", "bool", "float64", "int32", "bfloat16", "uint8")
    wide = ("float64",) if any(s.dtype == "float64" for s in program.inputs) else ()
    return ("float16", "bfloat16", "float32", *wide)


def _as(spec: InputSpec, dtype: str) -> InputSpec:
    kind = getattr(torch, dtype)
    fill = spec.fill if kind.is_floating_point or not spec.fill.startswith("pos") else "normal"
    return replace(spec, dtype=dtype, fill=fill)


def _input(program: SmallProgram, at: int, spec: InputSpec) -> SmallProgram:
    return replace(program, inputs=(*program.inputs[:at], spec, *program.inputs[at + 1 :]))


def _values(program: SmallProgram) -> Iterator[SmallProgram]:
    """Where a small number that is added counts, and where rounding to whole numbers is a tie."""
    plain = [
        i for i, s in enumerate(program.inputs) if s.fill == "normal" and getattr(torch, s.dtype).is_floating_point
    ]
    for i in plain:
        yield _said(_input(program, i, replace(program.inputs[i], fill="small")), f"input {i} is small")
    if plain:
        halves = (replace(s, fill="halves") if i in plain else s for i, s in enumerate(program.inputs))
        yield _said(replace(program, inputs=tuple(halves)), "inputs are halves")


def _results(program: SmallProgram) -> Iterator[SmallProgram]:
    """An inner result, or an input that is read, is a result too; the last one is a result twice over."""
    for number in range(len(program.steps) - 1):
        if Out(number) not in program.outputs:
            yield _said(replace(program, outputs=(*program.outputs, Out(number))), f"call {number} a result too")
    last = program.outputs[0]
    for number in range(len(program.steps) - 1):
        yield _said(replace(program, outputs=(Out(number), last)), f"call {number} a result first")


def _sizes(program: SmallProgram) -> Iterator[SmallProgram]:
    ranks = max((len(s.shape) for s in program.inputs), default=0)
    for d in range(ranks):
        for size in (1, 0):
            for some in (range(len(program.inputs)), [None]) if size else ([None],):
                for only in some:
                    inputs = tuple(
                        _resized(s, d - ranks, size) if only is None or i == only else s
                        for i, s in enumerate(program.inputs)
                    )
                    if inputs != program.inputs:
                        which = "inputs" if only is None else f"input {only}"
                        yield _said(replace(program, inputs=inputs), f"size {d - ranks} of {which} is {size}")


def _ranks(program: SmallProgram) -> Iterator[SmallProgram]:
    """One input with a dimension more or less than it has; one size throughout."""
    for i, spec in enumerate(program.inputs):
        if spec.shape:
            yield _said(_reshaped(program, i, (3, *spec.shape)), f"input {i} has a dimension more")
            if len(program.inputs) > 1 and len(spec.shape) > 1:
                yield _said(_reshaped(program, i, spec.shape[1:]), f"input {i} has a dimension less")
            if len(spec.shape) == 2 and any(s.op == "call_module" for s in program.steps):
                square = (spec.shape[0], spec.shape[1], spec.shape[1])  # channels may be either of the last
                yield _said(_reshaped(program, i, square), f"input {i} has its last dimension twice")
    if any(len(s.shape) > 1 for s in program.inputs):
        yield squared(program)


def _reshaped(program: SmallProgram, at: int, shape: tuple[int, ...]) -> SmallProgram:
    return _input(program, at, in_shape(program.inputs[at], shape))


def _twins(program: SmallProgram) -> Iterator[SmallProgram]:
    """A call once more beside itself: with a number of another type, which makes it another call, or as it is, so
    that what it reads has two users.
    """
    added = Out(len(program.steps))
    for number, step in enumerate(program.steps):
        if step.target is operator.getitem:
            continue
        for other, what in (*_almost(step), (step, "twice")):
            twin = replace(program, steps=(*program.steps, other), outputs=(*program.outputs, added))
            yield _said(twin, f"call {number} {what}")
            if other != step:
                yield _said(_within(twin), f"call {number} {what}, of whole numbers, neither a result")


def _within(program: SmallProgram) -> SmallProgram:
    """The program on whole numbers, with a call that keeps the dtype between each result and what is returned."""
    at_aten = any(isinstance(s.target, OpOverload) for s in program.steps)
    negate = aten.neg.default if at_aten else torch.neg
    behind = tuple(Step("call_function", negate, (out,)) for out in program.outputs)
    outputs = tuple(Out(len(program.steps) + i) for i in range(len(behind)))
    inputs = tuple(_as(s, "int64") if getattr(torch, s.dtype).is_floating_point else s for s in program.inputs)
    return replace(program, inputs=inputs, steps=(*program.steps, *behind), outputs=outputs)


def _almost(step: Step) -> Iterator[tuple[Step, str]]:
    """A call with a number that is equal and of another type."""
    for place, value in enumerate(step.args[1:], 1):
        other: int | float | None = None
        if isinstance(value, int) and not isinstance(value, bool):
            other = float(value)
        elif isinstance(value, float) and value == int(value):
            other = int(value)
        if other is not None:
            changed = replace(step, args=(*step.args[:place], other, *step.args[place + 1 :]))
            yield changed, f"beside one with {other!r} for {value!r}"


def _modules(program: SmallProgram) -> Iterator[SmallProgram]:
    """Modules that are the program's own, and one that is called on something else as well."""
    if any(s.op == "call_module" for s in program.steps) and not program.flat:
        yield _said(replace(program, flat=True), "modules at the top")
    for number, step in enumerate(program.steps):
        read = next((v for v in tree_leaves([step.args]) if isinstance(v, In)), None)
        if step.op != "call_module" or read is None:
            continue
        double = Step("call_function", operator.mul, (read, 2))
        again = replace(step, args=(Out(len(program.steps)), *step.args[1:]))
        steps, outputs = (*program.steps, double, again), (*program.outputs, Out(len(program.steps) + 1))
        yield _said(replace(program, steps=steps, outputs=outputs), f"the module of call {number} called twice")


def squared(program: SmallProgram) -> SmallProgram:
    """One size throughout, so that dimensions can be taken for one another."""
    square = (in_shape(s, [4] * len(s.shape)) for s in program.inputs)
    return _said(replace(program, inputs=tuple(square)), "all sizes are 4")


def conditions(program: SmallProgram) -> Iterator[SmallProgram]:
    """What a pass may ask for before it fires: sizes, dtypes, parameters in the place of inputs, results."""
    yield squared(program)
    yield from _written_out(program)
    yield from itertools.islice(_dtypes(program), 3)
    yield from uniform(program)
    for i, spec in enumerate(program.inputs[1:], 1):
        if not spec.constant:
            yield _said(_input(program, i, replace(spec, constant=True)), f"input {i} is a parameter")
    yield from itertools.islice(_results(program), 2)
    yield from itertools.islice(_layouts(program), 2)
    if program.steps:
        twice = replace(program, steps=(*program.steps, program.steps[-1]))
        yield _said(replace(twice, outputs=(Out(len(program.steps) - 1), Out(len(program.steps)))), "twice")


def _resized(spec: InputSpec, dim: int, size: int) -> InputSpec:
    if -dim > len(spec.shape):
        return spec
    shape = list(spec.shape)
    shape[dim] = size
    return in_shape(spec, shape)


def _layouts(program: SmallProgram) -> Iterator[SmallProgram]:
    for i, spec in enumerate(program.inputs):
        if len(spec.shape) > 1:
            flipped = torch.empty(spec.shape[::-1], dtype=getattr(torch, spec.dtype), device="meta")
            other = spec_for(flipped.permute(*reversed(range(len(spec.shape)))), spec.fill, spec.constant)
            yield _said(_input(program, i, other), f"input {i} laid out in reverse")


def uniform(program: SmallProgram) -> Iterator[SmallProgram]:
    """An input is 0 or 1 throughout, which passes that fold constants know."""
    if not any(isinstance(s.target, OpOverload) for s in program.steps):
        return
    for value in (0, 1):
        for i, spec in enumerate(program.inputs):
            options = (("dtype", getattr(torch, spec.dtype)),)
            full = Step("call_function", aten.full.default, (list(spec.shape), value), options)
            made = program.mapped(lambda ref, i=i: _behind(ref, i))  # type: ignore[misc]
            yield _said(without_unused(replace(made, steps=(full, *made.steps))), f"input {i} is {value} throughout")


def _behind(ref: In | Out, at: int) -> In | Out:
    """A reference in a program that has a step more in front, whose result is read where input ``at`` was."""
    return Out(ref.at + 1) if isinstance(ref, Out) else Out(0) if ref.at == at else ref


def _viewed(program: SmallProgram) -> Iterator[SmallProgram]:
    """What a step reads is seen through a view as well, made before it and returned: a later write shows there."""
    if not any(isinstance(s.target, OpOverload) for s in program.steps):
        return
    for number, step in enumerate(program.steps):
        for read in dict.fromkeys(v for v in tree_leaves([step.args]) if isinstance(v, Out)):
            view = Step("call_function", aten.unsqueeze.default, (read, 0))
            moved = program.mapped(lambda ref, n=number: _after(ref, n))  # type: ignore[misc]
            steps = (*moved.steps[:number], view, *moved.steps[number:])
            outputs = (*moved.outputs, Out(number))
            yield _said(replace(moved, steps=steps, outputs=outputs), f"a view beside call {number}")


def _after(ref: In | Out, number: int) -> In | Out:
    """A reference in a program that has a step more at ``number``."""
    return Out(ref.at + 1) if isinstance(ref, Out) and ref.at >= number else ref


def _writes(program: SmallProgram) -> Iterator[SmallProgram]:
    """At the end an input is written, as functionalised graphs do; at torch level it is written in place."""
    at_aten = any(isinstance(s.target, OpOverload) for s in program.steps)
    for i, spec in enumerate(program.inputs):
        if spec.constant:
            continue
        if at_aten:
            value = Step("call_function", aten.full_like.default, (In(i), 1))
            write = Step("call_function", aten.copy_.default, (In(i), Out(len(program.steps))))
            steps: tuple[Step, ...] = (*program.steps, value, write)
        else:
            steps = (*program.steps, Step("call_method", "add_", (In(i), 1)))
        # fx takes methods that write for dead code where nothing reads what they return.
        outputs = program.outputs if at_aten else (*program.outputs, Out(len(steps) - 1))
        yield _said(replace(program, steps=steps, outputs=outputs), f"input {i} is written at the end")


def _written_between(program: SmallProgram) -> Iterator[SmallProgram]:
    """At torch's level: what a call read is written behind it, before its result is read."""
    if any(isinstance(s.target, OpOverload) for s in program.steps):
        return
    for number, step in enumerate(program.steps[:-1]):
        for read in dict.fromkeys(v for v in tree_leaves([step.args]) if isinstance(v, (In, Out))):
            if isinstance(read, In) and program.inputs[read.at].constant:
                continue
            write = Step("call_method", "add_", (read, 1))
            moved = program.mapped(lambda ref, n=number + 1: _after(ref, n))  # type: ignore[misc]
            steps = (*moved.steps[: number + 1], write, *moved.steps[number + 1 :])
            outputs = (*moved.outputs, Out(number + 1))
            yield _said(replace(moved, steps=steps, outputs=outputs), f"what call {number} read is written behind it")


def _scalars(program: SmallProgram) -> Iterator[SmallProgram]:
    """Numbers in the place of a step's are other ones; a tensor beside them is a number."""
    for number, step in enumerate(program.steps):
        if step.target is operator.getitem:
            continue  # no tracer counts the results of a call from the end
        for place, value in enumerate(step.args):
            if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
                for other in (-value, value + 1, 2.5 if isinstance(value, float) else value - 1):
                    if other != value:
                        changed = replace(step, args=(*step.args[:place], other, *step.args[place + 1 :]))
                        yield _said(_stepped(program, number, changed), f"call {number}: {value} is {other}")
            elif isinstance(value, list) and all(isinstance(v, int) for v in value) and len(value) > 1:
                for other_list in _other_lists(value):
                    changed = replace(step, args=(*step.args[:place], other_list, *step.args[place + 1 :]))
                    yield _said(_stepped(program, number, changed), f"call {number}: {value} is {other_list}")
        for keyword, value in step.kwargs:
            if isinstance(value, float | int) and not isinstance(value, bool):
                kwargs = tuple((k, v + 1 if k == keyword else v) for k, v in step.kwargs)
                changed = replace(step, kwargs=kwargs)
                yield _said(_stepped(program, number, changed), f"call {number}: {keyword} is {value + 1}")


def _other_lists(value: list[int]) -> Iterator[list[int]]:
    rotated = [*value[1:], value[0]]
    cancelling = [1, -1, *([0] * (len(value) - 2))]
    for other in (rotated, value[::-1], [*value[:-1], value[-1] + 1], cancelling):
        if other != value:
            yield other


def _stepped(program: SmallProgram, number: int, step: Step) -> SmallProgram:
    return without_unused(replace(program, steps=(*program.steps[:number], step, *program.steps[number + 1 :])))
