"""``fxmorph coverage``: which units of Inductor fired in the last run."""

from __future__ import annotations

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import last_coverage
from fxmorph.core.store import Store


def coverage(settings: Settings) -> Exit:
    """Print the units with counts; raises ``ConfigError`` where no run says which fired."""
    with Store(settings.state_dir, write=False) as store:
        found = last_coverage(store)
    if found is None:
        raise ConfigError(f"no run in {settings.state} says which units fired (fxmorph run corpus/)")
    from fxmorph.commands.passes import show_coverage

    show_coverage(*found, settings.json, print_line)
    return Exit.OK
