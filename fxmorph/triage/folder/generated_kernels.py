"""Kernels in what ``TORCH_LOGS=output_code`` prints, without the wrapper around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What a line of torch's log begins with.
_PREFIX = re.compile(r"^[VIWE]\d{4} .*?\] (?:\[[^\]]*\] )*\[__output_code\] ?")
#: A kernel: its name, and its source between triple quotes.
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?(?:r?'''|r?\"\"\")(.*?)(?:'''|\"\"\")", re.DOTALL | re.MULTILINE)
#: Lines of kernels that a report has.
MOST_LINES = 80


def kernels(log: str) -> str:
    """The source of the kernels in the log, "" where there are none, or more than a report can hold."""
    lines = (_PREFIX.sub("", line) for line in log.splitlines() if _PREFIX.match(line))
    found = list(dict.fromkeys(_sources("\n".join(lines))))
    text = "\n\n".join(found)
    return text if len(text.splitlines()) <= MOST_LINES else ""


def _sources(code: str) -> Iterator[str]:
    for match in _KERNEL.finditer(code):
        source = [line for line in match[2].strip("\n").splitlines() if not line.strip().startswith("# kernel path")]
        yield "\n".join([f"// {match[1]}" if "#include" in match[2] else f"# {match[1]}", *source]).rstrip()
