"""What the judge would see: eager's own results, each with one element changed, in the place of compiled ones."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from fxmorph.core.seeds import find_seeds

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("torch_quiet")
#: Gradients of maxima, numbers drawn like others, views that are written, casts, sorts.
SOME = (
    "boundary_kept_for_backward", "cast_softmax_fp32", "inplace_two_views_one_base", "random_gumbel_straight_through",
    "random_stochastic_depth", "sort_topk_threshold",
)  # fmt: skip
#: Results that hang on the rounding of what is rounded before.
UNSEEN = {"codegen_conversions": 5}


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("unwatched", ROOT / "bench" / "unwatched.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["unwatched"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unseen(bench: Any, path: Path) -> list[str]:
    (seed,), _ = find_seeds([str(path)])
    tried, lines = bench.unwatched(seed, [bench.Change(1.0), bench.Change(None)])
    assert tried
    found: list[str] = lines
    return found


@pytest.mark.parametrize("name", SOME)
def test_all_results_are_watched(bench: Any, name: str) -> None:
    assert unseen(bench, ROOT / "corpus" / "seeds" / f"{name}.py") == []


@pytest.mark.slow
def test_nearly_all_results_of_all_seeds_are_watched(bench: Any) -> None:
    counts = {path.stem: unseen(bench, path) for path in sorted((ROOT / "corpus" / "seeds").glob("*.py"))}
    assert {name: lines for name, lines in counts.items() if len(lines) > UNSEEN.get(name, 0)} == {}


def test_what_is_not_judged_is_told(bench: Any, tmp_path: Path) -> None:
    path = tmp_path / "unjudged.py"
    path.write_text(
        "import torch\n\ndef make_inputs():\n    return [torch.rand(40)]\n\n"
        "def fn(x):\n    return torch.normal(x.sin(), 1.0), x * 2\n"
    )
    assert {line.split()[0] for line in unseen(bench, path)} == {"out0"}
