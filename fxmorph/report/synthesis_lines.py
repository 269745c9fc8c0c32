"""What ``fxmorph propose --synthesise`` prints: lines of progress, then what was done."""

from __future__ import annotations

from typing import TextIO

from fxmorph.events import Event, Synthesis, Warned

#: CPU seconds between two lines of progress.
EVERY = 10.0


class SynthesisLines:
    """One line every few seconds and for each step; the counts at the end.  ``quiet`` leaves the counts."""

    def __init__(self, stream: TextIO, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._said, self._doing = -EVERY, ""
        self._last: Synthesis | None = None

    def handle(self, event: Event) -> None:
        if isinstance(event, Warned):
            self._say(event.message)
        if not isinstance(event, Synthesis):
            return
        self._last = event
        if not self._quiet and (event.seconds - self._said >= EVERY or event.doing != self._doing):
            self._said, self._doing = event.seconds, event.doing
            self._say(
                f"{event.seconds:6.0f} s  {event.doing}: {event.expressions} expressions, kept {event.kept} "
                f"({event.nontrivial} non-trivial), subsumed {event.subsumed}, refuted {event.refuted}"
            )

    def close(self) -> None:
        """The counts."""
        if self._last is None:
            return
        e = self._last
        by_level = ", ".join(f"{n} {level}" for level, n in sorted(e.levels.items())) or "none"
        rows = [
            ("expressions enumerated", e.expressions),
            ("buckets", e.buckets),
            ("pairs that look equal", e.pairs),
            ("the same up to renaming", e.candidates),
            ("proved", e.proved),
            ("refuted", e.refuted),
            ("not shown", e.unproved),
            ("subsumed", e.subsumed),
            ("kept ones with another elementwise operator", e.alike),
            ("not reached", e.left),
            ("kept", e.kept),
            ("kept, by level", by_level),
            ("kept, non-trivial", e.nontrivial),
            ("of these already in transforms/", e.shipped),
            ("sets of arguments tried beyond the proofs", e.tried),
            ("CPU seconds", f"{e.seconds:.0f}"),
        ]
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            self._say(f"{name:<{width}}  {value}")

    def _say(self, line: str) -> None:
        print(line, file=self._stream, flush=True)
