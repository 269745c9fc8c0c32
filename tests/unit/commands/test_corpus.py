"""``fxmorph corpus``: what is told and done with seeds of which it is known what they reach."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from fxmorph.cli import app
from fxmorph.core.features import Feature, FeatureKind, Reach
from fxmorph.core.installed_lists import FEATURES, REACHES, UNITS
from fxmorph.core.seeds import find_seeds, shipped_corpus
from fxmorph.core.units import Stage, Unit, UnitKind
from fxmorph.events import SCHEMA

TEXT = "def make_inputs(): return []\ndef fn(): return {number}\n"
#: What each seed reaches, which of them are the same graph, and their CPU seconds.
SEEDS = {
    "a": (("torch.a", "torch.b"), "g1", 1.0), "b": (("torch.b",), "g1", 0.1), "c": (("torch.c",), "g2", 1.0),
    "regression": (("torch.b",), "g2", 1.0),
}  # fmt: skip
Corpus = Callable[..., tuple[int, str, str]]


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    """Runs ``fxmorph corpus`` where ``seeds/`` and ``new/`` lie; returns exit code, what it printed, and its errors."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    reaches = []
    for number, (name, (apis, graphs, seconds)) in enumerate(SEEDS.items()):
        folder = tmp_path / ("new" if name == "c" else "seeds")
        folder.mkdir(exist_ok=True)
        expected = "EXPECTED = 'finding'\n" if name == "regression" else ""
        (folder / f"{name}.py").write_text(TEXT.format(number=number) + expected)
        (seed,), _ = find_seeds([str(folder / f"{name}.py")])
        reaches.append(Reach(seed.hash, apis, ("aten.add.Tensor",), ("joint.p",), graphs, seconds))
    REACHES.remember(reaches)
    FEATURES.remember([Feature(FeatureKind.API, f"torch.{name}") for name in "abcd"])
    UNITS.remember([Unit("joint.p", Stage.JOINT, UnitKind.PASS, "torch", True, "", "all", True)])

    def run(*arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, ["corpus", *arguments])
        return done.exit_code, done.stdout, done.stderr

    return run


def test_alone_it_prints_the_path_of_the_shipped_corpus(corpus: Corpus) -> None:
    assert corpus() == (0, f"{shipped_corpus()}\n", "")


def test_stats_say_how_much_of_what_torch_has_is_covered(corpus: Corpus) -> None:
    code, told, errors = corpus("stats", "seeds")
    assert (code, errors) == (0, "")
    assert told.splitlines() == [
        "3 seeds (3 module), 2 distinct graphs, 2.1 CPU seconds",
        "features    covered  of  share",
        "torch APIs  2        4   50.0%",
        "passes      1        1   100.0%",
    ]


def test_stats_as_json_fit_the_schema(corpus: Corpus) -> None:
    line = json.loads(corpus("stats", "seeds", "--json")[1])
    jsonschema.validate(line, SCHEMA)
    assert line["event"] == "corpus-measured" and line["graphs"] == 2
    assert line["coverage"]["api"] == {"covered": ["torch.a", "torch.b"], "missing": ["torch.c", "torch.d"]}


def test_dedupe_says_which_are_the_same_and_deletes_nothing(corpus: Corpus) -> None:
    assert corpus("dedupe", "seeds", "new") == (
        0,
        "same graph: seeds/a.py seeds/b.py\nsame graph: seeds/regression.py new/c.py\n2 of 4 seeds are spare\n",
        "",
    )
    assert Path("seeds/b.py").exists()


def test_dedupe_deletes_all_but_the_first_and_no_regression(corpus: Corpus) -> None:
    code, told, _ = corpus("dedupe", "new", "seeds", "--remove")
    assert code == 0 and "removed new/c.py\nremoved seeds/b.py\n2 of 4 seeds were spare\n" in told
    assert sorted(p.name for p in Path("seeds").iterdir()) == ["a.py", "regression.py"]
    assert not list(Path("new").iterdir())


