"""What the schedule of the pass rung makes of pairs: what patterns that are made alike overlook is one finding."""

from __future__ import annotations

from typing import Any

import pytest

from fxmorph.campaign.unit_schedule import SEEN_ENOUGH, UnitSchedule
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.rung import DERIVED, Pair
from fxmorph.model import Kind, Status

FUSED = "joint.pass_patterns[0]/_sfdp_pattern_"
CUMSUM = "post_grad.pass_patterns[1]/pointless_cumsum_replacement"


@pytest.fixture
def campaign(new_campaign: Any, monkeypatch: pytest.MonkeyPatch) -> UnitSchedule:
    of = new_campaign(passes=("*",))
    made = UnitSchedule(of.settings, (), (), of.ledger, of.queue, of.told.append)
    monkeypatch.setattr(made, "_tell", lambda key: None)
    return made


def pair(unit: str, change: str = "", kind: Kind = Kind.VALUE) -> Pair:
    return Pair(unit, f"pattern {unit}", DERIVED, "0", 1, Status.FINDING, (kind,), "off", change=change)


def accused(campaign: Any, *pairs: Pair) -> int:
    for one in pairs:
        campaign._accuse(one)
    return len(campaign._blamed)


def test_a_change_that_like_patterns_overlook_is_one_finding(campaign: Any) -> None:
    first = pair(f"{FUSED}1_inference", "permute: permuted by [0, 3, 1, 2], not [0, 1, 3, 2]")
    other = pair(f"{FUSED}14_half_training", "permute_2: permuted by [0, 2, 3, 1], not [0, 2, 1, 3]")
    assert accused(campaign, first, other) == 1
    assert accused(campaign, pair(f"{FUSED}14_inference", "permute: permuted by [0]", Kind.SHAPE)) == 1
    assert accused(campaign, pair(f"{FUSED}14_inference", "permute: permuted by [0]", Kind.STRIDE)) == 2


def test_unlike_patterns_that_overlook_the_same_sort_of_change_are_two(campaign: Any) -> None:
    dtype = "f: dtype is torch.bool"
    assert accused(campaign, pair(CUMSUM, dtype), pair("post_grad.pass_patterns[1]/addmm#2", dtype)) == 2


def test_what_is_wrong_without_a_change_is_one_finding_with_all_changes(campaign: Any) -> None:
    unit = f"{FUSED}15_inference"
    changed = [pair(unit, "values: mask-values"), pair(unit, "amax: [-1] is [0]"), pair(unit, "input 1 of float64")]
    assert accused(campaign, pair(unit), *changed) == 1
    assert accused(campaign, pair(f"{FUSED}18_inference")) == 2


def test_near_misses_that_a_finding_speaks_of_are_left_out_after_a_few(campaign: Any) -> None:
    def near(entry: str, change: str) -> Derived:
        return Derived(entry, "", (), "program", change=change)

    alpha = [pair(f"{FUSED}{i}_inference", "add: alpha is 2") for i in range(SEEN_ENOUGH)]
    accused(campaign, *alpha[:-1])
    assert not campaign._overlooked(near(f"{FUSED}20_half_inference", "add_3: alpha is 2"))
    accused(campaign, alpha[-1])
    assert campaign._overlooked(near(f"{FUSED}20_half_inference", "add_3: alpha is 2"))
    assert not campaign._overlooked(near(f"{FUSED}20_half_inference", "input 0 of float64"))
    assert not campaign._overlooked(near(CUMSUM, "add: alpha is 2"))
    accused(campaign, *[pair(CUMSUM)] * SEEN_ENOUGH)
    assert campaign._overlooked(near(CUMSUM, "another user of full"))
