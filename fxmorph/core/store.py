"""What runs leave behind: one SQLite file in the state folder.

The parent process is the only writer.  Each result is a transaction of its own in WAL mode,
so that ``kill -9`` at any moment loses nothing that was recorded.  Readers need no lock and
may look while a run goes on.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fxmorph.core.config import Settings
from fxmorph.core.nights import Night
from fxmorph.core.records import from_json, to_json
from fxmorph.model import Case, CaseResult, Finding

DATABASE = "fxmorph.db"
#: The page that shows what runs found.
PAGE = "report.html"
LOCK = "lock"
SCHEMA_VERSION = 2

_TABLES = """
CREATE TABLE runs(
    id TEXT PRIMARY KEY, started REAL NOT NULL, settings TEXT NOT NULL, header TEXT NOT NULL,
    finished REAL, summary TEXT);
CREATE TABLE results(
    run TEXT NOT NULL REFERENCES runs(id), position INTEGER NOT NULL, case_id TEXT NOT NULL,
    body TEXT NOT NULL, result TEXT NOT NULL, PRIMARY KEY(run, case_id));
CREATE TABLE findings(
    run TEXT NOT NULL REFERENCES runs(id), id TEXT NOT NULL, folder TEXT NOT NULL,
    duplicate_of TEXT NOT NULL, finding TEXT NOT NULL, PRIMARY KEY(run, id));
CREATE TABLE refusals(run TEXT NOT NULL REFERENCES runs(id), seed TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY(run, seed));
CREATE TABLE passes(run TEXT NOT NULL REFERENCES runs(id), position INTEGER NOT NULL, source TEXT NOT NULL,
    judged TEXT NOT NULL, PRIMARY KEY(run, position));
CREATE TABLE seconds(run TEXT NOT NULL REFERENCES runs(id), activity TEXT NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY(run, activity));
"""

#: The tables that say something of a run, and the column that has its id.
_OF_A_RUN = {
    "runs": "id", "results": "run", "findings": "run", "refusals": "run", "passes": "run", "seconds": "run",
}  # fmt: skip
#: Besides the tables of runs, so that folders of before have it too: proposals, what the gate said of them
#: with which versions, and the exchange with a language model that they came from.
_PROPOSALS = """
CREATE TABLE IF NOT EXISTS proposals(
    hash TEXT NOT NULL, versions TEXT NOT NULL, at REAL NOT NULL, text TEXT NOT NULL, judged TEXT NOT NULL,
    prompt TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY(hash, versions));
