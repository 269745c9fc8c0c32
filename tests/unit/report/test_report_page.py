"""``report.html``: what it is gathered from and what it says; test_report_browser.py opens it in a browser."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from reportstate import AFTER, BEFORE, PROGRAM, finding, make_state

from fxmorph.campaign import leftover_schedule
from fxmorph.commands import reduce as command
from fxmorph.core.config import Settings
from fxmorph.core.exhibit import EQUAL, SlotExhibit
from fxmorph.core.finding_parts import Draft, Draw
from fxmorph.core.store import Store, StoreError
from fxmorph.model import Case, CaseResult, CompileConfig, Seed, Status, ValuePlan
from fxmorph.report.collect import Seen, appearances, collect
from fxmorph.report.heatmap import heat_map
from fxmorph.report.html import write_report
from fxmorph.triage.folder.dataflow import marked, nearby, read_steps
from fxmorph.triage.folder.drawing import draw, standalone


class Tags(HTMLParser):
    """Every tag with its attributes, and whether tags close in order."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "rect", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "path"):
            assert self.open.pop() == tag


def page(tmp_path: Path, *states: Path) -> str:
    write_report(states, tmp_path / "report.html")
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    text = page(tmp_path, make_state(tmp_path / "st"))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert not [t for t, a in tags.seen if t in ("img", "iframe", "object") or a.get("src")]
    assert {a["href"] for t, a in tags.seen if t == "link"} == {"data:,"}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert sum(t == "details" and "finding" in (a.get("class") or "") for t, a in tags.seen) == 3


def test_what_programs_say_is_text_and_never_markup(tmp_path: Path) -> None:
    text = page(tmp_path, make_state(tmp_path / "st"))
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_a_thousand_cases_stay_below_five_megabytes(tmp_path: Path) -> None:
    state = make_state(tmp_path / "st", cases=1000, findings=150)
    assert len(page(tmp_path, state).encode()) < 5 * 2**20


def test_runs_of_several_folders_are_merged(tmp_path: Path) -> None:
    old = make_state(tmp_path / "old", findings=3, torch="2.12.0")
    new = make_state(tmp_path / "new", findings=3, torch="2.13.0", first=2)
    report = collect([old, new])
    assert [r.torch for r in report.runs] == ["2.12.0", "2.13.0"]
    assert report.cases == 60
    assert len(report.cards) == 5
    both = [c for c in report.cards if len(c.runs) == 2]
    assert [c.finding.id for c in both] == ["0002beef0000"]
    assert {c.finding.id: c.duplicates for c in report.cards}["0004beef0000"] == 1
    text = page(tmp_path, old, new)
    assert "Findings by run" in text and "2.12.0, 2.13.0" in text


def test_runs_over_time_tell_what_is_right_from_what_was_not_judged(tmp_path: Path) -> None:
    states = [tmp_path / name for name in "abcd"]
    seed, found = Seed("some.py", "module", "ab"), finding(0, seed="some.py", draw=Draw(original_recipe="r@s"))
    for state, status in zip(states, (Status.CLEAN, None, Status.FINDING, Status.CLEAN), strict=True):
        with Store(state) as store:
            run = store.create_run(Settings(), {"torch": "2.13.0"})
            case = Case(seed, 1, 0, (ValuePlan.SEED,), CompileConfig())
            if status is not None:
                store.add_result(run, 0, case, CaseResult(case.id, status, recipe="r@s"))
            other = Status.FINDING if status is Status.FINDING else Status.CLEAN
            case = replace(case, number=2)
            store.add_result(run, 1, case, CaseResult(case.id, other, recipe="other@s"))
            if status is Status.FINDING:
                store.add_finding(run, found, "")
    report = collect(states[:3])
    ((_, seen, change),) = appearances(report)
    assert [*map(str, seen)] == ["clean", "not judged", "found"]
    assert change == f"new since {report.runs[2].id}"
    report = collect(states)
    ((_, seen, change),) = appearances(report)
    assert (seen[-1], change) == (Seen.CLEAN, f"gone since {report.runs[3].id}")
    ((_, _, change),) = appearances(collect(states[1:3]))
    assert change == ""
    text = page(tmp_path, *states)
    assert all(f">{mark}</td>" in text for mark in "●○·") and "; gone since" in text


