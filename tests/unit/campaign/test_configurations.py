"""Under which configurations variants are compiled."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace

import pytest

from fxmorph.campaign.configurations import AXES, Configurations, axes_of, covering_rows
from fxmorph.campaign.portfolio import interpreted
from fxmorph.campaign.schedule import case_of
from fxmorph.core.config import Settings
from fxmorph.core.records import from_json, to_json
from fxmorph.model import Case, Kernels, Rung, Seed
from fxmorph.torchapi import compiling

SEED = Seed("s.py", "module", "s")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_every_pair_of_values_is_in_a_row(device: str) -> None:
    axes = axes_of(device)
    rows = list(covering_rows(axes, random.Random(3)))
    for a, b in itertools.combinations(axes, 2):
        met = [(row[a.name], row[b.name]) for row in rows]
        assert all((x, y) in met for x in a.values for y in b.values), (a.name, b.name)
    assert len(rows) < 45
    assert rows == list(covering_rows(axes, random.Random(3)))


def test_code_for_a_gpu_has_settings_of_its_own() -> None:
    cpu, cuda = ({axis.name for axis in axes_of(device)} for device in ("cpu", "cuda"))
    assert {name for name in cpu - cuda if name.startswith("cpp.")} == cpu - cuda != set()
    assert "triton.persistent_reductions" in cuda - cpu


def test_what_a_release_does_not_have_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "has_setting", lambda name: name != "memory_planning")
    assert {axis.name for axis in axes_of("cpu")} == {a.name for a in AXES if a.device != "cuda"} - {"memory_planning"}


def test_the_first_row_changes_nothing() -> None:
    case = case_of(Settings(), SEED, 1, Rung.CPU)
    assert Configurations(Settings()).under(case, 0) == case


def test_what_the_user_has_set_stays() -> None:
    settings = Settings(dtype="float64", compile=(("dynamic", True),), given=("dtype", "compile"))
    rows = Configurations(settings)
    case = case_of(settings, SEED, 1, Rung.CPU)
    made = [rows.under(case, place) for place in range(len(rows))]
    assert {c.dtype for c in made} == {"float64"}
    assert {dict(c.compile.options)["dynamic"] for c in made} == {True}
    assert len({c.context for c in made}) == 3


def test_settings_of_generated_code_are_not_for_interpreted_kernels() -> None:
    rows = Configurations(Settings())
    case = case_of(Settings(), SEED, 1, Rung.CPU)
    names = [
        {name for place in range(len(rows)) for name, _ in rows.under(c, place).compile.inductor}
        for c in (case, interpreted(case, Kernels.CPP))
    ]
    assert names[0] - names[1] == {axis.name for axis in axes_of("cpu") if axis.compiled}


def test_a_case_under_a_row_is_stored_as_it_is() -> None:
    rows = Configurations(Settings())
    case = case_of(Settings(), SEED, 1, Rung.CPU)
    for place in range(len(rows)):
        made = rows.under(case, place)
        again = from_json(Case, json.loads(json.dumps(to_json(made))))
        assert again.id == made.id and replace(again, seed=made.seed) == made
