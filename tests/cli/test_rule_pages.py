"""``fxmorph rules`` and ``fxmorph rules show`` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from preloaded import Command

from fxmorph.events import SCHEMA

MINE = """
from fxmorph.model import Level
from fxmorph.rules import rule

@rule(args={"x": "m n"}, where=["n % k == 0"], scalars={"k": (2, 3)}, claim=Level.EXACT_REAL, targets=("mm",))
class mine_halves:
    '''Adds two halves.

    Halving is exact.
    '''
    def before(x, k): return x * k
    def after(x, k): return x * k / 2 + x * k / 2
"""
CERTIFICATE = {
    "key": "ab" + "0" * 30, "claim": "mine_halves(x: float32[2, 2] strides [2, 1], k = 2)",
    "proof": {"level": "BIT_EXACT", "scope": "one shape", "method": "Z3-FP", "assumptions": []},
}  # fmt: skip


def stored(folder: Path) -> Path:
    """A rule of a user with a certificate in the state folder, and one of another rule."""
    (folder / "mine").mkdir()
    (folder / "mine" / "mine.py").write_text(MINE)
    for key, claim in ((CERTIFICATE["key"], CERTIFICATE["claim"]), ("cd" + "0" * 30, "mine_halves_too(x: float32[1])")):
        file = folder / "st" / "proofs" / str(key)[:2] / f"{key}.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({**CERTIFICATE, "key": key, "claim": claim}, indent=1))
    return folder


def test_the_list_ends_with_its_number(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("rules", cwd=tmp_path)
    *rows, last = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert last == f"{len(rows) - 1} rules" and len(rows) > 500


def test_a_row_of_a_table_is_shown_with_its_own_text(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("rules", "show", "mutate_keep_add_zero", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("mutate_keep_add_zero  (") and lines[0].endswith("mutate_keep.py)")
    assert lines[1] == "Copies x by adding 0, overwrites the source, uses the copy."
    heads = [line.partition(": ")[0] for line in lines[3:6]]
    assert heads == ["Why equivalent", "Provokes", "Limits"]
    assert "    def before(x): return x\n" in done.stdout
    assert "        kept = source + 0\n        source.fill_(1)\n        return kept\n" in done.stdout
    assert "preserves   dtype, gradient, mutation\n" in done.stdout
    assert "targets     bam: aliasing and mutation" in done.stdout
    assert "shown       float32   BIT_EXACT_MOD_ZERO_SIGN  Z3-FP: 10 shapes" in done.stdout
    assert lines[-1] == "stored      no certificates"
    assert not (tmp_path / ".fxmorph").exists()


def test_a_rule_of_a_user_is_shown_with_its_certificates(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("rules", "show", "mine_halves", "--transforms", "mine", "--state", "st", cwd=stored(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "Adds two halves.\n\nWhy equivalent: Halving is exact.\n" in done.stdout
    assert "scalars     k: 2, 3\nconditions  n % k == 0\n" in done.stdout
    assert "preserves   the returned value alone\ntargets     mm\nshown       not proved\n" in done.stdout
    assert done.stdout.endswith(f"stored      {CERTIFICATE['key']}  BIT_EXACT  Z3-FP  {CERTIFICATE['claim']}\n")


def test_the_same_as_an_event_line(tmp_path: Path, fxmorph: Command) -> None:
    where = ("--transforms", "mine", "--state", "st")
    done = fxmorph("rules", "show", "mine_halves", *where, "--json", cwd=stored(tmp_path))
    (line,) = map(json.loads, done.stdout.splitlines())
    jsonschema.Draft202012Validator(SCHEMA).validate(line)
    assert (line["event"], line["id"], line["before"]) == (
        "rule-shown", "mine_halves", "def before(x, k): return x * k",
    )  # fmt: skip
    assert [c["key"] for c in line["certificates"]] == [CERTIFICATE["key"]]


def test_an_unknown_rule_is_one_line_with_near_ones(tmp_path: Path, fxmorph: Command) -> None:
    done = fxmorph("rules", "show", "mine_halve", "--transforms", "mine", cwd=stored(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fxmorph: no rule 'mine_halve'; did you mean 'mine_halves'?\n"
