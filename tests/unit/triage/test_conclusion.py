"""Where a finding is said to begin: at the first backend that differs, unless Dynamo is seen to be innocent of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fxmorph.core.finding_parts import Blame
from fxmorph.core.units import Stage
from fxmorph.model import CaseResult, Status
from fxmorph.triage.conclusion import Investigated, without_function


def investigated(blame: Blame | None) -> Investigated:
    result = CaseResult("1", "", Status.FINDING)
    return replace(Investigated.of_result(result), blame=blame)


@pytest.mark.parametrize(
    ("stage", "unit", "said"),
    [
        (Stage.PARTITIONER, "partitioner.functionalize_rng_ops", "partitioner"),
        (Stage.FUNCTIONALIZATION, "functionalization.create_joint", "aot"),
        (Stage.DECOMPOSITION, "decomposition.aten.silu.default", "decomposition"),
        (Stage.JOINT, "joint.replace_random_passes", "inductor"),
        (Stage.DYNAMO, "dynamo", "dynamo"),
    ],
)
def test_what_backend_eager_shows_too_begins_at_the_guilty_unit(stage: Stage, unit: str, said: str) -> None:
    assert investigated(Blame(stage, unit, True)).stage("dynamo") == said


def test_without_a_confirmed_unit_the_backend_counts() -> None:
    assert investigated(None).stage("dynamo") == "dynamo"
    assert investigated(Blame(Stage.PARTITIONER, "partitioner.x", False)).stage("dynamo") == "dynamo"
    assert investigated(Blame(None, "", True)).stage("dynamo") == "dynamo"


def test_a_backend_behind_dynamo_is_what_it_was() -> None:
    assert investigated(Blame(Stage.PARTITIONER, "partitioner.x", True)).stage("inductor") == "inductor"


def test_a_function_that_is_defined_anew_is_left_out_unless_something_calls_it() -> None:
    source = "import torch\n\ndef make_inputs():\n    return [1]\n\ndef fn(x):\n    return x"
    assert without_function(source, "make_inputs") == "import torch\n\ndef fn(x):\n    return x"
    called = source + "\nN = len(make_inputs())"
    assert without_function(called, "make_inputs") == called
    assert without_function(source, "make_fn") == source
