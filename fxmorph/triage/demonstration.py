"""Runs a finding's program once more to see what it shows: values, error maps, graphs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.exhibit import (
    APART,
    EQUAL,
    MAP_SIDE,
    MOST_ELEMENTS,
    MOST_SLOTS,
    MOST_TEXT,
    NOT_FINITE,
    SHARED,
    Element,
    Exhibit,
    GraphPair,
    SlotExhibit,
)
from fxmorph.inductor.snapshots import pairs, recording
from fxmorph.judge.case import captured_graph
from fxmorph.judge.trial import LazyReference, SeedSubject, Trial
from fxmorph.model import SIZE_PLANS, Case, CaseResult, CompileConfig, Kind, Recipe, Seed, ValuePlan, digest
from fxmorph.programs.bits import same_bits
from fxmorph.programs.contents import differing, same_plain, shown
from fxmorph.programs.graph import print_graph
from fxmorph.programs.inputs import dtype_name
from fxmorph.programs.load import load_case, load_seed, staged
from fxmorph.programs.observe import Meta, Observation, Slot
from fxmorph.rewriting.recipes import replay_recipe
from fxmorph.rewriting.workbench import Workbench
from fxmorph.rules import Registry
from fxmorph.triage.conclusion import Investigated

#: Stages between which whole graphs can be seen.
_GRAPH_STAGES = ("pre_grad.", "joint.", "freezing.", "post_grad.")
#: What no second run in this process should try.
_DEADLY = frozenset({Kind.CRASH, Kind.TIMEOUT})


def with_exhibit(found: Investigated, case: Case, result: CaseResult, rules: Registry, clock: Clock) -> Investigated:
    """``found`` with what it shows as its exhibit; a part that fails is named there and left out."""
    if not found.program or _DEADLY & set(found.kinds):
        return found
    plan = result.shown_under or ValuePlan.SEED
    shown = Exhibit()
    with clock.activity("exhibit"), staged(case):
        for part in (_values, _guilty_graphs, _rewritten_graphs):
            try:
                shown = part(shown, found, case, plan, rules, clock)
            except Exception as error:  # a picture is no reason to lose a finding
                name, line = part.__name__.strip("_").replace("_", " "), next(iter(str(error).splitlines()), "")
                shown = replace(shown, trouble=(*shown.trouble, f"{name}: {type(error).__name__}: {line}"))
    return replace(found, exhibit=shown, seconds=(*found.seconds, *clock.take()))


def _trial(found: Investigated, case: Case, clock: Clock, folder: str) -> Trial:
    """The finding's own program, under its own configuration."""
    config = found.config
    meta = {"no_grad": config.get("no_grad", False), "calls": config.get("calls", 1)}
    file = Path(folder, f"program_{digest(found.program, 8)}.py")
    imports = "" if "from __future__" in found.program else "import torch\n"  # those with it are whole modules
    file.write_text(f"{imports}{found.program}\n\nMETA = {meta!r}\n", encoding="utf-8")
    seed = Seed(path=str(file), form="module", hash=digest(found.program))
    loaded = load_seed(seed, case.device, config.get("dtype", ""), case.context)
    compiled = CompileConfig.make(
        config.get("backend", "inductor"), config.get("compile"), config.get("inductor"), config.get("dynamo"),
        config.get("threads", 1),
    )  # fmt: skip
    return Trial(SeedSubject(loaded), compiled, 0, clock)


# -- values ------------------------------------------------------------------


def _values(shown: Exhibit, found: Investigated, case: Case, plan: ValuePlan, rules: Registry, clock: Clock) -> Exhibit:
    if plan in SIZE_PLANS:
        return replace(shown, trouble=(*shown.trouble, "values: seen at another size than the program's own"))
    if plan is ValuePlan.RANDOM:
        return replace(shown, trouble=(*shown.trouble, "values: random numbers differ from eager's by design"))
    plan = plan if plan is ValuePlan.AGAIN else ValuePlan.SEED  # the program makes the values of the others
    with tempfile.TemporaryDirectory() as folder:
        trial = _trial(found, case, clock, folder)
        eager, compiled = trial.eager(plan), trial.compiled(plan)
        reference = trial.reference(plan, eager)
        return replace(
            shown,
            slots=tuple(_slots(eager, compiled, reference)),
            relations=() if eager.raised or compiled.raised else tuple(_relations(eager, compiled)),
            raised=(eager.raised, compiled.raised) if eager.raised != compiled.raised else ("", ""),
        )


