"""Two runs of the same programs side by side, as under two releases of torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fxmorph.core.store import Store, StoredRun
from fxmorph.core.united import United, programs
from fxmorph.events import Change
from fxmorph.model import Case, CaseResult, Finding, Kind, Status, VerdictCode

#: What accuses the compiler, and what says that it was not judged to the end.
_FAILS = frozenset({Status.FINDING, Status.IR_ONLY, Status.KNOWN})
_NO_VERDICT = frozenset({Status.ERROR, Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.SKIPPED, Status.UNSOUND_REWRITE})
#: What verdicts say that speak of how values round.
_ROUNDING = frozenset(
    {VerdictCode.INSIDE_ENVELOPE, VerdictCode.CAST_ELIDED, VerdictCode.EQUAL_IN_FP64, VerdictCode.ZERO_SIGN,
     VerdictCode.DTYPE_RANGE, VerdictCode.OVERFLOW, VerdictCode.FINITENESS_DISPUTED, VerdictCode.TIE,
     VerdictCode.ILL_CONDITIONED, VerdictCode.EAGER_OUTSIDE, VerdictCode.OPAQUE_DECISIONS, VerdictCode.UNDECIDED,
     VerdictCode.NUMBER_TAKEN, VerdictCode.CASTS_EMULATED}
)  # fmt: skip


@dataclass(frozen=True)
class Side:
    """What one run says of a program; ``verdict`` is None where it did not have it, ``finding`` the id of its cause."""

    verdict: Status | None = None
    kinds: tuple[Kind, ...] = ()
    finding: str = ""

    @property
    def fails(self) -> bool:
        return self.verdict in _FAILS

    @property
    def judged(self) -> bool:
        return self.verdict is not None and self.verdict not in _NO_VERDICT


@dataclass(frozen=True)
class Compared:
    """A program, or a unit alone on its graphs, in both runs; ``unit`` is the one to blame, "" where none is."""

    change: Change
    seed: str
    recipe: str
    unit: str
    before: Side
    after: Side


@dataclass(frozen=True)
class Ran:
    """A run, or all shards of one: what each program came to, and its findings by id."""

    torch: str
    seed: int
    cases: Mapping[str, tuple[Case, CaseResult]]
    findings: Mapping[str, Finding]
    cause: Mapping[str, str]
    units: Mapping[tuple[str, str], Status]

    @staticmethod
    def of(runs: United, parts: Sequence[tuple[Store, StoredRun]]) -> Ran:
        """``parts`` are the shards, or one run."""
        placed = [row for _, run in parts for row in runs.findings(run.id)]
        cases = [case for store, run in parts for case in store.cases(run.id)]
        judged = [table for store, run in parts for _, table in store.passes(run.id)]
        first = parts[0][1]
        return Ran(
            str(first.header.get("torch", "")),
            first.settings.seed,
            programs(cases),
            {row.finding.id: row.finding for row in placed if not row.duplicate_of},
            {row.finding.case_id: row.duplicate_of or row.finding.id for row in placed},
            {(p["unit"], p["graph"]): Status(p["status"]) for table in judged for p in table["pairs"]},
        )

    def side(self, program: str) -> Side:
        """What it says of the program with this key."""
        if program not in self.cases:
            return Side()
        _, result = self.cases[program]
        return Side(result.status, result.kinds, self.cause.get(result.case_id, ""))


def compare(before: Ran, after: Ran) -> Iterator[Compared]:
    """Every program that one of them has, then units alone that one of them accuses."""
    for program in dict.fromkeys((*before.cases, *after.cases)):
        case, result = after.cases.get(program) or before.cases[program]
        one, other = before.side(program), after.side(program)
        change = _change(one, other, *(ran.cases[program][1] for ran in (before, after) if program in ran.cases))
        blamed = (after.findings.get(other.finding), before.findings.get(one.finding))
        unit = next((finding.unit for finding in blamed if finding is not None and finding.unit), "")
        yield Compared(change, case.seed.label, result.recipe, unit, one, other)
    alone = [f for f in (*before.findings.values(), *after.findings.values()) if f.unit_case is not None]
    for finding in {f.id: f for f in alone}.values():
        one, other = _alone(before, finding), _alone(after, finding)
        yield Compared(_change(one, other), finding.seed, finding.recipe, finding.unit, one, other)


def _alone(ran: Ran, finding: Finding) -> Side:
    """What a run says of a unit alone on the graph that another run accuses it with, or on others like it."""
    if finding.id in ran.findings:
        return Side(Status.FINDING, ran.findings[finding.id].kinds, finding.id)
    assert finding.unit_case is not None
    return Side(ran.units.get((finding.unit, finding.unit_case.graph or "")))


def _change(before: Side, after: Side, *results: CaseResult) -> Change:
    if not (before.judged and after.judged):
        # What neither has a verdict on is no difference between them.
        return Change.SAME if not (before.judged or after.judged) else Change.NOT_JUDGED
    if before.fails or after.fails:
        return Change.STILL_FAILING if before.fails and after.fails else Change.NEW if after.fails else Change.FIXED
    said = [{(v.plan, v.slot, v.status, v.code) for v in result.verdicts} for result in results]
    codes = {code for *_, code in said[0] ^ said[1]} if len(said) == 2 else set()
    if before.verdict is after.verdict and not codes:
        return Change.SAME
    return Change.ROUNDING if codes and codes <= _ROUNDING else Change.EXPLAINED


def by_cause(compared: Iterable[Compared], change: Change) -> list[tuple[Compared, int]]:
    """Of what changed so the first program of each cause, and how many programs have it; the most frequent first."""
    groups: dict[tuple[str, ...], list[Compared]] = {}
    for one in compared:
        if one.change is change:
            key = (one.before.finding, one.after.finding) if one.before.finding or one.after.finding else (one.seed,)
            groups.setdefault(key, []).append(one)
    return sorted(((rows[0], len(rows)) for rows in groups.values()), key=lambda row: -row[1])
