"""What only generated code shows: lowering, scheduler or code generation, with real compiles."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import CXX, Stage
from fxmorph.model import LAYOUT_KINDS, NUMERIC_KINDS
from fxmorph.torchapi.codegen_ops import operations_of_nodes, wrong_operations
from fxmorph.torchapi.noted_operations import Noted, operations_noted
from fxmorph.torchapi.plain_guards import DECISIONS
from fxmorph.torchapi.plain_parts import Plain
from fxmorph.torchapi.scheduler_checks import CHECKED, scheduler_watched
from fxmorph.torchapi.scheduler_steps import scheduler_steps
from fxmorph.torchapi.tracking import Group, Step
from fxmorph.triage.blame.culprit import PLAIN_PARTS, SETTINGS, redo_of
from fxmorph.triage.blame.probe import LOUD, Answer, Died, Held, OutOfTime, Probe, apart, first_step

ALL = Held()
#: Names of the IR's operations by FX node.
Operations = Mapping[str, Collection[str]]
VECTORISED = "codegen.CppVecKernel"
#: Reductions, right by themselves and wrong beside others.
_REDUCTION, _VECTOR_REDUCTION = "codegen.CppKernel.reduction", "codegen.CppVecKernel.reduction"
#: What is ours to write of vector kernels; vectors that are put together of single elements lie in tiles, too.
_OF_VECTORS = (_VECTOR_REDUCTION, "codegen.CppVecKernel._load_or_store_non_contiguous", "codegen.CppTile2DKernel")
#: Parts that a setting takes away.  Those of memory come before fusions and lowerings, which hide them; those
#: that only move what is fused or lowered come last.
_OF_MEMORY = tuple(
    f"scheduler.{n}" for n in ("memory_planning", "inplace_buffers", "allow_buffer_reuse", "reorder_for_peak_memory")
)
#: Makes index expressions of what lowerings say, whatever the lowering.
_PROPAGATION = "lowering.constant_and_index_propagation"
#: Keeps the roundings of 16-bit types that a fused kernel leaves out.
_ROUNDINGS = "lowering.emulate_precision_casts"
_LAST = tuple(unit for unit in SETTINGS if unit not in (VECTORISED, _PROPAGATION, _ROUNDINGS, *_OF_MEMORY))
#: What a conversion to another dtype is lowered as.
_CONVERSIONS = ("convert_element_type", "_to_copy")
#: The Python text around kernels; what makes a program's views of it comes before, which looks at what it returned.
_WRAPPER_TEXT = (
    "functionalization.gen_alias_from_base",
    "codegen.PythonPrinter",
    *(u for u in PLAIN_PARTS if u.startswith(("codegen.PythonWrapperCodegen", "codegen.MultiOutputLine"))),
)  # fmt: skip
_SIZES = "codegen.SizeVarAllocator"
_INDICES = (f"{_SIZES}/_simplify_with_ranges",)
#: Around the code: it says of inputs that kernels wrote to them, which eager kernels say themselves.
_AROUND = ("runtime_wrappers.ViewAndMutationMeta/__post_init__", "runtime_wrappers.RuntimeWrapper")
#: What may be overwritten is said by AOTAutograd, and done by the scheduler.
_DONATION = tuple(f"runtime_wrappers.collect_{graph}_donated_buffer_idxs" for graph in ("fw", "bw"))
_LAYOUT = ("lowering.layout_optimization", "lowering.comprehensive_padding")


@dataclass
class Kernels:
    """The finding's kernels, interpreted when they are first asked about, and once."""

    probe: Probe
    operations: Operations

    @functools.cached_property
    def interpreted(self) -> tuple[Answer, Noted]:
        """What shows of the finding, and what operations computed; nothing where kernels cannot be interpreted."""
        with operations_noted() as noted:
            answer = self.probe.ask(ALL.with_plain(Plain.KERNELS)) if self.probe.device == "cpu" else Answer.BROKEN
        return answer, noted

    def wrong_operations(self, node: str = "", scalar: bool = False) -> list[str]:
        """Those operations, of one FX node where it is named, whose code alone is wrong.

        On the CPU it runs in a process of its own, which it may end.  ``scalar``: what is written for single numbers
        is looked at too, where vectors of them are right; a loop of one has nothing else.
        """
        among = self.operations.get(node, ()) if node else set().union(*self.operations.values())
        noted, probe = self.interpreted[1], self.probe

        def wrong() -> list[str]:
            found = wrong_operations(noted, probe.config, probe.device, among)
            if found or not scalar or probe.device != "cpu":
                return found
            without_vectors = {**dict(probe.config.inductor), **SETTINGS[VECTORISED]}
            config = replace(probe.config, inductor=tuple(sorted(without_vectors.items())))
            return wrong_operations(noted, config, probe.device, among)

        if probe.device != "cpu":
            return wrong()
        try:
            return apart(wrong)
        except Died:
            return []


