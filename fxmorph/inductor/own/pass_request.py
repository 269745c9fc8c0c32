"""What a user asks of ``check-pass``: which pass, how it is made and called, on which graphs.  Without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fxmorph.core.config import ConfigError, pairs


@dataclass(frozen=True)
class PassRequest:
    """One pass.

    ``name`` is what it is called, ``target`` where it is (``name`` itself if empty).  ``make`` makes the pass of
    what is there, ``args`` are values of parameters as text, ``setup`` runs first, ``context`` surrounds every
    call: each an expression over the names of the pass's module, or ``module:name``.  ``stub_ops`` are namespaces
    whose missing operators get stand-ins; ``inductor`` are settings of Inductor; ``rtol`` is a difference that
    the author allows, relative to the largest value of a result.
    """

    name: str
    at: str = ""
    make: str = ""
    args: tuple[tuple[str, str], ...] = ()
    setup: str = ""
    context: str = ""
    stage: str = ""
    prelude: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    stub_ops: tuple[str, ...] = ()
    inductor: tuple[tuple[str, Any], ...] = ()
    compile: tuple[tuple[str, Any], ...] = ()
    device: str = "cpu"
    dynamic: bool = False
    rtol: float = 0.0

    @property
    def target(self) -> str:
        return self.at or self.name

    @property
    def where(self) -> str:
        """The module or file that expressions take names from; "" of a plug-in."""
        return self.target.rpartition(":")[0]


def arguments(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE`` of ``--arg``, each; raises ``ConfigError``."""
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ConfigError(f"--arg {text}: want NAME=VALUE")
        found.append((name.strip(), value.strip()))
    return tuple(found)


_SPELLED = {"pass": "at", "args": "args", "arg": "args"}
_LISTS = ("stub_ops", "prelude", "assume")
_PAIRS = ("inductor", "compile")


def from_table(table: Mapping[str, Any], where: str) -> PassRequest:
    """An entry ``[[tool.fxmorph.pass]]``; raises ``ConfigError`` on what it does not know."""
    known = {f.name for f in fields(PassRequest)} | _SPELLED.keys()
    values: dict[str, Any] = {}
    for key, raw in table.items():
        name = key.replace("-", "_")
        if name not in known:
            raise ConfigError(f"{where}: unknown key {key!r} of a pass; want one of {', '.join(sorted(known))}")
        values[_SPELLED.get(name, name)] = raw
    if not isinstance(values.get("name"), str):
        raise ConfigError(f"{where}: a pass needs a name")
    if "args" in values:
        said = values["args"]
        values["args"] = arguments([f"{k}={v}" for k, v in said.items()] if isinstance(said, Mapping) else said)
    for name in _PAIRS:
        if name in values:
            values[name] = pairs(values[name])
    for name in _LISTS:
        if name in values:
            values[name] = tuple([values[name]] if isinstance(values[name], str) else values[name])
    return PassRequest(**values)


def merged(entry: PassRequest, given: PassRequest) -> PassRequest:
    """An entry with what the command line says in place of what it says."""
    empty = PassRequest("")
    said = {
        f.name: getattr(given, f.name)
        for f in fields(given)
        if f.name not in ("name", "at") and getattr(given, f.name) != getattr(empty, f.name)
    }
    return replace(entry, **said)
