"""Operations whose code alone is wrong: none of a compiler that is right, in more loops than one too."""

from __future__ import annotations

import pytest
import torch

from fxmorph.model import CompileConfig
from fxmorph.torchapi.codegen_ops import wrong_operations
from fxmorph.torchapi.compiling import cpp_compiler, reset
from fxmorph.torchapi.noted_operations import Noted
from fxmorph.torchapi.planting_text import planted_text

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler"),
    pytest.mark.slow,
]
CPP = "torch._inductor.codegen.cpp"
SCALAR = CompileConfig.make(inductor={"cpp.simdlen": 1})


def accumulated() -> Noted:
    """A store that adds to what is there, with indices that come again."""
    noted, at, value = Noted(), torch.tensor([0, 2, 1, 2]), torch.tensor([1.0, 2.0, 3.0, 4.0])
    noted.note("store", (at, value, "atomic_add"), {}, torch.zeros(3).index_put((at,), value, accumulate=True))
    return noted


@pytest.mark.parametrize("config", [CompileConfig.make(), SCALAR], ids=["vector", "scalar"])
def test_nothing_is_wrong_with_a_compiler_that_is_right(config: CompileConfig) -> None:
    reset()
    assert wrong_operations(accumulated(), config, among=["reduction", "store"]) == []


def test_a_store_of_rows_that_does_not_add_is_wrong() -> None:
    reset()
    edit = 'value = f"({value} + {load})"', 'value = f"({value})"'
    with planted_text(CPP, "CppVecKernel._get_store_line", *edit):
        assert wrong_operations(accumulated(), CompileConfig.make(), among=["store"]) == ["store(atomic_add)"]
