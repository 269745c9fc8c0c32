"""Crashes that compiled code leaves to eager, and those of eager itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from preloaded import Command

#: As compiled code that has written beside its buffers does: the process dies of it later.
DIES_LATER = """
import os
import torch
from torch._inductor import decomposition

def make_inputs(): return [torch.randn(4)]
def fn(x): return x.sigmoid()
compiled, calls = [], []
decomposition.decompositions[torch.ops.aten.sigmoid.default] = lambda x: compiled.append(1) or 1 / (1 + (-x).exp())

def drive(g, x):
    calls.append(1)
    if g is fn and {when}:
        os.abort()
    return g(x)
"""


def checked(fxmorph: Command, folder: Path, when: str) -> tuple[dict[str, Any], int]:
    """What is told of such a program, and the exit code."""
    (folder / "a.py").write_text(DIES_LATER.format(when=when))
    done = fxmorph("check", "a.py", "--backend", "aot_eager_decomp_partition", "-j1", "--json", cwd=folder)
    (told,) = (e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "checked")
    return told, done.returncode


def test_a_crash_in_eager_is_the_compilers_where_eager_alone_lives(tmp_path: Path, fxmorph: Command) -> None:
    told, _ = checked(fxmorph, tmp_path, "compiled")
    assert (told["verdict"], told["kinds"]) == ("finding", ["crash"]), told
    assert "which lives where it is alone" in told["reason"]


@pytest.mark.parametrize(
    "when, verdict, reason",
    [
        ("len(calls) > 0", "error", "crash in eager (not compiled code): signal 6 (SIGABRT)"),
        # Memory at an offset, as kernels of eager on GPUs die of.
        ("x.storage_offset()", "clean", "not judged further, which eager alone dies of, too: signal 6 (SIGABRT)"),
    ],
)
def test_a_crash_that_eager_alone_shows_too_is_its_own_and_what_was_judged_before_is_kept(
    tmp_path: Path, fxmorph: Command, when: str, verdict: str, reason: str
) -> None:
    told, code = checked(fxmorph, tmp_path, when)
    assert (told["verdict"], told["kinds"], told["reason"]) == (verdict, [], reason), told
    assert code == (0 if verdict == "clean" else 3)
