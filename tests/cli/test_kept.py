"""A campaign keeps programs in its state folder, and the next one starts from them, with any number of workers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from preloaded import Command
from test_run import GRADIENT, SOFTMAX, cases, events, folder_of, outcomes

RUN = ("run", ".", "--rung", "ir", "--json", "--max-time", "3m")
MADE = ("--only", "seeds,generated")


def as_they_are(lines: list[dict[str, Any]]) -> list[str]:
    """The programs that a run judged as they are, by file name."""
    return [Path(case["seed"]).name for case in cases(lines) if not case["number"]]


@pytest.mark.slow
def test_the_next_campaign_starts_from_what_was_kept(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=GRADIENT)
    first = events(fxmorph(*RUN, *MADE, "--max-cases", "14", "-j1", "--state", "s", cwd=folder))
    assert first[0]["notes"] == []
    kept = sorted(file.name for file in (folder / "s" / "corpus").iterdir())
    assert kept and not set(kept) & set(as_they_are(first))
    shutil.copytree(folder / "s", folder / "t")
    one, two = (
        events(fxmorph(*RUN, *MADE, "--max-cases", "12", "--seed", "5", jobs, "--state", state, cwd=folder))
        for jobs, state in (("-j1", "s"), ("-j2", "t"))
    )
    assert one[0]["notes"][0].startswith(f"starts from {len(kept)} program") and "s/corpus" in one[0]["notes"][0]
    assert outcomes(one) == outcomes(two)
    assert set(kept[:1]) <= set(as_they_are(one)) and len(cases(one)) == 12
    contents = [{f.name: f.read_text() for f in (folder / state / "corpus").iterdir()} for state in "st"]
    assert contents[0] == contents[1] and contents[0].keys() >= set(kept)
    narrowed = events(fxmorph(*RUN, "--only", "seeds", "--max-cases", "2", "-j1", "--state", "s", cwd=folder))
    assert narrowed[0]["notes"] == [] and not set(kept) & set(as_they_are(narrowed))
