"""What ``fxmorph propose`` is told about a language model: options over environment; torch is not imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxmorph.core.config import ConfigError, duration, read_option
from fxmorph.propose.model.meter import Budget, Price
from fxmorph.propose.proposal import Task

#: Where nothing is said: a first try costs little.
DEFAULT_BUDGET = Budget(calls=20)


@dataclass(frozen=True)
class Asked:
    """Options as they were written; None, "" and empty where they were not."""

    model: str | None = None
    base_url: str | None = None
    budget: str | None = None
    price: str | None = None
    timeout: str | None = None
    at_once: int = 4
    prompts: str | None = None
    traffic: str | None = None
    replay: str | None = None
    resume: bool = False
    dry_run: bool = False
    bugs: Sequence[str] = ()

    @property
    def online(self) -> bool:
        """Whether an option was given that only a language model needs."""
        return self.resume or self.dry_run or any(
            (self.model, self.base_url, self.price, self.timeout, self.prompts, self.traffic, self.replay, self.bugs)
        )  # fmt: skip


@dataclass(frozen=True)
class Online:
    """A session to be had.  ``model`` is "" where a replay says it, or nobody is asked; ``timeout`` in seconds.

    ``key`` is "" for a server that wants none.
    """

    model: str
    base_url: str
    key: str
    budget: Budget
    price: Price | None
    timeout: float
    at_once: int
    prompts: Path | None
    traffic: Path | None
    replay: Path | None
    resume: bool
    dry_run: bool
    bugs: tuple[Path, ...]


def read_online(asked: Asked, env: Mapping[str, str]) -> Online | None:
    """The session that options and environment ask for; None means the packs.

    A model is asked only where one is named: a key in the environment alone spends nothing.
    Raises :class:`ConfigError`.
    """
    model = asked.model or env.get("OPENAI_MODEL", "")
    base_url = asked.base_url or env.get("OPENAI_BASE_URL", "")
    key = env.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("OPENAI_API_KEY holds a control character or one that is not ASCII: no key does")
    if not asked.online and not (model and (key or base_url)):
        return None
    if not asked.dry_run and asked.replay is None:
        if not model:
            raise ConfigError("no model is named: say --model NAME or set OPENAI_MODEL")
        if not key and not base_url:
            raise ConfigError("no key: set OPENAI_API_KEY, or name a server of your own with --base-url")
    if asked.resume and (asked.replay or asked.dry_run):
        raise ConfigError("--resume goes on with a session: it cannot stand with --replay or --dry-run")
    budget = read_option("--budget", Budget.parse, asked.budget) or (Budget() if asked.replay else DEFAULT_BUDGET)
    price = read_option("--price", Price.parse, asked.price)
    if budget.usd is not None and price is None:
        raise ConfigError("--budget in USD needs --price IN/OUT, the USD for a million tokens of prompt and of answer")
    return Online(
        model=model,
        base_url=base_url,
        key=key,
        budget=budget,
        price=price,
        timeout=read_option("--timeout", duration, asked.timeout) or 60.0,
        at_once=asked.at_once,
        prompts=_existing("--prompts", asked.prompts),
        traffic=Path(asked.traffic) if asked.traffic else None,
        replay=_existing("--replay", asked.replay),
        resume=asked.resume,
        dry_run=asked.dry_run,
        bugs=tuple(_existing("", bug) or Path() for bug in asked.bugs),
    )


def task_of(word: str) -> Task:
    """The task that a word of ``--task`` names; raises :class:`ConfigError`."""
    found = {"rules": Task.RULE, "recipes": Task.RECIPE, "seeds": Task.SEED, "from-bug": Task.MUTATION,
             "mutations": Task.MUTATION}.get(word)  # fmt: skip
    if found is None and word not in list(Task):
        raise ConfigError(f"--task {word}: want rules, recipes, seeds or from-bug")
    return found or Task(word)


def time_of(budget: str | None) -> float | None:
    """Seconds that packs or the synthesiser may take; raises :class:`ConfigError` for a limit that only a model has."""
    limits = read_option("--budget", Budget.parse, budget)
    if limits is None:
        return None
    if limits.seconds is None or limits != Budget(seconds=limits.seconds):
        raise ConfigError(
            f"--budget {budget}: packs and --synthesise have a limit of time alone, as 30m (--model NAME asks a model)"
        )
    return limits.seconds


def _existing(option: str, path: str | None) -> Path | None:
    if path is None:
        return None
    if not Path(path).exists():
        raise ConfigError(f"{option} {path}: no such file or folder".strip())
    return Path(path)
