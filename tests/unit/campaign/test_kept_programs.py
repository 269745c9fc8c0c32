"""Programs that a campaign keeps: which, in what order, and what the next one starts from."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.jobs import KeepProgram
from fxmorph.campaign.kept_programs import BYTES, FOLDER, MOST, Keeper, fires_of, kept_programs
from fxmorph.campaign.schedule import case_of
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.seeds import find_seeds
from fxmorph.core.shard import Shard
from fxmorph.core.store import DiskError
from fxmorph.events import Warned
from fxmorph.model import Case, CaseResult, Rung, Seed, Status

TEXT = "def make_inputs(): return []\ndef fn(): return {}\n"


def seed_of(name: str) -> Seed:
    return Seed(f"{name}.py", "module", name)


def case(name: str, number: int = 0) -> Case:
    return case_of(Settings(), seed_of(name), number, Rung.IR)


def result(one: Case, *fired: str, status: Status = Status.CLEAN) -> CaseResult:
    return CaseResult(one.id, status, fired=fired)


class Heard:
    """A keeper that is told of cases by name, with the units that fired, in the order of the run."""

    def __init__(self, state: Path, seeds: tuple[str, ...] = (), started: tuple[Seed, ...] = ()) -> None:
        self.keeper = Keeper(state, started, [seed_of(name) for name in seeds])
        self.index = 0

    def tell(self, name: str, *fired: str, status: Status = Status.CLEAN, number: int = 0) -> None:
        one = case(name, number)
        self.keeper.hear(self.index, one, result(one, *fired, status=status))
        self.index += 1

    def kept(self, ended: bool = False) -> list[tuple[str, tuple[str, ...]]]:
        return [(job.case.seed.hash, job.first) for job in self.keeper.jobs(ended)]


def test_what_makes_a_pass_or_an_entry_fire_first_is_kept(tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    heard.tell("a", "joint.p", "joint.list[0]/e", "lowering.aten.mm.default", "decomposition.aten.silu.default")
    heard.tell("b", "joint.p", "lowering.aten.add.Tensor")
    heard.tell("c", "joint.p", "joint.q")
    assert heard.kept() == [("a", ("joint.list[0]/e", "joint.p")), ("c", ("joint.q",))]
    assert heard.kept() == []


def test_nothing_is_kept_that_a_seed_does_and_nothing_before_all_seeds_were_seen(tmp_path: Path) -> None:
    heard = Heard(tmp_path, seeds=("s", "t"))
    heard.tell("a", "joint.p", "joint.q")
    heard.tell("s", "joint.p")
    assert heard.kept() == []
    heard.tell("t", number=1)  # a variant is not the seed
    assert heard.kept() == []
    heard.tell("t")
    assert heard.kept() == [("a", ("joint.q",))]


def test_at_the_end_of_a_run_what_was_seen_is_enough(tmp_path: Path) -> None:
    heard = Heard(tmp_path, seeds=("s", "t"))
    heard.tell("a", "joint.p")
    heard.tell("s", "joint.p")
    heard.tell("b", "joint.q")
    assert heard.kept(ended=True) == [("b", ("joint.q",))]


@pytest.mark.parametrize("status", [Status.FINDING, Status.ERROR, Status.UNSUPPORTED, Status.IR_ONLY])
def test_what_shows_a_fault_is_not_kept_and_takes_nothing_from_others(tmp_path: Path, status: Status) -> None:
    heard = Heard(tmp_path)
    heard.tell("a", "joint.p", status=status)
    heard.tell("b", "joint.p")
    assert heard.kept() == [("b", ("joint.p",))]


def test_the_order_of_answers_does_not_matter(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, (), ())
    cases = [case("a"), case("b")]
    keeper.hear(1, cases[1], result(cases[1], "joint.p"))
    assert not list(keeper.jobs())
    keeper.hear(0, cases[0], result(cases[0], "joint.p"))
    assert [job.case for job in keeper.jobs()] == [cases[0]]


def test_a_kept_program_is_a_seed_that_says_what_it_fires(tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    heard.tell("a", "joint.p", "joint.q")
    (job,) = heard.keeper.jobs()
    heard.keeper.keep(job, TEXT.format(0))
    (kept,), refused = find_seeds([str(tmp_path / FOLDER)])
    assert not refused and fires_of(kept) == ("joint.p", "joint.q")
    later = Heard(tmp_path, started=(kept,))
    later.tell("b", "joint.p")
    later.tell("c", "joint.r")
    assert later.kept() == [("c", ("joint.r",))]


def test_a_run_that_goes_on_writes_nothing_twice(tmp_path: Path) -> None:
    first, again = Heard(tmp_path), Heard(tmp_path)
    first.tell("a", "joint.p")
    (job,) = first.keeper.jobs()
    first.keeper.keep(job, TEXT.format(0))
    again.tell("a", "joint.p")
    again.tell("b", "joint.p", "joint.q")
    assert again.kept() == [("b", ("joint.q",))]


def test_number_and_size_are_bounded(tmp_path: Path) -> None:
    heard = Heard(tmp_path)
    for number in range(MOST + 3):
        heard.tell(f"s{number}", f"joint.p{number}")
    found = list(heard.keeper.jobs())
    assert len(found) == MOST
    heard.keeper.keep(found[0], TEXT.format(0) + "#" * BYTES)
    heard.keeper.keep(found[1], "")
    assert not (tmp_path / FOLDER).exists()


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    one = case("a")
    with pytest.raises(DiskError, match="cannot keep a program"):
        Keeper(tmp_path, (), ()).keep(KeepProgram(0, one, result(one), ("joint.p",)), TEXT.format(0))


# -- what a run starts from --------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a campaign over a corpus whose state has two kept programs, and a file that is none."""
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    folder = tmp_path / "state" / FOLDER
    folder.mkdir(parents=True)
    (folder / "kept_b.py").write_text(TEXT.format(1))
    (folder / "kept_a.py").write_text(TEXT.format(0))
    (folder / "kept_c.py").write_text("def")
    return Settings(paths=(str(tmp_path / "corpus"),), state=str(tmp_path / "state"))


