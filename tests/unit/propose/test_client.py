"""The client against a real server on this machine: every way in which an answer does not come."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from chatserver import ChatServer, Say, in_turn, serving

from fxmorph.core.config import ConfigError
from fxmorph.propose.model.asker import ATTEMPTS, Asker
from fxmorph.propose.model.client import MAX_ANSWER, Client
from fxmorph.propose.model.meter import Budget, Meter, Price, Spent, Usage
from fxmorph.propose.model.options import Asked as OnlineOptions
from fxmorph.propose.model.options import read_online
from fxmorph.propose.model.traffic import Answer, Recorder, Replay, Reply, Trouble, TroubleKind

SCHEMA = {"type": "object"}
MESSAGES = [{"role": "user", "content": "propose"}]


class Asked:
    """An asker at a scripted server, with the waits that it would have made."""

    def __init__(self, server: ChatServer, budget: Budget | None = None, timeout: float = 5.0) -> None:
        self.client = Client(server.url, "secret", timeout)
        self.waits: list[float] = []
        self.asker = Asker(self.client, "m", Meter(budget or Budget()), sleep=self.waits.append)

    def __call__(self) -> Reply:
        return self.asker.prepared(MESSAGES, "rules", SCHEMA)()


@pytest.fixture
def asked() -> Iterator[Callable[..., tuple[Asked, ChatServer]]]:
    from contextlib import ExitStack

    with ExitStack() as stack:

        def make(*replies: Say, **options: Any) -> tuple[Asked, ChatServer]:
            server = stack.enter_context(serving(in_turn(*replies)))
            made = Asked(server, **options)
            stack.callback(made.client.close)
            return made, server

        yield make


def test_an_answer_comes_with_its_tokens(asked: Any) -> None:
    ask, server = asked(Say("hello " * 200))
    assert ask() == Answer("hello " * 200, "stop", Usage(100, 50))
    body = server.bodies[0]
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (body["model"], body["messages"], body["stream"]) == ("m", MESSAGES, True)
    assert set(server.keys) == {"Bearer secret"}
    assert (ask.asker.meter.calls, ask.asker.meter.prompt_tokens, ask.asker.meter.answer_tokens) == (1, 100, 50)


def test_tokens_are_estimated_where_the_server_does_not_count(asked: Any) -> None:
    ask, _ = asked(Say("x" * 400, usage=False))
    ask()
    assert (ask.asker.meter.answer_tokens, ask.asker.meter.estimated) == (100, True)


def test_a_server_that_does_not_stream(asked: Any) -> None:
    message = {"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}
    ask, _ = asked(Say(page={**message, "usage": {"prompt_tokens": 7, "completion_tokens": 2}}), Say(page=message))
    assert ask() == Answer("{}", "stop", Usage(7, 2))
    assert ask() == Answer("{}", "stop", None)


@pytest.mark.parametrize("status", [400, 422])
def test_a_server_without_schemas_is_asked_without(asked: Any, status: int) -> None:
    refused = Say("response_format is not supported", status=status)
    ask, server = asked(refused, Say("{}"))
    assert ask() == Answer("{}", "stop", Usage(100, 50))
    assert ["response_format" in b for b in server.bodies[:2]] == [True, False]
    ask()  # and remembers it
    assert "response_format" not in server.bodies[-1]
    assert ask.waits == [] and ask.asker.counts == {"request refused": 1, "answered": 2}


def test_a_server_without_stream_options_is_asked_without(asked: Any) -> None:
    ask, server = asked(Say("unknown field stream_options", status=400), Say("{}"))
    assert isinstance(ask(), Answer)
    assert "response_format" in server.bodies[1] and "stream_options" not in server.bodies[1]


def test_a_request_that_is_refused_without_them_too_ends(asked: Any) -> None:
    ask, server = asked(Say("no", status=400))
    reply = ask()
    assert isinstance(reply, Trouble) and (reply.kind, reply.message) == (TroubleKind.REFUSED, "no")
    assert len(server.bodies) == 3


def test_a_part_is_left_out_for_good_only_if_that_is_answered(asked: Any) -> None:
    """A prompt that is refused whatever is left out says nothing of the parts."""
    ask, server = asked(Say("no", status=400), Say("no", status=400), Say("no", status=400), Say("{}"))
    assert isinstance(ask(), Trouble)
    assert isinstance(ask(), Answer)
    assert {"response_format", "stream_options"} <= set(server.bodies[3])


@pytest.mark.parametrize(
    "say,kind",
    [
        (Say(status=401, error={"message": "Incorrect API key provided"}), TroubleKind.KEY),
        (Say(status=403, error={"message": "no access"}), TroubleKind.KEY),
        (Say(status=404, error={"message": "no model m"}), TroubleKind.MODEL),
        (Say(status=400, error={"message": "long", "code": "context_length_exceeded"}), TroubleKind.PROMPT),
        (Say(status=413, error={"message": "long"}), TroubleKind.PROMPT),
        (Say(status=429, error={"message": "pay", "code": "insufficient_quota"}), TroubleKind.QUOTA),
    ],
)
def test_what_no_second_try_mends(asked: Any, say: Say, kind: TroubleKind) -> None:
    ask, server = asked(say)
    reply = ask()
    assert isinstance(reply, Trouble) and reply.kind is kind and reply.message.startswith(say.error["message"])
    assert ("is /v1 missing?" in reply.message) == (kind is TroubleKind.MODEL)
    assert len(server.bodies) == 1 and ask.waits == []


def test_retry_after_is_waited_for(asked: Any) -> None:
    ask, _ = asked(Say(status=429, headers={"Retry-After": "7"}), Say("{}"))
    assert isinstance(ask(), Answer)
    assert ask.waits[0] == 7 and ask.asker.counts == {"rate limit": 1, "answered": 1}


def test_retry_after_may_be_a_date(asked: Any) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    ask, _ = asked(Say("down", status=503, headers={"Retry-After": soon}), Say("{}"))
    assert isinstance(ask(), Answer)
    assert 50 < ask.waits[0] <= 60


def test_a_key_that_a_server_echoes_goes_nowhere(asked: Any, tmp_path: Path) -> None:
    ask, server = asked(
        Say(status=401, error={"message": "Incorrect API key \x1b[2Jsecret\x9b\u202e"}),
        Say("your key is secret", usage=False),
        Say("secret", cut=True),
    )
    recorder = Recorder(ask.client, tmp_path / "t.jsonl", {})
    body = {"model": "m", "messages": MESSAGES}
    replies = [recorder(body) for _ in range(3)]
    assert [getattr(r, "message", "") or getattr(r, "text", "") for r in replies[:2]] == [
        "Incorrect API key [2J***",
        "your key is ***",
    ]
    assert isinstance(replies[2], Trouble) and replies[2].partial == "***"
    assert "secret" not in (tmp_path / "t.jsonl").read_text() and set(server.keys) == {"Bearer secret"}


def test_a_key_that_cannot_be_sent_is_not_said() -> None:
    reply = Client("http://127.0.0.1:9/v1", "sk-secret\n", 2.0)({"model": "m", "messages": MESSAGES})
    assert isinstance(reply, Trouble) and "sk-secret" not in reply.message


@pytest.mark.parametrize("key", ["sk-a\x00b", "sk-\u00e4bc", "sk-ab\ncd"])
def test_a_key_that_is_none_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match="OPENAI_API_KEY holds a control character"):
        read_online(OnlineOptions(model="m"), {"OPENAI_API_KEY": key})
    online = read_online(OnlineOptions(model="m"), {"OPENAI_API_KEY": " sk-abc\n"})
    assert online is not None and online.key == "sk-abc"


def test_a_page_that_is_no_answer_says_so(asked: Any) -> None:
    ask, _ = asked(Say(page="hello"))
    reply = ask.client({"model": "m", "messages": MESSAGES})
    assert isinstance(reply, Trouble) and reply.message == (
        "the page is no answer of the chat protocol: no choices with a message"
    )


def test_a_wait_of_hours_is_not_made(asked: Any) -> None:
    ask, server = asked(Say(status=429, headers={"Retry-After": "7200"}))
    reply = ask()
    assert isinstance(reply, Trouble) and reply.retry_after == 7200
    assert len(server.bodies) == 1 and ask.waits == []


@pytest.mark.parametrize(
    "say,kind",
    [
        (Say("down", status=500), TroubleKind.SERVER),
        (Say("down", status=503, headers={"Retry-After": "Sun, 22 Nov 2020 00:00:00 GMT"}), TroubleKind.SERVER),
        (Say('{"proposals": [{"task"', cut=True), TroubleKind.STREAM),
        (Say('{"proposals": [{"task"', drop=True), TroubleKind.STREAM),
        (Say(raw=("{not json",)), TroubleKind.STREAM),
        (Say(page={"choices": []}), TroubleKind.STREAM),
        (Say(page="hello"), TroubleKind.STREAM),
        (Say(raw=('{"choices": [{"delta": 3}]}',)), TroubleKind.STREAM),
        (Say(raw=('{"choices": 7}',)), TroubleKind.STREAM),
        (Say(raw=('{"choices": [{"delta": {"content": ["x"]}}]}',)), TroubleKind.STREAM),
        (Say(raw=('{"error": {"message": "overloaded"}}',)), TroubleKind.SERVER),
    ],
)
def test_what_a_second_try_may_mend(asked: Any, say: Say, kind: TroubleKind) -> None:
    ask, server = asked(say)
    reply = ask()
    assert isinstance(reply, Trouble) and reply.kind is kind
    assert len(server.bodies) == ATTEMPTS and ask.waits == [1, 2, 4, 8]
    assert ask.asker.counts == {kind.value: ATTEMPTS}
    ask, server = asked(say, Say("{}"))
    assert isinstance(ask(), Answer)


def test_a_silent_server_is_left_in_time(asked: Any) -> None:
    ask, _ = asked(Say("late", wait=60.0), Say("{}"), timeout=1.5)
    start = time.monotonic()
    assert isinstance(ask(), Answer)
    assert time.monotonic() - start < 20 and ask.asker.counts == {"time-out": 1, "answered": 1}


def test_a_dripping_stream_is_left_in_time(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import fxmorph.propose.model.client as client

    monkeypatch.setattr(client, "_WHOLE", 2)
    event = '{"choices": [{"index": 0, "delta": {"content": "x"}}]}'

    class Dripping(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            for _ in range(600):
                time.sleep(0.1)
                yield event

    ask, _ = asked(Say(raw=Dripping((event,))), timeout=1.0)
    start = time.monotonic()
    reply = ask.client({"model": "m", "messages": MESSAGES})
    assert isinstance(reply, Trouble) and reply.partial.startswith("xx")
    assert time.monotonic() - start < 20


def test_an_endless_answer_is_cut(asked: Any) -> None:
    ask, _ = asked(Say("x" * (2 * MAX_ANSWER)))
    reply = ask()
    assert isinstance(reply, Answer) and (len(reply.text), reply.finish) == (MAX_ANSWER, "too long")


def test_halves_of_characters_do_not_reach_the_files(asked: Any, tmp_path: Path) -> None:
    ask, _ = asked(Say(raw=('{"choices": [{"index": 0, "delta": {"content": "\\ud800"}, "finish_reason": "stop"}]}',)))
    reply = Recorder(ask.client, tmp_path / "t.jsonl", {})({"model": "m", "messages": MESSAGES})
    assert isinstance(reply, Answer) and reply.text == "?"


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    waits: list[float] = []
    asker = Asker(Client(url, "k", 2.0), "m", Meter(), sleep=waits.append)
    reply = asker.prepared(MESSAGES, "rules", SCHEMA)()
    assert isinstance(reply, Trouble) and reply.kind is TroubleKind.CONNECTION
    assert "refused" in reply.message and len(waits) == ATTEMPTS - 1


def test_an_address_that_is_none() -> None:
    with pytest.raises(ConfigError, match="want an address"):
        Client("localhost:8000", "k", 1.0)


def test_a_budget_of_calls_is_kept_to_the_call(asked: Any) -> None:
    ask, server = asked(Say("down", status=500), budget=Budget(calls=3))
    reply = ask()
    assert isinstance(reply, Trouble) and reply.message == "down"  # the last one, so that it can be told
    assert len(server.bodies) == 3
    with pytest.raises(Spent, match="3 of 3 calls"):
        ask()
    assert len(server.bodies) == 3


def test_a_budget_of_dollars_is_not_passed() -> None:
    meter = Meter(Budget(usd=0.10), Price(0, 10))
    first, second, third = meter.take(1), meter.take(1), meter.take(1)  # 3000 tokens, 3 cents each
    assert first == second == third == pytest.approx(0.03)
    with pytest.raises(Spent, match=r"more than 0\.1 USD"):
        meter.take(1)


@pytest.mark.parametrize(
    "text,budget",
    [
        ("5USD", Budget(usd=5)),
        ("0.5 usd", Budget(usd=0.5)),
        ("200calls", Budget(calls=200)),
        ("1call,30m", Budget(calls=1, seconds=1800)),
    ],
)
def test_budgets_are_read(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize("text", ["", "5EUR", "0calls", "-3USD", "1call,2calls", "many", "0m"])
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Budget.parse(text)


def test_traffic_is_played_again_without_a_server(asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    troubles = (Say("response_format", status=400), Say(status=429, headers={"Retry-After": "1"}), Say("{", cut=True))
    ask, _ = asked(*troubles, Say('{"a": "ü"}'))
    recorder = Recorder(ask.client, file, {})
    live = Asker(recorder, "m", Meter(), sleep=lambda s: None)
    answer = live.prepared(MESSAGES, "rules", SCHEMA)()
    recorder.close()
    assert "secret" not in file.read_text() and "127.0.0.1" not in file.read_text()
    replay = Replay(file)
    again = Asker(replay, replay.model, Meter(), recorded=replay.knows, sleep=lambda s: None)
    assert again.prepared(MESSAGES, "rules", SCHEMA)() == answer
    assert (again.counts, again.meter.calls, replay.model) == (live.counts, live.meter.calls, "m")
    assert again.meter.answer_tokens == live.meter.answer_tokens
    lost = again.prepared(MESSAGES, "rules", SCHEMA)()
    assert isinstance(lost, Trouble) and lost.kind is TroubleKind.UNRECORDED


def test_going_on_asks_only_what_has_no_answer(asked: Any, tmp_path: Path) -> None:
    file = tmp_path / "traffic.jsonl"
    ask, server = asked(Say("one"), Say("down", status=500), Say("two"))
    recorder = Recorder(ask.client, file, {})
    other = [{"role": "user", "content": "other"}]
    body = {"model": "m", "messages": MESSAGES}
    assert recorder(body).text == "one"  # type: ignore[union-attr]
    assert isinstance(recorder({"model": "m", "messages": other}), Trouble)
    with file.open("a") as out:
        out.write('{"request": "cut off by kill -9')
    replay = Replay(file, beyond=ask.client, whole=True)
    meter = Meter(Budget(calls=1))
    asker = Asker(replay, "m", meter, live=lambda b: not replay.knows(b))
    assert asker.prepared(MESSAGES, "rules", SCHEMA)().text == "one"  # type: ignore[union-attr]
    assert asker.prepared(other, "rules", SCHEMA)().text == "two"  # type: ignore[union-attr]
    assert (meter.calls, replay.played, len(server.bodies)) == (1, 1, 3)


def test_a_file_that_is_no_traffic(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        Replay(tmp_path / "none")
    (tmp_path / "t").write_text("[1]\n{}\n")
    with pytest.raises(ConfigError, match="t: not a file of traffic"):
        Replay(tmp_path / "t")
