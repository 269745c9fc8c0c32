"""What sessions leave behind, and which of them a campaign had."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.config import Settings
from fxmorph.core.store import Store
from fxmorph.propose.model.session_folder import Kept
from fxmorph.propose.model.stall import SESSIONS, Stalled


def test_a_session_is_found_by_its_run_and_turn(tmp_path: Path) -> None:
    first, second = Kept.new(tmp_path), Kept.new(tmp_path)
    second.belongs("run1", 3)
    found = Kept.of_run(tmp_path, "run1", 3)
    assert found is not None and found.folder == second.folder != first.folder
    assert Kept.of_run(tmp_path, "run1", 2) is None and Kept.of_run(tmp_path, "run2", 3) is None


def test_a_resumed_run_takes_what_its_sessions_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_MODEL", "m")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")  # nobody is there, and nobody is asked
    settings = Settings(state=str(tmp_path))
    pack = {}
    for turn, text in ((2, "{}\n"), (4, "")):
        kept = Kept.new(tmp_path)
        (kept.folder / "proposals").mkdir()
        (kept.folder / "proposals" / "model.jsonl").write_text(text)
        kept.belongs("run1", turn)
        pack[turn] = kept.folder / "proposals"
    with Store(tmp_path) as store:
        stalled = Stalled.of(settings, store, "run1", lambda event: None)
        assert stalled is not None
        assert stalled.pack(2, {}, 100.0) == pack[2]
        assert stalled.pack(4, {}, 100.0) is None  # nothing was admitted then


def test_nobody_is_asked_without_a_model_or_too_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with Store(tmp_path) as store:
        assert Stalled.of(Settings(state=str(tmp_path)), store, "run1", lambda event: None) is None
        monkeypatch.setenv("OPENAI_MODEL", "m")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
        said: list[object] = []
        stalled = Stalled.of(Settings(state=str(tmp_path)), store, "run1", said.append)
        assert stalled is not None
        assert [stalled.pack(turn, {}, 0.0) for turn in range(2, 2 + 2 * SESSIONS)] == [None] * 2 * SESSIONS
        assert said == []
