"""Public names of what graphs call by a private one: ``torch._C._nn.gelu`` is ``torch.nn.functional.gelu``."""

from __future__ import annotations

import re

#: Functions of ``torch.nn.functional`` that are those of ``torch._C._nn``, or take the same arguments.
FUNCTIONAL = frozenset(
    "adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d elu_ gelu glu hardsigmoid hardswish hardtanh "
    "hardtanh_ leaky_relu leaky_relu_ linear mish one_hot pad relu6 scaled_dot_product_attention silu softplus "
    "softshrink".split()
)
#: Modules of torch whose functions are those of a module of ``torch._C``, which has its name in theirs.
_SAME_NAME = re.compile(r"\btorch\._C\._(fft|linalg|special)\.\1_(\w+)")
_OF_NN = re.compile(r"\btorch\._C\._nn\.(\w+)")


def with_public_names(program: str) -> str:
    """The program with public names of the same functions, where there are any."""

    def public(found: re.Match[str]) -> str:
        return f"torch.nn.functional.{found[1]}" if found[1] in FUNCTIONAL else found[0]

    return _OF_NN.sub(public, _SAME_NAME.sub(r"torch.\1.\2", program))
