"""Which stage and unit of the compiler a finding comes from, and whether it goes when that is switched off.

The finding is judged again, on its own kinds and by the same oracles, under compiles of which parts
are held back.  Where the graphs run in eager such a compile takes a tenth of a second, so the first
pass, pattern entry or decomposition that shows the finding is found by bisecting in about a second
(Zeller, "Yesterday, my program worked", 1999).  What only generated code shows is found with a
few real compiles (``fxmorph/triage/blame/generated_code.py``).
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.model import Kind
from fxmorph.torchapi.compiling import is_compiler_error
from fxmorph.torchapi.decompose import decomposed_gradient
from fxmorph.torchapi.disabling import decompositions_used
from fxmorph.torchapi.fake_layouts import layouts_compared
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.torchapi.plain_seeds import SEEDS
from fxmorph.torchapi.tracking import Group
from fxmorph.torchapi.unseen_passes import STAGES, graph_functions
from fxmorph.triage.blame.around_graphs import (
    blame_around,
    blame_overlooked,
    blame_partitioner,
    blame_told,
    with_overlaps,
    wrapped_wrongly,
)
from fxmorph.triage.blame.culprit import redo_of
from fxmorph.triage.blame.generated_code import blame_backend
from fxmorph.triage.blame.probe import Answer, Held, Missing, OutOfTime, Probe, first_step
from fxmorph.triage.blame.raised_in import fake_kernel, fake_kernel_named, raised_in

#: Twins of one fault that are switched off one after the other before giving up.
TWINS = 6
IN_EAGER = Held(backend=True)
_LAYOUT = frozenset({Kind.STRIDE, Kind.OFFSET})
_RAISED = frozenset({Kind.RAISES, Kind.COMPILE_ERROR})
#: What generated code says of an input that is not laid out as it was when that code was made, and of other numbers of
#: inputs.
_OF_INPUTS = ("op: input", "values to unpack (expected")
#: What autograd says of a gradient of another shape or dtype than its input.
_GRADIENT = re.compile(r"Function (\w+Backward\d*) returned an invalid gradient")
#: What puts the compiler's own random numbers in the place of eager's.
_OWN_NUMBERS = "joint.replace_random_passes"


def localize(probe: Probe, ladder_stage: str) -> Blame:
    """Blame for the finding that ``probe`` shows; ``ladder_stage`` is the first backend's that shows it."""
    try:
        if ladder_stage == Stage.DYNAMO and not _mended_behind_dynamo(probe):
            return _raised_in_decomposition(probe) or _seen_by_dynamo_alone()
        found = _behind_dynamo(probe)
    except OutOfTime as error:
        said = f"no time for more: {error}"
        raised = _by_signature(probe)
        return replace(raised, evidence=(*raised.evidence, said)) if raised else Blame(None, "", False, (said,))
    if not found.confirmed and probe.accused & _RAISED:
        with suppress(OutOfTime, Missing):
            return _by_what_is_raised(probe) or found
    if not found.unit and probe.accused <= _LAYOUT:
        return _by_fake_kernel(probe) or found
    return found


def _by_fake_kernel(probe: Probe) -> Blame | None:
    """Inductor lays out what it computes as fake kernels say: no proof, since a layout may be lost later as well."""
    if probe.apart or probe.crash or probe.spent:
        return None
    with layouts_compared() as wrong:
        probe.trial(probe.config).eager(probe.plan)
    said = "its fake kernel says another layout than its own kernel gives, on what the program gives it in eager"
    return fake_kernel(wrong[0], said) if wrong else None


def _seen_by_dynamo_alone() -> Blame:
    evidence = ("shows with backend eager, where Dynamo alone has seen the program",)
    return Blame(Stage.DYNAMO, Stage.DYNAMO, True, evidence, redo_of(Stage.DYNAMO, ""))


def _raised_in_decomposition(probe: Probe) -> Blame | None:
    """Dynamo asks decompositions, run on tensors without values, what operators return."""
    seen = probe.raised() if probe.accused & _RAISED else None
    found = raised_in(seen.raised_in) if seen is not None else None
    return found if found is not None and found.stage is Stage.DECOMPOSITION else None


