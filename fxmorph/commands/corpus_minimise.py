"""``fxmorph corpus minimise``: the smallest set of seeds with the same coverage, as a corpus of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.commands.measured_seeds import MeasuredSeed, measured_seeds
from fxmorph.commands.seed_copies import copied, require_own_file
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.features import Feature, in_words
from fxmorph.core.minimal_set import Candidate, Choice, minimal_set
from fxmorph.core.seeds import is_regression
from fxmorph.model import Seed

#: What a seed costs at least, in CPU seconds.
LEAST = 0.01


def minimise(settings: Settings, into: Path) -> Exit:
    """Copy the smallest set into the folder ``into``, which is new or empty, and say what each of its seeds adds.

    A regression is kept for what it shows, whatever it covers, and so is what cannot be measured here.  Raises
    :class:`ConfigError` for a folder that holds something, and for seeds that are no files.
    """
    _require_empty(into)
    found = measured_seeds(settings)
    unmeasured = [other.seed for other in found.unmeasured]
    for seed in [*(measured.seed for measured in found.seeds), *unmeasured]:
        require_own_file(seed)
    code = found.tell_unmeasured()
    if not found.seeds:
        return code
    choices = minimal_set([_candidate(measured) for measured in found.seeds])
    rows = [_row(copied(found.seeds[c.index].seed, into), found.seeds[c.index], c) for c in choices]
    rows += [(str(copied(seed, into)), "", "", "kept: not measured") for seed in unmeasured]
    print_columns(("seed", "CPU s", "adds", ""), rows)
    print_line(_summary(found.seeds, choices, unmeasured))
    return code


def _require_empty(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"--into {folder}: not a folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(f"--into {folder}: the folder is not empty")


def _candidate(measured: MeasuredSeed) -> Candidate[Feature]:
    reach = measured.reach
    return Candidate(reach.features, max(reach.seconds, LEAST), kept=is_regression(measured.seed))


def _row(copy: Path, measured: MeasuredSeed, choice: Choice[Feature]) -> tuple[str, str, str, str]:
    kept = "kept: a regression; " if is_regression(measured.seed) else ""
    return str(copy), f"{measured.reach.seconds:.2f}", str(len(choice.adds)), kept + in_words(choice.adds)


def _summary(seeds: Sequence[MeasuredSeed], choices: Sequence[Choice[Feature]], unmeasured: Sequence[Seed]) -> str:
    number, every = len(choices) + len(unmeasured), len(seeds) + len(unmeasured)
    took = sum(seeds[choice.index].reach.seconds for choice in choices)
    before = sum(measured.reach.seconds for measured in seeds)
    features = sum(len(choice.adds) for choice in choices)
    return f"{number} of {every} seeds reach the same {features} features, in {took:.1f} of {before:.1f} CPU seconds"
