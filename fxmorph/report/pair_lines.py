"""What ``fxmorph check-pass`` prints: a line for each graph that the pass changed, findings in full.

A finding that looks like one before, by what differs and which calls the pass exchanged, is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TextIO

from fxmorph.events import PairJudged, PassChecked
from fxmorph.model import Status

#: Lines of nodes that differ, and of inputs, which are shown of a finding.
SHOWN = 16


class PairLines:
    """Takes events of :mod:`fxmorph.inductor.own.check`; ``verbose`` shows graphs that did not change, or came out
    right and were not to be proved, too.
    """

    def __init__(self, stream: TextIO, quiet: bool, verbose: bool) -> None:
        self._stream, self._quiet, self._verbose = stream, quiet, verbose
        #: The first finding of each likeness.
        self._found: dict[tuple[object, ...], PairJudged] = {}

    def handle(self, event: Any) -> None:
        if isinstance(event, PairJudged):
            for line in self._pair(event):
                self._say(line)
        elif isinstance(event, PassChecked):
            for line in () if self._quiet else event.patterns:
                self._say(line)
            self._say(summary(event))
        elif not self._quiet:
            self._say(f"warning: {event.message}")

    def _pair(self, e: PairJudged) -> Iterator[str]:
        found = e.verdict is Status.FINDING
        telling = self._verbose or (e.fired and not (e.verdict is Status.CLEAN and not e.outcome))
        if e.verdict is Status.ERROR or (not self._quiet and telling):
            where = f"{e.seed}  {e.part or '-'} ({e.nodes} nodes)"
            if not e.fired:
                yield f"{where}  {'not changed' if e.verdict is Status.CLEAN else f'{e.verdict}: {e.reason}'}"
            else:
                why = "" if found or e.verdict is Status.CLEAN else f" ({e.reason})"
                yield f"{where}  {e.verdict}{why}; {_proof(e)}"
        if found:
            first = self._found.setdefault(_likeness(e), e)
            again = f"; show it again: python {e.reproduce}" if e.reproduce else ""
            yield from finding_lines(e) if first is e else [f"  WRONG as on {first.seed}: {e.reason}{again}"]

    def close(self) -> None:
        """Nothing is kept back."""

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)


def _proof(e: PairJudged) -> str:
    if e.outcome == "proved":
        assumed = f", assuming {', '.join(e.assumptions)}" if e.assumptions else ""
        return f"proved {e.level} by {e.method}{assumed}"
    return f"{e.outcome or 'not tried'}{f': {e.unproved}' if e.unproved else ''}"


def finding_lines(e: PairJudged) -> list[str]:
    """A finding: what differs, the nodes that the pass changed, and the values that show it."""
    lines = [f"WRONG {e.name} on {e.seed} ({e.stage} graph, {e.part})", f"  {', '.join(e.kinds)}: {e.reason}"]
    if e.changes:
        lines += ["  the pass changed", *_first(e.changes)]
    if e.inputs:
        lines += [f"  inputs ({e.plan or 'seed'} values)", *_first(e.inputs)]
    if e.reproduce:
        lines.append(f"  show it again: python {e.reproduce}")
    return lines


def _likeness(e: PairJudged) -> tuple[object, ...]:
    """What differs, and the operators of the lines that show what the pass took out and put in."""
    calls = sorted({(line[:1], match[1]) for line in e.changes if (match := re.search(r" = ([\w.]+)\(", line))})
    return (e.kinds, tuple(calls)) if calls else (e.kinds, e.reason)


def _first(lines: tuple[str, ...]) -> list[str]:
    more = [f"    ... {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return [*(f"    {line}" for line in lines[:SHOWN]), *more]


def summary(e: PassChecked) -> str:
    """The last line."""
    judged = ", ".join(f"{n} {word}" for word, n in e.verdicts.items())
    levels = ", ".join(f"{word} {n}" for word, n in e.levels.items())
    proofs = ", ".join(f"{n} {word}{f' ({levels})' if word == 'proved' else ''}" for word, n in e.outcomes.items())
    how = f"fired first on {e.how}" if e.fired and e.how else f"tried {e.how}" if e.how else ""
    left_out = f"{e.left_out} graphs left out" if e.left_out else ""
    tail = "".join(f"; {part}" for part in (judged, proofs, e.nothing_checked, how, left_out, *e.broken) if part)
    kind = "" if e.stage == "any" else f"{e.stage} "
    return f"{e.name}: fired on {e.fired} of {e.graphs} {kind}graphs{tail}; {e.wall_s:.1f} s"
