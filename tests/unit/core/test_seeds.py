"""Which files are seeds; nothing is executed to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxmorph.core.seeds import SeedError, find_seeds

GOOD = 'ORIGIN = "by hand"\ndef make_inputs(): return []\ndef fn(): return 1\n'
MAKES = "def make_inputs(): return []\ndef make_fn(): return lambda: 1\n"
RUNNABLE = "class Repro: pass\ndef load_args(reader): pass\nmod = Repro()\n"


def names(paths: list[Path], **more: bool) -> list[str]:
    return [Path(s.path).name for s in find_seeds([str(p) for p in paths], **more)[0]]


def test_forms_are_told_apart_by_what_they_define(tmp_path: Path) -> None:
    for name, text in (("a", GOOD), ("b", MAKES), ("c", RUNNABLE), ("helper", "x = 1\n"), ("_hidden", GOOD + "\n")):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "d.pt2").write_bytes(b"exported")
    seeds, refused = find_seeds([str(tmp_path)])
    assert [(Path(s.path).name, s.form) for s in seeds] == [
        ("a.py", "module"), ("b.py", "module"), ("c.py", "runnable"), ("d.pt2", "pt2"),
    ]  # fmt: skip
    assert seeds[0].origin == "by hand"
    assert refused == []


def test_nothing_is_executed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD + f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    assert names([tmp_path]) == ["a.py"]
    assert not (tmp_path / "mark").exists()


def test_what_does_not_parse_is_refused_and_the_rest_stays(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def fn(:\n")
    (tmp_path / "b.py").write_text(GOOD)
    (tmp_path / "c.py").write_bytes(b"\0\xff")
    seeds, refused = find_seeds([str(tmp_path)])
    assert [Path(s.path).name for s in seeds] == ["b.py"]
    assert [Path(r.path).name for r in refused] == ["a.py", "c.py"]
    assert "line 1" in refused[0].reason


def test_a_file_that_is_named_and_no_seed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    (tmp_path / "a.txt").write_text("x")
    for name, word in (("a.py", "make_inputs"), ("a.txt", ".pt2")):
        seeds, (refused,) = find_seeds([str(tmp_path / name)])
        assert seeds == [] and word in refused.reason


def test_of_a_corpus_regressions_are_taken_when_asked(tmp_path: Path) -> None:
    for folder in ("seeds", "regressions", "proposals"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.py").write_text(GOOD + f"# {folder}\n")
    assert names([tmp_path]) == ["seeds.py"]
    assert names([tmp_path], regressions=True) == ["seeds.py", "regressions.py"]


def test_a_class_is_two_seeds(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("class Net: pass\n")
    seeds, _ = find_seeds([f"{tmp_path}/net.py:Net"])
    assert [(s.form, s.name, s.mode) for s in seeds] == [("class", "Net", "eval"), ("class", "Net", "train")]
    assert seeds[0].hash != seeds[1].hash


@pytest.mark.parametrize(
    ("path", "word"),
    [("none", "no such"), ("none.py:A", "no such"), ("net.py:Other", "no 'Other'"), ("bad.py:A", "parse")],
)
def test_a_path_that_names_nothing_is_an_error(tmp_path: Path, path: str, word: str) -> None:
    (tmp_path / "net.py").write_text("class Net: pass\n")
    (tmp_path / "bad.py").write_text("class (:\n")
    with pytest.raises(SeedError, match=word):
        find_seeds([f"{tmp_path}/{path}"])


def test_equal_files_are_one_seed_and_an_edit_makes_another(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(GOOD)
    (tmp_path / "b.py").write_text(GOOD)
    assert names([tmp_path, tmp_path]) == ["a.py"]
    before = find_seeds([str(tmp_path / "b.py")])[0][0].hash
    (tmp_path / "b.py").write_text(GOOD + "\n")
    assert find_seeds([str(tmp_path / "b.py")])[0][0].hash != before


def test_order_does_not_depend_on_the_file_system(tmp_path: Path) -> None:
    for name in ("b", "c", "a"):
        (tmp_path / f"{name}.py").write_text(GOOD + f"# {name}\n")
    assert names([tmp_path]) == ["a.py", "b.py", "c.py"]