def test_matrices_count_units_and_families(tmp_path: Path) -> None:
    report = collect([make_state(tmp_path / "st", cases=10)])
    units = dict(report.units.rows)
    assert units["joint.remove_noop_ops"] == {"clean": 4, "finding": 1}
    assert units["joint.x"] == {"fired in": 10}
    assert units["post_grad.remove_noop_ops"] == {"finding": 1, "known": 1}
    assert sum(dict(report.families.rows)["mutate"].values()) == 5
    assert report.units.columns == ("clean", "known", "finding", "fired in")
    assert [(status, n) for status, _, n in report.reasons] == [("skipped", 2)]


def test_a_folder_without_state_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no fxmorph state"):
        collect([tmp_path])


def test_a_run_without_cases_has_a_page(tmp_path: Path) -> None:
    text = page(tmp_path, make_state(tmp_path / "st", cases=0, findings=0))
    assert "No findings." in text


def test_generated_code_has_the_colours_of_its_language(tmp_path: Path) -> None:
    kernels = '#include "cpp_prefix.h"\nextern "C" void kernel(const float* in_ptr0) { return; }'
    made = finding(0, draft=Draft(kernels=kernels))
    with Store(tmp_path / "st") as store:
        run = store.create_run(Settings(), {"torch": "2.13.0", "device": "cpu", "seed": 0})
        store.add_finding(run, made, str(tmp_path))
    text = page(tmp_path, tmp_path / "st")
    assert "generated code" in text
    assert '<span class="s-k">const</span>' in text


# -- graphs --------------------------------------------------------------------


def test_nodes_and_edges_of_a_graph_text() -> None:
    steps = read_steps(BEFORE)
    assert [(s.name, s.role, s.label, s.uses) for s in steps] == [
        ("arg0_1", "input", "arg0_1", ()),
        ("mul", "call", "aten.mul", ("arg0_1",)),
        ("clone", "call", "aten.clone", ("mul",)),
        ("output", "output", "output", ("clone",)),
    ]
    assert steps[1].note == "f32[3, 4][4, 1]"


def test_in_place_calls_and_items_are_what_comes_after() -> None:
    text = "def fn(x, y):\n    x.add_(1)\n    x[0] = y\n    z = x @ y\n    z += x\n    return z"
    assert [(s.label, s.uses) for s in read_steps(text) if s.role == "call"] == [
        ("add_", ("x",)),
        ("[0] =", ("add_", "y")),
        ("@", ("setitem", "y")),
        ("+", ("z", "setitem")),
    ]


def test_calls_inside_calls_are_nodes() -> None:
    text = (
        "def forward(self, x, device):\n    y = torch.sin(self.lin(x).view(3), device=device(1))\n    return y + x * 2"
    )
    assert [(s.label, s.uses) for s in read_steps(text) if s.role == "call"] == [
        ("lin", ("x",)),
        ("view", ("lin",)),
        ("device", ("device",)),
        ("sin", ("view", "device'2")),
        ("*", ("x",)),
        ("+", ("y", "*")),
    ]


