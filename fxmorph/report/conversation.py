"""What people read of a session with a language model, while it goes on and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fxmorph.events import Asking, SessionEnded


def asking_line(event: Asking, seconds_gone: float = 0.0) -> str:
    """The meter: calls, tokens, USD and time left; ``seconds_gone`` since the event."""
    of = f" of {event.most_calls}" if event.most_calls is not None else ""
    about = "about " if event.estimated else ""
    usd = f", {about}{event.usd:.4f} USD" if event.usd is not None else ""
    left = ""
    if event.seconds_left is not None:
        left = f", {max(0.0, event.seconds_left - seconds_gone):.0f} s left"
    return f"{event.model}: calls {event.calls}{of} ({event.out} out), {about}{event.tokens} tokens{usd}{left}"


def session_lines(event: SessionEnded) -> Iterator[str]:
    """Requests, what they cost, why there are no more, where the admitted ones are."""
    requests = ", ".join(f"{n} {word}" for word, n in event.requests.items()) or "none"
    lost = f"; {_count(event.given_up, 'question')} got no answer" if event.given_up else ""
    yield f"requests: {requests}{lost}"
    about = "about " if event.estimated else ""
    cost = "cost unknown (--price says what a token costs)" if event.usd is None else f"{about}{event.usd:.4f} USD"
    tokens = f"{about}{event.prompt_tokens} tokens of prompts, {event.answer_tokens} of answers"
    yield f"{_count(event.calls, 'call')}, {tokens}, {cost}, {event.wall_s:.0f} s; ended: {event.reason}"
    if event.left:
        yield f"{_count(event.left, 'proposal')} not decided in time: `fxmorph propose --resume` goes on"


def outcome_words(counts: Mapping[str, int]) -> str:
    """``2 admitted, 1 refuted``, in the order of ``counts``; "no proposals" where there are none."""
    return ", ".join(f"{n} {outcome}" for outcome, n in counts.items()) or "no proposals"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
