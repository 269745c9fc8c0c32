"""``fxmorph check-pass``: an FX pass of the user's own, on graphs made from it and on those of a corpus."""

from __future__ import annotations

from dataclasses import replace

from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import require_seeds
from fxmorph.core.config import ConfigError, Settings, pass_tables
from fxmorph.inductor.own.pass_request import PassRequest, from_table, merged
from fxmorph.inductor.own.pass_stage import PassStage


def check_pass(settings: Settings, given: PassRequest, every: bool) -> int:
    """Check the pass, on after the first finding if ``every``; returns the exit code."""
    if len(settings.devices) > 1:
        raise ConfigError(f"--device {settings.device}: a pass is checked on one device at a time")
    request = requested(replace(given, inductor=settings.inductor, compile=settings.compile, device=settings.device))
    if request.stage not in ("", *PassStage):
        raise ConfigError(f"--stage {request.stage}: want {', '.join(PassStage)}")
    if settings.paths:
        require_seeds(settings)
    from fxmorph.inductor.own.check import check_pass as check
    from fxmorph.report.pair_lines import PairLines

    with reporting(settings, lambda to: PairLines(to, settings.quiet, bool(settings.verbose))) as emit:
        return check(request, settings, every, emit)


def requested(given: PassRequest) -> PassRequest:
    """The entry ``[[tool.fxmorph.pass]]`` of that name with what is given besides, or what is given alone."""
    for where, table in pass_tables():
        entry = from_table(table, where)
        if entry.name == given.name:
            return merged(entry, given)
    return given
