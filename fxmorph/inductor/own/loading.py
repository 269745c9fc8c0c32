"""A pass that was asked for, loaded and ready to be checked: stand-ins for missing operators first."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fxmorph.inductor.own.call import PassError
from fxmorph.inductor.own.graph_source import GraphSource
from fxmorph.inductor.own.named_object import evaluated
from fxmorph.inductor.own.own_pass import OwnPass, load_pass, own_pass
from fxmorph.inductor.own.pair_judge import PairJudge
from fxmorph.inductor.own.pass_request import PassRequest
from fxmorph.inductor.own.pass_stage import PassStage
from fxmorph.inductor.own.pass_verdict import Checker
from fxmorph.inductor.own.prelude import Assumption, Prelude, assumption
from fxmorph.inductor.own.stub_operators import giving_way, stub_namespaces
from fxmorph.prove.prover import Prover
from fxmorph.torchapi import edge_dialect
from fxmorph.torchapi.compiling import compile_modes
from fxmorph.torchapi.devices import devices_at_hand, missing
from fxmorph.torchapi.own_patterns import noting_replacements


def checker_of(
    request: PassRequest,
    prover: Prover,
    watched: Callable[[OwnPass], OwnPass] = lambda own: own,
    value: Any = None,
    said: Mapping[str, Any] | None = None,
    prelude: Sequence[Any] = (),
    assume: Sequence[Any] = (),
) -> Checker:
    """Raises :class:`~fxmorph.inductor.own.call.PassError`.

    ``value`` is the pass where it is at hand already, and ``said`` its arguments; ``prelude`` and ``assume`` go with
    those of the request, and are texts as these are, or objects.
    """
    if why := missing(request.device) or _unknown_mode(request):
        raise PassError(why)
    stub_namespaces(request.stub_ops, _file_of(request))
    with noting_replacements() as noted, devices_at_hand(), giving_way():
        own = watched(load_pass(request) if value is None else own_pass(value, said=said))
        before = _prelude(request, (*request.prelude, *prelude), (*request.assume, *assume))
        source = GraphSource(
            request.stage or PassStage.ANY, request.dynamic, request.inductor, request.compile, request.device
        )
        return Checker(own, PairJudge(prover, request.rtol), source, noted, before)


def _unknown_mode(request: PassRequest) -> str:
    """Why there is no ``mode`` as the request names one, or ""."""
    mode = str(dict(request.compile).get("mode") or "default")
    return "" if mode in compile_modes() else f"--compile mode={mode}: want {', '.join(compile_modes())}"


def _prelude(request: PassRequest, passes: Sequence[Any], assumptions: Sequence[Any]) -> Prelude:
    edge = request.stage == PassStage.EDGE and edge_dialect.is_installed()
    return Prelude(
        [load_pass(each) if isinstance(each, str) else own_pass(each) for each in passes],
        [_assumption(each, request.where) for each in assumptions],
        edge,
    )


def _assumption(said: Any, where: str) -> Assumption:
    if isinstance(said, str):
        return assumption(evaluated(said, where), said)
    return assumption(said, getattr(said, "__name__", type(said).__name__))


def _file_of(request: PassRequest) -> Path | None:
    """Where the pass is written, without importing it."""
    where = request.where
    if where.endswith(".py"):
        return Path(where)
    with contextlib.suppress(Exception):  # its packages fail, which loading tells of
        spec = importlib.util.find_spec(where)
        return Path(spec.origin) if spec is not None and spec.origin else None
    return None
