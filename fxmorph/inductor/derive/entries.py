"""Seeds made from pattern entries: for each entry a graph that it alone changes, or the reason why there is none.

Three ways are tried: a program written for the entry (:mod:`fxmorph.inductor.derive.handwritten`), the search
function of a registered replacement (:mod:`fxmorph.inductor.derive.search_function`), the pattern expression itself
(:mod:`fxmorph.inductor.derive.sketch`).  Some entries crash PyTorch on some graphs, so the work is done in
forked processes: a crash costs the entry that caused it and no other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import said
from fxmorph.inductor.derive.derived_graph import Derived, from_json
from fxmorph.inductor.derive.firing_settings import settings_of
from fxmorph.inductor.derive.handwritten import programs
from fxmorph.inductor.derive.near_misses import neighbours, permuted
from fxmorph.inductor.derive.search_function import SQUARE, VARIATIONS, searched
from fxmorph.inductor.derive.sketch import Misfit, Sketch, sketch
from fxmorph.model import CompileConfig
from fxmorph.programs.forked import Crashed, Said, forked
from fxmorph.torchapi.compiling import configured, quiet
from fxmorph.torchapi.pattern_expressions import UnknownExpression, expression_of
from fxmorph.torchapi.patterns import Entry, apply_entries, entries

#: Entries whose check or handler asks for a GPU: nothing fires them on a CPU.
_GPU_ONLY = frozenset(
    "fix_iota_device bmm_to_mm bmm_pattern_training bmm_pattern_inference mm_pattern_training mm_pattern_inference "
    "addmm_pattern_training addmm_pattern_inference unfuse_bias_add_to_pointwise b2b_gemm_handler "
    "prepare_softmax_pattern".split()
)
#: Attempts at a graph from one expression, and seconds for one entry.
ATTEMPTS, SECONDS = 40, 20


@dataclass(frozen=True)
class Derivation:
    """What came of one entry.

    ``graphs``: the first fires and is unchanged; near misses and other values follow.  Empty where
    nothing fired; then ``reason`` says why.  ``raising`` is the first graph on which the entry's own
    check or handler raised: a compile may raise there too.
    """

    entry: str
    kind: str
    graphs: tuple[Derived, ...]
    reason: str = ""
    raising: Derived | None = None

    @property
    def fired(self) -> bool:
        return bool(self.graphs)

    def to_json(self) -> str:
        graphs = [json.loads(g.to_json()) for g in self.graphs]
        raising = json.loads(self.raising.to_json()) if self.raising else None
        data = {"entry": self.entry, "kind": self.kind, "graphs": graphs, "reason": self.reason, "raising": raising}
        return json.dumps(data)


def _from_json(line: str) -> Derivation:
    data = json.loads(line)
    graphs = tuple(from_json(json.dumps(g)) for g in data["graphs"])
    raising = from_json(json.dumps(data["raising"])) if data["raising"] else None
    return Derivation(data["entry"], data["kind"], graphs, data["reason"], raising)


@dataclass(frozen=True)
class Firing:
    """What an entry did to a graph: matches, whether the graph changed, and the graph after (not recompiled)."""

    matches: int
    changed: bool
    after: fx.GraphModule


def fire(derived: Derived, entry: Entry) -> Firing:
    """Apply the entry alone to the derived graph, under the settings it needs.

    Raises what the graph, the check or the handler raises.
    """
    with configured(CompileConfig(inductor=derived.settings)):
        gm = derived.graph_module()
        before = str(gm.graph)
        matches = apply_entries(gm.graph, [entry])
        changed = str(gm.graph) != before
    return Firing(matches, changed, gm)


def candidates(entry: Entry, seed: int, attempts: int) -> Iterator[Derived | str]:
    """Graphs to try, in order; a string says why one could not be made."""
    settings = settings_of(entry.full_name)

    def made(sketched: Sketch, how: str) -> Derived:
        return Derived(entry.full_name, sketched.text, sketched.inputs, how, settings)

    for program in programs(entry.full_name):
        yield made(program, "program")
    frozen = entry.pass_name.startswith("freezing")
    if entry.source is not None:
        for variation in VARIATIONS:
            try:
                yield made(searched(entry.source, frozen, variation), "search function")
            except Misfit as misfit:
                yield str(misfit)
        return
    try:
        expression = expression_of(entry.entry.pattern)
    except UnknownExpression as error:
        yield f"unknown pattern expression {error}"
        return
    for attempt in range(attempts):
        try:
            yield made(sketch(expression, seed, attempt, frozen), "expression")
        except Misfit as misfit:
            yield str(misfit)


def derive_entry(entry: Entry, seed: int = 0, attempts: int = ATTEMPTS) -> Derivation:
    """A graph that the entry alone changes, in this process (which a crash of PyTorch ends)."""
    problems: Counter[str] = Counter()
    raising: Derived | None = None
    for candidate in candidates(entry, seed, attempts):
        if isinstance(candidate, str):
            problems[candidate] += 1
            continue
        try:
            firing = fire(candidate, entry)
        except Exception as error:  # checks and handlers are PyTorch's own and may raise anything
            problems[said(error)] += 1
            raising = raising or candidate
            continue
        if firing.matches and firing.changed:
            return Derivation(entry.full_name, entry.kind, (candidate,), raising=raising)
        problems["matched, but the graph stays" if firing.matches else "no match, or refused by its check"] += 1
    reason = problems.most_common(1)[0][0] if problems else "nothing to try"
    if entry.name in _GPU_ONLY:
        reason = f"asks for a GPU: {reason}"
    return Derivation(entry.full_name, entry.kind, (), reason, raising)


def _run(derived: Derived) -> None:
    with torch.no_grad():
        fx.Interpreter(derived.graph_module()).run(*derived.values())


def _why_not_run(derived: Derived) -> str:
    """What eager PyTorch raises on the graph, empty where it runs."""
    try:
        _run(derived)
    except Exception as error:
        return said(error)
    return ""


def _work(entry: Entry, seed: int, attempts: int, near: bool) -> Iterator[str]:
    """Lines that a forked process says of one entry, each replacing the one before."""
    quiet()
    torch.set_num_threads(1)
    found = derive_entry(entry, seed, attempts)
    yield found.to_json()
    if not found.fired:
        return
    first = found.graphs[0]
    if entry.kind != "lowering":
        why = _why_not_run(first)
        first = replace(first, runs=not why)
        found = replace(found, graphs=(first,), reason=f"eager: {why}" if why else "")
        yield found.to_json()
    if near:
        per_kind = _near_misses(entry)

        def fires(neighbour: Derived) -> bool:
            if entry.kind != "lowering":
                _run(neighbour)  # fake tensors accept dtypes that eager refuses
            return fire(neighbour, entry).changed

        square = _square(entry, first) if per_kind else None
        around = permuted(square, fires, seed, per_kind) if square is not None else []
        around += neighbours(first, fires, seed, per_kind)
        yield replace(found, graphs=(first, *around)).to_json()


def _square(entry: Entry, first: Derived) -> Derived | None:
    """The graph ``first`` with one size throughout; None where the pattern is no function or needs other sizes."""
    if entry.source is None:
        return None
    try:
        sketched = searched(entry.source, entry.pass_name.startswith("freezing"), SQUARE)
        made = replace(first, text=sketched.text, inputs=sketched.inputs, runs=None)
        return made if fire(made, entry).changed else None
    except Exception:  # tracing and checks are PyTorch's and may raise anything
        return None


def _near_misses(entry: Entry) -> int:
    """Near misses of each kind: fewer where an entry is one of many variants of a pattern, or slow to trace."""
    if entry.source is not None:
        return 0 if entry.source.training else 2
    return 6 if entry.kind == "graph" else 1


def derive_all(
    chosen: Iterable[Entry] | None = None, seed: int = 0, attempts: int = ATTEMPTS, near: bool = True
) -> Iterator[Derivation]:
    """One derivation an entry (default: of all), in order; equal seeds give equal graphs.

    ``near``: with near misses and adversarial values.
    """
    todo = list(entries() if chosen is None else chosen)
    warm = [e for e in todo if e.source is not None and e.source.training][:1]
    for entry in warm:  # the first trace imports much that forked processes then share
        derive_entry(entry, seed, 1)
    for entry, outcome in forked(todo, lambda e: _work(e, seed, attempts, near), SECONDS):
        yield _read(entry, outcome)


def _read(entry: Entry, outcome: Said | Crashed) -> Derivation:
    if isinstance(outcome, Said):
        return _from_json(outcome.line)
    if not outcome.line:
        return Derivation(entry.full_name, entry.kind, (), outcome.reason)
    found = _from_json(outcome.line)
    if not found.fired:
        return replace(found, reason=outcome.reason)
    ran = found.graphs[0].runs
    graphs = (replace(found.graphs[0], runs=False if ran is None and entry.kind != "lowering" else ran),)
    return replace(found, graphs=graphs, reason=f"eager: {outcome.reason}")


def save(path: Path, derivations: Sequence[Derivation], seed: int) -> None:
    """Write them as JSON lines, the first of which says for which torch they hold."""
    head = json.dumps({"torch": torch.__version__, "seed": seed, "entries": len(derivations)})
    path.write_text("\n".join([head, *(d.to_json() for d in derivations)]) + "\n")


def load(path: Path, seed: int) -> list[Derivation] | None:
    """What :func:`save` wrote; None where there is none for this torch and seed."""
    if not path.is_file():
        return None
    head, *lines = path.read_text().splitlines()
    known: dict[str, Any] = json.loads(head)
    if (known["torch"], known["seed"]) != (torch.__version__, seed) or known["entries"] != len(lines):
        return None
    return [_from_json(line) for line in lines]
