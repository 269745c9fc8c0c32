"""What a run of the pass rung makes of pairs: what patterns that are made alike overlook is one finding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fxmorph.campaign.accusations import REPLAYS, REPLAYS_OF_MADE, SEEN_ENOUGH, Accusations
from fxmorph.core import seen_differences
from fxmorph.core.seen_differences import unit_key
from fxmorph.core.versions import version_of
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.graphs_from_code import MADE
from fxmorph.inductor.pair_record import Pair
from fxmorph.inductor.rung import DERIVED
from fxmorph.model import Kind, Status

FUSED = "joint.pass_patterns[0]/_sfdp_pattern_"
CUMSUM = "post_grad.pass_patterns[1]/pointless_cumsum_replacement"


@pytest.fixture
def accusations(campaign: Any, monkeypatch: pytest.MonkeyPatch) -> Accusations:
    made = Accusations(campaign.settings, campaign.ledger, campaign.queue, campaign.told.append)
    monkeypatch.setattr(made, "_tell", lambda key: None)
    return made


def pair(unit: str, change: str = "", kind: Kind = Kind.VALUE) -> Pair:
    return Pair(unit, f"pattern {unit}", DERIVED, "0", 1, Status.FINDING, (kind,), "off", change=change)


def accused(accusations: Accusations, *pairs: Pair) -> int:
    for one in pairs:
        accusations.add(one)
    return len(accusations)


def test_a_change_that_like_patterns_overlook_is_one_finding(accusations: Accusations) -> None:
    first = pair(f"{FUSED}1_inference", "permute: permuted by [0, 3, 1, 2], not [0, 1, 3, 2]")
    other = pair(f"{FUSED}14_half_training", "permute_2: permuted by [0, 2, 3, 1], not [0, 2, 1, 3]")
    assert accused(accusations, first, other) == 1
    assert accused(accusations, pair(f"{FUSED}14_inference", "permute: permuted by [0]", Kind.SHAPE)) == 1
    assert accused(accusations, pair(f"{FUSED}14_inference", "permute: permuted by [0]", Kind.STRIDE)) == 1


def test_a_finding_is_of_the_strongest_kind_that_a_change_shows_as(accusations: Accusations) -> None:
    weak, strong = pair(CUMSUM, "f: dtype is torch.bool", Kind.DTYPE), pair(CUMSUM, "f: dtype is torch.int8")
    assert accused(accusations, weak, strong) == 1
    (accusation,) = accusations._by_key.values()
    assert accusation.pair is strong
    assert accusation.other_ways == (f"also dtype, on {weak.source}: off",)
    assert accused(accusations, pair(CUMSUM, kind=Kind.DTYPE), pair(CUMSUM)) == 3  # without a change: two causes



def test_unlike_patterns_that_overlook_the_same_sort_of_change_are_two(accusations: Accusations) -> None:
    dtype = "f: dtype is torch.bool"
    assert accused(accusations, pair(CUMSUM, dtype), pair("post_grad.pass_patterns[1]/addmm#2", dtype)) == 2


def test_what_is_wrong_without_a_change_is_one_finding_with_all_changes(accusations: Accusations) -> None:
    unit = f"{FUSED}15_inference"
    changed = [pair(unit, "values: mask-values"), pair(unit, "amax: [-1] is [0]"), pair(unit, "input 1 of float64")]
    assert accused(accusations, pair(unit), *changed) == 1
    assert accused(accusations, pair(f"{FUSED}18_inference")) == 2


def test_near_misses_that_a_finding_speaks_of_are_left_out_after_a_few(accusations: Accusations) -> None:
    def near(entry: str, change: str) -> Derived:
        return Derived(entry, "", (), "program", change=change)

    alpha = [pair(f"{FUSED}{i}_inference", "add: alpha is 2") for i in range(SEEN_ENOUGH)]
    accused(accusations, *alpha[:-1])
    assert not accusations.cover(near(f"{FUSED}20_half_inference", "add_3: alpha is 2"))
    accused(accusations, alpha[-1])
    assert accusations.cover(near(f"{FUSED}20_half_inference", "add_3: alpha is 2"))
    assert not accusations.cover(near(f"{FUSED}20_half_inference", "input 0 of float64"))
    assert not accusations.cover(near(CUMSUM, "add: alpha is 2"))
    accused(accusations, *[pair(CUMSUM)] * SEEN_ENOUGH)
    assert accusations.cover(near(CUMSUM, "another user of full"))


def test_what_the_installed_torch_is_known_to_do_is_compiled_as_a_whole_late(
    accusations: Accusations, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {version_of("torch").partition("+")[0]: {unit_key(pair(f"{FUSED}1_inference").place, ""): ["value"]}}
    monkeypatch.setattr(seen_differences, "_table", lambda: table)
    for unit in (f"{FUSED}1_inference", CUMSUM):
        accusations.add(replace(pair(unit), program=f"{unit}.py"))
    first = accusations.next_replay(0, late=False)
    assert first is not None and first.case.seed.path == f"{CUMSUM}.py"
    assert accusations.next_replay(1, late=False) is None
    second = accusations.next_replay(1, late=True)
    assert second is not None and second.case.seed.path == f"{FUSED}1_inference.py"
    assert accusations.next_replay(2, late=True) is None


def test_of_graphs_made_of_code_those_of_other_calls_are_compiled_as_a_whole_too(accusations: Accusations) -> None:
    def waiting(part: str, *calls: str) -> int:
        unit = f"post_grad.of_{part}_{len(calls)}"
        for number, call in enumerate(calls):
            made = replace(pair(unit), part=part, program=f"{number}.py", operations=(call,))
            accusations.add(made)
        jobs = []
        while (job := accusations.next_replay(len(jobs), late=True)) is not None:
            jobs.append(job)
        return len(jobs)

    assert waiting(MADE, "copy_", "copy_", "copy_", "index_put") == 3
    assert waiting(MADE, *map(str, range(20))) == REPLAYS_OF_MADE
    assert waiting(DERIVED, *map(str, range(20))) == REPLAYS
