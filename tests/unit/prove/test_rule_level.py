"""A rule's level is that of the weakest of its arguments, which are drawn so that corners are among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.programs.inputs import spec_of
from fxmorph.prove.certificates import instance_text
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import PROVED, arguments_of, prove_rule
from fxmorph.rewriting.instances import holds
from fxmorph.rules import Rule

pytestmark = pytest.mark.usefixtures("torch_quiet")
Program = Callable[..., torch.Tensor]


def rule(before: Program, after: Program, args: dict[str, str], claim: Level = Level.EXACT_REAL, **said: Any) -> Rule:
    said.setdefault("dtypes", ("float32", "float16"))
    return Rule("r", before, after, args, "r", claim=claim, **said)


TURNED = rule(lambda x: x.t(), lambda x: x.transpose(0, 1), {"x": "m n"}, Level.INDEX_EXACT)


def test_corners_are_drawn() -> None:
    drawn = list(arguments_of(TURNED, "float32", PROVED))
    sizes = {n for i in drawn for n in i.tensors["x"].shape}
    assert {0, 1} <= sizes and max(sizes) > 2
    assert any(len(set(i.tensors["x"].shape)) > 1 for i in drawn)
    assert any(not i.tensors["x"].is_contiguous() for i in arguments_of(TURNED, "float32", 60))
    assert any(0 in i.tensors["x"].stride() for i in arguments_of(TURNED, "float32", 60))
    texts = [instance_text(i) for i in drawn]
    assert len(set(texts)) == len(texts)
    assert texts == [instance_text(i) for i in arguments_of(TURNED, "float32", PROVED)]


def test_arguments_are_of_the_dtype_and_hold() -> None:
    narrow = rule(TURNED.before, TURNED.after, {"x": "m n"}, where=("m > n", "x.dtype != 'float32'"))
    assert not list(arguments_of(narrow, "float32", 5))
    for made in arguments_of(narrow, "float16", 5):
        assert made.tensors["x"].dtype == torch.float16
        assert holds(narrow, {"x": spec_of(made.tensors["x"])}, {})


def test_scalars_are_drawn() -> None:
    scaled = rule(lambda x, s: x * s, lambda x, s: s * x, {"x": "n"}, scalars={"s": (2, 0.5)})
    assert {i.scalars["s"] for i in arguments_of(scaled, "float32", 20)} == {2, 0.5}


def test_mixed_rules_get_indices() -> None:
    picks = rule(
        lambda x, i: x[i], lambda x, i: x.index_select(0, i), {"x": "2", "i": "k"}, Level.INDEX_EXACT, mixed=True,
        where=("i.dtype == 'int64'", "x.floating"),
    )  # fmt: skip
    drawn = list(arguments_of(picks, "float32", 5))
    assert drawn and all(i.tensors["i"].dtype == torch.int64 for i in drawn)
    proof = prove_rule(picks, "float32", Prover())
    assert proof.level is Level.INDEX_EXACT and "these-integers" in proof.assumptions


def test_scope_names_the_corners() -> None:
    proof = prove_rule(TURNED, "float32", Prover())
    assert proof.level is Level.INDEX_EXACT and proof.shapes == PROVED
    assert proof.scope.endswith("10 shapes with 0, 1, unequal sizes") and len(proof.certificates) == PROVED


def test_the_weakest_argument_decides() -> None:
    """Wrong only where the last size is 1, and only where it is not square."""
    last = rule(lambda x: x.sum(-1), lambda x: x.sum(-1) if x.shape[-1] != 1 else x[..., 0] * 2, {"x": "m n"})
    proof = prove_rule(last, "float32", Prover())
    assert proof.level is Level.REFUTED and "1] strides" in proof.counterexample
    square = rule(lambda x: x.t(), lambda x: x.reshape(x.shape[1], -1) if 0 not in x.shape else x.t(), {"x": "m n"})
    assert prove_rule(square, "float32", Prover()).level is Level.REFUTED


def test_no_arguments() -> None:
    never = rule(lambda x: x, lambda x: x, {"x": "1"}, where=("x.ndim > 1",))
    proof = prove_rule(never, "float32", Prover())
    assert proof.level is Level.UNKNOWN and proof.reason == "no arguments found"


def test_arguments_beyond_the_proved_are_tried() -> None:
    """A size that comes late is wrong: eager alone finds it."""
    drawn = [i.tensors["x"].shape for i in arguments_of(TURNED, "float32", 60)]
    late = next(s for s in drawn[PROVED:] if s not in drawn[:PROVED] and s.numel() > 4)
    wrong = rule(lambda x: x.t(), lambda x: x.t() * (2 if x.shape == late else 1), {"x": "m n"})
    proof = prove_rule(wrong, "float32", Prover())
    assert proof.level is Level.REFUTED and proof.shapes == PROVED


def test_empty_arguments_alone_show_nothing() -> None:
    def raises(x: torch.Tensor) -> torch.Tensor:
        if x.numel():
            raise ValueError
        return x * 1

    proof = prove_rule(rule(lambda x: x * 2, raises, {"x": "m n"}), "float32", Prover())
    assert proof.level is Level.UNKNOWN and proof.reason == "only empty arguments were compared"
