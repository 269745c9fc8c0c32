"""``fxmorph rules``: the rules with what was shown of each, and all there is to say about one."""

from __future__ import annotations

import json
from pathlib import Path

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.events import RuleListed
from fxmorph.model import Level
from fxmorph.rules import load_rules, refuse_unknown


def list_rules(settings: Settings) -> Exit:
    """Print each rule with its levels, as an event line or in a table."""
    from fxmorph.prove.levels import levels_of, shipped_levels

    table = shipped_levels()
    found = list(load_rules([Path(folder) for folder in settings.transforms]))
    if settings.json:
        for rule in found:
            listed = RuleListed(
                rule.id, Level(rule.claim).value, tuple(rule.dtypes), tuple(sorted(rule.preserves)), rule.targets,
                rule.site, rule.source, rule.doc, levels_of(rule, table),
            )  # fmt: skip
            print_line(json.dumps(listed.to_json()))
        return Exit.OK
    rows = [
        (
            r.id, str(r.claim), _levels(levels_of(r, table)), ",".join(r.dtypes), ",".join(sorted(r.preserves)),
            ",".join(r.targets),
        )
        for r in found
    ]  # fmt: skip
    print_columns(("rule", "claim", "shown", "dtypes", "preserves", "targets"), rows)
    print_line(f"{len(found)} rules")
    return Exit.OK


def _levels(levels: dict[str, str]) -> str:
    """Each level with the dtypes that it was shown for, or the level alone where it is all of them."""
    by_level: dict[str, list[str]] = {}
    for dtype, level in levels.items():
        by_level.setdefault(level, []).append(dtype)
    if len(by_level) < 2:
        return next(iter(by_level), "not proved")
    return "; ".join(f"{level}: {','.join(dtypes)}" for level, dtypes in by_level.items())


def show_rule(settings: Settings, name: str) -> Exit:
    """Print the page of a rule, as an event line or as text; raises ``RuleError`` where there is none."""
    if not settings.transforms:
        refuse_unknown([name])
    from fxmorph.prove.certificates import Certificates
    from fxmorph.prove.levels import shipped_levels
    from fxmorph.report.rule_page import sheet, shown

    rule = load_rules([Path(folder) for folder in settings.transforms])[name]
    told = shown(rule, shipped_levels(), Certificates(settings.state_dir / "proofs"))
    for line in [json.dumps(told.to_json(), ensure_ascii=False)] if settings.json else sheet(told):
        print_line(line)
    return Exit.OK
