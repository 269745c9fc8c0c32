"""Whether all vector units of this machine are known to work with its C++ compiler.

Inductor finds that out in each process anew, by building and loading a library for each of them: eight CPU seconds
with an empty cache, one with a filled one.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from fxmorph.core.installed_lists import InstalledList
from fxmorph.model import digest

#: Tells Inductor that they do.
SETTING = "TORCHINDUCTOR_VEC_ISA_OK"
#: Machines on which they do, by what :func:`_machine` says.
_KNOWN = InstalledList[str]("vector-units", lambda machine: [machine], str)


def remember_vector_units() -> None:
    """All of them were found to work here."""
    _KNOWN.remember([_machine()])


def vector_units_setting() -> Mapping[str, str]:
    """What of the environment spares processes to find out again; nothing where that is not known, or set."""
    known = SETTING not in os.environ and _machine() in (_KNOWN.remembered() or ())
    return {SETTING: "1"} if known else {}


def _machine() -> str:
    """The processor's features, and the compilers that Inductor may call."""
    return digest([platform.machine(), _features(), *map(_compiler, (os.environ.get("CXX", ""), "g++", "clang++"))])


def _features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")


def _compiler(name: str) -> list[object]:
    found = shutil.which(name)
    if found is None:
        return [name]
    file = os.stat(os.path.realpath(found))
    return [found, file.st_size, file.st_mtime_ns]
