"""State folders joined in one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fxmorph.commands.merge import merge
from fxmorph.core.config import ConfigError, Settings
from fxmorph.core.store import DATABASE, DiskError, Store, StoreError
from fxmorph.model import BugClass, Case, CaseResult, CompileConfig, Finding, Kind, Seed, Status, ValuePlan
from fxmorph.report.collect import collect
from fxmorph.triage.folder.confirm import write_finding

PROGRAM = "def make_inputs():\n    return [torch.ones(2)]\n\n\ndef fn(x):\n    return (x + 1,)\n"


def one_case(number: int, torch: str) -> Case:
    return Case(Seed("s.py", "module", "ab"), number, 0, (ValuePlan.SEED,), CompileConfig(), torch=torch)


def make(folder: Path, torch: str, ids: tuple[str, ...], numbers: range, wrong: tuple[int, ...] = (0,)) -> Path:
    """A run of these cases, with findings of the first of them."""
    with Store(folder) as store:
        run = store.create_run(Settings(), {"torch": torch})
        for number in numbers:
            case = one_case(number, torch)
            status = Status.FINDING if number in wrong else Status.CLEAN
            store.add_result(run, number, case, CaseResult(case.id, status))
        for id in ids:
            case_id = one_case(numbers[0], torch).id
            finding = Finding(
                id, case_id, "s.py", "", (Kind.VALUE,), BugClass.UGO, "inductor", "u", "", id, folder.name, PROGRAM
            )
            write_finding(folder / "findings" / id, finding, {"torch": torch}, folder / "proofs")
            store.add_finding(run, finding, str(folder / "findings" / id))
        store.finish_run(run, {"cases": len(numbers)})
    return folder


def listing(folder: Path) -> list[str]:
    with Store(folder, write=False) as store:
        rows = [(run.id, *row) for run in store.runs() for row in store.placed(run.id)]
        cases = [(run.id, *row) for run in store.runs() for row in store.cases(run.id)]
    files = [(f.relative_to(folder), f.read_bytes()) for f in sorted((folder / "findings").rglob("*")) if f.is_file()]
    return [*map(repr, rows), *map(repr, cases), *map(repr, files)]


def test_shards_are_joined_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = make(tmp_path / "a", "2.13.0", ("aa", "bb"), range(0, 3))
    b = make(tmp_path / "b", "2.13.0", ("bb",), range(3, 6), wrong=(3,))
    into = tmp_path / "ab"
    assert merge([str(a), str(b)], str(into)) == 0
    assert capsys.readouterr().out == f"2 runs, 6 cases, 2 findings in {into}; 2 of the runs are new here\n"
    before = listing(into)
    assert merge([str(b), str(into), str(a), str(a)], str(into)) == 0
    assert capsys.readouterr().out.endswith("0 of the runs are new here\n")
    assert listing(into) == before
    with Store(into, write=False) as store:
        assert [f.id for f in store.findings()] == ["aa", "bb"]
        for finding in store.findings():
            folder = Path(store.place(finding.id)[0])
            assert folder.parent == into / "findings" and (folder / "repro.py").is_file()
            assert json.loads((folder / "finding.json").read_text())["reason"] == finding.reason
    both, merged = collect([a, b]), collect([into])
    assert [c.finding for c in both.cards] == [c.finding for c in merged.cards]
    assert (both.cases, len(collect([a, b, into]).runs)) == (merged.cases, 2)


def test_a_run_that_went_on_is_taken_again(tmp_path: Path) -> None:
    a, into = make(tmp_path / "a", "2.13.0", ("aa",), range(0, 2)), tmp_path / "into"
    merge([str(a)], str(into))
    with Store(a) as store:
        (run,) = store.runs()
        case = one_case(7, "2.13.0")
        store.add_result(run.id, 7, case, CaseResult(case.id, Status.CLEAN))
        finding = store.findings()[0]
        store.add_finding(run.id, Finding(**{**vars(finding), "id": "cc", "fingerprint": "cc"}), "", instead_of="aa")
    merge([str(a)], str(into))
    with Store(into, write=False) as store:
        assert (len(store.results(run.id)), [f.id for f in store.findings()]) == (3, ["cc"])
    assert not (into / "findings" / "aa").exists()


def test_releases_tell_since_when_a_finding_shows(tmp_path: Path) -> None:
    old = make(tmp_path / "old", "2.8.0", ("aa",), range(0, 2))
    new = make(tmp_path / "new", "2.13.0", (), range(0, 2), wrong=())
    merge([str(old), str(new)], str(tmp_path / "both"))
    folder = tmp_path / "both" / "findings" / "aa"
    extra = json.loads((folder / "finding.json").read_text())["extra"]
    assert (extra["first_seen"], extra["last_seen"], extra["fixed_in"]) == ("2.8.0", "2.8.0", "2.13.0")
    assert "first seen torch 2.8.0, last seen torch 2.8.0, fixed in torch 2.13.0" in (folder / "issue.md").read_text()


def test_what_is_no_state_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    a, into = make(tmp_path / "a", "2.13.0", (), range(0, 1)), tmp_path / "into"
    for other, error in (("foreign", StoreError), ("damaged", DiskError)):
        (tmp_path / other).mkdir()
        if other == "damaged":
            (tmp_path / other / DATABASE).write_text("no database, and long enough to be read as one" * 30)
        with pytest.raises(error, match=other) as raised:
            merge([str(a), str(tmp_path / other)], str(into))
        assert "\n" not in str(raised.value) and not into.exists()
    (tmp_path / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="something else"):
        merge([str(a)], str(tmp_path / "foreign"))
