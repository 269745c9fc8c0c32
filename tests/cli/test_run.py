"""Whole campaigns from the command line, with a backend that needs no C++ compiler, on seeds of a few lines."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from preloaded import Command, clean_environment
from told_apart import COMPILED

from fxmorph.events import SCHEMA

ROOT = Path(__file__).parents[2]

SOFTMAX = """import torch
def make_inputs(): return [torch.randn(4, 6)]
def fn(x): return torch.softmax(x * 2, -1) + 1
"""
WRITES = """import torch
def make_inputs(): return [torch.arange(12.0).reshape(3, 4)]
def fn(x):
    y = x.clone()
    y[1:].add_(1)
    return y.sum(0), x.mT
"""
GRADIENT = """import torch
def make_inputs(): return [torch.randn(3, 4), torch.randn(4, 2, requires_grad=True)]
def fn(x, w): return (x @ w).relu()
"""
UNPARSABLE = "def fn(x:\n"
SEGFAULT = """import ctypes, torch
def make_inputs(): return [torch.ones(2)]
def fn(x):
    ctypes.string_at(0)
    return x
"""
HANGS = """import torch
def make_inputs():
    while True:
        pass
def fn(x): return x
"""
RAISES = """import torch
def make_inputs(): raise ValueError("no data here")
def fn(x): return x
"""
UNSOUND = '''from fxmorph.model import Level
from fxmorph.rules import rule
@rule(args={"x": "..."}, claim=Level.BIT_EXACT, site="value")
class wrong_by_one:
    """Adds one where it says that it does nothing."""
    def before(x): return x
    def after(x): return x + 1
'''


#: Made once: ``jsonschema.validate`` judges the schema itself each time.
VALID = jsonschema.Draft202012Validator(SCHEMA)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fxmorph", *arguments]


def folder_of(where: Path, **seeds: str) -> Path:
    (where / "seeds").mkdir()
    for name, text in seeds.items():
        (where / "seeds" / f"{name}.py").write_text(text)
    return where


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for line in lines:
        VALID.validate(line)
    return lines


def cases(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line for line in lines if line["event"] == "case"]


FAST = ("--backend", "aot_eager", "--json")


def outcomes(lines: Sequence[dict[str, Any]]) -> list[tuple[str, str, tuple[str, ...]]]:
    return sorted((c["case_id"], c["verdict"], tuple(c["kinds"])) for c in cases(lines))


def test_a_short_run_ends_well_and_speaks_valid_json(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES)
    done = fxmorph("run", "seeds", *FAST, "--max-cases", "4", "-j1", cwd=folder)
    assert done.returncode == 0, done.stderr
    lines = events(done)
    assert [c["number"] for c in cases(lines)] == [0, 0, 1, 1]
    assert {c["verdict"] for c in cases(lines)} <= {"clean", "expected", "skipped", "inconclusive"}
    assert any(c["recipe"] for c in cases(lines))
    assert lines[-1]["exit_code"] == 0
    assert lines[-1]["cases"] == 4


@pytest.mark.slow
def test_one_and_two_workers_judge_alike(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES, c=GRADIENT)
    run = ("run", "seeds", *FAST, "--max-cases", "9", "--seed", "7")
    one, two = (fxmorph(*run, j, "--state", j[1:], cwd=folder) for j in ("-j1", "-j2"))
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert outcomes(events(one)) == outcomes(events(two))
    assert len(outcomes(events(one))) == 9


def test_what_is_wrong_with_a_seed_stays_with_it(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=UNPARSABLE, c=SEGFAULT, d=RAISES, e=WRITES)
    done = fxmorph("run", "seeds", *FAST, "--max-cases", "6", "-j2", cwd=folder)
    lines = events(done)
    refused = [line for line in lines if line["event"] == "seed-refused"]
    assert [(Path(r["seed"]).name, "line 1" in r["reason"]) for r in refused] == [("b.py", True)]
    by_seed = {Path(c["seed"]).stem: c for c in cases(lines) if c["number"] == 0}
    assert by_seed["a"]["verdict"] == by_seed["e"]["verdict"] == "clean"
    assert by_seed["c"]["verdict"] == "error"
    assert "SIGSEGV" in by_seed["c"]["reason"]
    assert by_seed["d"]["verdict"] == "error"
    assert "no data here" in by_seed["d"]["reason"]
    assert [Path(c["seed"]).stem for c in cases(lines) if c["number"] == 1] != []
    assert {Path(c["seed"]).stem for c in cases(lines) if c["number"] > 0} <= {"a", "e"}
    assert done.returncode == 3  # nothing is known of three seeds


def test_a_seed_that_hangs_is_stopped(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=HANGS, b=SOFTMAX)
    done = fxmorph("run", "seeds", *FAST, "--max-cases", "2", "-j1", "--case-timeout", "4s", cwd=folder)
    by_seed = {Path(c["seed"]).stem: c for c in cases(events(done))}
    assert by_seed["a"]["verdict"] == "error"
    assert "timeout" in by_seed["a"]["reason"]
    assert by_seed["b"]["verdict"] == "clean"


def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES)
    run = ("run", "seeds", *FAST, "--max-cases", "4", "--seed", "3", "-j1")
    whole = fxmorph(*run, "--state", "whole", cwd=folder)
    with subprocess.Popen(
        command(*run, "--state", "cut"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder,
        env=clean_environment(),
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        seen: list[dict[str, Any]] = []
        for line in parent.stdout:
            seen.append(json.loads(line))
            if len(cases(seen)) == 2:
                parent.send_signal(signal.SIGKILL)
                break
    again = fxmorph("run", "--resume", "--json", "--state", "cut", cwd=folder)
    assert again.returncode == whole.returncode == 0, again.stderr
    assert outcomes(events(again)) == outcomes(events(whole))
    index = Counter(c["index"] for c in cases(events(again)))
    assert index == Counter(range(4))
    stored = re.search(r"(\d+) cases are done", str([e for e in events(again) if e["event"] == "run-started"]))
    assert stored is not None and 2 <= int(stored[1]) <= 4
    before = {c["case_id"]: c["wall_s"] for c in cases(seen)}
    after = {c["case_id"]: c["wall_s"] for c in cases(events(again))}
    assert {k: after[k] for k in before} == before  # not judged again: not even the time changed


def test_nothing_to_resume_is_said(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    assert fxmorph("run", "seeds", *FAST, "--max-cases", "1", cwd=folder).returncode == 0
    done = fxmorph("run", "--resume", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == "fxmorph: nothing to resume in .fxmorph: the last run finished\n"


def test_an_unknown_backend_is_refused(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    done = fxmorph("run", "seeds", "--backend", "inducter", cwd=folder)
    assert done.returncode == 2
    assert "did you mean 'inductor'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "setting",
    [
        ("--inductor", "no_such=1"),
        pytest.param(("--dynamo", "no_such=1"), marks=pytest.mark.slow),
        pytest.param(("--compile", "mode=bogus"), marks=pytest.mark.slow),
    ],
)
def test_an_unknown_setting_is_refused(tmp_path: Path, setting: tuple[str, str], fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    done = fxmorph("run", "seeds", *setting, cwd=folder)
    assert done.returncode == 2
    assert setting[1].split("=")[0] in done.stderr and done.stderr.count("\n") == 1


def test_a_machine_without_a_compiler_is_told_so(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    (tmp_path / "bin").mkdir()
    done = fxmorph("run", "seeds", "--max-cases", "1", cwd=folder, CXX="", PATH=str(tmp_path / "bin"))
    assert done.returncode == 2
    assert "C++ compiler" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_an_unsound_rule_has_an_exit_code_of_its_own(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    (folder / "mine").mkdir()
    # A family of its own: families are drawn first, so that it comes up within a few variants.
    (folder / "mine" / "wrong.py").write_text(UNSOUND)
    done = fxmorph("run", "seeds", *FAST, "--transforms", "mine", "--max-cases", "14", "-j2", cwd=folder)
    lines = events(done)
    unsound = [c for c in cases(lines) if c["verdict"] == "unsound-rewrite"]
    assert unsound, Counter(c["verdict"] for c in cases(lines))
    assert done.returncode == 4
    assert "wrong_by_one" in unsound[0]["recipe"] + unsound[0]["reason"]
    assert not [line for line in lines if line["event"] == "finding"]


def test_a_broken_rule_file_is_refused_in_one_line(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    (folder / "mine").mkdir()
    (folder / "mine" / "broken.py").write_text("import no_such_module_at_all\n")
    done = fxmorph("run", "seeds", "--transforms", "mine", "--backend", "aot_eager", cwd=folder)
    assert done.returncode == 2
    assert "broken.py" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_check_judges_seeds_as_they_are(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES, c=UNPARSABLE)
    done = fxmorph("check", "seeds", *FAST, "-j1", cwd=folder)
    checked = {Path(e["seed"]).stem: e["verdict"] for e in events(done) if e["event"] == "checked"}
    assert checked == {"a": "clean", "b": "clean", "c": "error"}
    assert done.stdout.count("c.py") == done.stderr.count("c.py") == 1  # told once
    assert done.returncode == 3
    told = fxmorph("check", "seeds/a.py", *FAST[:2], "-j1", cwd=folder).stdout
    assert told.startswith("fxmorph check ") and "1 seed, rungs cpu, 1 worker" in told
    assert re.search(r"^1 case, 0 findings, 0 known in \S+ \(exit code 0\)$", told, re.M)
    assert not (folder / ".fxmorph" / "report.html").exists()


def test_a_seed_that_is_no_test_is_told_and_fails_the_check(tmp_path: Path, fxmorph: Command) -> None:
    refuses = "import torch\ndef make_inputs(): return [torch.ones(3, 4)]\ndef fn(x): return x @ x\n"
    folder = folder_of(tmp_path, a=SOFTMAX, b=refuses, c=SOFTMAX + "META = {'call': 2}\n")
    done = fxmorph("check", "seeds", *FAST, "-j1", cwd=folder)
    checked = {Path(e["seed"]).stem: e for e in events(done) if e["event"] == "checked"}
    assert {name: e["verdict"] for name, e in checked.items()} == {"a": "clean", "b": "unsupported", "c": "error"}
    assert "raises in eager on its own inputs: RuntimeError: mat1" in checked["b"]["reason"]
    assert "META has the unknown key 'call'; did you mean 'calls'?" in checked["c"]["reason"]
    assert done.returncode == 3
    run = events(fxmorph("run", "seeds", *FAST, "--max-cases", "3", "-j1", "--state", "run", cwd=folder))
    assert {Path(c["seed"]).stem: c["verdict"] for c in cases(run) if c["number"] == 0} == {
        name: e["verdict"] for name, e in checked.items()
    }


@pytest.mark.skipif(torch.cuda.is_available(), reason="the machine has a CUDA device")
@pytest.mark.parametrize("name", ["run", pytest.param("check", marks=pytest.mark.slow)])
def test_a_device_that_is_not_there_is_told_before_anything_runs(tmp_path: Path, name: str, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    done = fxmorph(name, "seeds", *FAST, "--device", "cpu,cuda", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "sees no CUDA device" in done.stderr and done.stderr.count("\n") == 1


#: Programs that are wrong when compiled, in a second call and at other sizes than the first.
WRONG_AGAIN = f"""{COMPILED}class Counts(torch.nn.Module):
    calls = 0
    def forward(self, x):
        self.calls += 1
        return x + (1 if compiled() and self.calls > 1 else 0)
