"""``fxmorph check-pass``: subtly wrong passes of a user's own are refuted on the shipped corpus, right ones pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeAlias

import own_passes
import pytest
from preloaded import Command, Preloaded

from fxmorph.inductor.own.own_pass import PassError, load_pass
from fxmorph.testing import check_pass

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
PASSES, SEEDS = HERE / "own_passes.py", ROOT / "corpus" / "seeds"
#: Graphs that may be looked at before a wrong pass is refuted: hundreds that are made are within seconds.
MOST_GRAPHS = 300
#: Where the passes fire.
SOME = [SEEDS / f"{name}.py" for name in ("layout_axis_cycle", "cast_scaled_counts", "layout_window_partition")]
#: Of graphs that are made, where what is looked at are those of seeds.
BRIEF = 100


Checked: TypeAlias = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def run(fxmorph: Command) -> Checked:
    def run(name: str, *arguments: object, cwd: Path) -> tuple[int, list[dict[str, Any]], str]:
        """(exit code, event lines, text for people)."""
        done = fxmorph("check-pass", f"{PASSES}:{name}", *map(str, arguments), "--json", cwd=cwd)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    return run


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch, torch_quiet: None) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("drop_noops", {"dtype", "alias", "identity"}),
        ("fold_permutes", {"value", "shape"}),
        pytest.param("matcher", {"value", "raises", "shape"}, marks=pytest.mark.slow),
    ],
)
def test_a_wrong_pass_is_refuted_on_the_shipped_corpus(
    name: str, kinds: set[str], tmp_path: Path, run: Checked, preloaded: Preloaded
) -> None:
    code, events, text = run(name, cwd=tmp_path)
    assert code == 1, text
    found, end = events[-2], events[-1]
    assert found["verdict"] == "finding" and set(found["kinds"]) & kinds
    assert end["event"] == "pass-checked" and end["graphs"] <= MOST_GRAPHS
    assert found["changes"] and found["inputs"] and "before" in found["reason"]
    assert "WRONG" in text and f"fired on {end['fired']} of {end['graphs']}" in text
    shown = preloaded.script(tmp_path / found["reproduce"])
    assert shown.returncode == 1 and "before" in shown.stdout, shown.stderr


@pytest.mark.parametrize("name", ["drop_noops_guarded", "fold_permutes_right", "HalvesAsProducts", "halves"])
def test_a_right_pass_passes(name: str) -> None:
    assert check_pass(getattr(own_passes, name), SOME, graphs=BRIEF) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drop_noops_guarded", "fold_permutes_right", "HalvesAsProducts"])
def test_a_right_pass_passes_on_the_whole_corpus(name: str, tmp_path: Path, run: Checked) -> None:
    code, events, text = run(name, "--all", "--max-time", "10m", cwd=tmp_path)
    assert code == 0, text
    # Nine pairs of halves: of two, whose graphs take the argmax of logits, no more is shown than that eager agrees.
    assert events[-1]["outcomes"]["proved"] >= 0.75 * events[-1]["fired"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("drop_noops", r"^  [a-z, ]*\b(alias|dtype|identity)\b[a-z, ]*: "),
        ("fold_permutes", r"^  [a-z, ]*\b(value|shape)\b[a-z, ]*: "),
        ("leaves_a_dangling_node", "does not lint"),
    ],
)
def test_the_assertion_holds_the_counterexample(name: str, words: str) -> None:
    with pytest.raises(AssertionError, match="WRONG") as error:
        check_pass(getattr(own_passes, name), SOME, graphs=BRIEF)
    assert re.search(words, str(error.value), re.MULTILINE)


@pytest.mark.parametrize("name", ["raises", "raises_a_type_error"])
def test_what_raises_on_a_graph_of_one_call_cannot_run_here_and_is_not_accused(name: str) -> None:
    with pytest.raises(ValueError, match=r"cannot run here: .* it raises .*own_passes.py:\d+: (KeyError|TypeError)"):
        check_pass(getattr(own_passes, name), SOME)


def test_a_pass_that_never_fires_was_not_checked() -> None:
    with pytest.raises(AssertionError, match=r"fired on 0 of [1-9].* the pass names no operators"):
        check_pass(own_passes.never_fires, SOME[0], graphs=BRIEF)
    assert check_pass(own_passes.never_fires, SOME[0], fires=False, graphs=BRIEF) == 0


def test_notes_that_are_wrong_before_the_last_stage() -> None:
    with pytest.raises(AssertionError, match="dtype"):
        check_pass(own_passes.forgets_the_dtype, SEEDS / "cast_uint8_image_normalise.py", stage="joint")


def test_graphs_of_dynamo_can_be_checked() -> None:
    assert check_pass(lambda graph: graph.eliminate_dead_code() and None, SOME[0], stage="pre_grad", graphs=BRIEF) > 0


def test_a_crash_is_the_passes_own_and_does_not_end_the_command(tmp_path: Path, run: Checked) -> None:
    code, events, text = run("crashes_on_permutations", SOME[0], SOME[1], "--all", cwd=tmp_path)
    found = [e for e in events if e.get("verdict") == "finding"]
    assert code == 1 and len({e["seed"] for e in found}) >= 2, text
    assert all(e["kinds"] == ["crash"] and "SIGSEGV" in e["reason"] for e in found)


def test_nothing_fired_is_an_exit_code_of_its_own(tmp_path: Path, run: Checked) -> None:
    code, events, text = run("never_fires", SOME[0], cwd=tmp_path)
    assert code == 5 and events[-1]["fired"] == 0
    assert "fired on 0 of " in text and "tried " in text


@pytest.mark.parametrize("name", ["with_settings", "timed_with_settings"])
def test_what_cannot_be_called_with_a_graph_is_no_wrong_pass(name: str, tmp_path: Path, run: Checked) -> None:
    code, events, text = run(name, SOME[0], cwd=tmp_path)
    assert (code, [e for e in events if e["event"] == "pair"]) == (2, [])
    assert f"{name} cannot be called as {name}(graph)" in text and text.count("\n") == 1
    with pytest.raises(ValueError, match="its parameters are \\(graph, settings\\)"):
        check_pass(getattr(own_passes, name), SOME[0])


def test_what_fails_while_it_is_imported_is_one_line(tmp_path: Path, fxmorph: Command) -> None:
    (tmp_path / "own.py").write_text("import torch\nfrom own_helper import fold\n")
    (tmp_path / "own_helper.py").write_text("import torch\n\nfold = torch.no_such_function\n")
    done = fxmorph("check-pass", "own.py:fold", str(SOME[0]), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "own_helper.py:3: AttributeError: " in done.stderr and done.stderr.count("\n") == 1


def test_what_does_not_load_is_one_line(tmp_path: Path, run: Checked) -> None:
    code, events, text = run("no_such_pass", SOME[0], cwd=tmp_path)
    assert code == 2 and not events
    assert "has no 'no_such_pass'" in text and text.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (f"{PASSES}:aten", "want a callable, a PatternMatcherPass or CustomGraphPass"),
        (f"{PASSES}:NEUTRAL", "is a dict"),
        ("nowhere.py:x", "nowhere.py: no such file"),
        ("fxmorph.nowhere:x", "does not load: ModuleNotFoundError"),
        ("nowhere", "no such plug-in"),
    ],
)
def test_what_is_no_pass_says_so(name: str, words: str) -> None:
    with pytest.raises(PassError, match=re.escape(words)):
        load_pass(name)


def test_plug_ins_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("halving", "own_passes:halves", "fxmorph.passes")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == "fxmorph.passes" else [])
    assert load_pass("halving").name == "halving"
    twice = [point, EntryPoint("halving", "own_passes:drop_noops", "fxmorph.passes")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: twice)
    with pytest.raises(PassError, match="defined twice: own_passes:halves and own_passes:drop_noops"):
        load_pass("halving")
