"""Where in torch an exception was raised."""

from __future__ import annotations

import traceback
from pathlib import Path

import torch

#: The folder of torch.
HOME = f"{Path(torch.__file__).parent}/"
#: Frames that are kept, the innermost ones.
MOST = 60


def raising_frames(error: BaseException) -> tuple[tuple[str, str], ...]:
    """(File below torch's folder, qualified name) of the frames of torch that the first exception of a chain was raised
    in, outermost first.
    """
    link, seen = error, {id(error)}
    while (inner := _behind(link)) is not None and id(inner) not in seen and inner.__traceback__ is not None:
        seen.add(id(inner))
        link = inner
    frames = [frame for frame, _ in traceback.walk_tb(link.__traceback__)]
    named = ((frame.f_code.co_filename, frame.f_code.co_qualname) for frame in frames)
    return tuple((file.removeprefix(HOME), name) for file, name in named if file.startswith(HOME))[-MOST:]


def _behind(error: BaseException) -> BaseException | None:
    inner = getattr(error, "inner_exception", None)
    return inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
