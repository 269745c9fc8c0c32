"""Planted miscompilations must be found, named, blamed and reduced to what matters.

Each test plants a fault in this process, judges a small seed as a campaign's worker would, and
investigates what stands.  These compile with Inductor.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from fxmorph.core.clock import Clock
from fxmorph.core.finding_parts import Repro
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.case import judge_case
from fxmorph.model import Case, CaseResult, CompileConfig, Finding, Kind, Recipe, Status, ValuePlan
from fxmorph.rules import Registry
from fxmorph.torchapi.compiling import compile_callable, configured, cpp_compiler, reset
from fxmorph.torchapi.planting import planted_decomposition, planted_lowering, planted_pass
from fxmorph.triage.conclusion import Investigated
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.investigate import as_found, investigate

pytestmark = [
    pytest.mark.usefixtures("torch_quiet"),
    pytest.mark.skipif(cpp_compiler() is None, reason="Inductor needs a C++ compiler"),
]
#: Enough for a reduction; a campaign takes 60.
SECONDS = 40.0

LONG = """import torch
def make_inputs(): return [torch.randn(4, 6), torch.randn(4, 6)]
def fn(x, y):
    a = x * 2 + y
    b = torch.relu(a) - y
    c = b.{op}()
    d = c * y + 1
    return d.sum(0), a.mT
"""
TAN_IS_TAN_PLUS = """import torch
def make_inputs(): return [torch.rand(3, 5)]
def fn(x):
    a = x + 1
    b = torch.nn.functional.silu(a)
    return b * 2, a - 1
"""
WRITES = """import torch
def make_inputs(): return [torch.randn(4, 6)]
def fn(x):
    x.copy_(x.sin() + 1)
    return x * 2
"""


@dataclass
class Found:
    """What a campaign would have: the case, its result, and the investigation where it stands."""

    case: Case
    result: CaseResult
    investigated: Investigated | None


def hunt(text: str, folder: Path, rules: Any, recipe: Recipe | None = None, reduce: bool = True) -> Found:
    (folder / "planted.py").write_text(text)
    (seed,), _ = find_seeds([str(folder / "planted.py")])
    plans = (ValuePlan.SEED, ValuePlan.EXACT)
    case = Case(seed, 1 if recipe else 0, 0, plans, CompileConfig.make(), recipe=recipe)
    clock = Clock()
    result = judge_case(case, rules, clock)
    stands = reduce and result.status is Status.FINDING
    return Found(case, result, investigate(case, result, rules, clock, SECONDS) if stands else None)


def double_additions(graph: fx.Graph) -> None:
    """The planted pass: every sum of two tensors is a difference."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        if isinstance(node.args[1], fx.Node):
            node.target = torch.ops.aten.sub.Tensor


def drop_writes(graph: fx.Graph) -> None:
    """The planted pass: what is copied into an input is the input itself."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
        node.args = (node.args[0], node.args[0])


def wrong_silu(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x * 1.001)


CACHES = """import torch
class Layer:
    def __init__(self): self.keys = None
class Cache:
    def __init__(self): self.layers = [Layer(), Layer()]
def make_inputs(): return [torch.randn(4, 6), Cache()]
def fn(x, cache):
    torch._dynamo.graph_break()
    made = Cache()
    {where}.layers[1].keys = (x * 2).sin()
    torch._dynamo.graph_break()
    return (x + 1).relu(), made
