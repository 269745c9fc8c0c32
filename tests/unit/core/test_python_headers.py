"""Where Python's headers are missing, what to install is said; nothing where they are or may be."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from fxmorph.core.python_headers import missing_headers


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path))
    for name in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_the_package_to_install_is_named(include: Path) -> None:
    assert str(include / "Python.h") in missing_headers()
    assert "python3-dev" in missing_headers()


def test_headers_that_are_there_are_not_missed(include: Path) -> None:
    (include / "Python.h").touch()
    assert missing_headers() == ""


def test_headers_may_be_where_the_compiler_is_told_to_look(include: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", "/somewhere/include")
    assert missing_headers() == ""
