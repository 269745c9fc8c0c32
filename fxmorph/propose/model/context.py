"""What a language model is told: the target as the installed torch has it, what fired, what exists.

Each part is text, cut to a number of characters, so that a prompt has a known size.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.core.seeds import find_seeds, shipped_corpus
from fxmorph.core.units import UnitKind, matches
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.derive.entries import candidates
from fxmorph.inductor.description import functions_of, matches_of
from fxmorph.inductor.inventory import Listed, inventory, listed, unwrapped
from fxmorph.inductor.rung import chosen_units
from fxmorph.model import BugClass, CompileConfig, Seed
from fxmorph.programs.capture import CaptureFailed, capture_torch
from fxmorph.programs.graph import Unprintable
from fxmorph.programs.load import SeedFailed, load_seed
from fxmorph.propose.language.allowed import FUNCTIONS, METHODS
from fxmorph.rules import TARGETS, Registry, Rule
from fxmorph.torchapi.patterns import Entry

#: Characters of each part of a prompt.
SOURCE, GRAPH, RULES, SEEDS, REFUTED, BUG = 7_000, 3_000, 14_000, 5_000, 5_000, 12_000

#: What is called in a program, and operators that a pattern or a pass names.
_CALLED = re.compile(r"(?:\baten\.|\.(?=\w+\())([a-z]\w+)")

#: Attempts at a graph that a pattern matches.
_ATTEMPTS = 5

#: Each bug class in words, and calls of programs that are prone to it.
_CLASSES = {
    BugClass.UGO: (
        TARGETS["ugo"],
        ".clone( .cat( .split( .where( .full(",
    ),
    BugClass.ILP: (TARGETS["ilp"], ".permute( .as_strided( .expand( .contiguous( .unfold("),
    BugClass.IOT: (TARGETS["iot"], ".to( .float( .half( .type_as( .cumsum("),
    BugClass.BAM: (
        TARGETS["bam"],
        ".copy_( .add_( .mul_( .index_put_( .clone(",
    ),
    BugClass.IOD: (
        TARGETS["iod"],
        ".layer_norm( .interpolate( .pad( .nll_loss( .index_add(",
    ),
    BugClass.KC: (
        TARGETS["kc"],
        ".sum( .amax( .argmax( .roll( .gather(",
    ),
}


@dataclass(frozen=True)
class Context:
    """What prompts draw on.

    ``coverage`` is the table of units of the last run of the pass rung, empty if there was
    none; ``refuted`` what earlier sessions had refuted, as (target, JSON text, why).
    """

    rules: Registry
    coverage: Mapping[str, Any] = field(default_factory=dict)
    refuted: Sequence[tuple[str, str, str]] = ()

    def values(self, target: str) -> dict[str, str]:
        """Every place of the prompts of a unit or a bug class, but for ``count`` and ``bug``."""
        item = None if target in list(BugClass) else listed(target)
        text = class_text(BugClass(target)) if item is None else unit_text(item)
        return {
            "target": text,
            "coverage": self.coverage_text(target),
            "graphs": graphs_text(item, text) if item is not None else graph_near(_CLASSES[BugClass(target)][1]),
            "rules": rules_text(self.rules, text),
            "seeds": seeds_text(),
            "refutations": self.refutations_text(target),
        }

    def coverage_text(self, target: str) -> str:
        """Whether the unit fired; of a bug class, how much of all did."""
        units = self.coverage.get("units", {})
        if not units:
            return ""
        if target in units:
            row = units[target]
            if row["fired"]:
                return f"So far it fired on {row['fired']} graphs; look for programs that differ from the usual ones."
            return f"So far it has never fired: {row.get('why', '')}."
        idle = [name for name, row in units.items() if not row["fired"]]
        said = f"Of {len(units)} passes and pattern entries {len(idle)} have not fired so far"
        return said + (f", among them {', '.join(idle[:20])}." if idle else ".")

    def refutations_text(self, target: str) -> str:
        """Earlier tries at the same target that were refuted."""
        text = refuted_text([(said, why) for aimed, said, why in reversed(self.refuted) if aimed == target])
        return f"Proposals for this target that were refuted before (do not repeat them):\n{text}" if text else ""


def targets(patterns: Sequence[str], coverage: Mapping[str, Any]) -> list[str]:
    """Units by name, glob, stage or kind, and bug classes; what has not fired comes first.

    Without patterns: the bug classes, then passes and entries of the default compile on the CPU.
    Raises ``UnknownUnit`` for a pattern that names nothing.
    """
    classes = [p for p in patterns if p in list(BugClass)]
    globs = [p for p in patterns if p not in classes]
    units = list(chosen_units(globs)) if globs else []
    if not patterns:
        classes = list(BugClass)
        kinds = (UnitKind.PASS, UnitKind.ENTRY)
        units = [u for u in inventory() if u.kind in kinds and u.default and u.device != "cuda"]
    fired = {name for name, row in coverage.get("units", {}).items() if row["fired"]}
    return [*map(str, classes), *(u.name for u in sorted(units, key=lambda u: u.name in fired))]


def aimable(aims: str) -> bool:
    """Whether it is a bug class, or a unit of this torch or a glob over them."""
    return aims in list(BugClass) or any(matches(unit.name, aims) for unit in inventory())


def class_text(bug_class: BugClass) -> str:
    """A bug class in words."""
    return f"no single unit: the bug class {bug_class} ({_CLASSES[bug_class][0]})"


def unit_text(item: Listed) -> str:
    """Name, pattern and the source of every function of a unit, as the installed torch has them."""
    unit = item.unit
    switched = f"; it needs {unit.flag}" if unit.flag else ""
    lines = [f"{unit.name} ({unit.kind} of stage {unit.stage}, {unit.module}{switched})", *matches_of(item.handle)]
    text = "\n".join(lines)
    sources = [(what, source_text(function)) for what, function in functions_of(item.handle) if what != "called by"]
    sources = [(what, source) for what, source in sources if source]
    for what, source in sources:
        text += f"\n{what}:\n{_cut(source, SOURCE // len(sources))}"
    return _cut(text, SOURCE + GRAPH)


def source_text(function: Any) -> str:
    """The source of a function; "" where there is none to read, or nothing in it."""
    plain = unwrapped(function)
    if getattr(plain, "__name__", "") == "_return_true":  # the matcher's check where there is none
        return ""
    try:
        return textwrap.dedent(inspect.getsource(plain)).rstrip()
    except (TypeError, OSError):
        return ""


def graphs_text(item: Listed, text: str) -> str:
    """Graphs as FX text: one that the pattern itself gives, and that of a seed which comes near."""
    parts = []
    if isinstance(item.handle, Entry):
        found = next((c for c in candidates(item.handle, 0, _ATTEMPTS) if isinstance(c, Derived)), None)
        if found is not None:
            parts.append(f"A graph made from the pattern itself:\n{_cut(found.text, GRAPH)}")
    return "\n".join([*parts, graph_near(text)]).strip()


def graph_near(text: str) -> str:
    """The graph of the shipped seed that calls most of what is called in the text, rare calls first; "" for none."""
    called = frozenset(_CALLED.findall(text))
    common = Counter(name for seed in _seeds() for name in _calls(seed))
    best = max(_seeds(), key=lambda s: sum(1 / common[name] for name in _calls(s) & called), default=None)
    graph = seed_graph(best) if best is not None and _calls(best) & called else ""
    if best is None or not graph:
        return ""
    return f"The graph of a seed program, {Path(best.path).stem}, as Dynamo sees it:\n{_cut(graph, GRAPH)}"


@functools.cache
def _seeds() -> tuple[Seed, ...]:
    return tuple(find_seeds([shipped_corpus()])[0])


@functools.cache
def _calls(seed: Seed) -> frozenset[str]:
    """Names that a seed calls."""
    return frozenset(_CALLED.findall(Path(seed.path).read_text(encoding="utf-8")))


@functools.cache
def seed_graph(seed: Seed) -> str:
    """The first graph of a seed as text; "" where it gives none that can be printed."""
    try:
        loaded = load_seed(seed)
        return capture_torch(loaded.fresh(), loaded.config(CompileConfig.make()), loaded.no_grad)[0].text
    except (SeedFailed, CaptureFailed, Unprintable):
        return ""


def seeds_text() -> str:
    """Names of the seed programs, with the first line of what each says of itself."""
    return _cut("\n".join(f"{Path(s.path).stem}: {_first_line(s)}" for s in _seeds()), SEEDS)


def _first_line(seed: Seed) -> str:
    match = re.match(r'\s*"""(.*)', Path(seed.path).read_text(encoding="utf-8"))
    return match[1].strip('" ') if match else ""