"""


PLANTS: dict[str, tuple[Callable[[], AbstractContextManager[None]], str, str, Kind, str]] = {
    "lowering": (lambda: planted_lowering("sin", "cos"), LONG.format(op="sin"), "inductor", Kind.VALUE, "sin"),
    "decomposition": (
        lambda: planted_decomposition("silu", wrong_silu), TAN_IS_TAN_PLUS, "decomposition", Kind.VALUE, "silu"
    ),
    "pass": (lambda: planted_pass(double_additions), LONG.format(op="sin"), "inductor", Kind.VALUE, " + "),
    "dropped write": (
        lambda: planted_pass(drop_writes, "remove_noop_ops", "post_grad"), WRITES, "inductor", Kind.MUTATION, "copy_"
    ),
}  # fmt: skip


@contextmanager
def fresh_caches() -> Iterator[None]:
    """Nothing that was compiled outside of the plant is used inside, nor the reverse."""
    reset()
    try:
        yield
    finally:
        reset()


#: Those of which other files of the default run have one like it.
_SLOW = ("decomposition", "pass")


@pytest.fixture(
    scope="module", params=[pytest.param(n, marks=pytest.mark.slow) if n in _SLOW else n for n in PLANTS]
)
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, rules: Any) -> tuple[str, Found]:
    plant, text, *_ = PLANTS[request.param]
    with fresh_caches(), plant():
        return request.param, hunt(text, tmp_path_factory.mktemp("planted"), rules)


def test_it_is_found_with_its_kind(planted: tuple[str, Found]) -> None:
    name, found = planted
    assert found.result.status is Status.FINDING, found.result.reason
    assert PLANTS[name][3] in found.result.kinds


def test_its_stage_is_named(planted: tuple[str, Found]) -> None:
    name, found = planted
    assert found.result.stage == PLANTS[name][2]


def test_it_is_reduced_to_at_most_three_nodes(planted: tuple[str, Found]) -> None:
    name, found = planted
    assert found.investigated is not None
    assert found.investigated.nodes <= 3, found.investigated.program
    assert PLANTS[name][4] in found.investigated.program


def differs(investigated: Investigated) -> bool:
    program: dict[str, Any] = {"torch": torch}
    exec(investigated.program, program)
    config = CompileConfig.make(investigated.config["backend"])
    sides = []
    for wrap in (lambda f: f, lambda f: compile_callable(f, config)):
        torch.manual_seed(0)
        values = program["make_inputs"]()
        with configured(config):
            out = wrap(program["fn"])(*values)
        sides.append([*(out if isinstance(out, tuple) else (out,)), *values])
    return not all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(*sides, strict=True))


def test_the_reduced_program_shows_it_under_the_plant_alone(planted: tuple[str, Found]) -> None:
    name, found = planted
    assert found.investigated is not None
    assert not differs(found.investigated)
    with fresh_caches(), PLANTS[name][0]():
        assert differs(found.investigated)


def test_as_found_the_program_shows_it_too(planted: tuple[str, Found], rules: Any) -> None:
    """What is written where an investigation would end its worker: on a GPU, every device-side assertion."""
    name, found = planted
    got = as_found(found.case, found.result, rules, Clock())
    assert got.kinds == found.result.kinds and got.evidence and not got.finished and not got.unit
    assert not differs(got)
    with fresh_caches(), PLANTS[name][0]():
        assert differs(got)


def test_without_time_to_reduce_it_is_blamed_and_as_it_was_found(planted: tuple[str, Found], rules: Any) -> None:
    name, found = planted
    case, result = found.case, found.result
    with fresh_caches(), PLANTS[name][0]():
        got = investigate(case, result, rules, Clock(), SECONDS, reduce=False)
        like = investigate(case, result, rules, Clock(), SECONDS, (got.group,), reduce=False)
    assert got.unit == UNITS[name] and got.kinds == result.kinds and not got.finished
    assert got.program == as_found(case, result, rules, Clock()).program
    assert (like.program, like.group) == ("", got.group)  # one of the same cause needs no program


def test_its_repro_is_a_program(planted: tuple[str, Found]) -> None:
    _, found = planted
    got = found.investigated
    assert got is not None
    finding = Finding(
        "0" * 12, got.case_id, "", got.recipe, got.kinds, "ugo", found.result.stage, got.unit, "", "", "", got.program,
        repro=Repro(got.config, got.check, random=True),
    )  # type: ignore[arg-type]  # fmt: skip
    text = repro_text(finding)
    compile(text, "repro.py", "exec")
    assert "fxmorph" not in "".join(line for line in text.splitlines() if not line.startswith("#"))


UNITS = {
    "lowering": "lowering.aten.sin.default",
    "decomposition": "decomposition.aten.silu.default",
    "pass": "joint.constant_fold_uniform_value",
    "dropped write": "post_grad.remove_noop_ops",
}


def test_the_guilty_unit_is_named(planted: tuple[str, Found]) -> None:
    name, found = planted
    assert found.investigated is not None
    assert found.investigated.unit == UNITS[name]


#: Public bugs that torch 2.13.0 has on CPU, and one kind that each shows.
LIVE = {
    "pt189518_counting_cumsum_dtype": Kind.DTYPE,
    "pt195451_scatter_result_aliases_input": Kind.ALIAS,
    "pt198131_copy_then_change_source": Kind.MUTATION,
}
REGRESSIONS = Path(__file__).parents[2] / "corpus" / "regressions"


@pytest.mark.skipif(not torch.__version__.startswith("2.13.0"), reason="the list is of the bugs of torch 2.13.0")
@pytest.mark.parametrize("name", LIVE)
def test_a_public_bug_of_this_release_is_found(name: str, tmp_path: Path, rules: Any) -> None:
    with fresh_caches():
        found = hunt((REGRESSIONS / f"{name}.py").read_text(), tmp_path, rules, reduce=False)
    assert found.result.status is Status.FINDING
    assert LIVE[name] in found.result.kinds
    assert found.result.stage == "inductor"


def test_a_sound_compiler_is_clean(tmp_path: Path, rules: Any) -> None:
    for _, text, *_ in PLANTS.values():
        found = hunt(text, tmp_path, rules)
        assert found.result.status in {Status.CLEAN, Status.EXPECTED}, found.result.reason


def test_a_fault_that_only_a_variant_shows_is_the_variants(tmp_path: Path, rules: Any) -> None:
    """The seed has no addition of tensors; a rewrite brings one in, and the plant breaks it."""
    inputs = "[torch.randn(3, 4), torch.randn(3, 4)]"
    text = f"import torch\ndef make_inputs(): return {inputs}\ndef fn(x, y): return x - y\n"
    with fresh_caches(), planted_pass(double_additions):
        assert hunt(text, tmp_path, rules).result.status is Status.CLEAN
        found = hunt(text, tmp_path, rules, Recipe.parse("algebra_sub_as_add_neg@sub"))
    assert found.result.status is Status.FINDING
    assert found.result.triangle == "variant-miscompiled"
    assert found.investigated is not None
    assert found.investigated.recipe == "algebra_sub_as_add_neg@sub"


@pytest.mark.parametrize(
    ("where", "kind", "slot"),
    [("made", Kind.VALUE, "out1"), ("cache", Kind.MUTATION, "after:arg1")],
)
@pytest.mark.slow
def test_it_is_found_within_an_object(where: str, kind: Kind, slot: str, tmp_path: Path, rules: Any) -> None:
    """Two graphs and an object between them: nothing is reduced, and the source itself must show it."""
    with fresh_caches(), planted_lowering("sin", "cos"):
        found = hunt(CACHES.format(where=where), tmp_path, rules)
    assert (found.result.status, found.result.kinds) == (Status.FINDING, (kind,)), found.result.reason
    assert f"{slot}.layers[1].keys" in found.result.reason
    assert found.investigated is not None and found.investigated.config["objects"]
    with fresh_caches():
        assert hunt(CACHES.format(where=where), tmp_path, rules).result.status is Status.CLEAN


CUT_OFF = """
import sys, pathlib, torch
from fxmorph.core.clock import Clock
from fxmorph.programs.inputs import InputSet
from fxmorph.judge.trial import GraphSubject, Trial
from fxmorph.model import CompileConfig, ValuePlan
def fn(x):
    return (x.sin() * 0.12345,)
