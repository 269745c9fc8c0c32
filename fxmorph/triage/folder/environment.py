"""What ``torch.utils.collect_env`` says of this machine, without names of hosts, users and folders."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
from functools import cache
from pathlib import Path

#: Wall seconds for it; it asks many programs.
SECONDS = 90
COMMAND = "python -m torch.utils.collect_env"
#: A path with two parts or more, and what stands for it.
_PATH = re.compile(r"(?<![\w.:/<-])(?:/[\w.+@~-]+){2,}/?")
_PLACE = "…"


@cache
def environment(python: str = sys.executable) -> str:
    """Its report, "" where it fails or does not end."""
    try:
        done = subprocess.run(
            [python, "-W", "ignore", "-m", "torch.utils.collect_env"],
            capture_output=True, text=True, timeout=SECONDS, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("Collecting environment")]
    return anonymous("\n".join(lines).strip()) if done.returncode == 0 else ""


def anonymous(text: str) -> str:
    """The text without paths of a machine, and without the names of this one and of its user.

    Of a path the last part stays.
    """
    for place in filter(None, (str(Path.home()), os.getcwd(), sys.prefix)):
        if place.count("/") > 1:
            text = text.replace(place, _PLACE)
    text = _PATH.sub(lambda path: f"{_PLACE}/{path[0].rstrip('/').rpartition('/')[2]}", text)
    for name in _names():
        text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", _PLACE, text)
    return text


def _names() -> list[str]:
    """Names that say whose machine this is; such as any machine may have are no names."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no entry for this user
        user = ""
    host = socket.gethostname()
    common = {"", "root", "user", "localhost", "python", "torch", "linux"}
    return [name for name in dict.fromkeys((host, host.partition(".")[0], user)) if name.lower() not in common]
