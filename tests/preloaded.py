"""Scripts run in fresh forks of a process that has imported torch's compiler and done nothing else.

Such a process is as good as a new interpreter for a script, and spares it the import, which takes longer than
most scripts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SERVER = """
import json, os, runpy, sys
import torch, torch._dynamo, torch._inductor.compile_fx
torch.set_num_threads(1)
for line in sys.stdin:
    script, out, err = json.loads(line)
    pid = os.fork()
    if not pid:
        os.setsid()
        for name, number in ((out, 1), (err, 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = [script]
        code = 1
        try:
            runpy.run_path(script, run_name="__main__")
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Preloaded:
    """The process that is forked; ended by :meth:`close`."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, script: Path) -> subprocess.CompletedProcess[str]:
        """What the script printed and its exit code; its environment is that of the first call."""
        assert self._server.stdin is not None and self._server.stdout is not None
        out, err = script.with_suffix(".out"), script.with_suffix(".err")
        self._server.stdin.write(json.dumps([str(script), str(out), str(err)]) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess([str(script)], code, out.read_text(), err.read_text())

    def close(self) -> None:
        self._server.kill()
        self._server.wait()