subject = GraphSubject(fn, {ValuePlan.SEED: InputSet.snapshot([torch.ones(5)])}, lambda c: c)
seen = Trial(subject, CompileConfig.make(), 0, Clock()).compiled(ValuePlan.SEED)
sys.exit(seen.raised or 0)
"""


@pytest.mark.slow
def test_a_library_that_a_killed_linker_left_is_compiled_again(tmp_path: Path) -> None:
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", CUT_OFF], env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (library,) = [f for f in tmp_path.rglob("*.main.so") if "0.12345" in f.with_suffix(".cpp").read_text()]
        assert library.stat().st_size
        library.write_bytes(b"")


FROZEN = """import torch
def make_inputs(): return [torch.randn(2, 3)]
def make_fn(): return torch.nn.Linear(3, 4).eval()
META = {"no_grad": True, "config": {"freezing": True}}
"""


def test_parameters_that_were_frozen_are_compiled_again_for_other_values(tmp_path: Path, rules: Registry) -> None:
    (tmp_path / "seed.py").write_text(FROZEN)
    (seed,), _ = find_seeds([str(tmp_path / "seed.py")])
    case = Case(seed, 0, 0, (ValuePlan.SEED, ValuePlan.EXACT, ValuePlan.AGAIN), CompileConfig.make())
    result = judge_case(case, rules, Clock())
    assert (result.status, result.ladder) == (Status.CLEAN, ()), result.reason
