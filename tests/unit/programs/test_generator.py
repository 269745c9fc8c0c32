"""Generated programs: the same everywhere, valid in eager, what is tracked of their values is so."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from fxmorph.programs.generator.catalogue import DIET, FAMILIES
from fxmorph.programs.generator.dice import Dice
from fxmorph.programs.generator.draft import Draft, Mood, Value
from fxmorph.programs.generator.fresh_inputs import given
from fxmorph.programs.generator.generated import drafted, generated_text, seed_text
from fxmorph.programs.generator.spans import NoFit

#: Of the first 50 programs of seed 0.  Programs may change when rows do; they must not with the machine.
GOLDEN = "04a1f5ce6f60c1fb"
DIGEST = "hashlib.sha256(''.join(generated_text(0, n) for n in range(50)).encode()).hexdigest()[:16]"


def ran(text: str) -> dict[str, Any]:
    """The values of a program's names after it ran."""
    head, _, _ = text.rstrip().rpartition("return ")
    module: dict[str, Any] = {}
    exec(f"{head}return locals()", module)
    torch.manual_seed(0)
    inputs = module["make_inputs"]()
    return module["fn"](*inputs)


def test_the_same_numbers_give_the_same_texts() -> None:
    assert eval(DIGEST, {"hashlib": hashlib, "generated_text": generated_text}) == GOLDEN


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_texts_depend_on_no_hash_order_and_need_no_torch(hash_seed: str) -> None:
    code = (
        "import hashlib, sys; from fxmorph.programs.generator.generated import generated_text; "
        f"print({DIGEST}, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    assert done.stdout.split() == [GOLDEN, "False"]


@pytest.mark.filterwarnings("ignore")
def test_long_programs_run_in_eager_and_return_computed_numbers() -> None:
    for number in range(20):
        draft = drafted(7, number, long=True)
        assert len(draft.rows) > 60
        text = seed_text(draft, "")
        assert text != seed_text(drafted(7, number + 1, long=True), "")
        module: dict[str, Any] = {}
        exec(text, module)
        results = module["fn"](*module["make_inputs"]())
        assert len(results) > 5 and all(r.dim() == 1 for r in results)
        held = [r.untyped_storage().data_ptr() for r in results if r.numel()]
        assert len(set(held)) == len(held)


def test_other_numbers_give_other_texts() -> None:
    texts = {generated_text(seed, number) for seed in (0, 1) for number in range(50)}
    assert len(texts) == 100


@pytest.mark.filterwarnings("ignore")
def test_programs_run_in_eager_and_their_values_are_as_tracked() -> None:
    for number in range(300):
        draft = drafted(7, number)
        values = ran(seed_text(draft, ""))
        for value in draft.values:
            tensor = values[value.name]
            assert as_tracked(value, tensor), (number, value.name, tensor.shape, tensor.dtype, tensor.stride(), value)


@pytest.mark.filterwarnings("ignore")
def test_values_share_memory_only_where_that_is_tracked() -> None:
    for number in range(300):
        draft = drafted(9, number)
        values = ran(seed_text(draft, ""))
        owners: dict[int, Value] = {}
        for value in draft.values:
            place = values[value.name].untyped_storage().data_ptr()
            owner = owners.setdefault(place, value) if place else value
            assert owner.storage is value.storage, (number, owner.name, value.name)


def as_tracked(value: Value, tensor: torch.Tensor) -> bool:
    if tuple(tensor.shape) != value.shape or str(tensor.dtype) != f"torch.{value.dtype}":
        return False
    if tensor.requires_grad and not value.grad:
        return False
    strides = value.layout.strides
    if strides is None or not tensor.numel():
        return True
    return all(s == w for n, s, w in zip(tensor.shape, tensor.stride(), strides, strict=True) if n > 1)


@pytest.mark.filterwarnings("ignore")
def test_results_are_finite_and_gradients_computed() -> None:
    for number in range(200):
        module: dict[str, Any] = {}
        exec(generated_text(8, number), module)
        torch.manual_seed(0)
        inputs = module["make_inputs"]()
        out = module["fn"](*inputs)
        outputs = [t for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, torch.Tensor)]
        numbers = [t for t in outputs if t.is_floating_point() or t.is_complex()]
        assert all(bool(torch.isfinite(t).all()) for t in numbers), number
        followed = [t for t in numbers if t.requires_grad]
        if followed:
            torch.autograd.backward([(t.abs() if t.is_complex() else t).sum() for t in followed])


@pytest.mark.filterwarnings("ignore")
def test_a_second_call_runs_on_what_the_first_left() -> None:
    for number in range(200):
        module: dict[str, Any] = {}
        exec(generated_text(10, number), module)
        torch.manual_seed(0)
        inputs = module["make_inputs"]()
        if not any(t.requires_grad for t in inputs):
            module["fn"](*inputs)
            module["fn"](*inputs)


def test_every_row_is_drawn() -> None:
    names = [row.name for rows in FAMILIES.values() for row in rows]
    assert len(names) == len(set(names))
    drawn: set[str] = set()
    for number in range(6000):
        drawn.update(drafted(0, number).rows)
        if len(drawn) == len(names):
            break
    assert drawn == set(names)


def test_a_diet_draws_what_it_names_and_nothing_else() -> None:
    layers = {row.name for row in FAMILIES["layers"]}
    assert set(DIET) == set(FAMILIES)
    for number in range(30):
        assert set(drafted(0, number, {"layers": 1.0}).rows) <= layers


def test_programs_write_and_share_memory_often() -> None:
    written = sum(any(v.storage.written for v in drafted(0, number).values) for number in range(500))
    assert written > 200


def draft() -> Draft:
    return Draft(Dice("test"), Mood("float32", whole=False, grad=False, layouts=0.0, mixed=0.0))


def test_what_does_not_fit_leaves_nothing_behind() -> None:
    program = draft()
    x = given(program, (3,), "float32")
    before = (list(program.values), list(program.lines), dict(program.given), x.span)
    with pytest.raises(NoFit), program.attempt():
        given(program, (2,), "float32")
        program.write(f"{x.name}.mul_(100)", x, x.span.scaled(100), named=0)
        raise NoFit("it does not")
    assert (program.values, program.lines, program.given, x.span) == before


def test_a_write_widens_what_is_known_of_all_views() -> None:
    program = draft()
    x = given(program, (3, 4), "float32")
    view = program.alias(f"{x.name}[0]", x, x.layout)
    program.write(f"{view.name}.fill_(20)", view, view.span._replace(lo=20, hi=20), named=0)
    assert x.span.hi == 20


def test_inputs_whose_interval_is_relied_on_are_not_written_nor_the_other_way_round() -> None:
    program = draft()
    x, y = (given(program, (3,), "float32", alone=True) for _ in range(2))
    z = program.emit(f"{x.name} + 1", (3,), "float32", x.span, [x])
    assert program.rely(z) and not program.writable(x) and program.writable(z)
    program.write(f"{y.name}.zero_()", y, y.span, named=0)
    assert not program.rely(y)


def test_what_autograd_keeps_is_not_written() -> None:
    program = draft()
    x = given(program, (3,), "float32")
    x.storage.grad = True
    y = program.emit(f"{x.name}.exp()", (3,), "float32", x.span, [x])
    assert not program.writable(y)
    assert program.writable(given(program, (3,), "float32", alone=True))
