"""PyTorch's own compiler bisector, called in this process."""

from __future__ import annotations

import contextlib
import gc
import io
import shutil
from collections.abc import Callable

from fxmorph.torchapi.compiling import reset


def bisect(passes: Callable[[], bool]) -> tuple[str, str]:
    """(subsystem, unit) that ``torch._inductor.compiler_bisector`` blames, or ("", "").

    ``passes()`` compiles with backend "inductor" from a clean state and says whether the result is right.  The
    unit is the pass, operator or decomposition whose last application brings the fault in.
    """
    try:
        from torch._inductor.compiler_bisector import CompilerBisector
    except ImportError:
        return "", ""

    def attempt() -> bool:
        reset()
        return passes()

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            result = CompilerBisector.do_bisect(attempt)
    except Exception:
        return "", ""
    finally:
        # The bisector switches itself off when a local of its frame dies, which an exception's
        # traceback may keep alive: collect, and make sure.
        gc.collect()
        CompilerBisector.bisection_enabled = False
        if CompilerBisector.in_process_cache:
            shutil.rmtree(CompilerBisector.in_process_cache, ignore_errors=True)
        CompilerBisector.in_process_cache = None
        reset()
    if result is None:
        return "", ""
    return result.subsystem or "", (result.debug_info or "").strip()
