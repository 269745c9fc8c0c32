"""A repro counts when it shows the difference in every fresh process; replay says what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import Repro
from fxmorph.core.records import to_json
from fxmorph.core.scripts import ForkedScripts
from fxmorph.core.store import Store
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder import confirm as module
from fxmorph.triage.folder import repro_run
from fxmorph.triage.folder.confirm import Confirmation, confirm, write_finding
from fxmorph.triage.folder.replay import replay
from fxmorph.triage.folder.repro import WITH_CACHES

#: Exits with the codes in ``codes``, one a run.
REPRO = """import pathlib, sys
codes = pathlib.Path("codes").read_text().split()
pathlib.Path("codes").write_text(" ".join(codes[1:]))
print("run")
sys.exit(int(codes[0]))
"""


def found_with(program: str = "", **config: Any) -> Finding:
    return Finding(
        "aa", "c", "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", "aa", "", program, repro=Repro(config)
    )


def folder_with(where: Path, codes: str) -> Path:
    where.mkdir(parents=True, exist_ok=True)
    (where / "repro.py").write_text(REPRO)
    (where / "codes").write_text(codes)
    (where / "finding.json").write_text(json.dumps(to_json(found_with())))
    return where


@pytest.mark.parametrize(
    ("codes", "shown", "runs"), [("1 1 1", 3, 3), ("0 1 1", 0, 1), ("1 0 1", 1, 2), ("1 2 1", 1, 2)]
)
def test_three_fresh_processes_must_show_it(
    tmp_path: Path, codes: str, shown: int, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = module.run_repro
    monkeypatch.setattr(module, "run_repro", lambda *a, without_unit=False, **_: (4, "") if without_unit else real(*a))
    monkeypatch.setattr(module, "missing", lambda device: "no GPU")
    got = confirm(folder_with(tmp_path, codes), tmp_path / "cache")
    assert (got.shown, got.runs, got.stands) == (shown, runs, codes == "1 1 1")


@pytest.mark.parametrize(("code", "word"), [(0, "gone"), (1, "still there"), (2, "breaks"), (4, "")])
def test_it_says_what_shows_without_the_unit(
    tmp_path: Path, code: int, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_repro", lambda *a, without_unit=False, **_: (code if without_unit else 1, "said"))
    monkeypatch.setattr(module, "missing", lambda device: "no GPU")
    got = confirm(folder_with(tmp_path, ""), tmp_path / "cache")
    assert got == Confirmation(3, 3, "said", word)
    assert ("switched off" in str(got)) == bool(word)


def test_replay_says_fixed_fails_or_error(tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path / "state"))
    with Store(settings.state_dir) as store:
        run = store.create_run(settings, {})
        for id, code, known in (("aa", 0, "pytorch/pytorch#1"), ("bb", 1, ""), ("cc", 2, "")):
            found = Finding(id, id, "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", id, "", "", known=known)
            store.add_finding(run, found, str(folder_with(tmp_path / id, str(code))))
    said: list[str] = []
    assert replay(settings, [], True, said.append) == 3
    assert [line.split()[:2] for line in said] == [["FIXED", "aa"], ["FAILS", "bb"], ["ERROR", "cc"]]
    assert said[0].endswith("known as pytorch/pytorch#1")
    assert replay(settings, ["bb"], False, said.append) == 1


#: Writes down its environment, then waits until as many are there as ``wanted`` says.
TELLS = """import json, os, pathlib, sys, time
here = pathlib.Path.cwd()
(here / "environment.json").write_text(json.dumps(dict(os.environ)))
until = time.monotonic() + 60
while len(list(here.parent.glob("*/environment.json"))) < int((here / "wanted").read_text()):
    if time.monotonic() > until: sys.exit(2)
    time.sleep(0.05)
sys.exit(1)
"""


def stored(tmp_path: Path, jobs: int, ids: str) -> Settings:
    settings = Settings(state=str(tmp_path / "state"), jobs=jobs)
    with Store(settings.state_dir) as store:
        run = store.create_run(settings, {})
        for id in ids:
            place = tmp_path / "found" / id
            place.mkdir(parents=True)
            (place / "repro.py").write_text(TELLS)
            (place / "wanted").write_text(str(jobs))
            found = Finding(id, id, "s", "", (Kind.VALUE,), BugClass.UGO, "inductor", "", "", id, "", "")
            store.add_finding(run, found, str(place))
    return settings


def test_replay_leaves_the_users_cache_and_switches_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCH_BISECT_MAX", "TORCH_BISECT_BACKEND", "TORCHINDUCTOR_DISABLED_PASSES", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "mine"))
    assert replay(stored(tmp_path, 1, "a"), [], True, str) == 1
    seen = json.loads((tmp_path / "found" / "a" / "environment.json").read_text())
    assert not [k for k in seen if k.startswith("TORCH_BISECT_")]
    assert not {"TORCHINDUCTOR_DISABLED_PASSES", "OMP_NUM_THREADS"} & seen.keys()
    assert seen["TORCHINDUCTOR_CACHE_DIR"] != str(tmp_path / "mine")
    assert not Path(seen["TORCHINDUCTOR_CACHE_DIR"]).exists()


def test_replay_runs_as_many_at_once_as_there_are_jobs_and_tells_in_order(tmp_path: Path) -> None:
    said: list[str] = []
    assert replay(stored(tmp_path, 3, "cab"), [], True, said.append) == 1
    assert [line.split()[:2] for line in said] == [["FAILS", id] for id in "cab"]


@pytest.mark.parametrize(("device", "other"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_a_finding_is_tried_on_the_other_sort_of_device(
    tmp_path: Path, device: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        f"def make_inputs():\n    return [torch.ones(2, device='{device}')]\n\n\ndef fn(x):\n    return (x + 1,)\n"
    )
    found = found_with(program, backend="inductor", device=device)
    write_finding(tmp_path / "aa", found, {}, tmp_path / "proofs")
    seen: list[str] = []

    def run(folder: Path, cache: Path, *, without_unit: bool = False, scripts: object = None) -> tuple[int, str]:
        seen.append((folder / "repro.py").read_text())
        return (4 if without_unit else 0 if len(seen) > 4 else 1), "said"

    monkeypatch.setattr(module, "run_repro", run)
    monkeypatch.setattr(module, "missing", lambda device: "")
    got = confirm(tmp_path / "aa", tmp_path / "cache")
    assert (got.elsewhere, str(got)) == (
        f"on {other}: gone", f"repro.py shows it in 3 of 3 fresh processes; on {other}: gone"
    )  # fmt: skip
    assert ("'cuda'" in seen[-1]) is (other == "cuda") and ("'cuda'" in seen[0]) is (device == "cuda")
    monkeypatch.setattr(module, "missing", lambda device: "no such device")
    assert module._elsewhere(tmp_path / "aa", tmp_path / "cache") == ""


def test_a_script_about_caches_is_run_with_them_on(tmp_path: Path) -> None:
    forced = {"TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"}
    assert forced <= repro_run.fresh_environment(tmp_path).keys()

    class Forks(ForkedScripts):
        def run(self, *_: Any) -> tuple[int, str]:
            raise AssertionError("torch has read its settings there")

    left = f"print(sorted({forced} & os.environ.keys()))"
    (tmp_path / "repro.py").write_text(f"import os\n{WITH_CACHES}\n{left}\n")
    assert repro_run.run_repro(tmp_path, tmp_path, scripts=Forks("nowhere")) == (0, "[]")
