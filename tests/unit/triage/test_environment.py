"""The environment of a report names no host, no user and no folder."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from fxmorph.triage.folder import environment as module
from fxmorph.triage.folder.environment import anonymous, environment


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("in /opt/conda/lib/python3.11/site-packages/torch/_ops.py, line 3", "in …/_ops.py, line 3"),
        ("'/tmp/tmpab12/x.py'", "'…/x.py'"),
        ("#include <torch/csrc/inductor/cpp_prefix.h>", None),
        ("see https://github.com/pytorch/pytorch/issues/1 and aten/src/ATen", None),
        ("a / b, 3/4, torch 2.13.0+cpu", None),
    ],
)
def test_paths_are_cut_to_their_last_part(text: str, told: str | None) -> None:
    assert anonymous(text) == (text if told is None else told)


def test_names_of_host_and_user_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "box7.example.org")
    monkeypatch.setattr(module.getpass, "getuser", lambda: "ada")
    assert anonymous("ada on box7.example.org, box7 and adamant") == "… on …, … and adamant"


def test_a_home_is_cut() -> None:
    assert str(Path.home() / "work") not in anonymous(f"at {Path.home() / 'work'}/x.py")


def test_an_interpreter_that_has_no_torch_gives_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    assert environment(str(broken)) == "" and environment(str(tmp_path / "none")) == ""