def blame_backend(probe: Probe) -> Blame:
    """The graphs are right in eager, or no pass was to blame: try the parts behind them."""
    found = _before_code(probe) if probe.device == "cpu" and not (probe.crash or probe.in_eager) else None
    if found is not None:
        return found
    with _Watched() as watched:
        answer, steps = probe.watch(ALL)
    if answer is not Answer.SHOWS:
        return Blame(Stage.CODEGEN, "", False, ("not seen again in a fresh compile",), ())
    kernels = Kernels(probe, watched.operations)
    return _behind_graphs(probe, watched, steps, kernels) or Blame(
        Stage.CODEGEN, "", False,
        ("graphs are right in eager, compiled they are wrong; no part that can be switched off explains it",), (),
    )  # fmt: skip


class _Watched(contextlib.ExitStack):
    """What is noted of compiles inside: operations of nodes, steps of the scheduler, and what is wrong with it."""

    def __enter__(self) -> _Watched:
        super().__enter__()
        self.operations: Operations = self.enter_context(operations_of_nodes())
        self.scheduling: Sequence[str] = self.enter_context(scheduler_steps())
        self.wrong: Mapping[str, str] = self.enter_context(scheduler_watched())
        return self


def _before_code(probe: Probe) -> Blame | None:
    """Whom interpreted kernels accuse, which take a tenth of a compile, where compiled ones bear it out."""
    quick = replace(probe, interpreted=True, last_gone=None)
    try:
        with _Watched() as watched:
            answer, steps = quick.watch(ALL)
        found = _behind_graphs(quick, watched, steps, None) if answer is Answer.SHOWS else None
    except OutOfTime:
        return None
    finally:
        probe.asked = quick.asked
    if found is None or not found.confirmed or quick.last_gone is None:
        return None
    try:
        if probe.ask(ALL) is not Answer.SHOWS or probe.ask(quick.last_gone) is not Answer.GONE:
            return None
    except OutOfTime:
        said = "seen where kernels are interpreted; no time to see it where they are compiled"
        return replace(found, confirmed=False, evidence=(*found.evidence, said))
    said = "the same where kernels are compiled and where they are interpreted"
    return _with_rounding(probe, replace(found, evidence=(*found.evidence, said)))


def _behind_graphs(
    probe: Probe, watched: _Watched, steps: Mapping[Group, Sequence[Step]], kernels: Kernels | None
) -> Blame | None:
    """The part that the finding goes without; ``kernels`` None: it shows where they are interpreted, whatever their
    code.
    """
    found = _pattern_to_ir(probe, steps[Group.PASS])
    if found is None and probe.accused <= LAYOUT_KINDS:
        found = _by_setting(probe, _LAYOUT)
    found = found or _scheduler(probe, watched.wrong)
    of_code = kernels if probe.device == "cpu" else None
    if of_code is not None:
        found = found or _vectorised(probe, of_code)
    found = found or _of_memory(probe)
    if of_code is not None:
        found = found or _cpp_compiler(probe, of_code)
    found = found or _fusion(probe, steps[Group.FUSION])
    found = found or _scheduling(probe, watched.scheduling)
    if of_code is not None:
        found = found or _kernels(probe, of_code)
    if probe.device == "cpu":
        found = found or _parts(probe, _WRAPPER_TEXT)
    found = found or _parts(probe, _INDICES) or _sizes(probe) or _parts(probe, _AROUND)
    found = found or _by_setting(probe, (_PROPAGATION,))
    found = found or _lowering(probe, steps[Group.LOWERING], kernels)
    found = found or _passes(probe, steps[Group.PASS])
    return found or _by_setting(probe, _LAST)


