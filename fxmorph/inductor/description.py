"""What there is to say about one unit: where it is written, what it matches, how to do without it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from fxmorph.inductor.inventory import Decomposition, Listed, PatternPass, unwrapped
from fxmorph.torchapi.lowerings import Lowering
from fxmorph.torchapi.optional_passes import Extra, NoopRule, Opted
from fxmorph.torchapi.patterns import Entry
from fxmorph.torchapi.pipelines import Step
from fxmorph.torchapi.switching import bisecting_call, disabling_variable, pattern_text, removing_statements, spelled

#: Lines of a pattern that are shown.
_PATTERN_LINES = 60


def describe(item: Listed) -> Iterator[str]:
    """Lines about a unit, ``what: text``."""
    unit = item.unit
    yield unit.name
    yield _row("stage", unit.stage)
    yield _row("kind", f"{unit.kind}{f' ({unit.note})' if unit.note else ''}")
    yield _row("default", "on" if unit.default else "off")
    if unit.flag:
        yield _row("turned on by", unit.flag)
    yield _row("device", unit.device)
    yield _row("alone in eager", "yes" if unit.eager else "no: it makes Inductor's IR")
    yield _row("module", unit.module)
    for what, function in functions_of(item.handle):
        where = _source(function)
        if where:
            yield _row(what, where)
    for row in _switches(item):
        yield _row("without it", row)
    yield from matches_of(item.handle)


def _row(what: str, text: str) -> str:
    return f"  {what + ':':16}{text}"


def functions_of(handle: Any) -> Iterator[tuple[str, Callable[..., Any] | None]]:
    """The functions of torch's that a unit is made of, each with what it is; some have no source."""
    match handle:
        case Step():
            yield "pass", handle.function
            yield "called by", handle.pipeline
        case Extra():
            yield "pass", handle.function
        case Opted():
            yield "fusion", handle.made_by
        case NoopRule():
            yield "condition", handle.condition
        case Decomposition():
            yield "decomposition", handle.function
        case Lowering():
            yield "lowering", handle.function
        case Entry() if handle.source is not None:
            yield "pattern", handle.source.search_fn
            yield "replacement", handle.source.replace_fn
            yield "extra check", handle.source.extra_check
        case Entry():
            yield "handler", handle.handler
            yield "extra check", handle.entry.extra_check


def _source(function: Any) -> str:
    """``file:line (name)``, "" where it has no source."""
    plain = unwrapped(function)
    try:
        file, line = inspect.getsourcefile(plain), inspect.getsourcelines(plain)[1]
    except (TypeError, OSError):
        return ""
    name = getattr(plain, "__name__", "")
    if name == "_return_true":  # the matcher's check where there is none
        return ""
    return f"{file}:{line} ({name})" if name != "<lambda>" else f"{file}:{line}"


def _switches(item: Listed) -> Iterator[str]:
    """How a person leaves the unit out: settings, variables, the bisector, a line of Python."""
    handle, unit = item.handle, item.unit
    if unit.flag:
        yield f"leave {unit.flag} out"
    if isinstance(handle, Step):
        for name in dict.fromkeys(handle.switches()):
            if name not in item.settings:
                yield f"torch._inductor.config.{name} = False"
        variable = disabling_variable(handle.name) if handle.observed else ""
        if variable:
            yield variable
    elif isinstance(handle, (Entry, PatternPass)):
        yield from _without_patterns(item)
    elif isinstance(handle, NoopRule):
        yield "from torch._inductor.fx_passes.post_grad import noop_registry"
        for operator in handle.operators:
            yield f"noop_registry.pop(torch.ops.{operator})"
    elif isinstance(handle, Decomposition):
        yield f"torch._inductor.decomposition.decompositions.pop(torch.ops.{handle.operator})"
    bisector = bisecting_call(unit.stage)
    if bisector:
        yield f"{bisector} (N = 0, 1, …)"


def _without_patterns(item: Listed) -> Iterator[str]:
    stage, _, own = item.unit.name.partition("/")[0].partition(".")
    if own.startswith("pass_patterns[") and stage in ("joint", "post_grad"):
        variable = disabling_variable(f"pass_pattern_{own[len('pass_patterns[') : -1]}")
        if variable:
            yield f"{variable} (the lists of that name in every stage)"
    if not item.settings:
        yield "torch._inductor.config.pattern_matcher = False (all patterns)"
    if isinstance(item.handle, Entry):
        yield from removing_statements(item.handle.entry)


def matches_of(handle: Any) -> Iterator[str]:
    """Lines that say what a unit looks for."""
    if isinstance(handle, Entry):
        yield _row("starts at", ", ".join(sorted({f"{op} {spelled(target)}" for op, target in handle.keys})))
        lines = pattern_text(handle.entry).splitlines()
        yield "  matches:"
        yield textwrap.indent("\n".join(lines[:_PATTERN_LINES]), "    ")
        if len(lines) > _PATTERN_LINES:
            yield f"    … {len(lines) - _PATTERN_LINES} more lines"
    elif isinstance(handle, PatternPass):
        for entry in handle.entries:
            yield _row("entry", entry.full_name)
    elif isinstance(handle, NoopRule):
        yield _row("operators", ", ".join(map(str, handle.operators)))
    elif isinstance(handle, Step):
        for condition in handle.conditions:
            yield _row("runs if", condition)