def _by_what_is_raised(probe: Probe) -> Blame | None:
    """Whom the exception points to: no proof, since what raises may only be the first to see what is wrong."""
    seen = probe.raised()
    if seen is None:
        return None
    if (found := _wrong_gradient(seen.raised) or fake_kernel_named(seen.raised)) is not None:
        return found
    if seen.exception is not None and is_compiler_error(seen.exception):
        return raised_in(seen.raised_in)
    return wrapped_wrongly(probe) if any(said in seen.raised for said in _OF_INPUTS) else None


def _by_signature(probe: Probe) -> Blame | None:
    """Whom the frame points to that the finding's exception was raised in, where the compiler raised it."""
    if probe.signature is None or Kind.COMPILE_ERROR not in probe.accused:
        return None
    file, _, function = probe.signature.frame.removeprefix("torch/").rpartition(":")
    return raised_in([(file, function)])


def _wrong_gradient(raised: str) -> Blame | None:
    """The backward operator that autograd says is wrong, where Python takes it apart: with or without Inductor's
    decompositions its results are as those say.
    """
    named = _GRADIENT.search(raised)
    operator = decomposed_gradient(named[1]) if named else ""
    if not operator:
        return None
    unit = f"{Stage.DECOMPOSITION}.{operator}"
    said = f"autograd refuses what {operator} returns, which Python takes apart"
    return Blame(Stage.DECOMPOSITION, unit, False, (said,), redo_of(Stage.DECOMPOSITION, unit))


def _mended_behind_dynamo(probe: Probe) -> bool:
    """Whether graphs are right that were made of what Dynamo hands on, so that it is not to blame.

    Random numbers of a checkpointed region are drawn anew by backend eager, and once by AOTAutograd.
    """
    bare = replace(IN_EAGER.below(Group.PASS, 0), decompositions=None)
    return probe.ask(bare.with_plain(Plain.EVERYTHING_SAVED)) is Answer.GONE


def _behind_dynamo(probe: Probe) -> Blame:
    in_eager, overlooked = with_overlaps(probe, IN_EAGER)
    if overlooked and (found := blame_overlooked(probe, overlooked)).confirmed:
        return found
    if in_eager is Answer.SHOWS:
        found = _blame_graphs(probe)
        if found.confirmed:
            return found
        try:
            behind = blame_backend(probe)
        except OutOfTime:
            return found
        return behind if behind.confirmed else found
    found = _blame_drawing(probe) or blame_backend(probe)
    if in_eager is Answer.BROKEN and not found.confirmed and Kind.RAISES not in probe.accused:
        # What is wrong there makes eager graphs raise, where compiled ones give a wrong value.
        louder = replace(probe, accused=probe.accused | {Kind.RAISES}, signature=None)
        if louder.ask(IN_EAGER) is Answer.SHOWS:
            raising = _blame_graphs(louder)
            return raising if raising.confirmed else found
    return found


def _blame_drawing(probe: Probe) -> Blame | None:
    """What hands out seeds of the compiler's own random numbers: graphs in eager draw others, and without the whole
    pass eager's are drawn.
    """
    held = Held().with_plain(Plain.SEEDS)
    if not probe.config.own_numbers or probe.ask(held) is not Answer.GONE:
        return None
    return _confirmed(probe, Stage.JOINT, f"{_OWN_NUMBERS}/{SEEDS}", held, f"gone where {Plain.SEEDS}")


