"""What is to be said of a pass on one graph: text and numbers only, so that processes can hand it on."""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.core.units import Stage
from fxmorph.model import Kind, Level, Status, ValuePlan


@dataclass(frozen=True)
class PassResult:
    """One graph (``seed``, ``stage``, ``part``) and what the pass made of it.

    ``part`` is that of :class:`~fxmorph.inductor.stages.StageGraph`, "" where there is no graph.
    ``status``, ``kinds`` and ``reason`` judge the pair on values; ``outcome`` is that of the proof
    (``proved``, ``refuted``, ``unknown``, ``unsupported``, or "" where nothing was tried) with ``level``,
    ``method`` and ``assumptions``; ``unproved`` says why there is none.  Of a finding ``changes`` are the
    nodes that differ, ``inputs`` the values under ``plan``, and ``repro`` a script, "" where it would be large.
    """

    seed: str
    stage: Stage
    part: str
    fired: bool
    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    outcome: str = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    assumptions: tuple[str, ...] = ()
    unproved: str = ""
    plan: ValuePlan | None = None
    changes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    repro: str = ""
    nodes: int = 0
    seconds: float = 0.0
