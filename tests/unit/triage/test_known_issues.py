"""A finding is known where the mend of an issue makes its repro agree, and only there."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_programs import NEAR, SAME, Program
from preloaded import Preloaded

from fxmorph.core.exits import ReproExit
from fxmorph.core.finding_parts import Match
from fxmorph.model import Finding, Kind
from fxmorph.torchapi.mends.mend import Mend, Used, text_digest
from fxmorph.torchapi.mends.mend_catalogue import MENDS
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.known import exact_match as module
from fxmorph.triage.known.exact_match import exact_match
from fxmorph.triage.known.known_issues import Known, KnownIssue, before, load_known

BY_MEND = {issue.mend: issue for issue in load_known().issues}
CUMSUM = SAME["cumsum-fill"][0].finding


# -- the table -----------------------------------------------------------------------


def test_each_entry_has_a_mend_and_each_mend_an_entry() -> None:
    assert sorted(issue.mend for issue in load_known().issues) == sorted(MENDS)
    for issue in load_known().issues:
        assert issue.id.startswith("pytorch/pytorch#") and issue.id.rpartition("#")[2].isdigit()
        assert issue.title and set(issue.kinds) <= {str(k) for k in Kind}


def test_each_entry_has_a_program_that_is_it_and_two_that_are_not() -> None:
    assert set(SAME) == set(NEAR) == set(MENDS)
    assert all(len(programs) >= 2 for programs in NEAR.values())


@pytest.mark.parametrize("mend", sorted(MENDS))
def test_an_entry_lets_its_programs_and_near_misses_through_to_its_mend(mend: str) -> None:
    issue = BY_MEND[mend]
    assert all(issue.worth_a_run(program.finding, "2.13.0") for program in SAME[mend])
    assert any(issue.worth_a_run(program.finding, "2.13.0") for program in NEAR[mend])


ISSUE = KnownIssue("pytorch/pytorch#1", "t", "cumsum-fill", ("value",), ("aten.add.Tensor",), "inductor", "2.6", "2.14")
FINDING = replace(CUMSUM, kinds=(Kind.VALUE,), reduced=replace(CUMSUM.reduced, operations=("add_", "sin")))


def test_what_is_worth_a_run_shares_kind_operator_stage_and_release() -> None:
    assert ISSUE.worth_a_run(FINDING, "2.13.0+cpu") and ISSUE.worth_a_run(FINDING, "2.15.0")
    assert not ISSUE.worth_a_run(FINDING, "2.5.1")
    for other in ({"kinds": ("alias",)}, {"operations": ("mul",)}, {"stage": "aot"}):
        assert not replace(ISSUE, **other).worth_a_run(FINDING, "2.13.0")
    assert before("2.9.1", "2.13") and not before("2.13.0", "2.13") and not before("2.1", "")


# -- matching ------------------------------------------------------------------------


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, str]]:
    """What ``run_repro`` answers, by mend; "" is without one."""
    given: dict[str, tuple[int, str]] = {}
    monkeypatch.setattr(module, "run_repro", lambda folder, cache, mend="", scripts=None: given[mend])
    return given


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "repro.py").write_text("")
    return tmp_path


def matched(folder: Path, torch_version: str = "2.13.0", shown: bool = True) -> Match:
    return exact_match(FINDING, folder, folder, shown, Known((ISSUE,)), torch_version)


def test_gone_with_the_mend_is_known_and_says_by_which_condition(
    folder: Path, answers: dict[str, tuple[int, str]]
) -> None:
    answers["cumsum-fill"] = ReproExit.GONE, ""
    assert matched(folder) == Match(
        "pytorch/pytorch#1", f"gone with a local patch for #1: {MENDS['cumsum-fill'].does}", "", ()
    )


@pytest.mark.parametrize("code", [ReproExit.STILL_THERE, ReproExit.BREAKS, ReproExit.NOT_BY_THE_MEND, -1])
def test_anything_else_is_not_known(folder: Path, answers: dict[str, tuple[int, str]], code: int) -> None:
    answers["cumsum-fill"] = code, "said"
    assert matched(folder) == Match()


def test_a_mend_that_does_not_fit_is_told_and_shows_nothing(folder: Path, answers: dict[str, tuple[int, str]]) -> None:
    answers["cumsum-fill"] = ReproExit.NO_MEND, "torch 2.14.0 has another m:f"
    assert matched(folder) == Match(
        untried=("the mend of pytorch/pytorch#1 was not tried: torch 2.14.0 has another m:f",)
    )


def test_on_a_release_that_has_the_fix_it_is_back(folder: Path, answers: dict[str, tuple[int, str]]) -> None:
    answers["cumsum-fill"] = ReproExit.GONE, ""
    assert matched(folder, "2.14.0").fixed == "2.14" and matched(folder, "2.13.1").fixed == ""


def test_without_a_repro_or_where_it_shows_nothing_it_is_not_known(
    tmp_path: Path, answers: dict[str, tuple[int, str]]
) -> None:
    answers["cumsum-fill"] = ReproExit.GONE, ""
    assert matched(tmp_path) == Match()
    (tmp_path / "repro.py").write_text("")
    answers[""] = ReproExit.GONE, ""
    assert matched(tmp_path, shown=False) == Match()
    answers[""] = ReproExit.STILL_THERE, ""
    assert matched(tmp_path, shown=False).issue == ISSUE.id


# -- mends ---------------------------------------------------------------------------


def test_a_mend_says_where_the_text_of_a_function_is_another() -> None:
    place = "torch._inductor.fx_passes.post_grad:remove_noop_ops"
    fits = Mend("m", "does", {place: (text_digest(place),)}, lambda used: contextlib.nullcontext())
    assert fits.misfit() == ""
    assert place in replace(fits, written_for={place: ("0123456789ab",)}).misfit()
    assert "no torch._inductor:gone" in replace(fits, written_for={"torch._inductor:gone": ("0",)}).misfit()


needs_2_13 = pytest.mark.skipif(
    any(mend.misfit() for mend in MENDS.values()), reason="mends were made for other releases of torch"
)


@contextlib.contextmanager
def _fault(program: Program) -> Iterator[None]:
    from fxmorph.torchapi.planting import planted_lowering

    with planted_lowering(*program.planted) if program.planted else contextlib.nullcontext():
        yield


def shows(program: Program, folder: Path, mend: str = "") -> tuple[int, int]:
    """(exit code of its repro in this process, how often the mend was used)."""
    import torch._functorch.config
    import torch._inductor.config

    from fxmorph.torchapi.compiling import reset

    script, used, hook = folder / "repro.py", Used(), sys.excepthook
    script.write_text(repro_text(program.finding))
    reset()
    off = {"fx_graph_cache": False, "compile_threads": 1}
    try:
        with (
            torch._inductor.config.patch(off),
            torch._functorch.config.patch(enable_autograd_cache=False),
            _fault(program),
            MENDS[mend].apply(used) if mend else contextlib.nullcontext(),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as left:
        return int(left.code or 0), used.times
    finally:
        sys.excepthook = hook
        reset()
    return 0, used.times


def _all(table: dict[str, tuple[Program, ...]], quick: int | None = None) -> list[Any]:
    """Each mend with its programs; those behind the first ``quick`` ones, if told, are slow tests."""
    return [
        pytest.param(m, p, id=f"{m}: {p.name}", marks=() if quick is None or i < quick else pytest.mark.slow)
        for m, programs in table.items()
        for i, p in enumerate(programs)
    ]


@needs_2_13
@pytest.mark.parametrize(("mend", "program"), _all(SAME, quick=1))
def test_with_its_mend_a_program_is_right(mend: str, program: Program, tmp_path: Path, torch_quiet: None) -> None:
    code, used = shows(program, tmp_path, mend)
    assert (code, used > 0) == (0, True)


@needs_2_13
@pytest.mark.parametrize(("mend", "program"), _all(NEAR, quick=1))
def test_a_near_miss_is_not_mended(mend: str, program: Program, tmp_path: Path, torch_quiet: None) -> None:
    assert shows(program, tmp_path, mend)[0] == 1


@needs_2_13
@pytest.mark.slow
@pytest.mark.parametrize("program", dict.fromkeys(p for t in (SAME, NEAR) for ps in t.values() for p in ps), ids=str)
def test_without_a_mend_each_program_is_wrong(program: Program, tmp_path: Path, torch_quiet: None) -> None:
    assert shows(program, tmp_path)[0] == 1


@needs_2_13
@pytest.mark.slow
@pytest.mark.parametrize(("mend", "program"), _all(SAME))
def test_the_mends_of_other_issues_leave_it(mend: str, program: Program, tmp_path: Path, torch_quiet: None) -> None:
    others = [i.mend for i in load_known().issues if i.mend != mend and i.worth_a_run(program.finding, "2.13.0")]
    for other in others:
        code, used = shows(program, tmp_path, other)
        assert code == 1 or not used, other


@needs_2_13
@pytest.mark.slow
def test_in_a_fresh_process_it_is_known(tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text(repro_text(CUMSUM))
    found = exact_match(CUMSUM, tmp_path, tmp_path / "cache", shown=False)
    assert found == Match(
        "pytorch/pytorch#189518", "gone with a local patch for #189518: dtype and value of the fill are compared"
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("import sys; sys.exit(1)", 1),
        ("import sys; sys.exit(0)", ReproExit.NOT_BY_THE_MEND),
        ("x = 1", 6),
        ("1 / 0", 1),
    ],
)
def test_a_repro_that_agrees_without_the_mends_doing_is_not_known(
    tmp_path: Path, script: str, code: int, preloaded: Preloaded
) -> None:
    if MENDS["addmm-bias"].misfit():
        pytest.skip("made for another torch")
    (tmp_path / "repro.py").write_text(script)
    done = preloaded.module("fxmorph.triage.known.mended_repro", str(tmp_path), "addmm-bias", cwd=tmp_path)
    assert done.returncode == code


def test_findings_that_no_fresh_process_showed_are_not_tried() -> None:
    assert Finding.__dataclass_fields__["known"].default == ""