def test_minimise_copies_the_smallest_set_and_every_regression(corpus: Corpus) -> None:
    code, told, _ = corpus("minimise", "seeds", "new", "--into", "small")
    assert code == 0
    assert [line.split(maxsplit=3) for line in told.splitlines()[1:-1]] == [
        ["small/regression.py", "1.00", "3", "kept: a regression; joint.p, torch.b, aten.add.Tensor"],
        ["small/a.py", "1.00", "1", "torch.a"],
        ["small/c.py", "1.00", "1", "torch.c"],
    ]
    assert told.endswith("\n3 of 4 seeds reach the same 5 features, in 3.0 of 3.1 CPU seconds\n")
    assert sorted(p.name for p in Path("small").iterdir()) == ["a.py", "c.py", "regression.py"]


def test_add_takes_what_adds_something_and_says_what(corpus: Corpus) -> None:
    assert corpus("add", "seeds/b.py", "seeds/a.py", "--to", "mine/deep") == (
        0,
        "seeds/b.py: adds 3: joint.p, torch.b, aten.add.Tensor\nseeds/a.py: adds 1: torch.a\n",
        "",
    )
    assert corpus("add", "seeds/a.py", "new", "--to", "mine/deep")[1] == (
        "seeds/a.py: adds nothing: it is there as mine/deep/a.py\nnew/c.py: adds 1: torch.c\n"
    )
    assert sorted(p.name for p in Path("mine/deep").iterdir()) == ["a.py", "b.py", "c.py"]


def test_what_adds_nothing_is_taken_if_asked_and_a_regression_always(corpus: Corpus) -> None:
    Path("mine/seeds").mkdir(parents=True)
    Path("mine/regressions").mkdir()
    corpus("add", "seeds/a.py", "--to", "mine")
    assert corpus("add", "seeds/b.py", "--to", "mine")[1] == (
        "seeds/b.py: adds nothing: the same graph as mine/seeds/a.py\n"
    )
    assert corpus("add", "seeds/b.py", "seeds/regression.py", "--keep-all", "--to", "mine")[1] == (
        "seeds/b.py: adds nothing: the same graph as mine/seeds/a.py; kept as mine/seeds/b.py\n"
        "seeds/regression.py: adds nothing; kept as mine/regressions/regression.py\n"
    )


def test_another_file_of_the_same_name_keeps_it(corpus: Corpus) -> None:
    Path("seeds/a.py").rename("new/b.py")
    corpus("add", "new/b.py", "seeds/b.py", "--keep-all", "--to", "mine")
    names = sorted(p.name for p in Path("mine").iterdir())
    assert len(names) == 2 and names[0] == "b.py" and names[1].startswith("b_")


def test_add_takes_good_seeds_where_others_are_bad(corpus: Corpus) -> None:
    Path("bad.py").write_text("def")
    code, told, errors = corpus("add", "bad.py", "missing.py", "new/c.py", "op:roll", "--to", "mine")
    assert code == 2 and Path("mine/c.py").exists() and told.startswith("new/c.py: adds 3")
    assert [line.split(": ")[1] for line in errors.splitlines()] == ["bad.py", "missing.py", "op:roll:float32[alone 0]"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("stats", "nowhere"), 2, "nowhere: no such file or folder"),
        (("stats", "note.txt"), 2, "note.txt: not a .py or .pt2 file"),
        (("stats", "empty"), 5, "no seeds there"),
        (("dedupe", "empty"), 5, "no seeds there"),
        (("minimise", "seeds", "--into", "seeds"), 2, "--into seeds: the folder is not empty"),
        (("minimise", "seeds", "--into", "note.txt"), 2, "--into note.txt: not a folder"),
        (("minimise", "seeds", "--into", "note.txt/x"), 2, "cannot be copied there"),
        (("add", "seeds", "--to", "note.txt"), 2, "--to note.txt: not a folder"),
    ],
)
def test_bad_input_is_one_line(corpus: Corpus, arguments: tuple[str, ...], code: int, said: str) -> None:
    Path("empty").mkdir()
    Path("note.txt").write_text("")
    found, _, errors = corpus(*arguments)
    assert found == code and said in errors and len(errors.splitlines()) == 1


def test_no_room_on_the_disk_is_one_line(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, errors = corpus("minimise", "seeds", "--into", "small")
    assert code == 3 and errors == "fxmorph: small: No space left on device; free space on that disk\n"
    assert not list(Path("small").iterdir())
