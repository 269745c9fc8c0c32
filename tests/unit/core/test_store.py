"""The store: round trips, one writer, kill -9, and clear words when the disk is in the way."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fxmorph.core.config import Settings
from fxmorph.core.exhibit import Element, Exhibit, SlotExhibit
from fxmorph.core.finding_parts import Blame, Draw, Reduced, Repro, UnitCase
from fxmorph.core.records import from_json, to_json
from fxmorph.core.store import DATABASE, DiskError, Store, StoreError
from fxmorph.core.units import Stage
from fxmorph.model import (
    BugClass,
    Case,
    CaseResult,
    CompileConfig,
    Finding,
    Kind,
    Recipe,
    Rewrite,
    Seed,
    Status,
    ValuePlan,
    Verdict,
)

SEED = Seed("corpus/seeds/a.py", "module", "0" * 16, name="Net", mode="eval", origin="by hand")
CASE = Case(
    SEED,
    3,
    7,
    (ValuePlan.SEED, ValuePlan.EXACT),
    CompileConfig.make(options={"dynamic": True}, inductor={"freezing": True, "eps": float("inf"), "sizes": (1, 2)}),
    recipe=Recipe((Rewrite("layout_flip", "add_1", "mul", (("k", 2), ("on", True), ("s", 0.5))),)),
    torch="2.13.0",
)
RESULT = CaseResult(
    CASE.id,
    Status.FINDING,
    (Kind.VALUE, Kind.ALIAS),
    reason="12 of 64 elements differ",
    verdicts=(Verdict(Status.FINDING, Kind.VALUE, "output 0", "far", ValuePlan.EXACT), Verdict(Status.CLEAN)),
    recipe=str(CASE.recipe),
    ladder=(("eager", "clean"), ("inductor", "finding")),
    seconds=(("compile", 1.5), ("eager", 0.25)),
    wall=2.0,
)
FINDING = Finding(
    id="ab12cd34",
    case_id=CASE.id,
    seed=SEED.path,
    recipe="",
    kinds=(Kind.VALUE,),
    bug_class=BugClass.UGO,
    stage="inductor",
    unit="post_grad",
    triangle="variant-miscompiled",
    fingerprint="f" * 16,
    reason="far",
    program="def fn(x): return x",
    ladder=(("eager", "clean"),),
    repro=Repro({}, {"rtol": 1e-5, "worst": float("nan"), "shape": (2, 3)}),
)


CASE_FINDING = replace(
    FINDING, repro=Repro({"sizes": (1, 2)}, {"worst": float("inf")}, random=True), draw=Draw(0, 3, 1, "a@b"),
    reduced=Reduced(3, 9, ("add",), (("add", ()), ("mul", (0,))), "", "cpu", True),
    blame=Blame(Stage.POST_GRAD, "post_grad.x", True, ("gone",), ("TORCH=1",), ("post_grad.y",)),
    exhibit=Exhibit((SlotExhibit("out0", "a", "b", 2, 1, ((-1.5, 999.0),), (Element((0,), "1", "2", "", "1"),)),)),
    releases=(("2.10.0", "gone"),),
)  # fmt: skip
UNIT_FINDING = replace(
    FINDING, repro=Repro(), unit_case=UnitCase("pass", "ab", "forward", "seed", "", "", {"u": 2}, ("add",)),
)  # fmt: skip


@pytest.mark.parametrize("record", [CASE, RESULT, CASE_FINDING, UNIT_FINDING, SEED, Settings()])
def test_records_come_back_equal(record: object) -> None:
    import json

    assert from_json(type(record), json.loads(json.dumps(to_json(record), allow_nan=False))) == record


def test_parts_of_a_finding_lie_side_by_side_in_its_json() -> None:
    body = to_json(CASE_FINDING)
    assert [*body][-4:] == ["proofs", "units", "extra", "confirmed"]
    assert [*body["extra"]] == (
        "config check random campaign_seed number input_seed original_recipe nodes tests operations skeleton signature "
        "reduced_at finished blame exhibit releases"
    ).split()
    assert body["extra"]["skeleton"] == [["add", []], ["mul", [0]]]
    assert body["extra"]["releases"] == [["2.10.0", "gone"]]
    assert CASE_FINDING.extra["config"] == {"sizes": (1, 2)} and CASE_FINDING.extra["blame"] == body["extra"]["blame"]
    nobody = to_json(replace(CASE_FINDING, blame=None))["extra"]
    assert nobody["blame"] is None and [*nobody] == [*body["extra"]]
    unit = to_json(UNIT_FINDING)["extra"]
    assert [*unit] == "rung graph part values change sort units operations".split()
    reduced = to_json(replace(UNIT_FINDING, reduced=Reduced(nodes=2, tests=5, finished=True)))["extra"]
    assert [*reduced] == [*unit, "nodes", "tests", "finished"]


def test_a_finding_of_an_earlier_release_says_less() -> None:
    body = to_json(replace(FINDING, repro=Repro()))
    assert body["extra"] == {}
    old = from_json(Finding, {**body, "extra": {"config": {}, "nodes": 3, "operations": ["add"]}})
    assert (old.reduced, old.unit_case, old.operations) == (Reduced(3, operations=("add",)), None, ("add",))
    assert to_json(old)["extra"] == {"config": {}, "nodes": 3, "operations": ["add"]}
    with pytest.raises(ValueError, match="extra: unknown field 'shape'"):
        from_json(Finding, {**body, "extra": {"shape": [2, 3]}})


def test_a_record_keeps_its_case_id() -> None:
    assert from_json(Case, to_json(CASE)).id == CASE.id


@pytest.mark.parametrize(
    "cls,data,words",
    [
        (Seed, {"path": "a", "form": "module", "hash": "1", "nmae": ""}, "Seed: unknown field 'nmae'"),
        (Seed, {"path": 3, "form": "module", "hash": "1"}, "Seed.path: want str, got 3"),
        (Seed, {"path": "a"}, "missing"),
        (Case, [], "want an object"),
        (CaseResult, {"case_id": "1", "status": "fine"}, "CaseResult.status"),
    ],
)
def test_what_does_not_fit_is_named(cls: type, data: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        from_json(cls, data)


def test_json_has_no_form_for_an_object() -> None:
    with pytest.raises(TypeError, match="no JSON form for object"):
        to_json({"a": object()})


def test_a_run_from_start_to_finish(tmp_path: Path) -> None:
    settings = Settings(paths=("corpus",), seed=7, inductor=(("freezing", True),))
    with Store(tmp_path / "state") as store:
        assert store.last_run() is None and store.unfinished_run() is None
        run = store.create_run(settings, {"torch": "2.13.0"})
        assert len(run) == 8
        assert store.unfinished_run() == (run, settings)
        store.add_result(run, 1, CASE, RESULT)
        store.add_result(run, 0, replace(CASE, number=0), replace(RESULT, case_id=replace(CASE, number=0).id))
        store.add_finding(run, replace(FINDING, repro=Repro()), "findings/ab12cd34")
        store.add_refusal(run, "bad.py", "SyntaxError: line 1")
        store.add_seconds(run, {"compile": 2.0, "idle": 1.0})
        store.add_seconds(run, {"compile": 0.5})
    with Store(tmp_path / "state") as store:
        assert list(store.results(run)) == [replace(CASE, number=0).id, CASE.id]
        assert store.results(run)[CASE.id] == RESULT
        assert store.cases(run)[1] == (1, CASE, RESULT)
        assert store.findings() == store.findings(run) == [replace(FINDING, repro=Repro())]
        assert store.findings("other") == []
        assert store.refusals(run) == {"bad.py": "SyntaxError: line 1"}
        assert store.seconds(run) == {"compile": 2.5, "idle": 1.0}
        assert store.last_run() == (run, {"torch": "2.13.0"}, {})
        store.finish_run(run, {"cases": 2})
        assert store.unfinished_run() is None
        assert store.last_run() == (run, {"torch": "2.13.0"}, {"cases": 2})
        assert store.header(run) == {"torch": "2.13.0"}
    assert (tmp_path / "state" / ".gitignore").read_text() == "*\n"


def test_findings_by_prefix(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.create_run(Settings(), {})
        store.add_finding(run, replace(FINDING, repro=Repro()), "first")
        store.add_finding(run, replace(FINDING, id="ab99", repro=Repro()), "second", duplicate_of="ab12cd34")
        again = store.create_run(Settings(), {})
        store.add_finding(again, replace(FINDING, reason="later", repro=Repro()), "third")
        finding, folder = store.finding("ab1")
        assert (finding.reason, folder) == ("later", "third")
        assert [f.id for f in store.findings()] == ["ab12cd34"]
        assert [f.id for f in store.findings(run, duplicates=True)] == ["ab12cd34", "ab99"]
        with pytest.raises(StoreError, match="ambiguous: ab99, ab12cd34"):
            store.finding("ab")
        for prefix in ("zz", "", "%"):
            with pytest.raises(StoreError, match="no finding"):
                store.finding(prefix)


def test_a_process_just_being_started_does_not_keep_the_folder(tmp_path: Path) -> None:
    """It has the descriptors of this one until it execs."""
    with Store(tmp_path) as store:
        assert store._lock is not None
        inherited = os.dup(store._lock)
    try:
        with Store(tmp_path):
            pass
    finally:
        os.close(inherited)


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.create_run(Settings(), {"a": 1})
        with pytest.raises(StoreError, match=f"in use by another fxmorph.*{os.getpid()}"):
            Store(tmp_path)
        with Store(tmp_path, write=False) as reader:
            assert reader.last_run() == (run, {"a": 1}, {})
            with pytest.raises(StoreError):
                reader.create_run(Settings(), {})
    Store(tmp_path).close()


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no fxmorph state in"):
        Store(tmp_path / "none", write=False)
    assert not (tmp_path / "none").exists()


def test_another_format_is_not_touched(tmp_path: Path) -> None:
    Store(tmp_path).close()
    db = sqlite3.connect(tmp_path / DATABASE)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreError, match="has format 99, this fxmorph reads 2") as caught:
        Store(tmp_path)
    assert not isinstance(caught.value, DiskError)


def test_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(DiskError, match="not a database; move the folder away"):
        Store(tmp_path)
    (tmp_path / DATABASE).unlink()
    Store(tmp_path).close()


def test_a_path_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="name a folder that can be written"):
        Store(tmp_path / "file")


def test_a_full_disk(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        run = store.create_run(Settings(), {})
        store._db.execute("PRAGMA max_page_count = 20")
        with pytest.raises(DiskError, match=r"full; free space on that disk, then go on with --resume"):
            for index in range(500):
                store.add_result(run, index, replace(CASE, number=index), replace(RESULT, case_id=f"{index:016}"))
        assert 0 < len(store.results(run)) == index


WRITER = """
import sys
sys.path.insert(0, {tests!r})
from dataclasses import replace
from pathlib import Path
from test_store import CASE, RESULT
from fxmorph.core.config import Settings
from fxmorph.core.store import Store
store = Store(Path({state!r}))
run = store.create_run(Settings(), {{}})
for index in range(100000):
    store.add_result(run, index, CASE, replace(RESULT, case_id=str(index)))
    print(index, flush=True)
"""


def test_kill_9_loses_nothing_recorded(tmp_path: Path) -> None:
    code = WRITER.format(tests=str(Path(__file__).parent), state=str(tmp_path))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) == 50:
                os.kill(writer.pid, signal.SIGKILL)
                break
        said = 50 + sum(line.endswith("\n") for line in writer.stdout)
    with Store(tmp_path) as store:
        unfinished = store.unfinished_run()
        assert unfinished is not None
        recorded = [int(case_id) for case_id in store.results(unfinished[0])]
    assert recorded[: said + 1] == list(range(said + 1))
    assert len(recorded) <= said + 2
