"""Help pages: every command has examples that it would take, options of ``run`` have a heading, shells complete."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fxmorph.cli import app
from fxmorph.commands.examples import EXAMPLES
from fxmorph.commands.help_page import HEADINGS
from fxmorph.core.config import load_settings

ROOT = Path(__file__).parents[2]
TOP: Any = typer.main.get_command(app)


def commands(command: Any = TOP, *words: str) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, *words, name)


COMMANDS = dict(commands())


def test_every_command_has_examples_and_no_other() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()
    assert all(EXAMPLES.values())


@pytest.mark.parametrize("words", COMMANDS)
def test_its_help_shows_them(words: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), "--help"])
    assert done.exit_code == 0, done.output
    assert [line.strip() for line in done.output.partition("Examples:\n")[2].splitlines()] == list(EXAMPLES[words])


@pytest.mark.parametrize("words, line", [(words, line) for words, lines in EXAMPLES.items() for line in lines])
def test_an_example_is_a_command_line(words: str, line: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(line)
    command, named = TOP, []
    while arguments and arguments[0] in getattr(command, "commands", {}):
        named.append(arguments.pop(0))
        command = command.commands[named[-1]]
    assert program == "fxmorph" and (" ".join(named) == words or not words or words in named)
    given = command.make_context(line, arguments).params  # raises for what it does not take
    if words in ("run", "fuzz", "check"):
        settings = {name: value for name, value in given.items() if value not in (None, False, 0, [])}
        load_settings(settings, tmp_path, {})


def test_options_of_run_are_under_a_heading() -> None:
    named = {name for names in HEADINGS.values() for name in names.split()}
    options = {
        parameter.name
        for command in ("run", "fuzz", "check")
        for parameter in COMMANDS[command].params
        if parameter.param_type_name == "option"
    }
    assert options - {"help"} == named


def test_a_shell_completes_commands_options_and_words(tmp_path: Path) -> None:
    def completed(line: str) -> set[str]:
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "_FXMORPH_COMPLETE": "complete_bash", "COMP_WORDS": line,
            "COMP_CWORD": str(line.count(" ")),
        }  # fmt: skip
        code = "import sys; sys.argv[0] = 'fxmorph'; sys.modules['torch'] = None; from fxmorph.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=tmp_path, timeout=60
        )
        return set(done.stdout.split())

    assert completed("fxmorph ru") == {"run", "rules"}
    assert completed("fxmorph cases --verdict f") == {"finding"}
    assert "--max-time" in completed("fxmorph run --max-")
