"""``fxmorph propose --synthesise``: run the synthesiser, say what it does, write the pack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from fxmorph.config import ConfigError
from fxmorph.propose.synthesis.operators import OPERATORS
from fxmorph.propose.synthesis.search import Kept, Tally, synthesise

#: CPU seconds between two lines of progress.
EVERY = 10.0


def chosen_operators(text: str) -> tuple[str, ...]:
    """The operators of a comma-separated list; all where it is empty.  Raises ``ConfigError``."""
    names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        raise ConfigError(f"--ops {unknown[0]!r}: not one of {', '.join(OPERATORS)}")
    return names or OPERATORS


def synthesise_rules(operators: str, budget: float, seed: int, out: Path | None, say: Callable[[str], None]) -> int:
    """Find rules for ``budget`` CPU seconds and write those that are not trivial to ``out``; 0, or 5 if there are none.

    Raises ``ConfigError`` for what the user can mend.
    """
    names = chosen_operators(operators)
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: no folder {out.parent}")
    say(f"{len(names)} operators, {budget:.0f} s of CPU, seed {seed}")
    said = -EVERY

    def tell(tally: Tally) -> None:
        nonlocal said
        if tally.seconds - said >= EVERY or not tally.doing.startswith("proving"):
            said = tally.seconds
            say(_progress(tally))

    tally = synthesise(names, budget, seed, tell)
    for line in lines_of(tally):
        say(line)
    if out is not None:
        try:
            write_pack(out, tally.kept, f"# fxmorph propose --synthesise --seed {seed}: {len(names)} operators")
        except OSError as error:
            raise ConfigError(f"--out {out}: {error.strerror}") from None
        say(f"{tally.nontrivial} rules written to {out}")
    return 0 if tally.nontrivial else 5


def _progress(tally: Tally) -> str:
    return (
        f"{tally.seconds:6.0f} s  {tally.doing}: {tally.counts.expressions} expressions, {tally.candidates} pairs, "
        f"kept {len(tally.kept)} ({tally.nontrivial} non-trivial), subsumed {tally.subsumed}, refuted {tally.refuted}"
    )


def lines_of(tally: Tally) -> list[str]:
    """What a search did, for people."""
    by_level = ", ".join(f"{n} {level}" for level, n in sorted(tally.levels.items()))
    rows = [
        ("expressions enumerated", str(tally.counts.expressions)),
        ("buckets", str(tally.counts.buckets)),
        ("pairs that look equal", f"{tally.counts.pairs}, {tally.candidates} up to renaming"),
        ("proved", f"{tally.proved}, of the kept {by_level or 'none'}"),
        ("refuted", str(tally.refuted)),
        ("not shown", str(tally.unproved)),
        ("subsumed", str(tally.subsumed)),
        ("like kept ones but for an elementwise operator", str(tally.alike)),
        ("left when the budget ended", str(tally.left)),
        ("kept", str(len(tally.kept))),
        ("kept, non-trivial", str(tally.nontrivial)),
        ("of these already in transforms/", str(tally.shipped)),
        ("sets of arguments tried beyond the proofs", str(sum(k.tried for k in tally.kept))),
        ("CPU seconds", f"{tally.seconds:.0f}"),
    ]
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value}" for name, value in rows]


def write_pack(path: Path, kept: Iterable[Kept], header: str) -> None:
    """Write the rules that are not trivial as a pack of proposals; raises ``OSError``."""
    rows = [k.proposal.model_dump(mode="json", exclude_defaults=True) for k in kept if not k.trivial]
    text = [header, *(json.dumps({"task": "rule", **row}) for row in rows)]
    path.write_text("\n".join(text) + "\n")
