"""A second opinion on a query from another solver: cvc5 or bitwuzla, through their Python packages.

Proof objects for floating point are not to be had (cvc5's rest on trusted steps), so agreement of
independent solvers is the evidence.  A disagreement is a bug in one of them or in the text of the query:
it is a :class:`Disagreement`, to be kept, and the level is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

NAMES = ("cvc5", "bitwuzla")
#: Milliseconds after which a second solver gives up, which is ``unknown`` and no verdict.
LIMIT_MS = 20_000


class Question(Protocol):
    """A query with z3's answer: ``solver.Query``, or a certificate's record of one."""

    @property
    def mode(self) -> str: ...

    @property
    def result(self) -> str: ...

    @property
    def smt(self) -> str: ...


class SolverMissing(Exception):
    """A second solver is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not installed: pip install 'fxmorph[solvers]'")


@dataclass(frozen=True)
class Disagreement:
    """Two solvers that contradict each other on one query."""

    mode: str
    first: str
    second: str
    solver: str
    smt: str


def _package(name: str) -> Any:
    if name not in NAMES:
        raise ValueError(f"no solver {name!r}: {', '.join(NAMES)}")
    try:
        return import_module(name)
    except ImportError:
        raise SolverMissing(name) from None


def version(solver: str) -> str:
    """For certificates; raises :class:`SolverMissing`."""
    package = _package(solver)
    if solver == "bitwuzla":
        return f"bitwuzla {package.version()}"
    return f"cvc5 {getattr(package, '__version__', '')}".strip()


def second_opinion(query_smt: str, solver: str = "cvc5", *, limit_ms: int = LIMIT_MS) -> str:
    """``sat``, ``unsat`` or ``unknown`` for an SMT-LIB script; ``unknown`` too for what the solver does not read.

    Raises :class:`SolverMissing` where the package is not installed.
    """
    package = _package(solver)
    answer = _cvc5 if solver == "cvc5" else _bitwuzla
    declined = getattr(package, "BitwuzlaException", RuntimeError)
    try:
        return answer(package, query_smt, limit_ms)
    except (RuntimeError, ValueError, declined):
        return "unknown"  # a sort or an operator that it has not: bitwuzla declines bfloat16 and reals


def _cvc5(cvc5: Any, text: str, limit_ms: int) -> str:
    solver = cvc5.Solver()
    # Sorts other than single and double precision are behind an option.
    for option, value in (("fp-exp", "true"), ("tlimit-per", str(limit_ms)), ("seed", "0")):
        solver.setOption(option, value)
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "query")
    symbols = parser.getSymbolManager()
    said = "unknown"
    while True:
        command = parser.nextCommand()
        if command.isNull():
            return said
        printed = str(command.invoke(solver, symbols)).strip()
        if printed in ("sat", "unsat", "unknown"):
            said = printed
        elif printed:
            raise ValueError(printed)


def _bitwuzla(bitwuzla: Any, text: str, limit_ms: int) -> str:
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.TIME_LIMIT_PER, limit_ms)
    options.set(bitwuzla.Option.SEED, 0)
    parser = bitwuzla.Parser(bitwuzla.TermManager(), options)
    parser.parse(text.replace("(check-sat)\n", ""), False, False)
    return str(parser.bitwuzla().check_sat()).rsplit(".", 1)[-1].lower()


def disagreements(queries: Iterable[Question], solver: str = "cvc5", *, limit_ms: int = LIMIT_MS) -> list[Disagreement]:
    """Where a second solver says the opposite of what z3 said."""
    found = []
    for query in queries:
        other = second_opinion(query.smt, solver, limit_ms=limit_ms)
        if {query.result, other} == {"sat", "unsat"}:
            found.append(Disagreement(query.mode, query.result, other, solver, query.smt))
    return found
