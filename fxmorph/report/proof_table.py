"""What ``fxmorph prove`` prints: a table for people, or event lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fxmorph.events import Conformed, MutantTried, Proved, Warned
from fxmorph.model import Level

#: The word for a mutant that is proved and is refuted in eager.
_WRONGLY = "proved wrongly"
_ORDER = {level.value: i for i, level in enumerate(Level)}


class ProofTable:
    """One line for each rule and dtype as it comes; ``close`` adds the counts of each family."""

    def __init__(self, say: Callable[[str], None], as_json: bool, quiet: bool) -> None:
        self._say, self._json, self._quiet = say, as_json, quiet
        self._counts: Counter[tuple[str, str]] = Counter()
        self._refuted: list[Proved] = []
        self._below = 0
        self._differing: list[Conformed] = []
        self._conformed = 0
        self._seconds = 0.0
        self._again: Counter[tuple[str, str]] = Counter()
        self._mutants: Counter[tuple[str, str]] = Counter()

    def handle(self, event: Any) -> None:
        """Take an event of :mod:`fxmorph.commands.rule_proofs`."""
        if self._json:
            if not isinstance(event, Warned):
                self._say(json.dumps(event.to_json(), ensure_ascii=False))
        elif isinstance(event, Proved):
            self._proved(event)
        elif isinstance(event, Conformed):
            self._compared(event)
        elif isinstance(event, MutantTried):
            self._tried(event)
        else:
            self._say(event.message)

    def _proved(self, event: Proved) -> None:
        self._counts[event.rule.split("_", 1)[0], event.level.value] += 1
        for solver, said, n in event.again:
            self._again[solver, said] += n
        self._seconds += event.seconds
        if event.level is Level.REFUTED:
            self._refuted.append(event)
        elif event.claim.stronger(event.level):
            self._below += 1
        if self._quiet and event.level not in (Level.REFUTED, Level.UNKNOWN):
            return
        assuming = f"; assumes {', '.join(event.assumptions)}" if event.assumptions else ""
        why = event.counterexample or event.reason
        self._say(
            f"{event.rule:<34} {event.dtype:<9} {event.level.value:<24} {event.method or '-'}: {event.scope}"
            f"{assuming}  {event.seconds:.2f}s{'  ' + event.solver if event.solver else ''}"
        )
        if event.again:
            self._say(f"    decided again: {_said_again(event.again)}")
        if event.claim.stronger(event.level):
            self._say(f"    claims {event.claim.value}" + (f"; {why}" if why else ""))

    def _compared(self, event: Conformed) -> None:
        self._conformed += 1
        if not event.agrees:
            self._differing.append(event)
        if not event.agrees or not self._quiet:
            word = "agrees" if event.agrees else "differs"
            self._say(f"{event.operator:<28} {event.dtype:<9} {word}{'  ' + event.detail if event.detail else ''}")

    def _tried(self, event: MutantTried) -> None:
        self._mutants[event.family, event.judged] += 1
        self._seconds += event.seconds
        if event.judged == _WRONGLY:
            assuming = f"; assumes {', '.join(event.assumptions)}" if event.assumptions else ""
            self._say(f"PROVED WRONGLY {event.rule} ({event.dtype}), mutant {event.number}: {event.family}")
            self._say(f"    {event.level.value} {event.method}{assuming}")
            self._say(f"    {event.witness}")
            self._say("\n".join(f"    | {line}" for line in event.text.splitlines()))

    def _close_mutants(self) -> None:
        for family in sorted({family for family, _ in self._mutants}):
            rows = [(word, n) for (of, word), n in sorted(self._mutants.items()) if of == family]
            self._say(f"{family}: {sum(n for _, n in rows)}  " + ", ".join(f"{n} {word}" for word, n in rows))
        words: Counter[str] = Counter()
        for (_, word), n in self._mutants.items():
            words[word] += n
        wrong = words["refuted"] + words["not proved"] + words[_WRONGLY]
        self._say(
            f"{sum(words.values())} mutants, {wrong} of them wrong: {words['refuted']} refuted, "
            f"{words['not proved']} not proved, {words[_WRONGLY]} proved; {self._seconds:.0f} CPU seconds"
        )

    def close(self) -> None:
        """The last lines."""
        if self._json:
            return
        if self._mutants:
            self._close_mutants()
            return
        if self._conformed:
            self._say(f"{self._conformed} operators and dtypes compared, {len(self._differing)} differ")
            return
        families = sorted({f for f, _ in self._counts})
        for family in families:
            rows = sorted(((n, lv) for (f, lv), n in self._counts.items() if f == family), key=lambda r: _ORDER[r[1]])
            total = sum(n for n, _ in rows)
            self._say(f"{family}: {total}  " + ", ".join(f"{lv} {n} ({100 * n / total:.0f} %)" for n, lv in rows))
        for event in self._refuted:
            self._say(f"REFUTED {event.rule} ({event.dtype}): {event.counterexample}")
        if self._again:
            self._say(f"decided again: {_said_again([(*key, n) for key, n in sorted(self._again.items())])}")
        below = f"{self._below} below what they claim, " if self._below else ""
        count = sum(self._counts.values())
        self._say(f"{count} proofs, {len(self._refuted)} refuted, {below}{self._seconds:.0f} CPU seconds")


def _said_again(rows: Sequence[tuple[str, str, int]]) -> str:
    """``z3 12 of 12; cvc5 11 of 12, 1 timed out``."""
    out = []
    for solver in dict.fromkeys(solver for solver, _, _ in rows):
        counts = Counter({said: n for of, said, n in rows if of == solver})
        agreed, others = counts.pop("agrees", 0), [f"{n} {said}" for said, n in sorted(counts.items())]
        out.append(", ".join([f"{solver} {agreed} of {agreed + sum(counts.values())}", *others]))
    return "; ".join(out)
