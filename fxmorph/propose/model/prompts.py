"""Prompts: files with ``$names`` in them, one for each task, that a person can read and edit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

from fxmorph.core.config import ConfigError

SHIPPED = Path(__file__).parents[1] / "prompts"

#: What may stand in a prompt, by file; another name is an error, so that a typo does not reach the model.
PLACES = {
    "language": ("functions", "functional", "methods"),
    "rule": ("count", "target", "coverage", "graphs", "rules", "refutations"),
    "recipe": ("count", "target", "coverage", "graphs", "rules", "refutations", "seeds"),
    "seed": ("count", "target", "coverage", "graphs", "refutations", "seeds"),
    "mutation": ("count", "bug", "graphs", "refutations"),
    "again": ("refutations",),
}


@dataclass(frozen=True)
class Prompt:
    """One file, read: ``version`` is its first line, kept with what came of the prompt."""

    name: str
    version: str
    text: str

    def filled(self, values: Mapping[str, str]) -> str:
        """The text with its places filled; empty places leave no gap."""
        text = Template(self.text).substitute({name: values[name] for name in PLACES[self.name]})
        return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def read_prompt(name: str, folder: Path = SHIPPED) -> Prompt:
    """The prompt of that name in ``folder``, or the shipped one where the folder has none.

    Raises :class:`ConfigError` for a file that is no prompt.
    """
    file = folder / f"{name}.md"
    file = file if file.is_file() else SHIPPED / f"{name}.md"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read ({error})") from None
    head, _, body = text.partition("\n")
    match = re.fullmatch(r"version: (\S+)", head.strip())
    if not match:
        raise ConfigError(f"{file}: the first line of a prompt says its version, as in 'version: 1'")
    template = Template(body)
    if not template.is_valid():
        raise ConfigError(f"{file}: a $ that begins no name; write $$ for the sign itself")
    unknown = sorted(set(template.get_identifiers()) - set(PLACES[name]))
    if unknown:
        raise ConfigError(f"{file}: ${unknown[0]} is not one of {', '.join('$' + p for p in PLACES[name])}")
    return Prompt(name, match[1], body)
