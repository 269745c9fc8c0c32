"""The command line from outside: codes, one-line errors, and answers without torch (`bench/startup.py` times them)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from preloaded import COMMAND_LINE, Preloaded, clean_environment

from fxmorph import __version__
from fxmorph.core.config import Settings
from fxmorph.core.store import Store
from fxmorph.model import BugClass, Finding, Kind

ROOT = Path(__file__).parents[2]


def fxmorph(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command, env = [sys.executable, "-m", "fxmorph", *arguments], clean_environment(**environment)
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "__init__.py").write_text("")
    (tmp_path / "seeds").mkdir()
    (tmp_path / "seeds" / "a.py").write_text("def fn(x): return x\n")
    return tmp_path


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH under which importing torch ends the process."""
    first = tmp_path_factory.mktemp("path")
    (first / "torch").mkdir()
    (first / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')\n")
    return os.pathsep.join((str(first), str(ROOT)))


@pytest.fixture(scope="module")
def torchless(without_torch: str) -> Iterator[Preloaded]:
    """Runs commands in forks of a process that has imported the command line, and cannot import torch."""
    started = Preloaded(COMMAND_LINE, PYTHONPATH=without_torch)
    yield started
    started.close()


USAGE = [
    (["--help"], 0, "Usage"),
    (["--version"], 0, ""),
    (["run", "--help"], 0, "--max-time"),
    (["check", "-h"], 0, "PATHS"),
    (["run", "--no-such-option"], 2, "No such option: --no-such-option"),
    (["rnu"], 2, "No such command"),
    (["run"], 2, "fxmorph: no paths given"),
    (["run", "missing"], 2, "fxmorph: missing: no such file or folder"),
    (["run", "corpus/"], 2, "fxmorph: corpus/: no such file or folder (`fxmorph corpus` prints the path"),
    (["corpus"], 0, "corpus"),
    (["run", "seeds", "missing.py:Net"], 2, "fxmorph: missing.py:Net: no such file or folder"),
    (["run", "empty"], 5, "fxmorph: no seeds in empty"),
    (["check", "empty"], 5, "fxmorph: no seeds in empty"),
    (["run", "seeds", "--seed", "x"], 2, "fxmorph: --seed: want a whole number, got 'x'"),
    (["run", "seeds", "--max-time", "soon"], 2, "fxmorph: --max-time: not a duration: 'soon'"),
    (["run", "seeds", "--device", "tpu"], 2, "fxmorph: --device: want cpu or cuda"),
    (["run", "seeds", "--compile", "dynamic"], 2, "fxmorph: --compile: want name=value, got 'dynamic'"),
    (["run", "seeds", "--compile", "foo=1"], 2, "fxmorph: --compile: torch.compile is given no argument 'foo', want"),
    (["run", "seeds", "--compile", "dynamic=1"], 2, "fxmorph: --compile: dynamic of torch.compile: want True or False"),
    (["run", "seeds", "--compile", "fullgraph=yes"], 2, "want True or False, got 'yes'"),
    (["run", "seeds", "--compile", "mode=3"], 2, "want text or None, got 3"),
    (["run", "seeds", "--compile", "mode=default,options={'a': 1}"], 2, "mode or options, not both"),
    (["run", "seeds", "--level", "ir"], 2, "fxmorph: --level: want torch or aten"),
    (["run", "seeds", "--fail-on", "all"], 2, "fxmorph: --fail-on: want new or known"),
    (["run", "seeds", "--transforms", "none"], 2, "fxmorph: --transforms none: no such folder"),
    (["run", "seeds", "--oracles", "none"], 2, "fxmorph: --oracles none: no such folder"),
    (["run", "seeds", "--baseline", "none"], 2, "fxmorph: --baseline none: no such file"),
    (["passes", "--help"], 0, "--stage"),
    (["passes", "--stage", "grad"], 2, "fxmorph: --stage grad: want one of dynamo, pre_grad"),
    (["passes", "--kind", "rule"], 2, "fxmorph: --kind rule: want one of pass, entry, decomposition, lowering"),
    (["passes", "show"], 2, "Missing argument"),
    (["run", "--resume"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["check", "seeds/a.py:Net"], 2, "fxmorph: seeds/a.py: defines no 'Net'"),
    (["explain", "zz"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["explain", "nosuch.py"], 2, "fxmorph: nosuch.py: no such file or folder"),
    (["coverage"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["rules", "--help"], 0, "show"),
    (["rules", "show"], 2, "Missing argument"),
    (["rules", "show", "algebra_add_"], 2, "fxmorph: no rule 'algebra_add_'; did you mean 'algebra_"),
    (["rules", "show", "mutate_late_zer"], 2, "fxmorph: no rule 'mutate_late_zer'; did you mean 'mutate_late_zero'"),
    (["prove", "algebra_add_"], 2, "fxmorph: no rule 'algebra_add_'; did you mean 'algebra_"),
    (["prove"], 2, "fxmorph: name rules by id or glob, or say --all, or --conformance"),
    (["prove", "--fuzz", "soon"], 2, "fxmorph: --fuzz: not a duration: 'soon'"),
    (["prove", "--fuzz", "5m", "--all"], 2, "fxmorph: --fuzz goes with names of rules alone"),
    (["replay"], 2, "fxmorph: name findings by id, or say --all"),
    (["replay", "ab"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["reduce"], 2, "fxmorph: name findings by id, or say --all"),
    (["reduce", "--all"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["findings"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["show", "ab"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["nightly", "--help"], 0, "--bisect"),
    (["nightly", "missing"], 2, "fxmorph: missing: no such file or folder"),
    (["nightly", "--no-run"], 2, "fxmorph: no fxmorph state in .fxmorph"),
    (["nightly", "seeds", "--no-run"], 2, "fxmorph: --no-run: shards were run elsewhere: give no paths"),
    (["nightly", "seeds", "--bisect", "none/python"], 2, "fxmorph: --bisect"),
    (["nightly", "seeds", "--python", "none/python"], 2, "none/python: cannot be run (FileNotFoundError)"),
    (["nightly", "seeds", "--site", "seeds"], 2, "fxmorph: --site seeds: it holds something else than a site"),
    (["nightly", "seeds", "--issues", "none"], 2, "fxmorph: none: No such file or directory"),
    (["capture"], 2, "Missing argument"),
    (["check-pass", "--help"], 0, "post_grad"),
    (["check-pass"], 2, "Missing argument"),
    (["check-pass", "none.py:x", "seeds"], 2, "fxmorph: none.py: no such file"),
    (["check-pass", "no_module:x", "seeds"], 2, "fxmorph: no_module: no such module"),
    (["check-pass", "none.py:x", "missing"], 2, "fxmorph: missing: no such file or folder"),
    (["check-pass", "none.py:x", "--stage", "aot"], 2, "fxmorph: --stage aot: want any, pre_grad, joint"),
]


@pytest.mark.parametrize("arguments,code,words", USAGE, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_usage_answers_without_torch(
    arguments: list[str], code: int, words: str, folder: Path, torchless: Preloaded
) -> None:
    done = torchless.fxmorph(*arguments, cwd=folder)
    assert done.returncode == code, done.stderr
    assert words in (done.stdout if code == 0 else done.stderr)
    assert "Traceback" not in done.stderr
    if words.startswith("fxmorph: "):
        assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert not (folder / ".fxmorph").exists()


def test_a_torch_that_must_not_be_imported_is_noticed(folder: Path, torchless: Preloaded, without_torch: str) -> None:
    assert "torch was imported" in torchless.fxmorph("doctor", cwd=folder).stderr
    assert "torch was imported" in fxmorph("doctor", cwd=folder, PYTHONPATH=without_torch).stderr


def test_a_fresh_process_answers_without_torch_too(folder: Path, without_torch: str) -> None:
    done = fxmorph("run", cwd=folder, PYTHONPATH=without_torch)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and "no paths given" in done.stderr


def test_version_is_that_of_the_package(folder: Path) -> None:
    assert re.match(rf"fxmorph {re.escape(__version__)} \(torch \d", fxmorph("--version", cwd=folder).stdout)


def test_a_wrong_key_in_a_file(folder: Path) -> None:
    (folder / "fxmorph.toml").write_text("max-tiem = 3\n")
    done = fxmorph("run", "seeds", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.startswith("fxmorph: ") and "the nearest valid key is 'max-time'" in done.stderr


def test_a_wrong_variable(folder: Path) -> None:
    assert "FXMORPH_SED" in fxmorph("run", "seeds", cwd=folder, FXMORPH_SED="1").stderr


def test_a_damaged_store_is_disk_trouble(folder: Path) -> None:
    (folder / ".fxmorph").mkdir()
    (folder / ".fxmorph" / "fxmorph.db").write_bytes(b"x" * 5000)
    done = fxmorph("findings", cwd=folder)
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "move the folder away" in done.stderr


def test_stored_findings_are_listed_and_shown(folder: Path) -> None:
    program = "import torch\ndef make_inputs():\n    return [torch.ones(2)]\ndef fn(x):\n    return x\n"
    finding = Finding(
        id="ab12cd34",
        case_id="0" * 16,
        seed="seeds/a.py",
        recipe="layout_flip@x",
        kinds=(Kind.VALUE,),
        bug_class=BugClass.UGO,
        stage="inductor",
        unit="post_grad",
        triangle="variant-miscompiled",
        fingerprint="f" * 16,
        reason="far",
        program=program,
    )
    with Store(folder / ".fxmorph") as store:
        assert fxmorph("findings", cwd=folder).stdout == "no findings in .fxmorph\n"
        nothing = fxmorph("replay", "--all", cwd=folder)
        assert (nothing.returncode, nothing.stderr) == (5, "fxmorph: no findings in .fxmorph: nothing to replay\n")
        run = store.create_run(Settings(), {"versions": {"torch": "2.13.0"}})
        store.add_finding(run, finding, str(folder / "f"))
        listed = fxmorph("findings", cwd=folder)  # while a writer is at work
    assert listed.stdout.splitlines()[1].split()[:4] == ["ab12cd34", "wrong", "values", "post_grad"]
    line = json.loads(fxmorph("findings", "--json", cwd=folder).stdout)
    assert (line["event"], line["id"], line["recipe"]) == ("finding", "ab12cd34", "layout_flip@x")
    shown = fxmorph("show", "ab", cwd=folder)
    assert shown.returncode == 0 and "### 🐛 Describe the bug" in shown.stdout and "torch 2.13.0" in shown.stdout
    (folder / "f").mkdir()
    (folder / "f" / "issue.md").write_text("# as written\n")
    assert fxmorph("show", "ab", cwd=folder).stdout == "# as written\n"
    assert "no finding 'zz'" in fxmorph("show", "zz", cwd=folder).stderr


ENGINE = """
import sys, types
from fxmorph.core.config import Settings
from fxmorph.events import Checked, Warned
from fxmorph.model import Status
campaign = types.ModuleType("fxmorph.campaign.case_run")
def run_campaign(settings, emit):
    {body}
campaign.run_campaign = run_campaign
sys.modules["fxmorph.campaign.case_run"] = campaign
sys.argv = ["fxmorph", "run", "seeds", *{options!r}]
from fxmorph.cli import main
main()
"""


@pytest.mark.parametrize(
    "body,code,words",
    [
        ("return 4", 4, ""),
        ("raise KeyboardInterrupt", 130, "fxmorph: interrupted; what was judged is stored, --resume goes on\n"),
        ("raise ZeroDivisionError('planted')", 3, "fxmorph: internal error: ZeroDivisionError: planted\n"),
        ("from fxmorph.core.store import DiskError; raise DiskError('full')", 3, "fxmorph: full\n"),
        ("from fxmorph.core.store import StoreError; raise StoreError('in use')", 2, "fxmorph: in use\n"),
        ("from fxmorph.rules import RuleError; raise RuleError('twice')", 2, "fxmorph: twice\n"),
        ("from fxmorph.core.seeds import SeedError; raise SeedError('none')", 2, "fxmorph: none\n"),
    ],
)
def test_what_the_engine_ends_in(body: str, code: int, words: str, folder: Path, preloaded: Preloaded) -> None:
    (folder / "engine.py").write_text(ENGINE.format(body=body, options=[]))
    done = preloaded.script(folder / "engine.py", cwd=folder)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(words)


def test_json_keeps_stdout_for_events(folder: Path, preloaded: Preloaded) -> None:
    body = "emit(Warned('slow')); emit(Checked('a.py', Status.CLEAN)); return 0"
    (folder / "engine.py").write_text(ENGINE.format(body=body, options=["--json", "-j3"]))
    done = preloaded.script(folder / "engine.py", cwd=folder)
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["warning", "checked"]
    assert done.stderr.splitlines() == ["warning: slow", "clean        a.py"]
