"""The cases of runs as rows of a table, and what each seed came to."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fxmorph.core.said import cut
from fxmorph.model import SEVERITY, Case, CaseResult, Status

#: Cases that are listed, the worst of them first, and characters of a reason.
MOST_CASES, MOST_REASON = 3000, 140
_WORST = {status: place for place, status in enumerate((*SEVERITY, Status.CLEAN))}


@dataclass(frozen=True)
class CaseRow:
    """``number`` is the one that ``fxmorph explain`` takes; ``where`` the unit to blame, else the first bad stage."""

    run: str
    number: int
    verdict: str
    kinds: str
    rung: str
    where: str
    seed: str
    recipe: str
    reason: str


def case_row(run: str, number: int, case: Case, result: CaseResult, blamed: str) -> CaseRow:
    """``blamed``: the unit that the case's finding names, or ""."""
    where = result.unit or blamed or result.stage
    kinds = ", ".join(kind.value for kind in result.kinds)
    return CaseRow(
        run, number, result.status.value, kinds, case.rung.value, where, case.seed.label, result.recipe,
        cut(result.reason, MOST_REASON),
    )  # fmt: skip


def worst_first(rows: Iterable[CaseRow]) -> tuple[CaseRow, ...]:
    """At most :data:`MOST_CASES` of them, equals in the order of their numbers."""
    return tuple(sorted(rows, key=lambda row: _WORST[Status(row.verdict)])[:MOST_CASES])


def by_seed(rows: Iterable[CaseRow]) -> Mapping[str, Mapping[str, int]]:
    """How many cases of each seed came to which verdict."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.seed][row.verdict] += 1
    return counts
