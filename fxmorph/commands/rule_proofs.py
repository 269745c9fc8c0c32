"""Rules through the prover, one line for each rule and dtype; the prover's model of operators against eager."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Pool
from fxmorph.events import Conformed, Proved, Warned
from fxmorph.model import Level
from fxmorph.prove.certificates import versions as made_with
from fxmorph.prove.levels import record_levels
from fxmorph.prove.proof_worker import ProveRule, serve, unproved
from fxmorph.prove.prover import BUDGET
from fxmorph.prove.recheck import COMPUTED
from fxmorph.prove.rule_level import RuleProof
from fxmorph.prove.smt.second_opinion import SolverMissing, version
from fxmorph.rules import Registry, Rule, load_rules

#: CPU seconds that a rule may take for one dtype; what does not end by then is UNKNOWN.
LIMIT = 300.0
#: By how many rules the first dtype of a rule is ahead.
AHEAD = 8


def chosen(rules: Registry, names: Sequence[str]) -> list[Rule]:
    """Rules by id or glob; all where none is named.  Raises ``RuleError`` for an id that does not exist."""
    if not names:
        return list(rules)
    out: dict[str, Rule] = {}
    for name in names:
        if any(c in name for c in "*?["):
            found = [r for r in rules if fnmatch.fnmatchcase(r.id, name)]
            if not found:
                raise ConfigError(f"no rule matches {name!r}")
        else:
            found = [rules[name]]
        out |= {r.id: r for r in found}
    return list(out.values())


def prove_rules(
    settings: Settings,
    names: Sequence[str],
    again: tuple[str, ...],
    record: Path | None,
    emit: Callable[[object], None],
) -> int:
    """Prove, tell each as a :class:`Proved`; 4 where one is refuted, 1 where less is shown than is claimed, else 0.

    ``again`` are solvers that decide the queries again, and ``COMPUTED``.
    """
    rules = load_rules([Path(p) for p in settings.transforms])
    wanted = chosen(rules, names)
    for solver in again:
        if solver != COMPUTED:
            _require(solver)
    # What is shown for all dtypes at once is shown with the first, so that this one runs ahead of the others.
    places = [(i + AHEAD * (k > 0), k, i) for i, rule in enumerate(wanted) for k in range(len(rule.dtypes))]
    jobs = [ProveRule(wanted[i].id, wanted[i].dtypes[k], again) for _, k, i in sorted(places)]
    if not jobs:
        return Exit.NOTHING_RAN
    state = settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    arguments = (settings.transforms, str(state / "proofs"), BUDGET, str(state / "workers.log"))
    solver = f"z3 {dict(made_with())['z3']}"
    done: dict[tuple[str, str], RuleProof] = {}
    with Pool(min(settings.effective_jobs, len(jobs)), serve, arguments, ["fxmorph.prove.proof_worker"]) as pool:
        for ended in pool.run(jobs, LIMIT):
            proof = _proof(ended, rules)
            done[proof.rule, proof.dtype] = proof
            emit(_told(proof, solver))
    if record is not None:
        record_levels(record, rules, list(done.values()))
        emit(Warned(f"levels written to {record}"))
    if any(p.level is Level.REFUTED for p in done.values()):
        return Exit.UNSOUND
    return Exit.FINDINGS if any(p.claim.stronger(p.level) for p in done.values()) else Exit.OK


def _require(solver: str) -> None:
    try:
        version(solver)
    except SolverMissing as error:
        raise ConfigError(str(error)) from None


def check_conformance(device: str, emit: Callable[[object], None]) -> int:
    """Compare the semantic model with eager on ``device``, tell each; 1 where something new differs, else 0.

    A difference that the model already stands down for (``by lane``, or noted for this release) is told
    and is no failure.
    """
    from fxmorph.prove.smt.conformance import conformance, downgraded, pinned
    from fxmorph.torchapi.devices import missing

    if missing(device):
        raise ConfigError(missing(device))
    new = 0
    for row in conformance(device):
        detail = row.arguments
        if row.by_lane:
            detail += "  eager depends on the place in memory; left open"
        elif row.note:
            detail += f"  {row.note}"
        elif not row.agrees:
            detail += f"  for {row.inputs}: model {row.model!r}, eager {row.eager!r}; {row.consequence}"
            new += not (pinned(device) and downgraded(row.operator, getattr(torch, row.dtype), device))
        emit(Conformed(row.operator, row.dtype, row.agrees, detail.strip()))
    return Exit.FINDINGS if new else Exit.OK


def _proof(ended: Ended, rules: Registry) -> RuleProof:
    """What a job ended in; one that has no value proved nothing."""
    if isinstance(ended.value, RuleProof):
        return ended.value
    return unproved(ended.job, rules[ended.job.rule].claim, f"{ended.trouble}: {ended.detail}")


def _told(proof: RuleProof, solver: str) -> Proved:
    used = solver if "Z3" in proof.method else ""
    return Proved(
        proof.rule, proof.dtype, proof.claim, proof.level, proof.scope, proof.method, proof.assumptions, used,
        proof.seconds, proof.counterexample, proof.reason,
        tuple((solver, said, n) for solver, counts in proof.again for said, n in counts),
    )  # fmt: skip
