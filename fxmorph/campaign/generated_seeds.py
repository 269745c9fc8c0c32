"""Generated programs as seeds: files of the state folder, written when their turn comes."""

from __future__ import annotations

from pathlib import Path

from fxmorph.core.seeds import find_seeds
from fxmorph.core.store import DiskError
from fxmorph.model import Seed
from fxmorph.programs.generator.generated import file_name, generated_text


def generated_seed(folder: Path, campaign_seed: int, number: int, long: bool = False) -> Seed:
    """Program ``number`` of the campaign, or of its ``long`` ones, in ``folder``; raises :class:`DiskError`."""
    file = folder / file_name(campaign_seed, number, long)
    text = generated_text(campaign_seed, number, long=long)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        why = f"{file}: cannot write a generated program ({error.strerror}); free space or choose --state"
        raise DiskError(why) from None
    (seed,), _ = find_seeds([str(file)])
    return seed
