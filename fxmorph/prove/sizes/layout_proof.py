"""Layout rules proved for all sizes at once.

Both sides of a rule run on tensors of unknown sizes (``symbolic_tensor.py``) and each cell of the
results is compared by a solver: linear integer arithmetic and uninterpreted functions for the
data, as layouts are parametric in what they move.  TensorRight (Arora et al., POPL 2025) proves
rewrites for all sizes in this way over access functions; writing indices in mixed radix keeps
views free of arithmetic, and Halide's experience with verified rewrite rules (Newcomb et al.,
OOPSLA 2020) is why no multiplication or division of unknowns is handed to the solver.

Nothing here refutes a rule: where the two sides are not shown to be equal, indices may merely
not line up.  Sizes may be 0; the sizes of the results are shown to be equal as well.  Strides,
aliasing and gradients are not part of the claim, and neither is a raise of ``before``: where it
raises there is nothing to rewrite, while an ``after`` that raises where ``before`` does not
leaves the rule unproved.  Views that eager refuses because of strides are taken to succeed.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import itertools
import re
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import z3

from fxmorph.prove.sizes.digits import Axis, Digits, in_ranges, regroup
from fxmorph.prove.sizes.extents import Case, Extent, Infeasible, NoFit, Poly, Refused, Unsupported, explore
from fxmorph.prove.sizes.symbolic_lookup import factories
from fxmorph.prove.sizes.symbolic_tensor import FUNCTIONS, Shape, Sym, Token, call
from fxmorph.rules import Rule

RANKS = (0, 1, 2, 3, 4)
RLIMIT = 2_000_000
CASES = 200
#: So many times the cases of one combination of ranks are spent on a rule.
MOST = 4
#: Orders of factors that are tried for arguments whose sizes are products.
ORDERS = 24


@dataclass(frozen=True)
class Example:
    """Sizes and numbers of one case of a proof: shapes by argument, scalars by name."""

    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, Any]


@dataclass(frozen=True)
class AllSizes:
    """What was shown.

    ``ranks``: ranks of the arguments, in their order, for which the rule is proved for all
    sizes; those that its conditions exclude are left out.  ``scalars``: the choices covered,
    and ``"int"`` for numbers of the graph, whichever they are.  ``smt``: every query that
    the solver answered with "unsat".  ``examples``: small sizes of the
    cases, at which the proof can be compared with eager.
    """

    rule: str
    proved: bool
    ranks: tuple[tuple[int, ...], ...]
    scalars: Mapping[str, tuple[Any, ...]]
    reason: str
    smt: tuple[str, ...]
    examples: tuple[Example, ...]
    cases: int
    seconds: float

    def covers(self, ranks: Sequence[int]) -> bool:
        """Whether a site with arguments of these ranks falls under the proof."""
        return tuple(ranks) in self.ranks


class _Excluded(Exception):
    """A condition of the rule does not hold."""


class _Ignored(Exception):
    """A condition speaks of what is not modelled; the claim is proved without it."""


class _NotShown(Exception):
    """The two sides are not shown to be equal."""


#: What is raised about a case, and not by a side of the rule.
_OWN = (Unsupported, Infeasible, _Excluded, _Ignored, _NotShown, z3.Z3Exception)


def prove_all_sizes(rule: Rule, ranks: Sequence[int] = RANKS, rlimit: int = RLIMIT, max_cases: int = CASES) -> AllSizes:
    """Try to prove a rule for all sizes; ``ranks`` are the numbers of dimensions that ``...`` stands for."""
    started = time.perf_counter()
    choices = {n: c if c is not None else ("int",) for n, c in rule.scalars.items()}
    spread = [ranks if "..." in text.split() else (0,) for text in rule.args.values()]
    shown: dict[tuple[int, ...], bool] = {}
    smt: dict[str, None] = {}
    examples: list[Example] = []
    reason, cases = _outside(rule), 0
    wanted = itertools.product(*spread) if not reason else ()
    for lead in sorted(wanted, key=lambda ranks: max(ranks, default=0)):
        for picked in itertools.product(*choices.values()) if not reason else ():
            scalars = {n: None if rule.scalars[n] is None else v for n, v in zip(choices, picked, strict=True)}
            proof = _Proof(rule, dict(zip(rule.args, lead, strict=True)), scalars, rlimit)
            try:
                explore(proof.run, max_cases)
                if cases + proof.cases > MOST * max_cases:
                    raise Unsupported("too many cases of ranks and sizes")
                fine = True
            except (Unsupported, _NotShown, z3.Z3Exception) as error:
                fine = False
                reason = reason or f"{error} (ranks {proof.ranks})"
            cases += proof.cases
            if proof.possible or not fine:
                shown[proof.ranks] = shown.get(proof.ranks, True) and fine
            if fine:
                smt.update(proof.smt)
                examples += proof.examples
    proved = tuple(r for r, fine in shown.items() if fine)
    if not reason and not proved:
        reason = "no sizes meet the conditions"
    return AllSizes(
        rule.id, not reason, proved, choices, reason, tuple(smt), tuple(examples), cases,
        time.perf_counter() - started,
    )  # fmt: skip


def _outside(rule: Rule) -> str:
    """Why a rule is none that this method can speak about."""
    for name, among in rule.scalars.items():
        typed = re.compile(rf"type\({name}\) is int|\b{name} == -?\d+")
        if among is None and not any(typed.search(text) for text in rule.where):
            return f"{name} may be any number"
    return _asks_for_identity(rule.before) or _asks_for_identity(rule.after)


def _asks_for_identity(function: Any) -> str:
    """Whether a body tells objects apart, or asks for a class: an unknown size is another object than an integer."""
    if not isinstance(function, types.FunctionType):
        return ""
    codes = [function.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        if "__class__" in code.co_names:
            return "asks for a class"
        last: list[Any] = [object(), object()]
        for step in dis.get_instructions(code):
            if step.opname == "IS_OP" and not any(value is None for value in last):
                return "tells objects apart by `is`"
            last = [last[1], step.argval if step.opname == "LOAD_CONST" else object()]
    return ""


class _Proof:
    """One rule at one choice of ranks and scalars, case by case."""

    def __init__(self, rule: Rule, lead: Mapping[str, int], scalars: Mapping[str, Any], rlimit: int) -> None:
        self.rule, self.scalars, self.rlimit = rule, scalars, rlimit
        self.words = {n: _words(n, text, lead[n]) for n, text in rule.args.items()}
        self.ranks = tuple(len(w) for w in self.words.values())
        self.smt: dict[str, None] = {}
        self.examples: list[Example] = []
        self.cases = 0
        self.possible = False  # whether there are such sizes at all

    def run(self, answers: tuple[bool, ...]) -> list[tuple[bool, ...]]:
        """Prove the case of some answers; the answers to questions that came up on the way."""
        for order in itertools.count():
            self.cases += 1
            case = Case(answers, self.rlimit)
            try:
                self._case(case, order)
            except NoFit:
                if order + 1 >= self.orders:
                    raise
                continue
            except (_Excluded, Infeasible):
                pass
            self.smt.update(case.queries)
            break
        return case.open

    def _case(self, case: Case, order: int) -> None:
        self.orders = 1
        shapes = {
            n: Shape(int(w) if w.isdigit() else case.number(case.atom(w)) for w in words)
            for n, words in self.words.items()
        }
        scalars = {
            n: Extent(case, case.atom(f"scalar.{n}", nonneg=False)) if self.rule.scalars[n] is None else v
            for n, v in self.scalars.items()
        }
        self._assume(case, shapes, scalars)
        tensors = self._tensors(case, shapes, order)
        case.assume_reads = True
        try:
            before = _run(self.rule.before, case, {**tensors, **scalars})
        except Refused:
            return  # there is no such site
        except _OWN:
            raise
        except Exception as error:
            raise Unsupported(f"before raises: {type(error).__name__}: {error}") from None
        case.assume_reads = False
        try:
            after = _run(self.rule.after, case, {**tensors, **scalars})
        except Refused as error:
            raise _NotShown(f"after raises where before does not: {error}") from None
        except _OWN:
            raise
        except Exception as error:
            raise _NotShown(f"after raises: {type(error).__name__}: {error}") from None
        self._compare(case, before, after)
        self._example(case, shapes, scalars)

    def _assume(self, case: Case, shapes: Mapping[str, Shape], scalars: Mapping[str, Any]) -> None:
        """The conditions of the rule, as far as they speak of sizes and numbers."""
        names: dict[str, Any] = {"__builtins__": _WHERE, "torch": torch, **scalars}
        names |= {n: _Argument(shape) for n, shape in shapes.items()}
        for arg, words in self.words.items():
            sizes = zip(words, shapes[arg], strict=True)
            names |= {w: n for w, n in sizes if w.isidentifier()}
        for text in self.rule.where:
            try:
                if not eval(text, names):
                    raise _Excluded
            except _Ignored:
                continue
            except (IndexError, ZeroDivisionError, ValueError):
                raise _Excluded from None
            except (TypeError, NameError, AttributeError, SyntaxError) as error:
                raise Unsupported(f"the condition {text!r}: {error}") from None

    def _tensors(self, case: Case, shapes: Mapping[str, Shape], order: int) -> dict[str, Sym]:
        shared = Token()
        out: dict[str, Sym] = {}
        for name, shape in shapes.items():
            dtype: Any = Token(name) if self.rule.mixed else shared
            for text in self.rule.where:
                if found := re.fullmatch(rf"{name}\.dtype == '(int64|bool)'", text):
                    dtype = {"int64": torch.int64, "bool": torch.bool}[found[1]]
                if (found := re.fullmatch(r"(\w+)\.dtype == (\w+)\.dtype", text)) and found[2] == name:
                    dtype = out[found[1]].dtype if found[1] in out else dtype
            axes = []
            for n in shape:
                orders = _orders(case.poly(n))
                axes.append(orders[order // self.orders % len(orders)])
                self.orders = min(self.orders * len(orders), ORDERS)
            sort = case.bool_val(True).sort() if dtype is torch.bool else case.int_val(0).sort()
            domain = [case.int_val(0).sort() for axis in axes for _ in axis]
            data = z3.Function(f"data.{name}", *domain, sort) if domain else z3.Const(f"data.{name}", sort)
            strides = tuple(case.atom(f"stride.{name}.{k}") for k in range(len(shape)))
            dense = f"{name}.contiguous" in self.rule.where
            memory = (strides, case.atom(f"offset.{name}"), dense)
            out[name] = Sym(case, tuple(axes), _data(data), dtype, memory)
        return out

    def _compare(self, case: Case, before: Any, after: Any) -> None:
        for side in (before, after):
            if not isinstance(side, Sym):
                raise Unsupported(f"a result of type {type(side).__name__}")
        if before.ndim != after.ndim:
            raise _NotShown("results of several ranks")
        if before.dtype is not after.dtype:
            raise _NotShown("results of several dtypes")
        for p, q in zip(before.sizes, after.sizes, strict=True):
            if not case.equal(p, q):
                raise _NotShown(f"sizes {case.norm(p)} and {case.norm(q)}")
        error: NoFit | None = None
        for axes in (before.axes, after.axes, tuple((n,) for n in before.sizes)):
            digits = [[case.int_var("i") for _ in axis] for axis in axes]
            mark = len(case.reads)
            try:
                left, right = (_cell_at(side, axes, digits) for side in self._sides(case, before, after))
            except NoFit as e:
                error = error or e
                del case.reads[mark:]
                continue
            break
        else:
            assert error is not None
            raise error
        case.solver.push()
        case.solver.add(*in_ranges(case, axes, digits), *case.reads, left != right)
        answer = case.solver.check()
        if answer == z3.unsat:
            case.queries[case.text()] = None
        case.solver.pop()
        if answer != z3.unsat:
            raise _NotShown("z3: unknown" if answer == z3.unknown else "the indices differ, as far as is known")

    @staticmethod
    def _sides(case: Case, before: Sym, after: Sym) -> Iterator[Sym]:
        """Each side in turn; what ``before`` reads is in range, or it would have raised."""
        case.assume_reads = True
        yield before
        case.assume_reads = False
        yield after

    def _example(self, case: Case, shapes: Mapping[str, Shape], scalars: Mapping[str, Any]) -> None:
        """Small sizes of this case, if the solver finds some."""
        terms = {n: [case.term(case.poly(k)) for k in shape] for n, shape in shapes.items()}
        numbers = {n: case.term(v.poly) for n, v in scalars.items() if isinstance(v, Extent)}
        every = [t for ts in terms.values() for t in ts]
        for least in (2, 1, 0):
            model = case.model(*(t >= least for t in every), *(t <= 12 for t in every))
            if model is not None:
                self.possible = True
                self.examples.append(Example(
                    {n: tuple(_value(model, t) for t in ts) for n, ts in terms.items()},
                    {n: _value(model, numbers[n]) if n in numbers else v for n, v in scalars.items()},
                ))  # fmt: skip
                return
        self.possible = self.possible or case.solver.check() == z3.sat


def _value(model: Any, term: Any) -> int:
    return int(model.eval(term, model_completion=True).as_long())


def _cell_at(x: Sym, axes: Sequence[Axis], digits: Digits) -> Any:
    """The cell at an index that is written in factors of its own."""
    return x.cell([regroup(x.case, own, have, ds) for own, have, ds in zip(x.axes, axes, digits, strict=True)])


def _data(data: Any) -> Callable[[Digits], Any]:
    """Cells of an argument: any function of the digits."""
    return lambda ix: data(*itertools.chain(*ix)) if isinstance(data, z3.FuncDeclRef) else data


def _words(name: str, text: str, lead: int) -> list[str]:
    """Names of an argument's sizes; each argument has its own for ``...``."""
    out: list[str] = []
    for word in text.split():
        out += [f"{name}.{k}" for k in range(lead)] if word == "..." else [word]
    return out


