"""What a session leaves in the state folder, so that it can be read, gone on with and learnt from.

``propose/<time>/`` holds ``traffic.jsonl`` (every prompt and answer: ``traffic.py``), ``tried.jsonl``
(every proposal with what the gate said, a line each, ``request`` naming its exchange) and
``proposals/`` (what was admitted, as a pack with its outcomes: a corpus has such a folder too, so that
``fxmorph run corpus/ FOLDER --propose`` uses it).  ``turn.json`` says which turn of which campaign had it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.core.store import DiskError
from fxmorph.propose.gate.outcomes import OUTCOMES, write_outcomes
from fxmorph.propose.model.session import Tried
from fxmorph.propose.proposal import Outcome

#: Refuted proposals of earlier sessions that a new one is told of.
MOST_REFUTED = 200


class Kept:
    """The folder of one session; raises :class:`DiskError` where it cannot be written."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.traffic = folder / "traffic.jsonl"
        self._tried = folder / "tried.jsonl"

    @classmethod
    def new(cls, state: Path) -> Kept:
        """A folder for a session that begins now."""
        stamp = time.strftime("%Y%m%d-%H%M%S")
        number, folder = 1, state / "propose" / stamp
        while folder.exists():
            number, folder = number + 1, folder.with_name(f"{stamp}-{number}")
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror}; name a folder that can be written with --state") from None
        return cls(folder)

    @classmethod
    def last(cls, state: Path) -> Kept:
        """The latest session; raises :class:`ConfigError` if there is none."""
        found = _folders(state)
        if not found:
            raise ConfigError(f"no session in {state / 'propose'} to go on with: leave --resume out")
        return cls(found[-1])

    @classmethod
    def of_run(cls, state: Path, run_id: str, turn: int) -> Kept | None:
        """The session that a campaign had before this turn; None if it had none, or did not get to its end."""
        return next((kept for kept in map(cls, _folders(state)) if kept._turn() == [run_id, turn]), None)

    def belongs(self, run_id: str, turn: int) -> None:
        """Note that a campaign had this session, whole, before this turn."""
        self._write(self.folder / "turn.json", json.dumps([run_id, turn]), "w")

    def _turn(self) -> list[Any]:
        try:
            found: list[Any] = json.loads((self.folder / "turn.json").read_text())
        except (OSError, ValueError):
            return []
        return found

    def add(self, tried: Tried) -> None:
        """Keep one proposal."""
        question, judged = tried.question, tried.judged
        row = {
            "request": tried.request, "target": question.target, "prompt": question.prompt, "turn": question.turn,
            "proposal": tried.text, **asdict(judged),
        }  # fmt: skip
        self._write(self._tried, json.dumps(row) + "\n", "a")

    def restart(self) -> None:
        """Forget the proposals: going on judges them again, in the same order."""
        self._tried.unlink(missing_ok=True)

    def pack(self, tried: Sequence[Tried]) -> None:
        """Write the pack of what was admitted."""
        folder = self.folder / "proposals"
        admitted = [t for t in tried if t.judged.outcome is Outcome.ADMITTED]
        try:
            folder.mkdir(exist_ok=True)
            self._write(folder / "model.jsonl", "".join(t.text + "\n" for t in admitted), "w")
            write_outcomes(folder / OUTCOMES, [t.judged for t in admitted])
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror}; free space on that disk, then go on with --resume") from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """What was tried, in order; lines that were cut off are left out."""
        if not self._tried.is_file():
            return
        for line in self._tried.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def _write(self, file: Path, text: str, mode: str) -> None:
        try:
            with file.open(mode, encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            raise DiskError(f"{file}: {error.strerror}; free space on that disk, then go on with --resume") from None


def _folders(state: Path) -> list[Path]:
    where = state / "propose"
    return sorted(f for f in where.iterdir() if f.is_dir()) if where.is_dir() else []


def refuted_before(state: Path) -> list[tuple[str, str, str]]:
    """What the sessions so far had refuted, oldest first: target, proposal as JSON text, why."""
    rows = [row for folder in _folders(state) for row in Kept(folder).rows() if row["outcome"] == Outcome.REFUTED]
    return [(row["target"], row["proposal"], row["counterexample"] or row["reason"]) for row in rows[-MOST_REFUTED:]]
