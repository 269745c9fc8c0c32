"""What goes to a language model and comes back: as records, and as a file that plays it again.

The file is JSON lines.  The first holds ``context``, what the prompts drew on, so that the same
prompts can be made again; the others an exchange each: ``request`` (hash), ``body`` (what was
asked), ``reply`` (an :class:`Answer` or :class:`Trouble`).  No key and no address is in it.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.model import digest
from fxmorph.propose.model.meter import Usage

#: The body of a request of the chat protocol: model, messages, response_format, ….
Body = Mapping[str, Any]


class TroubleKind(StrEnum):
    """Why there is no answer."""

    KEY = "key refused"
    QUOTA = "quota used up"
    MODEL = "no such model"
    REFUSED = "request refused"
    PROMPT = "prompt refused"
    RATE = "rate limit"
    SERVER = "server error"
    TIMEOUT = "time-out"
    CONNECTION = "no connection"
    STREAM = "stream broken"
    UNRECORDED = "not recorded"


@dataclass(frozen=True)
class Answer:
    """A whole answer.  ``finish`` is the server's word: ``stop``, ``length``, …"""

    text: str
    finish: str
    usage: Usage | None = None


@dataclass(frozen=True)
class Trouble:
    """No whole answer.

    ``status`` is the HTTP status, 0 where there was none; ``retry_after`` in seconds, as the
    server asked; ``partial`` what came before the stream broke.
    """

    kind: TroubleKind
    message: str
    status: int = 0
    retry_after: float | None = None
    partial: str = ""


Reply = Answer | Trouble
Endpoint = Callable[[Body], Reply]


def request_hash(body: Body) -> str:
    """16 hex digits of the model and of what is said to it.

    Not of the form that the answer is asked in: which of it a server takes is learnt on the way.
    """
    return digest([body["model"], body["messages"]])


class Recorder:
    """An endpoint that appends every exchange with another to ``file``, a new one beginning with ``context``.

    Raises :class:`ConfigError` where the file cannot be opened for writing.
    """

    def __init__(self, endpoint: Endpoint, file: Path, context: Mapping[str, Any]) -> None:
        self._endpoint, self._lock = endpoint, threading.Lock()
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._out = file.open("a", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written ({error.strerror})") from None
        # A session that was killed may have left half a line.
        self._write("\n" if self._out.tell() else json.dumps({"context": context}) + "\n")

    def __call__(self, body: Body) -> Reply:
        reply = self._endpoint(body)
        line = json.dumps({"request": request_hash(body), "body": body, "reply": _to_json(reply)})
        self._write(line + "\n")
        return reply

    def _write(self, text: str) -> None:
        with self._lock:
            self._out.write(text)
            self._out.flush()

    def close(self) -> None:
        """Close the file."""
        self._out.close()


class Replay:
    """An endpoint that answers from a file and opens no connection.

    The same request gets its replies in the order in which they were recorded, then goes to
    ``beyond``, which by default knows nothing.  With ``whole`` only answers are played and no
    troubles, as going on with a broken session needs.  Raises :class:`ConfigError` for a file
    that cannot be read; lines that were cut off are left out.
    """

    def __init__(self, file: Path, beyond: Endpoint | None = None, whole: bool = False) -> None:
        self.beyond = beyond or _unrecorded
        self._replies: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._lock = threading.Lock()
        self.model = ""
        #: Replies that came from the file.
        self.played = 0
        self.context, exchanges = _read(file)
        for body, reply in exchanges:
            self.model = self.model or str(body.get("model", ""))
            if isinstance(reply, Answer) or not whole:
                self._replies[request_hash(body)].append(reply)

    def knows(self, body: Body) -> bool:
        """Whether a reply to this request is still left."""
        with self._lock:
            return bool(self._replies[request_hash(body)])

    def __call__(self, body: Body) -> Reply:
        with self._lock:
            left = self._replies[request_hash(body)]
            found = left.popleft() if left else None
            self.played += found is not None
        return found if found is not None else self.beyond(body)


def _unrecorded(body: Body) -> Reply:
    why = "the file has no reply to this request: recorded with another torch, prompt, model, coverage or rules"
    return Trouble(TroubleKind.UNRECORDED, why)


def _read(file: Path) -> tuple[dict[str, Any], list[tuple[Body, Reply]]]:
    """The context, and the exchanges in order."""
    try:
        head, *lines = file.read_text(encoding="utf-8").split("\n")
        context: dict[str, Any] = json.loads(head)["context"]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ConfigError(f"{file}: not a file of traffic that fxmorph propose wrote") from None
    found: list[tuple[Body, Reply]] = []
    for line in lines:
        try:
            row = json.loads(line)
            found.append((dict(row["body"]), _from_json(row["reply"])))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return context, found


def _to_json(reply: Reply) -> dict[str, Any]:
    return {"answer" if isinstance(reply, Answer) else "trouble": asdict(reply)}


def _from_json(table: Mapping[str, Any]) -> Reply:
    if "trouble" in table:
        fields = dict(table["trouble"])
        return Trouble(**{**fields, "kind": TroubleKind(fields["kind"])})
    fields = dict(table["answer"])
    usage = fields.get("usage")
    return Answer(**{**fields, "usage": Usage(**usage) if usage else None})
