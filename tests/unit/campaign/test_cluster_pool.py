"""Jobs to workers of a cluster, and what becomes of those whose worker is lost: on a cluster that is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fxmorph.campaign import cluster_pool
from fxmorph.campaign.cluster_pool import Answer, Answered, ClusterPool, News, Order, Started, WorkerLost
from fxmorph.campaign.engine import engine_of
from fxmorph.campaign.jobs import Judge, Judged
from fxmorph.campaign.schedule import result_of_loss
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.pool import Ended, Trouble
from fxmorph.model import Case, CaseResult, CompileConfig, Seed, Status, ValuePlan


def job(index: int) -> Judge:
    return Judge(index, Case(Seed(f"{index}.py", "module", str(index)), 0, 0, (ValuePlan.SEED,), CompileConfig.make()))


def answer(order: Order) -> Answer:
    return Answer(Ended(None, Judged(CaseResult(order.job.case.id, Status.CLEAN))), {}, 1.5)


class Nodes:
    """A cluster whose news a test writes."""

    def __init__(self) -> None:
        self.orders: dict[int, Order] = {}
        self.given: list[int] = []
        self.heard: list[News] = []
        self.workers = 0

    def start(self) -> int:
        self.workers += 1
        return self.workers

    def give(self, worker: int, order: Order) -> None:
        assert worker not in self.orders, "it has a job"
        self.orders[worker] = order
        self.given.append(order.job.index)

    def news(self, timeout: float) -> Iterator[News]:
        heard, self.heard = self.heard, []
        yield from heard

    def answers(self, worker: int) -> None:
        self.heard.append(Answered(worker, answer(self.orders.pop(worker))))

    def loses(self, worker: int) -> None:
        self.orders.pop(worker, None)
        self.heard.append(WorkerLost(worker, "its node is gone"))


@dataclass
class Campaign:
    nodes: Nodes
    pool: ClusterPool
    told: list[str]

    def ends(self) -> list[Ended]:
        return list(self.pool.ended(0))


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Two workers that have started."""
    monkeypatch.setattr(cluster_pool, "CALM_SECONDS", -1)
    nodes, told = Nodes(), []
    pool = ClusterPool(nodes, 2, (), tmp_path / "state", told.append)
    assert pool.idle == 0 and not pool.busy
    nodes.heard = [Started(1), Started(2)]
    assert not list(pool.ended(0)) and pool.idle == 2
    return Campaign(nodes, pool, told)


def test_a_job_goes_to_a_worker_that_started_and_its_end_has_the_job_itself(campaign: Campaign) -> None:
    first, second = job(0), job(1)
    campaign.pool.submit(first, 60)
    campaign.pool.submit(second, 60)
    assert campaign.pool.idle == 0 and campaign.pool.busy
    campaign.nodes.answers(2)
    (ended,) = campaign.ends()
    assert ended.job is second and ended.value.result.status is Status.CLEAN
    assert campaign.pool.idle == 1 and campaign.pool.busy and campaign.pool.server_cpu() == 1.5


def test_the_job_of_a_lost_worker_is_queued_again_once(campaign: Campaign) -> None:
    lost = job(0)
    campaign.pool.submit(lost, 60)
    campaign.nodes.loses(1)
    assert not campaign.ends()
    assert campaign.nodes.given == [0, 0] and campaign.nodes.orders.keys() == {2}
    assert campaign.nodes.workers == 3  # another one in its place
    campaign.nodes.answers(2)
    (ended,) = campaign.ends()
    assert ended.job is lost and ended.trouble is Trouble.NONE
    assert campaign.told == ["a worker of the cluster was lost, its job is queued again: its node is gone"]


def test_where_the_second_worker_is_lost_too_the_job_ends_and_accuses_nobody(campaign: Campaign) -> None:
    lost = job(0)
    campaign.pool.submit(lost, 60)
    campaign.nodes.loses(1)
    assert not campaign.ends()
    campaign.nodes.loses(2)
    (ended,) = campaign.ends()
    assert ended.job is lost and ended.trouble is Trouble.KILLED and not campaign.pool.busy
    result = result_of_loss(lost.case, ended)
    assert result.status is Status.ERROR and "two workers of the cluster were lost with it" in result.reason


def test_all_jobs_of_a_lost_node_wait_for_room_before_others(campaign: Campaign) -> None:
    for index in (0, 1):
        campaign.pool.submit(job(index), 60)
    campaign.nodes.loses(1)
    campaign.nodes.loses(2)
    assert not campaign.ends()
    assert campaign.pool.busy and campaign.pool.idle == 0
    campaign.nodes.heard = [Started(3)]
    campaign.ends()
    assert campaign.nodes.given == [0, 1, 0] and campaign.pool.idle == 0
    campaign.nodes.answers(3)
    assert [ended.job.index for ended in campaign.ends()] == [0]
    assert campaign.nodes.given == [0, 1, 0, 1]
    campaign.nodes.answers(3)
    assert [ended.job.index for ended in campaign.ends()] == [1]
    assert not campaign.pool.busy and campaign.pool.idle == 1


def test_a_job_is_not_given_again_while_others_of_the_lost_node_may_be_taken_for_free(
    campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_pool, "CALM_SECONDS", 60)
    campaign.pool.submit(job(0), 60)
    campaign.nodes.loses(1)
    assert not campaign.ends() and campaign.pool.busy
    campaign.nodes.loses(2)
    assert not campaign.ends() and campaign.nodes.given == [0] and campaign.pool.busy
    monkeypatch.setattr(cluster_pool, "CALM_SECONDS", -1)
    campaign.nodes.heard = [Started(3)]
    campaign.ends()
    campaign.nodes.answers(3)
    assert [ended.trouble for ended in campaign.ends()] == [Trouble.NONE]


def test_a_lost_worker_without_a_job_is_replaced(campaign: Campaign) -> None:
    campaign.nodes.loses(2)
    assert not campaign.ends()
    assert campaign.pool.idle == 1 and not campaign.pool.busy and campaign.nodes.workers == 3


def test_a_cluster_on_which_nothing_starts_is_given_up(tmp_path: Path) -> None:
    nodes = Nodes()
    pool = ClusterPool(nodes, 1, (), tmp_path, print)
    for worker in (1, 2):
        nodes.loses(worker)
        assert not list(pool.ended(0))
    nodes.loses(3)
    with pytest.raises(ConfigError, match="no worker of the cluster starts: its node is gone"):
        list(pool.ended(0))


def test_what_lies_in_the_state_folder_goes_with_the_jobs_that_need_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes, state = Nodes(), Path("state")
    for name in ("state/generated/a.py", "state/asked/pack/rules.jsonl", "seeds/b.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    pool = ClusterPool(nodes, 1, ([],), state, print)
    nodes.heard = [Started(1)]
    assert not list(pool.ended(0))

    def files_with(path: str) -> set[str]:
        given = job(0)
        seed = replace(given.case.seed, path=path)
        pool.submit(replace(given, case=replace(given.case, seed=seed)), 60)
        files = set(nodes.orders[1].files)
        nodes.answers(1)
        assert len(list(pool.ended(0))) == 1
        return files

    assert files_with("seeds/b.py") == set()
    assert files_with("state/generated/a.py") == {"state/generated/a.py"}
    pool.renew(([str(Path("state/asked/pack").resolve())],))
    assert files_with("seeds/b.py") == {"state/asked/pack/rules.jsonl"}


def test_without_its_extra_the_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "fxmorph.campaign.ray_engine", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'fxmorph\[ray\]'"), engine_of(Settings(engine="ray")):
        pass
