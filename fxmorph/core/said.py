"""What an exception says, in one line of whole words."""

from __future__ import annotations

#: Characters that are kept of a message.
MOST = 200


def cut(text: str, most: int = MOST) -> str:
    """``text`` on one line, of at most ``most`` characters: what is longer ends with its last whole word and "…"."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    whole = line[: most - 1].rpartition(" ")[0]
    return f"{(whole if len(whole) > most // 2 else line[: most - 2]).rstrip(' ,;:(')} …"


def said(error: BaseException, most: int = MOST) -> str:
    """``Type: message``, the message by :func:`cut`."""
    return f"{type(error).__name__}: {cut(str(error), most)}"
