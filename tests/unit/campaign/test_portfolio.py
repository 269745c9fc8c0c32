"""All sources at all rungs, in an order that depends on the seeds and the campaign seed alone."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.jobs import Derive, Judge, JudgePasses, KeepProgram, ListOperators, ListUnits
from fxmorph.campaign.portfolio import DENSE
from fxmorph.campaign.unit_schedule import NAMESPACES
from fxmorph.core.operator_seeds import ListedOperator, part_of_tests
from fxmorph.core.pool import Ended
from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.inductor.derive.derived_graph import Derived
from fxmorph.inductor.derive.entries import Derivation
from fxmorph.inductor.rung import Chosen, Mode, PassesJudged
from fxmorph.inductor.sampled_calls import PARTS
from fxmorph.judge.plans import LOOK
from fxmorph.model import CaseResult, Kernels, Kind, Rung, Seed, Status, ValuePlan

UNITS = (
    Unit("joint.fold", Stage.JOINT, UnitKind.PASS, "m", True, "", "all", True),
    Unit("joint.patterns/one", Stage.JOINT, UnitKind.ENTRY, "m", True, "", "all", True),
    Unit("decomposition.aten.roll.default", Stage.DECOMPOSITION, UnitKind.DECOMPOSITION, "m", True, "", "all", True),
)
LISTED = tuple(ListedOperator(f"op{i}", ("float32", "int64"), 2, True, False) for i in range(60))


def seeds(number: int) -> tuple[Seed, ...]:
    return tuple(Seed(f"s{i}.py", "module", f"hash{i}") for i in range(number))


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    (tmp_path / "corpus" / "seeds").mkdir(parents=True)
    return str(tmp_path / "corpus")


def answered(job: Derive, derivations: tuple[Derivation, ...]) -> tuple[Derivation, ...]:
    """What of them the job is for."""
    mine = [d for d in derivations if d.entry in job.entries]
    return tuple(replace(d, graphs=tuple(g for g in d.graphs if job.near or not g.change)) for d in mine)


def walk(
    campaign: Any, number: int, behind: int = 0, status: Any = lambda case: Status.CLEAN, alone: Any = (),
    derivations: tuple[Derivation, ...] = (), units: tuple[Unit, ...] = UNITS,
) -> list[Any]:  # fmt: skip
    """The first cases of a run, with so many in flight at most; jobs of units alone go to the list ``alone``."""
    alone = alone if isinstance(alone, list) else []
    given, flying, jobs = [], [], campaign.schedule.jobs()

    def land() -> None:
        job = flying.pop(0)
        if isinstance(job, ListOperators):
            campaign.schedule.hear(Ended(job, (LISTED, ())))
            return
        if isinstance(job, ListUnits):
            campaign.schedule.hear(Ended(job, (Chosen(units, ("joint.fold",)), ())))
            return
        if isinstance(job, (JudgePasses, Derive)):
            alone.append(job)
            answer = answered(job, derivations) if isinstance(job, Derive) else PassesJudged()
            campaign.schedule.hear(Ended(job, (answer, ())))
            return
        found = status(job.case)
        kinds = (Kind.VALUE,) if found is Status.FINDING else ()
        campaign.hear(job.index, job.case, CaseResult(job.case.id, found, kinds, "why", stage="inductor"))

    while len(given) < number:
        job = next(jobs)
        if job is None or len(flying) > behind:
            land()
        if job is None:
            continue
        flying.append(job)
        if isinstance(job, Judge):
            assert job.index == len(given)
            given.append(job.case)
    return given


def test_the_order_does_not_depend_on_when_answers_come(new_campaign: Any, corpus: str) -> None:
    runs = [walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 400, behind) for behind in (0, 1, 7)]
    assert [c.id for c in runs[0]] == [c.id for c in runs[1]] == [c.id for c in runs[2]]
    other = walk(new_campaign(seeds=seeds(8), paths=(corpus,), seed=1), 400)
    assert [c.id for c in other] != [c.id for c in runs[0]]
    assert len({c.id for c in runs[0]}) == 400


def test_every_seed_is_looked_at_first_with_interpreted_kernels(new_campaign: Any, corpus: str) -> None:
    cases = walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 300)
    looks = [next(c for c in cases if c.seed.path == f"s{i}.py") for i in range(8)]
    rest = [c for c in cases if c not in looks]
    assert max(cases.index(c) for c in looks) < 40
    assert {c.seed.path for c in looks} == {f"s{i}.py" for i in range(8)}
    assert {(c.rung, c.number, c.compile.kernels) for c in looks} == {(Rung.IR, 0, Kernels.CPP)}
    assert [c.seed.path for c in cases if c in looks] != [f"s{i}.py" for i in range(8)]
    kinds = {(c.rung, c.seed.form, bool(c.number)) for c in rest}
    sources = (("module", True), ("operator", False))
    assert kinds >= {(rung, *source) for rung, source in itertools.product((Rung.IR, Rung.CPU), sources)}
    assert {c.compile.kernels for c in rest} == set(Kernels)
    assert {c.compile.threads for c in rest if c.rung is Rung.CPU} == {1, 4}
    assert any(c.compile.inductor or c.compile.options or c.dtype for c in rest if c.number)
    assert any(not (c.compile.inductor or c.compile.options or c.dtype) for c in rest if c.number)


def test_at_the_rung_of_interpreted_kernels_none_is_compiled(new_campaign: Any, corpus: str) -> None:
    given = walk(new_campaign(seeds=seeds(4), paths=(corpus,), rung="ir"), 120)
    assert {case.rung for case in given} == {Rung.IR}
    assert {case.compile.kernels for case in given} == {Kernels.CPP, Kernels.GPU}
    assert {case.seed.form for case in given} == {"module", "operator"}
    assert given[0].plans == (*LOOK, ValuePlan.GPU)


def test_at_the_rung_of_compiled_kernels_all_are(new_campaign: Any, corpus: str) -> None:
    given = walk(new_campaign(seeds=seeds(4), paths=(corpus,), rung="cpu"), 120)
    assert {(case.rung, case.compile.kernels) for case in given} == {(Rung.CPU, Kernels.GENERATED)}


def test_seeds_of_many_operations_are_compiled_at_once(new_campaign: Any, corpus: str, tmp_path: Path) -> None:
    dense, broken = tmp_path / "dense.py", tmp_path / "broken.py"
    dense.write_text(f"def fn(x):\n    return x{' + x' * DENSE}\n")
    broken.write_text("def fn(x:")
    more = tuple(Seed(str(path), "module", path.name) for path in (dense, broken))
    cases = walk(new_campaign(seeds=(*seeds(8), *more), paths=(corpus,)), 300)
    of_it = [c for c in cases if c.seed.path == str(dense) and not c.number]
    assert [c.rung for c in of_it] == [Rung.CPU, Rung.IR] and cases.index(of_it[0]) < 5
    first = {c.seed.path: c.rung for c in reversed(cases) if c.seed in (*seeds(8), *more)}
    assert {path for path, rung in first.items() if rung is Rung.CPU} == {str(dense)} and len(first) == 10
    looks = [c for c in cases if c.seed.path in first and c.rung is Rung.IR and not c.number]
    assert looks[-1] == of_it[1] and len(looks) == 10


def test_what_interpreted_kernels_show_is_not_compiled_again(new_campaign: Any, corpus: str) -> None:
    wrong = {"s3.py", "op:op7"}

    def status(case: Any) -> Status:
        return Status.FINDING if case.seed.path in wrong else Status.CLEAN

    cases = walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 700, status=status)
    compiled = [c for c in cases if c.rung is Rung.CPU and not c.number]
    looked = {(c.seed.path, c.seed.mode) for c in cases if c.rung is Rung.IR and not c.number}
    assert not {(c.seed.path, c.seed.mode) for c in compiled if c.seed.path in wrong} & looked
    assert {c.seed.path for c in compiled} >= {f"s{i}.py" for i in range(8)} - wrong


@pytest.mark.parametrize("told", [{"only": ("seeds",)}, {"backend": "aot_eager"}, {"rewrites": False}])
def test_operators_are_left_out_where_they_are_not_asked_for(new_campaign: Any, corpus: str, told: Any) -> None:
    jobs = new_campaign(seeds=seeds(8), paths=(corpus,), **told).schedule.jobs()
    assert {job.case.seed.form for job in itertools.islice(jobs, 8)} == {"module"}


def test_seeds_that_are_named_themselves_come_alone(new_campaign: Any, tmp_path: Path) -> None:
    jobs = new_campaign(seeds=seeds(4), paths=(str(tmp_path / "model.py"),)).schedule.jobs()
    assert [job.case.seed.path for job in itertools.islice(jobs, 4)] == [f"s{i}.py" for i in range(4)]


def test_without_a_list_of_operators_the_run_goes_on(new_campaign: Any, corpus: str) -> None:
    campaign = new_campaign(seeds=seeds(8), paths=(corpus,))
    jobs = campaign.schedule.jobs()
    first = next(jobs)
    assert isinstance(first, ListOperators)
    campaign.schedule.hear(Ended(first, None, detail="no tests"))
    assert any("no tests" in e.message for e in campaign.told)
    units = next(jobs)
    assert isinstance(units, ListUnits)
    campaign.schedule.hear(Ended(units, None, detail="no units"))
    assert any("no units" in e.message for e in campaign.told)
    assert next(jobs).case.seed.form == "module"


def test_units_alone_have_a_part_of_the_run(new_campaign: Any, corpus: str) -> None:
    jobs: list[Any] = []
    walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 300, alone=jobs)
    judged = [job for job in jobs if isinstance(job, JudgePasses)]
    assert not any(job.prove for job in judged)
    assert {job.source.made for job in judged} >= {"joint.fold"}
    assert {(job.source.seed.path, job.source.mode) for job in judged if job.source.seed} >= {("s3.py", Mode.INFERENCE)}
    sampled = [job.source.samples for job in judged if job.source.samples is not None]
    named = {part_of_tests(space + "roll", PARTS) for space in NAMESPACES}
    assert len(judged) > len(sampled) > len(named) and set(sampled[: len(named)]) == named
    derived = [(job.entries, job.near) for job in jobs if isinstance(job, Derive)]
    assert derived == [(("joint.patterns/one",), False), (("joint.patterns/one",), True)]


def test_families_come_as_they_are_then_near_misses_of_each_kin_that_runs_by_default(
    new_campaign: Any, corpus: str
) -> None:
    def entry(name: str, default: bool = True) -> Unit:
        return replace(UNITS[1], name=f"joint.patterns/{name}", default=default)

    sfdp = [entry(f"sfdp_{i}_inference") for i in range(3)]
    units = (*sfdp, entry("sfdp_0_training"), entry("one"), entry("off", False), UNITS[0], UNITS[2])
    jobs: list[Any] = []
    walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 600, alone=jobs, units=units)
    alone, near, *others = [job for job in jobs if isinstance(job, Derive)]
    assert not alone.near and {*alone.entries} == {u.name for u in (*sfdp, units[4])}
    assert near.near and "joint.patterns/one" in near.entries[:2]  # one of each of both kins
    assert sum(name in {u.name for u in sfdp} for name in near.entries[:2]) == 1
    left = [name for job in (near, *others) for name in job.entries]
    assert all(job.near for job in others) and len(left) == len({*left}) == 6
    assert left[-1] == "joint.patterns/sfdp_0_training" and left.index("joint.patterns/off") > 2


def test_what_a_pattern_fires_on_is_judged_once_and_its_near_misses_that_fire(new_campaign: Any, corpus: str) -> None:
    first = Derived("joint.patterns/one", "", (), "program")
    graphs = (first, replace(first, change="x: size 1"), replace(first, change="y: size 1", fires=False))
    jobs: list[Any] = []
    made = (Derivation("joint.patterns/one", "graph", graphs),)
    walk(new_campaign(seeds=seeds(8), paths=(corpus,)), 300, alone=jobs, derivations=made)
    judged = [job.source.derived for job in jobs if isinstance(job, JudgePasses) and job.source.derived is not None]
    assert sorted(graph.change for graph in judged) == ["", "x: size 1"]


def test_units_alone_are_left_out_where_programs_are_asked_for(new_campaign: Any, corpus: str) -> None:
    jobs: list[Any] = []
    walk(new_campaign(seeds=seeds(8), paths=(corpus,), only=("seeds", "operators")), 100, alone=jobs)
    assert not jobs


# -- programs that earlier runs kept ------------------------------------------------------------


KEPT = tuple(Seed(f"kept{i}.py", "module", f"kept{i}") for i in range(5))


def test_a_run_starts_from_kept_programs_before_generated_ones_and_makes_variants_of_them(
    new_campaign: Any, corpus: str
) -> None:
    cases = walk(new_campaign(seeds=seeds(4), paths=(corpus,), kept=KEPT), 400)
    as_they_are = [c for c in cases if c.seed in KEPT and not c.number]
    generated = [c for c in cases if "generated_0_" in c.seed.path and "long" not in c.seed.path]
    assert [c.seed for c in as_they_are] == list(KEPT)
    assert generated and max(map(cases.index, as_they_are)) < min(map(cases.index, generated))
    assert {c.seed for c in cases if c.number and c.seed in KEPT} == set(KEPT)


def test_with_kept_programs_the_order_does_not_depend_on_when_answers_come(new_campaign: Any, corpus: str) -> None:
    runs = [walk(new_campaign(seeds=seeds(4), paths=(corpus,), kept=KEPT), 300, behind) for behind in (0, 1, 7)]
    assert [c.id for c in runs[0]] == [c.id for c in runs[1]] == [c.id for c in runs[2]]
    assert len({c.id for c in runs[0]}) == 300


def test_what_makes_a_unit_fire_first_is_kept_and_asked_for_once(new_campaign: Any, corpus: str) -> None:
    campaign = new_campaign(seeds=seeds(1), paths=(corpus,), only=("seeds", "generated"), rung="ir", max_cases=6)
    keeping, given = [], 0
    for job in campaign.schedule.jobs():
        if isinstance(job, KeepProgram):
            keeping.append(job)
            campaign.schedule.hear(Ended(job, ("def make_inputs(): return []\ndef fn(): return 0\n", ())))
        elif job is not None:
            given += 1
            fired = ("joint.of_the_seed", *(("joint.new",) if job.case.seed.path != "s0.py" else ()))
            campaign.hear(job.index, job.case, CaseResult(job.case.id, Status.CLEAN, fired=fired))
    assert given == 6
    assert [(job.first, job.case.seed.path != "s0.py") for job in keeping] == [(("joint.new",), True)]
    (file,) = (campaign.settings.state_dir / "corpus").iterdir()
    assert file.read_text().endswith("FIRES = ('joint.new',)\n")
