"""Settings: command line over environment over file.

The file is ``fxmorph.toml`` or the table ``[tool.fxmorph]`` of ``pyproject.toml``, the
nearest one at or above the current folder.  Its keys are the long options without dashes
in front (``max-time = "15m"``); the environment spells them ``FXMORPH_MAX_TIME``.
"""

from __future__ import annotations

import ast
import difflib
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from fxmorph.core.shard import Shard
from fxmorph.model import CONTEXTS, FLOATS, Rung, check_arguments

Pairs = tuple[tuple[str, Any], ...]

T = TypeVar("T")

DEVICES = ("cpu", "cuda")
LEVELS = ("torch", "aten")
#: Forms of ``--report``, and whether each is written to a file.
REPORTS = {"junit": True, "sarif": True, "github": False}
MAX_DEFAULT_JOBS = 8


#: Fields that decide how a run is told, how long it goes on and what counts, and not what a case is.
ANEW = (
    "jobs", "max_time", "max_cases", "baseline", "fail_on_known", "state", "report", "json", "quiet", "verbose",
    "resume", "engine",
)  # fmt: skip


class Source(StrEnum):
    """Where the programs of a campaign come from."""

    SEEDS = "seeds"  #: the paths that are given
    OPERATORS = "operators"  #: operators of torch's own tests
    GENERATED = "generated"  #: random programs
    PASSES = "passes"  #: passes of Inductor, each alone on graphs of seeds and graphs made for it


class EngineName(StrEnum):
    """Where the workers of a campaign are."""

    LOCAL = "local"  #: processes of this machine
    RAY = "ray"  #: on the nodes of a Ray cluster


class ConfigError(ValueError):
    """A setting is unknown or has a wrong value; the message says where it was written."""


@dataclass(frozen=True)
class Settings:
    """All that a command can be told.  Times are in seconds.

    ``max_time`` is wall time of a run, ``case_timeout`` CPU time of a case; ``jobs`` 0 means
    one worker per core.  ``device`` may name several, as in ``"cpu,cuda"``.  ``compile``,
    ``inductor`` and ``dynamo`` are sorted pairs: keyword arguments of ``torch.compile`` and
    settings of ``torch._inductor.config`` and ``torch._dynamo.config``.  ``threads`` 0 means what ``plans.threads_of``
    draws.  ``shard`` is the part of the campaign that is done, None where one run is all of it.  ``engine``
    says where workers are.
    """

    paths: tuple[str, ...] = ()
    seed: int = 0
    jobs: int = 0
    max_time: float = 900.0
    max_cases: int | None = None
    shard: Shard | None = None
    engine: str = EngineName.LOCAL
    device: str = "cpu"
    backend: str = "inductor"
    compile: Pairs = ()
    inductor: Pairs = ()
    dynamo: Pairs = ()
    transforms: tuple[str, ...] = ()
    oracles: tuple[str, ...] = ()
    baseline: str | None = None
    cases: str | None = None
    level: str = "torch"
    rung: str = ""
    dtype: str = ""
    context: str = ""
    rewrites: bool = True
    only: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    all: bool = False
    propose: bool = False
    edge_cases: bool = False
    quick: bool = False
    threads: int = 0
    fail_on_known: bool = False
    resume: bool = False
    case_timeout: float = 120.0
    state: str = ".fxmorph"
    report: tuple[str, ...] = ()
    json: bool = False
    quiet: bool = False
    verbose: int = 0
    #: Fields that the command line, the environment or the file gave.
    given: tuple[str, ...] = field(default=(), compare=False)

    @property
    def sources(self) -> tuple[str, ...]:
        """What ``only`` says; of a corpus all that have the rung, of other paths these alone."""
        if self.only:
            return self.only
        if not any((Path(path) / "seeds").is_dir() for path in self.paths):
            return (Source.SEEDS,)
        return tuple(source for source in Source if source is not Source.PASSES or not self.rung)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(self.device.split(","))

    @property
    def interprets(self) -> bool:
        """Whether kernels are interpreted, and not compiled."""
        return self.rung == Rung.IR

    @property
    def compiles_alone(self) -> bool:
        """Whether all kernels are compiled, those of first looks too."""
        return self.rung in (Rung.CPU, Rung.CUDA)

    @property
    def effective_jobs(self) -> int:
        """Workers to start on this machine: ``jobs``, or the cores this process may use, at most 8."""
        if self.jobs:
            return self.jobs
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, MAX_DEFAULT_JOBS)

    @property
    def state_dir(self) -> Path:
        return Path(self.state)


