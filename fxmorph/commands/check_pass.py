"""``fxmorph check-pass``: an FX pass of the user's own on the graphs of a corpus."""

from __future__ import annotations

from fxmorph.commands.reporters import reporting
from fxmorph.commands.usage import require_seeds
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.units import Stage


def check_pass(settings: Settings, name: str, stage: str, every: bool) -> int:
    """Check the pass on graphs of ``stage``, on after the first finding if ``every``; returns the exit code."""
    if stage not in (Stage.PRE_GRAD, Stage.JOINT, Stage.POST_GRAD):
        raise ConfigError(f"--stage {stage}: want pre_grad, joint or post_grad")
    if settings.paths:
        require_seeds(settings)
    from fxmorph.inductor.own.check import check_pass as check
    from fxmorph.report.pair_lines import PairLines

    with reporting(settings, lambda to: PairLines(to, settings.quiet, bool(settings.verbose))) as emit:
        return check(name, Stage(stage), settings, every, emit)
