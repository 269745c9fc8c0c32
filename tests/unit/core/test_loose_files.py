"""A loose file is executed as it is now, and leaves nothing beside itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fxmorph.core.loose_files import import_file


def test_a_file_written_again_in_the_same_second_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    for number in (1, 2, 3):
        file.write_text(f"NUMBER = {number}\n")
        assert number == import_file(file).NUMBER
    assert [each.name for each in tmp_path.iterdir()] == ["mine.py"]