def _orders(size: Poly) -> list[tuple[Poly, ...]]:
    """Ways to write a size as factors: as it is, or as a product in each order."""
    if len(size.terms) != 1 or len(size.terms[0][0]) < 2:
        return [(size,)]
    ((names, number),) = size.terms
    factors = [Poly.atom(a) for a in names] + ([Poly.number(number)] if number != 1 else [])
    return list(dict.fromkeys(itertools.permutations(factors)))[:ORDERS]


class _Argument:
    """What conditions see of an argument."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.ndim = shape, len(shape)

    @property
    def numel(self) -> Any:
        return self.shape.numel()

    def __getattr__(self, name: str) -> Any:
        raise _Ignored(name)


def _type(value: Any) -> type:
    return int if isinstance(value, Extent) else type(value)


def _isinstance(value: Any, kinds: Any) -> bool:
    return isinstance(0 if isinstance(value, Extent) else value, kinds)


_WHERE = {
    name: getattr(builtins, name)
    for name in "abs all any len max min sum range round zip enumerate sorted int float bool str tuple list set".split()
} | {"type": _type, "isinstance": _isinstance}


class _Torch:
    """``torch`` as the code of a rule sees it: its functions on tensors of unknown sizes, its constants as they are."""

    def __init__(self, real: Any, made: Mapping[str, Callable[..., Any]]) -> None:
        self._real, self._made = real, made

    def __getattr__(self, name: str) -> Any:
        if name in self._made:
            return self._made[name]
        if name in FUNCTIONS:
            return lambda *args, **kwargs: call(FUNCTIONS[name], *args, **kwargs)
        value = getattr(self._real, name)
        if isinstance(value, types.ModuleType):
            return _Torch(value, self._made)
        if callable(value) and not isinstance(value, type):
            raise Unsupported(f"{self._real.__name__}.{name}")
        return value


def _run(function: Callable[..., Any], case: Case, values: Mapping[str, Any]) -> Any:
    """Call a side of a rule with ``torch`` replaced in it and in the helpers of its file."""
    made = factories(case)
    taken = inspect.signature(function).parameters
    given = {n: v for n, v in values.items() if n in taken}
    under = getattr(function, "under", None)
    if under is not None:  # read from data
        return under(_Torch(torch, made))(**given)
    old = function.__globals__
    new: dict[str, Any] = {"__builtins__": {**vars(builtins), **_WITHOUT_TYPES}}

    def rebuilt(f: types.FunctionType) -> types.FunctionType:
        out = types.FunctionType(f.__code__, new, f.__name__, f.__defaults__, f.__closure__)
        out.__kwdefaults__ = f.__kwdefaults__
        return out

    for name, value in old.items():
        if name == "__builtins__":
            continue
        if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] == "torch":
            new[name] = _Torch(value, made)
        elif isinstance(value, types.FunctionType) and value.__globals__ is old:
            new[name] = rebuilt(value)
        else:
            new[name] = value
    assert isinstance(function, types.FunctionType)
    return rebuilt(function)(**given)


def _refusing(name: str) -> Callable[..., Any]:
    """A builtin that says of an unknown size what it says of no integer: the real one is another object."""
    original = getattr(builtins, name)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        if any(isinstance(a, Extent | Shape | Sym) for a in args):
            raise Unsupported(f"{name} of a size or a tensor")
        return original(*args, **kwargs)

    return refuse


#: Builtins that tell an unknown size from an integer.
_WITHOUT_TYPES = {
    name: _refusing(name)
    for name in "type isinstance issubclass str repr format ascii hash id getattr hasattr vars dir print".split()
}


__all__ = ["AllSizes", "Example", "prove_all_sizes"]
