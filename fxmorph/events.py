"""What the engine tells while it works.  It yields these and prints nothing; reporters do.

The JSON form of each event, one object a line, is published as :data:`SCHEMA`, which is made from the type hints
here, and described in ``docs/json-events.md``.  Times are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, get_args

from fxmorph.core.finding_parts import Likely
from fxmorph.core.json_schema import Words, record_schema
from fxmorph.core.records import to_json as record_to_json
from fxmorph.model import BugClass, Case, CaseResult, Finding, Kind, Level, Status

Triangle = Annotated[str, Words(("", "seed-miscompiled", "variant-miscompiled", "both"))]
VerdictWord = Annotated[str, Words(("", *(status.value for status in Status)))]
LevelWord = Annotated[str, Words(tuple(level.value for level in Level))]


@dataclass(frozen=True)
class _Event:
    """One event; ``event`` is its JSON word, ``line`` the record of its other keys where its fields are not that."""

    event: ClassVar[str]
    line: ClassVar[type | None] = None

    def to_json(self) -> dict[str, Any]:
        """The line of JSON: the word, then the fields by name."""
        return {"event": self.event, **record_to_json(self)}


@dataclass(frozen=True)
class RunStarted(_Event):
    """The header of a run: ``seeds`` and ``rules`` are counts, ``budget_s`` wall seconds (None: no limit).

    ``command`` is ``run`` (``fuzz`` too) or ``check``.
    """

    event: ClassVar[str] = "run-started"
    run_id: str
    seed: int
    torch: str
    device: str
    rungs: tuple[str, ...]
    versions: dict[str, str]
    budget_s: float | None
    jobs: int
    seeds: int
    rules: int
    state_dir: str
    notes: tuple[str, ...] = ()
    command: Annotated[str, Words(("run", "check"))] = "run"


@dataclass(frozen=True)
class SeedRefused(_Event):
    """A seed does not load; the run goes on without it."""

    event: ClassVar[str] = "seed-refused"
    seed: str
    reason: str


@dataclass(frozen=True)
class CaseDone(_Event):
    """A case was judged.  ``number`` 0 is the seed as it is."""

    event: ClassVar[str] = "case"
    index: int
    case_id: str
    seed: str
    number: int
    verdict: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    recipe: str = ""
    triangle: Triangle = ""
    stage: str = ""
    unit: str = ""
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @classmethod
    def of(cls, index: int, case: Case, result: CaseResult) -> CaseDone:
        """The event of the case at the place ``index`` in the order of its run."""
        return cls(
            index, result.case_id, case.seed.label, case.number, result.status, result.kinds, result.reason,
            result.recipe, result.triangle, result.stage, result.unit, result.wall,
            round(sum(seconds for _, seconds in result.seconds), 3),
        )  # fmt: skip


@dataclass(frozen=True)
class FindingLine:
    """What JSON says of a finding."""

    id: str
    kinds: tuple[Kind, ...]
    bug_class: BugClass
    stage: str
    unit: str
    recipe: str
    seed: str
    fingerprint: str
    known: str
    folder: str
    triangle: Triangle
    reason: str
    duplicate_of: str
    confirmed: bool
    known_by: str
    likely: tuple[Likely, ...]


@dataclass(frozen=True)
class FindingMade(_Event):
    """A finding was confirmed and written to ``folder``; or the run ended before that, and it is told as it was seen.

    ``known`` names the known issue, ``duplicate_of`` an earlier finding; both empty if none.
    """

    event: ClassVar[str] = "finding"
    line: ClassVar[type | None] = FindingLine
    finding: Finding
    folder: str
    known: str = ""
    duplicate_of: str = ""

    def to_json(self) -> dict[str, Any]:
        f = self.finding
        line = FindingLine(
            f.id, f.kinds, f.bug_class, f.stage, f.unit, f.recipe, f.seed, f.fingerprint, self.known, self.folder,
            f.triangle, f.reason, self.duplicate_of, f.confirmed, f.known_by, f.likely,
        )  # fmt: skip
        return {"event": self.event, **record_to_json(line)}


@dataclass(frozen=True)
class Checked(_Event):
    """``fxmorph check`` judged one seed as it is.

    What differs has a ``fingerprint`` (``dedup.checked_fingerprint``); ``known`` says what lists it, and the verdict
    is ``known`` then.
    """

    event: ClassVar[str] = "checked"
    seed: str
    verdict: Status
    kinds: tuple[Kind, ...] = ()
    stage: str = ""
    unit: str = ""
    reason: str = ""
    fingerprint: str = ""
    known: str = ""
    plan: str = ""


@dataclass(frozen=True)
class Progress(_Event):
    """How far the run is, for people; reporters of JSON leave it out.

    ``planned`` is the number of cases, None where only the time limits the run; ``remaining_s``
    may be infinite.  ``at_work`` is what was begun last: the label of a seed, or of what a unit is tried on.
    """

    event: ClassVar[str] = "progress"
    done: int
    planned: int | None
    findings: int
    elapsed_s: float
    remaining_s: float
    phase: str = ""
    at_work: str = ""


@dataclass(frozen=True)
class Warned(_Event):
    """Something that the user should know and that does not stop the run."""

    event: ClassVar[str] = "warning"
    message: str


@dataclass(frozen=True)
class RunFinished(_Event):
    """The end of a run.

    ``counts``: cases by verdict; ``rungs``: cases by rung; ``findings``: ids of the new ones (of
    ``check``: their fingerprints); ``seconds``: CPU seconds by activity; ``report``: the file to look at, "" if none.
    """

    event: ClassVar[str] = "run-finished"
    run_id: str
    exit_code: int
    counts: dict[str, int]
    rungs: dict[str, Any]
    findings: tuple[str, ...] = ()
    known: int = 0
    duplicates: int = 0
    edge_cases: int = 0
    cases: int = 0
    coverage: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    wall_s: float = 0.0
    report: str = ""


class Change(StrEnum):
    """What became of a program from the first run to the second."""

    NEW = "new"  #: right in the first, fails in the second
    FIXED = "fixed"  #: the reverse
    STILL_FAILING = "still failing"
    ROUNDING = "changed only in rounding"  #: right in both; other elements are ties, ill-conditioned, ...
    EXPLAINED = "explained otherwise"  #: right in both; another rule of the policy speaks of it
    NOT_JUDGED = "not judged in one"
    SAME = "same"


@dataclass(frozen=True)
class ProgramCompared(_Event):
    """What became of a program, or of a unit alone, from one run to another (``fxmorph compare``).

    ``verdict_before`` and ``verdict_after`` are "" where the run did not have it; ``finding_before`` and
    ``finding_after`` are ids, "" where there is none.
    """

    event: ClassVar[str] = "compared"
    change: Change
    seed: str
    recipe: str
    unit: str
    verdict_before: VerdictWord
    kinds_before: tuple[Kind, ...]
    finding_before: str
    verdict_after: VerdictWord
    kinds_after: tuple[Kind, ...]
    finding_after: str


@dataclass(frozen=True)
class RunsCompared(_Event):
    """The end of ``fxmorph compare``: the releases of torch, and programs by what became of them."""

    event: ClassVar[str] = "comparison"
    torch_before: str
    torch_after: str
    counts: dict[str, int]


@dataclass(frozen=True)
class NightFinished(_Event):
    """The end of ``fxmorph nightly``: ids of causes that are ``new``, ``back`` after they were gone, and ``fixed``.

    ``runs`` are ids, ``causes`` counts those that were seen, ``unconfirmed`` what no fresh process showed; ``trouble``
    says what ended a shard early.  ``site`` is the page to look at.
    """

    event: ClassVar[str] = "night-finished"
    night: int
    torch: str
    runs: tuple[str, ...]
    cases: int
    causes: int
    unconfirmed: int
    new: tuple[str, ...]
    back: tuple[str, ...]
    fixed: tuple[str, ...]
    trouble: tuple[str, ...]
    exit_code: int
    site: str


@dataclass(frozen=True)
class UnitFired(_Event):
    """A unit of Inductor changed a graph, and what was found of it.

    ``outcome`` is that of the validation (``proved``, ``refuted``, ``unknown``, ``unsupported``), "" if none.
    """

    event: ClassVar[str] = "unit-fired"
    unit: str
    source: str
    part: str
    graph: str
    matches: int
    verdict: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    outcome: Annotated[str, Words(("", "proved", "refuted", "unknown", "unsupported"))] = ""
    level: Level = Level.UNKNOWN
    method: str = ""
    unproved: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True)
class RuleListed(_Event):
    """One line of ``fxmorph rules --json``."""

    event: ClassVar[str] = "rule"
    id: str
    claim: str
    dtypes: tuple[str, ...]
    preserves: tuple[str, ...]
    targets: tuple[str, ...]
    site: str
    source: str
    doc: str
    levels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RuleShown(_Event):
    """The line of ``fxmorph rules show NAME --json``.

    ``said`` is the doc by heading, ``targets`` each word with its meaning ("" for a unit or an operator); ``levels``
    by dtype: level, scope, method and what it assumes; ``certificates`` as stored: key, claim, level, method.
    """

    event: ClassVar[str] = "rule-shown"
    id: str
    does: str
    said: dict[str, str]
    before: str
    after: str
    site: str
    args: dict[str, str]
    where: tuple[str, ...]
    scalars: dict[str, str]
    dtypes: tuple[str, ...]
    mixed: bool
    assumes: tuple[str, ...]
    claim: LevelWord
    preserves: tuple[str, ...]
    targets: dict[str, str]
    levels: dict[str, dict[str, Any]]
    certificates: tuple[dict[str, str], ...]
    source: str


@dataclass(frozen=True)
class ProposalJudged(_Event):
    """What the gate says of a proposal.  ``level`` is "" unless it is an admitted rule; ``seconds`` of CPU.

    ``levels`` by dtype; ``dropped`` are promises that fell, with counterexamples; ``made`` the seeds that
    a mutation made, or the variants that a recipe makes; ``fires`` the units of Inductor that an admitted one
    makes fire; ``cached``: it was decided before; ``aims``: a unit, a glob over them or a bug class.
    """

    event: ClassVar[str] = "proposal"
    task: str
    name: str
    source: str
    outcome: str
    reason: str = ""
    level: str = ""
    levels: dict[str, str] = field(default_factory=dict)
    dropped: tuple[str, ...] = ()
    counterexample: str = ""
    made: tuple[str, ...] = ()
    fires: tuple[str, ...] = ()
    seconds: float = 0.0
    cached: bool = False
    aims: str = ""


@dataclass(frozen=True)
class Proved(_Event):
    """What is shown of a rule for a dtype (``fxmorph prove``).

    ``counterexample`` is set for REFUTED; ``reason`` says why nothing was shown, or what a second
    solver disagrees with.  ``again``: solver, what it said of queries (``agrees``, ``timed out`` ...), of how many.
    """

    event: ClassVar[str] = "proved"
    rule: str
    dtype: str
    claim: Level
    level: Level
    scope: str
    method: str
    assumptions: tuple[str, ...]
    solver: str
    seconds: float
    counterexample: str = ""
    reason: str = ""
    again: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class MutantTried(_Event):
    """What became of a wrong rule that was made of a right one (``fxmorph prove --fuzz``).

    ``judged``: ``refuted``, ``not proved``, ``undecided``, ``holds`` or ``proved wrongly``; ``text`` has both sides and
    ``witness`` what refutes them.
    """

    event: ClassVar[str] = "mutant"
    rule: str
    dtype: str
    number: int
    family: str
    judged: str
    what: str
    level: Level
    method: str
    assumptions: tuple[str, ...]
    seconds: float
    text: str = ""
    witness: str = ""


@dataclass(frozen=True)
class Conformed(_Event):
    """Whether the semantic model of an operator agrees with eager (``fxmorph prove --conformance``)."""

    event: ClassVar[str] = "conformed"
    operator: str
    dtype: str
    agrees: bool
    detail: str


@dataclass(frozen=True)
class UnitListed(_Event):
    """One line of ``fxmorph passes --json``: the fields of ``fxmorph.core.units.Unit``, and what the last run saw.

    ``tried`` graphs it looked at, ``fired`` ones that it changed, with their ``verdicts``; None where nothing is known.
    """

    event: ClassVar[str] = "unit"
    name: str
    stage: str
    kind: str
    default: bool
    flag: str
    device: str
    module: str
    eager: bool
    note: str = ""
    tried: int | None = None
    fired: int | None = None
    verdicts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PairJudged(_Event):
    """A pass of the user's on one graph (``fxmorph check-pass``); see ``fxmorph.inductor.pair_record``.

    ``reproduce`` is the path of a script that shows a finding.
    """

    event: ClassVar[str] = "pair"
    name: str
    seed: str
    stage: str
    part: str
    nodes: int
    fired: bool
    verdict: Status
    kinds: tuple[Kind, ...]
    reason: str
    outcome: str
    level: Level
    method: str
    assumptions: tuple[str, ...]
    unproved: str
    changes: tuple[str, ...]
    plan: str
    inputs: tuple[str, ...]
    reproduce: str


@dataclass(frozen=True)
class PassChecked(_Event):
    """The end of ``fxmorph check-pass``: counts of graphs, and of those on which the pass fired.

    ``how`` says what made it fire first or, where nothing did, what was tried; ``nothing_checked`` why nothing is known
    of a pass that fired; ``left_out`` counts graphs that the
    pass was not given, by ``--assume`` or because a pass before it raised; ``broken`` says which operators of other
    libraries are not what their schemas or fake kernels say; ``patterns`` what was shown of patterns and replacements
    themselves.
    """

    event: ClassVar[str] = "pass-checked"
    name: str
    stage: str
    seeds: int
    graphs: int
    fired: int
    verdicts: dict[str, int]
    outcomes: dict[str, int]
    levels: dict[str, int]
    wall_s: float
    exit_code: int
    how: str = ""
    nothing_checked: str = ""
    left_out: int = 0
    broken: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asking(_Event):
    """How far a session with a language model is, for people; reporters of JSON leave it out.

    ``out`` questions are with the server.  ``most_calls`` and ``seconds_left`` are None where the budget has no
    such limit, ``usd`` where no price was given.
    """

    event: ClassVar[str] = "asking"
    model: str
    out: int
    calls: int
    most_calls: int | None
    tokens: int
    estimated: bool
    usd: float | None
    seconds_left: float | None


@dataclass(frozen=True)
class SessionEnded(_Event):
    """The end of a session with a language model (``fxmorph propose --model``).

    ``end``: ``done``, ``spent``, ``refused`` or ``unreachable``; ``requests`` by what became of them;
    ``given_up`` questions got no answer, ``left`` proposals were not decided in time; ``estimated``: the
    server did not count all tokens; ``usd`` is None where no price was given; ``folder`` holds prompts,
    answers and, as a pack, what was admitted.
    """

    event: ClassVar[str] = "session-ended"
    end: Annotated[str, Words(("done", "spent", "refused", "unreachable"))]
    reason: str
    requests: dict[str, int]
    given_up: int
    calls: int
    prompt_tokens: int
    answer_tokens: int
    estimated: bool
    usd: float | None
    wall_s: float
    folder: str
    left: int = 0


@dataclass(frozen=True)
class Synthesis(_Event):
    """How far the synthesiser of rules is; the last one has ``doing`` ``done``.

    ``expressions`` were enumerated into ``buckets``; of the ``pairs`` that look equal ``candidates`` are left up to
    renaming.  Of these some are ``proved``, ``refuted`` by eager or not shown (``unproved``); ``subsumed`` ones
    follow from kept rules, ``alike`` ones are kept rules with another elementwise operator, ``left`` ones were not
    reached.  ``nontrivial`` and ``shipped`` (already in transforms/) count kept rules, ``levels`` all of them by
    level, ``tried`` the sets of arguments that they were run on beyond the proofs.  ``seconds`` of CPU time.
    """

    event: ClassVar[str] = "synthesis"
    doing: str
    expressions: int
    buckets: int
    pairs: int
    candidates: int
    proved: int
    refuted: int
    unproved: int
    subsumed: int
    alike: int
    left: int
    kept: int
    nontrivial: int
    shipped: int
    tried: int
    levels: dict[str, int]
    seconds: float


@dataclass(frozen=True)
class FeaturesCovered:
    """Of one kind of feature the names that a corpus covers, and those that torch has besides."""

    covered: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class CorpusMeasured(_Event):
    """The line of ``fxmorph corpus stats``.

    ``seeds``: how many by form; ``graphs``: how many are not the same test as another; ``cpu_s``: what measuring them
    took; ``coverage`` by kind of feature (:class:`fxmorph.core.features.FeatureKind`); ``unmeasured``: why, by seed.
    """

    event: ClassVar[str] = "corpus-measured"
    seeds: dict[str, int]
    graphs: int
    cpu_s: float
    coverage: dict[str, FeaturesCovered]
    unmeasured: dict[str, str]


Event = (
    RunStarted
    | SeedRefused
    | CaseDone
    | FindingMade
    | Checked
    | Progress
    | Warned
    | RunFinished
    | ProgramCompared
    | RunsCompared
    | NightFinished
    | UnitFired
    | RuleListed
    | RuleShown
    | ProposalJudged
    | Proved
    | MutantTried
    | Conformed
    | UnitListed
    | PairJudged
    | PassChecked
    | Asking
    | SessionEnded
    | Synthesis
    | CorpusMeasured
)

#: Those that reporters of JSON leave out.
FOR_PEOPLE = (Progress, Asking)

#: JSON Schema of one line; which alternative holds is decided by ``event``.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "fxmorph event line",
    "oneOf": [
        record_schema(event.line or event, event=event.event) for event in get_args(Event) if event not in FOR_PEOPLE
    ],
}
