"""``fxmorph propose --synthesise``: run the synthesiser, tell what it does, write the pack."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxmorph.commands.reporters import reporting
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.events import Event, Synthesis, Warned
from fxmorph.propose.synthesis.form_operators import chosen_operators
from fxmorph.report.synthesis_lines import SynthesisLines

if TYPE_CHECKING:
    from fxmorph.propose.synthesis.search import Kept, Tally

#: The pack is written again after so many rules, so that an end by force loses few.
WRITTEN_EVERY = 10


def synthesise(settings: Settings, ops: str, out: Path | None) -> int:
    """Find rules with the operators ``ops`` names (all of them for ""); returns the exit code."""
    try:
        names = chosen_operators(ops)
    except ValueError as error:
        raise ConfigError(f"--ops {error}") from None
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out {out}: no folder {out.parent}")
    with reporting(settings, lambda to: SynthesisLines(to, settings.quiet)) as emit:
        return synthesise_rules(names, settings.max_time, settings.seed, out, emit)


def synthesise_rules(
    names: Sequence[str], budget: float, seed: int, out: Path | None, emit: Callable[[Event], None]
) -> int:
    """Find rules for ``budget`` CPU seconds and write those that are not trivial to ``out``.

    Returns the exit code: 0, or 5 where there are none.  Raises ``ConfigError`` for what the user can mend.
    """
    from fxmorph.propose.synthesis.search import synthesise as search

    emit(Warned(f"{len(names)} operators, {budget:.0f} s of CPU, seed {seed}"))
    header = f"# fxmorph propose --synthesise --ops {','.join(names)} --seed {seed}"
    written = 0

    def tell(tally: Tally) -> None:
        nonlocal written
        emit(told(tally))
        if out is not None and (len(tally.kept) >= written + WRITTEN_EVERY or tally.doing == "done"):
            written = len(tally.kept)
            write_pack(out, tally.kept, header)

    try:
        tally = search(names, budget, seed, tell)
    except OSError as error:
        raise ConfigError(f"--out {out}: {error.strerror}") from None
    if out is not None:
        emit(Warned(f"{tally.nontrivial} rules written to {out}"))
    return Exit.OK if tally.nontrivial else Exit.NOTHING_RAN


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
