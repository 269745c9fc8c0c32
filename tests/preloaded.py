"""Scripts and fxmorph's commands, run in fresh forks of a process that has imported torch's compiler.

Such a process is as good as a new interpreter, and spares the import, which takes longer than most scripts: that of
the command itself, and that of the server which a campaign forks its workers from.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[1]

#: A command line that is run: arguments, ``cwd``, variables of its environment.
Command: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

TORCH = """
import torch, torch._dynamo, torch._inductor.compile_fx
import fxmorph.campaign.case_run
from fxmorph.campaign import worker_server

torch.set_num_threads(1)
worker_server.begin(["cpu"])
"""
#: What the command line imports before it knows what it is asked.
COMMAND_LINE = "import fxmorph.cli"
SERVER = """
import json, multiprocessing.forkserver as forkserver, os, sys

own = dict(os.environ)
{imports}
for line in sys.stdin:
    arguments, module, folder, environment, out, err = json.loads(line)
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    os.setsid()
    for name, number in ((out, 1), (err, 2)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(own | environment)
    if environment:  # workers have that of the server which they are forked from, so this one needs its own
        forkserver._forkserver = forkserver.ForkServer()
        forkserver.ensure_running = forkserver._forkserver.ensure_running
        forkserver.connect_to_new_process = forkserver._forkserver.connect_to_new_process
        forkserver.set_forkserver_preload = forkserver._forkserver.set_forkserver_preload
    else:
        forkserver.ensure_running = forkserver._forkserver.ensure_running = lambda: None
    from fxmorph.core.scripts import be_interpreter

    be_interpreter(["-m", module, *arguments[1:]] if module else arguments)
"""


def clean_environment(**more: str) -> dict[str, str]:
    """This process' environment without settings of fxmorph, and with this tree to import from."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("FXMORPH_")}
    return {**inherited, "PYTHONPATH": str(ROOT), **more}


class Preloaded:
    """The process that is forked; ended by :meth:`close`.  ``more`` are variables of its environment."""

    def __init__(self, imports: str = TORCH, **more: str) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER.format(imports=imports)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment(**more), bufsize=0,
        )  # fmt: skip

    def script(self, script: Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """What the script printed and its exit code."""
        return self._run([str(script)], "", cwd or Path.cwd(), {}, script.parent)

    def fxmorph(self, *arguments: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
        """What ``python -m fxmorph`` printed and its exit code; ``more`` are variables of its environment."""
        outside = cwd.parent / f"{cwd.name}.printed"
        outside.mkdir(exist_ok=True)
        return self._run(["fxmorph", *arguments], "fxmorph", cwd, more, outside)

    def module(self, name: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """What ``python -m name`` printed and its exit code."""
        return self._run([name, *arguments], name, cwd, {}, cwd)

    def _run(
        self, arguments: list[str], module: str, folder: Path, environment: Mapping[str, str], printed: Path
    ) -> subprocess.CompletedProcess[str]:
        out, err = printed / "printed.out", printed / "printed.err"
        request = [arguments, module, str(folder), dict(environment), str(out), str(err)]
        assert self._server.stdin is not None
        self._server.stdin.write(f"{json.dumps(request)}\n".encode())
        pid = self._answer(60)
        try:
            code = self._answer(240)
        except subprocess.TimeoutExpired:
            os.killpg(pid, signal.SIGKILL)
            self._answer(10)
            raise
        return subprocess.CompletedProcess(arguments, code, out.read_text(), err.read_text())

    def _answer(self, seconds: float) -> int:
        """The next number from the process; raises ``TimeoutExpired``."""
        assert self._server.stdout is not None
        if not select.select([self._server.stdout], [], [], seconds)[0]:
            raise subprocess.TimeoutExpired("a fork of the preloaded process", seconds)
        return int(self._server.stdout.readline())

    def close(self) -> None:
        self._server.kill()
        self._server.wait()
