"""A local HTTP server that speaks the chat protocol of OpenAI, and says what a test scripts."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Say:
    """One reply.  ``cut`` ends the stream after the text without a finish, ``drop`` in the middle of a chunk.

    ``wait``: seconds before the first byte, or what is called then.  ``raw``: data lines of the stream
    instead; ``page``: the whole reply in one piece instead.
    """

    text: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: Any = None
    cut: bool = False
    drop: bool = False
    wait: float | Callable[[], object] = 0.0
    raw: tuple[str, ...] = ()
    finish: str = "stop"
    usage: bool = True
    page: Any = None


@dataclass
class ChatServer:
    """``script`` gives the next reply to a request's body; every body is kept."""

    script: Callable[[dict[str, Any]], Say]
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    keys: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


def in_turn(*replies: Say) -> Callable[[dict[str, Any]], Say]:
    """The replies in order, then the last one for ever."""
    left = deque(replies)

    def script(body: dict[str, Any]) -> Say:
        return left.popleft() if len(left) > 1 else left[0]

    return script


@contextmanager
def serving(script: Callable[[dict[str, Any]], Say]) -> Iterator[ChatServer]:
    """A server on a free port of this machine."""
    server = ChatServer(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with server.lock:
                server.bodies.append(body)
                server.times.append(time.monotonic())
                server.keys[self.headers.get("Authorization", "")] += 1
                say = server.script(body)
            say.wait() if callable(say.wait) else time.sleep(say.wait)
            with suppress(BrokenPipeError, ConnectionResetError):
                self._answer(say)

        def _answer(self, say: Say) -> None:
            if say.status != 200:
                self._whole(say, json.dumps({"error": say.error or {"message": say.text}}).encode())
                return
            if say.page is not None:
                self._whole(say, json.dumps(say.page).encode())
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for data in say.raw or _events(say):
                self._chunk(f"data: {data}\n\n".encode())
            if say.drop:
                self.wfile.write(b"400\r\ndata: {")  # a chunk of 1024 bytes that never comes
                self.wfile.flush()
                self.close_connection = True
                return
            if not say.cut:
                self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")

        def _whole(self, say: Say, data: bytes) -> None:
            self.send_response(say.status)
            for name, value in {"Content-Type": "application/json", **say.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def _chunk(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *args: Any) -> None:  # a client that left
            pass

    http = Quiet(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def _events(say: Say) -> Iterator[str]:
    def event(delta: dict[str, Any], finish: str | None, **more: Any) -> str:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m",
                           "choices": choices, **more})  # fmt: skip

    for start in range(0, len(say.text), 400):
        yield event({"content": say.text[start : start + 400]}, None)
    if say.cut or say.drop:
        return
    yield event({}, say.finish)
    if say.usage:
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        yield json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "m",
                          "choices": [], "usage": usage})  # fmt: skip
