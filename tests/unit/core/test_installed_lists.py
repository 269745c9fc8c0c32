"""What is remembered of the installed torch, and when it is not believed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fxmorph.core import installed_lists
from fxmorph.core.features import Feature, FeatureKind, Reach
from fxmorph.core.installed_lists import FEATURES, OPERATORS, REACHES, UNITS
from fxmorph.core.operator_seeds import ListedOperator
from fxmorph.core.units import Stage, Unit, UnitKind

FOUND = (
    Unit("joint.one", Stage.JOINT, UnitKind.PASS, "torch.one", True, "", "all", True),
    Unit("lowering.two", Stage.LOWERING, UnitKind.LOWERING, "torch.two", False, "two=True", "cuda", False, "x"),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "fxmorph" / "units.json"


def test_nothing_is_remembered_at_first() -> None:
    assert UNITS.remembered() is None


def test_units_come_back_as_they_were() -> None:
    UNITS.remember(FOUND)
    assert UNITS.remembered() == FOUND


def test_another_release_is_another_list(monkeypatch: pytest.MonkeyPatch) -> None:
    UNITS.remember(FOUND)
    monkeypatch.setattr(installed_lists, "version_of", lambda package: "0")
    assert UNITS.remembered() is None


def test_a_changed_file_is_another_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "inductor" / "passes.py"
    code.parent.mkdir()
    code.write_text("")
    monkeypatch.setattr(installed_lists, "_OWN", (str(code.parent),))
    UNITS.remember(FOUND)
    assert UNITS.remembered() == FOUND
    os.utime(code, ns=(0, 2**62))
    assert UNITS.remembered() is None


@pytest.mark.parametrize("text", ["", "{}", '["x", []]', "[1, 2, 3]"])
def test_a_damaged_file_is_no_list(cache: Path, text: str) -> None:
    UNITS.remember(FOUND)
    cache.write_text(text)
    assert UNITS.remembered() is None


def test_a_folder_that_cannot_be_written(cache: Path) -> None:
    cache.parent.write_text("a file in the way")
    UNITS.remember(FOUND)
    assert UNITS.remembered() is None


def test_operators_come_back_as_they_were_beside_units() -> None:
    lowerings, code = frozenset({"aten.roll.default", "aten.b"}), frozenset({"lowering.roll"})
    found = (ListedOperator("roll", ("float32", "int64"), 3, True, False, lowerings, code),)
    UNITS.remember(FOUND)
    OPERATORS.remember(found)
    assert OPERATORS.remembered() == found and UNITS.remembered() == FOUND


def test_features_and_what_seeds_reach_come_back_as_they_were() -> None:
    features = (Feature(FeatureKind.API, "torch.add"), Feature(FeatureKind.OVERLOAD, "aten.add.Tensor"))
    reaches = (Reach("0" * 16, ("torch.add",), ("aten.add.Tensor",), ("joint.one",), "1" * 16, 0.25),)
    FEATURES.remember(features)
    REACHES.remember(reaches)
    assert (FEATURES.remembered(), REACHES.remembered()) == (features, reaches)
