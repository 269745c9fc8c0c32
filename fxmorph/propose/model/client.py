"""The only place that talks to a language model: the chat protocol of OpenAI, through its own client.

vLLM, Ollama, llama.cpp and hosted services speak it too.  What the model says leaves here as
text and is never run.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from fxmorph.core.config import ConfigError
from fxmorph.propose.model.meter import Usage
from fxmorph.propose.model.traffic import Answer, Body, Reply, Trouble, TroubleKind
from fxmorph.propose.proposal import printable

#: Characters of an answer that are read; a stream that goes on is cut.
MAX_ANSWER = 200_000

#: Seconds that a whole answer may take, as a multiple of the time-out for a part of it.
_WHOLE = 10

#: What is sent where there is no key; servers of one's own take any.
_NO_KEY = "none"

#: A shorter key is a word such as ``x`` that a local server wants, and would be found in any text.
_SHORTEST_KEY = 6

#: Refusals of one prompt, which say nothing of the next one.
_OF_PROMPT = {"context_length_exceeded", "string_above_max_length", "content_filter", "content_policy_violation"}

_BY_STATUS = {
    401: TroubleKind.KEY,
    403: TroubleKind.KEY,
    402: TroubleKind.QUOTA,
    404: TroubleKind.MODEL,
    408: TroubleKind.TIMEOUT,
    409: TroubleKind.SERVER,
    413: TroubleKind.PROMPT,
    425: TroubleKind.SERVER,
    429: TroubleKind.RATE,
}


class Client:
    """An endpoint at ``base_url`` ("" means OpenAI's own); ``key`` is "" where none is needed.

    The key is in nothing that comes back, whatever a server echoes.  ``timeout`` in seconds is for
    connecting and for each part of a stream; a whole answer may take ten times as long.  Raises
    :class:`ConfigError` where the ``openai`` package is missing or the address is none.
    """

    def __init__(self, base_url: str, key: str, timeout: float) -> None:
        try:
            import openai
        except ImportError:
            raise ConfigError("the openai package is missing: pip install openai") from None
        self._openai, self._key, self._timeout = openai, key, timeout
        if base_url and not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"--base-url {base_url}: want an address such as http://localhost:8000/v1")
        # Retries are ours: the meter counts each, and Retry-After holds for all requests at once.
        self._client = openai.OpenAI(api_key=key or _NO_KEY, base_url=base_url or None, timeout=timeout, max_retries=0)

    def __call__(self, body: Body) -> Reply:
        """Ask once; troubles are returned, never raised."""
        reply = self._asked(body)
        if isinstance(reply, Answer):
            return replace(reply, text=self._masked(reply.text), finish=_line(reply.finish, self._masked))
        return replace(reply, message=self._masked(reply.message), partial=self._masked(reply.partial))

    def _masked(self, text: str) -> str:
        return text.replace(self._key, "***") if len(self._key) >= _SHORTEST_KEY else text

    def _asked(self, body: Body) -> Reply:
        heard: list[str] = []
        openai = self._openai
        try:
            return self._streamed(body, heard)
        except openai.APIStatusError as error:
            return _refusal(error, self._masked)
        except openai.APITimeoutError:
            return Trouble(TroubleKind.TIMEOUT, f"no answer within {self._timeout:g} s", partial="".join(heard))
        except openai.APIConnectionError as error:
            said = _line(error.__cause__ or error, self._masked)
            kind = TroubleKind.STREAM if heard else TroubleKind.CONNECTION
            return Trouble(kind, said, partial="".join(heard))
        except openai.APIError as error:  # an error inside a stream
            kind = TroubleKind.QUOTA if _quota(error) else TroubleKind.SERVER
            return Trouble(kind, _line(error, self._masked), partial="".join(heard))
        except Exception as error:  # whatever a server sends that the client library does not foresee
            if "Timeout" in type(error).__name__:
                return Trouble(TroubleKind.TIMEOUT, f"no answer within {self._timeout:g} s", partial="".join(heard))
            said = f"{type(error).__name__}: {_line(error, self._masked)}"
            return Trouble(TroubleKind.STREAM, said, partial="".join(heard))

    def _streamed(self, body: Body, heard: list[str]) -> Reply:
        finish, usage, size = "", None, 0
        stream = self._client.chat.completions.create(**body, stream=True)
        if stream.response.headers.get("content-type", "").startswith("application/json"):
            return _whole(stream.response.read())  # a server that does not stream
        # A stream that drips keeps each part within its time-out; this ends it as a whole.
        overdue = threading.Timer(_WHOLE * self._timeout, stream.close)
        overdue.daemon = True
        overdue.start()
        try:
            for chunk in stream:
                usage = _usage(chunk) or usage
                for choice in (chunk.choices or ())[:1]:
                    # Half of a surrogate pair cannot be written to a file.
                    piece = (choice.delta.content or "").encode(errors="replace").decode()
                    heard.append(piece)
                    size += len(piece)
                    finish = choice.finish_reason or finish
                if size > MAX_ANSWER:
                    return Answer("".join(heard)[:MAX_ANSWER], "too long", usage)
        finally:
            overdue.cancel()
            stream.close()
        text = "".join(heard)
        if not finish:
            return Trouble(TroubleKind.STREAM, "the stream ends before the answer does", partial=text)
        return Answer(text, str(finish), usage)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _whole(page: bytes) -> Reply:
    """A reply in one piece."""
    try:
        body = json.loads(page)
        choice, counted = body["choices"][0], body.get("usage") or {}
        usage = _counted(counted.get("prompt_tokens"), counted.get("completion_tokens"))
        text = str(choice["message"]["content"] or "").encode(errors="replace").decode()
        return Answer(text[:MAX_ANSWER], str(choice.get("finish_reason") or "stop"), usage)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Trouble(TroubleKind.STREAM, "the page is no answer of the chat protocol: no choices with a message")


def _refusal(error: Any, masked: Callable[[str], str]) -> Trouble:
    """A reply with an HTTP status of 400 or more."""
    status, said = int(error.status_code), _line(error, masked)
    kind = _BY_STATUS.get(status, TroubleKind.SERVER if status >= 500 else TroubleKind.REFUSED)
    if kind is TroubleKind.RATE and _quota(error):
        kind = TroubleKind.QUOTA
    if kind is TroubleKind.REFUSED and getattr(error, "code", None) in _OF_PROMPT:
        kind = TroubleKind.PROMPT
    if kind is TroubleKind.MODEL:
        said += " (or the address is wrong: is /v1 missing?)"
    return Trouble(kind, said, status, _retry_after(error.response.headers))


def _quota(error: Any) -> bool:
    return "insufficient_quota" in (getattr(error, "code", None), getattr(error, "type", None))


def _retry_after(headers: Any) -> float | None:
    """Seconds, of ``retry-after-ms`` or ``Retry-After``; of a date (RFC 9110) until then, None where it is past."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
        seconds = (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds > 0 else None


def _usage(chunk: Any) -> Usage | None:
    counted = getattr(chunk, "usage", None)
    return _counted(getattr(counted, "prompt_tokens", None), getattr(counted, "completion_tokens", None))


def _counted(prompt: object, answer: object) -> Usage | None:
    return Usage(prompt, answer) if isinstance(prompt, int) and isinstance(answer, int) else None


def _line(error: object, masked: Callable[[str], str]) -> str:
    """The message on one line, without the key, control characters and the rest of a long page."""
    body = getattr(error, "body", None)
    told = body.get("message") if isinstance(body, dict) else None
    message = told or getattr(error, "message", None) or str(error) or type(error).__name__
    return printable(" ".join(masked(str(message)).split()))[:300]