"""
#: The same of nights, which belong to a folder and not to a run.
_NIGHTS = "CREATE TABLE IF NOT EXISTS nights(number INTEGER PRIMARY KEY, night TEXT NOT NULL);"


class StoreError(Exception):
    """The store cannot do what was asked; the message is one line, ready to print."""


class DiskError(StoreError):
    """The disk or the folder is in the way: full, read-only, not permitted, damaged."""


@dataclass(frozen=True)
class StoredRun:
    """A run as it was begun; ``started`` and ``finished`` (None: it did not) in seconds since 1970.

    ``summary`` is the ``run-finished`` line, empty where there is none yet.
    """

    id: str
    started: float
    finished: float | None
    settings: Settings
    header: dict[str, Any]
    summary: dict[str, Any]


class Store:
    """The state folder ``path``; a context manager.

    With ``write`` (the default) the folder is made where it is missing and held by a lock
    until :meth:`close`; a second writer gets a :class:`StoreError`.  Without it nothing is
    changed, and a folder without a database is a :class:`StoreError`.
    """

    def __init__(self, path: Path, write: bool = True) -> None:
        self.path = path
        self._file = path / DATABASE
        self._lock: int | None = None
        if not write and not self._file.is_file():
            raise StoreError(f"no fxmorph state in {path} (nothing was run here; --state names another folder)")
        if write:
            self._take_folder()
        try:
            with self._guard():
                self._db = self._open(write)
        except BaseException:
            self._release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the database and give the folder free."""
        self._db.close()
        self._release()

    # Runs

    def create_run(self, settings: Settings, header: Mapping[str, Any]) -> str:
        """Begin a run; returns its id, 8 hex digits."""
        run_id = secrets.token_hex(4)
        self._write(
            "INSERT INTO runs(id, started, settings, header) VALUES(?, ?, ?, ?)",
            (run_id, time.time(), _dump(to_json(settings)), _dump(to_json(dict(header)))),
        )
        return run_id

    def unfinished_run(self) -> tuple[str, Settings] | None:
        """The latest run, if it did not finish, with the settings that it began with."""
        rows = self._read("SELECT id, settings, finished FROM runs ORDER BY started DESC, rowid DESC LIMIT 1")
        if not rows or rows[0][2] is not None:
            return None
        return rows[0][0], self._record(Settings, rows[0][1])

    def finish_run(self, run_id: str, summary: Mapping[str, Any], resumable: bool = False) -> None:
        """Keep the summary, and unless the run is ``resumable`` mark it finished."""
        self._write(
            "UPDATE runs SET finished = ?, summary = ? WHERE id = ?",
            (None if resumable else time.time(), _dump(to_json(dict(summary))), run_id),
        )

    def last_run(self) -> tuple[str, dict[str, Any], dict[str, Any]] | None:
        """Id, header and summary (empty until it ended or was interrupted) of the latest run."""
        rows = self._read("SELECT id, header, summary FROM runs ORDER BY started DESC, rowid DESC LIMIT 1")
        if not rows:
            return None
        run_id, header, summary = rows[0]
        return run_id, self._table(header), self._table(summary or "{}")

    def runs(self) -> list[StoredRun]:
        """Every run, oldest first."""
        rows = self._read("SELECT id, started, finished, settings, header, summary FROM runs ORDER BY started, rowid")
        return [
            StoredRun(
                run_id, started, finished, self._record(Settings, settings), self._table(header),
                self._table(summary or "{}"),
            )
            for run_id, started, finished, settings, header, summary in rows
        ]  # fmt: skip

    def header(self, run_id: str) -> dict[str, Any]:
        """The header that the run has now."""
        return self._table(self._one("SELECT header FROM runs WHERE id = ?", (run_id,), f"no run {run_id!r}")[0])

    def set_header(self, run_id: str, header: Mapping[str, Any]) -> None:
        """Replace the header of a run."""
        self._write("UPDATE runs SET header = ? WHERE id = ?", (_dump(to_json(dict(header))), run_id))

    def progress(self, run_id: str) -> tuple[bool, int, int]:
        """How far a run is: whether it finished, how many cases are judged, how many findings are confirmed."""
        (row,) = self._read(
            "SELECT (SELECT finished IS NOT NULL FROM runs WHERE id = :run),"
            " (SELECT count(*) FROM results WHERE run = :run),"
            " (SELECT count(*) FROM findings WHERE run = :run AND json_extract(finding, '$.confirmed'))",
            {"run": run_id},
        )
        return bool(row[0]), row[1], row[2]

    def adopt(self, other: Store, run_id: str) -> None:
        """Take all that another store has of a run, in place of what this one has of it."""
        with self._guard():
            self._db.execute("ATTACH ? AS other", (f"{other._file.resolve().as_uri()}?mode=ro",))
            try:
                with self._transaction():
                    for table, key in _OF_A_RUN.items():
                        self._db.execute(f"DELETE FROM main.{table} WHERE {key} = ?", (run_id,))
                        self._db.execute(
                            f"INSERT INTO main.{table} SELECT * FROM other.{table} WHERE {key} = ? ORDER BY rowid",
                            (run_id,),
                        )
            finally:
                self._db.execute("DETACH other")

    # What runs record

    def add_result(self, run_id: str, index: int, case: Case, result: CaseResult) -> None:
        """Record one judged case; ``index`` is its place in the order of the run."""
        self._write(
            "INSERT OR REPLACE INTO results(run, position, case_id, body, result) VALUES(?, ?, ?, ?, ?)",
            (run_id, index, result.case_id, _dump(to_json(case)), _dump(to_json(result))),
        )

    def results(self, run_id: str) -> dict[str, CaseResult]:
        """Results by case id, in the order of the run."""
        rows = self._read("SELECT case_id, result FROM results WHERE run = ? ORDER BY position", (run_id,))
        return {case_id: self._record(CaseResult, text) for case_id, text in rows}

    def cases(self, run_id: str) -> list[tuple[int, Case, CaseResult]]:
        """Index, case and result, in the order of the run."""
        rows = self._read("SELECT position, body, result FROM results WHERE run = ? ORDER BY position", (run_id,))
        return [(index, self._record(Case, body), self._record(CaseResult, result)) for index, body, result in rows]

    def add_finding(
        self, run_id: str, finding: Finding, folder: str, duplicate_of: str = "", instead_of: str = ""
    ) -> None:
        """Record a finding; ``duplicate_of`` is the id of the one that has its root cause.

        It takes the place of the one with the id ``instead_of``, whose folder goes, in all runs that have that one and
        in one transaction: at each moment one of them is there.
        """
        row = (finding.id, folder, duplicate_of, _dump(to_json(finding)))
        with self._guard(), self._transaction():
            if instead_of:
                self._db.execute(
                    "UPDATE OR REPLACE findings SET id = ?, folder = ?, duplicate_of = ?, finding = ? WHERE id = ?",
                    (*row, instead_of),
                )
            self._db.execute(
                "INSERT OR REPLACE INTO findings(run, id, folder, duplicate_of, finding) VALUES(?, ?, ?, ?, ?)",
                (run_id, *row),
            )

    def forget_finding(self, run_id: str, finding: Finding) -> None:
        """It was none."""
        with self._guard(), self._transaction():
            self._db.execute("DELETE FROM findings WHERE run = ? AND id = ?", (run_id, finding.id))

    def findings(self, run_id: str | None = None, duplicates: bool = False) -> list[Finding]:
        """Findings of a run, or of all runs (each id once, as last recorded), oldest first."""
        rows = self._read(
            "SELECT finding FROM findings WHERE rowid IN (SELECT max(rowid) FROM findings"
            " WHERE run = ? OR ? IS NULL GROUP BY id) AND (duplicate_of = '' OR ?) ORDER BY rowid",
            (run_id, run_id, duplicates),
        )
        return [self._record(Finding, text) for (text,) in rows]

    def finding(self, id_prefix: str) -> tuple[Finding, str]:
        """The finding whose id begins so, and its folder; StoreError if none or several do."""
        rows = self._read(
            "SELECT id, finding, folder FROM findings WHERE rowid IN (SELECT max(rowid) FROM findings GROUP BY id)"
            " AND substr(id, 1, ?) = ? ORDER BY rowid",
            (len(id_prefix), id_prefix),
        )
        rows = [row for row in rows if row[0] == id_prefix] or rows
        if not rows or not id_prefix:
            raise StoreError(f"no finding {id_prefix!r} in {self.path} (`fxmorph findings` lists them)")
        if len(rows) > 1:
            raise StoreError(f"finding {id_prefix!r} is ambiguous: {', '.join(row[0] for row in rows)}")
        return self._record(Finding, rows[0][1]), rows[0][2]

    def placed(self, run_id: str) -> list[tuple[Finding, str, str]]:
        """Each finding of a run, oldest first, with its folder and the id of which it is a duplicate."""
        rows = self._read("SELECT finding, folder, duplicate_of FROM findings WHERE run = ? ORDER BY rowid", (run_id,))
        return [(self._record(Finding, text), folder, duplicate_of) for text, folder, duplicate_of in rows]

    def place(self, finding_id: str) -> tuple[str, str]:
        """Folder of the finding with exactly this id, and the id of which it is a duplicate."""
        row = self._one(
            "SELECT folder, duplicate_of FROM findings WHERE id = ? ORDER BY rowid DESC",
            (finding_id,),
            f"no finding {finding_id!r}",
        )
        return row[0], row[1]

    def add_passes(self, run_id: str, index: int, source: str, judged: Any) -> None:
        """Record what units did on the graphs of one source; ``judged`` is a plain table."""
        self._write(
            "INSERT OR REPLACE INTO passes(run, position, source, judged) VALUES(?, ?, ?, ?)",
            (run_id, index, source, _dump(judged)),
        )

    def passes(self, run_id: str) -> list[tuple[str, dict[str, Any]]]:
        """Sources and what units did on their graphs, in the order of the run."""
        rows = self._read("SELECT source, judged FROM passes WHERE run = ? ORDER BY position", (run_id,))
        return [(source, self._table(text)) for source, text in rows]

    def summaries(self) -> list[tuple[str, dict[str, Any]]]:
        """Id and summary of each run that ended or was interrupted, newest first."""
        rows = self._read("SELECT id, summary FROM runs WHERE summary IS NOT NULL ORDER BY started DESC, rowid DESC")
        return [(run_id, self._table(text)) for run_id, text in rows]

    def add_refusal(self, run_id: str, seed_path: str, reason: str) -> None:
        """Record that a seed did not load."""
        self._write("INSERT OR REPLACE INTO refusals(run, seed, reason) VALUES(?, ?, ?)", (run_id, seed_path, reason))

    def refusals(self, run_id: str) -> dict[str, str]:
        """Reasons by seed path."""
        return dict(self._read("SELECT seed, reason FROM refusals WHERE run = ? ORDER BY rowid", (run_id,)))

    def add_proposal(
        self, hash: str, versions: str, text: str, judged: Any, prompt: str = "", answer: str = ""
    ) -> None:
        """Record what the gate, as ``versions`` has it, said of a proposal; ``judged`` is a plain table."""
        self._write(
            "INSERT OR REPLACE INTO proposals(hash, versions, at, text, judged, prompt, answer)"
            " VALUES(?, ?, ?, ?, ?, ?, ?)",
            (hash, versions, time.time(), text, _dump(judged), prompt, answer),
        )

    def proposals(self, versions: str) -> dict[str, dict[str, Any]]:
        """What the gate, as ``versions`` has it, said of proposals, by their hash."""
        rows = self._read("SELECT hash, judged FROM proposals WHERE versions = ? ORDER BY rowid", (versions,))
        return {hash: self._table(text) for hash, text in rows}

    def add_seconds(self, run_id: str, seconds: Mapping[str, float]) -> None:
        """Add CPU seconds to the run's account, by activity."""
        with self._guard(), self._transaction():
            self._db.executemany(
                "INSERT INTO seconds(run, activity, seconds) VALUES(?, ?, ?)"
                " ON CONFLICT(run, activity) DO UPDATE SET seconds = seconds + excluded.seconds",
                [(run_id, activity, float(value)) for activity, value in seconds.items()],
            )

    def seconds(self, run_id: str) -> dict[str, float]:
        """CPU seconds of the run so far, by activity."""
        return dict(self._read("SELECT activity, seconds FROM seconds WHERE run = ? ORDER BY activity", (run_id,)))

    def add_night(self, night: Night) -> None:
        """Record a night, in place of one with its number."""
        self._write("INSERT OR REPLACE INTO nights(number, night) VALUES(?, ?)", (night.number, _dump(to_json(night))))

    def nights(self) -> list[Night]:
        """Every night, oldest first; of a store that was opened to be written once."""
        return [self._record(Night, text) for (text,) in self._read("SELECT night FROM nights ORDER BY number")]

    def forget_cases(self, run_ids: Iterable[str]) -> None:
        """Keep of these runs what they found and counted, and not the cases, nor what no fresh process showed."""
        runs = [(run_id,) for run_id in run_ids]
        with self._guard():
            with self._transaction():
                for table in ("results", "passes"):
                    self._db.executemany(f"DELETE FROM {table} WHERE run = ?", runs)
                seen = "DELETE FROM findings WHERE run = ? AND NOT json_extract(finding, '$.confirmed')"
                self._db.executemany(seen, runs)
            self._db.execute("VACUUM")  # the file is as large as what it once held

    # The file

    def _take_folder(self) -> None:
        with self._guard():
            self.path.mkdir(parents=True, exist_ok=True)
            ignore = self.path / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n", encoding="utf-8")
            # flock and not fcntl.lockf: a second open in the same process must fail too.
            # The descriptor closes on exec, so a worker that outlives the parent holds no lock.
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._lock, 20).decode(errors="replace").strip()
            self._release()
            raise StoreError(
                f"{self.path} is in use by another fxmorph{f' (process {holder})' if holder else ''};"
                " wait for it, or give this one its own folder with --state"
            ) from None
        with self._guard():
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)

    def _release(self) -> None:
        if self._lock is not None:
            # Closing is not enough: a process that another thread is just starting has the descriptor until it execs.
            with contextlib.suppress(OSError):
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None

    def _open(self, write: bool) -> sqlite3.Connection:
        mode = "rwc" if write else "ro"
        uri = f"{self._file.resolve().as_uri()}?mode={mode}"
        db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)
        try:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if write:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                if version == 0:
                    # One transaction with the version, so that a kill in between leaves none.
                    db.executescript(f"BEGIN;{_TABLES}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
                    version = SCHEMA_VERSION
                db.execute(_PROPOSALS)
                db.execute(_NIGHTS)
            if version != SCHEMA_VERSION:
                raise StoreError(
                    f"{self._file} has format {version}, this fxmorph reads {SCHEMA_VERSION}:"
                    " move the folder away, or name another with --state"
                )
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what the system says into one line with a way out."""
        try:
            yield
        except sqlite3.Error as error:
            raise DiskError(f"{self._file}: {error}; {_advice(error)}") from error
        except OSError as error:
            raise DiskError(f"{self.path}: {error.strerror or error}; {_advice(error)}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            # A full disk may have rolled the transaction back already.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        with self._guard(), self._transaction():
            self._db.execute(statement, values)

    def _read(self, statement: str, values: tuple[Any, ...] | dict[str, Any] = ()) -> list[tuple[Any, ...]]:
        with self._guard():
            return self._db.execute(statement, values).fetchall()

    def _one(self, statement: str, values: tuple[Any, ...], missing: str) -> tuple[Any, ...]:
        rows = self._read(statement, values)
        if not rows:
            raise StoreError(f"{missing} in {self.path}")
        return rows[0]

    def _record(self, cls: type[Any], text: str) -> Any:
        try:
            return from_json(cls, json.loads(text))
        except ValueError as error:
            raise DiskError(f"{self._file}: a record does not read back ({error}); {_DAMAGED}") from error

    def _table(self, text: str) -> dict[str, Any]:
        table: dict[str, Any] = json.loads(text)
        return table


_DAMAGED = "move the folder away, or name another with --state"


def _advice(error: Exception) -> str:
    text = str(error)
    if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "full" in text:
        return "free space on that disk, then go on with --resume"
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return _DAMAGED
    return "name a folder that can be written with --state"


def _dump(body: Any) -> str:
    return json.dumps(body, allow_nan=False, separators=(",", ":"))
