"""What ``fxmorph rules show`` says of a rule: its doc, both sides, what it takes and keeps, what was shown of it."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from fxmorph.events import RuleShown
from fxmorph.prove.certificates import Certificates
from fxmorph.prove.levels import Table, levels_of
from fxmorph.rules import HEADINGS, TARGETS, Rule

#: Columns that text is broken at, and what is indented under a word of the first column.
WIDTH, FIRST = 120, 12


def shown(rule: Rule, table: Table, stored: Certificates) -> RuleShown:
    """All there is to say: ``table`` holds the shipped levels, ``stored`` the certificates of the state folder."""
    said = rule.said
    levels = {dtype: table[rule.id]["levels"][dtype] for dtype in levels_of(rule, table)}
    certificates = sorted(stored.of_rule(rule.id), key=lambda c: (c.claim, c.key))
    return RuleShown(
        id=rule.id,
        does=rule.does,
        said=said or {HEADINGS[0]: " ".join(rule.doc.partition("\n\n")[2].split())},
        before=_source(rule.before),
        after=_source(rule.after),
        site=rule.site,
        args=dict(rule.args),
        where=rule.where,
        scalars={n: "from the graph" if c is None else ", ".join(map(repr, c)) for n, c in rule.scalars.items()},
        dtypes=rule.dtypes,
        mixed=rule.mixed,
        assumes=rule.assumes,
        claim=rule.claim.value,
        preserves=tuple(sorted(rule.preserves)),
        targets={word: TARGETS.get(word, "") for word in rule.targets},
        levels={d: {"level": x[0], "scope": x[1], "method": x[2], "assumes": x[3]} for d, x in levels.items()},
        certificates=tuple(
            {"key": c.key, "claim": c.claim, "level": c.proof.level.value, "method": c.proof.method}
            for c in certificates
        ),
        source=rule.source,
    )


def sheet(told: RuleShown) -> Iterator[str]:
    """The lines for people."""
    yield f"{told.id}  ({told.source})"
    yield from _wrapped(told.does)
    yield ""
    for head, text in told.said.items():
        if text:
            yield from _wrapped(f"{head}: {text}")
    for side in (told.before, told.after):
        yield ""
        yield from textwrap.indent(side, "    ").splitlines()
    yield ""
    kinds = ", ".join(told.dtypes) + ("; each argument its own" if told.mixed else "")
    yield from _row("site", [told.site])
    yield from _row("arguments", [f"{name}: {shape or '(no dimensions)'}" for name, shape in told.args.items()])
    yield from _row("scalars", [f"{name}: {values}" for name, values in told.scalars.items()])
    yield from _row("conditions", told.where)
    yield from _row("dtypes", [kinds])
    yield from _row("assumes", [", ".join(told.assumes)])
    yield from _row("claims", [told.claim])
    yield from _row("preserves", [", ".join(told.preserves) or "the returned value alone"])
    yield from _row("targets", [f"{word}: {text}" if text else word for word, text in told.targets.items()])
    yield from _row("shown", [_level(dtype, level) for dtype, level in told.levels.items()] or ["not proved"])
    stored = [f"{c['key']}  {c['level']}  {c['method']}  {c['claim']}" for c in told.certificates]
    yield from _row("stored", stored or ["no certificates"])


def _level(dtype: str, shown: dict[str, Any]) -> str:
    assumes = f"; assumes {', '.join(shown['assumes'])}" if shown["assumes"] else ""
    return f"{dtype:<8}  {shown['level']}  {shown['method']}: {shown['scope']}{assumes}"


def _row(head: str, values: list[str] | tuple[str, ...]) -> Iterator[str]:
    for i, value in enumerate(v for v in values if v):
        yield f"{head if i == 0 else '':{FIRST}}{value}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _source(side: Callable[..., Any]) -> str:
    """A side as it is written; "" where there is no text to read."""
    try:
        return textwrap.dedent(inspect.getsource(side)).rstrip()
    except (OSError, TypeError):
        return ""