make_fn = Counts
def make_inputs(): return [torch.ones(6)]
"""
WRONG_ELSEWHERE = f"""{COMPILED}def make_inputs(): return [torch.ones(6)]
def fn(x): return x + (1 if compiled() and x.shape[0] != 6 else 0)
"""


@pytest.mark.parametrize(
    ("options", "wrong"), [((), {"a"}), pytest.param(("--compile", "dynamic=True"), {"a", "b"}, marks=pytest.mark.slow)]
)
def test_check_calls_twice_and_at_other_sizes_where_shapes_are_dynamic(
    tmp_path: Path, options: Sequence[str], wrong: set[str], fxmorph: Command
) -> None:
    folder = folder_of(tmp_path, a=WRONG_AGAIN, b=WRONG_ELSEWHERE)
    done = fxmorph("check", "seeds", *FAST, "-j1", *options, cwd=folder)
    checked = {Path(e["seed"]).stem: e for e in events(done) if e["event"] == "checked"}
    assert {name for name, e in checked.items() if e["verdict"] == "finding"} == wrong, done.stdout
    assert "second-call" in checked["a"]["kinds"]
    assert done.returncode == 1


def test_a_class_of_the_users_is_run_in_both_modes(tmp_path: Path, fxmorph: Command) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        layers = torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)\n"
        "        self.layers = torch.nn.Sequential(*layers)\n"
        "    def forward(self, x): return self.layers(x)\n"
        "def make_inputs(): return [torch.randn(5, 4)]\n"
    )
    done = fxmorph("run", "net.py:Net", *FAST, "--max-cases", "4", "-j1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    as_they_are = [c for c in cases(events(done)) if c["number"] == 0]
    assert sorted(c["seed"].rpartition("[")[2] for c in as_they_are) == ["eval]", "train]"]
    assert {c["verdict"] for c in as_they_are} == {"clean"}


def test_explain_says_every_step_of_a_judgement(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES)
    backend = FAST[:2]
    by_file = fxmorph("explain", "seeds/a.py", *backend, cwd=folder)
    assert by_file.returncode == 0, by_file.stderr
    for words in ("plan seed: eager returns 1 values", "same bits:", "plan again:", "verdict clean"):
        assert words in by_file.stdout
    done = fxmorph("run", "seeds", *FAST, "--max-cases", "4", "-j1", cwd=folder)
    variant = next(c for c in cases(events(done)) if c["recipe"])
    for name in (variant["case_id"][:10], str(variant["index"])):
        again = fxmorph("explain", name, cwd=folder)
        assert f"rewrite: {variant['recipe']}" in again.stdout, again.stderr
        assert "E(G) against E(G'), plan seed" in again.stdout
        assert f"verdict {variant['verdict']}" in again.stdout
    unknown = fxmorph("explain", "ffffffff", cwd=folder)
    assert (unknown.returncode, len(unknown.stderr.splitlines())) == (2, 1)
    assert "no such case" in unknown.stderr


def test_explain_says_that_the_program_crashed(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX)
    (folder / "seeds" / "crash.py").write_text(
        "import os\nimport torch\ndef make_inputs(): return [torch.ones(3)]\ndef fn(x): os.abort()\n"
    )
    done = fxmorph("explain", "seeds/crash.py", *FAST[:2], cwd=folder)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("verdict error: crash in eager (not compiled code): crashed (SIGABRT)")


def test_explain_refuses_a_backend_as_check_does(tmp_path: Path, fxmorph: Command) -> None:
    registers = SOFTMAX + "@torch._dynamo.register_backend\ndef mine(gm, inputs): return gm\n"
    folder = folder_of(tmp_path, a=registers)
    said = [fxmorph(command, "seeds/a.py", "--backend", "mine", cwd=folder) for command in ("check", "explain")]
    assert [done.returncode for done in said] == [2, 2]
    assert said[0].stderr == said[1].stderr
    assert "--backend mine: this torch has no such backend" in said[0].stderr


@pytest.mark.slow
def test_a_list_of_cases_is_judged_and_no_other(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, b=WRITES)
    first = cases(events(fxmorph("run", "seeds", *FAST, "--max-cases", "4", "-j1", cwd=folder)))
    variant = next(c for c in first if c["recipe"])
    hashes = {stem: hash_of(folder / "seeds" / f"{stem}.py") for stem in "ab"}
    stem = Path(variant["seed"]).stem
    rows = [
        {"seed": "seeds/b.py", "seed_hash": hashes["b"], "dtype": "bfloat16"},
        {"seed": "seeds/a.py", "seed_hash": hashes["a"], "dynamic": True},
        {"seed": f"seeds/{stem}.py", "seed_hash": hashes[stem], "number": 1, "recipe": variant["recipe"]},
    ]
    (folder / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = cases(events(fxmorph("run", "--cases", "list.jsonl", *FAST, "-j1", cwd=folder)))
    assert [Path(c["seed"]).stem for c in judged] == ["b", "a", stem]
    assert judged[2]["recipe"] == variant["recipe"]
    assert {c["verdict"] for c in judged} <= {"clean", "expected"}
    (folder / "seeds" / "a.py").write_text(SOFTMAX + "# edited\n")
    changed = fxmorph("run", "--cases", "list.jsonl", *FAST, "-j1", cwd=folder)
    assert changed.returncode == 2
    assert "has changed since the list was made" in changed.stderr
    (folder / "list.jsonl").write_text("{not json\n")
    broken = fxmorph("run", "--cases", "list.jsonl", *FAST, cwd=folder)
    assert (broken.returncode, len(broken.stderr.splitlines())) == (2, 1)


def hash_of(seed: Path) -> str:
    from fxmorph.core.seeds import find_seeds

    return find_seeds([str(seed)])[0][0].hash


@pytest.mark.parametrize(("option", "value"), [("--dtype", "int8"), ("--context", "train"), ("--cases", "nowhere")])
def test_conditions_that_do_not_exist_are_refused(tmp_path: Path, option: str, value: str, fxmorph: Command) -> None:
    paths = () if option == "--cases" else ("seeds",)
    done = fxmorph("run", *paths, option, value, *FAST, cwd=folder_of(tmp_path, a=SOFTMAX))
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert value in done.stderr


@pytest.mark.slow
def test_other_dtypes_and_contexts_are_run(tmp_path: Path, fxmorph: Command) -> None:
    folder = folder_of(tmp_path, a=SOFTMAX, c=GRADIENT)
    for more in (("--dtype", "float16"), ("--context", "autocast"), ("--context", "inference")):
        done = fxmorph("run", "seeds", *FAST, *more, "--max-cases", "4", "-j1", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert {c["verdict"] for c in cases(events(done))} <= {"clean", "expected", "skipped", "inconclusive"}
