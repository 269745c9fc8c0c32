"""Calls of torch's functions with a dimension by the name that numpy has for it, and with keywords behind that one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch

from fxmorph.inductor.firing.argument_values import Words
from fxmorph.inductor.firing.operator_calls import further_keywords
from fxmorph.inductor.firing.small_program import In, Misfit, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.torchapi.dispatch import aten_packet, schema_of

_X = tensor_spec((4, 6))


@functools.cache
def programs_by_numpy_names() -> Sequence[SmallProgram]:
    """For each function of torch with a dimension a program that calls it once alone and once with each keyword."""
    return tuple(_programs())


def _programs() -> Iterator[SmallProgram]:
    for name in sorted(dir(torch)):
        function = getattr(torch, name)
        if name.startswith("_") or not callable(function) or not _has_dimension(name):
            continue
        calls = [Step("call_function", function, (In(0),), (("axis", -1),))]
        for keyword in further_keywords(function, 1, ["axis"], Words()):
            calls.append(Step("call_function", function, (In(0),), (("axis", -1), keyword)))
        runs = [call for call in calls if _is_built(_program([call], name))]
        if runs:
            yield _program(runs, name)


def _has_dimension(name: str) -> bool:
    """Whether an operator of the name takes a tensor, and a dimension second, and needs no more."""
    packet = aten_packet(name)
    for overload in packet.overloads() if packet is not None else ():
        arguments = schema_of(getattr(packet, overload)).arguments
        needed = [a.name for a in arguments if not a.has_default_value()]
        names = [a.name for a in arguments]
        if names[:1] == ["self"] and "dim" in names and needed in (["self"], ["self", "dim"]):
            return True
    return False


def _program(calls: Sequence[Step], name: str) -> SmallProgram:
    return SmallProgram((_X,), tuple(calls), tuple(Out(i) for i in range(len(calls))), f"{name} along axis=")


def _is_built(program: SmallProgram) -> bool:
    try:
        build(program)
        return True
    except Misfit:
        return False
