"""Help pages: every command has examples that it would take, options of ``run`` have a heading, shells complete."""

from __future__ import annotations

import os
import re
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


def parsed(line: str, folder: Path) -> str:
    """The words of the command that a line runs; raises what the command line does not take."""
    program, *arguments = shlex.split(line, comments=True)
    assert program == "fxmorph"
    command, named = TOP, []
    while arguments and arguments[0] in getattr(command, "commands", {}):
        named.append(arguments.pop(0))
        command = command.commands[named[-1]]
    given = command.make_context(line, arguments).params
    if named and named[0] in ("run", "fuzz", "check"):
        settings = {name: value for name, value in given.items() if value not in (None, False, 0, [])}
        load_settings(settings, folder, {})
    return " ".join(named)


@pytest.mark.parametrize("words, line", [(words, line) for words, lines in EXAMPLES.items() for line in lines])
def test_an_example_is_a_command_line(words: str, line: str, tmp_path: Path) -> None:
    named = parsed(line, tmp_path)
    assert named == words or named.split()[: len(words.split())] == words.split()


def command_lines(page: Path) -> list[str]:
    """What the code blocks of a page tell the reader to type."""
    blocks = page.read_text(encoding="utf-8").split("```")[1::2]
    lines = [line.strip().removeprefix("$ ").partition(" | ")[0] for block in blocks for line in block.splitlines()]
    header = re.compile(r"fxmorph \w+ [0-9a-f]{8}: ")  # of a run, which is output
    return [line for line in lines if line.startswith("fxmorph ") and "…" not in line and not header.match(line)]


def test_documented_command_lines_are_taken(tmp_path: Path) -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    lines = [line for page in pages for line in command_lines(page)]
    assert len(lines) > 30
    for line in lines:
        assert parsed(line, tmp_path), line


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
