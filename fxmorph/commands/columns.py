"""Lines and columns that a command prints itself."""

from __future__ import annotations

from collections.abc import Sequence


def print_line(line: str) -> None:
    print(line, flush=True)


def print_columns(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell; the last one is free."""
    widths = [max(len(row[i]) for row in (heads, *rows)) for i in range(len(heads) - 1)]
    for row in (heads, *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print_line("  ".join([*cells, row[-1]]).rstrip())
