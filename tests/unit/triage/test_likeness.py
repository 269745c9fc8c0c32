"""Public issues that a finding may be: what is alike, what it adds up to, and that it decides nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest

from fxmorph.core.finding_parts import Likely, Reduced
from fxmorph.core.records import from_json, to_json
from fxmorph.core.units import Stage
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.public_threads import LIKELY, known_as, likely_lines, related_line
from fxmorph.triage.known.likeness import LEAST, MOST, likely_issues
from fxmorph.triage.known.operator_names import plain_name
from fxmorph.triage.known.program_operators import operators_spelled
from fxmorph.triage.known.public_index import Index, PublicIssue, load_index

UNIT = "post_grad.pass_patterns[1]/pointless_cumsum_replacement"
FINDING = Finding(
    "f", "c", "seed.py", "", (Kind.VALUE,), BugClass.UGO, "inductor", UNIT, "seed-miscompiled", "0123", "", "",
    reduced=Reduced(operations=("cumsum", "full")),
)  # fmt: skip
LINE: dict[str, Any] = {
    "issue": 1, "title": "t", "operations": ["cumsum", "full"], "units": [UNIT], "stage": "post_grad",
    "kinds": ["value"], "devices": ["cpu"], "class": "ugo", "since": "", "fixed": "", "words": [],
}  # fmt: skip


def index(*changes: dict[str, Any]) -> Index:
    """Lines like ``LINE``, numbered from 1, with changes each; some others make operators more or less common."""
    lines = [LINE | {"issue": number} | change for number, change in enumerate(changes, 1)]
    others = [LINE | {"issue": 900 + n, "operations": ["add"], "units": [], "class": ""} for n in range(30)]
    return Index(tuple(map(PublicIssue.of_line, [*lines, *others])))


def scores(*changes: dict[str, Any], finding: Finding = FINDING) -> list[float]:
    """Of the changed lines, in their order; 0 where one is no candidate."""
    found = {one.id: one.score for one in likely_issues(finding, index(*changes), "2.13.0")}
    return [found.get(f"pytorch/pytorch#{number}", 0.0) for number in range(1, len(changes) + 1)]


@pytest.mark.parametrize(
    "names",
    [
        ("add_", "torch.add", "aten.add.Tensor", "iadd", "__iadd__"),
        (
            "max_pool2d_with_indices",
            "aten.max_pool2d_with_indices.default",
            "max_pool2d",
            "max_pool2d_with_indices_backward",
        ),
        ("constant_pad_nd", "pad", "torch.nn.functional.pad"),
        ("_softmax", "softmax", "aten._softmax_backward_data.default"),
        ("_foreach_add_", "aten._foreach_add.List", "foreach_add"),
        ("convolution", "conv2d", "convolution_backward"),
    ],
)
def test_one_operator_has_one_name(names: tuple[str, ...]) -> None:
    assert len(set(map(plain_name, names))) == 1


def test_without_a_reduced_graph_the_program_says_what_it_calls() -> None:
    program = (
        "def make_inputs():\n    return [torch.rand(3)]\n\n\ndef fn(x, y):\n    x[1:] = y @ x.flip(0)\n    return -x\n"
    )
    assert operators_spelled(program) == {"setitem", "matmul", "flip", "neg"}
    driver = "\n\ndef drive(g, *inputs):\n    return g(*tree_map(lambda v: v.detach().clone(), inputs))\n"
    assert operators_spelled(program + driver) == operators_spelled(program)


def test_rare_operators_tell_more_than_common_ones() -> None:
    both = replace(FINDING, unit="", reduced=Reduced(operations=("add", "cumsum")))
    rare, common = scores({"operations": ["cumsum"]}, {"operations": ["add"]}, finding=both)
    assert rare > common


@pytest.mark.parametrize(
    "change",
    [{"units": ["lowering.aten.roll"]}, {"kinds": ["stride"]}, {"stage": "dynamo"}, {"class": "kc"},
     {"operations": ["cumsum", "roll"]}],
)  # fmt: skip
def test_each_part_that_agrees_adds_to_the_score(change: dict[str, Any]) -> None:
    whole, less = scores({}, change)
    assert 0 < less < whole <= 1


def test_an_issue_that_raises_is_no_likely_one_of_wrong_values() -> None:
    dtype, raises = scores({"kinds": ["dtype"]}, {"kinds": ["raises"]})
    assert LIKELY > dtype > raises >= LEAST
    (value,) = scores({}, finding=replace(FINDING, kinds=(Kind.COMPILE_ERROR,)))
    assert value < LIKELY


def test_a_telling_word_that_the_program_spells_adds_to_the_score() -> None:
    spelled = replace(FINDING, program="def fn(x):\n    return x.to(torch.bfloat16)\n")
    whole, plain = scores({"words": ["bf16"]}, {}, finding=spelled)
    assert whole > plain


def test_what_the_innermost_exception_says_tells_and_what_is_said_of_all_does_not() -> None:
    said = "BackendCompilerFailed: backend raised: RuntimeError: no quadrature here Set TORCHDYNAMO_VERBOSE=1"
    raising = replace(FINDING, kinds=(Kind.COMPILE_ERROR,), reason=said)
    lines = [{"kinds": ["raises"], "words": [word]} for word in ("quadrature", "backend", "verbose")]
    told, *others = scores(*lines, finding=raising)
    assert told > max(others)
    told, *others = scores(*({**line, "kinds": ["value"]} for line in lines), finding=replace(FINDING, reason=said))
    assert told == max(others)


def test_another_release_or_device_takes_away() -> None:
    whole, *less = scores({}, {"fixed": "2.12"}, {"since": "2.14"}, {"devices": ["cuda"]})
    assert all(score < whole for score in less)
    one, other = scores({}, {"fixed": "2.14", "since": "2.6"})
    assert one == other


def test_no_operator_and_no_unit_in_common_is_no_candidate() -> None:
    assert scores({"operations": ["roll"], "units": ["joint.x"]}) == [0.0]


def test_it_is_said_what_is_alike() -> None:
    (one, *_) = likely_issues(FINDING, index({"fixed": "2.12"}), "2.13.0")
    assert one.why == "operators cumsum, full; unit; value; fixed in 2.12"


def test_there_are_few_candidates_and_their_order_is_one() -> None:
    found = likely_issues(FINDING, index(*[{}] * 9), "2.13.0")
    assert [one.id for one in found] == [f"pytorch/pytorch#{n}" for n in range(9, 9 - MOST, -1)]
    assert found == likely_issues(FINDING, index(*[{}] * 9), "2.13.0") and found[0].score >= LEAST


def test_the_shipped_index_knows_a_finding_of_a_public_issue() -> None:
    assert "pytorch/pytorch#189518" in [one.id for one in likely_issues(FINDING, torch_version="2.13.0")]


def test_each_line_of_the_shipped_index_keeps_the_format() -> None:
    text = resources.files("fxmorph.triage.known").joinpath("public-issues.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len({line["issue"] for line in lines}) == len(lines) == len(load_index().issues) > 300
    for line in lines:
        assert list(line) == list(LINE)
        assert line["operations"] or line["units"]
        assert {*line["kinds"]} <= {*map(str, Kind)} and line["stage"] in {"", *map(str, Stage)}
        assert line["class"] in {"", *map(str, BugClass)} and {*line["devices"]} <= {"cpu", "cuda", "hip", "mps", "xpu"}
        assert line["title"] and len(line["title"]) <= 90 and len(line["words"]) <= 8


# -- what is told ----------------------------------------------------------------------

ONE = Likely("pytorch/pytorch#7", "some fold", 0.8349, "operators cumsum")
LIKE = replace(FINDING, likely=(ONE, replace(ONE, id="pytorch/pytorch#8")))


def test_candidates_are_told_in_lines_unless_the_finding_is_known() -> None:
    assert likely_lines(LIKE)[0] == "likely known: pytorch/pytorch#7 (0.83) some fold [operators cumsum]"
    assert related_line(LIKE) == ["Possibly related: #7, #8"]
    assert len(likely_lines(LIKE, 1)) == 1
    doubtful = replace(LIKE, likely=(replace(ONE, score=0.41),))
    assert likely_lines(doubtful)[0].startswith("perhaps known: pytorch/pytorch#7 (0.41)")
    assert related_line(doubtful) == []
    written_after = replace(LIKE, origin="pytorch/pytorch#8")
    assert related_line(written_after) == ["Possibly related: #8 (the program is written after it), #7"]
    assert related_line(replace(doubtful, origin="decoding (own spelling)")) == []
    known = replace(LIKE, known="pytorch/pytorch#1", known_by="gone with a local patch for #1: it is mended")
    assert (likely_lines(known), related_line(known)) == ([], [])
    assert known_as(known) == "pytorch/pytorch#1; gone with a local patch for #1: it is mended"


def test_they_are_stored_and_stores_of_earlier_releases_have_none() -> None:
    stored = to_json(LIKE)
    assert from_json(Finding, stored) == LIKE
    assert not {"likely", "known_by"} & to_json(FINDING)["extra"].keys()
    assert from_json(Finding, to_json(FINDING)).likely == ()
