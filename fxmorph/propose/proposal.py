"""Proposals as data, the packs that they come in, and what the gate says of them.

A pack is a file of JSON lines, one proposal a line, written by a language model, a program or a
person.  Nothing in a proposal is believed: its form is checked here, its bodies by ``restricted.py``,
what it claims by the gate.  This module does not import torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from fxmorph.core.records import SPARSE
from fxmorph.model import Level, digest

#: Characters that a body may have, and a line of a pack.
MAX_TEXT, MAX_LINE = 4_000, 20_000
#: How the reason of an outcome begins that came late.
TOO_LONG = "took more than its time"

Dtype = Literal[
    "float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
    "complex128",
]  # fmt: skip
#: What a rule may claim: levels that can be shown.
Claim = Literal["INDEX_EXACT", "BIT_EXACT", "BIT_EXACT_MOD_ZERO_SIGN", "UNDER_PRECONDITION", "EXACT_REAL"]
_SIZE = r"(\.\.\.|[A-Za-z]\w*|\d{1,4})"
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$", max_length=80)]
Parameter = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=40)]
Sizes = Annotated[str, StringConstraints(pattern=rf"^({_SIZE}( {_SIZE})*)?$", max_length=80)]
Body = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Condition = Annotated[str, StringConstraints(min_length=1, max_length=300)]


def printable(text: str) -> str:
    """The text without control characters and marks that turn the direction of writing; line ends stay.

    What a proposal or a server says is printed, and a terminal obeys escape sequences.
    """
    return "".join(c for c in text if c.isprintable() or c == "\n")


_PRINTABLE = BeforeValidator(lambda given: printable(given) if isinstance(given, str) else given)
Doc = Annotated[str, StringConstraints(min_length=1, max_length=2_000), _PRINTABLE]
Glob = Annotated[str, StringConstraints(min_length=1, max_length=120), _PRINTABLE]
Number = bool | int | float
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z]\w*$", max_length=80)]
Setting = Number | dict[Key, Number | dict[Key, Number]]


class Task(StrEnum):
    """What a proposal is."""

    RULE = "rule"
    RECIPE = "recipe"
    SEED = "seed"
    MUTATION = "mutation"


class Outcome(StrEnum):
    """What the gate says of a proposal."""

    ADMITTED = "admitted"
    REFUTED = "refuted"
    DUPLICATE = "duplicate"
    MALFORMED = "malformed"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


class Malformed(ValueError):
    """A proposal is not of the form; the message says where and why."""


class Unsupported(ValueError):
    """A proposal is of the form, and uses an operation that fxmorph does not know; the message names it."""


class _Proposal(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    name: Name
    doc: Doc
    aims: Glob

    @property
    def hash(self) -> str:
        """16 hex digits of all that decides the outcome."""
        return digest(self.model_dump(mode="json", exclude={"doc", "aims"}))


class _Bodies(_Proposal):
    args: Annotated[dict[Parameter, Sizes], Field(min_length=1, max_length=8)]
    before: Body
    after: Body
    where: Annotated[tuple[Condition, ...], Field(max_length=12)] = ()
    scalars: Annotated[
        dict[Parameter, Annotated[tuple[Number, ...], Field(min_length=1, max_length=12)] | None], Field(max_length=6)
    ] = {}
    dtypes: Annotated[tuple[Dtype, ...], Field(min_length=1, max_length=12)] = (
        "float32", "float64", "float16", "bfloat16",
    )  # fmt: skip
    claim: Claim = "EXACT_REAL"
    assumes: tuple[Literal["finite", "no_nan", "nonneg", "nonzero"], ...] = ()
    preserves: tuple[Literal["dtype", "stride", "alias", "mutation", "gradient", "raises"], ...] = ()
    site: Literal["op", "value", "late"] = "op"
    mixed: bool = False


class RuleProposal(_Bodies):
    """A rule: ``before`` and ``after`` mean the same; keys and defaults are those of ``fxmorph.rules.rule``."""

    task: Literal[Task.RULE] = Task.RULE


class MutationProposal(_Bodies):
    """A rewrite that changes what a seed means, to move it next to a known bug (``issue``)."""

    task: Literal[Task.MUTATION] = Task.MUTATION
    issue: Annotated[str, StringConstraints(max_length=200)] = ""


class InputSpec(BaseModel):
    """One input of a proposed seed.

    ``fill``: normal, uniform, zeros, ones, arange, mask (0 or 1) or integers:LOW:HIGH.  ``layout``:
    contiguous, transposed (the last two dims swapped in memory), channels_last (4-d), expanded (the first
    dim has stride 0), sliced (every second element of the last dim of a larger buffer), offset (storage
    offset 1).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Parameter
    shape: Annotated[tuple[Annotated[int, Field(ge=0, le=1_000_000)], ...], Field(max_length=8)]
    dtype: Dtype = "float32"
    fill: Annotated[
        str, StringConstraints(pattern=r"^(normal|uniform|zeros|ones|arange|mask|integers:-?\d{1,18}:-?\d{1,18})$")
    ] = "normal"
    layout: Literal["contiguous", "transposed", "channels_last", "expanded", "sliced", "offset"] = "contiguous"
    requires_grad: bool = False


