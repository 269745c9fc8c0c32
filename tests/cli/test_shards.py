"""A campaign in shards from the command line, joined and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from preloaded import Command
from test_run import FAST, GRADIENT, SOFTMAX, WRITES, cases, events, folder_of, outcomes

RUN = ("run", "seeds", *FAST, "--max-cases", "8", "--seed", "7", "-j1")


@pytest.mark.slow
def test_two_shards_are_joined_in_one_folder(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES, c=GRADIENT)
    parts = [fxmorph(*RUN, "--shard", f"{n}/2", "--state", f"s{n}", cwd=folder) for n in (1, 2)]
    assert [part.returncode for part in parts] == [0, 0], parts[0].stderr + parts[1].stderr
    indices = [[case["index"] for case in cases(events(part))] for part in parts]
    assert len(indices[0]) + len(indices[1]) == len({*indices[0], *indices[1]}) > 5
    assert all(case["seed"] != "seeds/b.py" for case in cases(events(parts[0])))
    joined = fxmorph("merge", "s1", "s2", "--into", "both", cwd=folder)
    assert joined.stdout.startswith(f"2 runs, {sum(map(len, indices))} cases, 0 findings in both"), joined.stderr
    refused = fxmorph("merge", "s1", "seeds", "--into", "both", cwd=folder)
    assert refused.returncode == 2 and refused.stderr.startswith("fxmorph: no fxmorph state in seeds")
    same = fxmorph("compare", "both", "both", "--json", cwd=folder)
    assert same.returncode == 0
    assert json.loads(same.stdout)["counts"]["same"] == sum(map(len, indices))


@pytest.mark.slow
def test_shards_have_the_verdicts_of_one_process(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES, c=GRADIENT)
    one, *parts = (fxmorph(*RUN, "--shard", s, "--state", s[0] + s[2], cwd=folder) for s in ("1/1", "1/2", "2/2"))
    assert outcomes(events(one)) == sorted(outcomes(events(parts[0])) + outcomes(events(parts[1])))
