"""The pytest plug-in: seed files as test items, and fixtures for tests of programs and passes.

Nothing here imports torch until an item or a fixture is used.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fxmorph", "fxmorph: torch.compile against eager")
    group.addoption(
        "--fxmorph", action="store_true", help="collect fxmorph seed files (make_inputs and fn) as test items"
    )
    group.addoption("--fxmorph-backend", default="inductor", metavar="NAME", help="backend of torch.compile [inductor]")
    parser.addini("fxmorph_corpus", "folders whose seed files are always collected", type="paths", default=[])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A seed file that is asked for; one that is named itself comes by way of ``pytest_pycollect_makemodule``."""
    named = parent.session.isinitpath(file_path)
    return SeedFile.from_parent(parent, path=file_path) if not named and _wanted(file_path, parent.config) else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A file that is named on the command line is a test module for pytest; a seed is not to be imported as one."""
    return SeedFile.from_parent(parent, path=module_path) if _wanted(module_path, parent.config) else None


def _wanted(file: Path, config: pytest.Config) -> bool:
    """Whether it is a seed, asked for by ``--fxmorph`` or by where it lies."""
    asked = config.getoption("--fxmorph") or any(file.is_relative_to(f) for f in config.getini("fxmorph_corpus"))
    if not asked or file.suffix != ".py" or file.name.startswith(("_", "test_", "conftest")):
        return False
    text = file.read_text(encoding="utf-8", errors="replace")
    return "def make_inputs(" in text and any(word in text for word in ("def fn(", "def make_fn(", "\nfn ="))


class SeedFile(pytest.File):
    """One seed file; its one item is the program as it is."""

    def collect(self) -> Iterator[pytest.Item]:
        yield SeedItem.from_parent(self, name=self.path.stem)


class Miscompiled(Exception):
    """The compiled program does not do what eager does."""


class SeedItem(pytest.Item):
    """Fails where the seed is miscompiled.

    A regression of a public issue (``EXPECTED = "finding"``) is an expected failure on the releases of torch that its
    ``BROKEN_IN`` names, and a failure on any other.
    """

    def runtest(self) -> None:
        from fxmorph.model import Status
        from fxmorph.testing import judge_seed, said

        result = judge_seed(self.path, self.config.getoption("--fxmorph-backend"))
        if result.status is Status.FINDING:
            import torch

            if known_broken(self.path.read_text(encoding="utf-8"), torch.__version__):
                pytest.xfail(f"alive: {result.reason}")
            raise Miscompiled(said(result))
        if result.status in (Status.UNSUPPORTED, Status.SKIPPED, Status.INCONCLUSIVE):
            pytest.skip(f"{result.status}: {result.reason}")
        if result.status is Status.ERROR:
            raise ValueError(result.reason)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, (Miscompiled, ValueError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"seed {self.name}"


def known_broken(text: str, release: str) -> bool:
    """Whether the seed file with this text says that it is miscompiled by torch ``release`` (``2.13.0+cpu``).

    What it says to be broken on a GPU only counts where it is for one (``META``'s ``device``).
    """
    said: dict[str, Any] = {}
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            with contextlib.suppress(ValueError):  # not a literal
                said[line.targets[0].id] = ast.literal_eval(line.value)
    where, colon, releases = str(said.get("BROKEN_IN", "")).rpartition(":")
    if colon and "GPU" in where and said.get("META", {}).get("device") != "cuda":
        return False
    words = releases.partition("(")[0].replace(",", " ").split()
    return said.get("EXPECTED") == "finding" and release.partition("+")[0] in words


@pytest.fixture
def assert_equivalent() -> Callable[..., None]:
    """:func:`fxmorph.testing.assert_equivalent`."""
    from fxmorph.testing import assert_equivalent

    return assert_equivalent


@pytest.fixture
def check_pass() -> Callable[..., int]:
    """:func:`fxmorph.testing.check_pass`."""
    from fxmorph.testing import check_pass

    return check_pass
