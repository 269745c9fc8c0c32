"""``fxmorph propose --synthesise``: run the synthesiser, tell what it does, write the pack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

from fxmorph.config import ConfigError
from fxmorph.events import Event, Synthesis, Warned
from fxmorph.propose.synthesis.operators import OPERATORS
from fxmorph.propose.synthesis.search import Kept, Tally, synthesise

#: CPU seconds that it takes where no budget is given.
BUDGET = 600.0
DONE, NOTHING = 0, 5


def chosen_operators(text: str) -> tuple[str, ...]:
    """The operators of a comma-separated list; all where it is empty.  Raises ``ConfigError``."""
    names = tuple(dict.fromkeys(n.strip() for n in text.split(",") if n.strip()))
    unknown = [n for n in names if n not in OPERATORS]
    if unknown:
        raise ConfigError(f"--ops {unknown[0]!r}: not one of {', '.join(OPERATORS)}")
    return names or OPERATORS


def synthesise_rules(operators: str, budget: float, seed: int, out: Path | None, emit: Callable[[Event], None]) -> int:
    """Find rules for ``budget`` CPU seconds and write those that are not trivial to ``out``.

    Returns the exit code: 0, or 5 where there are none.  Raises ``ConfigError`` for what the user can mend.
    """
    names = chosen_operators(operators)
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: no folder {out.parent}")
    emit(Warned(f"{len(names)} operators, {budget:.0f} s of CPU, seed {seed}"))
    tally = synthesise(names, budget, seed, lambda t: emit(told(t)))
    if out is not None:
        try:
            write_pack(out, tally.kept, f"# fxmorph propose --synthesise --ops {','.join(names)} --seed {seed}")
        except OSError as error:
            raise ConfigError(f"--out {out}: {error.strerror}") from None
        emit(Warned(f"{tally.nontrivial} rules written to {out}"))
    return DONE if tally.nontrivial else NOTHING


def told(tally: Tally) -> Synthesis:
    return Synthesis(
        tally.doing, tally.counts.expressions, tally.counts.buckets, tally.counts.pairs, tally.candidates,
        tally.proved, tally.refuted, tally.unproved, tally.subsumed, tally.alike, tally.left, len(tally.kept),
        tally.nontrivial, tally.shipped, sum(k.tried for k in tally.kept), dict(tally.levels),
        round(tally.seconds, 1),
    )  # fmt: skip


def write_pack(path: Path, kept: Iterable[Kept], header: str) -> None:
    """Write the rules that are not trivial as a pack of proposals; raises ``OSError``."""
    rows = [k.proposal.model_dump(mode="json", exclude_defaults=True) for k in kept if not k.trivial]
    text = [header, *(json.dumps({"task": "rule", **row}) for row in rows)]
    path.write_text("\n".join(text) + "\n")
