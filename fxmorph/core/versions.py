"""Versions of what a run hangs on, and where that lies."""

from __future__ import annotations

import functools
import importlib.util
import platform
from importlib import metadata
from pathlib import Path

#: Of a package that is not installed.
UNKNOWN = "unknown"
#: Releases of torch that fxmorph is written for, first and last.
SUPPORTED = ((2, 6), (2, 15))


@functools.cache
def home_of(package: str) -> Path:
    """The folder of an installed package; raises ``ModuleNotFoundError`` where there is none."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {package!r}")
    return Path(spec.origin).parent


@functools.cache  # a file of text is read for it, which takes milliseconds
def version_of(package: str) -> str:
    """The installed version, UNKNOWN where the package is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def versions() -> dict[str, str]:
    """As they are told in issues: fxmorph, torch, Python and the platform."""
    return {
        "fxmorph": version_of("fxmorph"),
        "torch": version_of("torch"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
    }
