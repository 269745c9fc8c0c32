"""Which stage and unit of the compiler a finding comes from, and whether it goes when that is switched off.

The finding is judged again, on its own kinds and by the same oracles, under compiles of which parts
are held back.  Where the graphs run in eager such a compile takes a tenth of a second, so the first
pass, pattern entry or decomposition that shows the finding is found by bisecting in about a second
(Zeller, "Yesterday, my program worked", 1999).  What only generated code shows is found with a
few real compiles (``fxmorph/triage/blame/generated_code.py``).
"""

from __future__ import annotations

from dataclasses import replace

import torch

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.model import Kind
from fxmorph.torchapi.disabling import decompositions_used
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.eager_pipeline import graphs_in_eager
from fxmorph.torchapi.tracking import Group
from fxmorph.triage.blame.culprit import redo_of
from fxmorph.triage.blame.generated_code import blame_backend
from fxmorph.triage.blame.probe import Answer, Held, OutOfTime, Probe, first_step

#: Twins of one fault that are switched off one after the other before giving up.
TWINS = 6
#: Kinds that AOTAutograd's runtime decides, whatever the graphs compute.
_RUNTIME_KINDS = frozenset({Kind.ALIAS, Kind.IDENTITY, Kind.REQUIRES_GRAD, Kind.STRUCTURE})
IN_EAGER = Held(backend=True)
PARTITIONER = "aot.min_cut_rematerialization_partition"


def localize(probe: Probe, ladder_stage: str) -> Blame:
    """Blame for the finding that ``probe`` shows; ``ladder_stage`` is the first backend's that shows it."""
    if ladder_stage == Stage.DYNAMO:
        evidence = ("shows with backend eager, where Dynamo alone has seen the program",)
        return Blame(Stage.DYNAMO, Stage.DYNAMO, True, evidence, redo_of(Stage.DYNAMO, ""))
    try:
        return _behind_dynamo(probe)
    except OutOfTime as error:
        return Blame(None, "", False, (f"no time for more: {error}",))


def _behind_dynamo(probe: Probe) -> Blame:
    if probe.ask(IN_EAGER) is Answer.SHOWS:
        found = _blame_graphs(probe)
        if found.confirmed:
            return found
        try:
            behind = blame_backend(probe)
        except OutOfTime:
            return found
        return behind if behind.confirmed else found
    return blame_backend(probe)


def _blame_graphs(probe: Probe) -> Blame:
    """The finding shows where Inductor's graphs run in eager."""
    bare = IN_EAGER.below(Group.PASS, 0)
    if probe.ask(bare) is not Answer.SHOWS:
        return _blame_pass(probe)
    undecomposed = probe.ask(replace(bare, decompositions=None))
    if undecomposed is not Answer.SHOWS:
        found = _blame_decomposition(probe, bare, undecomposed)
        if found is not None:
            return found
    if probe.ask(replace(bare, partitioner=True)) is Answer.GONE:
        return _confirmed(
            probe, Stage.AOT, PARTITIONER, Held(partitioner=True),
            "gone where forward and backward both run the whole joint graph",
        )  # fmt: skip
    return _blame_aot(probe, bare)


def _blame_aot(probe: Probe, bare: Held) -> Blame:
    """AOTAutograd itself: its graph, or what its runtime does around the graph."""
    right = bool(probe.accused & _RUNTIME_KINDS) or _graphs_compute_what_eager_does(probe, bare)
    part = "runtime_wrappers" if right else "graph_capture"
    seen = "the graphs compute eager's values" if right else "the graphs do not compute eager's values"
    dynamo = replace(probe, config=replace(probe.config, backend="eager")).ask(Held())
    before = "shows with no pass, no decomposition of Inductor's and no partitioner"
    evidence = (before, seen, f"with backend eager: {dynamo}")
    gone = dynamo is Answer.GONE
    redo = ('torch.compile(fn, backend="eager")  # gone: Dynamo without AOTAutograd',) if gone else ()
    return Blame(Stage.AOT, f"aot.{part}", gone, evidence, redo)


