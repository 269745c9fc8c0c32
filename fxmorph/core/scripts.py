"""Scripts in fresh processes: new interpreters, or forks of one that has imported what scripts import and run nothing.

A fork is as good as a new interpreter, and spares the import of torch's compiler, which takes longer than most scripts.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: What stands for the exit code of a script that took longer than it may.
TIMED_OUT = -1
#: Wall seconds in which a server that was begun can be reached: it listens before it imports.
REACHED = 30.0
#: Wall seconds that it takes at most to import what scripts import, on a loaded machine.
PREPARED = 120.0


class Scripts:
    """Runs scripts in new interpreters, each ``python``."""

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    @property
    def interpreters(self) -> Scripts:
        """What runs each in a new interpreter of the same Python."""
        return self

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        """(exit code, last line printed) of Python with ``arguments``, in ``folder``; :data:`TIMED_OUT` where it takes
        more than so many wall seconds.
        """
        command = [self._python, *arguments]
        try:
            done = subprocess.run(
                command, cwd=folder, env=dict(environment), capture_output=True, text=True, timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return TIMED_OUT, f"no answer in {seconds:g} s"
        return done.returncode, last_line(done.stdout + done.stderr)


def last_line(text: str) -> str:
    """Of what was printed; "" where nothing was."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def be_interpreter(arguments: Sequence[str]) -> NoReturn:
    """Of a fork: be the Python that was given ``FILE ARGUMENTS…`` or ``-m MODULE ARGUMENTS…``, and end as it does."""
    code = 1
    try:
        if arguments[0] == "-m":
            sys.argv, sys.path[0] = list(arguments[1:]), os.getcwd()
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = list(arguments), os.path.dirname(os.path.abspath(arguments[0]))
            runpy.run_path(arguments[0], run_name="__main__")
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class ForkedScripts(Scripts):
    """Runs scripts in forks of the server at ``address``, whose environment is theirs; in new interpreters where it
    does not answer.
    """

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    @property
    def interpreters(self) -> Scripts:
        return Scripts(self._python)

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        try:
            answer = self._asked({"arguments": list(arguments), "folder": str(folder.resolve()), "seconds": seconds})
        except (OSError, ValueError):
            return super().run(arguments, folder, environment, seconds)
        return answer["code"], answer["said"]

    def _asked(self, request: Mapping[str, Any]) -> Any:
        """The server's answer; raises ``OSError`` and ``ValueError`` where it has none."""
        until = time.monotonic() + REACHED
        while True:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                    connection.settimeout(request["seconds"] + PREPARED)
                    connection.connect(self._address)
                    connection.sendall(f"{json.dumps(request)}\n".encode())
                    with connection.makefile() as answers:
                        return json.loads(answers.readline())
            except (FileNotFoundError, ConnectionRefusedError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)


class ScriptServer:
    """The process at ``address`` that scripts are forked from, once it was begun: ``python -m module address``.

    Inside of ``with``; it ends with that, and with this process.
    """

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._module, self._environment = module, environment
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return str(Path(self._folder, "socket"))

    def begin(self) -> None:
        """Start it, if it does not run yet; it is not waited for."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, self.address],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                env=dict(self._environment), start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """End it; the CPU time of all that it ran is that of a child of this process from now on."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None

    def __enter__(self) -> ScriptServer:
        # A socket's path may have a hundred characters, which that of a state folder may pass.
        self._folder = tempfile.mkdtemp(prefix="fxmorph-scripts-")
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        shutil.rmtree(self._folder, ignore_errors=True)
