"""What AOTAutograd does before, between and around graphs: tracing, the partitioner, runtime wrappers.

None of it can be left out, so each part is done by us instead: the finding goes with the guilty one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.model import Kind
from fxmorph.torchapi.collected_metadata import metadata_lie
from fxmorph.torchapi.decompose import python_decomposition, python_decompositions
from fxmorph.torchapi.plain_partition import CHOICE, CLASSES, CUTTING, MIN_CUT, RNG, RNG_NOTICE
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.torchapi.plain_runtime import graph_wrappers_that_work, overlaps_overlooked, wrappers_that_work
from fxmorph.torchapi.traced_function import Followed, Step, first_wrong_step, operators_followed, tracing_watched
from fxmorph.torchapi.unseen_passes import graph_functions
from fxmorph.triage.blame.culprit import NUMBERS, PLAIN_PARTS, UNWRAPPING, redo_of
from fxmorph.triage.blame.probe import Answer, Held, Missing, Probe, present

#: Stages that are no passes, no decompositions and no code.
AROUND_GRAPHS = (Stage.AOT, Stage.FUNCTIONALIZATION, Stage.RUNTIME_WRAPPERS, Stage.PARTITIONER)
_METADATA = "functionalization.run_functionalized_fw_and_collect_metadata"
#: What has an answer that we can give too, or is no part of a program's meaning.
_DECISIONS = (
    "functionalization._check_if_mutation_can_be_in_graph",
    "functionalization.InputAliasInfo/mutation_type",
    "runtime_wrappers.ViewAndMutationMeta/__post_init__",
    "functionalization.disable_autocast",
    "functionalization.create_synthetic_base_metadata",
    "functionalization.compute_overlapping_inputs",
    "functionalization.ViewMetaSequence",
    "functionalization.gen_alias_from_base",
    "functionalization.FunctionalTensor/to",
    "functionalization._get_mutation_counters",
    "runtime_wrappers._compute_indices_of_inps_to_detach",
    "functionalization.set_partitioner_tag_must_be_in_forward",
    "functionalization.set_partitioner_tag_must_be_in_backward",
    "functionalization.set_partitioner_tag_is_backward",
    NUMBERS,
)
#: What a step of the tracing belongs to, by the name of what makes it.
_TRACERS: Mapping[Step, str] = {
    Step.FUNCTION: "functionalization.fn_prepped_for_autograd",
    Step.JOINT: "functionalization.create_joint",
    Step.FUNCTIONALIZED: "functionalization.create_functionalized_fn",
    Step.FRESH: "functionalization.maybe_to_fresh_input",
    Step.WRITTEN: "functionalization.apply_in_graph_mutations",
    Step.WRAPPED: "runtime_wrappers.EffectTokensWrapper",
    Step.TRACED: "aot.graph_capture",
    Step.CLEANED: "aot.dead_code_elimination",
}


def blame_around(probe: Probe, bare: Held) -> Blame:
    """The part to blame for what shows under ``bare``, where no pass and no decomposition runs."""
    for step in (_decisions, blame_partitioner, _outer_wrappers, _inner_wrappers):
        with contextlib.suppress(Missing):
            if (found := step(probe, bare)) is not None:
                return found
    try:
        return _tracing(probe, bare)
    except Missing as error:
        return Blame(Stage.AOT, "aot.graph_capture", False, (f"tracing cannot be watched in this torch: {error}",), ())


def blame_told(probe: Probe, bare: Held) -> Blame | None:
    """What AOTAutograd says of a program before it traces it, where eager contradicts it."""
    try:
        with present(tracing_watched) as seen:
            if probe.ask(bare) is not Answer.SHOWS:
                return None
    except Missing:
        return None
    with contextlib.suppress(Exception):  # what is not traced may not run
        if lie := metadata_lie(seen):
            return _lied(probe, lie)
    return None


def with_overlaps(probe: Probe, held: Held) -> tuple[Answer, list[str]]:
    """The probe's answer, and pairs of inputs that share elements of which AOTAutograd makes two memories."""
    try:
        with present(overlaps_overlooked) as pairs:
            return probe.ask(held), pairs
    except Missing:
        return probe.ask(held), []


def blame_overlooked(probe: Probe, pairs: Sequence[str], *evidence: str) -> Blame:
    """Of a graph that takes one memory for two any order of what it does seems right, whichever unit chooses it."""
    said = f"{pairs[0]} share elements, one is written, and they are not made views of one base"
    unit = "functionalization.compute_overlapping_inputs"
    if _goes(probe, Held(), PLAIN_PARTS[unit]):  # in eager it may not show
        return _confirmed(probe, unit, *evidence, said, f"gone where {PLAIN_PARTS[unit]}")
    return _confirmed(probe, "runtime_wrappers.merge_view_inputs", *evidence, said)


def _lied(probe: Probe, lie: str, *evidence: str) -> Blame:
    return _confirmed(probe, _METADATA, *evidence, f"what it says of the program is not so in eager: {lie}")


# -- what is decided before and while tracing --------------------------------


