"""``fxmorph corpus dedupe``: seeds that are the same test, and removing all but one of them."""

from __future__ import annotations

from collections.abc import Iterable

from fxmorph.commands.columns import print_line
from fxmorph.commands.measured_seeds import MeasuredSeed, measured_seeds
from fxmorph.commands.seed_copies import require_own_file
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.seeds import is_regression
from fxmorph.model import Seed


def dedupe(settings: Settings, remove: bool) -> Exit:
    """Print each group of seeds that are the same test on one line; ``remove`` deletes all but the first of each.

    A regression comes first in its group, and is never deleted.  Raises :class:`ConfigError` for a file that cannot be.
    """
    found = measured_seeds(settings)
    code = found.tell_unmeasured()
    if not found.seeds:
        return code
    groups = _groups(found.seeds)
    for group in groups:
        print_line(f"same graph: {' '.join(seed.label for seed in group)}")
    spare = [seed for group in groups for seed in group[1:] if not is_regression(seed)]
    if remove:
        for seed in spare:
            _delete(seed)
            print_line(f"removed {seed.path}")
    without = sum(not measured.reach.graphs for measured in found.seeds)
    compared = f", {without} without a graph to compare" if without else ""
    print_line(f"{len(spare)} of {len(found.seeds)} seeds {'were' if remove else 'are'} spare{compared}")
    return code


def _groups(seeds: Iterable[MeasuredSeed]) -> list[list[Seed]]:
    """Those of two seeds and more, regressions first, else in the order of the seeds."""
    alike: dict[str, list[Seed]] = {}
    for measured in seeds:
        if measured.reach.graphs:
            alike.setdefault(measured.reach.graphs, []).append(measured.seed)
    return [sorted(group, key=lambda seed: not is_regression(seed)) for group in alike.values() if len(group) > 1]


def _delete(seed: Seed) -> None:
    try:
        require_own_file(seed).unlink()
    except OSError as error:
        raise ConfigError(f"{seed.path}: cannot be removed ({error.strerror})") from None
