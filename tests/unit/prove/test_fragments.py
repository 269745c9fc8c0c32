"""The manual lists the operators that the prover's engines have."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_manual_has_the_lists_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location("fragments", ROOT / "bench" / "fragments.py")
    assert spec is not None and spec.loader is not None
    fragments = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fragments)
    assert fragments.table() in (ROOT / "docs" / "what-the-proof-assumes.md").read_text(), "python bench/fragments.py"