def _decisions(probe: Probe, bare: Held) -> Blame | None:
    """A decision about the program, which all that comes after it goes by."""
    for unit in _DECISIONS:
        if _goes(probe, bare, PLAIN_PARTS[unit]):
            return _confirmed(probe, unit, f"gone where {PLAIN_PARTS[unit]}")
    return None


# -- the partitioner ---------------------------------------------------------


def blame_partitioner(probe: Probe, bare: Held, whatever_is_saved: bool = False) -> Blame | None:
    """The partitioner, or the half of it that is to blame.

    ``whatever_is_saved``: only where the finding goes with all that can be saved, and with nothing but inputs.
    """
    gone = []
    for part in (Plain.NOTHING_SAVED, Plain.EVERYTHING_SAVED):
        if _goes(probe, bare, part):
            gone.append(part)
        elif whatever_is_saved:
            return None
    if not gone:
        return None
    evidence = [f"gone where {part}" for part in gone]
    for name in (RNG_NOTICE, RNG, CLASSES):
        part = PLAIN_PARTS[f"partitioner.{name}"]
        if _goes(probe, bare, part):
            return _confirmed(probe, f"partitioner.{name}", *evidence, f"gone where {part}")
    default = _goes(probe, bare, Plain.DEFAULT_PARTITION)
    evidence.append(f"with default_partition, which computes less again: {'gone' if default else 'still there'}")
    halves = {f"partitioner.{MIN_CUT}/{CHOICE}": Plain.CHOICE, f"partitioner.{MIN_CUT}/{CUTTING}": Plain.CUTTING}
    goes = [unit for unit, part in halves.items() if _goes(probe, bare, part)]
    # With what torch chooses a cut of ours is right: it is not the choice, though another one would hide it.
    unit = goes[-1] if goes else f"partitioner.{MIN_CUT}"
    evidence += [f"gone where {halves[u]}" for u in goes]
    if unit == f"partitioner.{MIN_CUT}/{CUTTING}":
        with present(lambda: graph_functions(Stage.PARTITIONER)) as functions:
            probe.ask(bare)
        for function in functions:
            if probe.ask(replace(bare, function=function)) is Answer.GONE:
                evidence.append(f"gone where {function.name} does nothing")
                off = Held(function=function)
                return _confirmed(probe, f"{Stage.PARTITIONER}.{function.name}", *evidence, held=off)
    found = _confirmed(probe, unit, *evidence)
    return found if default else replace(found, redo=())


def _goes(probe: Probe, bare: Held, *parts: Plain) -> bool:
    return probe.ask(bare.with_plain(*parts)) is Answer.GONE


# -- runtime wrappers --------------------------------------------------------


def _outer_wrappers(probe: Probe, bare: Held) -> Blame | None:
    """Wrappers around what is compiled: they are wrong with the program itself inside, too."""
    if probe.ask(bare.with_plain(Plain.NO_EFFECTS)) is not Answer.SHOWS:
        return None
    seen = f"still there where {Plain.NO_EFFECTS}"
    if not _goes(probe, bare, Plain.PROGRAM):
        return _wrapper_of_arguments(probe, bare, seen)
    for unit in ("_apply_input_mutations", "_replay_output_aliases", ""):
        name = f"runtime_wrappers.RuntimeWrapper{unit and '/'}{unit}"
        if _goes(probe, bare, PLAIN_PARTS[name]):
            return _confirmed(probe, name, seen, f"gone where {PLAIN_PARTS[name]}")
    _, pairs = with_overlaps(probe, bare)
    if pairs:
        return blame_overlooked(probe, pairs, seen)
    more = "still there with a runtime wrapper of ours, which is told what to write and to alias"
    return _confirmed(probe, _METADATA, seen, more, f"gone where {Plain.PROGRAM}")


def _wrapper_of_arguments(probe: Probe, bare: Held, seen: str) -> Blame | None:
    """One of the wrappers that change the arguments, where all that is inside of it is the program."""
    if probe.ask(bare.with_plain(Plain.OUTERMOST)) is not Answer.GONE:
        return None
    with present(wrappers_that_work) as names:
        probe.ask(bare)
    at_work = [n for n in names if n]
    if not at_work:
        return None
    said = f"still there where {Plain.PROGRAM}"
    return _confirmed(probe, f"runtime_wrappers.{at_work[-1]}", seen, said, f"gone where {Plain.OUTERMOST}")


def wrapped_wrongly(probe: Probe) -> Blame | None:
    """The wrapper that changes the arguments, where compiled code says that it is given others than it was made for."""
    unit = "runtime_wrappers.AOTDispatchAutograd"
    if _goes(probe, Held(), PLAIN_PARTS[unit]):
        return _confirmed(probe, unit, f"gone where {PLAIN_PARTS[unit]}")
    with present(wrappers_that_work) as names:
        probe.ask(Held())
    at_work = [name for name in names if name]
    if not at_work:
        return None
    said = "inputs are others, or laid out otherwise, than where the code for them was made"
    return Blame(Stage.RUNTIME_WRAPPERS, f"runtime_wrappers.{at_work[-1]}", False, (said,), ())


