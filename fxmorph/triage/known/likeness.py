"""Public issues that a finding may be: a score of what both are about.

It is a hint for who reads the finding: it decides neither its status nor an exit code.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fxmorph.core.finding_parts import Likely
from fxmorph.core.units import Stage
from fxmorph.core.versions import version_of
from fxmorph.model import Finding, Kind
from fxmorph.triage.identity import GROUPS
from fxmorph.triage.known.known_issues import before
from fxmorph.triage.known.operator_families import akin
from fxmorph.triage.known.program_operators import operators_of_finding
from fxmorph.triage.known.public_index import Index, PublicIssue, load_index, operators_of
from fxmorph.triage.known.telling_words import telling_words

#: What each part counts; parts that either side does not know count for nothing.
WEIGHTS = {"operators": 0.55, "unit": 0.20, "kind": 0.20, "stage": 0.15, "class": 0.05}
#: What the telling words of an issue add that the finding's program, unit and kinds spell: so much where their
#: rarities add up to ``ENOUGH``, less below.
WORDS, ENOUGH = 0.30, 1.5
#: At most so many words are told as the reason.
TOLD = 3
#: What an operator of the same family counts, against the same operator.
AKIN = 0.4
#: At most, where one of the two only raises and the other does not; what two ways to raise count as kinds.
UNLIKE, LOUD = 0.5, 0.8
#: What is left of a score where no operators are known and no words are alike, and where the issue is of another
#: release or device.
LEFT = {"operators": 0.4, "fixed": 0.6, "later": 0.6, "device": 0.8}
#: Candidates below this score are none, and there are no more than so many.
LEAST, MOST = 0.30, 8
#: How much the operators that one side alone has take away, each by its weight, and how little common ones say.
BESIDE, COMMON = 0.4, 0.6
#: What people call a crash ends the process or raises.
_RAISING = dict(GROUPS)["raises"] | {Kind.CRASH}
#: Where the innermost exception's message begins, and where it ends and what Dynamo says to all of them begins.
_MESSAGE = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Failed)(?:: |\(['\"])")
_AFTERWORD = re.compile(r"\bHint: |\bSet TORCHDYNAMO_VERBOSE|\bFor even more developer context")
#: How far into a compile a stage is, by the first of the backends that shows its faults; ATen's graphs are one place.
_DEPTH = {
    Stage.DYNAMO: 0, Stage.AOT: 1, Stage.FUNCTIONALIZATION: 1, Stage.RUNTIME_WRAPPERS: 1, Stage.PARTITIONER: 1,
    Stage.DECOMPOSITION: 2,
}  # fmt: skip
_DEEPEST = 3
#: Stages of Inductor's own part of a compile; a finding's is the backend that shows it.
_INDUCTOR = frozenset(Stage) - frozenset(_DEPTH)


@dataclass(frozen=True)
class _Facts:
    """What a finding is about."""

    operations: frozenset[str]
    unit: str
    stage: str
    kinds: frozenset[str]
    bug_class: str
    device: str
    torch: str
    words: frozenset[str]


def likely_issues(finding: Finding, index: Index | None = None, torch_version: str = "") -> tuple[Likely, ...]:
    """The likeliest first; none where nothing in the index is like it."""
    index = index or load_index()
    words = (finding.unit, *map(str, finding.kinds))
    if finding.kinds and frozenset(finding.kinds) <= _RAISING:  # then what an exception says is what people report
        words = (*words, _MESSAGE.split(_AFTERWORD.split(finding.reason)[0])[-1])
    facts = _Facts(
        operators_of_finding(finding) | operators_of([finding.unit]), finding.unit, finding.stage,
        frozenset(map(str, finding.kinds)), str(finding.bug_class), str(finding.config.get("device") or "cpu"),
        torch_version or version_of("torch"), telling_words(finding.program, str(finding.config), *words),
    )  # fmt: skip
    scored = [(*_score(facts, issue, index), issue) for issue in index.issues]
    best = sorted((s for s in scored if s[0] >= LEAST), key=lambda s: (-s[0], -s[2].number))[:MOST]
    return tuple(Likely(f"pytorch/pytorch#{i.number}", i.title, round(score, 2), why) for score, why, i in best)


def _score(finding: _Facts, issue: PublicIssue, index: Index) -> tuple[float, str]:
    """In [0, 1], and in a few words what is alike; 0 where no operator, family or unit is, unless both are Dynamo's."""
    shared = finding.operations & issue.operations
    near = akin(issue.operations, finding.operations)
    of_unit = max((_units_alike(finding.unit, unit) for unit in issue.units), default=0.0)
    if not shared and not near and not of_unit and not finding.stage == issue.stage == Stage.DYNAMO:
        return 0.0, ""
    parts: dict[str, float] = {}
    if finding.operations and issue.operations:
        parts["operators"] = _operators_alike(finding.operations, issue.operations, index)
    if finding.unit and issue.units:
        parts["unit"] = of_unit
    if finding.kinds and issue.kinds:
        parts["kind"] = _kinds_alike(finding.kinds, issue.kinds)
    if finding.stage and issue.stage:
        parts["stage"] = _stages_alike(finding, issue)
    if issue.bug_class:
        parts["class"] = float(finding.bug_class == issue.bug_class)
    score = sum(WEIGHTS[p] * v for p, v in parts.items()) / sum(WEIGHTS[p] for p in parts)
    spelled = sorted(finding.words & issue.told, key=lambda word: (-index.word_weight(word), word))
    said = min(1.0, sum(map(index.word_weight, spelled)) / ENOUGH)
    score = (score + WORDS * said) / (1 + WORDS)
    if "operators" not in parts:
        score *= said + LEFT["operators"] * (1 - said)
    why = [f"operators {', '.join(sorted(shared))}"] if shared else []
    why += ["unit"] if of_unit else []
    why += sorted(finding.kinds & issue.kinds)
    why += [f"words {', '.join(spelled[:TOLD])}"] if spelled and not shared else []
    if issue.fixed and not before(finding.torch, issue.fixed):
        score *= LEFT["fixed"]
        why.append(f"fixed in {issue.fixed}")
    if before(finding.torch, issue.since):
        score *= LEFT["later"]
        why.append(f"since {issue.since}")
    if issue.devices and finding.device not in issue.devices:
        score *= LEFT["device"]
        why.append(f"on {', '.join(sorted(issue.devices))}")
    if parts.get("kind") == 0.0 and (finding.kinds <= _RAISING or issue.kinds <= _RAISING):
        score = min(score, UNLIKE)
    return score, "; ".join(why)


