"""What the cases of a run came to, in the order in which they were given out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fxmorph.model import Case, CaseResult


class Answers:
    """Grows as workers answer, in any order."""

    def __init__(self) -> None:
        self.by_index: dict[int, CaseResult] = {}
        self._of: dict[str, CaseResult] = {}

    def __len__(self) -> int:
        return len(self.by_index)

    def __iter__(self) -> Iterator[CaseResult]:
        return iter(self.by_index.values())

    def take(self, index: int, case: Case, result: CaseResult) -> None:
        self.by_index[index] = self._of[case.id] = result

    def of(self, case: Case) -> CaseResult | None:
        """None where the case was not judged so far."""
        return self._of.get(case.id)

    def awaited(self, cases: Iterable[Case]) -> Iterator[None]:
        """None again and again until each of the cases was judged."""
        for wanted in [case.id for case in cases]:
            while wanted not in self._of:
                yield None
