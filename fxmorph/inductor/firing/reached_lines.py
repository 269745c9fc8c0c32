"""How far a pass reads a graph, instruction by instruction: what makes it read further is worth changing.

Lines are too coarse: a condition of several parts is one line.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: A file, a line in it, and the instruction there.
Place = tuple[str, int, int]


@contextlib.contextmanager
def reached(files: Collection[str]) -> Iterator[set[Place]]:
    """The places of these files that run inside."""
    found: set[Place] = set()
    wanted: dict[CodeType, bool] = {}

    def called(frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        mine = wanted.get(code)
        if mine is None:
            mine = wanted[code] = code.co_filename in files
        if not mine:
            return None
        frame.f_trace_opcodes = True
        return instruction

    def instruction(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            found.add((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_lasti))
        return instruction

    before = sys.gettrace()
    sys.settrace(called)
    try:
        yield found
    finally:
        sys.settrace(before)


def unmet(places: Collection[Place]) -> str:
    """The condition that was asked and never met, the one that lies furthest in; "" where every one was met."""
    best: tuple[int, str] = (0, "")
    for file in sorted({f for f, _, _ in places}):
        ran = {number for f, number, _ in places if f == file}
        for node in _conditions(file):
            if node.lineno in ran and not ran & {child.lineno for child in node.body}:
                depth = sum(1 for number in ran if number <= node.lineno)
                if depth > best[0] and not isinstance(node.body[0], (ast.Continue, ast.Return, ast.Raise)):
                    best = (depth, f"{Path(file).name}:{node.lineno}: if {ast.unparse(node.test)}")
    return best[1]


def _conditions(file: str) -> list[ast.If]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.If)]
