"""The walk-throughs that docs/passes.md opens with run as they are written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from preloaded import Command

ROOT = Path(__file__).parents[3]
SECTIONS = (ROOT / "docs" / "passes.md").read_text(encoding="utf-8").split("\n## ")[1:4]


def parts(section: str) -> tuple[str, str, list[str], str]:
    """(Name of the file, its text, the command, the first line that it prints)."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", section, re.S | re.M)
    program = next(text for language, text in blocks if language == "python")
    command, printed = [text for language, text in blocks if not language]
    name, _, text = program.removeprefix("# ").partition("\n")
    return name, text, shlex.split(command.removeprefix("$ fxmorph")), printed.splitlines()[0]


@pytest.mark.parametrize(("section", "code"), zip(SECTIONS, (1, 1, 0), strict=True), ids=["back end", "engine", "pair"])
def test_a_walk_through_runs_as_it_is_written(section: str, code: int, tmp_path: Path, fxmorph: Command) -> None:
    name, text, command, printed = parts(section)
    (tmp_path / name).write_text(text)
    done = fxmorph(*command, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    beginning = printed.partition(" ...")[0].split(" on made")[0]
    assert beginning in done.stdout, done.stdout + done.stderr
