"""The records that flow through fxmorph, and the words it judges with.

Nothing here holds a tensor or imports torch: a worker process rebuilds tensors from
specs and seeds, and the parent process stays light.  The words are those of
``docs/policy.md``; code, JSON and documents use the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from types import NoneType
from typing import Any

from fxmorph.core.exhibit import Exhibit
from fxmorph.core.finding_parts import Blame, Draft, Draw, Likely, Reduced, Repro, UnitCase, gathered, taken_apart
from fxmorph.core.lifetime import Lifetime, lifetime
from fxmorph.core.records import SPARSE, to_json, untagged


class Status(StrEnum):
    """What a judgement ends in.

    Only ``FINDING`` accuses a compiled program; ``IR_ONLY`` is what interpreted kernels show, and no compiled run.
    """

    CLEAN = "clean"
    FINDING = "finding"
    IR_ONLY = "ir-only"
    KNOWN = "known"
    EXPECTED = "expected"
    EDGE_CASE = "edge-case"
    TIE = "tie"
    ILL_CONDITIONED = "ill-conditioned"
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    UNSOUND_REWRITE = "unsound-rewrite"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


#: Of several verdicts on one case the first of these present is the case's own.
SEVERITY: tuple[Status, ...] = (
    Status.UNSOUND_REWRITE,
    Status.FINDING,
    Status.IR_ONLY,
    Status.KNOWN,
    Status.ERROR,
    Status.UNSUPPORTED,
    Status.INCONCLUSIVE,
    Status.SKIPPED,
    Status.EXPECTED,
    Status.EDGE_CASE,
    Status.TIE,
    Status.ILL_CONDITIONED,
    Status.CLEAN,
)


class Kind(StrEnum):
    """What of an observation breaks the policy; a finding may have several."""

    VALUE = "value"
    NONFINITE = "nonfinite"
    DTYPE = "dtype"
    SHAPE = "shape"
    STRUCTURE = "structure"
    STRIDE = "stride"
    OFFSET = "offset"
    DEVICE = "device"
    ALIAS = "alias"
    IDENTITY = "identity"
    MUTATION = "mutation"
    GRADIENT = "gradient"
    REQUIRES_GRAD = "requires-grad"
    RNG = "rng"
    RAISES = "raises"
    SECOND_CALL = "second-call"
    OUT_OF_BOUNDS = "out-of-bounds"
    POISON = "poison"
    ORDER = "order"
    COMPILE_ERROR = "compile-error"
    CRASH = "crash"
    TIMEOUT = "timeout"


#: Kinds of what tensors hold.
NUMERIC_KINDS = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.GRADIENT})
#: Kinds of how it lies in memory.
LAYOUT_KINDS = frozenset({Kind.STRIDE, Kind.OFFSET})


class VerdictCode(StrEnum):
    """What a verdict or a comparison says beside its status and kind; the reason says it to people."""

    PLAIN = ""  #: status and kind say all
    # Values, by the numeric policy (fxmorph/judge/numeric.py).
    INSIDE_ENVELOPE = "inside-envelope"  #: they differ by less than rounding explains
    OUTSIDE_ENVELOPE = "outside-envelope"  #: by more
    UNEQUAL = "unequal"  #: values differ that are no numbers which rounding reaches
    EXACT_ARITHMETIC = "exact-arithmetic"  #: they differ where nothing rounds
    CAST_ELIDED = "explicit-cast-elided"  #: the compiled value agrees with fp64, not with the program's own casts
    NOT_EAGERS_BITS = "not-eagers-bits"  #: other bits than eager's where strict numerics promise those
    HANGS_ON_OTHER_ROWS = "hangs-on-other-rows"  #: a row of a program that promises batch invariance does
    IN_FP64 = "in-fp64"  #: interpreted kernels give something else in fp64 than the reference
    EQUAL_IN_FP64 = "equal-in-fp64"  #: the same computed in fp64, with other roundings
    ZERO_SIGN = "zero-sign"  #: only the sign of zero differs
    INFINITY_SIGN = "infinity-sign"  #: infinities differ in sign, as signed zeros make them
    FINITENESS = "finiteness"  #: finite on one side only, and eager agrees with fp64
    FINITENESS_DISPUTED = "finiteness-disputed"  #: finite on one side only, and eager does not
    DTYPE_RANGE = "dtype-range"  #: the range of a short dtype explains it
    NONFINITE_INPUTS = "nonfinite-inputs"  #: NaN or Inf is among the inputs
    OVERFLOW = "overflow"  #: a value overflows in eager that does not in fp64
    TIE = "tie"  #: a discrete decision could fall either way
    ILL_CONDITIONED = "ill-conditioned"  #: rounding may reach the value itself
    EAGER_OUTSIDE = "eager-outside-envelope"  #: eager is further off than rounding explains
    NO_REFERENCE = "no-reference"  #: there is no fp64 reference for it
    OPAQUE_DECISIONS = "opaque-decisions"  #: an operator decides inside, unseen
    RANDOM_VALUES = "random-values"  #: it hangs on random numbers
    BIT_CAST = "bit-cast"  #: it passes through a bit cast
    # What was seen beside values.
    ONE_SIZED_STRIDE = "one-sized-stride"  #: only the stride of a dimension of size 1 differs
    NOT_JUDGED = "not-judged"  #: it could not be looked into
    # Gates before an accusation.
    UNSTEADY_EAGER = "unsteady-eager"  #: eager gives something else when run again
    RANDOM_BY_DESIGN = "random-by-design"  #: without ``fallback_random`` random numbers are others
    OVERLAPPING_WRITE = "overlapping-write"  #: it is written into overlapping memory
    DUPLICATE_INDICES = "duplicate-indices"  #: different values are written to one place
    UNORDERED_BOUNDARIES = "unordered-boundaries"  #: numbers are looked up among boundaries in no order
    DRAWN_BY_KERNEL = "drawn-by-kernel"  #: how many random numbers are drawn hangs on the kernel of attention
    UNINITIALISED = "uninitialised"  #: uninitialised memory is read
    UNDECIDED = "undecided"  #: Python's control flow hangs on rounding
    NUMBER_TAKEN = "number-taken"  #: Python takes a number from a tensor that rounding reaches
    CAST_OUT_OF_RANGE = "cast-out-of-range"  #: a float is cast to an integer type that cannot hold it
    INTEGER_OVERFLOW = "integer-overflow"  #: integers may overflow their type
    # What is no test.
    UNSUPPORTED_INPUTS = "unsupported-inputs"  #: inputs of this layout are not judged
    REFUSED_DTYPE = "refused-dtype"  #: eager does not run in this dtype
    REFUSED_DEVICE = "refused-device"  #: eager does not run on this device
    EAGER_RAISES = "eager-raises"  #: eager raises on these values
    CANNOT_COMPILE = "cannot-compile"  #: the compiler says that it does not support the program
    # Mitigations of the ladder (fxmorph/judge/ladder.py).
    NOT_SEEN_AGAIN = "not-seen-again"  #: a fresh compile does not show it
    ASKS = "asks"  #: the program asks whether it is compiled, and does otherwise then
    LAYOUT_CHOSEN = "layout-chosen"  #: layout optimisation or a fused kernel chose the strides
    OTHER_DTYPE = "other-dtype"  #: only the program in another dtype shows it, whatever came before
    ACCEPTED_FOLD = "accepted-fold"  #: a fold that PyTorch accepts loses NaN or Inf
    FOLDED = "folded-constants"  #: constants are folded in 16 bits, where kernels in fp64 are to round nothing
    FLOAT32_CONSTANT = "float32-constant"  #: a kernel of eager holds a number in float32
    CASTS_EMULATED = "casts-emulated"  #: it vanishes under ``emulate_precision_casts``


#: What a rung of the ladder shows where nothing differs; elsewhere it shows kinds.
AGREES = "agrees"


def differs(shown: str) -> bool:
    """Whether a row of a ladder shows a difference; earlier releases wrote ``clean`` where nothing differs."""
    return shown not in (AGREES, Status.CLEAN)


class BugClass(StrEnum):
    """The six bug classes that a graph-level tester can reach."""

    UGO = "ugo"  #: unsound graph optimisation
    ILP = "ilp"  #: layout, view and stride propagation
    IOT = "iot"  #: dtype promotion
    BAM = "bam"  #: aliasing and mutation
    IOD = "iod"  #: decomposition
    KC = "kc"  #: fusion and code generation


class Level(StrEnum):
    """How exactly a rewrite preserves values, strongest first."""

    INDEX_EXACT = "INDEX_EXACT"
    BIT_EXACT = "BIT_EXACT"
    BIT_EXACT_MOD_ZERO_SIGN = "BIT_EXACT_MOD_ZERO_SIGN"
    UNDER_PRECONDITION = "UNDER_PRECONDITION"
    EXACT_REAL = "EXACT_REAL"
    TESTED = "TESTED"
    UNKNOWN = "UNKNOWN"
    REFUTED = "REFUTED"

    @property
    def bitwise(self) -> bool:
        """Whether eager must give the same bits (up to the sign of zero) on both sides."""
        return self in (Level.INDEX_EXACT, Level.BIT_EXACT, Level.BIT_EXACT_MOD_ZERO_SIGN)

    def stronger(self, than: Level) -> bool:
        """Whether it says more than another level."""
        order = list(Level)
        return order.index(self) < order.index(than)


class Rung(StrEnum):
    """How far down a case is pushed."""

    PASS = "pass"
    IR = "ir"
    CPU = "cpu"
    CUDA = "cuda"


class Kernels(StrEnum):
    """What becomes of the loops that Inductor fuses."""

    GENERATED = "generated"  #: code, which is compiled
    CPP = "cpp"  #: fused as for C++, they are interpreted
    GPU = "gpu"  #: fused as for a GPU, on tensors of the CPU, they are interpreted


class GraphLevel(StrEnum):
    """Where a graph was captured: as Dynamo hands it on, or after AOTAutograd."""

    TORCH = "torch"
    ATEN = "aten"


class ValuePlan(StrEnum):
    """How the values of an input set are chosen (``fxmorph/programs/inputs.py``)."""

    SEED = "seed"  #: as the seed's own ``make_inputs`` gives them
    RESEED = "reseed"  #: the same function under another RNG seed
    EXACT = "exact"  #: quarters or small integers in every floating-point tensor, such that nothing rounds
    MASK = "mask"  #: 0-1 masks get values outside {0, 1}; rows fully masked
    NEAR = "near"  #: equal values and neighbouring floats: ties and near ties
    NEGATIVE = "negative"  #: half of the elements of integer tensors become negative, as indices from the end
    LIMITS = "limits"  #: signed zeros, subnormals, large values
    SPECIAL = "special"  #: signed zeros, Inf, NaN, dtype limits: edge cases only
    NORMAL = "normal"  #: the seed's, changed until nothing overflows or is undefined, where something was
    AGAIN = "again"  #: called twice on the same objects; the second call is judged
    LARGER = "larger"  #: one size grown throughout the inputs, on the same compile
    SMALLER = "smaller"  #: one size halved
    ONE = "one"  #: one size 1
    EMPTY = "empty"  #: one size 0
    LAYOUT = "layout"  #: the seed's, with other strides, offsets and shared memory, on a compile of its own
    THREADS = "threads"  #: the seed's, on several threads, on a compile of its own
    GPU = "gpu"  #: the seed's, its kernels fused as for a GPU and interpreted, on a compile of its own
    CACHED = "cached"  #: called again with something changed that guards and cache keys must notice, caches on
    RANDOM = "random"  #: the seed's, with the compiler's own random numbers, on a compile of its own
    STRICT = "strict"  #: the seed's, under strict numerics, on a compile of its own: eager's bits are promised
    ROWS = "rows"  #: the seed's, rows beside others than its own, of programs that promise batch invariance


#: Plans that change sizes; they apply where the program is compiled for dynamic shapes.
SIZE_PLANS = (ValuePlan.LARGER, ValuePlan.SMALLER, ValuePlan.ONE, ValuePlan.EMPTY)
#: What may be done to the shapes of all inputs (``fxmorph/programs/sizes.py``): a size changed as under the plan of the
#: same name, or the rank.
RESHAPES = ("one", "empty", "larger", "deeper", "flatter")
#: Plans of values that a rewrite may be unstable on: a variant is then judged without them.
EXTRA_PLANS = (ValuePlan.NORMAL, ValuePlan.NEAR, ValuePlan.NEGATIVE, ValuePlan.LIMITS)
#: Plans of values that are not the program's own, nor drawn as those are.
DRAWN_PLANS = (ValuePlan.EXACT, ValuePlan.MASK, *EXTRA_PLANS, ValuePlan.SPECIAL)
#: Of the random generators before a call.
RNG_SEED = 2
#: What a program can be called under besides its own state (``""``: nothing).
CONTEXTS = ("", "inference", "autocast")


@dataclass(frozen=True)
class TensorSpec:
    """One tensor without its values.

    ``shape`` and ``stride`` are in elements; a size may be a string, the name of a
    symbolic size.  ``offset`` is the storage offset in elements; tensors with the same
    ``storage`` number share memory; ``storage_size`` is that memory's size in elements of
    ``dtype``.  ``low`` and ``high`` give the value range of integer tensors.
    """

    dtype: str
    shape: tuple[int | str, ...]
    stride: tuple[int | str, ...]
    device: str = "cpu"
    offset: int = 0
    storage: int = 0
    storage_size: int = 0
    requires_grad: bool = False
    low: int | None = None
    high: int | None = None

    @property
    def numel(self) -> int:
        """Number of elements; raises ``TypeError`` on symbolic sizes."""
        n = 1
        for size in self.shape:
            if isinstance(size, str):
                raise TypeError(f"symbolic size {size}")
            n *= size
        return n

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def floating(self) -> bool:
        return self.dtype in FLOATS

    @property
    def dense(self) -> bool:
        """Whether no two elements share memory because of a zero stride."""
        return all(st != 0 or sz == 1 for st, sz in zip(self.stride, self.shape, strict=True))


FLOATS = ("float32", "float64", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True)
class Seed:
    """A program from the corpus: the callable that is compiled, named by its file.

    ``form`` is ``module`` (a seed file), ``class`` (``module.py:Name``), ``pt2`` or
    ``runnable`` (an ``fx_graph_runnable`` script); ``hash`` covers the file's text and the
    selected name and mode, so that an edited seed is another seed.
    """

    path: str
    form: str
    hash: str
    name: str = ""  # of the class or factory in ``module.py:Name``
    mode: str = ""  # "train" or "eval" for nn.Module seeds selected by name
    origin: str = ""

    @property
    def label(self) -> str:
        tail = f":{self.name}" if self.name else ""
        return f"{self.path}{tail}" + (f"[{self.mode}]" if self.mode else "")


@dataclass(frozen=True)
class Rewrite:
    """A rule applied at one place.

    ``site`` is the name of the node whose value the rule replaces; ``at`` the node after
    which a late rewrite is inserted; ``choices`` the scalars that the rule was free to
    choose.  Text form: ``rule{k=2}@site>at``.
    """

    rule: str
    site: str
    at: str = ""
    choices: tuple[tuple[str, int | float | bool], ...] = ()

    def __str__(self) -> str:
        inner = ",".join(f"{k}={v!r}" for k, v in self.choices)
        return f"{self.rule}{'{' + inner + '}' if inner else ''}@{self.site}{'>' + self.at if self.at else ''}"

    @staticmethod
    def parse(text: str) -> Rewrite:
        """Read the text form; raises ``ValueError`` saying what is wrong."""
        import ast
        import re

        m = re.fullmatch(r"\s*([A-Za-z_]\w*)(?:\{([^}]*)\})?@([A-Za-z_]\w*)(?:>([A-Za-z_]\w*))?\s*", text)
        if m is None:
            raise ValueError(f"not a rewrite: {text!r} (want rule{{name=value}}@site>at)")
        choices = []
        for item in filter(None, (m[2] or "").split(",")):
            key, eq, value = item.partition("=")
            if not eq:
                raise ValueError(f"not name=value: {item!r} in {text!r}")
            choices.append((key.strip(), ast.literal_eval(value.strip())))
        return Rewrite(m[1], m[3], m[4] or "", tuple(choices))


@dataclass(frozen=True)
class Recipe:
    """The rewrites that made a variant, in order.  One line of text that replays."""

    rewrites: tuple[Rewrite, ...] = ()

    def __str__(self) -> str:
        return " ; ".join(map(str, self.rewrites))

    def __bool__(self) -> bool:
        return bool(self.rewrites)

    @staticmethod
    def parse(text: str) -> Recipe:
        return Recipe(tuple(Rewrite.parse(part) for part in text.split(";") if part.strip()))


@dataclass(frozen=True)
class Proof:
    """What is known of one rewrite: how strong, for what, shown how, assuming what."""

    level: Level
    scope: str = "one shape"
    method: str = "FALSIFY-ONLY"
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True)
class RewriteProof:
    """The proof of one rewrite of a recipe at its site.

    ``certificate`` is the key of its evidence; ``seconds`` is CPU time; ``cached`` says that the
    certificate was there already.
    """

    rewrite: str
    proof: Proof
    certificate: str
    seconds: float = 0.0
    cached: bool = False


#: The arguments of ``torch.compile`` that a case may set, and the types of each.
COMPILE_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "fullgraph": (bool,),
    "dynamic": (bool, NoneType),
    "mode": (str, NoneType),
    "options": (dict, NoneType),
    "disable": (bool,),
}
_SPELLED = {bool: "True or False", NoneType: "None", str: "text", dict: "a dict"}


def check_arguments(options: Mapping[str, Any]) -> None:
    """Raises ``ValueError`` on what is no argument of ``torch.compile`` that a case may set, or of the wrong type."""
    for name, value in options.items():
        if name not in COMPILE_ARGUMENTS:
            raise ValueError(f"torch.compile is given no argument {name!r}, want one of {', '.join(COMPILE_ARGUMENTS)}")
        if type(value) not in COMPILE_ARGUMENTS[name]:
            words = " or ".join(_SPELLED[t] for t in COMPILE_ARGUMENTS[name])
            raise ValueError(f"{name} of torch.compile: want {words}, got {value!r}")
    if options.get("mode") is not None and options.get("options") is not None:
        raise ValueError("torch.compile takes mode or options, not both")


@dataclass(frozen=True)
class CompileConfig:
    """How a case is compiled.

    ``backend`` is any ``torch.compile`` backend; ``options`` its keyword arguments
    (``dynamic``, ``mode``, ``fullgraph``); ``inductor`` and ``dynamo`` settings of
    ``torch._inductor.config`` and ``torch._dynamo.config``.  Pairs, sorted, so that equal
    configurations are equal records.  ``threads`` is how many threads an operator, eager's or generated, may use:
    loops that run in parallel are other code.  ``kernels`` is whether code is generated at all.
    """

    backend: str = "inductor"
    options: tuple[tuple[str, Any], ...] = ()
    inductor: tuple[tuple[str, Any], ...] = ()
    dynamo: tuple[tuple[str, Any], ...] = ()
    threads: int = 1
    kernels: Kernels = field(default=Kernels.GENERATED, metadata=SPARSE)

    def __hash__(self) -> int:
        return hash(repr(self))  # a value may be a dict

    @staticmethod
    def make(
        backend: str = "inductor",
        options: dict[str, Any] | None = None,
        inductor: dict[str, Any] | None = None,
        dynamo: dict[str, Any] | None = None,
        threads: int = 1,
        kernels: Kernels = Kernels.GENERATED,
    ) -> CompileConfig:
        def pairs(d: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
            return tuple(sorted((d or {}).items()))

        return CompileConfig(backend, pairs(options), pairs(inductor), pairs(dynamo), threads, kernels)

    @property
    def own_numbers(self) -> bool:
        """Whether Inductor draws random numbers by generators of its own, which give others than eager's."""
        return not dict(self.inductor).get("fallback_random", True)

    def with_inductor(self, settings: Mapping[str, Any]) -> CompileConfig:
        """The same with some of Inductor's settings changed or added."""
        changed = {**dict(self.inductor), **settings}
        return replace(self, inductor=tuple(sorted(changed.items(), key=lambda pair: pair[0])))


