"""``fxmorph passes`` from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
from preloaded import Command

from fxmorph.events import SCHEMA

ROOT = Path(__file__).parents[2]


def test_a_remembered_list_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from fxmorph.core.installed_lists import UNITS;"
        "from fxmorph.core.units import Stage, Unit, UnitKind;"
        "UNITS.remember([Unit('joint.one', Stage.JOINT, UnitKind.PASS, 'm', True, '', 'all', True)]);"
        "sys.argv[1:] = ['passes']; from fxmorph.cli import app; app(standalone_mode=False);"
        "assert 'torch' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["joint.one", "joint", "pass", "all", "default"]


def test_one_stage_and_kind_as_a_table(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("passes", "--stage", "joint", "--kind", "pass", cwd=tmp_path)
    *rows, summary = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert {row.split()[0] for row in rows} >= {"joint.remove_noop_ops", "joint.pass_patterns[0]"}
    assert all(row.split()[1:3] == ["joint", "pass"] for row in rows)
    assert f"{len(rows)} units; joint: {len(rows)} passes" in summary


def test_all_as_event_lines(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("passes", "--json", cwd=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for line in lines[:: len(lines) // 50]:
        validator.validate(line)
    assert {line["event"] for line in lines} == {"unit"}
    assert {line["stage"] for line in lines} == {
        "pre_grad", "decomposition", "joint", "partitioner", "freezing", "post_grad", "lowering",
    }  # fmt: skip
    flags = {line["name"]: line["flag"] for line in lines}
    assert flags["pre_grad.split_cat_pass"] == "pre_grad_fusion_options={'split_cat_pass': {}}"
    assert flags["post_grad.reinplace_inplaceable_ops"] == ""


def test_show_says_where_and_how_to_do_without(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("passes", "show", "joint.constant_fold_uniform_value", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "joint_graph.py:" in done.stdout
    assert "torch._inductor.config.joint_graph_constant_folding = False" in done.stdout


def test_show_of_an_unknown_name_suggests(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("passes", "show", "joint.remove_nop_ops", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = [row for row in done.stderr.splitlines() if row.startswith("fxmorph:")]
    assert "did you mean joint.remove_noop_ops" in line
