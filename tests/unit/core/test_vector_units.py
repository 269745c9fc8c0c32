"""Whether vector units work is found out once for a machine and its compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.vector_units import SETTING, remember_vector_units, vector_units_setting


@pytest.fixture(autouse=True)
def _no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(SETTING, raising=False)


def test_nothing_is_said_before_it_was_found_out() -> None:
    assert vector_units_setting() == {}


def test_what_was_found_out_spares_later_processes() -> None:
    remember_vector_units()
    assert vector_units_setting() == {SETTING: "1"}


def test_what_people_set_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_vector_units()
    monkeypatch.setenv(SETTING, "0")
    assert vector_units_setting() == {}


def test_another_compiler_is_asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remember_vector_units()
    compiler = tmp_path / "other-g++"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert vector_units_setting() == {}


def test_a_torch_that_is_changed_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    remember_vector_units()
    monkeypatch.setattr("fxmorph.core.installed_lists.version_of", lambda name: "another")
    assert vector_units_setting() == {}
