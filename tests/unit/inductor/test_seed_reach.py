"""What one seed reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.seeds import find_seeds
from fxmorph.inductor.seed_reach import NotMeasured, reach_of
from fxmorph.model import Seed

pytestmark = pytest.mark.usefixtures("torch_quiet")

HEAD = "import torch\n\n\ndef make_inputs():\n    return [torch.ones(2, 3, requires_grad=True)]\n\n\n"
SOFTPLUS = HEAD + "def fn(x):\n    return torch.nn.functional.softplus(x.t())\n"


def seed_of(folder: Path, text: str) -> Seed:
    (folder / "seed.py").write_text(text)
    return find_seeds([str(folder / "seed.py")])[0][0]


def test_functions_overloads_and_units_of_both_passes_are_reached(tmp_path: Path) -> None:
    reach = reach_of(seed_of(tmp_path, SOFTPLUS))
    assert reach.apis == ("torch.Tensor.t", "torch.nn.functional.softplus")
    assert {"aten.t.default", "aten.softplus.default", "aten.softplus_backward.default"} <= set(reach.overloads)
    assert {"decomposition.aten.softplus.default", "decomposition.aten.softplus_backward.default"} <= set(reach.units)
    assert any(unit.startswith("lowering.") for unit in reach.units)
    assert reach.graphs and reach.seconds > 0


def test_it_is_the_same_whatever_was_measured_before(tmp_path: Path) -> None:
    first, second = (reach_of(seed_of(tmp_path, SOFTPLUS)) for _ in range(2))
    assert (first.features, first.graphs) == (second.features, second.graphs)


def test_a_program_that_eager_refuses_is_not_measured(tmp_path: Path) -> None:
    seed = seed_of(tmp_path, HEAD + "def fn(x):\n    raise ValueError('no')\n")
    with pytest.raises(NotMeasured, match="eager raises ValueError: no") as refused:
        reach_of(seed)
    assert not refused.value.elsewhere


def test_one_for_a_gpu_is_measured_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(NotMeasured, match="CUDA") as refused:
        reach_of(seed_of(tmp_path, SOFTPLUS + "\n\nMETA = {'device': 'cuda'}\n"))
    assert refused.value.elsewhere
