"""Which units fired in a campaign, how often, with what verdicts, and why the others did not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from fxmorph.core.units import Unit, UnitKind
from fxmorph.inductor.derive.entries import Derivation
from fxmorph.inductor.rung import PassesJudged
from fxmorph.model import Status, VerdictCode

#: How the table of coverage calls each sort of edge case.
EDGES = {
    VerdictCode.ZERO_SIGN: "only the sign of zero differs",
    VerdictCode.INFINITY_SIGN: "infinities differ in sign only",
    VerdictCode.NONFINITE_INPUTS: "NaN or Inf among the inputs",
    VerdictCode.ONE_SIZED_STRIDE: "stride of a size-1 dimension",
    VerdictCode.CAST_OUT_OF_RANGE: "a float is cast to an integer type that cannot hold it",
}


class Coverage:
    """Counts by unit; grows as answers come in."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.outcomes: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.unsupported: Counter[str] = Counter()
        self.edges: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: list[float] = []
        self.proof_seconds: list[float] = []
        self.graphs = 0
        self._why: dict[str, str] = {}
        self._matched: set[str] = set()

    @property
    def fired(self) -> int:
        """Judged pairs of a unit and a graph that it changed."""
        return sum(sum(c.values()) for c in self.verdicts.values())

    def add(self, judged: PassesJudged) -> None:
        """Count an answer."""
        self.graphs += judged.graphs
        self.tried.update(judged.tried)
        self._why.update(judged.cannot)
        for pair in judged.pairs:
            self.verdicts[pair.unit][pair.status.value] += 1
            if pair.status is Status.EDGE_CASE:
                self.edges[pair.unit].update({EDGES.get(code, "another") for code in pair.edges})
            if pair.outcome:
                self.outcomes[pair.unit][pair.outcome] += 1
                if pair.outcome == "unsupported":
                    self.unsupported[pair.unproved] += 1
            self.seconds.append(pair.seconds)
            self.proof_seconds.append(pair.proof_seconds)

    def derived(self, derivation: Derivation) -> None:
        """Note what came of deriving a graph from an entry."""
        if derivation.fired and derivation.kind == "lowering":
            self._matched.add(derivation.entry)
        elif not derivation.fired:
            self._why.setdefault(derivation.entry, f"no graph derived from it fires: {derivation.reason}")

    def crashed(self, unit: str, said: str) -> None:
        """Note a unit that took its process with it."""
        self._why[unit] = said

    def table(self, units: Sequence[Unit]) -> dict[str, Any]:
        """Totals, and a row for each unit of ``units``: counts where it fired, else why it did not."""
        rows = {u.name: self._row(u) for u in units if u.kind in (UnitKind.PASS, UnitKind.ENTRY) or self._seen(u)}
        entries = [u for u in units if u.kind is UnitKind.ENTRY]
        lowered = [u.name for u in entries if u.name in self._matched]
        fired = [u for u in units if u.name in self.verdicts]
        return {
            "graphs": self.graphs,
            "pairs": self.fired,
            "tried": sum(self.tried.values()),
            "fired": dict(Counter(u.kind.value for u in fired)),
            "entries_matched_only": len(lowered),
            "entries_fired": len({u.name for u in fired if u.kind is UnitKind.ENTRY} | set(lowered)),
            "verdicts": dict(_sum(self.verdicts.values())),
            "outcomes": dict(_sum(self.outcomes.values())),
            "unsupported": dict(self.unsupported.most_common(20)),
            "edge_cases": {unit: dict(sorts) for unit, sorts in sorted(self.edges.items())},
            "cpu_seconds": round(sum(self.seconds), 2),
            "proofs_over_5s": sum(s > 5 for s in self.proof_seconds),
            "units": rows,
        }

    def _seen(self, unit: Unit) -> bool:
        return bool(unit.name in self.verdicts or self.tried[unit.name])

    def _row(self, unit: Unit) -> dict[str, Any]:
        row: dict[str, Any] = {"tried": self.tried[unit.name]}
        if unit.name in self.verdicts:
            row |= {"fired": sum(self.verdicts[unit.name].values()), "verdicts": dict(self.verdicts[unit.name])}
            row["outcomes"] = dict(self.outcomes[unit.name])
            return row
        return row | {"fired": 0, "why": self._reason(unit)}

    def _reason(self, unit: Unit) -> str:
        if unit.name in self._matched:
            return "matched a derived graph; it makes Inductor's IR, which eager cannot run"
        if unit.name in self._why:
            return self._why[unit.name]
        if unit.device == "cuda":
            return "for CUDA"
        if not unit.eager:
            return "it makes Inductor's IR, which eager cannot run"
        if self.tried[unit.name]:
            return f"looked at {self.tried[unit.name]} graphs and changed none"
        return "no graph has what it starts from" + (f"; it needs {unit.flag}" if unit.flag else "")


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    out: Counter[str] = Counter()
    for counter in counters:
        out += counter
    return out
