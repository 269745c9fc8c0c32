"""Whether a pass can run here at all: it is tried on a graph of one call, in which there is nothing to rewrite."""

from __future__ import annotations

import functools
import traceback
from dataclasses import replace
from typing import Any

import torch

from fxmorph.core.said import said
from fxmorph.core.units import Stage
from fxmorph.core.versions import home_of
from fxmorph.inductor.firing.small_program import Built, In, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.own.call import stubs_wanted
from fxmorph.inductor.own.own_pass import MalformedGraph, PassError, apply_pass
from fxmorph.inductor.own.pass_forms import OwnPass
from fxmorph.inductor.own.prelude import LeftOut, Prelude

_X, _PARAMETER = tensor_spec((4, 6)), replace(tensor_spec((4, 6)), constant=True)
#: Calls of ATen's and of torch's, on an input alone, and with a parameter: some ask a module for its own.
_CALLS = (
    (Stage.POST_GRAD, torch.ops.aten.sin.default, (_X,)),
    (Stage.PRE_GRAD, torch.sin, (_X,)),
    (Stage.POST_GRAD, torch.ops.aten.mul.Tensor, (_X, _PARAMETER)),
)


def _rebuilt(built: Built) -> list[Any]:
    return built.inputs().rebuild()


def require_runs(own: OwnPass, prelude: Prelude) -> None:
    """Raises :class:`PassError` for a pass that raises on one call of ATen's and one of torch's alike."""
    raised = None
    for stage, function, given in _CALLS:
        step = Step("call_function", function, tuple(In(i) for i, _ in enumerate(given)))
        built = build(SmallProgram(given, (step,), (Out(0),)))
        inputs = functools.partial(_rebuilt, built)
        try:
            apply_pass(own, prelude.prepared(built.gm, stage, inputs), stage, inputs)
            return
        except (MalformedGraph, LeftOut):
            return  # that is judged, or told of
        except PassError:
            raise
        except Exception as error:
            raised = raised or error
    assert raised is not None
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(raised.__traceback__)]
    others = tuple(f"{home_of(package)}/" for package in ("torch", "fxmorph"))
    own_frames = [f for f in frames if not f[0].startswith(others)]
    at = f"{own_frames[-1][0]}:{own_frames[-1][1]}: " if own_frames else ""
    raise PassError(
        f"{own.name} cannot run here: on a graph of one call, sin(x), it raises {at}{said(raised, 300)}"
        + (stubs_wanted(raised) or "; --arg, --setup and --context give a pass what it needs")
    )
