"""Which questions a session asks: for each target and task a prompt, made when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fxmorph.core.config import ConfigError
from fxmorph.propose.model.context import Context, bug_text, graph_near, language_values, refuted_text
from fxmorph.propose.model.meter import estimated_tokens
from fxmorph.propose.model.prompts import PLACES, SHIPPED, Prompt, read_prompt
from fxmorph.propose.model.session import Question, Tried
from fxmorph.propose.proposal import Task

#: Proposals that one question asks for.
COUNT = 6


@dataclass(frozen=True)
class Prompts:
    """The files that the prompts of a session are made of."""

    language: Prompt
    again: Prompt
    tasks: dict[Task, Prompt]

    @classmethod
    def read(cls, folder: Path | None) -> Prompts:
        """From ``folder`` as far as it has them; raises :class:`fxmorph.core.config.ConfigError`."""
        if folder is not None and not any((folder / f"{name}.md").is_file() for name in PLACES):
            raise ConfigError(f"--prompts {folder}: none of {', '.join(f'{name}.md' for name in PLACES)} is in it")
        where = folder or SHIPPED
        tasks = {task: read_prompt(task.value, where) for task in Task}
        return cls(read_prompt("language", where), read_prompt("again", where), tasks)

    def send_back(self, tried: Sequence[Tried]) -> str:
        """The message that sends refuted proposals back."""
        return self.again.filled({"refutations": refuted_text([(t.text, _why(t)) for t in tried])})


def _why(tried: Tried) -> str:
    return tried.judged.counterexample or tried.judged.reason


def questions(
    prompts: Prompts, tasks: Sequence[Task], targets: Sequence[str], bugs: Sequence[Path], context: Context
) -> Iterator[Question]:
    """One for each known bug, then one for each target and task in turn.

    Raises :class:`fxmorph.core.config.ConfigError` for a bug without text.
    """
    system = prompts.language.filled(language_values())
    for path in bugs:
        text, target = bug_text(path), path.stem
        values = {"bug": text, "graphs": graph_near(text), "refutations": context.refutations_text(target)}
        yield _question(Task.MUTATION, target, system, prompts, {**values, "count": str(COUNT)})
    for target in targets:
        values = {**context.values(target), "count": str(COUNT)}
        for task in tasks:
            yield _question(task, target, system, prompts, values)


def _question(task: Task, target: str, system: str, prompts: Prompts, values: dict[str, str]) -> Question:
    prompt = prompts.tasks[task]
    said = ({"role": "system", "content": system}, {"role": "user", "content": prompt.filled(values)})
    return Question(task, target, said, f"{prompt.name} {prompt.version}")


def tokens(question: Question) -> int:
    """Tokens of a prompt, estimated."""
    return sum(estimated_tokens(message["content"]) for message in question.messages)
