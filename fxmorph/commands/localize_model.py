"""``fxmorph localize``: the first part of a model whose compiled result is wrong, and what makes it so."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeVar

from fxmorph.campaign import worker_server
from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import ConfigError, EngineName, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.model_parts import Errors, Part, divided
from fxmorph.core.records import from_json
from fxmorph.core.seeds import find_seeds
from fxmorph.events import Checked, FindingMade
from fxmorph.model import Finding, Seed, Status
from fxmorph.programs.forked import Crashed, forked
from fxmorph.report.error_picture import error_picture
from fxmorph.report.jsonlines import JsonLines
from fxmorph.triage.folder.unit_words import gone_without

T = TypeVar("T")
MODES = ("eval", "train")
#: Wall seconds that a model may take to run in eager, and with its parts compiled.
LONGEST = 600.0
#: What says that a result differs and the compiler is not to blame.
_ROUNDING = (Status.ILL_CONDITIONED, Status.EDGE_CASE, Status.EXPECTED, Status.TIE)


def localize(settings: Settings, mode: str) -> int:
    """Returns the exit code: 1 where a part, or the whole, is a finding; raises ``ConfigError``."""
    settings = replace(settings, engine=EngineName.LOCAL)  # parts of the model import its file from here
    seed = _model(settings, mode)
    worker_server.begin(settings.devices)
    parts = [from_json(Part, each) for each in _in_child(seed, settings, ())]
    chosen = divided(parts)
    said = JsonLines() if settings.json else None
    line = print_line if said is None else _on_stderr
    line(f"{seed.label}: {len(parts)} parts run, {len(chosen)} of them are compiled alone, each on what eager gives it")
    whole, *results = _checked(settings, seed, [parts[0], *chosen], said)
    errors = _errors(seed, settings, chosen)
    if said is None:
        _table(chosen, results, errors)
    picture = settings.state_dir / "localize.svg"
    picture.write_text(error_picture([(e.name, e.eager, e.compiled) for e in errors]), encoding="utf-8")
    line(f"errors from part to part: {picture}")
    guilty = next((p for p, r in zip(chosen, results, strict=True) if _accuses(r)), None)
    if guilty is None and not _accuses(whole):
        return _nothing_wrong(seed, whole, chosen, results, line)
    if guilty is None:
        line(f"no part alone is wrong; the whole is: {whole.reason}")
        return _blamed(settings, seed, parts[0], said, line)
    guilty = _smallest(settings, seed, guilty, parts, said)
    line(f"first wrong: {guilty.name} ({guilty.kind}), which is not rounding; the whole is {whole.verdict}")
    return _blamed(settings, seed, guilty, said, line)


def _nothing_wrong(
    seed: Seed, whole: Checked, parts: Sequence[Part], results: Sequence[Checked], line: Callable[[str], None]
) -> int:
    """Says what was not judged; the exit code is that of errors where one was."""
    line(f"{seed.label} is {_told(whole)} as a whole, and no part of it is compiled wrong")
    named = [("the whole", whole), *((part.name, result) for part, result in zip(parts, results, strict=True))]
    unjudged = [(name, result) for name, result in named if result.verdict not in (Status.CLEAN, *_ROUNDING)]
    for name, result in unjudged:
        line(f"not judged: {name}: {result.verdict}: {result.reason}")
    return Exit.INTERNAL if any(result.verdict is Status.ERROR for _, result in unjudged) else Exit.OK


def _on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _model(settings: Settings, mode: str) -> Seed:
    seeds = find_seeds(list(settings.paths))[0] if len(settings.paths) == 1 else []
    found = [seed for seed in seeds if seed.form == "class" and seed.mode == mode]
    if not found:
        raise ConfigError(f"localize {' '.join(settings.paths)}: want one model by name, as model.py:Net")
    return found[0]


def _in_child(seed: Seed, settings: Settings, compiled: Sequence[str]) -> list[dict[str, Any]]:
    """The parts of the model, or how far those that are ``compiled`` are off; raises ``ConfigError``."""

    def work(names: Sequence[str]) -> Iterator[str]:
        import torch

        from fxmorph.programs.load import load_seed
        from fxmorph.programs.parts import called_parts, error_growth

        loaded = load_seed(seed, settings.devices[0], settings.dtype)
        if names:
            yield json.dumps([asdict(each) for each in error_growth(loaded, names)])
            return
        made = loaded.fresh()
        if not isinstance(made.fn, torch.nn.Module):
            raise TypeError(f"{seed.name} is no torch.nn.Module")
        with torch.no_grad():
            yield json.dumps([asdict(each) for each in called_parts(made)])

    ((_, ended),) = forked([compiled], work, LONGEST)
    if isinstance(ended, Crashed):
        raise ConfigError(f"{seed.label} does not run: {ended.reason}")
    found: list[dict[str, Any]] = json.loads(ended.line)
    return found


def _errors(seed: Seed, settings: Settings, parts: Sequence[Part]) -> list[Errors]:
    try:
        return [Errors(**each) for each in _in_child(seed, settings, [part.name for part in parts])]
    except ConfigError:  # compiled code that ends the process, which the judgement of the parts has said
        return [Errors(part.name, math.nan, math.nan) for part in parts]


def _accuses(result: Checked) -> bool:
    return result.verdict in (Status.FINDING, Status.KNOWN)


def _file_of(settings: Settings, seed: Seed, part: Part) -> str:
    from fxmorph.campaign.part_seeds import write_part

    return str(write_part(settings.state_dir / "parts" / seed.mode, seed, part))


def _hearing(said: JsonLines | None, kind: type[T]) -> tuple[Callable[[Any], None], list[T]]:
    """What a run is to emit to, and the events of one kind that it has emitted."""
    heard: list[T] = []

    def emit(event: Any) -> None:
        if said is not None:
            said.handle(event)
        if isinstance(event, kind):
            heard.append(event)

    return emit, heard


def _checked(settings: Settings, seed: Seed, parts: Sequence[Part], said: JsonLines | None) -> list[Checked]:
    """The judgement of each part on its own."""
    from fxmorph.campaign.case_run import check_seeds

    files = [_file_of(settings, seed, part) for part in parts]
    emit, heard = _hearing(said, Checked)
    check_seeds(replace(settings, paths=tuple(files)), emit)
    found = {event.seed: event for event in heard}
    missing = Checked("", Status.ERROR, reason="not judged in the time that there was")
    return [found.get(file, missing) for file in files]


def _smallest(settings: Settings, seed: Seed, part: Part, parts: Sequence[Part], said: JsonLines | None) -> Part:
    """The first part inside of it that is wrong alone, and inside of that; itself where none is."""
    inner = [each for each in parts if each.within == part.name and each.name]
    if not inner:
        return part
    results = _checked(settings, seed, inner, said)
    wrong = next((each for each, result in zip(inner, results, strict=True) if _accuses(result)), None)
    return part if wrong is None else _smallest(settings, seed, wrong, parts, said)


def _table(parts: Sequence[Part], results: Sequence[Checked], errors: Sequence[Errors]) -> None:
    rows = [
        (part.name, part.kind, _digits(error.eager), _digits(error.compiled), _told(result))
        for part, result, error in zip(parts, results, errors, strict=True)
    ]
    print_columns(("part", "class", "eager off by", "compiled off by", "alone"), rows)


def _digits(error: float) -> str:
    return "-" if math.isnan(error) else f"{error:.1e}" if error else "0"


def _told(result: Checked) -> str:
    if _accuses(result):
        return f"{result.verdict}: {','.join(result.kinds)}"
    return f"{result.verdict} (rounding)" if result.verdict in _ROUNDING else str(result.verdict)


def _blamed(settings: Settings, seed: Seed, part: Part, said: JsonLines | None, line: Callable[[str], None]) -> int:
    """Blame and reduce it, as any finding."""
    from fxmorph.campaign.case_run import run_campaign

    emit, made = _hearing(said, FindingMade)
    code = run_campaign(replace(settings, paths=(_file_of(settings, seed, part),), rewrites=False), emit)
    for event in made:
        line(_conclusion(event.finding))
        line(f"finding {event.finding.id}: {event.folder}")
    return code or Exit.FINDINGS


def _conclusion(finding: Finding) -> str:
    if not finding.unit:
        return f"{','.join(finding.kinds)} from {finding.stage} on: {finding.reason}"
    said = f"{','.join(finding.kinds)} at {finding.stage} ({finding.unit})"
    return f"{said}, {gone_without(finding.unit)}: {finding.reason}"