def test_a_graph_as_fx_prints_it() -> None:
    text = (
        "post_grad graph\n\ngraph():\n    %a : [num_users=1] = placeholder[target=a]\n"
        "    %b : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%a, 1), kwargs = {})\n"
        "    return (b,)\n"
    )
    assert [(s.name, s.label, s.uses) for s in read_steps(text)] == [
        ("a", "a", ()),
        ("b", "aten.add", ("a",)),
        ("output", "output", ("b",)),
    ]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("def fn(x):\n    y = torch.ops.aten.slice.Tensor(x, 1, 0, 5)\n    return y", "1, 0, 5"),
        ("def fn(x):\n    y = torch.sum(x, dim=[-1], keepdim=True)\n    return y", "dim=[-1], keepdim=True"),
        ("def fn(x, y):\n    z = torch.cat([x, y], 1)\n    return z", "1"),
        ("def fn(x):\n    y = x * 2\n    return y", "2"),
        (
            "graph():\n    %a : [num_users=1] = placeholder[target=a]\n    %b : [num_users=1] = call_function[target="
            "torch.ops.aten.full_like.default](args = (%a, -inf), kwargs = {dtype: torch.float16, pin_memory: False})",
            "-inf, dtype=torch.float16, pin_memory=False",
        ),
    ],
    ids=["bounds", "keywords", "a list of nodes", "a number beside a sign", "as fx prints it"],
)
def test_arguments_that_are_no_nodes_are_drawn_too(text: str, arguments: str) -> None:
    (call,) = (step for step in read_steps(text) if step.role == "call")
    assert call.arguments == arguments
    assert f"({arguments[:8]}" in draw((call,), "one")


def test_what_the_other_side_has_not_is_marked() -> None:
    before, after = read_steps(BEFORE), read_steps(AFTER)
    assert [s.name for s in marked(before, after) if s.marked] == ["clone"]
    assert 'class="call marked"' in draw(marked(before, after), "before")


def test_reducing_writes_the_page_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state(tmp_path / "st", findings=1)
    monkeypatch.setattr(leftover_schedule, "_of_a_unit", lambda finding: True)
    settings = Settings(state=str(state))
    for done, code in ((False, 5), (True, 1)):
        monkeypatch.setattr(command, "_alone", lambda *_, done=done: done)
        assert command.reduce_findings(settings, [finding(0).id], lambda event: None) == code
        assert (state / "report.html").is_file() is done


def test_a_large_graph_is_shown_around_what_is_marked() -> None:
    lines = [f"    v{i} = v{i - 1} + {i}" for i in range(1, 200)]
    one = read_steps("def fn(v0):\n" + "\n".join(lines) + "\n    return v199")
    other = read_steps("def fn(v0):\n" + "\n".join(lines).replace("+ 100", "- 100") + "\n    return v199")
    kept = nearby(marked(one, other), 20)
    assert len(kept) <= 20
    assert "v100" in {s.name for s in kept}


def test_boxes_of_a_layer_do_not_overlap() -> None:
    text = "def fn(x):\n" + "".join(f"    v{i} = torch.softmax(x, {i})\n" for i in range(9))
    text += "    return (" + ", ".join(f"v{i}" for i in range(9)) + ")"
    boxes = re.findall(r'<rect x="(-?\d+)" y="(\d+)" width="(\d+)"', draw(read_steps(text), "wide"))
    rows: dict[str, list[tuple[int, int]]] = {}
    for x, y, width in boxes:
        rows.setdefault(y, []).append((int(x), int(width)))
    assert max(map(len, rows.values())) == 9
    for row in rows.values():
        row.sort()
        assert all(a + w <= b for (a, w), (b, _) in pairwise(row))


def test_text_that_is_no_graph_has_no_drawing() -> None:
    assert read_steps("not python (") == ()
    assert draw((), "none") == ""
    assert standalone(draw(read_steps(PROGRAM), "program")).startswith("<svg")


def test_error_map_says_its_range() -> None:
    slot = SlotExhibit("out0", "", "", 4, 2, ((EQUAL, -2.0), (1.0, EQUAL)))
    drawn = heat_map(slot)
    assert drawn.count("<rect") == 4 and "0.01 … 1e+01" in drawn
    assert heat_map(SlotExhibit("out0", "a", "b")) == ""
