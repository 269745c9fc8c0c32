"""``fxmorph seeds generate``: random programs as seed files, or printed."""

from __future__ import annotations

from pathlib import Path

from fxmorph.commands.columns import print_line
from fxmorph.core.config import ConfigError
from fxmorph.core.exits import Exit
from fxmorph.programs.generator.generated import file_name, generated_text


def generate(campaign_seed: int, first: int, count: int, out: Path | None, long: bool = False) -> Exit:
    """Write programs ``first`` to ``first + count - 1`` of a seed into a folder, or print them where there is none.

    ``long``: those of many operators.
    """
    numbers = range(first, first + count)
    if out is None:
        print_line("\n\n".join(generated_text(campaign_seed, number, long=long) for number in numbers).rstrip())
        return Exit.OK
    try:
        out.mkdir(parents=True, exist_ok=True)
        for number in numbers:
            text = generated_text(campaign_seed, number, long=long)
            (out / file_name(campaign_seed, number, long)).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}") from None
    print_line(f"{count} seeds in {out}")
    return Exit.OK
