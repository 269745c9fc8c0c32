"""The rule form and the registry of rules.

A rule is two plain functions over torch operations, ``before`` and ``after``, that must
mean the same under the stated condition.  It reads like a pattern and its replacement in
Inductor's own pattern matcher::

    @rule(args={"a": "m k", "b": "k n"}, where=["k % 2 == 0"], dtypes=("float32", "bfloat16"),
          claim=Level.EXACT_REAL, preserves=("dtype", "gradient"), targets=("kc",))
    class matmul_split_k:
        '''Splits the inner dimension in two.

        Why equivalent: A sum over k in two parts.
        Provokes: Fusion of the second product into addmm.
        '''
        def before(a, b): return a @ b
        def after(a, b): h = a.shape[1] // 2; return a[:, :h] @ b[:h] + a[:, h:] @ b[h:]

Rules that differ in a statement or two are rows of a table: :func:`written` makes them of text.

Matching and application are in ``fxmorph/rewriting/``.  This module does not import torch.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import linecache
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from fxmorph.core.loose_files import import_file, loose_files
from fxmorph.model import FLOATS, Level

#: What a rule may promise to leave as it was.  The returned value is always promised.
PRESERVABLE = ("dtype", "stride", "alias", "mutation", "gradient", "raises")

#: The entry-point group of plug-ins.
PLUG_INS = "fxmorph.transforms"

SITES = ("op", "value", "late")

#: What the paragraphs of a rule's doc begin with, in this order; the first line says what the rule does.
HEADINGS = ("Why equivalent", "Provokes", "Limits")

#: The family of rules that come from proposals (``fxmorph/propose``): no file defines one of it.
PROPOSED = "proposed"

#: What words of ``targets`` mean: the bug classes, and names of parts of Inductor that say too little alone.
#: Any other word is a unit of Inductor, or an operator whose lowering or decomposition is meant.
TARGETS = {
    "ugo": "unsound graph optimisation: a pass, an entry of the pattern matcher, constant folding, removal of no-ops",
    "ilp": "layout, view and stride propagation",
    "iot": "dtype promotion",
    "bam": "aliasing and mutation: views that are written to, copies that are dropped, reinplacing",
    "iod": "decompositions: dtype, stride, special values, arguments that they ignore",
    "kc": "fusion and code generation: order of reads and writes, index arithmetic, reductions, vectorisation",
    "addmm": "the addmm patterns of the post-grad pass",
    "as_strided": "the layout that it demands of its operand",
    "cat": "cat kernels, where each part has its own index range",
    "cumsum": "scans, which are code of their own next to reductions",
    "decompose_mem_bound_mm": "with it, reductions of products",
    "embedding": "its lowering and its dense backward",
    "emulate_precision_casts": "roundings that a fused kernel leaves out",
    "foreach": "the grouping of foreach kernels and their in-place forms",
    "fuse_attention": "the attention patterns of the joint graph and their near misses",
    "gather": "indirect loads, and scatter_add in the backward",
    "index": "indirect loads, and index_put in the backward",
    "layout_opt": "layout optimisation of convolutions",
    "pointless_convert": "folding of chains of casts",
    "pointless_cumsum_replacement": "with it, dtypes of scans",
    "pow": "the special cases of its lowering",
    "remove_noop_ops": "removal of no-ops, which shows where a write follows",
    "sink_cat_after_pointwise": "a pass of the pre-grad graph",
    "softmax": "the softmax patterns of the joint graph, and online softmax",
    "split_cat": "the passes that pair split, unbind, cat and stack",
    "view_dtype": "bitcasts inside a kernel",
    "view_to_reshape": "with it, views of permuted values",
    "welford": "Welford reductions against two-pass sums",
    "where": "masks and selects inside one kernel",
}

#: What a rule may assume of its floating-point arguments' values.
ASSUMPTIONS = ("finite", "no_nan", "nonneg", "nonzero")


class RuleError(ValueError):
    """A rule is not well formed; the message names the rule and its file."""


@dataclass(frozen=True)
class Rule:
    """One equivalence.

    ``args``: name to symbolic shape (``"m k"``; ``"..."`` any dims; ``"... n"`` trailing dims
    fixed).  ``where``: Python expressions over sizes, scalars and argument specs
    (``x.ndim``, ``x.shape``, ``x.contiguous``); ``torch`` may be used in them.
    ``scalars``: name to a tuple of values that the rule may choose from, or to ``None`` for a
    number that ``before`` takes from the graph.  ``dtypes``: of the floating or other
    tensors the rule is for, all ``args`` alike unless ``mixed``.

    ``site`` ``"op"``: ``before`` is a pattern of at least one operation; ``"value"``:
    ``before`` returns its argument, the rule replaces any value of the graph; ``"late"``: the
    same, but ``after`` runs at a later point, for its effects on memory.

    ``fires``: units of Inductor that ``after`` makes fire and ``before`` does not, where that is known.
    """

    id: str
    before: Callable[..., Any]
    after: Callable[..., Any]
    args: Mapping[str, str]
    doc: str
    where: tuple[str, ...] = ()
    scalars: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    dtypes: tuple[str, ...] = FLOATS
    claim: Level = Level.EXACT_REAL
    assumes: tuple[str, ...] = ()
    preserves: frozenset[str] = frozenset()
    targets: tuple[str, ...] = ()
    site: str = "op"
    mixed: bool = False
    source: str = ""
    fires: frozenset[str] = frozenset()

    @property
    def family(self) -> str:
        """The part of the id before the first underscore, as in the file name."""
        return self.id.split("_", 1)[0]

    @property
    def does(self) -> str:
        """What the rule does: the first paragraph of its doc."""
        return " ".join(self.doc.partition("\n\n")[0].split())

    @property
    def said(self) -> dict[str, str]:
        """The text under each heading that the doc has, in its order; a rule need not have any."""
        parts = re.split(rf"^({'|'.join(HEADINGS)}): ", self.doc, flags=re.MULTILINE)
        return {head: " ".join(text.split()) for head, text in zip(parts[1::2], parts[2::2], strict=True)}


class Registry:
    """Rules by id, in the order of their ids.  A duplicate id is an error naming both files."""

    def __init__(self) -> None:
        self._rules: dict[str, Rule] = {}

    def add(self, new: Rule) -> None:
        old = self._rules.get(new.id)
        if old is not None and old.source != new.source:
            raise _twice(old, new)
        self._rules[new.id] = new

    def __getitem__(self, id: str) -> Rule:
        try:
            return self._rules[id]
        except KeyError:
            raise _unknown(id, self._rules) from None

    def __iter__(self) -> Iterator[Rule]:
        return iter(sorted(self._rules.values(), key=lambda r: r.id))

    def __len__(self) -> int:
        return len(self._rules)


def _twice(old: Rule, new: Rule) -> RuleError:
    where = f" in {new.source}" if old.source == new.source else f": {old.source} and {new.source}"
    return RuleError(f"rule {new.id!r} is defined twice{where}")


def _unknown(id: str, known: Iterable[str]) -> RuleError:
    near = difflib.get_close_matches(id, list(known))
    return RuleError(f"no rule {id!r}" + (f"; did you mean {' or '.join(map(repr, near))}?" if near else ""))


def refuse_unknown(ids: Iterable[str]) -> None:
    """Raise :class:`RuleError` for an id that the shipped rules do not have, as read from their text alone.

    Says nothing where a plug-in is installed, whose rules are known only once it is imported.
    """
    import fxmorph.transforms as shipped

    if metadata.entry_points(group=PLUG_INS):
        return
    files = (file for folder in shipped.__path__ for file in Path(folder).glob("*.py"))
    # A class, or a row of a table: a call whose first argument is the id.
    stated = re.compile(r'^(?:class |\w+\(\s*")(\w+)', re.MULTILINE)
    known = {name for file in files for name in stated.findall(file.read_text(encoding="utf-8"))}
    for id in ids:
        if id not in known:
            raise _unknown(id, known)


_collecting: list[list[Rule]] = []


def _class(id: str, body: str, names: dict[str, Any]) -> type:
    """The class of this body; raises :class:`RuleError` where that is not Python."""
    # Python compiles calls of an imported module's functions its own way, and the keys of certificates are made
    # of what is compiled: as in the file itself.
    imported = [n for n, value in names.items() if isinstance(value, ModuleType) and value.__name__ == n]
    imports = "".join(f"import {name}\n" for name in imported if name in body)
    text = f"{imports}class {id}:\n{body}"
    file = f"<rule {id} {zlib.crc32(text.encode()):08x}>"
    # Here inspect and tracebacks find the text of what is in no file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    made: dict[str, Any] = {}
    try:
        exec(compile(text, file, "exec"), names, made)
    except SyntaxError as error:
        where = names.get("__file__", names["__name__"])
        raise RuleError(f"rule {id!r} ({where}): {error.msg}: {(error.text or '').strip()}") from None
    found: type = made[id]
    return found


@functools.cache
def _identity(argument: str) -> Callable[..., Any]:
    made = _class("any_value", f"    def before({argument}): return {argument}\n", {"__name__": __name__})
    before: Callable[..., Any] = vars(made)["before"]
    return before


def rule(
    *,
    args: Mapping[str, str],
    where: Sequence[str] = (),
    scalars: Mapping[str, tuple[Any, ...] | None] | None = None,
    dtypes: Sequence[str] = FLOATS,
    claim: Level = Level.EXACT_REAL,
    assumes: Sequence[str] = (),
    preserves: Sequence[str] = (),
    targets: Sequence[str] = (),
    site: str = "op",
    mixed: bool = False,
) -> Callable[[type], Rule]:
    """Class decorator that makes a :class:`Rule` of a class with ``before`` and ``after``.

    Without ``before`` a ``value`` or ``late`` rule takes any value: ``before`` is then the identity.
    Raises :class:`RuleError` when a part is missing or a word is unknown.
    """

    def make(cls: type) -> Rule:
        source = inspect.getsourcefile(cls) or cls.__module__
        name = f"rule {cls.__name__!r} ({source})"
        body = dict(vars(cls))
        if site in SITES and site != "op" and args:
            body.setdefault("before", _identity(next(iter(args))))
        for part in ("before", "after"):
            if not callable(body.get(part)):
                raise RuleError(f"{name}: no function {part!r}")
        known = set(args) | set(scalars or {})
        for part in ("before", "after"):
            unknown = [p for p in inspect.signature(body[part]).parameters if p not in known]
            if unknown:
                raise RuleError(f"{name}: {part} takes {unknown[0]!r}, which is in neither args nor scalars")
        unknown = [p for p in preserves if p not in PRESERVABLE]
        if unknown:
            raise RuleError(f"{name}: preserves {unknown[0]!r}, not one of {', '.join(PRESERVABLE)}")
        unknown = [a for a in assumes if a not in ASSUMPTIONS]
        if unknown:
            raise RuleError(f"{name}: assumes {unknown[0]!r}, not one of {', '.join(ASSUMPTIONS)}")
        if site not in SITES:
            raise RuleError(f"{name}: site {site!r}, not one of {', '.join(SITES)}")
        if site != "op" and list(inspect.signature(body["before"]).parameters) != list(args)[:1]:
            raise RuleError(f"{name}: before of a {site!r} rule takes its one argument and returns it")
        if not (cls.__doc__ or "").strip():
            raise RuleError(f"{name}: no docstring")
        made = Rule(
            id=cls.__name__,
            before=body["before"],
            after=body["after"],
            args=dict(args),
            doc=inspect.cleandoc(cls.__doc__ or ""),
            where=tuple(where),
            scalars=dict(scalars or {}),
            dtypes=tuple(dtypes),
            claim=claim,
            assumes=tuple(assumes),
            preserves=frozenset(preserves),
            targets=tuple(targets),
            site=site,
            mixed=mixed,
            source=source,
        )
        if _collecting:
            _collecting[-1].append(made)
        return made

    return make


def written(id: str, doc: str, names: dict[str, Any], *, after: str, **said: Any) -> Rule:
    """A rule whose ``after`` is given as text, for rules that share a form: a row of a table becomes one by a call.

    ``after`` is signature and statements, as ``"x: x.add_(1); return x"``; ``names`` are the globals of the module,
    where the rule is bound to its id as that of a class statement is; ``said`` goes to :func:`rule`.  The source of
    ``after`` can be read as that of a function in a file.  Raises :class:`RuleError` as :func:`rule` does.
    """
    parameters, _, statements = after.partition(": ")
    lines = [f"    def after({parameters}):\n", *(f"        {statement}\n" for statement in statements.split("; "))]
    made = _class(id, "".join(lines), names)
    made.__doc__ = doc
    names[id] = new = rule(**said)(made)
    return new


def doc_text(does: str, why: str, provokes: str = "", limits: str = "") -> str:
    """A rule's doc: what it does, and what is to be said under each heading."""
    said = zip(HEADINGS, (why, provokes, limits), strict=True)
    return f"{does}\n\n" + "\n".join(f"{head}: {text}" for head, text in said if text)


