"""``fxmorph check-pass``: a pass of one's own on the graphs of a corpus, in a worker process.

Runs without torch: the parent orders seeds, hands them out and counts.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Pool, Trouble
from fxmorph.core.seeds import find_seeds, shipped_corpus
from fxmorph.events import PairJudged, PassChecked, Warned
from fxmorph.inductor.own.pass_jobs import CheckMade, CheckSeed, LoadPass
from fxmorph.inductor.own.pass_request import PassRequest
from fxmorph.inductor.own.pass_stage import IN_TURN, PassStage
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Kind, Seed, Status, digest

#: CPU seconds that one program may take, its compile included; what starts a worker is not counted.
LIMIT = 120.0
#: CPU seconds for graphs that are made; then wall seconds for seeds of the shipped corpus where none are named:
#: once the pass has fired, and as long as it has not.
MADE_SECONDS, QUICK_SECONDS, SEARCHING_SECONDS = 4.0, 1.0, 12.0

#: How programs spell ATen's operators, where they do not call them by name.
_SPELLED = {
    "add": ("+",), "sub": ("-",), "mul": ("*",), "div": ("/",), "mm": ("@", "matmul", "linear"),
    "bmm": ("@", "matmul", "bmm"), "addmm": ("@", "linear"), "permute": ("permute", "transpose", ".t()", ".mT"),
    "clone": ("clone", "contiguous", "+ 0"), "_to_copy": (".to(", ".float()"), "pow": ("**", "pow"),
    "convert_element_type": (".to(", ".float()", ".half()", ".bfloat16()", ".type("), "view": ("view", "reshape"),
    "_softmax": ("softmax",), "copy_": ("copy_",), "sigmoid": ("sigmoid", "silu"), "select": ("[",), "slice": ("[",),
    "unsqueeze": ("unsqueeze", "None"), "rsqrt": ("rsqrt", "sqrt"), "full": ("full", "zeros", "ones"),
}  # fmt: skip
_OPERATOR = re.compile(r"\b(?:aten|prims|torch|ops)\.(\w+)")


def check_pass(request: PassRequest, settings: Settings, every: bool, emit: Callable[[object], None]) -> int:
    """Check the pass on graphs that are made from it, then on the seeds at ``settings.paths``.

    Stops at the first finding unless ``every``.  Without paths, and with no time that is asked for, the seeds are
    those of the shipped corpus which call what the pass names, for some seconds.  Tells :class:`PairJudged` of each
    graph and :class:`PassChecked` at the end; returns the exit code.  Raises ``ConfigError`` for a pass that does
    not load or cannot be called.
    """
    source = pass_source(request.target)
    seeds, refusals = find_seeds(list(settings.paths) or [shipped_corpus()], settings.all)
    for refusal in refusals:
        emit(Warned(f"{refusal.path}: {refusal.reason}"))
    state = settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    count = Count()
    quick = not (settings.paths or every or "max_time" in settings.given)
    plan = SeedPlan(ordered(seeds, source), request.stage or PassStage.ANY, quick, started + settings.max_time)
    # The compiler asks for a GPU when it is imported, which a process that is to use one does by itself.
    shared = ["fxmorph.inductor.own.pass_worker"] if request.device == "cpu" else []
    with Pool(1, _serve, (request, str(state)), shared) as pool:
        for pair in _records(pool, plan, count, request.name):
            count.add(pair)
            emit(told(pair, pair.stage or plan.stage, _written(pair, state)))
            if pair.status is Status.FINDING and not every:
                break
    code = count.code()
    emit(count.finished(request.name, plan.stage, plan.given, round(time.monotonic() - started, 2), code))
    return code


def _serve(*arguments: object) -> None:
    """In the worker, which has torch: the parent has not."""
    from fxmorph.inductor.own.pass_worker import serve

    serve(*arguments)  # type: ignore[arg-type]


# -- which seeds first -----------------------------------------------------------


def pass_source(name: str) -> str:
    """The text of a pass, or of its file where it is made by a call; "" for a plug-in.

    Raises ``ConfigError`` where there is no such file or module.
    """
    where, colon, attribute = name.rpartition(":")
    if not colon:
        return ""
    file = Path(where) if where.endswith(".py") else _module_file(where)
    if file is None:
        return ""
    if not file.is_file():
        raise ConfigError(f"{where}: no such file")
    text = file.read_text(errors="replace") if file.suffix == ".py" else ""
    with contextlib.suppress(SyntaxError):
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == attribute:
                return ast.get_source_segment(text, node) or text
    return text


def _module_file(where: str) -> Path | None:
    """None where the packages around the module fail while they are imported, which the worker tells of."""
    sys.path[:0] = [""] if "" not in sys.path else []
    try:
        spec = importlib.util.find_spec(where)
    except Exception as error:  # the packages around it are imported to find it
        missing = getattr(error, "name", None)
        if isinstance(error, ModuleNotFoundError) and missing and where.startswith(missing):
            raise ConfigError(f"{where}: no such module ({error})") from None
        return None
    if spec is None or spec.origin is None:
        raise ConfigError(f"{where}: no such module; run where it can be imported, or name its file as file.py:NAME")
    return Path(spec.origin)


def ordered(seeds: Sequence[Seed], source: str) -> list[tuple[Seed, bool, bool]]:
    """(seed, whether to train, whether its text has what the pass names): those that have first, small ones first."""
    spelled = [_SPELLED.get(operator, (operator,)) for operator in sorted(_operators(source))]
    ranked = []
    for place, seed in enumerate(seeds):
        text = _body(Path(seed.path))
        hits = sum(any(s in text for s in words) for words in spelled)
        ranked.append((-hits, len(text), place))
    order = [(seeds[place], -hits) for hits, _, place in sorted(ranked)]
    near = [(s, t, True) for t in (False, True) for s, hits in order if hits]
    return [*near, *((s, t, False) for t in (False, True) for s, hits in order if not hits)]


def _operators(source: str) -> set[str]:
    """Operators that a text calls, or that words of its names are."""
    named = {operator.removesuffix("_") for operator in _OPERATOR.findall(source)}
    words = {word.removesuffix("s") for name in re.findall(r"\w+", source) for word in name.split("_")}
    return named | (words & _SPELLED.keys())


def _body(path: Path) -> str:
    """The text of a seed but for its docstring and inputs."""
    text = path.read_text(errors="replace") if path.suffix == ".py" else ""
    return re.sub(r"def make_inputs\(\):.*?(?=\n\S)", "", text.split("ORIGIN", 1)[-1], flags=re.DOTALL)


# -- the worker ------------------------------------------------------------------


@dataclass
class SeedPlan:
    """Which seeds are given to the pass, at which stages, until when; ``given`` counts them.

    ``quick``: those that call what the pass names, for :data:`QUICK_SECONDS`, longer where it has fired nowhere yet.
    """

    order: Sequence[tuple[Seed, bool, bool]]
    stage: str
    quick: bool
    deadline: float
    given: int = 0

    def jobs(self, count: Count) -> Iterator[CheckSeed]:
        """Stage by stage: on with the next where the pass has fired on none."""
        began = time.monotonic()
        stages = IN_TURN if self.stage == PassStage.ANY else (self.stage,)
        for number, stage in enumerate(stages):
            for seed, training, near in self.order:
                if self.quick and (
                    count.changed and (not near or (self.stage == PassStage.ANY and stage != IN_TURN[0]))
                ):
                    continue
                if time.monotonic() > self._end(began, count, (number + len(stages)) / (2 * len(stages) - 1)):
                    break
                self.given += 1
                yield CheckSeed(seed, training, str(stage))
            if count.changed:
                return

    def _end(self, began: float, count: Count, share: float) -> float:
        """``share``: of the time for all stages, what this one and those before it have: the first has most."""
        if not self.quick:
            return self.deadline
        return min(self.deadline, began + (QUICK_SECONDS if count.changed else SEARCHING_SECONDS * share))


def _records(pool: Pool, plan: SeedPlan, count: Count, name: str) -> Iterator[Pair]:
    (loaded,) = pool.run([LoadPass()], LIMIT)
    if loaded.trouble or loaded.value:
        raise ConfigError(loaded.value or f"the pass does not load: {loaded.trouble} {loaded.detail}".strip())
    yield from _made(pool, plan, count, name)
    for ended in pool.run(plan.jobs(count), LIMIT):
        if ended.trouble:
            yield _troubled(ended, name)
        elif isinstance(ended.value, str):
            raise ConfigError(ended.value)
        else:
            yield from ended.value


def _made(pool: Pool, plan: SeedPlan, count: Count, name: str) -> Iterator[Pair]:
    """Of graphs that are made; a crash ends them, since it would come again."""
    seconds = round(max(0.1, min(MADE_SECONDS, plan.deadline - time.monotonic())), 1)
    while True:
        (ended,) = pool.run([CheckMade(seconds)], LIMIT)
        if ended.trouble:
            kind = _KINDS.get(ended.trouble)
            reason = f"{ended.trouble} in {ended.phase}: {ended.detail}"
            accused = ended.phase == "pass" and kind is not None
            if accused and kind is not None:
                yield Pair(name, "made", "made", "", 0, Status.FINDING, (kind,), reason)
            else:
                yield Pair(name, "made", "", "", 0, Status.ERROR, reason=reason, fired=False)
            return
        batch = ended.value
        if isinstance(batch, str):
            raise ConfigError(batch)
        count.made = batch.tried
        count.how, count.why_not = batch.how, batch.why_not
        yield from batch.pairs
        if batch.done:
            count.left_out += batch.left_out
            count.patterns = batch.patterns
            return


#: Verdicts on graphs that say nothing of the pass.
_UNJUDGED = (Status.UNSUPPORTED, Status.SKIPPED, Status.ERROR)
_KINDS = {Trouble.CRASH: Kind.CRASH, Trouble.TIMEOUT: Kind.TIMEOUT}


def _troubled(ended: Ended, name: str) -> Pair:
    """A worker that crashed or hung while the pass ran accuses the pass."""
    seed, part = ended.job.seed, "training" if ended.job.training else "inference"
    reason = f"{ended.trouble} in {ended.phase}: {ended.detail}"
    kind = _KINDS.get(ended.trouble)
    if ended.phase == "pass" and kind is not None:
        return Pair(name, seed.label, part, "", 0, Status.FINDING, (kind,), reason)
    return Pair(name, seed.label, "", "", 0, Status.ERROR, reason=reason, fired=False)


# -- what is told ----------------------------------------------------------------


class Count:
    """How many graphs there were, and what came of those on which the pass fired.

    ``made`` counts graphs that were made from the pass, ``how`` says how one made it fire, ``why_not`` why none did.
    """

    def __init__(self) -> None:
        self.seen = self.fired = self.errors = self.made = self.left_out = self.tidied = 0
        self.unjudged = ""
        self.failed = False
        self.broken: dict[str, None] = {}
        self.patterns: tuple[str, ...] = ()
        self.how = self.why_not = ""
        self.verdicts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()

    def add(self, pair: Pair) -> None:
        self.errors += pair.status is Status.ERROR
        self.failed = self.failed or (pair.status is Status.ERROR and pair.source == "made")
        self.seen += bool(pair.part) and pair.part != "made"
        self.left_out += pair.status is Status.SKIPPED and not pair.fired
        if pair.broken:
            self.broken[pair.broken] = None
        if not pair.fired:
            return
        if self.why_not and not self.changed and not pair.tidied:
            self.how = ""  # it told of graphs that were made, of which no more than dead code was removed
        self.fired += 1
        self.tidied += pair.tidied
        if pair.status in _UNJUDGED:
            self.unjudged = self.unjudged or pair.reason
        self.how = self.how or pair.source
        self.verdicts[pair.status.value] += 1
        if pair.outcome:
            self.outcomes[pair.outcome] += 1
        if pair.outcome == "proved":
            self.levels[pair.level.value] += 1

    @property
    def changed(self) -> int:
        """On how many graphs the pass did more than to remove dead code, or all that it is for."""
        return self.fired - self.tidied if self.why_not else self.fired

    @property
    def graphs(self) -> int:
        return self.seen + self.made

    def code(self) -> int:
        if self.verdicts[Status.FINDING.value]:
            return Exit.FINDINGS
        if self.failed or (self.errors and not self.graphs):
            return Exit.INTERNAL
        if not self.fired:
            return Exit.NOTHING_RAN
        return Exit.NOTHING_RAN if self.nothing_checked else Exit.OK

    @property
    def nothing_checked(self) -> str:
        """Why nothing is known of a pass that fired; "" where something is."""
        if not self.fired:
            return ""
        if self.fired == sum(self.verdicts[status.value] for status in _UNJUDGED):
            return f"none could be judged: {self.unjudged}"
        if self.fired == self.tidied and self.why_not:
            return f"it changed nothing but dead code and how calls are written; tried {self.why_not}"
        return ""

    def finished(self, name: str, stage: str, seeds: int, wall: float, code: int) -> PassChecked:
        return PassChecked(
            name, stage, seeds, self.graphs, self.fired, dict(self.verdicts), dict(self.outcomes),
            dict(self.levels), wall, code, self.how if self.fired else self.why_not, self.nothing_checked,
            self.left_out, tuple(self.broken), self.patterns,
        )  # fmt: skip


def told(pair: Pair, stage: str, repro: str) -> PairJudged:
    """The event of a record; ``repro`` is the path of its script."""
    return PairJudged(
        pair.unit, pair.source, stage, pair.part, pair.nodes, pair.fired, pair.status, pair.kinds, pair.reason,
        pair.outcome, pair.level, pair.method, pair.assumptions, pair.unproved, pair.changes,
        pair.plan if pair.status is Status.FINDING else "", pair.inputs, repro,
    )  # fmt: skip


def _written(pair: Pair, state: Path) -> str:
    """The path of the script that shows a finding, "" where there is none."""
    if not pair.repro:
        return ""
    folder = state / "check-pass"
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"\W+", "-", Path(pair.source).stem)[:40].strip("-")
    file = folder / f"{stem}-{pair.part.split()[0]}-{digest(pair.repro, 8)}.py"
    file.write_text(pair.repro)
    return str(file)
