"""Shards of one campaign judge together what one process judges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign import jobs
from fxmorph.core.config import ConfigError, Settings, load_settings
from fxmorph.core.operator_seeds import ListedOperator
from fxmorph.core.pool import Ended
from fxmorph.core.shard import Shard
from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.inductor.rung import Chosen, PassesJudged
from fxmorph.model import Case, CaseResult, Kind, Seed, Status

UNITS = tuple(Unit(f"joint.fold{i}", Stage.JOINT, UnitKind.PASS, "m", True, "", "all", True) for i in range(6))
LISTED = tuple(ListedOperator(f"op{i}", ("float32", "int64"), 2, True, False) for i in range(20))
SEEDS = tuple(Seed(f"s{i}.py", "module", f"hash{i}") for i in range(7))


def verdict(case: Case) -> Status:
    """Of some cases another than clean, by what they are."""
    return (Status.FINDING, Status.UNSUPPORTED, Status.CLEAN, Status.CLEAN, Status.CLEAN)[int(case.id, 16) % 5]


def clean(case: Case) -> Status:
    return Status.CLEAN


def walked(
    campaign: Any, behind: int = 0, most: int = 10_000, alone: Any = None, verdict: Any = verdict, variants: bool = True
) -> dict[int, str]:
    """Ids of the cases that a run gives out by their place, with so many in flight; units' sources go to ``alone``."""
    given: dict[int, str] = {}
    flying: list[Any] = []

    def land() -> None:
        job = flying.pop(0)
        if isinstance(job, jobs.ListOperators):
            campaign.schedule.hear(Ended(job, (LISTED, ())))
        elif isinstance(job, jobs.ListUnits):
            campaign.schedule.hear(Ended(job, (Chosen(UNITS, tuple(u.name for u in UNITS)), ())))
        elif isinstance(job, (jobs.JudgePasses, jobs.Derive)):
            campaign.schedule.hear(Ended(job, (() if isinstance(job, jobs.Derive) else PassesJudged(), ())))
        else:
            status, recipe = verdict(job.case), f"rule_{job.case.number}@x" if job.case.number else ""
            kinds = (Kind.VALUE,) if status is Status.FINDING else ()
            fired = (f"unit{int(job.case.id, 16) % 3}",)
            result = CaseResult(job.case.id, status, kinds, "why", recipe=recipe, stage="inductor", fired=fired)
            campaign.hear(job.index, job.case, result)

    for job in campaign.schedule.jobs():
        if job is None or len(flying) > behind:
            land()
        if job is None:
            continue
        flying.append(job)
        if isinstance(job, jobs.Judge):
            if variants or not job.case.number:
                given[job.index] = job.case.id
        elif isinstance(job, jobs.JudgePasses) and alone is not None:
            alone.append(job.source.label)
        if len(given) >= most:
            break
    while flying:
        land()
    return given


@pytest.mark.parametrize("corpus", [True, False])
@pytest.mark.parametrize("of", [2, 3])
def test_shards_have_together_the_cases_of_one_process(
    new_campaign: Any, tmp_path: Path, corpus: bool, of: int
) -> None:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    told = {"seeds": SEEDS, "max_cases": 160, "paths": (str(tmp_path / "corpus"),) if corpus else ()}
    one = walked(new_campaign(**told, shard=Shard(1, 1)), behind=3)
    parts = [walked(new_campaign(**told, shard=Shard(n, of)), behind=n) for n in range(1, of + 1)]
    assert sum(map(len, parts)) == len(one) > 60
    assert {place: id for part in parts for place, id in part.items()} == one
    assert all(part and max(part) < 160 for part in parts)


def test_what_is_no_variant_has_its_place_without_shards_too(new_campaign: Any, tmp_path: Path) -> None:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    told = {"seeds": SEEDS, "max_cases": 120, "paths": (str(tmp_path / "corpus"),)}
    whole, one = (
        walked(new_campaign(**told, shard=shard), verdict=clean, variants=False) for shard in (None, Shard(1, 1))
    )
    assert whole == one and len(one) > 60


def test_units_alone_are_shared_out_too(new_campaign: Any, tmp_path: Path) -> None:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    told = {"seeds": SEEDS, "paths": (str(tmp_path / "corpus"),), "max_cases": 200}
    sources: list[list[str]] = [[], [], []]
    for alone, shard in zip(sources, (Shard(1, 1), Shard(1, 2), Shard(2, 2)), strict=True):
        walked(new_campaign(**told, shard=shard), alone=alone)
    made = [{source for source in alone if "fold" in source} for alone in sources]
    assert made[1] and made[2] and not made[1] & made[2]
    assert made[1] | made[2] == made[0]


@pytest.mark.parametrize("told", [{"rewrites": False}, {"paths": ("model.py",), "only": ("seeds",)}])
def test_a_shard_ends_with_its_last_case_where_nothing_limits_it(new_campaign: Any, told: Any) -> None:
    wrong = tuple(seed for seed in SEEDS if seed.path in ("s0.py", "s2.py"))
    parts = [walked(new_campaign(seeds=wrong, **told, shard=Shard(n, 3)), most=5) for n in (1, 2, 3)]
    assert not parts[2]
    campaign = new_campaign(seeds=wrong, **told, shard=Shard(3, 3))
    assert not [job for job in campaign.schedule.jobs() if job is not None]


def test_seeds_of_other_shards_are_not_missed(new_campaign: Any) -> None:
    campaign = new_campaign(seeds=SEEDS, rewrites=False, shard=Shard(2, 3))
    walked(campaign, most=1)
    campaign.end()
    (told,) = (e.message for e in campaign.told if "not judged within" in getattr(e, "message", ""))
    assert "s4.py" in told and "s1.py" not in told and "s3.py" not in told


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2"])
def test_a_shard_that_is_none_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--shard"):
        load_settings({"shard": text}, tmp_path, {})


def test_a_shard_is_read(tmp_path: Path) -> None:
    assert load_settings({"shard": "2/4"}, tmp_path, {}).shard == Shard(2, 4)
    assert Settings().shard is None