def load_rules(extra_dirs: Sequence[Path] = ()) -> Registry:
    """All rules: the shipped ones, those of installed plug-ins, loose files.

    Plug-ins register a module under the entry-point group ``fxmorph.transforms``.  Raises
    :class:`RuleError` on a duplicate id or a file that does not import.
    """
    import fxmorph.transforms as shipped

    registry = Registry()
    folders = [Path(p) for p in shipped.__path__] + list(extra_dirs)
    for folder in folders:
        if not folder.is_dir():
            raise RuleError(f"no folder of rules at {folder}")
        for file in loose_files(folder):
            _load_into(registry, str(file), functools.partial(import_file, file))
    for point in metadata.entry_points(group=PLUG_INS):
        _load_into(registry, f"plug-in {point.name} ({point.value})", point.load)
    return registry


def _load_into(registry: Registry, what: str, load: Callable[[], object]) -> None:
    found: list[Rule] = []
    _collecting.append(found)
    try:
        loaded = load()
        if isinstance(loaded, ModuleType):
            found += [value for value in vars(loaded).values() if isinstance(value, Rule)]
        own: dict[str, Rule] = {}
        for made in found:
            # The decorator gives a rule, and so does the name that it is bound to.
            if own.setdefault(made.id, made) is not made:
                raise _twice(own[made.id], made)
            registry.add(made)
    except RuleError:
        raise
    except Exception as error:
        raise RuleError(f"rules in {what} do not load: {type(error).__name__}: {error}") from error
    finally:
        _collecting.pop()
