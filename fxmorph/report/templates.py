"""Pages of HTML from the templates in ``page/``: each file holds all it needs and loads nothing."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fxmorph.core.versions import version_of
from fxmorph.model import differs
from fxmorph.report.highlight import coloured, issues_linked
from fxmorph.report.terminal import spell_time


def render(template: str, **values: Any) -> str:
    """The page; raises ``jinja2.UndefinedError`` where a value is missing."""
    return _environment().get_template(template).render(written=datetime.now().strftime("%Y-%m-%d %H:%M"), **values)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FunctionLoader(_part), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals |= {
        "css": Markup(_part("report.css")), "js": Markup(_part("report.js")), "version": version_of("fxmorph"),
        "spell_time": spell_time, "differs": differs, "coloured": coloured,
    }  # fmt: skip
    made.filters["issues"] = issues_linked
    return made


def _part(name: str) -> str:
    return resources.files("fxmorph.report").joinpath("page", name).read_text(encoding="utf-8")
