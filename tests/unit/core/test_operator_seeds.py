"""Seeds that are calls of an operator."""

from __future__ import annotations

import pytest

from fxmorph.core.operator_seeds import OperatorProgram, Setting, operator_seeds
from fxmorph.core.seeds import SeedError, find_seeds


@pytest.mark.parametrize("setting", list(Setting))
def test_a_label_names_its_seed(setting: Setting) -> None:
    program = OperatorProgram("nn.functional.pad.constant", "int64", setting, 3)
    seed = program.seed()
    assert OperatorProgram.of(seed) == program
    assert seed.label == f"op:nn.functional.pad.constant:int64[{setting} 3]"
    assert operator_seeds(seed.label) == [seed] == find_seeds([seed.label])[0]


def test_what_is_left_out_is_float32_in_three_settings() -> None:
    seeds = operator_seeds("op:add")
    assert [s.label for s in seeds] == [f"op:add:float32[{s} 0]" for s in ("alone", "backward", "fused")]
    assert len({s.hash for s in seeds}) == 3


def test_several_operators_are_one_seed() -> None:
    (seed,) = operator_seeds("op:add+roll:int64[changed 1]")
    program = OperatorProgram("add+roll", "int64", Setting.CHANGED, 1)
    assert OperatorProgram.of(seed) == program and program.operators == ["add", "roll"]
    assert operator_seeds(seed.label) == [seed]


@pytest.mark.parametrize(
    "text", ["op:", "op:add:", "op:add+", "op:+add", "op:add[sideways]", "op:add:int64[alone", "op:a b"]
)
def test_what_names_no_program_is_refused(text: str) -> None:
    with pytest.raises(SeedError, match="op:"):
        find_seeds([text])