def _inner_wrappers(probe: Probe, bare: Held) -> Blame | None:
    """Wrappers around one graph, and the autograd function that calls two."""
    for unit in ("runtime_wrappers.AOTDispatchSubclassWrapper", "runtime_wrappers.AOTDispatchAutograd"):
        if _goes(probe, bare, PLAIN_PARTS[unit]):
            return _confirmed(probe, unit, f"gone where {PLAIN_PARTS[unit]}")
    with present(graph_wrappers_that_work) as names:
        probe.ask(bare)
    for name in names:
        held = replace(bare, wrapper=name)
        if probe.ask(held) is Answer.GONE:
            gone = f"gone where {name} does nothing"
            return Blame(Stage.RUNTIME_WRAPPERS, f"runtime_wrappers.{name}", True, (gone,), ())
    return None


# -- tracing -----------------------------------------------------------------


def _tracing(probe: Probe, bare: Held) -> Blame:
    """The step from the program to a graph that changes what is computed."""
    with present(tracing_watched) as seen:
        answer = probe.ask(bare)
    dynamo = replace(probe, config=replace(probe.config, backend="eager")).ask(Held())
    before = "shows with no pass, no decomposition of Inductor's and no partitioner"
    evidence = [before, f"with backend eager: {dynamo}"]
    redo = ('torch.compile(fn, backend="eager")  # gone: Dynamo without AOTAutograd',) if dynamo is Answer.GONE else ()
    step, laid_out = None, Kind.STRIDE in probe.accused
    if answer is Answer.SHOWS:
        try:
            lie, step = metadata_lie(seen), first_wrong_step(seen, laid_out)
        except Exception as error:  # what is not traced may not run: tokens, subclasses, symbols for arguments
            evidence.append(f"what was traced does not run by itself: {type(error).__name__}")
        else:
            if lie:
                return _lied(probe, lie, *evidence)
    if step is None:
        evidence.append("no step of the tracing is seen to change what is computed")
        return Blame(Stage.AOT, "aot.graph_capture", False, tuple(evidence), redo)
    if step is Step.NONE:
        evidence.append("every step of the tracing computes what the program does")
        return _confirmed(probe, "runtime_wrappers.RuntimeWrapper", *evidence)
    unit = _TRACERS[step]
    if step is Step.FUNCTION and not seen.joint:
        unit = "functionalization.fn_input_mutations_to_outputs"
    what = "computes something else, or lays it out otherwise," if laid_out else "computes something else"
    evidence.append(f"the program {what} from where it is made {step}")
    # A write that has not reached a tensor reaches it where the same function is run, not traced.
    if step in (Step.TRACED, Step.FUNCTIONALIZED) and _goes(probe, bare, PLAIN_PARTS[UNWRAPPING]):
        return _confirmed(probe, UNWRAPPING, *evidence, f"gone where {PLAIN_PARTS[UNWRAPPING]}")
    followed = operators_followed(seen, laid_out) if step in (Step.FUNCTIONALIZED, Step.FUNCTION) else Followed()
    if followed.lost and step is Step.FUNCTIONALIZED:
        decomposed = python_decomposition(followed.lost)
        unit = f"{Stage.DECOMPOSITION if decomposed else Stage.FUNCTIONALIZATION}.{followed.lost}"
        lost = f"what is written through {followed.lost}" if followed.through else f"what {followed.lost} gave"
        evidence.append(f"the graph has no value that is {lost}")
        if followed.custom:
            unit = "functionalization.auto_functionalized"
            evidence.append(f"{followed.custom} writes its arguments before that")
    elif (taken := _taken_apart(probe, followed.called, evidence)) is not None:
        return taken
    gone = _goes(probe, bare, Plain.NO_EFFECTS)
    if gone:
        evidence.append(f"gone where {Plain.NO_EFFECTS}")
    return Blame(Stage(unit.partition(".")[0]), unit, gone, tuple(evidence), redo)


def _taken_apart(probe: Probe, operators: Sequence[str], evidence: Sequence[str]) -> Blame | None:
    """An operator that is taken apart before its gradient is traced, which is that of the parts."""
    for name in operators:
        units = tuple(f"{Stage.DECOMPOSITION}.{each}" for each in python_decompositions(name))
        if units and probe.ask(Held(backend=True).without(*units)) is Answer.GONE:
            said = "gone where the operator is not taken apart in Python before autograd sees it"
            return Blame(Stage.DECOMPOSITION, units[0], True, (*evidence, said), (), units)
    return None


def _confirmed(probe: Probe, unit: str, *evidence: str, held: Held | None = None) -> Blame:
    """Compile with the part done by us, backend and all; in eager where the backend cannot do with it."""
    stage = Stage(unit.partition(".")[0])
    held = held or Held(plain=(PLAIN_PARTS.get(unit, Plain.PROGRAM),))
    answer, how = probe.ask(held), "compiled"
    if answer is not Answer.GONE:
        answer, how = probe.ask(replace(held, backend=True)), "graphs run in eager"
    last = f"where {held.plain[0] if held.plain else f'{unit} does nothing'}: {answer} ({how})"
    return Blame(stage, unit, answer is Answer.GONE, (*evidence, last), redo_of(stage, unit))
