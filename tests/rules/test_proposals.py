"""Each rule of the refuse lists, written as a proposal: never admitted with the promise that it breaks."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from promises import REAL, broken

from fxmorph.programs.inputs import dtype_name
from fxmorph.propose.admitted import admitted_rule
from fxmorph.propose.gate.rule_gate import judge_rule
from fxmorph.propose.language.sameness import Known
from fxmorph.propose.proposal import Judged, Malformed, Outcome, RuleProposal, read_proposal
from fxmorph.prove.prover import Prover
from fxmorph.rules import Rule, load_rules

pytestmark = pytest.mark.usefixtures("torch_quiet")
REFUSE = Path(__file__).parent / "refuse"
RULES = {r.id: r for r in load_rules([REFUSE]) if Path(r.source).parent == REFUSE}
#: Of which at least so many can be said in the restricted language.
EXPRESSIBLE = 0.85


def body(side: Any) -> str:
    """The statements of a side of a rule as text."""
    tree = ast.parse(inspect.getsource(sys.modules[side.__module__]))
    wanted = side.__code__.co_firstlineno
    function = next(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.lineno == wanted)
    return textwrap.dedent("\n".join(ast.unparse(s) for s in function.body))


def as_proposal(rule: Rule, dtype: str) -> RuleProposal:
    made = read_proposal({
        "task": "rule", "name": rule.id, "doc": rule.doc, "aims": "ugo", "args": dict(rule.args),
        "before": body(rule.before), "after": body(rule.after), "where": list(rule.where),
        "scalars": {n: None if c is None else list(c) for n, c in rule.scalars.items()},
        "dtypes": list(rule.dtypes) if rule.mixed else [dtype], "claim": rule.claim.value,
        "assumes": list(rule.assumes), "preserves": sorted(rule.preserves), "site": rule.site, "mixed": rule.mixed,
    })  # fmt: skip
    assert isinstance(made, RuleProposal)
    return made


def outcome(name: str) -> tuple[RuleProposal, Judged, dict[str, Any]]:
    rule = RULES[name]
    witness = sys.modules[rule.before.__module__].WITNESS[name]()
    dtypes = [dtype_name(v.dtype) for v in witness.values() if isinstance(v, torch.Tensor)]
    proposal = as_proposal(rule, next((d for d in dtypes if d in rule.dtypes), rule.dtypes[0]))
    return proposal, judge_rule(proposal, name, Known(()), Prover(budget=200_000)), witness


def coarsest_cast(rule: Rule) -> float:
    """What the casts of a rule's text round off, of which EXACT_REAL says nothing; fp64 has them as well."""
    text = body(rule.before) + body(rule.after)
    coarse = [d for d in (torch.float16, torch.bfloat16) if str(d) in text]
    return max((torch.finfo(d).eps for d in coarse), default=0.0)


def refused(name: str) -> bool:
    """Whether the proposal says what the gate can judge; fails where it is admitted with what it breaks."""
    try:
        proposal, said, witness = outcome(name)
    except Malformed:
        return False
    if said.outcome is Outcome.ADMITTED:
        rule = admitted_rule(proposal, said)
        # The solver may give up on one: it is admitted with less than it claims, too.
        assert said.dropped or rule.claim is not RULES[name].claim, f"{name} is admitted as it is"
        assert broken(rule, witness, max(REAL, coarsest_cast(RULES[name]))) == ""
    return said.outcome not in (Outcome.UNSUPPORTED, Outcome.MALFORMED)


@pytest.mark.parametrize("name", sorted(RULES)[::18])
def test_some_wrong_rules(name: str) -> None:
    refused(name)


@pytest.mark.slow
def test_all_wrong_rules() -> None:
    judged = {name: refused(name) for name in RULES}
    assert sum(judged.values()) >= EXPRESSIBLE * len(judged), [n for n, fine in judged.items() if not fine]