def _slots(eager: Observation, compiled: Observation, reference: LazyReference) -> list[SlotExhibit]:
    theirs = compiled.slots()
    shown = [_slot(slot, theirs[name], reference) for name, slot in eager.slots().items() if name in theirs]
    differing = [s for s in shown if s is not None]
    differing.sort(key=lambda s: -s.wrong)
    return differing[:MOST_SLOTS]


def _slot(eager: Slot, compiled: Slot, reference: LazyReference) -> SlotExhibit | None:
    """None where both sides are the same."""
    mine, theirs = _meta(eager.meta), _meta(compiled.meta)
    a, b = eager.value, compiled.value
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        same = mine == theirs and same_plain(a, b)
        return None if same else SlotExhibit(eager.name, mine or shown(a), theirs or shown(b))
    if a.layout != torch.strided or a.shape != b.shape or same_bits(a, b):
        return None if mine == theirs else SlotExhibit(eager.name, mine, theirs, a.numel())
    shadows = reference.shadows(eager.name)
    wide = shadows.lanes.get("wide") if shadows is not None else None
    wide = wide if wide is not None and wide.shape == a.shape else None
    wrong, cells, worst = compared(_numbers(a), _numbers(b), None if wide is None else _numbers(wide))
    return SlotExhibit(eager.name, mine, theirs, a.numel(), wrong, cells, worst)


def _meta(meta: Meta | None) -> str:
    if meta is None:
        return ""
    offset = f" offset {meta.offset}" if meta.offset else ""
    return f"{dtype_name(meta.dtype)}{list(meta.shape)} strides {list(meta.stride)}{offset}"


def _numbers(t: torch.Tensor) -> np.ndarray[Any, Any]:
    """As numpy, complex128, float64, int64 or bool."""
    t = t.detach().cpu()
    if t.is_complex():
        return t.to(torch.complex128).resolve_conj().numpy()
    return t.double().numpy() if t.is_floating_point() else t.numpy()


def compared(
    eager: np.ndarray[Any, Any], compiled: np.ndarray[Any, Any], reference: np.ndarray[Any, Any] | None
) -> tuple[int, tuple[tuple[float, ...], ...], tuple[Element, ...]]:
    """(number of elements that differ, error map, worst elements) of arrays of one shape.

    Errors of compiled values are against ``reference``, in fp64, where there is one, else against eager.
    """
    right = eager if reference is None else reference
    with np.errstate(all="ignore"):
        differ = ~((eager == compiled) | ((eager != eager) & (compiled != compiled)))
        off = _distance(right, compiled)
        own = _distance(right, eager)
    off = np.where(differ, off, 0.0)
    order = np.argsort(-np.where(np.isnan(off), np.inf, off), axis=None, kind="stable")[:MOST_ELEMENTS]
    places = [tuple(int(i) for i in np.unravel_index(k, off.shape)) for k in order if differ.flat[k]]
    worst = tuple(
        Element(
            at, _spell(eager[at]), _spell(compiled[at]), "" if reference is None else _spell(reference[at]),
            f"{off[at]:.3g}", "" if reference is None else f"{own[at]:.3g}",
        )
        for at in places
    )  # fmt: skip
    return int(differ.sum()), error_map(off), worst


