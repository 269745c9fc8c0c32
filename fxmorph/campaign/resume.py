"""``--resume``: what a run goes on with, and what it may be told anew."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fxmorph.core.config import ANEW, ConfigError, Settings, option_of
from fxmorph.core.shard import Shard
from fxmorph.core.store import Store

#: Of what ``--resume`` may be told anew, what is as it was in the first part unless it is given.
_KEPT = ("jobs", "max_cases", "baseline", "fail_on_known")


def unfinished(store: Store, now: Settings) -> tuple[str, Settings]:
    """Id of the run that ``--resume`` goes on with, and its settings from now on; raises :class:`ConfigError`."""
    found = store.unfinished_run()
    if found is None:
        raise ConfigError(f"nothing to resume in {now.state}: the last run finished")
    return found[0], resumed_settings(found[1], now)


def resumed_settings(before: Settings, now: Settings) -> Settings:
    """The settings of a run that goes on: ``before``, with what ``now`` was given of ANEW.

    ``device`` may name devices after the one that the run was on.  Raises :class:`ConfigError` where anything
    else was given and differs.
    """
    if before.passes:
        raise ConfigError("the last run was of --pass, which is not resumed: start it anew")
    for name in (f.name for f in fields(Settings) if f.name in now.given and f.name not in ANEW):
        old, new = getattr(before, name), getattr(now, name)
        same = before.device in now.devices if name == "device" else _comparable(name, old) == _comparable(name, new)
        if not same:
            what = name if name == "paths" else f"--{option_of(name)}"
            raise ConfigError(
                f"{what}: {_spelled(new)} is not what the run to be resumed had, {_spelled(old)}:"
                " leave it out, or start anew without --resume"
            )
    anew = {name: getattr(now, name) for name in ANEW if name not in _KEPT or name in now.given}
    devices = now.devices[now.devices.index(before.device) :] if "device" in now.given else before.devices
    return replace(before, **anew, device=",".join(devices))


def _comparable(name: str, value: Any) -> Any:
    if name in ("paths", "transforms"):
        return [Path(path).resolve() for path in value]
    return Path(value).resolve() if name == "cases" and value is not None else value


def _spelled(value: Any) -> str:
    if not isinstance(value, tuple):
        return repr(str(value) if isinstance(value, Shard) else value)
    return repr(" ".join(f"{v[0]}={v[1]}" if isinstance(v, tuple) else str(v) for v in value))
