"""Whether a pass can run here at all: it is tried on a graph of one call, in which there is nothing to rewrite."""

from __future__ import annotations

import traceback

import torch

from fxmorph.core.units import Stage
from fxmorph.inductor.firing.small_program import In, Out, SmallProgram, Step, build, tensor_spec
from fxmorph.inductor.own.own_pass import MalformedGraph, PassError, apply_pass
from fxmorph.inductor.own.pass_forms import OwnPass

_CALLS = (
    (Stage.POST_GRAD, torch.ops.aten.sin.default),
    (Stage.PRE_GRAD, torch.sin),
)


def require_runs(own: OwnPass) -> None:
    """Raises :class:`PassError` for a pass that raises on one call of ATen's and one of torch's alike."""
    raised = None
    for stage, function in _CALLS:
        step = Step("call_function", function, (In(0),))
        built = build(SmallProgram((tensor_spec((4, 6)),), (step,), (Out(0),)))
        try:
            apply_pass(own, built.gm, stage, lambda built=built: built.inputs().rebuild())  # type: ignore[misc]
            return
        except MalformedGraph:
            return  # that is judged
        except PassError:
            raise
        except Exception as error:
            raised = raised or error
    assert raised is not None
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(raised.__traceback__)]
    own_frames = [f for f in frames if "/torch/" not in f[0] and "/fxmorph/" not in f[0]]
    at = f"{own_frames[-1][0]}:{own_frames[-1][1]}: " if own_frames else ""
    said = " ".join(str(raised).split())[:300]
    raise PassError(
        f"{own.name} cannot run here: on a graph of one call, sin(x), it raises {at}{type(raised).__name__}: {said}; "
        "--arg, --setup and --context give a pass what it needs"
    )
