"""Whether a candidate shows the same finding: same kinds, same exception, same guilty unit.

The guilty unit is kept by a compile without it, which must not show the finding.  Where Inductor's graphs
run in eager show it, that is done for every candidate; where only generated code does, after each pass
of the reduction that got somewhere.  (A minifier that only asks "does it still fail" goes over to other
failures: pytorch/torchdynamo 1811.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import IN_CODE, Stage
from fxmorph.model import Rung
from fxmorph.torchapi.compiling import no_interpreter
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.torchapi.scheduler_checks import CHECKED
from fxmorph.torchapi.tracking import Group
from fxmorph.triage.blame.around_graphs import AROUND_GRAPHS
from fxmorph.triage.blame.culprit import PLAIN_PARTS, SETTINGS
from fxmorph.triage.blame.generated_code import ALL, VECTORISED
from fxmorph.triage.blame.localize import IN_EAGER
from fxmorph.triage.blame.probe import Answer, Held, Probe
from fxmorph.triage.reduce.candidate import Candidate

#: Only AOTAutograd: no pass, no decomposition of Inductor's, no code.
BARE = replace(IN_EAGER.below(Group.PASS, 0), decompositions=None)


@dataclass(frozen=True)
class Showing:
    """Judges candidates at one rung.

    ``probe`` asks about a candidate.  It must show under ``held`` and not under ``gone`` (None: no unit is
    known).  ``again`` names the guilty unit of a candidate anew, where that is cheap; it is one of ``units``.
    """

    probe: Callable[[Candidate], Probe]
    rung: Rung
    held: Held
    gone: Held | None
    again: Callable[[Candidate], str] | None = None
    units: tuple[str, ...] = ()

    def shows(self, candidate: Candidate) -> bool:
        """Whether the candidate shows the finding; at the pass rung, with the same guilty unit."""
        probe = self.probe(candidate)
        if probe.ask(self.held) is not Answer.SHOWS:
            return False
        return self.rung is not Rung.PASS or self.gone is None or probe.ask(self.gone) is not Answer.SHOWS

    def same(self, candidate: Candidate) -> bool:
        """The dearer check: the unit is blamed again, or is seen to be needed by a compile without it."""
        if self.again is not None:
            return self.again(candidate) in self.units
        return self.gone is None or self.probe(candidate).ask(self.gone) is not Answer.SHOWS


def without_guilty(blame: Blame) -> Held | None:
    """What is held back for the finding to go; None where that is no part of a compile."""
    if blame.off:
        return ALL.without(*blame.off)
    setting = VECTORISED if blame.unit.startswith("codegen.CppVec") else blame.unit
    if setting in SETTINGS:
        return Held(settings=tuple(SETTINGS[setting].items()))
    if blame.unit in PLAIN_PARTS:
        return Held(plain=(PLAIN_PARTS[blame.unit],))
    function = blame.unit.removeprefix(f"{Stage.SCHEDULER}.")
    if function in CHECKED:
        return Held(mended=function)
    return ALL.below(Group.FUSION, 0) if blame.stage is Stage.SCHEDULER else None


def in_eager(
    start: Candidate, blame: Blame, probe: Callable[[Candidate], Probe], again: Callable[[Candidate], str]
) -> Showing | None:
    """Showing where Inductor's graphs run in eager; None where that does not show the finding of ``start``.

    Of what AOTAutograd or a decomposition did wrong no pass is run.
    """
    gone = without_guilty(blame) if blame.confirmed else None
    held = IN_EAGER
    if blame.confirmed and blame.stage is Stage.DECOMPOSITION:
        held = IN_EAGER.below(Group.PASS, 0)
    elif blame.confirmed and blame.stage in AROUND_GRAPHS:
        held = BARE
    if gone is not None:
        gone = replace(gone, upto=(*gone.upto, *held.upto), backend=True)
    units = (blame.unit, *blame.off) if blame.confirmed else ()
    named = bool(units) and blame.stage not in IN_CODE  # what only generated code tells is not told again here
    showing = Showing(probe, Rung.PASS, held, gone, again if named else None, units)
    return showing if showing.shows(start) else None


def interpreted(start: Candidate, blame: Blame, probe: Callable[[Candidate], Probe]) -> Showing | None:
    """Showing where kernels are interpreted, in no code that is compiled; None where that does not show ``start``."""
    if blame.stage is Stage.CODEGEN or probe(start).device != "cpu" or no_interpreter():
        return None
    gone = without_guilty(blame) if blame.confirmed else None
    gone = gone and gone.with_plain(Plain.KERNELS)
    showing = Showing(probe, Rung.IR, ALL.with_plain(Plain.KERNELS), gone)
    return showing if showing.shows(start) else None


def compiled(blame: Blame, probe: Callable[[Candidate], Probe], rung: Rung) -> Showing:
    """Showing in code that is generated and run, or under a milder backend."""
    return Showing(probe, rung, ALL, without_guilty(blame) if blame.confirmed else None)
