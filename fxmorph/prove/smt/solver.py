"""Deciding obligations with z3: the strongest level at which two scalar expressions are equal.

The ladder: equal bits; equal but for the sign of zero; either of these for inputs that meet a
precondition, weakest first; equal over the reals; that under a precondition.  Verdicts depend on
z3's resource limit and a fixed seed and never on time; what the limit stops is ``UNKNOWN``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import z3

from fxmorph.model import Level
from fxmorph.prove.certificates import Asked
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt import ieee, smtlib
from fxmorph.prove.smt.conformance import downgraded
from fxmorph.prove.smt.eager_scalars import bits_differ, evaluate
from fxmorph.prove.smt.scalar_model import Claim, translate
from fxmorph.prove.smt.scalars import Obligation
from fxmorph.prove.smt.sorts import FLOATS, Number, python_value
from fxmorph.rewriting.preconditions import PRECONDITIONS, met

#: z3's units of work for one query; on one core about 3 s.
RLIMIT = 8_000_000
LEVELS = (Level.BIT_EXACT, Level.BIT_EXACT_MOD_ZERO_SIGN, Level.UNDER_PRECONDITION, Level.EXACT_REAL)
#: Lengths at which candidates are run in eager: vector lanes and tails may differ.
REPLAY_LENGTHS = (1, 8, 33)

Values = tuple[Number, ...]


def solver_version() -> str:
    """For the keys of caches."""
    return f"z3 {z3.get_version_string()}"


@dataclass(frozen=True)
class Query(Asked):
    """One question to z3.

    ``mode``: what was asked, as ``bits``, ``bits modulo zero sign | finite`` or ``reals``; ``unsat`` says that
    the claim holds.  ``values`` of the variables are z3's for ``sat``: a candidate, to be replayed.
    """

    values: Values | None = None


@dataclass(frozen=True)
class Solved:
    """What is shown of an obligation.

    ``level`` is never above what a query answered ``unsat`` shows; ``UNKNOWN`` is no success.
    ``counterexample`` differs in bits, in z3's model, beyond the sign of zero where one that does was
    found: :func:`replay` it before believing it.
    ``conclusive``: its variables are all inputs, so that a replayed one is a refutation.
    """

    level: Level
    assumptions: tuple[str, ...] = ()
    method: str = ""
    queries: tuple[Query, ...] = ()
    counterexample: Values | None = None
    conclusive: bool = True
    reason: str = ""


def solve(
    obligation: Obligation,
    *,
    rlimit: int = RLIMIT,
    seed: int = 0,
    want: Collection[Level] = LEVELS,
    falsified: Sequence[Values] = (),
    device: str = "cpu",
) -> Solved:
    """The strongest of the levels in ``want`` that z3 shows of eager on ``device``.

    ``falsified``: values of the variables for which eager was seen to give different bits; preconditions
    that admit one are not tried.  Raises nothing: what has no meaning is ``UNKNOWN`` with a reason.
    """
    return _Ladder(obligation, rlimit, seed, frozenset(want), list(falsified), device).climb()


class _Ladder:
    def __init__(
        self,
        obligation: Obligation,
        rlimit: int,
        seed: int,
        want: frozenset[Level],
        falsified: list[Values],
        device: str,
    ) -> None:
        self.obligation, self.rlimit, self.seed, self.want = obligation, rlimit, seed, want
        self.downgraded = functools.partial(downgraded, device=device)
        self.budget, self.floats = rlimit, any(d in FLOATS for d in obligation.dtypes)
        self.queries: list[Query] = []
        #: Values that differ in bits, and whether they do so modulo the sign of zero.
        self.differing: list[tuple[Values, bool]] = [
            (v, replay(obligation, v, modulo_zero_sign=True)) for v in falsified
        ]
        self.counterexample: Values | None = None
        self.reason = ""

    def climb(self) -> Solved:
        if self.obligation.left.dtype != self.obligation.right.dtype:
            return Solved(Level.UNKNOWN, reason="sides of different dtypes")
        for step in (self._bits, self._reals):
            try:
                solved = step()
            except NotModelled as error:
                self.reason = str(error)
                continue
            if solved is not None:
                return self._finished(solved)
        return self._finished(Solved(Level.UNKNOWN, reason=self.reason))

    def _finished(self, solved: Solved) -> Solved:
        return replace(
            solved,
            queries=tuple(self.queries),
            counterexample=self.counterexample,
            conclusive=all(self.obligation.inputs),
        )

    # -- bits ----------------------------------------------------------------------

    def _bits(self) -> Solved | None:
        if not self.want & set(LEVELS[:3]):
            return None
        claim = translate(self.obligation, False, self.downgraded)
        floating = self.obligation.left.dtype in FLOATS
        method = "Z3-FP" if any(d in FLOATS for d in self.obligation.dtypes) else "Z3-BV"
        needed, names = self._conditions(claim)
        if needed is None:
            return None
        assumptions = names | claim.context.assumptions
        if method == "Z3-FP":
            assumptions.add("nan-payload-ignored")
        self.budget = self.rlimit
        if len(claim.functions_apart):
            # Equal bits would be a coincidence: what one side calls, the other does not.
            self.budget //= 20
        exact = claim.left == claim.right
        modulo = ieee.equal_modulo_zero_sign(claim.left, claim.right) if floating else exact
        # Conditions that only one side needs are the user's to meet.
        downgrade = bool(needed) and claim.lopsided

        def shown(level: Level, *more: str) -> Solved:
            if downgrade:
                more = (*more, *(("mod_zero_sign",) if level == Level.BIT_EXACT_MOD_ZERO_SIGN else ()))
                level = Level.UNDER_PRECONDITION
            return Solved(level, tuple(sorted({*assumptions, *more})), method)

        result = ""
        if Level.BIT_EXACT in self.want:
            result = self._ask("bits", claim, exact, needed, modulo)
            if result == "unsat":
                return shown(Level.BIT_EXACT)
        if floating and Level.BIT_EXACT_MOD_ZERO_SIGN in self.want and not any(both for _, both in self.differing):
            result = self._ask("bits modulo zero sign", claim, modulo, needed, modulo)
            if result == "unsat":
                return shown(Level.BIT_EXACT_MOD_ZERO_SIGN)
        if Level.UNDER_PRECONDITION not in self.want or result == "unknown":
            return None
        return self._preconditions(claim, exact, modulo if floating else None, needed, assumptions, method)

    def _preconditions(
        self, claim: Claim, exact: Any, modulo: Any, needed: list[Any], assumptions: set[str], method: str
    ) -> Solved | None:
        goals = [("bits", exact, False)] + ([("bits modulo zero sign", modulo, True)] if modulo is not None else [])
        sets: Iterable[tuple[str, ...]] = PRECONDITIONS
        if claim.context.ranges:
            sets = [("f2i_in_range",), *PRECONDITIONS]
        tried: set[str] = set()
        for names in sets:
            conditions = [self._condition(n, claim) for n in names]
            meaningful = [c for c in conditions if c is not None]
            key = " ".join(sorted(c.sexpr() for c in meaningful))
            if not meaningful or key in tried:
                continue
            tried.add(key)
            for mode, goal, up_to_zero in goals:
                if any(meets(v, names, self.obligation) and (both or not up_to_zero) for v, both in self.differing):
                    continue
                asked = f"{mode} | {' '.join(names)}"
                result = self._ask(asked, claim, goal, [*needed, *meaningful], exact if modulo is None else modulo)
                if result == "unknown":
                    return None
                if result == "unsat" and self._possible([*needed, *meaningful], claim):
                    more = {*names, *(["mod_zero_sign"] if up_to_zero else [])}
                    return Solved(Level.UNDER_PRECONDITION, tuple(sorted(assumptions | more)), method)
        return None

    def _condition(self, name: str, claim: Claim) -> Any:
        """A precondition on all variables; None where it says nothing."""
        if name == "f2i_in_range":
            return z3.And(*claim.context.ranges)
        signed = [v for v, d in zip(claim.variables, self.obligation.variables, strict=True) if d != torch.uint8]
        parts = [_meets_term(name, v) for v in (signed if name == "nonneg" else claim.variables)]
        kept = [p for p in parts if p is not None]
        return z3.And(*kept) if kept else None

    # -- reals -----------------------------------------------------------------------

    def _reals(self) -> Solved | None:
        if Level.EXACT_REAL not in self.want or not any(d in FLOATS for d in self.obligation.dtypes):
            return None
        result, solved = self._real(False)
        if result == "sat" and solved is None:
            result, solved = self._real(True)
        return solved

    def _real(self, simple: bool) -> tuple[str, Solved | None]:
        """Over the reals, with constants as they are or as the simple fractions that they were rounded from."""
        claim = translate(self.obligation, True, simple=simple)
        if simple and "constants-rounded" not in claim.context.assumptions:
            return "", None
        needed, names = self._conditions(claim)
        if needed is None:
            return "", None
        assumptions = claim.context.assumptions | names
        self.budget = self.rlimit
        goal = claim.left == claim.right
        mode = "reals, simple constants" if simple else "reals"
        first = result = self._ask(mode, claim, goal, needed, None)
        if result == "unsat":
            return result, Solved(Level.EXACT_REAL, tuple(sorted(assumptions)), "Z3-REAL")
        for given in (("nonzero",), ("nonneg",), ("nonneg", "nonzero")):
            if result != "sat":
                break
            conditions = [c for n in given if (c := self._condition(n, claim)) is not None]
            last = self.queries[-1].values
            if not conditions or (last is not None and meets(last, given, self.obligation)):
                continue
            result = self._ask(f"{mode} | {' '.join(given)}", claim, goal, [*needed, *conditions], None)
            if result == "unsat" and self._possible([*needed, *conditions], claim):
                return result, Solved(Level.EXACT_REAL, tuple(sorted(assumptions | set(given))), "Z3-REAL")
        return first, None

    # -- queries -----------------------------------------------------------------------

    def _conditions(self, claim: Claim) -> tuple[list[Any] | None, set[str]]:
        """The conditions of a claim that may fail, and their assumptions; None where they cannot all hold."""
        kept: list[Any] = []
        names: set[str] = set()
        for name, condition in claim.context.needed:
            if any(condition.eq(c) for c in kept):
                continue
            result, _, _ = check([*claim.context.facts, z3.Not(condition)], self.rlimit // 10, self.seed)
            if result != "unsat":
                kept.append(condition)
                names.add(name)
        if kept and not self._possible(kept, claim):
            self.reason = "what the sides need cannot hold"
            return None, names
        return kept, names

    def _possible(self, conditions: list[Any], claim: Claim) -> bool:
        """Whether conditions are not contradictory, as far as z3 can tell; a claim under such ones is empty."""
        return check([*claim.context.facts, *conditions], self.rlimit // 10, self.seed)[0] != "unsat"

    def _ask(self, mode: str, claim: Claim, goal: Any, assumed: Sequence[Any], modulo: Any) -> str:
        assertions = [*claim.context.facts, *assumed, z3.Not(goal)]
        blasted = self.floats and not mode.startswith("reals") and not claim.context.functions
        result, used, model = check(assertions, self.budget, self.seed, PORTFOLIO if blasted else ALONE)
        values = None
        if model is not None:
            values = self._values(claim, model)
            if values is not None and not mode.startswith("reals"):
                both = modulo is not None and z3.is_false(_in(model, modulo))
                # Whatever it hangs on, the same model answers every question that admits these values.
                if self.counterexample is None or (both and not any(b for _, b in self.differing)):
                    self.counterexample = values
                self.differing.append((values, both))
        self.queries.append(Query(mode, result, used, smtlib.text(assertions), values=values))
        return result

    def _values(self, claim: Claim, model: z3.ModelRef) -> Values | None:
        values = [
            python_value(_in(model, v), d) for v, d in zip(claim.variables, self.obligation.variables, strict=True)
        ]
        return None if any(v is None for v in values) else tuple(v for v in values if v is not None)


#: For IEEE arithmetic without uninterpreted functions: pipelines of z3's tactics with their parts of the
#: limit; None is its own choice.  Bit-blasting at once closes true claims in half the work, and what one
#: pipeline has no luck with in finding a difference another has.
_BLASTING = "simplify propagate-values fpa2bv simplify propagate-values solve-eqs bit-blast sat"
_SHARING = "simplify propagate-values fpa2bv simplify max-bv-sharing bit-blast simplify aig sat"
PORTFOLIO: tuple[tuple[str | None, int], ...] = ((_BLASTING, 2), (_SHARING, 4), (None, 4))
ALONE: tuple[tuple[str | None, int], ...] = ((None, 1),)


def check(
    assertions: Sequence[Any], rlimit: int, seed: int, pipelines: tuple[tuple[str | None, int], ...] = ALONE
) -> tuple[str, int, z3.ModelRef | None]:
    """z3's answer, the units of work that it took, and its model where there is one.

    Each pipeline in a context of its own, which reads the text of the query: what z3 does depends on the numbers of
    its nodes, and so on everything that a context has seen before, or the one that terms are copied from.
    """
    total, script = 0, smtlib.text(assertions)
    for pipeline, part in pipelines:
        context = z3.Context()
        solver = _pipeline(pipeline, seed, context)
        solver.set("rlimit", rlimit // part)
        solver.add(z3.parse_smt2_string(script, ctx=context))
        try:
            result = str(solver.check())
        except z3.Z3Exception:
            result = "unknown"
        total += next((int(v) for k, v in _pairs(solver.statistics()) if k == "rlimit count"), 0)
        if result != "unknown":
            return result, total, solver.model() if result == "sat" else None
    return "unknown", total, None


def _pipeline(pipeline: str | None, seed: int, context: z3.Context) -> z3.Solver:
    if pipeline is None:
        solver = z3.Solver(ctx=context)
        solver.set("random_seed", seed)
        return solver
    tactics = [z3.Tactic(t, context) for t in pipeline.split()]
    tactics[-1] = z3.With(tactics[-1], random_seed=seed, ctx=context)
    return z3.Then(*tactics, ctx=context).solver()


def _in(model: z3.ModelRef, term: Any) -> Any:
    """A term's value in a model of another context."""
    return model.eval(term.translate(model.ctx), model_completion=True)


