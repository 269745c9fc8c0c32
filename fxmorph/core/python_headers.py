"""Whether Python's C headers are here, which the kernels that Inductor writes in C++ include."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

#: Where else g++ and clang look.
_MORE = ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")


def missing_headers() -> str:
    """What to install, or "" where they are there or may be somewhere else."""
    file = Path(sysconfig.get_path("include", "posix_prefix"), "Python.h")
    if file.is_file() or any(os.environ.get(name) for name in _MORE):
        return ""
    return f"{file} is missing: install Python's headers (apt install python3-dev, dnf install python3-devel)"