def _with_rounding(probe: Probe, found: Blame) -> Blame:
    """Blame that says, of kernels which are wrong where they are interpreted too, whether only their roundings are."""
    if not probe.accused & NUMERIC_KINDS:
        return found
    right = probe.right_in_fp64()
    said = {True: "right: what is wrong is how they round", False: "wrong too: it is no rounding", None: ""}[right]
    return replace(found, evidence=(*found.evidence, f"kernels executed in fp64 are {said}")) if said else found


def _pattern_to_ir(probe: Probe, passes: Sequence[Step]) -> Blame | None:
    """A pattern entry whose result is Inductor's IR, which eager graphs are run without."""
    from fxmorph.torchapi.patterns import entries

    to_ir = {e.full_name for e in entries() if e.kind == "lowering"}
    applied = list(dict.fromkeys(s.unit for s in passes if s.changed and s.unit in to_ir))
    if not applied or probe.ask(ALL.without(*applied)) is not Answer.GONE:
        return None
    for unit in applied:
        if probe.ask(ALL.without(unit)) is Answer.GONE:
            said = "graphs without the entry are right in eager"
            return _blame(Stage(unit.partition(".")[0]), unit, said, off=(unit,))
    together = f"gone only with all of {', '.join(applied)} switched off"
    return _blame(Stage.POST_GRAD, applied[0], together, off=tuple(applied))


def _by_setting(probe: Probe, units: Sequence[str]) -> Blame | None:
    for unit in units:
        setting = tuple(SETTINGS[unit].items())
        try:
            answer = probe.ask(Held(settings=setting))
        except ValueError:  # a setting that this release does not have
            continue
        if answer is Answer.GONE:
            return _blame(Stage(unit.partition(".")[0]), unit, f"gone with {dict(setting)}")
    return None


def _of_memory(probe: Probe) -> Blame | None:
    """Of buffers that are used again, which ones, who gave them away, or the text that does it."""
    found = _by_setting(probe, _OF_MEMORY)
    if found is None:
        return None
    reuses = found.unit in ("scheduler.allow_buffer_reuse", "scheduler.inplace_buffers")
    text = ("codegen.PythonWrapperCodegen/make_buffer_reuse", "codegen.buffer_reuse_key") if reuses else ()
    return _parts(probe, (*_DONATION, *text)) or found


def _cpp_compiler(probe: Probe, kernels: Kernels) -> Blame | None:
    """The C++ compiler, where kernels are right both interpreted and with its vectors left out.

    What it does depends on all that stands in a kernel: less fused or lowered hides it.
    """
    found = _parts(probe, (CXX,))
    if found is None or kernels.interpreted[0] is not Answer.GONE:
        return None
    return replace(found, evidence=(*found.evidence, f"gone where {Plain.KERNELS}, too"))


def _fusion(probe: Probe, fusions: Sequence[Step]) -> Blame | None:
    """The first pair whose fusion shows the finding."""
    if not fusions or probe.ask(ALL.below(Group.FUSION, 0)) is not Answer.GONE:
        return None

    step = fusions[first_step(probe, ALL, Group.FUSION, range(len(fusions)))]
    return _blame(Stage.SCHEDULER, step.unit, "gone without fusion", f"first shows with the fusion of {step.detail}")


