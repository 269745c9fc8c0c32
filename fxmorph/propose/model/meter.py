"""What asking a language model costs, and the budget that ends it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fxmorph.core.config import duration

#: English text and code have about this many characters a token; used where a server does not count.
CHARACTERS_PER_TOKEN = 4

#: Tokens that an answer is taken to have before it is there.
EXPECTED_ANSWER = 3000


def estimated_tokens(text: str) -> int:
    """Tokens of a text, rounded up."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class Spent(Exception):
    """The budget does not allow another call; the message says which part is used up."""


@dataclass(frozen=True)
class Budget:
    """Each limit is None where it was not given.  ``usd`` in US dollars, ``seconds`` of wall time."""

    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """``5USD``, ``200calls`` or ``30m``, or several with commas; raises ``ValueError``."""
        limits: dict[str, float | int] = {}
        for part in text.split(","):
            name, limit = _limit(part.strip())
            if name in limits:
                raise ValueError(f"{part.strip()!r} sets a limit that is set already")
            limits[name] = limit
        return cls(**limits)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return " or ".join(self._limits()) or "no limit"

    def _limits(self) -> Iterator[str]:
        if self.usd is not None:
            yield f"{self.usd:g} USD"
        if self.calls is not None:
            yield f"{self.calls} calls"
        if self.seconds is not None:
            yield f"{self.seconds:g} s"


def _limit(text: str) -> tuple[str, float | int]:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*USD", text, re.IGNORECASE)
    if match and float(match[1]) > 0:
        return "usd", float(match[1])
    match = re.fullmatch(r"(\d+)\s*calls?", text, re.IGNORECASE)
    if match and int(match[1]) > 0:
        return "calls", int(match[1])
    try:
        return "seconds", duration(text)
    except ValueError:
        raise ValueError(f"not a budget: {text!r} (want 5USD, 200calls or 30m)") from None


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens of prompt and of answer."""

    prompt: float
    answer: float

    @classmethod
    def parse(cls, text: str) -> Price:
        """``2.5/10``: prompt, then answer; raises ``ValueError``."""
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)\s*", text)
        if not match:
            raise ValueError(f"not a price: {text!r} (want 2.5/10: USD for a million tokens of prompt and of answer)")
        return cls(float(match[1]), float(match[2]))

    def of(self, usage: Usage) -> float:
        """US dollars."""
        return (usage.prompt * self.prompt + usage.answer * self.answer) / 1e6


@dataclass(frozen=True)
class Usage:
    """Tokens of one call; ``estimated`` where the server did not count them."""

    prompt: int
    answer: int
    estimated: bool = False


@dataclass
class Meter:
    """Counts calls, tokens, dollars and time; threads may share it.

    A call is taken before it is made, so that no budget of calls is ever passed; a budget of
    dollars sets aside what the running calls are expected to cost.
    """

    budget: Budget = Budget()
    price: Price | None = None
    clock: Callable[[], float] = time.monotonic
    calls: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    usd: float = 0.0
    estimated: bool = False
    _aside: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.budget.usd is not None and self.price is None:
            raise ValueError("a budget in USD needs the price of the model")
        self._started = self.clock()

    @property
    def seconds(self) -> float:
        return self.clock() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Until the budget of time is over, 0 from then on; None where there is none."""
        return None if self.budget.seconds is None else max(0.0, self.budget.seconds - self.seconds)

    @property
    def in_time(self) -> bool:
        """Whether the budget of time is not over."""
        return self.seconds_left is None or self.seconds_left > 0

    def over(self) -> str:
        """That the budget of time is over, in words."""
        return f"{self.budget.seconds:g} s are over"

    def take(self, prompt_tokens: int) -> float:
        """Take one call; returns the dollars set aside for it, which :meth:`settle` wants.  Raises :class:`Spent`."""
        expected = self.price.of(Usage(prompt_tokens, EXPECTED_ANSWER)) if self.price else 0.0
        with self._lock:
            budget = self.budget
            if budget.calls is not None and self.calls >= budget.calls:
                raise Spent(f"{self.calls} of {budget.calls} calls are made")
            if not self.in_time:
                raise Spent(self.over())
            if budget.usd is not None and self.usd + self._aside + expected > budget.usd:
                raise Spent(f"another call may take more than {budget.usd:g} USD ({self.usd:.4f} USD are spent)")
            self.calls += 1
            self._aside += expected
        return expected

    def settle(self, aside: float, usage: Usage) -> None:
        """Count what a call that was taken did use."""
        with self._lock:
            self._aside -= aside
            self.prompt_tokens += usage.prompt
            self.answer_tokens += usage.answer
            self.estimated |= usage.estimated
            self.usd += self.price.of(usage) if self.price else 0.0
