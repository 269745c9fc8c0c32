"""``fxmorph run --pass``."""

from __future__ import annotations

from fxmorph.campaign.engine import engine_of
from fxmorph.campaign.ledger import Emit
from fxmorph.campaign.preparation import prepare
from fxmorph.campaign.run import Run
from fxmorph.campaign.unit_schedule import UnitSchedule
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.store import Store
from fxmorph.inductor.rung import chosen


def run_passes(settings: Settings, emit: Emit) -> int:
    """A run of the ``pass`` rung; returns the exit code."""
    if settings.resume:
        raise ConfigError("--resume is not for --pass: its cases take milliseconds; start it anew")
    from fxmorph.inductor.inventory import UnknownUnit

    if settings.dtype or settings.context or settings.cases or len(settings.devices) > 1:
        raise ConfigError("--pass is for one device, and seeds as they are: leave out --dtype, --context, --cases")
    if settings.shard is not None and settings.max_cases is not None:
        raise ConfigError("--pass --shard: how many jobs all shards have nobody knows: leave out --max-cases")
    with engine_of(settings) as engine, Store(settings.state_dir) as store:
        settings = engine.own(settings)
        if why := engine.missing(settings.device):
            raise ConfigError(why)
        try:
            units = chosen(settings.passes)
        except UnknownUnit as error:
            raise ConfigError(f"--pass: {error}") from None
        made = prepare(settings, store, emit, engine)
        schedule = UnitSchedule(settings, made.seeds, made.ledger, made.queue, emit, limit=settings.max_cases)
        schedule.told(units)
        return Run(made, schedule, "interrupted; the findings told so far are stored").run()
