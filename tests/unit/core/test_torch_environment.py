"""Another environment: what it must have, and that this fxmorph runs there with the torch of that one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from made_runs import python_of

import fxmorph
from fxmorph.core.config import ConfigError
from fxmorph.core.torch_environment import NEEDED, torch_environment

ROOT = Path(__file__).parents[3]


def test_what_it_needs_is_what_the_package_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {re.match(r"[\w-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    assert {*NEEDED, "torch"} == {name.removesuffix("-solver") for name in named}


@pytest.mark.parametrize(
    ("release", "says"), [("2.4.1+cpu", "torch 2.4.1[+]cpu is too old: fxmorph needs 2.6 or newer"), ("2.6.0", "")]
)
def test_an_old_torch_is_refused(tmp_path: Path, release: str, says: str) -> None:
    python = python_of(tmp_path / "python", release)
    if not says:
        with torch_environment(python) as environment:
            assert (environment.torch, environment.python) == (release, python)
        return
    with pytest.raises(ConfigError, match=says), torch_environment(python):
        pass


def test_what_is_missing_there_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    script = '#!/bin/sh\ncase "$*" in *torch.__version__*) echo 2.15.0;; *) exec {} -S -I "$@";; esac\n'
    bare.write_text(script.format(sys.executable))
    bare.chmod(0o755)
    with pytest.raises(ConfigError, match=r"fxmorph runs there and lacks .*z3"), torch_environment(str(bare)):
        pass


def test_an_installed_fxmorph_is_found_there_without_what_is_installed_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "fxmorph" / "core", site / "fxmorph" / "core", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "fxmorph" / "__init__.py", site / "fxmorph")
    (site / "fxmorph" / "transforms").mkdir()
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("raise SystemExit('the torch of the wrong environment')")
    monkeypatch.setattr(fxmorph, "__file__", str(site / "fxmorph" / "__init__.py"))
    with torch_environment(python_of(tmp_path / "python", "2.15.0")) as environment:
        code = "import fxmorph, importlib.util as u; print(fxmorph.__file__, u.find_spec('torch').origin)"
        monkeypatch.delenv("PYTHONPATH", raising=False)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment.with_path(os.environ), capture_output=True, text=True,
            cwd=tmp_path,
        )  # fmt: skip
        own, torch = done.stdout.split()
        assert Path(own).resolve() == site / "fxmorph" / "__init__.py" and not torch.startswith(str(site)), done.stderr
    assert not os.path.exists(environment.path)