def _scheduling(probe: Probe, steps: Sequence[str]) -> Blame | None:
    """A step of the scheduler that drops, orders or joins nodes."""
    for step in steps:
        if probe.ask(Held(scheduler_step=step)) is Answer.GONE:
            return _blame(Stage.SCHEDULER, f"scheduler.{step}", f"gone where {step} leaves nodes as they are")
    return None


def _kernels(probe: Probe, kernels: Kernels) -> Blame | None:
    """Kernels that are right where they are interpreted: what prints them is not."""
    unit = "codegen.CppKernel"
    if kernels.interpreted[0] is not Answer.GONE:
        return None
    said = f"gone where {Plain.KERNELS}: what is lowered and scheduled is right"
    wrong = kernels.wrong_operations(scalar=True)
    if wrong:
        more = f"code for the operation {wrong[0]} alone is wrong"
        return _blame(Stage.CODEGEN, _printer(probe.device, wrong[0]), said, more)
    if probe.ask(ALL.with_plain(Plain.KERNELS_IN_ORDER)) is Answer.SHOWS:
        return None  # whoever lets iterations read what others write: its lowering, or what fused it
    found = _parts(probe, (_REDUCTION,))
    if found is not None:
        return replace(found, evidence=(said, *found.evidence))
    if probe.ask(ALL.with_plain(Plain.INDICES)) is Answer.GONE:
        return _blame(Stage.CODEGEN, "codegen.CppPrinter", said, f"gone where {Plain.INDICES}")
    if probe.ask(ALL.with_plain(Plain.KERNELS_THAT_REDUCE)) is Answer.GONE:
        return _blame(Stage.CODEGEN, _REDUCTION, said, f"gone where {Plain.KERNELS_THAT_REDUCE}")
    return _blame(Stage.CODEGEN, unit, said, "code for each operation alone is right, and so are index expressions")


def _parts(probe: Probe, units: Sequence[str]) -> Blame | None:
    """The first of the parts that the finding goes without."""
    for unit in units:
        if probe.ask(ALL.with_plain(PLAIN_PARTS[unit])) is Answer.GONE:
            return _blame(Stage(unit.partition(".")[0]), unit, f"gone where {PLAIN_PARTS[unit]}")
    return None


def _sizes(probe: Probe) -> Blame | None:
    """Decisions about symbolic sizes, which are right of the sizes of the first call."""
    if probe.ask(Held(sizes=tuple(DECISIONS))) is not Answer.GONE:
        return None
    said = "gone where all that is decided about symbolic sizes is decided and guarded by us"
    for name in DECISIONS:
        if probe.ask(Held(sizes=(name,))) is Answer.GONE:
            return _blame(Stage.CODEGEN, f"{_SIZES}/{name}", said, f"gone where {name} alone is ours")
    return _blame(Stage.CODEGEN, _SIZES, said)


def _lowering(probe: Probe, lowerings: Sequence[Step], kernels: Kernels | None) -> Blame | None:
    """The first node, in the order of the graph, whose lowering shows the finding.

    Nodes behind it are given to eager kernels: what a guilty node computed stays wrong in them.
    """
    if not lowerings or probe.ask(ALL.below(Group.LOWERING, 0)) is not Answer.GONE:
        return None

    at = first_step(probe, ALL, Group.LOWERING, range(len(lowerings)))
    step = lowerings[at]
    said = f"first shows where {step.detail} is lowered and later nodes run eager kernels"
    answer = probe.ask(ALL.without(step.unit))
    last = f"with {step.unit} switched off: {answer} (compiled)"
    if answer is Answer.BROKEN:  # its eager kernel cannot take what Inductor hands it
        gone = next((k for k in range(at, -1, -1) if probe.ask(ALL.below(Group.LOWERING, k)) is Answer.GONE), None)
        if gone is not None:
            answer, last = Answer.GONE, f"gone where nodes from {lowerings[gone].detail} on run eager kernels"
            if LOUD & probe.accused:  # what raises otherwise with less lowered is the same fault
                step = lowerings[gone]
                said = f"raises where {step.detail} is lowered, whatever runs behind it"
    stage, unit, evidence = Stage.LOWERING, step.unit, [said, last]
    wrong = kernels.wrong_operations(step.detail) if kernels is not None else []
    if wrong:  # its lowering is right: what prints that lowering is not
        stage, unit = Stage.CODEGEN, _printer(probe.device, wrong[0])
        evidence.append(f"code for the operation {wrong[0]} alone is wrong")
    elif probe.accused & NUMERIC_KINDS and not any(name in step.unit for name in _CONVERSIONS):
        rounded = _by_setting(probe, (_ROUNDINGS,))
        if rounded is not None:  # not lowered, its result is stored, and rounded
            return replace(rounded, evidence=(*evidence, *rounded.evidence))
    return Blame(stage, unit, answer is Answer.GONE, tuple(evidence), redo_of(Stage.LOWERING, step.unit), (step.unit,))