def rules_text(rules: Registry, text: str) -> str:
    """Rules, those that bear names which the text calls with the first line of their docs, the rest by family."""
    called = {name.rstrip("_") for name in _CALLED.findall(text)}
    near = [r for r in rules if called & set(r.id.split("_"))]
    rows = _cut("\n".join(f"{r.id}{_parameters(r)}: {r.doc.splitlines()[0]}" for r in near), RULES // 2)
    families: dict[str, list[str]] = {}
    for rule in rules:
        if rule not in near:
            families.setdefault(rule.family, []).append(rule.id.removeprefix(f"{rule.family}_") + _parameters(rule))
    rest = "\n".join(f"{family}_: {', '.join(names)}" for family, names in families.items())
    return _cut(f"{rows}\nFurther ones, each family_ with the rest of the ids:\n{rest}".strip(), RULES)


def _parameters(rule: Rule) -> str:
    chosen = {name: values for name, values in rule.scalars.items() if values}
    return f"{{{', '.join(f'{n}={v[0]}' for n, v in chosen.items())}}}" if chosen else ""


def language_values() -> dict[str, str]:
    """The names that bodies may call, for the prompt about the restricted language."""
    common = FUNCTIONS["torch"]
    return {
        "functions": " ".join(sorted(common)),
        "functional": " ".join(sorted(FUNCTIONS["torch.nn.functional"])),
        "methods": " ".join(sorted(METHODS - common)),
    }


def bug_text(path: Path) -> str:
    """A report to distil: a file, or all text files of a folder; raises :class:`ConfigError` where there is no text."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    parts = []
    for file in files:
        try:
            parts.append(f"{file.name}:\n{file.read_text(encoding='utf-8').strip()}")
        except UnicodeDecodeError:
            continue
        except OSError as error:
            raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    if not parts:
        raise ConfigError(f"{path}: no text in it")
    return _cut("\n\n".join(parts), BUG)


def refuted_text(rows: Sequence[tuple[str, str]]) -> str:
    """Refuted proposals as JSON text, each with its counterexample."""
    return _cut("\n\n".join(f"{text}\nrefuted: {why}" for text, why in rows), REFUTED)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 30].rstrip()}\n… ({len(text)} characters)"