def _graphs_compute_what_eager_does(probe: Probe, bare: Held) -> bool:
    """Whether every value that eager shows is among what the graphs give or were given."""
    values: list[torch.Tensor] = []

    def keep(seen: object) -> None:
        values.extend(t.detach().clone() for t in tree_leaves(seen) if isinstance(t, torch.Tensor))

    with graphs_in_eager(lambda _, given: keep(given), keep):
        probe.ask(replace(bare, backend=False))
    slots = probe.trial(probe.config).eager(probe.plan).slots().values()
    wanted = [s.value for s in slots if isinstance(s.value, torch.Tensor)]
    return all(any(_alike(w, v) for v in values) for w in wanted)


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    same = a.numel() == b.numel() and a.dtype == b.dtype and a.layout == b.layout == torch.strided
    return same and torch.allclose(a.reshape(-1), b.reshape(-1), 1e-3, 1e-5, equal_nan=True)


# -- passes and pattern entries ----------------------------------------------


def _blame_pass(probe: Probe) -> Blame:
    """Bisect the steps that changed a graph; twins of the guilty one are switched off with it."""
    held, units, evidence = IN_EAGER, list[str](), list[str]()
    while len(units) < TWINS:
        try:
            answer, steps = probe.watch(held)
            passes = steps[Group.PASS]
            changes = [i for i, step in enumerate(passes) if step.changed]
            if answer is not Answer.SHOWS or not changes:
                break
            at = first_step(probe, held, Group.PASS, changes)
        except OutOfTime:
            if not units:
                raise
            evidence.append("no time to look for twins of it")
            break
        step = passes[at]
        where = f" at {step.detail}" if step.detail else ""
        evidence.append(f"first shows after {step.unit}{where}, step {at} of {len(passes)}, graphs run in eager")
        units.append(step.unit)
        held = held.without(step.unit)
    if not units:
        return Blame(Stage.AOT, "", False, ("shows in eager graphs, but no step brings it in",), ())
    stage = Stage(units[0].partition(".")[0])
    if len(units) > 1:
        evidence.append(f"the same fault comes in by {', '.join(units[1:])} too")
    return _confirmed(probe, stage, units[0], Held().without(*units), *evidence)


# -- decompositions ----------------------------------------------------------


def _blame_decomposition(probe: Probe, bare: Held, without_any: Answer) -> Blame | None:
    """The innermost decomposition without which the finding is gone.

    An operator that decomposes into a guilty one would do as well, and is called before it.  Where
    no single one will do although the finding is gone ``without_any``, several are guilty, of
    different outputs for instance.
    """
    with decompositions_used() as used:
        probe.ask(bare)
    units = list(dict.fromkeys(reversed(used)))
    for unit in units:
        if probe.ask(bare.without(unit)) is Answer.GONE:
            evidence = "gone in eager graphs where the operator is not decomposed"
            return _confirmed(probe, Stage.DECOMPOSITION, unit, Held().without(unit), evidence)
    guilty = units
    if without_any is not Answer.GONE or probe.ask(bare.without(*guilty)) is not Answer.GONE:
        return None
    for unit in units:
        fewer = [u for u in guilty if u != unit]
        if probe.ask(bare.without(*fewer)) is Answer.GONE:
            guilty = fewer
    evidence = f"gone in eager graphs where none of {', '.join(guilty)} is decomposed"
    return _confirmed(probe, Stage.DECOMPOSITION, guilty[0], Held().without(*guilty), evidence)


# -- confirmation ------------------------------------------------------------


def _confirmed(probe: Probe, stage: Stage, unit: str, held: Held, *evidence: str) -> Blame:
    """Compile with the unit switched off, backend and all; in eager where the backend cannot do without it."""
    off = tuple(sorted(held.off | (held.decompositions or frozenset())))
    try:
        answer, how = probe.ask(held), "compiled"
        if answer is Answer.BROKEN or (answer is Answer.SHOWS and stage is Stage.DECOMPOSITION):
            answer, how = probe.ask(replace(held, backend=True)), "graphs run in eager"
    except OutOfTime:
        return Blame(stage, unit, False, (*evidence, "no time to see it gone"), redo_of(stage, unit), off)
    said = {Answer.GONE: "gone", Answer.SHOWS: "still there", Answer.BROKEN: "does not compile"}[answer]
    last = f"with {unit} switched off: {said} ({how})"
    return Blame(stage, unit, answer is Answer.GONE, (*evidence, last), redo_of(stage, unit), off)
