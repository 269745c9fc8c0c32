"""What every command begins and ends with: settings, paths that hold something, errors in one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

from fxmorph.core.config import ConfigError, Settings, load_settings
from fxmorph.core.exits import Exit
from fxmorph.core.operator_seeds import PREFIX

_SHIPPED = "`fxmorph corpus` prints the path of the corpus that is installed with fxmorph"


def fail(message: str, code: Exit, error: Exception | None = None) -> NoReturn:
    """End with one line on stderr, and the traceback of ``error`` below it."""
    print("fxmorph: " + " ".join(message.split()), file=sys.stderr)
    if error is not None:
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """What the user can mend is one line on stderr and a code; the rest passes on."""
    try:
        yield
    except ConfigError as error:
        fail(str(error), Exit.USAGE)
    except KeyboardInterrupt:
        fail("interrupted; what was judged is stored, --resume goes on", Exit.INTERRUPTED)
    except Exception as error:
        # Late, since most commands never get here.
        from fxmorph.core.seeds import SeedError
        from fxmorph.core.store import DiskError, StoreError
        from fxmorph.rules import RuleError

        if isinstance(error, DiskError):
            fail(str(error), Exit.INTERNAL)
        if isinstance(error, (StoreError, RuleError, SeedError)):
            fail(str(error), Exit.USAGE)
        raise


def settings_of(given: Mapping[str, Any], unset: Mapping[str, Any] | None = None) -> Settings:
    """Settings of raw values by key, the environment and the file here; raises :class:`ConfigError`.

    ``unset`` are fields for what none of them gives.
    """
    return load_settings({**given, "verbose": given.get("verbose") or None}, Path.cwd(), os.environ, unset)


def require_word(option: str, value: str, words: type[StrEnum]) -> None:
    """Raise :class:`ConfigError` for a value that is none of the words, and not "" either."""
    if value and value not in list(words):
        raise ConfigError(f"{option} {value}: want one of {', '.join(words)}")


def require_seeds(settings: Settings) -> None:
    """Refuse paths that hold nothing to run before torch is imported; raises :class:`ConfigError`."""
    if settings.cases is not None:
        if settings.paths:
            raise ConfigError("--cases names its seeds itself: give no paths with it")
        if not Path(settings.cases).is_file():
            raise ConfigError(f"--cases {settings.cases}: no such file")
    elif not settings.paths and not settings.resume:
        raise ConfigError(f"no paths given: name a corpus folder, a seed file, or module.py:Name ({_SHIPPED})")
    from fxmorph.core.seeds import find_seeds

    for path in settings.paths:
        file, colon, _ = path.partition(".py:")
        if not path.startswith(PREFIX) and not Path(file + ".py" if colon else path).exists():
            hint = f" ({_SHIPPED})" if Path(path).name == "corpus" else ""
            raise ConfigError(f"{path}: no such file or folder{hint}")
        if colon or path.startswith(PREFIX):
            find_seeds([path])  # refuses what the file does not define, and what names no operator
    for option, folders in (("--transforms", settings.transforms), ("--oracles", settings.oracles)):
        for folder in folders:
            if not Path(folder).is_dir():
                raise ConfigError(f"{option} {folder}: no such folder")
    if settings.baseline is not None and not Path(settings.baseline).is_file():
        raise ConfigError(f"--baseline {settings.baseline}: no such file")
    if settings.paths and not any(map(_may_hold_seeds, settings.paths)):
        fail(f"no seeds in {', '.join(settings.paths)}", Exit.NOTHING_RAN)


def _may_hold_seeds(path: str) -> bool:
    where = Path(path)
    if not where.is_dir():
        return True
    files = (file for suffix in ("*.py", "*.pt2") for file in where.rglob(suffix))
    return any(not file.name.startswith(("_", ".")) for file in files)


def require_findings(settings: Settings, ids: Sequence[str], every: bool) -> None:
    """Raises :class:`ConfigError` where neither ids nor all are wanted, or both, and ``StoreError`` for no such id."""
    if bool(ids) == every:
        raise ConfigError("name findings by id, or say --all (`fxmorph findings` lists them)")
    from fxmorph.core.store import Store

    with Store(settings.state_dir, write=False) as store:
        for prefix in ids:
            store.finding(prefix)
