"""The reporters that a command's events go to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.store import PAGE
from fxmorph.report.github import GitHub
from fxmorph.report.jsonlines import JsonLines
from fxmorph.report.junit import JUnit
from fxmorph.report.sarif import Sarif
from fxmorph.report.terminal import Reporter, Terminal


@contextmanager
def reporting(
    settings: Settings, people: Callable[[TextIO], Any] | None = None, page: bool = False
) -> Iterator[Callable[[Any], None]]:
    """A function that tells every reporter; with --json the text of ``people``'s reporter goes to stderr.

    ``page``: ``report.html`` is written into the state folder at the end.
    """
    stream = sys.stderr if settings.json else sys.stdout
    told = people(stream) if people else Terminal(stream, quiet=settings.quiet, verbose=settings.verbose)
    reporters: list[Reporter] = [told]
    if settings.json:
        reporters.append(JsonLines())
    reporters += report_files(settings)
    if page:
        from fxmorph.report.html import HtmlReport

        reporters.append(HtmlReport(settings.state_dir, settings.state_dir / PAGE))

    def emit(event: Any) -> None:
        for reporter in reporters:
            reporter.handle(event)

    try:
        yield emit
    finally:
        for reporter in reporters:
            reporter.close()


def report_files(settings: Settings) -> list[Reporter]:
    """The reporters that ``--report`` asks for."""
    made: list[Reporter] = []
    for text in settings.report:
        form, _, file = text.partition("=")
        if file and not Path(file).absolute().parent.is_dir():
            raise ConfigError(f"--report {text}: no folder {Path(file).parent}")
        made.append(GitHub() if not file else JUnit(Path(file)) if form == "junit" else Sarif(Path(file)))
    return made
