"""Seeds and rules that make units fire first get credit."""

from __future__ import annotations

from fxmorph.campaign.credit import FAVOURED, Credit


def test_only_what_fires_first_earns_credit() -> None:
    credit = Credit()
    assert credit.add("a.py", "", ["joint.p", "lowering.aten.add.Tensor"]) == ["joint.p", "lowering.aten.add.Tensor"]
    assert credit.add("b.py", "layout_x@y ; expose@z", ["joint.p", "joint.q"]) == ["joint.q"]
    assert credit.add("c.py", "layout_z@y", ["joint.q"]) == []
    assert credit.seeds == {"a.py": 2, "b.py": 1}
    assert credit.rules == ("layout_x",)
    assert credit.units["joint.q"] == 2


def test_the_latest_rules_are_favoured() -> None:
    credit = Credit()
    for i in range(FAVOURED + 3):
        credit.add("a.py", f"r{i}@x", [f"unit{i}"])
    assert credit.rules == tuple(f"r{i}" for i in range(3, FAVOURED + 3))
