"""Units alone on the graphs of a seed: what fires, what is found, and what is kept of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.core.seeds import find_seeds
from fxmorph.inductor import rung
from fxmorph.inductor.apply import Applied, clone_module
from fxmorph.inductor.coverage import Coverage
from fxmorph.inductor.inventory import UnknownUnit
from fxmorph.inductor.replaying import changes_meaning
from fxmorph.inductor.rung import Mode, PassesJudged, Source, chosen_units, judge_source
from fxmorph.model import Kind, Status
from fxmorph.prove.prover import Prover
from fxmorph.rules import Registry

SEED = """
import torch
def fn(x):
    return torch.relu(x.permute(1, 0).permute(1, 0) * torch.ones(3, 4)) + 2
def make_inputs():
    return [torch.arange(-6.0, 6.0).reshape(3, 4)]
"""


def judged(tmp_path: Path, names: list[str], text: str = SEED, mode: Mode = Mode.INFERENCE) -> PassesJudged:
    file = tmp_path / "seed_a.py"
    file.write_text(text)
    (seed,), _ = find_seeds([str(file)])
    return judge_source(
        Source(seed, mode), chosen_units(names), Prover(budget=100_000), Registry(), 0, tmp_path / "programs"
    )


def test_units_are_chosen_by_name_glob_stage_and_kind() -> None:
    assert [u.name for u in chosen_units(["joint.constant_fold_uniform_value"])]
    entries = chosen_units(["joint.pass_patterns[0]/*"])
    assert len(entries) > 50 and all(u.name.startswith("joint.pass_patterns[0]/") for u in entries)
    assert {u.stage.value for u in chosen_units(["post_grad"])} == {"post_grad"}
    with pytest.raises(UnknownUnit, match="did you mean"):
        chosen_units(["joint.constant_fold_uniform_valu"])


def test_a_pass_that_keeps_the_meaning_is_clean_and_proved(tmp_path: Path) -> None:
    found = judged(tmp_path, ["joint.remove_noop_ops", "joint.constant_fold_uniform_value"])
    assert found.pairs and all(p.status is Status.CLEAN and p.outcome == "proved" for p in found.pairs), found.pairs
    assert found.tried["joint.constant_fold_uniform_value"] >= 1


def test_a_pass_that_changes_the_meaning_is_found_with_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(unit: Any, gm: torch.fx.GraphModule) -> Applied:
        after = clone_module(gm)
        for node in list(after.graph.nodes):
            if node.target is torch.ops.aten.relu.default:
                node.target = torch.ops.aten.abs.default
        after.recompile()
        return Applied(after, True, 0)

    monkeypatch.setattr(rung, "apply_unit", wrong)
    found = judged(tmp_path, ["post_grad.remove_noop_ops"])
    (pair,) = found.pairs
    assert (pair.status, pair.kinds, pair.outcome) == (Status.FINDING, (Kind.VALUE,), "refuted")
    folder = Path(pair.program).parent
    assert {"seed.py", "inputs.pt", "before.txt", "after.txt"} <= {f.name for f in folder.iterdir()}
    # The unit itself is innocent: replayed without the plant, nothing is wrong.
    assert changes_meaning(str(folder), "post_grad.remove_noop_ops") == 0


def test_a_crash_of_a_unit_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(unit: Any, gm: Any) -> Applied:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(rung, "apply_unit", raising)
    found = judged(tmp_path, ["post_grad.remove_noop_ops"])
    assert found.cannot == {"post_grad.remove_noop_ops": "RuntimeError: no such luck"} and not found.pairs


def test_a_seed_without_gradients_has_no_training_graphs(tmp_path: Path) -> None:
    assert "grad" in judged(tmp_path, ["post_grad"], mode=Mode.TRAINING).skipped


def test_coverage_says_why_units_did_not_fire(tmp_path: Path) -> None:
    units = chosen_units(["joint", "post_grad"])
    tally = Coverage()
    tally.add(judged(tmp_path, ["joint", "post_grad"]))
    table = tally.table(units)
    assert table["pairs"] == tally.fired > 0 and table["outcomes"]["proved"] > 0
    silent = [row for row in table["units"].values() if not row["fired"]]
    assert silent and all(row["why"] for row in silent)
