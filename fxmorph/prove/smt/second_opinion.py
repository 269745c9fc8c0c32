"""A query decided again from its text: by z3, or by another solver, cvc5 or bitwuzla, through their Python packages.

Proof objects for floating point are not to be had (cvc5's rest on trusted steps), so agreement of
independent solvers is the evidence.  A disagreement is a bug in one of them or in the text of the query:
the query is kept, and the level is withdrawn.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import import_module
from typing import Any

NAMES = ("z3", "cvc5", "bitwuzla")
#: Milliseconds after which a solver gives up, which is no verdict.
LIMIT_MS = 20_000
#: Words for why a solver gives none.
TIMED_OUT, DECLINED, GAVE_UP = "timed out", "does not read it", "unknown"


class SolverMissing(Exception):
    """A second solver is not installed."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not installed: pip install 'fxmorph[solvers]'")


@dataclass(frozen=True)
class Answer:
    """``sat`` or ``unsat``, or why there is neither, of a query's text by a solver (with its version)."""

    solver: str
    said: str
    seconds: float = 0.0

    @property
    def decided(self) -> bool:
        return self.said in ("sat", "unsat")

    def contradicts(self, result: str) -> bool:
        """Whether this and ``result`` are ``sat`` and ``unsat``."""
        return {self.said, result} == {"sat", "unsat"}


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
    if solver == "z3":
        return f"z3 {package.get_version_string()}"
    return f"cvc5 {getattr(package, '__version__', '')}".strip()


def second_opinion(query_smt: str, solver: str = "cvc5", *, limit_ms: int = LIMIT_MS) -> Answer:
    """What a solver says of an SMT-LIB script, which holds all that it is told.

    Raises :class:`SolverMissing` where the package is not installed.
    """
    package = _package(solver)
    answer = {"z3": _z3, "cvc5": _cvc5, "bitwuzla": _bitwuzla}[solver]
    refusals = tuple(getattr(package, n) for n in ("BitwuzlaException", "Z3Exception") if hasattr(package, n))
    started = time.perf_counter()
    try:
        said = answer(package, query_smt, limit_ms)
    except (RuntimeError, ValueError, *refusals):
        said = DECLINED  # a sort or an operator that it has not: bitwuzla declines bfloat16 and reals
    seconds = time.perf_counter() - started
    if said == "unknown":
        said = TIMED_OUT if seconds > 0.9 * limit_ms / 1000 else GAVE_UP
    return Answer(version(solver), said, round(seconds, 3))


def _z3(z3: Any, text: str, limit_ms: int) -> str:
    solver = z3.Solver(ctx=z3.Context())
    solver.set("timeout", limit_ms)
    solver.set("random_seed", 1)  # not the one that the proof was found with
    solver.from_string(text)
    return str(solver.check())


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