def _operators_alike(mine: frozenset[str], theirs: frozenset[str], index: Index) -> float:
    near = akin(mine - theirs, theirs - mine) | akin(theirs - mine, mine - theirs)
    same, like, apart = (sum(map(index.weight, sorted(names))) for names in (mine & theirs, near, mine ^ theirs))
    both, apart = same + AKIN * like / 2, apart - AKIN * like
    return both / (both + BESIDE * apart + COMMON) if both else 0.0


def _units_alike(mine: str, theirs: str) -> float:
    """1 for the same, less for the same function elsewhere, the same operator in another stage, the same pass."""
    if not mine or not theirs:
        return 0.0
    if mine == theirs:
        return 1.0
    if operators_of([mine]) & operators_of([theirs]):
        return 0.9 if mine.partition(".")[0] == theirs.partition(".")[0] else 0.6
    a, b = _function(mine), _function(theirs)
    if a and a == b:
        return 0.9
    same_pass = mine.partition("/")[0] == theirs.partition("/")[0]
    return 0.4 if same_pass and not operators_of([mine]) else 0.0


def _function(unit: str) -> str:
    """The function or setting behind a unit; patterns of one family differ in their number."""
    return unit.rpartition("/")[2].rpartition(".")[2].rstrip("0123456789_")


def _kinds_alike(mine: frozenset[str], theirs: frozenset[str]) -> float:
    if mine & theirs:
        return 1.0
    if mine & _RAISING and theirs & _RAISING:
        return LOUD
    return 0.6 if any({*mine} & {*map(str, g)} and {*theirs} & {*map(str, g)} for _, g in GROUPS) else 0.0


def _stages_alike(finding: _Facts, issue: PublicIssue) -> float:
    exact = finding.unit.partition(".")[0]
    if exact == issue.stage or (exact not in _INDUCTOR and finding.stage == issue.stage):
        return 1.0
    return (0.8, 0.3, 0.0, 0.0)[abs(_depth(finding.stage) - _depth(issue.stage))]


def _depth(stage: str) -> int:
    return _DEPTH.get(Stage(stage), _DEEPEST) if stage in list(Stage) else _DEEPEST
