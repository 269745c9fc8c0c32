"""``fxmorph seeds models``: public architectures as seed files, or a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import ConfigError
from fxmorph.core.exits import Exit
from fxmorph.core.versions import version_of
from fxmorph.programs.architectures import ARCHITECTURES, Architecture


def list_models(names: Sequence[str]) -> Exit:
    """One line each: the library that builds it, and its version or how to get it."""
    rows = [
        (a.name, a.library, version_of(a.library) if a.installed else f"pip install {a.library}") for a in _named(names)
    ]
    print_columns(("architecture", "library", "installed"), rows)
    return Exit.OK


def write_models(names: Sequence[str], out: Path) -> Exit:
    """``NAME.py`` in eval mode and ``NAME_train.py`` of each whose library is installed.

    Raises :class:`ConfigError` for a name that is unknown, where no library is installed, and for a folder that cannot
    be written.
    """
    chosen = _named(names)
    here = [a for a in chosen if a.installed]
    missing = sorted({a.library for a in chosen} - {a.library for a in here})
    if not here:
        raise ConfigError(f"not installed: {', '.join(missing)}; pip install {' '.join(missing)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        for architecture in here:
            for suffix, training in (("", False), ("_train", True)):
                text = architecture.seed_text(training)
                (out / f"{architecture.name}{suffix}.py").write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}") from None
    left = f"; not installed: {', '.join(missing)}" if missing else ""
    print_line(f"{2 * len(here)} seeds of {len(here)} architectures in {out}{left}")
    return Exit.OK


def _named(names: Sequence[str]) -> list[Architecture]:
    known = {a.name: a for a in ARCHITECTURES}
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no architecture named {', '.join(unknown)}; `fxmorph seeds models` lists them")
    return [known[name] for name in names] or list(ARCHITECTURES)
