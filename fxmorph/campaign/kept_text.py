"""A program that a campaign keeps as a seed file: its own source, or the graph that was judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from fxmorph.core.clock import Clock
from fxmorph.judge.case import make_variant
from fxmorph.model import Case, CaseResult, CompileConfig, Recipe, ValuePlan
from fxmorph.programs.capture import CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable
from fxmorph.programs.inputs import InputSet, Unsupported
from fxmorph.programs.load import LoadedSeed, SeedFailed, staged
from fxmorph.programs.source import drive_text, inputs_text, seed_file_text
from fxmorph.rewriting.claims import Inapplicable, Unsound
from fxmorph.rules import Registry
from fxmorph.torchapi.new_memory import garbage_in_new_memory


def kept_text(case: Case, result: CaseResult, rules: Registry, clock: Clock) -> str:
    """The seed file of a case that was judged, with the settings of its compile; "" where no one graph is the program.

    Inputs have the case's values; what ran in inference mode is run without gradients.
    """
    try:
        with staged(case) as loaded, garbage_in_new_memory():
            program = _program(case, result, loaded, rules, clock)
    except (CaptureFailed, Inapplicable, SeedFailed, Unprintable, Unsound, Unsupported):
        return ""
    if case.context != "autocast":
        return program
    return f"{program.rstrip()}\n\n\n{drive_text(f'torch.autocast({case.device!r}, torch.bfloat16)')}"


def _program(case: Case, result: CaseResult, loaded: LoadedSeed, rules: Registry, clock: Clock) -> str:
    settings = loaded.config(case.compile)
    meta = _meta(loaded, settings)
    if case.seed.form == "module" and not result.recipe and not case.dtype:
        own = Path(case.seed.path).read_text(encoding="utf-8")
        return f"{own.rstrip()}\n\n\nMETA = {meta!r}\n" if meta else own
    body, inputs = _graph(case, result, loaded, settings, rules, clock)
    made = inputs_text(inputs, "literal", ValuePlan.SEED) or inputs_text(inputs, "bytes", ValuePlan.SEED)
    assert made is not None  # bytes hold any value
    meta |= {"device": case.device} if case.device != "cpu" else {}  # as its inputs are
    origin = _origin(case, result)
    return seed_file_text(made, body, meta, f"Kept by a campaign: {origin}.", origin)


def _graph(
    case: Case, result: CaseResult, loaded: LoadedSeed, settings: CompileConfig, rules: Registry, clock: Clock
) -> tuple[str, InputSet]:
    """The text of the graph that was judged, and its inputs; raises :class:`CaptureFailed` where it is not one."""
    if result.recipe:
        again = replace(case, recipe=Recipe.parse(result.recipe), plans=(ValuePlan.SEED,))
        variant = make_variant(again, loaded, rules, clock)
        return variant.text, variant.subject.inputs[ValuePlan.SEED]
    captured = capture_torch(loaded.fresh(case.input_seed), settings, loaded.no_grad)
    if len(captured) != 1:
        raise CaptureFailed(f"{len(captured)} graphs")
    return captured[0].text, captured[0].inputs


def _meta(loaded: LoadedSeed, settings: CompileConfig) -> dict[str, Any]:
    said = {
        "no_grad": loaded.no_grad,
        "config": dict(settings.inductor),
        "dynamo_config": dict(settings.dynamo),
        "compile": dict(settings.options),
    }
    return {key: value for key, value in said.items() if value}


def _origin(case: Case, result: CaseResult) -> str:
    """Without the path: it is the same file on every machine."""
    return f"case {case.id}, {Path(case.seed.label).name}" + (f" by {result.recipe}" if result.recipe else "")
