"""Seed files copied into a corpus."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from fxmorph.core.config import ConfigError
from fxmorph.core.seeds import is_regression
from fxmorph.core.store import DiskError
from fxmorph.model import Seed

#: Hex digits of a seed's hash that tell it from another one of the same file name.
DIGITS = 6


def home_of(corpus: Path, seed: Seed) -> Path:
    """The folder of a corpus that the seed belongs into: ``regressions/`` or ``seeds/``, where the corpus has it."""
    own = corpus / ("regressions" if is_regression(seed) else "seeds")
    return own if own.is_dir() else corpus


def require_own_file(seed: Seed) -> Path:
    """The file that is the seed; raises :class:`ConfigError` for one that is a part of a file, or none."""
    file = Path(seed.path)
    if seed.name or not file.is_file():
        raise ConfigError(f"{seed.label}: is no file of its own, as the seeds of a corpus are")
    return file


def copied(seed: Seed, folder: Path) -> Path:
    """Copy the seed's file into the folder, which is made where it is missing; returns the copy.

    A copy of the same bytes that is there already is taken for it; another file of that name keeps it.  Raises
    :class:`DiskError` where there is no room, :class:`ConfigError` where the folder cannot be written.
    """
    file = require_own_file(seed)
    part = folder / f".{file.name}.{os.getpid()}"
    try:
        content = file.read_bytes()
        target = _free(folder, file, content, seed.hash)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            shutil.copystat(file, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskError(f"{folder}: {error.strerror}; free space on that disk") from None
        raise ConfigError(f"{folder}: {file.name} cannot be copied there ({error.strerror})") from None
    return target


def _free(folder: Path, file: Path, content: bytes, hash: str) -> Path:
    """A path in the folder that nothing else has."""
    plain = folder / file.name
    if not plain.exists() or plain.read_bytes() == content:
        return plain
    return folder / f"{file.stem}_{hash[:DIGITS]}{file.suffix}"
