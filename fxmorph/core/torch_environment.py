"""A Python environment that holds the torch to test, and this fxmorph run in it."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import fxmorph
from fxmorph.core.config import ConfigError
from fxmorph.core.scripts import Scripts, last_line
from fxmorph.core.versions import SUPPORTED

#: Wall seconds to import torch.
IMPORT_SECONDS = 300
#: What fxmorph imports besides torch, as pyproject.toml has it.
NEEDED = ("numpy", "networkx", "pydantic", "typer", "pygments", "rich", "z3", "jinja2", "openai")
_LACKS = (
    "import importlib.util as u, sys; "
    "print(*[n for n in sys.argv[1:] if u.find_spec(n) is None], '' if sys.version_info >= (3, 11) else 'Python>=3.11')"
)


@dataclass(frozen=True)
class TorchEnvironment:
    """``python`` is the interpreter, ``torch`` what it imports, as ``2.15.0.dev20261130+cpu``; ``path`` is where it
    finds this fxmorph.
    """

    python: str
    torch: str
    path: str

    def start(self, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        """``fxmorph`` with these arguments, in a session of its own: what interrupts this process does not reach it."""
        command = [self.python, "-m", "fxmorph", *arguments]
        return subprocess.Popen(command, env=self.with_path(os.environ), start_new_session=True)

    @property
    def scripts(self) -> Scripts:
        """Runs scripts, such as import fxmorph too."""
        return _ScriptsOf(self)

    def with_path(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables, with where fxmorph is found."""
        inherited = environment.get("PYTHONPATH", "")
        return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, (self.path, inherited)))}


class _ScriptsOf(Scripts):
    def __init__(self, environment: TorchEnvironment) -> None:
        super().__init__(environment.python)
        self._environment = environment

    def run(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        return super().run(arguments, folder, self._environment.with_path(environment), seconds)


@contextmanager
def torch_environment(python: str = "") -> Iterator[TorchEnvironment]:
    """That of the interpreter, "" for this one; raises :class:`ConfigError` where fxmorph cannot run there."""
    place = placed(python or sys.executable)
    torch = release_of(place)
    first = ".".join(map(str, SUPPORTED[0]))
    if tuple(map(int, re.findall(r"\d+", torch)[:2])) < SUPPORTED[0]:
        raise ConfigError(f"--python {place}: torch {torch} is too old: fxmorph needs {first} or newer")
    lacks = _printed(place, ["-c", _LACKS, *NEEDED])
    if lacks:
        raise ConfigError(f"--python {place}: fxmorph runs there and lacks {', '.join(lacks.split())}")
    with TemporaryDirectory(prefix="fxmorph-path-") as folder:
        yield TorchEnvironment(place, torch, _path(Path(folder)))


def _path(folder: Path) -> str:
    """A ``PYTHONPATH`` that has this fxmorph and nothing of what is installed beside it, torch above all."""
    package = Path(fxmorph.__file__).absolute().parent
    with contextlib.suppress(metadata.PackageNotFoundError):  # what tells the version, and lists plug-ins
        for described in Path(str(metadata.distribution("fxmorph").locate_file(""))).glob("fxmorph-*.dist-info"):
            (folder / described.name).symlink_to(described.absolute())
    if not (package / "transforms").is_dir():  # a checkout, whose other folders lie beside the package
        return os.pathsep.join((str(folder), str(package.parent)))
    (folder / package.name).symlink_to(package)
    return str(folder)


def placed(python: str) -> str:
    """The interpreter from whatever folder; links are not followed: that of an environment says which one it is."""
    return str(Path(python).absolute()) if "/" in python else python


def release_of(python: str, option: str = "--python") -> str:
    """The torch that the interpreter imports, as ``2.10.0+cpu``.

    Raises :class:`ConfigError`, which names the ``option`` that it was given by, where it has none.
    """
    return _printed(python, ["-c", "import torch; print(torch.__version__)"], option)


def _printed(python: str, arguments: Sequence[str], option: str = "--python") -> str:
    """The last line that it prints; raises :class:`ConfigError` where it fails."""
    try:
        done = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=IMPORT_SECONDS, cwd="/")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{option} {python}: cannot be run ({type(error).__name__})") from None
    if done.returncode:
        raise ConfigError(f"{option} {python}: {last_line(done.stderr)}")
    return last_line(done.stdout).strip()
