"""The functions of torch that a guilty unit's work is done by: where in its code to look first.

A spectrum of two runs (Jones and Harrold, "Empirical evaluation of the Tarantula automatic fault-localization
technique", ASE 2005), with the unit and without it, of the same program; what everyday programs make run as well says
least.
"""

from __future__ import annotations

from dataclasses import replace

from fxmorph.core.units import IN_CODE, Stage
from fxmorph.torchapi.functions_run import ordinary_compiles, telling
from fxmorph.triage.blame.probe import Held, OutOfTime, Probe


def functions_inside(probe: Probe, stage: Stage, gone: Held) -> tuple[str, ...]:
    """Functions of the stage that run in a compile of the probe's program and not where ``gone`` is held back from it.

    The most telling ones first; none where there is no time, or where programs run in processes of their own.
    """
    if probe.apart or probe.crash:
        return ()
    backend = stage not in IN_CODE
    try:
        run, without = (probe.functions(replace(held, backend=backend)) for held in (Held(), gone))
    except OutOfTime:
        return ()
    alone = [function for function in run if function not in without]
    return telling(alone, stage, ordinary_compiles()) if alone else ()
