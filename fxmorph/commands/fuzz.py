"""``fxmorph run``, and ``fxmorph fuzz`` which does not end: variants of seeds, or with ``--pass`` units alone."""

from __future__ import annotations

from fxmorph.campaign import worker_server
from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import require_seeds
from fxmorph.core.config import EngineName, Settings
from fxmorph.core.store import Store
from fxmorph.core.uncollected import uncollected


def fuzz(settings: Settings) -> int:
    """Returns the exit code; raises ``ConfigError`` for paths that hold nothing and a run that does not go on."""
    require_seeds(settings)
    if settings.resume and not settings.passes:
        from fxmorph.campaign.resume import unfinished

        with Store(settings.state_dir, write=False) as store:
            unfinished(store, settings)
    if settings.engine == EngineName.LOCAL:
        worker_server.begin(settings.devices)
    with reporting(settings, page=True) as emit:
        if settings.passes:
            with uncollected():
                from fxmorph.campaign.unit_run import run_passes

            return run_passes(settings, emit)
        with uncollected():
            from fxmorph.campaign.case_run import run_campaign

        return run_campaign(settings, emit)
