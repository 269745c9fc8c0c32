"""Which parts a model has, what they are given, and how their errors grow."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxmorph.campaign.part_seeds import write_part
from fxmorph.core.model_parts import Part, divided
from fxmorph.core.seeds import find_seeds
from fxmorph.programs.load import LoadedSeed, load_seed
from fxmorph.programs.parts import called_parts, error_growth

MODEL = """
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x, *, by=1.0, mask=None):
        y = self.inner(x) * by
        return y if mask is None else y * mask


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Scaled(), Scaled()])
        self.act = torch.nn.Tanh()

    def forward(self, x, mask):
        x = self.act(self.layers[0](x))
        x = self.act(self.layers[1](x, by=2.0, mask=mask))
        return x


def make_inputs():
    return [torch.randn(3, 4), torch.rand(3, 4)]
"""
PARTS = ["", "layers.0", "layers.0.inner", "act", "layers.1", "layers.1.inner"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.py"
    file.write_text(MODEL)
    return file


def loaded(model: Path, mode: str = "eval") -> LoadedSeed:
    seeds, _ = find_seeds([f"{model}:Net"])
    return load_seed(next(seed for seed in seeds if seed.mode == mode))


def test_parts_are_told_in_the_order_of_their_first_calls(model: Path) -> None:
    parts = called_parts(loaded(model).fresh())
    assert [part.name for part in parts] == PARTS
    assert [part.within for part in parts] == ["", "", "layers.0", "", "", "layers.1"]
    assert parts[4] == Part("layers.1", "Scaled", "", ("by", "mask"))


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_a_part_is_given_what_it_is_given_in_the_model(name: str, mode: str, model: Path, tmp_path: Path) -> None:
    whole = loaded(model, mode)
    part = next(part for part in called_parts(whole.fresh()) if part.name == name)
    seen: list[Any] = []
    made = whole.fresh(3)
    part_of = made.fn.get_submodule(name)
    part_of.register_forward_hook(lambda _, args, kwargs, out: seen.append((args, out)), with_kwargs=True)
    made.drive(made.fn)
    (file,) = find_seeds([str(write_part(tmp_path / "parts", whole.seed, part))])[0]
    alone = load_seed(file).fresh(3)
    args, out = seen[0]
    assert all(torch.equal(a, b) for a, b in zip(args, alone.args, strict=False))
    assert torch.equal(alone.drive(alone.fn), out)
    needs = [a.requires_grad for a in alone.args if isinstance(a, torch.Tensor)]
    assert any(needs) == (mode == "train" and name not in ("", "layers.0", "layers.0.inner"))


def test_errors_grow_where_a_part_is_compiled_wrong(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(forward: Any, **_: Any) -> Any:
        wrong = forward.__self__.__class__ is torch.nn.Tanh
        return lambda *args, **kwargs: forward(*args, **kwargs) * (1.5 if wrong else 1.0)

    monkeypatch.setattr(torch, "compile", compiled)
    errors = {each.name: each for each in error_growth(loaded(model), ["layers.0", "act", "layers.1"])}
    assert all(each.eager < 1e-6 for each in errors.values())
    assert errors["layers.0"].compiled == errors["layers.0"].eager
    assert errors["act"].compiled == pytest.approx(0.5, abs=1e-6)
    assert errors["layers.1"].compiled > 1e-2


def test_what_follows_a_part_that_does_not_compile_has_no_error(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compiled(forward: Any, **_: Any) -> Any:
        def raising(*args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("does not compile")

        return raising if forward.__self__.__class__ is torch.nn.Tanh else forward

    monkeypatch.setattr(torch, "compile", compiled)
    errors = {each.name: each.compiled for each in error_growth(loaded(model), ["layers.0", "act", "layers.1"])}
    assert errors["layers.0"] < 1e-6 and math.isnan(errors["act"]) and math.isnan(errors["layers.1"])


def test_a_model_is_divided_where_most_is_inside() -> None:
    def parts(*names: str) -> list[Part]:
        return [Part("", "Net", ""), *(Part(name, "Block", name.rpartition(".")[0]) for name in names)]

    blocks = [f"body.{i}" for i in range(12)]
    several = parts("embed", "body", *blocks, "body.3.mlp", "head")
    assert [part.name for part in divided(several)] == ["embed", *blocks, "head"]
    assert [part.name for part in divided(parts("one", "one.two"))] == ["one.two"]
    assert divided(parts()) == []


def test_a_model_is_not_divided_into_too_many_parts() -> None:
    many = [Part("", "Net", ""), Part("body", "Body", "")]
    many += [Part(f"body.{i}", "Block", "body") for i in range(60)]
    assert [part.name for part in divided(many)] == ["body"]
    assert len(divided([replace(part, within="") for part in many if part.name != "body"])) == 60
