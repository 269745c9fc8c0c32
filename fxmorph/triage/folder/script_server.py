"""The process that findings' scripts are forked from: ``python -m fxmorph.triage.folder.script_server ADDRESS``.

It ends when its standard input does, as it does with whoever started it.  A line of JSON that comes over the socket
says what to run (``fxmorph/core/scripts.py``); a line of JSON goes back: exit code, last line printed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NoReturn

from fxmorph.core.scripts import TIMED_OUT, be_interpreter, last_line
from fxmorph.core.uncollected import uncollected

#: Wall seconds between looks at a script that runs.
ROUND_SECONDS = 0.02


def serve(address: str) -> NoReturn:
    """Listen, import what scripts will, then run each that is asked for beside the others."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(address)
        listening.listen(64)
        with uncollected():
            from fxmorph.torchapi.asked_vector_units import know_vector_units
            from fxmorph.torchapi.compiling import warm_imports

            warm_imports()
        know_vector_units()
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [], 1.0)
            if sys.stdin in ready:  # nothing is ever written to it
                shutil.rmtree(os.path.dirname(address), ignore_errors=True)
                os.killpg(0, signal.SIGKILL)
            if listening in ready:
                connection, _ = listening.accept()
                if not os.fork():
                    listening.close()
                    _answer(connection)
                connection.close()
            _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _answer(connection: socket.socket) -> NoReturn:
    """Run what is asked for in a process of its own, and say how it ended; ends this process and what is left of it."""
    os.setpgid(0, 0)
    with connection.makefile() as requests:
        request = json.loads(requests.readline())
    with tempfile.TemporaryFile("w+") as printed:
        pid = os.fork()
        if not pid:
            connection.close()
            _run(request["arguments"], request["folder"], printed.fileno())
        code = _ended(pid, connection, request["seconds"])
        printed.seek(0)
        said = f"no answer in {request['seconds']:g} s" if code == TIMED_OUT else last_line(printed.read())
    try:
        connection.sendall(f"{json.dumps({'code': code, 'said': said})}\n".encode())
    finally:
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _ended(pid: int, connection: socket.socket, seconds: float) -> int:
    """The exit code of the script; it is killed where it takes too long, or nobody waits for it any more."""
    until = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until or select.select([connection], [], [], ROUND_SECONDS)[0]:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return TIMED_OUT


def _run(arguments: Sequence[str], folder: str, printed: int) -> NoReturn:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.chdir(folder)
    be_interpreter(arguments)


if __name__ == "__main__":
    serve(sys.argv[1])
