"""One question to a language model until there is an answer: back-off, fallbacks, budget."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fxmorph.propose.model.meter import Meter, Spent, Usage, estimated_tokens
from fxmorph.propose.model.traffic import Answer, Body, Endpoint, Reply, Trouble, TroubleKind

Message = Mapping[str, str]

#: Times that one question is asked before it is given up.
ATTEMPTS = 5

#: Seconds of the first wait, which doubles, and the longest that is waited.
FIRST_WAIT, LONGEST_WAIT = 1.0, 120.0

#: Troubles that may be gone after a while.
_PASSING = {TroubleKind.RATE, TroubleKind.SERVER, TroubleKind.TIMEOUT, TroubleKind.CONNECTION, TroubleKind.STREAM}

#: Troubles that every other question would meet too.
FINAL = {TroubleKind.KEY, TroubleKind.QUOTA, TroubleKind.MODEL}


@dataclass
class Asker:
    """Asks ``endpoint``; threads may share it.

    ``live`` says whether a request goes to a server, so that calls that are only played again
    cost nothing and wait for nothing.
    """

    endpoint: Endpoint
    model: str
    meter: Meter
    live: Callable[[Body], bool] = lambda body: True
    #: Of a recorded session: whether it holds another reply to a request.
    recorded: Callable[[Body], bool] | None = None
    sleep: Callable[[float], None] = time.sleep
    #: Requests by what became of them: ``answered``, or the word of the trouble.
    counts: Counter[str] = field(default_factory=Counter)
    #: What the server does not take and is no longer asked for.
    _dropped: set[str] = field(default_factory=set)
    _not_before: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, messages: Sequence[Message], name: str, schema: Mapping[str, Any]) -> Callable[[], Reply]:
        """Take the first call, and give what makes it, which may run on another thread.

        That gives the answer or the last trouble; this raises :class:`fxmorph.propose.model.meter.Spent`.
        """
        said = [dict(m) for m in messages]
        taken = self._take(self._body(said, name, schema))
        return lambda: self._ask(said, name, schema, taken)

    def _ask(self, messages: list[dict[str, str]], name: str, schema: Mapping[str, Any], taken: float | None) -> Reply:
        attempt = 0
        #: What this question is asked without: for good only if that is answered.
        without: set[str] = set()
        reply: Reply | None = None
        while True:
            body = self._body(messages, name, schema, without)
            try:
                reply = self._once(body, self._take(body) if attempt else taken)
            except Spent:
                if reply is None:
                    raise
                return reply
            attempt += 1
            if isinstance(reply, Answer):
                with self._lock:
                    self._dropped |= without
                return reply
            if reply.kind is TroubleKind.REFUSED and self.recorded is not None:
                if self.recorded(body):  # asked again then, in another form
                    continue
                return reply
            refused = _refused_part(reply, body)
            if refused:
                without.add(refused)
                continue
            if reply.kind not in _PASSING or attempt >= ATTEMPTS:
                return reply
            wait = reply.retry_after if reply.retry_after is not None else FIRST_WAIT * 2 ** (attempt - 1)
            if wait > LONGEST_WAIT:
                return reply
            self._hold(wait, everyone=reply.kind is TroubleKind.RATE)
            if self.live(body):
                self._wait(wait)

    def _body(
        self, messages: list[dict[str, str]], name: str, schema: Mapping[str, Any], without: Collection[str] = ()
    ) -> dict[str, Any]:
        with self._lock:
            dropped = self._dropped.union(without)
        body: dict[str, Any] = {"model": self.model, "messages": messages}
        if "response_format" not in dropped:
            # Not strict: OpenAI's strict mode has no tables with free keys, which `args` is.
            form = {"name": name, "schema": schema, "strict": False}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        if "stream_options" not in dropped:
            body["stream_options"] = {"include_usage": True}
        return body

    def _take(self, body: Body) -> float | None:
        """Take a call; None where it is played again and costs nothing."""
        return self.meter.take(_prompt_tokens(body)) if self.live(body) else None

    def _once(self, body: Body, taken: float | None) -> Reply:
        if taken is not None:
            self._wait(0.0)
        usage = Usage(0, 0)
        try:
            reply = self.endpoint(body)
            heard = reply.text if isinstance(reply, Answer) else reply.partial
            counted = reply.usage if isinstance(reply, Answer) else None
            if counted or heard:
                usage = counted or Usage(_prompt_tokens(body), estimated_tokens(heard), estimated=True)
        finally:
            if taken is not None:
                self.meter.settle(taken, usage)
        with self._lock:
            self.counts["answered" if isinstance(reply, Answer) else reply.kind.value] += 1
        return reply

    def _hold(self, wait: float, everyone: bool) -> None:
        """A rate limit holds for every request."""
        if everyone:
            with self._lock:
                self._not_before = max(self._not_before, time.monotonic() + wait)

    def _wait(self, at_least: float) -> None:
        with self._lock:
            wait = max(at_least, self._not_before - time.monotonic())
        if wait > 0:
            self.sleep(wait)


def _prompt_tokens(body: Body) -> int:
    return estimated_tokens(json.dumps(body["messages"], ensure_ascii=False))


def _refused_part(trouble: Trouble, body: Body) -> str:
    """The part of the request that a server does not take and that can be left out; "" where it is none."""
    if trouble.kind is not TroubleKind.REFUSED or trouble.status not in (400, 422):
        return ""
    said = trouble.message.lower()
    if "stream_options" in body and ("stream_options" in said or "include_usage" in said):
        return "stream_options"
    # Servers say it in many words ("json_schema is not supported", "unknown field"): try once without.
    return next((part for part in ("response_format", "stream_options") if part in body), "")
