"""Processes of shards: a Ctrl-C reaches the one that runs, whenever it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any, cast

import pytest

from fxmorph.campaign.shard_processes import run_shards
from fxmorph.core.exits import Exit

#: Ends as an interrupted run does.
WAITS = """import signal, sys, time
try:
    print("waits", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(130)
"""


class Interrupted:
    """An environment in which Ctrl-C comes as soon as the process waits, before it is known that it was started."""

    def start(self, arguments: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"waits\n"
        os.kill(os.getpid(), signal.SIGINT)
        return process


def test_ctrl_c_while_a_shard_starts_ends_it() -> None:
    handler = signal.getsignal(signal.SIGINT)
    shards = run_shards(cast(Any, Interrupted()), (), 2)
    assert next(shards).exit is Exit.INTERRUPTED
    with pytest.raises(KeyboardInterrupt):
        next(shards)
    assert signal.getsignal(signal.SIGINT) is handler
