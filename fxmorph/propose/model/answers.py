"""Answers of a language model as data: the schema that they are asked for in, and how they are read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from fxmorph.propose.model.traffic import Answer
from fxmorph.propose.proposal import Malformed

#: Proposals of one answer that are looked at.
MOST = 40

#: Places of an answer that may hold it, where more than JSON was sent.
_PLACES = 30

#: What models that think aloud begin with; one that is cut off thought only.
_THOUGHT = re.compile(r"\A\s*<think>.*?(</think>|\Z)", re.DOTALL)

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def answer_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """JSON schema of ``{"proposals": [...]}``, from that of one proposal."""
    one = dict(schema)
    shared = one.pop("$defs", {})
    many = {"type": "object", "properties": {"proposals": {"type": "array", "items": one}}, "required": ["proposals"]}
    return {**many, "additionalProperties": False, **({"$defs": shared} if shared else {})}


def read_answer(answer: Answer) -> list[str]:
    """The proposals of an answer, each as JSON text; raises :class:`Malformed`.

    Takes the object that was asked for also between other text, and a bare list or proposal alone or
    in a fence, since servers without structured output let models chat.
    """
    found = _decoded(answer.text)
    if found is None:
        cut = "" if answer.finish == "stop" else f"; it was cut ({answer.finish})"
        raise Malformed(f"the answer holds no JSON object with a list of proposals{cut}")
    if len(found) > MOST:
        raise Malformed(f"the answer holds {len(found)} proposals; at most {MOST}")
    return [json.dumps(one) for one in found]


def _decoded(text: str) -> list[Any] | None:
    """The list of proposals in the text; None where there is none, or only a part of one."""
    found = _proposals(_json(text.strip(), 0))
    if found is not None:
        return found
    said = _THOUGHT.sub("", text)
    # Some servers leave out where a thought begins; the word may also stand in a text of the answer.
    parts = [said.rpartition("</think>")[2], said] if "</think>" in said else [said]
    for part in [one for whole in parts for one in (whole, *_FENCE.findall(whole))]:
        found = _proposals(_json(part.strip(), 0))
        found = _inside(part) if found is None else found
        if found is not None:
            return found
    return None


def _json(text: str, start: int) -> Any:
    """What is decoded from there, to the end of the text where ``start`` is 0; None where that is no JSON."""
    try:
        found, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return found if start or end == len(text) else None


def _proposals(found: Any) -> list[Any] | None:
    """Of ``{"proposals": [...]}``, a bare list or a bare proposal."""
    if isinstance(found, dict):
        found = found.get("proposals", [found] if "task" in found else None)
    return found if isinstance(found, list) else None


def _inside(text: str) -> list[Any] | None:
    """Of the first ``{"proposals": [...]}`` between other text."""
    for match in list(re.finditer(r"{", text))[:_PLACES]:
        found = _json(text, match.start())
        if isinstance(found, dict) and isinstance(found.get("proposals"), list):
            return list(found["proposals"])
    return None