def _distance(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Absolute difference as float64; Inf where only one of them is finite, 0 where they are equal."""
    if a.dtype == bool or b.dtype == bool:
        return np.asarray(a.astype(np.float64) != b.astype(np.float64), dtype=np.float64)
    gap = np.abs(a.astype(np.result_type(a, np.float64)) - b.astype(np.result_type(b, np.float64)))
    gap = np.where((a == b) | ((a != a) & (b != b)), 0.0, gap)
    return np.asarray(np.where(np.isnan(gap), np.inf, gap), dtype=np.float64)


def error_map(off: np.ndarray[Any, Any]) -> tuple[tuple[float, ...], ...]:
    """Largest errors of blocks, at most MAP_SIDE each way, as log10 (EQUAL, NOT_FINITE)."""
    if not off.size:
        return ()
    flat = off.reshape(-1, off.shape[-1]) if off.ndim > 1 else off.reshape(1, -1)
    rows, columns = (min(n, MAP_SIDE) for n in flat.shape)
    blocks = np.zeros((rows, columns))
    row = np.arange(flat.shape[0]) * rows // flat.shape[0]
    column = np.arange(flat.shape[1]) * columns // flat.shape[1]
    np.maximum.at(blocks, (row[:, None], column[None, :]), flat)
    return tuple(tuple(_cell(v) for v in line) for line in blocks.tolist())


def _cell(error: float) -> float:
    if error == 0:
        return EQUAL
    return NOT_FINITE if not np.isfinite(error) else round(float(np.log10(error)), 1)


def _spell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (float, complex)) else str(value)


def _relations(eager: Observation, compiled: Observation) -> Iterator[tuple[str, str, str]]:
    for what, mine, theirs in (
        ("shares memory with", eager.aliases, compiled.aliases),
        ("is the same object as", eager.identities, compiled.identities),
    ):
        for a, b in sorted(mine ^ theirs):
            yield f"{a} {what} {b}", *_yes((a, b), mine, theirs)
    if eager.structure != compiled.structure:
        yield "structure", eager.structure[:200], compiled.structure[:200]
    for objects in ("objects", "objects_after"):
        for place, a, b in differing(getattr(eager, objects), getattr(compiled, objects)):
            yield place, a[:200], b[:200]


def _yes(pair: tuple[str, str], mine: frozenset[Any], theirs: frozenset[Any]) -> tuple[str, str]:
    return (SHARED if pair in mine else APART), (SHARED if pair in theirs else APART)


# -- graphs ------------------------------------------------------------------


def _guilty_graphs(
    shown: Exhibit, found: Investigated, case: Case, plan: ValuePlan, rules: Registry, clock: Clock
) -> Exhibit:
    """The graph before and after the first step of the guilty unit that changed it."""
    if not found.unit.startswith(_GRAPH_STAGES) or plan in SIZE_PLANS:
        return shown
    plan = plan if plan is ValuePlan.AGAIN else ValuePlan.SEED
    with tempfile.TemporaryDirectory() as folder:
        trial = _trial(found, case, clock, folder)
        with recording() as recorder:
            trial.compiled(plan)
    for before, after in pairs(recorder.snapshots()):
        if after.unit == found.unit or found.unit.startswith(f"{after.unit}/"):
            by = GraphPair(f"{found.unit} ({after.stage})", found.unit, *map(_readable, (before, after)))
            return replace(shown, graphs=(*shown.graphs, _short(by)))
    return replace(shown, trouble=(*shown.trouble, f"graphs: {found.unit} was not seen to change one"))


def _readable(snapshot: Any) -> str:
    return readable(snapshot.graph_module)


def readable(gm: fx.GraphModule) -> str:
    """The graph as TORCH_LOGS and bug reports have it, with dtypes, shapes and strides where they are known."""
    try:
        text: str = gm.print_readable(print_output=False, include_stride=True)
    except (AttributeError, TypeError, RuntimeError):  # nodes without what is to be printed, or an older torch
        text = print_graph(gm.graph)
    return "\n".join(line.rstrip() for line in text.splitlines() if line.strip())


def _rewritten_graphs(
    shown: Exhibit, found: Investigated, case: Case, plan: ValuePlan, rules: Registry, clock: Clock
) -> Exhibit:
    """The seed's graph, and the variant that the recipe makes of it."""
    if not found.recipe:
        return shown
    loaded = load_case(case)
    captured = captured_graph(case, loaded, clock)
    bench = Workbench(captured.graph, captured.inputs, loaded.no_grad)
    before = print_graph(bench.graph)
    replay_recipe(bench, rules, Recipe.parse(found.recipe))
    pair = GraphPair("rewrites", found.recipe, before, print_graph(bench.graph))
    return replace(shown, graphs=(*shown.graphs, _short(pair)))


def _short(pair: GraphPair) -> GraphPair:
    cut: Callable[[str], str] = lambda text: text if len(text) <= MOST_TEXT else ""  # noqa: E731
    return replace(pair, before=cut(pair.before), after=cut(pair.after))
