"""What is built holds what the tree holds, and only ``fxmorph`` at the top level."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Where each import package lies in the tree.
FOLDERS = {
    "fxmorph": "fxmorph",
    "transforms": "fxmorph/transforms",
    "oracles": "fxmorph/oracles",
    "corpus": "fxmorph/corpus",
}
PARTS = (*FOLDERS, "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt", "cli.py")


def shipped() -> set[str]:
    """Every file of the tree that an installation needs, by its place in the wheel."""
    out = set()
    for folder, home in FOLDERS.items():
        for file in (ROOT / folder).rglob("*"):
            hidden = any(part.startswith((".", "__pycache__")) for part in file.relative_to(ROOT).parts)
            if file.is_file() and not hidden:
                out.add(f"{home}/{file.relative_to(ROOT / folder).as_posix()}")
    return out


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy so that the tree stays clean."""
    pytest.importorskip("setuptools_scm", reason="building needs setuptools and setuptools-scm")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(ROOT / part, source / part)
    code = "import setuptools.build_meta as b, sys; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
    done = subprocess.run([sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> set[str]:
    (file,) = built.glob("*.whl")
    return {name for name in zipfile.ZipFile(file).namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_every_file_of_the_tree(wheel: set[str]) -> None:
    assert shipped() - wheel == set()


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert wheel - shipped() == set()


def test_the_top_level_is_fxmorph_alone(wheel: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel} == {"fxmorph"}


@pytest.mark.parametrize(
    "needed",
    [
        "fxmorph/judge/case.py",
        "fxmorph/triage/folder/repro.py",
        "fxmorph/torchapi/compiling.py",
        "fxmorph/transforms/mutate_keep.py",
        "fxmorph/oracles/value.py",
        "fxmorph/corpus/seeds/attention_causal_tril.py",
        "fxmorph/triage/known/known-issues.toml",
        "fxmorph/triage/known/public-issues.jsonl",
    ],
)
def test_the_wheel_holds_what_is_loaded_by_name(wheel: set[str], needed: str) -> None:
    assert needed in wheel


def test_the_sdist_can_be_built_from(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {part for part in PARTS if (ROOT / part).is_file()} <= names
    homes = {home: folder for folder, home in FOLDERS.items()}
    for path in shipped():
        home = next(h for h in sorted(homes, key=len, reverse=True) if path.startswith(f"{h}/"))
        assert f"{homes[home]}{path.removeprefix(home)}" in names


def test_a_wheel_runs_where_the_tree_is_not(built: Path, tmp_path: Path) -> None:
    (file,) = built.glob("*.whl")
    zipfile.ZipFile(file).extractall(tmp_path / "site")
    code = (
        "import fxmorph, sys; from pathlib import Path; from fxmorph.rules import load_rules;"
        "from fxmorph.oracle import load_oracles; from fxmorph.triage.known.known_issues import load_known;"
        "from fxmorph.triage.known.public_index import load_index; load_known(); load_index();"
        "from fxmorph.core.seeds import find_seeds, shipped_corpus;"
        "seeds, refused = find_seeds([shipped_corpus()]);"
        "print(Path(fxmorph.__file__).parent, len(load_rules()), len(load_oracles()), len(seeds), len(refused))"
    )
    env = {"PYTHONPATH": str(tmp_path / "site"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    where, rules, oracles, seeds, refused = done.stdout.split()
    assert where == str(tmp_path / "site" / "fxmorph")
    assert (int(rules) >= 60, int(oracles) >= 6, int(seeds) >= 80, refused) == (True, True, True, "0")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize(("tag", "version"), [("v3.1.4", r"3\.1\.4"), (None, r"0\.1\.dev1\+g[0-9a-f]+")])
def test_a_tag_tells_the_version(tag: str | None, version: str, tmp_path: Path) -> None:
    """Without one the commit is told."""
    source = tmp_path / "source"
    source.mkdir()
    for part in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, source / part)
    for folder in FOLDERS:
        for package in (ROOT / folder).rglob("__init__.py"):
            (source / package.relative_to(ROOT)).parent.mkdir(exist_ok=True, parents=True)
            (source / package.relative_to(ROOT)).touch()
    (source / ".gitignore").write_text("*.egg-info/\n")
    commands = [["init"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-m", "all"]]
    for command in [*commands, *([["tag", tag]] if tag else [])]:
        subprocess.run(["git", *command], cwd=source, check=True, capture_output=True)
    code = f"import setuptools.build_meta as b; print(b.prepare_metadata_for_build_wheel({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.fullmatch(rf"fxmorph-{version}\.dist-info", done.stdout.splitlines()[-1])


def test_a_docker_build_is_given_what_the_wheel_is_made_of() -> None:
    given = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert given == {*FOLDERS, "pyproject.toml", "README.md", "LICENSE", "constraints.txt"}


def test_every_package_of_the_tree_is_listed() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    packages = {
        f"{home}{file.parent.relative_to(ROOT / folder).as_posix()}".replace("/", ".").rstrip(".")
        for folder, home in ((f, h + "/") for f, h in FOLDERS.items())
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert packages == listed
