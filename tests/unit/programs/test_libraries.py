"""Operators that seeds register: a seed may be imported again, and its operators live as long as it does."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.fx.operator_schemas import normalize_function

from fxmorph.core.seeds import find_seeds
from fxmorph.model import CompileConfig
from fxmorph.programs.capture import capture_aten, capture_torch
from fxmorph.programs.graph import function_of
from fxmorph.programs.load import LoadedSeed, SeedFailed, load_seed

pytestmark = pytest.mark.usefixtures("torch_quiet")


@pytest.fixture(autouse=True)
def little_to_collect() -> Iterator[None]:
    """What was there before is no garbage, and need not be walked by each ``gc.collect``."""
    gc.freeze()
    yield
    gc.unfreeze()


INPUTS = "def make_inputs(): return [torch.ones(3)]\ndef fn(x): return torch.ops.{ns}.twice(x) + 1\n"
LIBRARY = """
{hold}torch.library.Library("{ns}", "{kind}")
lib.define("twice(Tensor x) -> Tensor")
lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
lib.impl("twice", lambda x: torch.empty_like(x), "Meta")
"""
CUSTOM = """
@torch.library.custom_op("{ns}::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@twice.register_fake
def _(x): return torch.empty_like(x)
"""
FUNCTIONS = """
torch.library.define("{ns}::twice", "(Tensor x) -> Tensor")
@torch.library.impl("{ns}::twice", "CompositeExplicitAutograd")
def twice(x): return x * 2
@torch.library.register_fake("{ns}::twice")
def _(x): return torch.empty_like(x)
"""
DEF = LIBRARY.replace("{hold}", "lib = ").replace("{kind}", "DEF")
FORMS = {
    "DEF": DEF,
    "FRAGMENT": LIBRARY.replace("{hold}", "lib = ").replace("{kind}", "FRAGMENT"),
    "custom_op": CUSTOM,
    "functions": FUNCTIONS,
    "in a function": "def register():\n    " + DEF.strip().replace("\n", "\n    ") + "\nregister()\n",
}


def loaded(file: Path, text: str) -> LoadedSeed:
    file.write_text("import torch\n" + text)
    return load_seed(find_seeds([str(file)])[0][0])


def result(seed: LoadedSeed) -> list[float]:
    made = seed.fresh()
    return list(made.drive(made.fn).tolist())


def seed_of(form: str, ns: str) -> str:
    return (FORMS[form] + INPUTS).replace("{ns}", ns)


@pytest.mark.parametrize("form", FORMS)
def test_a_seed_is_imported_twice(form: str, tmp_path: Path) -> None:
    text = seed_of(form, f"twice_{list(FORMS).index(form)}")
    first = loaded(tmp_path / "seed.py", text)
    second = loaded(tmp_path / "seed.py", text)
    gc.collect()
    assert result(first) == result(second) == [3.0] * 3
    del first, second
    gc.collect()
    assert result(loaded(tmp_path / "seed.py", text)) == [3.0] * 3


@pytest.mark.parametrize("form", FORMS)
def test_another_seed_may_define_the_same_operators(form: str, tmp_path: Path) -> None:
    ns = f"shared_{list(FORMS).index(form)}"
    text = seed_of(form, ns)
    assert result(loaded(tmp_path / "a.py", text)) == [3.0] * 3
    assert result(loaded(tmp_path / "b.py", text.replace("x * 2", "x * 5"))) == [6.0] * 3
    assert result(loaded(tmp_path / "a.py", text)) == [3.0] * 3
    assert result(loaded(tmp_path / "a.py", text.replace("x * 2", "x * 7"))) == [8.0] * 3  # edited


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("capture", [capture_torch, capture_aten])
def test_its_graph_is_captured_and_printed_and_runs(form: str, capture: object, tmp_path: Path) -> None:
    ns = f"captured_{list(FORMS).index(form)}"
    seed = loaded(tmp_path / "seed.py", seed_of(form, ns))
    (graph,) = capture(seed.fresh(), CompileConfig.make("aot_eager"), True)  # type: ignore[operator]
    del seed
    gc.collect()
    assert f"{ns}.twice" in graph.text
    out = function_of(graph.text)(*graph.inputs.rebuild())
    assert (out[0] if isinstance(out, (tuple, list)) else out).tolist() == [3.0] * 3


def test_a_seed_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    text = seed_of("DEF", "halfway")
    with pytest.raises(SeedFailed, match="ZeroDivisionError"):
        loaded(tmp_path / "seed.py", text + "1 / 0\n")
    assert result(loaded(tmp_path / "seed.py", text)) == [3.0] * 3


def test_what_a_seed_overrides_other_seeds_do_not_see(tmp_path: Path) -> None:
    override = 'lib = torch.library.Library("aten", "IMPL")\nlib.impl("cos", lambda x: x + 40, "CPU")\n'
    plain = "def make_inputs(): return [torch.zeros(1)]\ndef fn(x): return x.cos()\n"
    assert result(loaded(tmp_path / "a.py", override + plain)) == [40.0]
    assert result(loaded(tmp_path / "b.py", plain)) == [1.0]
    assert result(loaded(tmp_path / "a.py", override + plain)) == [40.0]
    loaded(tmp_path / "b.py", plain)


def test_seeds_that_register_nothing_are_made_anew(tmp_path: Path) -> None:
    inputs = "calls = []\ndef make_inputs(): return [torch.zeros(1)]\n"
    text = inputs + "def fn(x):\n    calls.append(1)\n    return x + len(calls)\n"
    assert result(loaded(tmp_path / "seed.py", text)) == result(loaded(tmp_path / "seed.py", text)) == [1.0]


def test_an_operator_of_the_same_name_has_its_own_signature(tmp_path: Path) -> None:
    for number, (parameters, given) in enumerate([("x: torch.Tensor, k: float", (2.0,)), ("x: torch.Tensor", ())]):
        text = CUSTOM.replace("x: torch.Tensor)", f"{parameters})").replace("_(x)", f"_({parameters})")
        loaded(tmp_path / f"s{number}.py", (text + INPUTS).replace("{ns}", "fxmtwosignatures"))
        operator = torch.ops.fxmtwosignatures.twice.default
        bound = normalize_function(operator, (torch.ones(3), *given), {}, normalize_to_only_use_kwargs=True)
        assert bound is not None and len(bound.kwargs) == 1 + len(given)
