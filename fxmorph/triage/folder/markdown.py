"""Blocks of GitHub's markdown."""

from __future__ import annotations

from collections.abc import Iterable


def folded(about: str, text: str) -> str:
    """The text behind a line that opens it."""
    return f"<details><summary>{about}</summary>\n\n{text}\n\n</details>"


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    # A bar inside a cell would end it.
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def block(lines: Iterable[str], language: str = "") -> str:
    return f"```{language}\n" + "\n".join(lines) + "\n```"