def _blame_graphs(probe: Probe) -> Blame:
    """The finding shows where Inductor's graphs run in eager."""
    bare = IN_EAGER.below(Group.PASS, 0)
    if probe.ask(bare) is not Answer.SHOWS:
        guilty = _blame_pass(probe)
        if not guilty.confirmed:  # passes go by what they are told of memory
            guilty = blame_told(probe, IN_EAGER) or guilty
        # Without that pass nothing is drawn by the compiler, whoever is wrong about what is.
        return (blame_partitioner(probe, IN_EAGER) if guilty.unit == _OWN_NUMBERS else None) or guilty
    found = _blame_unseen(probe, bare)
    if found is not None:
        return found
    undecomposed = probe.ask(replace(bare, decompositions=None))
    if undecomposed is not Answer.SHOWS:
        found = _blame_cut(probe, bare) or _blame_decomposition(probe, bare, undecomposed)
        if found is not None:  # without a view there is nothing that could be said wrongly of it
            return blame_told(probe, bare) or found
    return blame_around(probe, bare if undecomposed is Answer.BROKEN else replace(bare, decompositions=None))


# -- passes and pattern entries ----------------------------------------------


def _blame_pass(probe: Probe) -> Blame:
    """Bisect the steps that changed a graph; twins of the guilty one are switched off with it.

    Of one pass that two stages run, the one of the stage that defines it is named.
    """
    held, units, evidence, at_home = IN_EAGER, list[str](), list[str](), set[str]()
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
        if step.at_home:
            at_home.add(step.unit)
        held = held.without(step.unit)
    if not units:
        return Blame(Stage.AOT, "", False, ("shows in eager graphs, but no step brings it in",), ())
    unit = next((u for u in units if u in at_home and u.partition(".")[2] == units[0].partition(".")[2]), units[0])
    if len(units) > 1:
        evidence.append(f"the same fault comes in by {', '.join(u for u in units if u != unit)} too")
    found = _confirmed(probe, Stage(unit.partition(".")[0]), unit, Held().without(*units), *evidence)
    return _inside_of_pass(probe, found) if len(units) == 1 and found.confirmed and "/" not in unit else found


def _inside_of_pass(probe: Probe, found: Blame) -> Blame:
    """The same with the function over graphs named that the pass calls, where it goes without that one alone.

    Functions that work together are not told apart by leaving out one of them; those that another one calls work for
    it.
    """
    stage, _, name = found.unit.partition(".")
    if Stage(stage) not in STAGES:
        return found
    try:
        with graph_functions(Stage(stage), within=name) as functions:
            probe.ask(IN_EAGER)
        parts = [function for function in functions if function.outermost]
        without = {part: probe.ask(replace(IN_EAGER, function=part)) for part in parts}
    except OutOfTime:
        return found
    gone = [part for part, answer in without.items() if answer is Answer.GONE]
    if len(gone) != 1 or Answer.BROKEN in without.values():
        return found
    said = f"gone where {gone[0].module}.{gone[0].name} does nothing"
    return replace(found, unit=f"{found.unit}/{gone[0].name}", evidence=(*found.evidence, said))


def _blame_unseen(probe: Probe, bare: Held) -> Blame | None:
    """A pass that is no step: found by leaving out its stage, then each function over graphs that the stage calls."""
    if probe.ask(replace(bare, stages=STAGES)) is not Answer.GONE:
        return None
    for stage in STAGES:
        if probe.ask(replace(bare, stages=(stage,))) is not Answer.GONE:
            continue
        with graph_functions(stage) as functions:
            probe.ask(bare)
        said = f"gone without the stage {stage}, in which no pass that is observed changes the graph"
        for function in functions:
            if probe.ask(replace(bare, function=function)) is Answer.GONE:
                unit = f"{stage}.{function.name}"
                more = f"gone where {function.module}.{function.name} does nothing"
                return _confirmed(probe, stage, unit, Held(function=function), said, more)
        return Blame(stage, stage, True, (said,), ())
    return None


# -- decompositions ----------------------------------------------------------


def _blame_cut(probe: Probe, bare: Held) -> Blame | None:
    """The partitioner, where all decompositions together are right, whatever is saved for the backward pass.

    Without a decomposition other values are saved: what goes then is not of the decomposition.
    """
    found = blame_partitioner(probe, bare, whatever_is_saved=True)
    return found if found is not None and found.confirmed else None


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
