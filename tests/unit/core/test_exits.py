"""The table of exit codes, and what the README says of it."""

from __future__ import annotations

import re
from pathlib import Path

from fxmorph.core.exits import Exit

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_lists_every_exit_code() -> None:
    table = README.read_text(encoding="utf-8").partition("| exit code | meaning |")[2].partition("\n\n")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)] == list(Exit)


def test_an_exit_code_prints_as_its_number() -> None:
    assert f"{Exit.INTERRUPTED} {Exit.OK}" == "130 0"
