"""How the shipped rules are proved, from ``transforms/levels.json``: shares by family.

``fxmorph prove --all --record transforms/levels.json`` writes that file.
"""

from __future__ import annotations

from collections import Counter

from fxmorph.model import Level
from fxmorph.prove.levels import levels_of, shipped_levels
from fxmorph.rules import Rule, load_rules

PROVED = [level.value for level in Level if level not in (Level.TESTED, Level.UNKNOWN, Level.REFUTED)]
BITS = [Level.INDEX_EXACT.value, Level.BIT_EXACT.value, Level.BIT_EXACT_MOD_ZERO_SIGN.value]
#: Rules of these families compute single elements in floating point.
POINTWISE = ("algebra", "operator")


def at_float32(rule: Rule, levels: dict[str, str]) -> str:
    """The level for float32, or for the first dtype that the rule is for."""
    return levels.get("float32") or levels.get(rule.dtypes[0], "not proved")


def share(levels: list[str], wanted: list[str]) -> str:
    count = sum(level in wanted for level in levels)
    return f"{count} of {len(levels)} ({count / max(len(levels), 1):.0%})"


def main() -> None:
    table = shipped_levels()
    rules = list(load_rules())
    level = {rule.id: at_float32(rule, levels_of(rule, table)) for rule in rules}
    families = sorted({rule.family for rule in rules})
    print(f"{len(rules)} rules; levels at float32, or at a rule's first dtype")
    for family in families:
        counts = Counter(level[r.id] for r in rules if r.family == family)
        told = ", ".join(f"{lv} {n}" for lv, n in counts.most_common())
        print(f"{family:<10} {sum(counts.values()):>4}  {told}")

    def of(*names: str) -> list[Rule]:
        return [r for r in rules if r.family in names]

    layout = [r for r in of("layout") if r.claim is Level.INDEX_EXACT]
    print("layout rules, INDEX_EXACT:", share([level[r.id] for r in layout], [Level.INDEX_EXACT.value]))
    sizes = [str(table[r.id]["levels"].get("float32", [""] * 2)[1]) for r in layout if r.id in table]
    print("  of them for all sizes:", sum(s.startswith("all sizes") for s in sizes))
    pointwise = [r for r in of(*POINTWISE) if "float32" in r.dtypes and not r.mixed]
    print(
        "float pointwise at float32, same bits or but for zero's sign:", share([level[r.id] for r in pointwise], BITS)
    )
    linear = [r for r in of("reduce", "fusion")]
    print("reductions and fusion-prone, EXACT_REAL or more:", share([level[r.id] for r in linear], PROVED))
    print("mutation and aliasing, proved:", share([level[r.id] for r in of("mutate")], PROVED))
    every = [lv for r in rules for lv in levels_of(r, table).values()]
    print("all rules and dtypes:", ", ".join(f"{lv} {n}" for lv, n in Counter(every).most_common()))
    print(
        "gradients promised (compared in eager for every argument tried):",
        sum("gradient" in r.preserves for r in rules),
    )


if __name__ == "__main__":
    main()
