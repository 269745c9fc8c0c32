"""Settings: precedence, parsing, and errors that name the place and the nearest key."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fxmorph.core.config import ConfigError, Settings, duration, load_settings, pairs
from fxmorph.core.records import from_json, to_json


def load(cwd: Path, env: dict[str, str] | None = None, **command_line: Any) -> Settings:
    return load_settings(command_line, cwd, env or {})


def test_defaults(tmp_path: Path) -> None:
    assert load(tmp_path) == Settings()
    assert Settings().max_time == 900 and Settings().devices == ("cpu",)
    assert 1 <= Settings().effective_jobs <= 8
    assert Settings(jobs=30).effective_jobs == 30


def test_command_line_over_environment_over_file(tmp_path: Path) -> None:
    (tmp_path / "fxmorph.toml").write_text('seed = 1\njobs = 1\nmax-time = "2h"\n')
    env = {"FXMORPH_SEED": "2", "FXMORPH_JOBS": "2", "OTHER": "x"}
    made = load(tmp_path, env, seed="3", jobs=None)
    assert (made.seed, made.jobs, made.max_time) == (3, 2, 7200.0)


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.fxmorph]\nseed = 4\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.other]\n")  # says nothing of fxmorph
    assert load(inner).seed == 4
    (inner / "fxmorph.toml").write_text("seed = 5\n")
    assert load(inner).seed == 5
    assert load(inner.parent).seed == 4


def test_paths_in_a_file_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "fxmorph.toml").write_text('paths = ["corpus"]\ntransforms = "rules"\nstate = "/abs"\nbaseline="b"\n')
    made = load(tmp_path / "sub")
    assert made.paths == (str(tmp_path / "corpus"),)
    assert made.transforms == (str(tmp_path / "rules"),)
    assert (made.state, made.baseline) == ("/abs", str(tmp_path / "b"))


def test_tables_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "fxmorph.toml").write_text(
        'fail-on = "known"\nrewrites = false\n[compile]\ndynamic = true\n[inductor]\n"cpp.simdlen" = 256\n'
    )
    made = load(tmp_path)
    assert made.fail_on_known and not made.rewrites
    assert made.compile == (("dynamic", True),) and made.inductor == (("cpp.simdlen", 256),)


@pytest.mark.parametrize(
    "text,words",
    [
        ("max_tmie = 3", "unknown key 'max-tmie'; the nearest valid key is 'max-time'"),
        ("seed = 1.5", "seed: want a whole number, got 1.5"),
        ("seed = true", "want a whole number"),
        ("rewrites = 1", "rewrites: want true or false, got 1"),
        ("max-cases = 0", "max-cases: want at least 1"),
        ('max-time = "soon"', "not a duration: 'soon'"),
        ("max-time = true", "not a duration"),
        ('level = "ir"', "level: want torch or aten, got 'ir'"),
        ("backend = 3", "backend: want text, got 3"),
        ("paths = 3", "paths: want a list of texts"),
        ("compile = [1]", "compile: want name=value, got 1"),
        ("seed = ", "fxmorph.toml: "),
    ],
)
def test_errors_name_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "fxmorph.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert words in str(caught.value) and str(tmp_path / "fxmorph.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_of_the_other_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"environment: unknown key 'FXMORPH_SED'.*'FXMORPH_SEED'"):
        load(tmp_path, {"FXMORPH_SED": "1"})
    with pytest.raises(ConfigError, match="FXMORPH_JOBS: want a whole number, got 'x'"):
        load(tmp_path, {"FXMORPH_JOBS": "x"})
    with pytest.raises(ConfigError, match="--device: want cpu or cuda or both with a comma, got 'tpu'"):
        load(tmp_path, device="cpu,tpu")
    with pytest.raises(ConfigError, match="--fail-on: want new or known, got 'all'"):
        load(tmp_path, fail_on="all")


def test_a_table_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nfxmorph = 3\n")
    with pytest.raises(ConfigError, match=r"tool\.fxmorph is not a table"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text,seconds",
    [("900", 900), ("90s", 90), ("15m", 900), ("2h", 7200), ("1h30m", 5400), ("0.5m", 30), (12, 12), (1.5, 1.5)],
)
def test_durations(text: Any, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "0", "-5", "5x", "1h30", "inf", "nan", 0, -1, True, None])
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError, match="duration"):
        duration(text)


def test_pairs() -> None:
    assert pairs("mode=max-autotune,dynamic=True") == (("dynamic", True), ("mode", "max-autotune"))
    assert pairs(["a=1", "b=[1, 2],c={'x': 1}", "a=2.5"]) == (("a", 2.5), ("b", [1, 2]), ("c", {"x": 1}))
    assert pairs("name=") == (("name", ""),)
    for bad in ("dynamic", "=3"):
        with pytest.raises(ValueError, match="want name=value"):
            pairs(bad)


def test_devices(tmp_path: Path) -> None:
    assert load(tmp_path, device="cpu, cuda,cpu").devices == ("cpu", "cuda")


def test_settings_through_json(tmp_path: Path) -> None:
    made = load(tmp_path, compile=["dynamic=True,options={'a': (1, 2)}"], inductor=["f=freezing"], paths=["a", "b"])
    assert from_json(Settings, json.loads(json.dumps(to_json(made)))) == made


def test_config_store_and_events_import_no_torch() -> None:
    code = "import sys, fxmorph.core.config, fxmorph.core.store, fxmorph.events, fxmorph.cli, fxmorph.report.terminal\n"
    code += "import fxmorph.triage.folder.repro, fxmorph.triage.folder.issue, fxmorph.report.jsonlines\n"
    code += "sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3]).returncode == 0