class SeedProposal(_Proposal):
    """A program that should make a unit of Inductor fire, or nearly fire.

    ``inductor``: settings of ``torch._inductor.config`` that it is compiled under, switches and numbers of those
    that ``gate/seed_settings.py`` lists.
    """

    task: Literal[Task.SEED] = Task.SEED
    inputs: Annotated[tuple[InputSpec, ...], Field(max_length=12)]
    body: Body
    no_grad: bool = False
    inductor: Annotated[
        dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z][\w.]*$", max_length=80)], Setting],
        Field(max_length=8),
    ] = {}


class RecipeProposal(_Proposal):
    """Rules, in this order wherever they match, on the seeds that the globs name (file stems of corpus/seeds)."""

    task: Literal[Task.RECIPE] = Task.RECIPE
    seeds: Annotated[tuple[Glob, ...], Field(min_length=1, max_length=12)]
    rules: Annotated[tuple[Glob, ...], Field(min_length=1, max_length=12)]


Proposal = RuleProposal | MutationProposal | SeedProposal | RecipeProposal
_ANY: TypeAdapter[Proposal] = TypeAdapter(Annotated[Proposal, Field(discriminator="task")])
_FORMS: dict[Task, type[_Proposal]] = {
    Task.RULE: RuleProposal,
    Task.MUTATION: MutationProposal,
    Task.SEED: SeedProposal,
    Task.RECIPE: RecipeProposal,
}


@dataclass(frozen=True)
class Judged:
    """What the gate says of one proposal; text and numbers only.

    ``levels``: what was shown, by dtype, of an admitted rule, and ``claim`` what it is used with.
    ``dropped``: claims and promises that fell, each with its counterexample as text.  ``counterexample`` was
    replayed in eager.  ``same_as`` names what a duplicate duplicates; seeds with one ``key`` are the same;
    ``made`` names the seeds that a mutation makes (``programs``: their files by name), or the variant that a
    recipe made of one.  ``fires``: the units of Inductor that compiling an admitted proposal's programs uses; of a
    rule those that its right side uses and its left does not.  ``late``: its time ran out, so that it is decided
    about anew.
    """

    task: Task
    name: str
    hash: str
    outcome: Outcome
    reason: str = ""
    level: Level | None = None
    claim: Level | None = None
    levels: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    counterexample: str = ""
    same_as: str = ""
    key: str = ""
    made: tuple[str, ...] = ()
    programs: tuple[tuple[str, str], ...] = ()
    fires: tuple[str, ...] = ()
    source: str = ""
    seconds: float = 0.0
    cached: bool = False
    late: bool = field(default=False, metadata=SPARSE)

    @classmethod
    def from_stored(cls, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of releases that did not say whether it was late that follows from the words."""
        return body if "late" in body else {**body, "late": str(body.get("reason", "")).startswith(TOO_LONG)}


def schema(task: Task) -> dict[str, Any]:
    """The JSON schema of proposals of one task."""
    return _FORMS[task].model_json_schema()


def read_proposal(body: Any) -> Proposal:
    """A proposal from parsed JSON; raises :class:`Malformed` with one line."""
    try:
        found = _ANY.validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"] if part not in list(Task))
        raise Malformed(f"{where}: {first['msg']}" if where else str(first["msg"])) from None
    if isinstance(found, SeedProposal):
        names = [i.name for i in found.inputs]
        if len(set(names)) < len(names):
            raise Malformed("inputs: a name is used twice")
    return found


@dataclass(frozen=True)
class Line:
    """One line of a pack: the proposal, or why there is none.  ``source`` is ``file:line``."""

    source: str
    text: str
    proposal: Proposal | None
    error: str = ""

    @property
    def hash(self) -> str:
        return self.proposal.hash if self.proposal is not None else digest(self.text)


def read_text(text: str, source: str) -> Line:
    """One proposal from its JSON text."""
    if len(text) > MAX_LINE:
        return Line(source, text[:200], None, f"{len(text)} characters; at most {MAX_LINE}")
    try:
        body = json.loads(text)
        return Line(source, text, read_proposal(body))
    except Malformed as error:
        return Line(source, text, None, str(error))
    except json.JSONDecodeError as error:
        return Line(source, text, None, f"no JSON: {error.msg} at column {error.colno}")
    except (RecursionError, ValueError) as error:
        return Line(source, text, None, f"no JSON: {type(error).__name__}: {error}")


def read_pack(path: Path) -> Iterator[Line]:
    """The lines of a pack, empty ones and comments (``#``) left out; raises ``OSError``."""
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            text = raw.decode(errors="replace").strip()
            if text and not text.startswith("#"):
                yield read_text(text, f"{path.name}:{number}")


def read_task(line: Line) -> Task:
    """The task of a line, of a malformed one as far as it says."""
    return _said(line)[0]


def outcome_of(line: Line, outcome: Outcome, reason: str) -> Judged:
    """The record of a line about which nothing more than a reason is to be said."""
    task, name = _said(line)
    return Judged(task, printable(name), line.hash, outcome, printable(reason), source=line.source)


def _said(line: Line) -> tuple[Task, str]:
    """Task and name, of a malformed line as far as it says them."""
    if line.proposal is not None:
        return line.proposal.task, line.proposal.name
    try:
        body = json.loads(line.text)
    except (ValueError, RecursionError):
        body = None
    body = body if isinstance(body, dict) else {}
    task = next((t for t in Task if body.get("task") == t), Task.RULE)
    name = body.get("name")
    return task, name[:80] if isinstance(name, str) else ""