def _scheduler(probe: Probe, wrong: Mapping[str, str]) -> Blame | None:
    """The first function of the scheduler that is seen to be wrong and whose mending mends the finding.

    What it loses, or lets through, shows in fusions, in memory that is used again, and in the order of kernels.
    What runs in a process of its own is not seen: then all that has a check is tried.
    """
    for function in CHECKED if probe.apart else wrong:
        if probe.ask(Held(mended=function)) is Answer.GONE:
            said = filter(None, [wrong.get(function), f"gone where what {function} does wrong is put right"])
            return _blame(Stage.SCHEDULER, f"scheduler.{function}", *said)
    return None


def _vectorised(probe: Probe, kernels: Kernels) -> Blame | None:
    """Vector kernels of the C++ backend, and the operation of which they are wrong where it is one."""
    found = _by_setting(probe, (VECTORISED,))
    if found is None:
        return None
    try:
        return _finer_than_vectors(probe, kernels, found)
    except OutOfTime:
        return replace(found, evidence=(*found.evidence, "no time to look for the operation"))


def _finer_than_vectors(probe: Probe, kernels: Kernels, found: Blame) -> Blame:
    wrong = kernels.wrong_operations()
    if not wrong:
        finer = _parts(probe, _OF_VECTORS)
        if finer is None and probe.ask(ALL.with_plain(Plain.KERNELS_THAT_REDUCE)) is Answer.GONE:
            more = f"gone where {Plain.KERNELS_THAT_REDUCE}"
            finer = replace(found, unit=_VECTOR_REDUCTION, evidence=(*found.evidence, more))
        return finer or found
    more = f"vectorised code for the operation {wrong[0]} alone is wrong"
    return replace(found, unit=_printer("vector", wrong[0]), evidence=(*found.evidence, more))


def _printer(target: str, operation: str) -> str:
    """The unit that prints an operation of the IR: in C++, in vectorised C++, or in Triton."""
    prefix = {"cpu": "Cpp", "vector": "CppVec"}.get(target, "Triton")
    of_kernel = operation.startswith(("reduction", "store"))
    return f"codegen.{prefix}{'Kernel' if of_kernel else 'Overrides'}.{operation}"


def _passes(probe: Probe, passes: Sequence[Step]) -> Blame | None:
    """The first pass after which generated code shows what its graph alone does not.

    The graph is right, and yet nothing is wrong without the pass: the backend is not ready for what it makes.
    """
    changes = [i for i, step in enumerate(passes) if step.changed]
    if not changes or probe.ask(ALL.below(Group.PASS, 0)) is not Answer.GONE:
        return None

    step = passes[first_step(probe, ALL, Group.PASS, changes)]
    if probe.ask(ALL.without(step.unit)) is not Answer.GONE:
        return None
    evidence = f"the graph after {step.unit} is right in eager, its generated code is not; gone without the pass"
    return _blame(Stage(step.unit.partition(".")[0]), step.unit, evidence, off=(step.unit,))


def _blame(stage: Stage, unit: str, *evidence: str, off: tuple[str, ...] = ()) -> Blame:
    """A blame that was seen to be right by taking the unit away."""
    return Blame(stage, unit, True, evidence, redo_of(stage, unit), off)
