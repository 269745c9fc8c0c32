"""Settings under which Inductor is to give eager's bits, pointwise.

Torch 2.15 has one setting for that, ``numerics``, which implies three others; 2.13 has those.  What they promise is
arithmetic of one rounding a step; exponentials and sums may be other ones still.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch._inductor import config

_MODES = ("strict_pointwise", "strict")
#: What ``numerics`` implies.
_IMPLIED = {
    "emulate_precision_casts": True,
    "eager_numerics.disable_ftz": True,
    "eager_numerics.division_rounding": True,
}


def strict_numerics() -> dict[str, Any]:
    """The settings of this release; empty where it has none."""
    if hasattr(config, "numerics"):
        return {"numerics": _MODES[0]}
    return dict(_IMPLIED) if all(hasattr(config, name) for name in _IMPLIED) else {}


def is_strict(inductor: Mapping[str, Any]) -> bool:
    """Whether settings of Inductor ask for eager's bits."""
    return inductor.get("numerics") in _MODES or all(inductor.get(name) for name in _IMPLIED)
