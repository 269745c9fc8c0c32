"""``fxmorph check``: seeds as they are, one line each."""

from __future__ import annotations

from fxmorph.campaign import worker_server
from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import require_seeds
from fxmorph.core.config import EngineName, Settings
from fxmorph.core.uncollected import uncollected


def check(settings: Settings) -> int:
    """Returns the exit code; raises ``ConfigError`` for paths that hold nothing."""
    require_seeds(settings)
    if settings.engine == EngineName.LOCAL:
        worker_server.begin(settings.devices)
    with uncollected():
        from fxmorph.campaign.case_run import check_seeds

    with reporting(settings) as emit:
        return check_seeds(settings, emit)
