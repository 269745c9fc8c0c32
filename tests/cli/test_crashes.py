"""Crashes that compiled code leaves to eager, and those of eager itself."""

from __future__ import annotations

import json
from pathlib import Path

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


@pytest.mark.parametrize("when, verdict", [("compiled", "finding"), ("len(calls) > 2", "error")])
def test_a_crash_in_eager_is_the_compilers_where_eager_alone_lives(
    tmp_path: Path, fxmorph: Command, when: str, verdict: str
) -> None:
    (tmp_path / "a.py").write_text(DIES_LATER.format(when=when))
    done = fxmorph("check", "a.py", "--backend", "aot_eager_decomp_partition", "-j1", "--json", cwd=tmp_path)
    (checked,) = (e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "checked")
    assert checked["verdict"] == verdict, checked
    assert (checked["kinds"] == ["crash"]) == (verdict == "finding")
    assert ("which lives where it is alone" in checked["reason"]) == (verdict == "finding")
