"""Words that arguments of operators take: each chooses another computation."""

from __future__ import annotations

#: By the argument's name in the schema, the usual ones first; not each operator takes all of them.
WORDS: dict[str, tuple[str, ...]] = {
    "rounding_mode": ("floor", "trunc"),
    "approximate": ("tanh", "none"),
    "reduce": ("sum", "amax", "mean", "prod", "amin"),
    "side": ("right", "left"),
    "interpolation": ("lower", "nearest", "midpoint", "higher", "linear"),
    "mode": ("reflect", "replicate", "circular"),
    "UPLO": ("U", "L"),
}
