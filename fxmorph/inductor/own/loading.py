"""A pass that was asked for, loaded and ready to be checked: stand-ins for missing operators first."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fxmorph.inductor.own.graph_source import GraphSource
from fxmorph.inductor.own.own_pass import OwnPass, load_pass, own_pass
from fxmorph.inductor.own.pass_request import PassRequest
from fxmorph.inductor.own.pass_stage import PassStage
from fxmorph.inductor.own.pass_verdict import Checker
from fxmorph.inductor.own.stub_operators import stub_namespaces
from fxmorph.prove.prover import Prover
from fxmorph.torchapi.devices import devices_at_hand
from fxmorph.torchapi.own_patterns import noting_replacements


def checker_of(
    request: PassRequest,
    prover: Prover,
    watched: Callable[[OwnPass], OwnPass] = lambda own: own,
    value: Any = None,
    said: Mapping[str, Any] | None = None,
) -> Checker:
    """Raises :class:`~fxmorph.inductor.own.call.PassError`.

    ``value`` is the pass where it is at hand already, and ``said`` its arguments.
    """
    stub_namespaces(request.stub_ops, _file_of(request))
    with noting_replacements() as noted, devices_at_hand():
        own = watched(load_pass(request) if value is None else own_pass(value, said=said))
        source = GraphSource(request.stage or PassStage.ANY, request.dynamic, request.inductor)
        return Checker(own, source, prover, noted, request.rtol)


def _file_of(request: PassRequest) -> Path | None:
    """Where the pass is written, without importing it."""
    where = request.where
    if where.endswith(".py"):
        return Path(where)
    with contextlib.suppress(Exception):  # its packages fail, which loading tells of
        spec = importlib.util.find_spec(where)
        return Path(spec.origin) if spec is not None and spec.origin else None
    return None
