"""The levels that were shown of the shipped rules, kept beside them (``transforms/levels.json``).

``fxmorph prove --all --record transforms/levels.json`` writes the file; a rule that changed since is not
in it any more, since entries carry a hash of what the rule says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fxmorph.prove.certificates import rule_hash, versions
from fxmorph.prove.rule_level import RuleProof
from fxmorph.rules import Registry, Rule

#: Rule -> ``hash`` of what it says, and ``levels``: dtype -> [level, scope, method, assumptions].
Table = dict[str, dict[str, Any]]


def record_levels(path: Path, rules: Registry, proofs: Iterable[RuleProof]) -> None:
    """Write ``proofs`` into the file, over what it holds of the same rules; raises ``OSError``."""
    table = _read(path)
    for proof in proofs:
        entry: dict[str, Any] = table.setdefault(proof.rule, {})
        said = rule_hash(rules[proof.rule])
        if entry.get("hash") != said:
            entry = table[proof.rule] = {"hash": said, "levels": {}}
        entry["levels"][proof.dtype] = [proof.level.value, proof.scope, proof.method, list(proof.assumptions)]
    known = {rule.id for rule in rules}
    for name in known & table.keys():  # proofs end in any order
        shown = table[name]["levels"]
        table[name]["levels"] = {dtype: shown[dtype] for dtype in rules[name].dtypes if dtype in shown}
    body = {"made with": dict(versions()), "rules": {k: table[k] for k in sorted(table) if k in known}}
    path.write_text(json.dumps(body, indent=None, separators=(",", ":")).replace('},"', '},\n"') + "\n")


def shipped_levels() -> Table:
    """The file's rules; empty where there is no file."""
    import fxmorph.transforms as shipped

    return _read(Path(next(iter(shipped.__path__))) / "levels.json")


def levels_of(rule: Rule, table: Table) -> dict[str, str]:
    """dtype -> level, where the rule is as it was when they were shown."""
    entry = table.get(rule.id)
    if entry is None or entry.get("hash") != rule_hash(rule):
        return {}
    return {dtype: str(shown[0]) for dtype, shown in entry["levels"].items()}


def _read(path: Path) -> Table:
    try:
        return json.loads(path.read_text())["rules"]
    except (OSError, ValueError, KeyError):
        return {}