def names(seeds: list[Seed]) -> list[str]:
    return [Path(seed.path).name for seed in seeds]


def test_a_campaign_starts_from_what_was_kept_by_name(settings: Settings) -> None:
    told: list[Any] = []
    assert names(kept_programs(settings, False, told.append)) == ["kept_a.py", "kept_b.py"]
    assert [type(event) for event in told] == [Warned] and "kept_c.py: not started from" in told[0].message


@pytest.mark.parametrize(
    "other",
    [
        {"only": ("seeds",)}, {"only": ("seeds", "operators")}, {"shard": Shard(1, 1)}, {"rewrites": False},
        {"passes": ("*",)}, {"cases": "list"}, {"backend": "eager"}, {"paths": ("corpus/seeds/a.py",)},
        {"state": "elsewhere"},
    ],
    ids=str,
)  # fmt: skip
def test_other_runs_do_not(settings: Settings, other: dict[str, Any]) -> None:
    assert not kept_programs(replace(settings, **other), False, lambda event: None)


def test_check_does_not(settings: Settings) -> None:
    assert not kept_programs(settings, True, lambda event: None)


def test_a_run_that_goes_on_starts_from_what_it_began_with(settings: Settings) -> None:
    (first, _) = kept_programs(settings, False, lambda event: None)
    begun = {"kept_a.py": first.hash}
    assert kept_programs(settings, False, lambda event: None, begun) == [first]
    assert kept_programs(settings, False, lambda event: None, {}) == []
    Path(first.path).write_text(TEXT.format(7))
    with pytest.raises(ConfigError, match="the run to be resumed started from it, and it is not as it was"):
        kept_programs(settings, False, lambda event: None, begun)
