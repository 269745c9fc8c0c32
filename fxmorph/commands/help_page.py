"""The help of a command as plain text: arguments, options under headings where there are many, examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typer.core import TyperCommand, TyperGroup

from fxmorph.commands.examples import EXAMPLES

#: Headings of what tests programs, in order, and the parameters under each; what is under none comes last.
HEADINGS = {
    "What is run": "seed no_rewrites only passes all propose cases level transforms",
    "How it is compiled": "device backend rung compile inductor dynamo dtype context threads",
    "How it is judged": "quick oracles baseline fail_on edge_cases",
    "How long": "jobs max_time max_cases case_timeout shard engine resume",
    "State and output": "state report json quiet verbose",
}


class _HelpPage:
    """Writes the parts of click's help; mixed into its commands."""

    headings: Mapping[str, str] = {}

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options by heading, then the commands of a group."""
        heading_of = {name: heading for heading, names in self.headings.items() for name in names.split()}
        under: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{heading: [] for heading in self.headings}}
        for parameter in ctx.command.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                heading = heading_of.get(parameter.name, "Options")
                under.setdefault("Arguments" if parameter.param_type_name == "argument" else heading, []).append(record)
        for heading, records in under.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)
        if isinstance(self, TyperGroup):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The examples of the command."""
        words: list[str] = []
        while ctx.parent is not None:
            words.insert(0, ctx.info_name)
            ctx = ctx.parent
        with formatter.section("Examples"):
            for line in EXAMPLES[" ".join(words)]:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


class Command(_HelpPage, TyperCommand):
    """A command with such a help."""


class SettingsCommand(Command):
    """A command that tests programs and takes most settings."""

    headings = HEADINGS


class Group(_HelpPage, TyperGroup):
    """A command with commands of its own, with such a help."""