def _pairs(statistics: z3.Statistics) -> list[tuple[str, Any]]:
    return [statistics[i] for i in range(len(statistics))]


def _meets_term(name: str, variable: Any) -> Any:
    """A named precondition on one variable; None where it says nothing about its sort."""
    if z3.is_fp(variable):
        zero = ieee.zero(variable.sort())
        if name == "no_nan":
            return z3.Not(z3.fpIsNaN(variable))
        if name == "finite":
            return z3.Not(z3.Or(z3.fpIsNaN(variable), z3.fpIsInf(variable)))
        return z3.fpGEQ(variable, zero) if name == "nonneg" else z3.Not(z3.fpIsZero(variable))
    if z3.is_real(variable) or z3.is_bv(variable):
        if name == "nonneg":
            return variable >= 0
        return variable != 0 if name == "nonzero" else None
    return None


def meets(values: Values, names: Iterable[str], obligation: Obligation) -> bool:
    """Whether values of the variables meet all of the named preconditions, as far as these are on variables."""
    if "f2i_in_range" in names:
        return False
    columns = [torch.tensor([v], dtype=d) for v, d in zip(values, obligation.variables, strict=True)]
    return bool(met(names, columns))


# -- eager -------------------------------------------------------------------------------


def replay(
    obligation: Obligation,
    values: Values,
    *,
    modulo_zero_sign: bool = False,
    relative: float = 0.0,
    lengths: Sequence[int] = REPLAY_LENGTHS,
) -> bool:
    """Whether eager gives different bits for the two sides on these values of the variables.

    Both sides run on tensors filled with the values, at each length.  ``relative`` asks for results that
    differ by more than that part of the larger, for claims over the reals.  False where eager cannot run
    or raises.
    """
    if len(values) != len(obligation.variables):
        raise ValueError(f"{len(values)} values for {len(obligation.variables)} variables")
    for length in lengths:
        tensors = [torch.full((length,), v, dtype=d) for v, d in zip(values, obligation.variables, strict=True)]
        try:
            left, right = (evaluate(side, tensors) for side in (obligation.left, obligation.right))
        except (NotModelled, RuntimeError, TypeError, ZeroDivisionError):
            return False
        if left.dtype != right.dtype:
            return True
        differ = bits_differ(left, right, modulo_zero_sign)
        if relative and left.is_floating_point():
            wide, other = left.double(), right.double()
            differ &= ~((wide - other).abs() <= relative * torch.maximum(wide.abs(), other.abs()))
        if bool(differ.any()):
            return True
    return False