def load_settings(
    command_line: Mapping[str, Any], cwd: Path, env: Mapping[str, str], unset: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from the three places; ``unset`` are fields for what none of them gives.

    ``command_line`` maps keys to raw values (text, or typed); ``None`` and empty lists mean
    "not given".  Raises :class:`ConfigError` with one line that names the place, the key and,
    for an unknown key, the nearest valid one.
    """
    values: dict[str, Any] = {}
    file, table = _find_file(cwd)
    for key, raw in table.items():
        if key == "pass":  # whole tables, of :func:`pass_tables`
            continue
        name = _known(key, str(file))
        value = _parse(name, raw, f"{file}: {key}")
        values[name] = _beside(file.parent, name, value)
    for variable, raw in sorted(env.items()):
        if variable.startswith("FXMORPH_") and not variable.startswith("FXMORPH_CAPTURE_"):
            name = _known(variable[len("FXMORPH_") :].lower(), "environment", _as_variable)
            values[name] = _parse(name, raw, variable)
    for key, raw in command_line.items():
        if raw is not None and raw != [] and raw != ():
            name = _known(key, "command line")
            values[name] = _parse(name, raw, f"--{_as_option(name)}")
    given = {_FIELDS.get(name, name): value for name, value in values.items()}
    return Settings(**{**(unset or {}), **given}, given=tuple(given))


def pass_tables(cwd: Path | None = None) -> list[tuple[str, Mapping[str, Any]]]:
    """(Where it stands, the table) of each ``[[tool.fxmorph.pass]]``; raises :class:`ConfigError` for what is none."""
    file, table = _find_file(cwd or Path.cwd())
    entries = table.get("pass", [])
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        raise ConfigError(f"{file}: pass: want tables, as [[tool.fxmorph.pass]]")
    return [(str(file), entry) for entry in entries]


def read_option(option: str, parse: Callable[[str], T], text: str | None) -> T | None:
    """What ``parse`` makes of an option's text, None of none; a ``ValueError`` of it becomes a :class:`ConfigError`."""
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}") from None


def duration(raw: Any) -> float:
    """Seconds from ``900``, ``"90s"``, ``"15m"``, ``"2h"`` or ``"1h30m"``; raises ``ValueError``."""
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        seconds = float(raw)
    else:
        text = str(raw).strip()
        parts = re.findall(r"(\d+(?:\.\d+)?)([smhd]?)", text)
        if not parts or "".join(n + unit for n, unit in parts) != text or (len(parts) > 1 and not parts[-1][1]):
            raise ValueError(f"not a duration: {raw!r} (want 900, 90s, 15m or 2h)")
        seconds = sum(float(n) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[unit] for n, unit in parts)
    if not 0 < seconds < float("inf"):
        raise ValueError(f"not a positive duration: {raw!r}")
    return seconds


def pairs(raw: Any) -> Pairs:
    """Sorted pairs from ``"a=True,b=text"``, a list of such texts, or a mapping.

    Values are Python literals, or else text.  Raises ``ValueError`` on a part without ``=``.
    """
    if isinstance(raw, Mapping):
        return tuple(sorted((str(k), v) for k, v in raw.items()))
    found: dict[str, Any] = {}
    for text in [raw] if isinstance(raw, str) else raw:
        if not isinstance(text, str):
            raise ValueError(f"want name=value, got {text!r}")
        for part in _split_outside_brackets(text):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                raise ValueError(f"want name=value, got {part!r}")
            found[key.strip()] = _literal(value.strip())
    return tuple(sorted(found.items()))


def _compile_arguments(raw: Any) -> Pairs:
    found = pairs(raw)
    check_arguments(dict(found))
    return found


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p for p in parts if p.strip()]


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(f"want text, got {raw!r}")
    return raw.strip()


def _texts(raw: Any) -> tuple[str, ...]:
    items = [raw] if isinstance(raw, str) else raw
    if not isinstance(items, Iterable):
        raise ValueError(f"want a list of texts, got {raw!r}")
    return tuple(_text(item) for item in items)


def _flag(raw: Any) -> bool:
    if isinstance(raw, bool):
        return raw
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if isinstance(raw, str) and raw.strip().lower() in words:
        return words[raw.strip().lower()]
    raise ValueError(f"want true or false, got {raw!r}")


def _whole(least: int) -> Callable[[Any], int]:
    def parse(raw: Any) -> int:
        if isinstance(raw, str) and re.fullmatch(r"\s*-?\d+\s*", raw):
            raw = int(raw)
        if not isinstance(raw, int) or isinstance(raw, bool):
            raise ValueError(f"want a whole number, got {raw!r}")
        if raw < least:
            raise ValueError(f"want at least {least}, got {raw}")
        return raw

    return parse