@dataclass(frozen=True)
class Case:
    """One thing to judge; its id is the hash of all that decides the outcome.

    ``number`` 0 is the seed as it is; a variant's recipe is drawn from
    (``campaign_seed``, seed hash, ``number``) unless ``recipe`` gives it, from the rules but
    those in ``avoid``.  ``plans`` are the input sets judged on the one compile;
    ``input_seed`` feeds their generators.  ``dtype`` is what floating-point inputs, parameters
    and buffers are converted to (``""``: left as they are); ``context`` one of CONTEXTS;
    rules in ``favour`` are drawn more often; ``chain`` are steps that the recipe is made of
    (``rewrite.draw_chain``), a proposed recipe; ``relaid`` gives the inputs another
    layout (``layouts.py``), ``reshaped``, one of RESHAPES or ``""``, other sizes or ranks, each where eager accepts it.
    """

    seed: Seed
    number: int
    campaign_seed: int
    plans: tuple[ValuePlan, ...]
    compile: CompileConfig
    input_seed: int = 0
    rung: Rung = Rung.CPU
    device: str = "cpu"
    level: GraphLevel = GraphLevel.TORCH
    recipe: Recipe | None = None
    avoid: tuple[str, ...] = ()
    favour: tuple[str, ...] = ()
    torch: str = ""
    dtype: str = ""
    context: str = ""
    relaid: bool = False
    chain: tuple[str, ...] = ()
    reshaped: str = ""

    @property
    def id(self) -> str:
        """16 hex digits, the same on every machine (paths do not enter)."""
        body = asdict(self)
        body["threads"], body["kernels"] = (body["compile"].pop(name) for name in ("threads", "kernels"))
        without = (("chain", ()), ("favour", ()), ("reshaped", ""), ("threads", 1), ("kernels", Kernels.GENERATED))
        for name, left_out in without:
            if body[name] == left_out:
                del body[name]
        body["seed"] = (self.seed.hash, self.seed.name, self.seed.mode)
        body["recipe"] = None if self.recipe is None else str(self.recipe)
        return digest(body)

    @classmethod
    def from_stored(cls, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Earlier releases have threads beside the configuration."""
        if "threads" not in body:
            return body
        rest = {name: value for name, value in body.items() if name != "threads"}
        return {**rest, "compile": {**body["compile"], "threads": body["threads"]}}


def digest(body: object, length: int = 16) -> str:
    """First ``length`` hex digits of the SHA-256 of ``body`` as canonical JSON."""
    text = json.dumps(body, sort_keys=True, default=str, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:length]


@dataclass(frozen=True)
class Verdict:
    """What one oracle says of one slot (an output, an input after the call, a gradient).

    ``far``: the value is no near miss of what rounding explains; ``single``: it is float64, and off by no more than a
    number in float32 explains.  ``reason`` is for people; ``code`` says it to
    whoever decides.
    """

    status: Status
    kind: Kind | None = None
    slot: str = ""
    reason: str = ""
    plan: ValuePlan | None = None
    far: bool = False
    code: VerdictCode = field(default=VerdictCode.PLAIN, metadata=SPARSE)
    single: bool = field(default=False, metadata=SPARSE)

    @classmethod
    def from_stored(cls, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of releases without codes those that are decided on follow from the words."""
        words = body.get("reason", "")
        if "code" in body or not isinstance(words, str):
            return body
        for code, word in ((VerdictCode.EXACT_ARITHMETIC, "exact arithmetic"), (VerdictCode.CAST_ELIDED,) * 2):
            if word in words:
                return {**body, "code": code}
        return body


def accusations(verdicts: Iterable[Verdict]) -> set[tuple[str, Kind | None]]:
    """Slot and kind of each finding among verdicts."""
    return {(v.slot, v.kind) for v in verdicts if v.status is Status.FINDING}


@dataclass(frozen=True)
class CaseResult:
    """All that a worker reports of one case; text and numbers only.

    ``triangle`` says who is wrong where a finding stands: ``seed-miscompiled``,
    ``variant-miscompiled`` or ``both``.  ``seconds`` is CPU seconds by activity.
    ``inductor`` is set where the finding shows under other settings than the case's own, and ``compiled`` where a
    compiled run shows what interpreted kernels did; ``fired`` are the units of Inductor that its compile made use of.
    """

    case_id: str
    status: Status
    kinds: tuple[Kind, ...] = ()
    reason: str = ""
    verdicts: tuple[Verdict, ...] = ()
    recipe: str = ""
    triangle: str = ""
    stage: str = ""
    unit: str = ""
    ladder: tuple[tuple[str, str], ...] = ()
    graph_hash: str = ""
    seconds: tuple[tuple[str, float], ...] = ()
    wall: float = 0.0
    inductor: tuple[tuple[str, Any], ...] = ()
    proofs: tuple[RewriteProof, ...] = ()
    fired: tuple[str, ...] = ()
    compiled: bool = field(default=False, metadata=SPARSE)

    @property
    def shown_under(self) -> ValuePlan | None:
        """The first plan that shows a finding; None where nothing is one, or where it is of no plan."""
        return next((v.plan for v in self.verdicts if v.status is Status.FINDING and v.plan), None)

    def with_more(self, said: str) -> CaseResult:
        """The same, with more words of its reason."""
        return replace(self, reason=f"{self.reason}; {said}" if self.reason else said)


@dataclass(frozen=True)
class Finding:
    """A difference that stands up, ready to be written down.

    ``program`` is the reduced case as torch-only Python source defining ``fn`` and
    ``make_inputs``; ``fingerprint`` keys deduplication: verdict kinds, first bad stage,
    unit and the structure of the reduced graph.  One that is not ``confirmed`` was seen by a worker's
    judgement alone: no fresh process showed it yet, ``program`` is as it was found, or "".  One of the pass rung has a
    ``unit_case``.  ``releases`` are (release of torch, what ``repro.py`` shows under it).  ``known`` is the public
    issue that it is, or ``baseline``; ``known_by`` says what showed that.  ``likely`` are public issues that it may be.
    ``units`` says where to look: the unit, then functions of torch that do its work, the most telling ones first.
    """

    id: str
    case_id: str
    seed: str
    recipe: str
    kinds: tuple[Kind, ...]
    bug_class: BugClass
    stage: str
    unit: str
    triangle: str
    fingerprint: str
    reason: str
    program: str
    origin: str = ""
    ladder: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
    known: str = ""
    rewrites: tuple[str, ...] = ()
    proofs: tuple[RewriteProof, ...] = ()
    unit_case: UnitCase | None = None
    repro: Repro = field(default_factory=Repro)
    draw: Draw = field(default_factory=Draw)
    reduced: Reduced = field(default_factory=Reduced)
    blame: Blame | None = None
    exhibit: Exhibit | None = None
    releases: tuple[tuple[str, str], ...] | None = None
    draft: Draft | None = None
    confirmed: bool = True
    known_by: str = ""
    likely: tuple[Likely, ...] = ()
    units: tuple[str, ...] = ()

    @property
    def config(self) -> dict[str, Any]:
        """How the program is compiled and run; empty where the finding does not say."""
        return self.repro.config or {}

    @property
    def operations(self) -> tuple[str, ...]:
        """What the graph that shows it calls, as far as it is known."""
        return (self.unit_case and self.unit_case.operations) or self.reduced.operations or ()

    @property
    def extra(self) -> dict[str, Any]:
        """What ``finding.json`` holds under that name: the fields of the parts side by side."""
        extra: dict[str, Any] = untagged(to_json(self)["extra"])
        return extra

    @property
    def lifetime(self) -> Lifetime:
        """Since when it shows and until when, as far as ``releases`` say."""
        return lifetime(self.releases or ())

    def to_stored(self, body: dict[str, Any]) -> dict[str, Any]:
        return gathered(body)

    @classmethod
    def from_stored(cls, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return taken_apart(body)


def worst(statuses: list[Status]) -> Status:
    """The status that a case takes from its verdicts."""
    return next((s for s in SEVERITY if s in statuses), Status.CLEAN)
