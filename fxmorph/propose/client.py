"""The only place that talks to a language model: the chat protocol of OpenAI, through its own client.

vLLM, Ollama, llama.cpp and hosted services speak it too.  What the model says leaves here as
text and is never run.
"""

from __future__ import annotations

import json
import threading
from typing import Any

from fxmorph.config import ConfigError
from fxmorph.propose.meter import Usage
from fxmorph.propose.traffic import Answer, Body, Reply, Trouble, TroubleKind

#: Characters of an answer that are read; a stream that goes on is cut.
MAX_ANSWER = 200_000

#: Seconds that a whole answer may take, as a multiple of the time-out for a part of it.
_WHOLE = 10

_BY_STATUS = {
    401: TroubleKind.KEY,
    403: TroubleKind.KEY,
    402: TroubleKind.QUOTA,
    404: TroubleKind.MODEL,
    408: TroubleKind.TIMEOUT,
    409: TroubleKind.SERVER,
    425: TroubleKind.SERVER,
    429: TroubleKind.RATE,
}


class Client:
    """An endpoint at ``base_url`` ("" means OpenAI's own).

    ``timeout`` in seconds is for connecting and for each part of a stream; a whole answer may
    take ten times as long.  Raises :class:`ConfigError` where the ``openai`` package is missing
    or the address is none.
    """

    def __init__(self, base_url: str, key: str, timeout: float) -> None:
        try:
            import openai
        except ImportError:
            raise ConfigError("the openai package is missing: pip install openai") from None
        self._openai, self._timeout = openai, timeout
        if base_url and not base_url.startswith(("http://", "https://")):
            raise ConfigError(f"--base-url {base_url}: want an address such as http://localhost:8000/v1")
        # Retries are ours: the meter counts each, and Retry-After holds for all requests at once.
        self._client = openai.OpenAI(api_key=key, base_url=base_url or None, timeout=timeout, max_retries=0)

    def __call__(self, body: Body) -> Reply:
        """Ask once; troubles are returned, never raised."""
        heard: list[str] = []
        openai = self._openai
        try:
            return self._streamed(body, heard)
        except openai.APIStatusError as error:
            return _refusal(error)
        except openai.APITimeoutError:
            return Trouble(TroubleKind.TIMEOUT, f"no answer within {self._timeout:g} s", partial="".join(heard))
        except openai.APIConnectionError as error:
            said = _line(error.__cause__ or error)
            kind = TroubleKind.STREAM if heard else TroubleKind.CONNECTION
            return Trouble(kind, said, partial="".join(heard))
        except openai.APIError as error:  # an error inside a stream
            kind = TroubleKind.QUOTA if _quota(error) else TroubleKind.SERVER
            return Trouble(kind, _line(error), partial="".join(heard))
        except Exception as error:  # whatever a server sends that the client library does not foresee
            if "Timeout" in type(error).__name__:
                return Trouble(TroubleKind.TIMEOUT, f"no answer within {self._timeout:g} s", partial="".join(heard))
            return Trouble(TroubleKind.STREAM, f"{type(error).__name__}: {_line(error)}", partial="".join(heard))

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


def _whole(page: bytes) -> Answer:
    """A reply in one piece; raises whatever a page of another form does."""
    body = json.loads(page)
    choice, counted = body["choices"][0], body.get("usage") or {}
    usage = _counted(counted.get("prompt_tokens"), counted.get("completion_tokens"))
    text = str(choice["message"]["content"] or "").encode(errors="replace").decode()
    return Answer(text[:MAX_ANSWER], str(choice.get("finish_reason") or "stop"), usage)


def _refusal(error: Any) -> Trouble:
    """A reply with an HTTP status of 400 or more."""
    status = int(error.status_code)
    kind = _BY_STATUS.get(status, TroubleKind.SERVER if status >= 500 else TroubleKind.REFUSED)
    if kind is TroubleKind.RATE and _quota(error):
        kind = TroubleKind.QUOTA
    return Trouble(kind, _line(error), status, _retry_after(error.response.headers))


def _quota(error: Any) -> bool:
    return "insufficient_quota" in (getattr(error, "code", None), getattr(error, "type", None))


def _retry_after(headers: Any) -> float | None:
    """Seconds, of ``retry-after-ms`` or ``Retry-After``; a date is not read (RFC 9110 allows one)."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _usage(chunk: Any) -> Usage | None:
    counted = getattr(chunk, "usage", None)
    return _counted(getattr(counted, "prompt_tokens", None), getattr(counted, "completion_tokens", None))


def _counted(prompt: object, answer: object) -> Usage | None:
    return Usage(prompt, answer) if isinstance(prompt, int) and isinstance(answer, int) else None


def _line(error: object) -> str:
    """The message on one line, without the rest of a long page."""
    body = getattr(error, "body", None)
    told = body.get("message") if isinstance(body, dict) else None
    message = told or getattr(error, "message", None) or str(error) or type(error).__name__
    return " ".join(str(message).split())[:300]
