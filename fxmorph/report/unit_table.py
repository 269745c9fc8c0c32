"""What a campaign of the pass rung says of units: a table, and its summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Verdict columns of the table of units.
_VERDICTS = ("clean", "finding", "known", "edge-case", "expected", "tie", "ill-conditioned", "inconclusive", "skipped",
             "unsupported", "error")  # fmt: skip
_OUTCOMES = ("proved", "refuted", "unknown", "unsupported")
#: Units whose edge cases the summary names.
EDGE_UNITS = 8


def unit_rows(units: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """(unit, graphs tried, fired, verdicts, outcomes or why it did not fire), what fired first."""
    for name, row in sorted(units.items(), key=lambda item: (-item[1].get("fired", 0), item[0])):
        verdicts = _told(row.get("verdicts", {}), _VERDICTS)
        yield (
            name,
            str(row.get("tried", 0)),
            str(row.get("fired", 0)),
            verdicts,
            (_told(row.get("outcomes", {}), _OUTCOMES) if row.get("fired") else str(row.get("why", ""))),
        )


def _told(counts: Mapping[str, int], order: Sequence[str]) -> str:
    return ", ".join(f"{word} {counts[word]}" for word in order if counts.get(word))


def _counts(sorts: Mapping[str, int]) -> str:
    return ", ".join(f"{sort}: {n}" for sort, n in sorted(sorts.items()))


def summary_lines(table: Mapping[str, Any]) -> Iterator[str]:
    """The campaign's units in a few lines."""
    fired = ", ".join(f"{n} {kind}" for kind, n in table["fired"].items()) or "none"
    minutes = table["cpu_seconds"] / 60 or 1.0
    yield (
        f"Units that fired: {fired}; pattern entries {table['entries_fired']}"
        f" ({table['entries_matched_only']} matched only: their result is Inductor's IR)"
    )
    yield (
        f"Pairs fired and judged: {table['pairs']} of {table['tried']} tried on {table['graphs']} graphs,"
        f" {table['pairs'] / minutes:.0f} a CPU minute of judging; {_told(table['verdicts'], _VERDICTS)}"
    )
    if table["edge_cases"]:
        shown = [f"{unit} ({_counts(sorts)})" for unit, sorts in table["edge_cases"].items()]
        more = f"; and {len(shown) - EDGE_UNITS} units more" if len(shown) > EDGE_UNITS else ""
        yield f"Edge cases: {'; '.join(shown[:EDGE_UNITS])}{more}"
    if not any(table["outcomes"].values()):
        return  # beside other cases nothing is proved
    proved = table["outcomes"].get("proved", 0)
    modelled = sum(n for word, n in table["outcomes"].items() if word != "unsupported")
    share = f" ({proved / modelled:.1%} of those whose operators are modelled)" if modelled else ""
    slow = f"{table['proofs_over_5s']} took over 5 s"
    yield f"Translation validation: {_told(table['outcomes'], _OUTCOMES)}{share}; {slow}"
