"""Which vector units generated C++ code may use, asked for before processes are forked that would each ask again."""

from __future__ import annotations

import contextlib
import functools
import os

from fxmorph.core.vector_units import SETTING, remember_vector_units
from fxmorph.torchapi.compiling import cpp_compiler


@functools.cache
def know_vector_units() -> None:
    """Have Inductor find out, once in this process and the forks of it.

    Later processes are spared where each unit that the processor has works (``fxmorph/core/vector_units.py``).
    """
    if cpp_compiler() is None:
        return
    with contextlib.suppress(Exception):  # what Inductor cannot find out it says when it compiles
        from torch._inductor import cpu_vec_isa

        cpu_vec_isa.pick_vec_isa()
        features = set(cpu_vec_isa.x86_isa_checker())
        had = [unit for unit in cpu_vec_isa.supported_vec_isa_list if features.issuperset(str(unit).split())]
        if had and all(had) and SETTING not in os.environ:
            remember_vector_units()
