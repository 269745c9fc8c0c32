"""What the installed torch is known to show comes last, in any order, and is never left out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fxmorph.campaign.operator_order import ordered_programs
from fxmorph.core import seen_differences
from fxmorph.core.operator_seeds import ListedOperator, OperatorProgram, Setting
from fxmorph.core.seen_differences import differs_as_it_is, keys_of, seen_before, unit_seen_before
from fxmorph.core.versions import version_of
from fxmorph.model import Case, CaseResult, CompileConfig, Kind, Seed, Status, ValuePlan

TABLE = {
    "block.py": ["stride"],
    "op:amax:float32[changed 0]": ["value"],
    "op:silu:float32[changed 0]": ["dtype"],
    "unit:joint.fold": ["alias"],
}


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    release = version_of("torch").partition("+")[0]
    monkeypatch.setattr(seen_differences, "_table", lambda: {release: TABLE, "1.0.0": {"other.py": ["value"]}})
    yield


def differing(seed: Seed, *kinds: Kind, number: int = 0) -> bool:
    case = Case(seed, number, 0, (ValuePlan.SEED,), CompileConfig.make())
    return seen_before(case, CaseResult(case.id, Status.FINDING, kinds))


def changed(operator: str, part: int = 0) -> Seed:
    return OperatorProgram(operator, "float32", Setting.CHANGED, part).seed()


def test_a_seed_is_known_by_its_file_and_its_kinds_as_it_is_alone() -> None:
    block = Seed("/anywhere/block.py", "module", "h")
    assert keys_of(block) == ["block.py"] and differs_as_it_is(block)
    assert differing(block, Kind.STRIDE) and not differing(block, Kind.STRIDE, Kind.VALUE)
    assert not differing(block, Kind.STRIDE, number=1)
    assert not differs_as_it_is(Seed("/anywhere/other.py", "module", "h"))  # another release's


def test_a_program_of_several_operators_shows_what_any_of_them_does() -> None:
    both = changed("amax+neg+silu")
    assert keys_of(both) == [f"op:{name}:float32[changed 0]" for name in ("amax", "neg", "silu")]
    assert differing(both, Kind.VALUE) and differing(both, Kind.VALUE, Kind.DTYPE)
    assert not differing(both, Kind.STRIDE) and not differing(changed("amax", 1), Kind.VALUE)
    assert differs_as_it_is(both) and not differs_as_it_is(changed("neg"))


def test_units_have_keys_of_their_own() -> None:
    assert unit_seen_before("joint.fold", "", [Kind.ALIAS])
    assert not unit_seen_before("joint.fold", "order", [Kind.ALIAS])


def test_operators_that_are_known_to_differ_come_last_in_their_round_and_come() -> None:
    listed = [
        ListedOperator(name, ("float32",), 1, False, False, frozenset({f"aten.{name}.default"}))
        for name in ("silu", "neg", "amax", "abs", "cos", "sin")
    ]
    for seed in range(8):
        first = [program.operator for program in ordered_programs(listed, seed)][:6]
        assert set(first[4:]) == {"amax", "silu"} and len(set(first)) == 6
