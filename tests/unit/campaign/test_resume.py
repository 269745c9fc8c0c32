"""What a resumed run keeps, what it may be told anew, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fxmorph.campaign.resume import resumed_settings, unfinished
from fxmorph.core.config import ANEW, ConfigError, Settings, load_settings
from fxmorph.core.shard import Shard
from fxmorph.core.store import Store

BEFORE = Settings(paths=("corpus",), seed=5, jobs=2, max_cases=9, dtype="bfloat16", compile=(("dynamic", True),))


def now(folder: Path, **given: Any) -> Settings:
    return load_settings({"resume": True, **given}, folder, {})


def test_what_is_not_given_is_as_it_was(tmp_path: Path) -> None:
    made = resumed_settings(BEFORE, now(tmp_path))
    assert made == Settings(
        paths=("corpus",), seed=5, jobs=2, max_cases=9, dtype="bfloat16", compile=(("dynamic", True),), resume=True
    )


def test_reports_and_limits_are_told_anew(tmp_path: Path) -> None:
    given = {"jobs": "1", "max_time": "3h", "max_cases": "20", "baseline": "b", "fail_on": "known", "report": "github"}
    made = resumed_settings(BEFORE, now(tmp_path, **given, json=True, quiet=True, verbose=1, state="s"))
    assert (made.jobs, made.max_time, made.max_cases, made.baseline) == (1, 10800.0, 20, "b")
    assert (made.fail_on_known, made.report, made.json, made.quiet, made.verbose) == (True, ("github",), True, True, 1)
    assert (made.state, made.seed, made.dtype) == ("s", 5, "bfloat16")


def test_what_is_given_again_alike_is_no_trouble(tmp_path: Path) -> None:
    again = {"paths": ["corpus/"], "seed": "5", "dtype": "bfloat16", "compile": ["dynamic=True"], "device": "cpu"}
    assert resumed_settings(BEFORE, now(tmp_path, **again)).paths == ("corpus",)


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("paths", ["other"], "paths: 'other' is not what the run to be resumed had, 'corpus'"),
        ("seed", "0", "--seed: 0 is not what the run to be resumed had, 5"),  # the default, given
        ("dtype", "float16", "--dtype: 'float16' is"),
        ("backend", "aot_eager", "--backend: 'aot_eager' is"),
        ("compile", ["dynamic=False"], "--compile: 'dynamic=False' is not what the run to be resumed had"),
        ("rewrites", False, "--no-rewrites"),
        ("device", "cuda", "--device"),
        ("level", "aten", "--level"),
        ("shard", "1/2", "--shard: '1/2' is not what the run to be resumed had, None"),
        ("edge_cases", True, "--edge-cases"),
        ("case_timeout", "3s", "--case-timeout"),
    ],
)
def test_what_shapes_cases_cannot_be_changed(tmp_path: Path, name: str, raw: Any, words: str) -> None:
    with pytest.raises(ConfigError) as error:
        resumed_settings(BEFORE, now(tmp_path, **{name: raw}))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_shard_goes_on_as_one(tmp_path: Path) -> None:
    before = replace(BEFORE, shard=Shard(2, 3))
    assert resumed_settings(before, now(tmp_path)).shard == resumed_settings(before, now(tmp_path, shard="2/3")).shard
    with pytest.raises(ConfigError, match="--shard: '1/3' is not what the run to be resumed had, '2/3'"):
        resumed_settings(before, now(tmp_path, shard="1/3"))
    with Store(tmp_path / "state") as store:
        store.create_run(before, {})
        assert unfinished(store, now(tmp_path))[1].shard == Shard(2, 3)


def test_a_file_gives_too(tmp_path: Path) -> None:
    (tmp_path / "fxmorph.toml").write_text("seed = 6\n")
    with pytest.raises(ConfigError, match="--seed: 6 is"):
        resumed_settings(BEFORE, now(tmp_path))


def test_devices_after_the_one_that_was_cut_off_follow(tmp_path: Path) -> None:
    assert resumed_settings(BEFORE, now(tmp_path, device="cpu,cuda")).devices == ("cpu", "cuda")
    assert resumed_settings(Settings(device="cuda"), now(tmp_path, device="cpu,cuda")).devices == ("cuda",)


def test_every_field_is_one_or_the_other() -> None:
    assert set(ANEW) <= set(Settings.__dataclass_fields__)


def test_a_run_of_passes_and_a_finished_one_are_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="of --pass"):
        resumed_settings(Settings(passes=("x",)), now(tmp_path))
    with Store(tmp_path / "state") as store:
        run = store.create_run(BEFORE, {})
        assert unfinished(store, now(tmp_path))[0] == run
        store.finish_run(run, {})
        with pytest.raises(ConfigError, match="nothing to resume"):
            unfinished(store, now(tmp_path))
