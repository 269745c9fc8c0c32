"""``fxmorph check-pass``: a pass of one's own on the graphs of a corpus, in a worker process.

Runs without torch: the parent orders seeds, hands them out and counts.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Pool, Trouble
from fxmorph.core.seeds import find_seeds
from fxmorph.core.units import Stage
from fxmorph.events import PairJudged, PassChecked, Warned
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import Kind, Seed, Status, digest

#: CPU seconds that one program may take, its compile included; what starts a worker is not counted.
LIMIT = 120.0

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


def shipped_corpus() -> str:
    """The folder of the corpus that is installed with fxmorph."""
    import fxmorph.corpus as shipped

    return str(next(iter(shipped.__path__)))


def check_pass(name: str, stage: Stage, settings: Settings, every: bool, emit: Callable[[object], None]) -> int:
    """Check the pass on the seeds at ``settings.paths``; stops at the first finding unless ``every``.

    Tells :class:`PairJudged` of each graph and :class:`PassChecked` at the end; returns the exit code.
    Raises ``ConfigError`` for a pass that does not load or cannot be called.
    """
    source = pass_source(name)
    seeds, refusals = find_seeds(list(settings.paths) or [shipped_corpus()], settings.all)
    for refusal in refusals:
        emit(Warned(f"{refusal.path}: {refusal.reason}"))
    state = settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    count = Count()
    with Pool(1, _serve, (name, stage.value, str(state)), ["fxmorph.inductor.own.pass_worker"]) as pool:
        for pair in _records(pool, ordered(seeds, source), name, started + settings.max_time):
            count.add(pair)
            emit(told(pair, stage, _written(pair, state)))
            if pair.status is Status.FINDING and not every:
                break
    code = count.code()
    emit(count.finished(name, stage, len(seeds), round(time.monotonic() - started, 2), code))
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
    if not file.is_file():
        raise ConfigError(f"{where}: no such file")
    text = file.read_text(errors="replace") if file.suffix == ".py" else ""
    with contextlib.suppress(SyntaxError):
        for node in ast.parse(text).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == attribute:
                return ast.get_source_segment(text, node) or text
    return text


def _module_file(where: str) -> Path:
    sys.path[:0] = [""] if "" not in sys.path else []
    try:
        spec = importlib.util.find_spec(where)
    except Exception as error:  # the packages around it are imported to find it
        raise ConfigError(f"{where}: no such module ({type(error).__name__}: {error})") from None
    if spec is None or spec.origin is None:
        raise ConfigError(f"{where}: no such module; run where it can be imported, or name its file as file.py:NAME")
    return Path(spec.origin)


def ordered(seeds: Sequence[Seed], source: str) -> list[tuple[Seed, bool]]:
    """(seed, whether to train): first those whose text has the operators that the pass names, small ones first."""
    spelled = [_SPELLED.get(operator, (operator,)) for operator in sorted(_operators(source))]
    ranked = []
    for place, seed in enumerate(seeds):
        text = _body(Path(seed.path))
        hits = sum(any(s in text for s in words) for words in spelled)
        ranked.append((-hits, len(text), place))
    order = [(seeds[place], -hits) for hits, _, place in sorted(ranked)]
    near = [(s, t) for t in (False, True) for s, hits in order if hits]
    return [*near, *((s, t) for t in (False, True) for s, hits in order if not hits)]


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


def _records(pool: Pool, jobs: Sequence[tuple[Seed, bool]], name: str, deadline: float) -> Iterator[Pair]:
    from fxmorph.inductor.own.pass_jobs import CheckSeed, LoadPass

    (loaded,) = pool.run([LoadPass()], LIMIT)
    if loaded.trouble or loaded.value:
        raise ConfigError(loaded.value or f"the pass does not load: {loaded.trouble} {loaded.detail}".strip())
    in_time = itertools.takewhile(lambda _: time.monotonic() <= deadline, jobs)
    for ended in pool.run((CheckSeed(seed, training) for seed, training in in_time), LIMIT):
        if ended.trouble:
            yield _troubled(ended, name)
        elif isinstance(ended.value, str):
            raise ConfigError(ended.value)
        else:
            yield from ended.value


def _troubled(ended: Ended, name: str) -> Pair:
    """A worker that crashed or hung while the pass ran accuses the pass."""
    seed, part = ended.job.seed, "training" if ended.job.training else "inference"
    reason = f"{ended.trouble} in {ended.phase}: {ended.detail}"
    kind = {Trouble.CRASH: Kind.CRASH, Trouble.TIMEOUT: Kind.TIMEOUT}.get(ended.trouble)
    if ended.phase == "pass" and kind is not None:
        return Pair(name, seed.label, part, "", 0, Status.FINDING, (kind,), reason)
    return Pair(name, seed.label, "", "", 0, Status.ERROR, reason=reason, fired=False)


# -- what is told ----------------------------------------------------------------


class Count:
    """How many graphs there were, and what came of those on which the pass fired."""

    def __init__(self) -> None:
        self.graphs = self.fired = self.errors = 0
        self.verdicts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()

    def add(self, pair: Pair) -> None:
        self.errors += pair.status is Status.ERROR
        self.graphs += bool(pair.part)
        if not pair.fired:
            return
        self.fired += 1
        self.verdicts[pair.status.value] += 1
        if pair.outcome:
            self.outcomes[pair.outcome] += 1
        if pair.outcome == "proved":
            self.levels[pair.level.value] += 1

    def code(self) -> int:
        if self.verdicts[Status.FINDING.value]:
            return Exit.FINDINGS
        if not self.fired:
            return Exit.INTERNAL if self.errors and not self.graphs else Exit.NOTHING_RAN
        return Exit.OK

    def finished(self, name: str, stage: Stage, seeds: int, wall: float, code: int) -> PassChecked:
        return PassChecked(
            name, stage.value, seeds, self.graphs, self.fired, dict(self.verdicts), dict(self.outcomes),
            dict(self.levels), wall, code,
        )  # fmt: skip


def told(pair: Pair, stage: Stage, repro: str) -> PairJudged:
    """The event of a record; ``repro`` is the path of its script."""
    return PairJudged(
        pair.unit, pair.source, stage.value, pair.part, pair.nodes, pair.fired, pair.status, pair.kinds, pair.reason,
        pair.outcome, pair.level, pair.method, pair.assumptions, pair.unproved, pair.changes,
        pair.plan if pair.status is Status.FINDING else "", pair.inputs, repro,
    )  # fmt: skip


def _written(pair: Pair, state: Path) -> str:
    """The path of the script that shows a finding, "" where there is none."""
    if not pair.repro:
        return ""
    folder = state / "check-pass"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{Path(pair.source).stem}-{pair.part.split()[0]}-{digest(pair.repro, 8)}.py"
    file.write_text(pair.repro)
    return str(file)
