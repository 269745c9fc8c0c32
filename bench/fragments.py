"""Which operators each engine of the prover has a meaning for: ``python bench/fragments.py``, the table of the docs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable


def _loaded() -> dict[str, Iterable[str]]:
    from fxmorph.prove.field import field_domain  # noqa: F401  (loads the meanings of the field)
    from fxmorph.prove.field.meanings import MEANINGS
    from fxmorph.prove.sizes import layout_proof  # noqa: F401  (loads the operations on unknown sizes)
    from fxmorph.prove.sizes.symbolic_tensor import FUNCTIONS
    from fxmorph.prove.smt import model_float, model_integer, model_real
    from fxmorph.prove.terms.term_rules import LANE_INDEPENDENT

    return {
        "Z3-FP": model_float.MEANINGS,
        "Z3-BV": {**model_integer.MEANINGS, **model_integer.BOOLEAN},
        "Z3-REAL": model_real.MEANINGS,
        "PIT": MEANINGS,
        "Z3-LIA": FUNCTIONS,
        "the same bits in every lane": LANE_INDEPENDENT,
    }


def table() -> str:
    """A paragraph for each engine: its name, how many operators it has, and which."""
    paragraphs = []
    for engine, operators in _loaded().items():
        names = sorted(set(operators))
        listed = textwrap.fill(", ".join(f"`{name}`" for name in names), 10_000)
        paragraphs.append(f"**{engine}** ({len(names)}): {listed}")
    return "\n\n".join(paragraphs)


if __name__ == "__main__":
    print(table())
