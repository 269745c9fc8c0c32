"""A rule's level is that of the weakest of its arguments, which are drawn so that corners are among them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxmorph.model import Level
from fxmorph.programs.inputs import spec_of
from fxmorph.prove.argument_draws import PROVED, TRIED, arguments_of
from fxmorph.prove.certificates import instance_text
from fxmorph.prove.prover import Prover
from fxmorph.prove.rule_level import prove_rule
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
    assert any(i.tensors["x"].storage_offset() for i in drawn)
    assert max(n for i in arguments_of(TURNED, "float32", 60) for n in i.tensors["x"].shape) > 1024
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
    assert proof.scope.startswith("all sizes, rank 2; 10 shapes of sizes up to 1")
    assert f"with 0, 1, offsets, unequal sizes; {TRIED} more in eager, of sizes up to 3100" in proof.scope
    assert len(proof.certificates) == PROVED + 1  # the last one is for all sizes


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
    assert proof.level is Level.UNKNOWN and proof.reason == "no arguments meet the conditions"


def test_a_pattern_that_never_runs_is_told() -> None:
    typo = rule(lambda x: torch.trasnpose(x, 0, 1), lambda x: x.t(), {"x": "m n"})
    proof = prove_rule(typo, "float32", Prover())
    assert proof.level is Level.UNKNOWN and "does not run: module 'torch' has no attribute 'trasnpose'" in proof.reason


def _with_scratch(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = x.clone()
    x.mul_(2)
    made = torch.stack([x, y])
    x.copy_(kept)
    return made


def test_arguments_that_share_memory_are_drawn() -> None:
    wrong = rule(
        lambda x, y: torch.stack([x * 2, y]),
        _with_scratch,
        {"x": "n", "y": "n"},
        Level.BIT_EXACT,
        preserves=frozenset(("mutation",)),
    )
    drawn = list(arguments_of(wrong, "float32", 40))
    assert any(i.sharing for i in drawn) and not all(i.sharing for i in drawn)
    proof = prove_rule(wrong, "float32", Prover())
    assert proof.level is Level.REFUTED and "in the memory of x" in proof.counterexample


def test_offsets_are_drawn() -> None:
    wrong = rule(lambda x: x.clone(), lambda x: x.as_strided(x.shape, x.stride(), 0).clone(), {"x": "m n"})
    proof = prove_rule(wrong, "float32", Prover())
    assert proof.level is Level.REFUTED and "offset" in proof.counterexample


@pytest.mark.parametrize("size", [17, 33, 129, 257, 1025])
def test_sizes_from_which_on_a_rule_is_wrong_are_drawn(size: int) -> None:
    wrong = rule(lambda x: x.flip(-1), lambda x: x.flip(-1) if x.shape[-1] < size else x * 1, {"x": "... n"})
    assert all(prove_rule(wrong, dtype, Prover()).level is Level.REFUTED for dtype in wrong.dtypes)


def test_integers_of_mixed_rules_are_more_than_0_and_1() -> None:
    said: dict[str, Any] = {"where": ("i.dtype == 'int64'", "x.floating"), "mixed": True}
    squared = rule(lambda x, i: x * (i * i), lambda x, i: x * i, {"x": "n", "i": "n"}, Level.BIT_EXACT, **said)
    clamped = rule(lambda x, i: x[i], lambda x, i: x[i.clamp(min=0)], {"x": "2", "i": "k"}, Level.INDEX_EXACT, **said)
    assert prove_rule(squared, "float32", Prover()).level is Level.REFUTED
    assert prove_rule(clamped, "float32", Prover()).level is Level.REFUTED


def test_dtypes_of_mixed_rules_meet() -> None:
    wrong = rule(
        lambda x, y: x + y, lambda x, y: x + y.to(x.dtype), {"x": "n", "y": "n"}, Level.BIT_EXACT, mixed=True,
        dtypes=("float16", "bfloat16"), where=("x.floating", "y.floating"), preserves=frozenset(("dtype",)),
    )  # fmt: skip
    assert prove_rule(wrong, "float16", Prover()).level is Level.REFUTED


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
    assert proof.level is Level.UNKNOWN
    assert "the replacement raises ValueError" in proof.reason
    raised, tried = map(int, re.search(r"\((\d+) of (\d+) arguments\)$", proof.reason).groups())  # type: ignore[union-attr]
    assert PROVED + TRIED < tried < 2 * raised
