"""``fxmorph propose`` with a language model: one session, from the prompts to what the gate says."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.exits import Exit
from fxmorph.core.last_run import last_coverage, rows_of
from fxmorph.core.records import from_json, to_json
from fxmorph.core.store import Store, StoreError
from fxmorph.events import Asking, Event, SessionEnded, Warned
from fxmorph.inductor.inventory import UnknownUnit
from fxmorph.propose.gate.decision import told
from fxmorph.propose.gate.gatekeeper import Gate
from fxmorph.propose.gate.outcomes import made_with
from fxmorph.propose.model.asker import Asker
from fxmorph.propose.model.client import Client
from fxmorph.propose.model.context import Context, aimable, targets
from fxmorph.propose.model.meter import Meter, Usage
from fxmorph.propose.model.options import Online
from fxmorph.propose.model.questions import Prompts, questions, tokens
from fxmorph.propose.model.session import End, GivenUp, Question, Session, Tried
from fxmorph.propose.model.session_folder import Kept, refuted_before
from fxmorph.propose.model.traffic import Endpoint, Recorder, Replay
from fxmorph.propose.proposal import Judged, Task, read_text
from fxmorph.rules import load_rules

_EXITS = {End.DONE: Exit.OK, End.SPENT: Exit.OK, End.REFUSED: Exit.USAGE, End.UNREACHABLE: Exit.INTERNAL}

#: What is asked for where ``--task`` says nothing.
DEFAULT_TASKS = (Task.RULE, Task.RECIPE, Task.SEED)


def propose(
    settings: Settings, online: Online, tasks: Sequence[Task], target: str, emit: Callable[[Event], None]
) -> int:
    """Have one session; returns the exit code.  Raises :class:`ConfigError`, ``StoreError``, ``RuleError``."""
    with Store(settings.state_dir) as store:
        end, folder = more(settings, store, online, tasks, [target] if target else [], emit)
        tried = any(Kept(folder).rows())
    return _EXITS[end] or (Exit.OK if tried else Exit.NOTHING_RAN)


def more(
    settings: Settings,
    store: Store,
    online: Online,
    tasks: Sequence[Task],
    patterns: Sequence[str],
    emit: Callable[[Event], None],
    fired: Mapping[str, int] | None = None,
) -> tuple[End, Path]:
    """Have one session, with ``store`` open; returns how it ended and its folder, which holds what was admitted.

    Without ``tasks``: rules, recipes and seeds, or mutations where bugs are given.  Without ``patterns``
    (units, globs, bug classes): all of them, what has not fired first.  ``fired`` counts programs by the
    units that they made fire; without it the last run says so.
    """
    prompts = Prompts.read(online.prompts)
    with ExitStack() as stack:
        kept = Kept.last(settings.state_dir) if online.resume else Kept.new(settings.state_dir)
        earlier = _earlier(online, kept)
        drawn = _drawn(settings, store, tasks, patterns, fired)
        if earlier is not None:
            given = {"tasks": drawn["tasks"], "patterns": drawn["patterns"]}
            drawn = {**earlier.context, **{name: value for name, value in given.items() if value}}
        plan = _plan(settings, online, prompts, drawn)
        first = next(plan, None)  # what is wrong with targets and bugs is said before anyone is asked
        kept.restart()
        asker = _asker(online, kept, earlier, drawn, stack)
        gate = stack.enter_context(
            Gate(settings.effective_jobs, settings.transforms, settings.state_dir, _known(store))
        )
        listener = _Listener(store, kept, emit)
        emit(Warned(f"{_whom(online, asker)}; budget: {online.budget}; kept in {kept.folder}"))
        session = Session(
            asker, gate.judge_all, prompts.send_back, listener.hear, online.at_once, aimable,
            lambda out: emit(_asking(asker, out)),
        )  # fmt: skip
        try:
            end = session.run(chain([first] if first else [], plan))
        finally:
            kept.pack(listener.tried)
        emit(_ended(session, end, kept.folder))
    return end, kept.folder


def dry_run(settings: Settings, online: Online, tasks: Sequence[Task], target: str, line: Callable[[str], None]) -> int:
    """Print the prompts that a session would begin with, and about how many tokens they are; ask nobody."""
    prompts, patterns = Prompts.read(online.prompts), [target] if target else []
    try:
        with Store(settings.state_dir, write=False) as store:
            drawn = _drawn(settings, store, tasks, patterns)
    except StoreError:  # nothing was run yet
        drawn = _drawn(settings, None, tasks, patterns)
    total = number = 0
    for number, question in enumerate(islice(_plan(settings, online, prompts, drawn), online.budget.calls), 1):
        if number == 1:
            line(f"--- system prompt\n{question.messages[0]['content']}")
        total += tokens(question)
        line(f"--- {question.task} for {question.target}: about {tokens(question)} tokens of prompt")
        line(question.messages[1]["content"])
    price = f", {online.price.of(Usage(total, 0)):.4f} USD without the answers" if online.price else ""
    line(f"{number} {'prompt' if number == 1 else 'prompts'}, about {total} tokens{price}; nobody was asked")
    return Exit.OK if number else Exit.NOTHING_RAN


@dataclass
class _Listener:
    """Keeps what comes of each proposal, and tells it."""

    store: Store
    kept: Kept
    emit: Callable[[Event], None]
    tried: list[Tried] = field(default_factory=list)

    def hear(self, what: Tried | GivenUp) -> None:
        if isinstance(what, GivenUp):
            question, trouble = what.question, what.trouble
            self.emit(Warned(f"{question.task} for {question.target}: {trouble.kind}: {trouble.message}"))
            return
        # Said again, it is a duplicate of itself, which is not what is to be known of it.
        again = any(t.judged.hash == what.judged.hash for t in self.tried)
        self.tried.append(what)
        self.kept.add(what)
        if not what.judged.cached and not again:
            where = f"{self.kept.traffic.parent.name}/{self.kept.traffic.name} {what.request}"
            self.store.add_proposal(what.judged.hash, _versions(), what.text, to_json(what.judged), where)
        self.emit(told(what.judged, read_text(what.text, "")))


def _versions() -> str:
    return json.dumps(made_with(), sort_keys=True)


def _known(store: Store) -> dict[str, Judged]:
    """What the gate said before, by the hash of the proposal."""
    return {h: replace(from_json(Judged, row), cached=True) for h, row in store.proposals(_versions()).items()}


def _drawn(
    settings: Settings,
    store: Store | None,
    tasks: Sequence[Task],
    patterns: Sequence[str],
    fired: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """What the prompts of a session draw on, as a table: it is kept, so that they can be made again."""
    found = ("", {"units": fired}) if fired is not None else last_coverage(store) if store is not None else None
    return {
        "tasks": [str(task) for task in tasks],
        "patterns": list(patterns),
        "coverage": {"units": rows_of(found[1])} if found else {},
        "refuted": refuted_before(settings.state_dir),
    }


def _plan(settings: Settings, online: Online, prompts: Prompts, drawn: Mapping[str, Any]) -> Iterator[Question]:
    """The questions of a session; the first one raises what is wrong with targets and bugs."""
    rules = load_rules([Path(p) for p in settings.transforms])
    context = Context(rules, drawn["coverage"], [tuple(row) for row in drawn["refuted"]])
    tasks = [Task(word) for word in drawn["tasks"]]
    if Task.MUTATION in tasks and not online.bugs:
        raise ConfigError("--task from-bug: name a file or folder with the issue's text, its patch, a reproduction")
    if online.bugs and tasks and Task.MUTATION not in tasks:
        raise ConfigError(f"{online.bugs[0]}: a bug is for --task from-bug")
    if not tasks and not online.bugs:
        tasks = list(DEFAULT_TASKS)
    of_targets = [task for task in tasks if task is not Task.MUTATION]
    try:
        chosen = targets(drawn["patterns"], context.coverage) if of_targets else []
    except UnknownUnit as error:
        raise ConfigError(f"--target: {error}") from None
    yield from questions(prompts, of_targets, chosen, online.bugs, context)


def _earlier(online: Online, kept: Kept) -> Replay | None:
    """What was recorded and is played again."""
    if online.replay is not None:
        return Replay(online.replay)
    return Replay(kept.traffic, whole=True) if online.resume else None


def _asker(online: Online, kept: Kept, earlier: Replay | None, drawn: Mapping[str, Any], stack: ExitStack) -> Asker:
    """Who answers: the file that is played again, or the server, after what was recorded of it."""
    meter = Meter(online.budget, online.price)
    if earlier is not None and online.replay is not None:
        return Asker(earlier, online.model or earlier.model, meter, recorded=earlier.knows, sleep=lambda seconds: None)
    client = Client(online.base_url, online.key, online.timeout)
    stack.callback(client.close)
    endpoint: Endpoint = client
    for file in filter(None, (kept.traffic, online.traffic)):
        recorder = Recorder(endpoint, file, drawn)
        stack.callback(recorder.close)
        endpoint = recorder
    if earlier is None:
        return Asker(endpoint, online.model, meter)
    played = earlier
    played.beyond = endpoint
    return Asker(played, online.model, meter, live=lambda body: not played.knows(body))


def _whom(online: Online, asker: Asker) -> str:
    if online.replay is not None:
        return f"{asker.model} as recorded in {online.replay}; no server is asked"
    return f"{'going on with' if online.resume else 'asking'} {asker.model} at {online.base_url or 'api.openai.com'}"


def _asking(asker: Asker, out: int) -> Asking:
    meter = asker.meter
    return Asking(
        model=asker.model,
        out=out,
        calls=meter.calls,
        most_calls=meter.budget.calls,
        tokens=meter.prompt_tokens + meter.answer_tokens,
        estimated=meter.estimated,
        usd=meter.usd if meter.price else None,
        seconds_left=meter.seconds_left,
    )


def _ended(session: Session, end: End, folder: Path) -> SessionEnded:
    meter = session.asker.meter
    return SessionEnded(
        end=end.name.lower(),
        reason=session.why or end.value,
        requests=dict(session.asker.counts),
        given_up=session.given_up,
        calls=meter.calls,
        prompt_tokens=meter.prompt_tokens,
        answer_tokens=meter.answer_tokens,
        estimated=meter.estimated,
        usd=round(meter.usd, 6) if meter.price else None,
        wall_s=round(meter.seconds, 1),
        folder=str(folder),
        left=session.left,
    )