def _word(*words: str) -> Callable[[Any], str]:
    def parse(raw: Any) -> str:
        if raw not in words:
            raise ValueError(f"want {' or '.join(words)}, got {raw!r}")
        return str(raw)

    return parse


def _devices(raw: Any) -> str:
    names = [part.strip() for part in _text(raw).split(",")]
    for name in names:
        if name not in DEVICES:
            raise ValueError(f"want {' or '.join(DEVICES)} or both with a comma, got {name!r}")
    return ",".join(dict.fromkeys(names))


def _reports(raw: Any) -> tuple[str, ...]:
    for text in (found := _texts(raw)):
        form, equals, file = text.partition("=")
        if form not in REPORTS or bool(file) != REPORTS[form] or bool(equals) != REPORTS[form]:
            raise ValueError(f"want {', '.join(f'{f}=FILE' if REPORTS[f] else f for f in REPORTS)}, got {text!r}")
    return found


def _sources(raw: Any) -> tuple[str, ...]:
    names = tuple(part.strip() for text in _texts(raw) for part in text.split(","))
    for name in names:
        if name not in list(Source):
            raise ValueError(f"want {', '.join(Source)}, got {name!r}")
    return names


def _shard(raw: Any) -> Shard:
    return Shard.parse(_text(raw))


def _fail_on(raw: Any) -> bool:
    return _word("new", "known")(raw) == "known"


#: Keys as written (with ``_`` for ``-``) and how each is read.
_PARSERS: dict[str, Callable[[Any], Any]] = {
    "paths": _texts,
    "seed": _whole(0),
    "jobs": _whole(0),
    "max_time": duration,
    "max_cases": _whole(1),
    "shard": _shard,
    "engine": _word(*EngineName),
    "device": _devices,
    "backend": _text,
    "compile": _compile_arguments,
    "inductor": pairs,
    "dynamo": pairs,
    "transforms": _texts,
    "oracles": _texts,
    "baseline": _text,
    "cases": _text,
    "level": _word(*LEVELS),
    "rung": _word(Rung.IR, Rung.CPU, Rung.CUDA),
    "dtype": _word(*FLOATS),
    "context": _word(*filter(None, CONTEXTS)),
    "rewrites": _flag,
    "only": _sources,
    "passes": _texts,
    "all": _flag,
    "propose": _flag,
    "edge_cases": _flag,
    "quick": _flag,
    "threads": _whole(1),
    "fail_on": _fail_on,
    "resume": _flag,
    "case_timeout": duration,
    "state": _text,
    "report": _reports,
    "json": _flag,
    "quiet": _flag,
    "verbose": _whole(0),
}

#: Keys whose field has another name.
_FIELDS = {"fail_on": "fail_on_known"}

_ON_DISK = ("paths", "transforms", "oracles", "baseline", "cases", "state", "report")


def _as_option(name: str) -> str:
    return name.replace("_", "-")


def option_of(name: str) -> str:
    """The long option, without dashes, of a field of :class:`Settings`."""
    if name == "rewrites":
        return "no-rewrites"
    return _as_option(next((key for key, own in _FIELDS.items() if own == name), name))


def _as_variable(name: str) -> str:
    return "FXMORPH_" + name.upper()


def _known(key: str, where: str, spell: Callable[[str], str] = _as_option) -> str:
    name = key.replace("-", "_")
    if name in _PARSERS:
        return name
    near = difflib.get_close_matches(name, _PARSERS, 1, 0.0)[0]
    raise ConfigError(f"{where}: unknown key {spell(name)!r}; the nearest valid key is {spell(near)!r}")


def _parse(name: str, raw: Any, where: str) -> Any:
    try:
        return _PARSERS[name](raw)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{where}: {error}") from None


def _beside(folder: Path, name: str, value: Any) -> Any:
    """Paths written in a file are relative to that file."""
    if name not in _ON_DISK:
        return value
    if name == "report":
        return tuple(_report_beside(folder, text) for text in value)
    if isinstance(value, tuple):
        return tuple(str(folder / item) for item in value)
    return str(folder / value)


def _report_beside(folder: Path, text: str) -> str:
    form, _, file = text.partition("=")
    return f"{form}={folder / file}" if file else text


def _find_file(cwd: Path) -> tuple[Path, dict[str, Any]]:
    for folder in (cwd, *cwd.parents):
        own = folder / "fxmorph.toml"
        if own.is_file():
            return own, _read_toml(own)
        project = folder / "pyproject.toml"
        if project.is_file():
            table = _read_toml(project).get("tool", {}).get("fxmorph")
            if table is not None:
                if not isinstance(table, dict):
                    raise ConfigError(f"{project}: tool.fxmorph is not a table")
                return project, table
    return cwd / "fxmorph.toml", {}


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{file}: {error}") from None
