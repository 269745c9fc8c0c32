"""Which seeds a path names: folders, files, ``module.py:Name``.  Reads text only, imports nothing.

Seeds are programs and are executed when a campaign runs them: point fxmorph only at files
that you would run yourself.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path

from fxmorph.core.operator_seeds import PREFIX, operator_seeds
from fxmorph.model import Seed


class SeedError(ValueError):
    """A path that names no seed; the message says what is wrong and what to do."""


@dataclass(frozen=True)
class Refusal:
    """A file that looked like a seed and cannot be one."""

    path: str
    reason: str


SUFFIXES = (".py", ".pt2")


def shipped_corpus() -> str:
    """The folder of the corpus that is installed with fxmorph."""
    import fxmorph.corpus as shipped

    return str(next(iter(shipped.__path__)))


def find_seeds(paths: list[str], regressions: bool = False) -> tuple[list[Seed], list[Refusal]]:
    """Seeds at the paths, in order of path, and the files refused.

    Of a corpus folder (one that holds ``seeds/``) only ``seeds/`` is taken, and
    ``regressions/`` too if asked.  Raises :class:`SeedError` for a path that does not exist.
    """
    seeds: list[Seed] = []
    refusals: list[Refusal] = []
    for path in paths:
        if path.startswith(PREFIX):
            seeds += _of_operator(path)
            continue
        file, _, name = path.partition(".py:")
        if name:
            seeds += _named(Path(file + ".py"), name)
            continue
        where = Path(path)
        if not where.exists():
            raise SeedError(f"{path}: no such file or folder")
        if where.is_file():
            found = _seed(where, refusals, explicit=True)
            seeds += [found] if found else []
            continue
        folders = [where]
        if (where / "seeds").is_dir():
            folders = [where / "seeds"] + ([where / "regressions"] if regressions else [])
        for folder in folders:
            for item in sorted(folder.rglob("*")) if folder.is_dir() else []:
                if item.suffix in SUFFIXES and item.is_file() and not item.name.startswith(("_", ".")):
                    found = _seed(item, refusals, explicit=False)
                    seeds += [found] if found else []
    unique = {s.hash + s.name + s.mode: s for s in reversed(seeds)}
    return [s for s in seeds if unique[s.hash + s.name + s.mode] is s], refusals


def is_regression(seed: Seed) -> bool:
    """Whether the seed's file says what a release that has the bug makes of it (``EXPECTED``)."""
    if seed.form != "module":
        return False
    return "EXPECTED" in _definitions(ast.parse(_read(Path(seed.path))))


def _of_operator(text: str) -> list[Seed]:
    try:
        return operator_seeds(text)
    except ValueError as error:
        raise SeedError(f"{text}: {error}") from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SeedError(f"{file}: cannot be read ({error.strerror})") from None


def _hash(data: bytes, *more: str) -> str:
    return hashlib.sha256(b"\0".join([data, *(m.encode() for m in more)])).hexdigest()[:16]


def _seed(file: Path, refusals: list[Refusal], explicit: bool) -> Seed | None:
    try:
        data = _read(file)
    except SeedError as error:
        refusals.append(Refusal(str(file), str(error).split(": ", 1)[1]))
        return None
    if file.suffix == ".pt2":
        return Seed(str(file), "pt2", _hash(data))
    if file.suffix != ".py":
        refusals.append(Refusal(str(file), "not a .py or .pt2 file"))
        return None
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        refusals.append(Refusal(str(file), f"does not parse: {error.args[0]}" + (f" (line {line})" if line else "")))
        return None
    defined = _definitions(tree)
    if "load_args" in defined and ("Repro" in defined or "mod" in defined):
        return Seed(str(file), "runnable", _hash(data), origin=f"fx_graph_runnable script {file.name}")
    if "make_inputs" in defined and ("fn" in defined or "make_fn" in defined):
        origin = defined.get("ORIGIN")
        text = origin.value if isinstance(origin, ast.Constant) and isinstance(origin.value, str) else ""
        return Seed(str(file), "module", _hash(data), origin=text)
    if explicit:
        refusals.append(Refusal(str(file), "defines no make_inputs() with fn or make_fn(); name a class as FILE:Name"))
    return None


def _definitions(tree: ast.Module) -> dict[str, ast.expr | None]:
    out: dict[str, ast.expr | None] = {}
    for s in tree.body:
        if isinstance(s, (ast.FunctionDef, ast.ClassDef)):
            out[s.name] = None
        elif isinstance(s, ast.Assign):
            out.update({t.id: s.value for t in s.targets if isinstance(t, ast.Name)})
        elif isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name):
            out[s.target.id] = s.value
        elif isinstance(s, (ast.Import, ast.ImportFrom)):
            out.update({(a.asname or a.name).split(".")[0]: None for a in s.names})
    return out


def _named(file: Path, name: str) -> list[Seed]:
    if not file.exists():
        raise SeedError(f"{file}: no such file")
    data = _read(file)
    try:
        defined = _definitions(ast.parse(data))
    except SyntaxError as error:
        raise SeedError(f"{file}: does not parse: {error.msg} (line {error.lineno})") from None
    if name not in defined:
        raise SeedError(f"{file}: defines no {name!r}")
    return [Seed(str(file), "class", _hash(data, name, mode), name, mode) for mode in ("eval", "train")]
