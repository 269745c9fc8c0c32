"""Reports: what stands above the fold is for a maintainer, in PyTorch's words; what the tool did is folded."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fxmorph.core.exhibit import Element, Exhibit, GraphPair, SlotExhibit
from fxmorph.core.finding_parts import Blame, Draft, Reduced, Repro, UnitCase
from fxmorph.core.units import Stage
from fxmorph.inductor.pair_record import Pair
from fxmorph.model import BugClass, Finding, Kind, Level, Proof, RewriteProof, Status
from fxmorph.triage.folder.by_hand import lines, script_with
from fxmorph.triage.folder.graph_change import MOST_LINES, graph_change
from fxmorph.triage.folder.issue import issue_text
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.folder.unit_finding import write_pass_finding
from fxmorph.triage.folder.unit_words import labels, logs

SCATTER = """\
import torch

def make_inputs():
    return [torch.arange(8.0), torch.full((2,), -3.0)]

def fn(base, part):
    made = torch.slice_scatter(base, part, dim=0, start=2, end=4)
    base.copy_(made)
    return made
"""
UNIT = "post_grad.reinplace_inplaceable_ops"
VERSIONS = {"fxmorph": "0.1.0", "torch": "2.13.0", "python": "3.11.4"}
MADE = Finding(
    id="ab12cd34",
    case_id="0" * 16,
    seed="/home/somebody/corpus/seeds/some.py",
    recipe="layout_flip_twice@mul>add",
    kinds=(Kind.ALIAS,),
    bug_class=BugClass.BAM,
    stage="inductor",
    unit=UNIT,
    triangle="variant-miscompiled",
    fingerprint="ab12cd34",
    reason="output 0 differs",
    program=SCATTER,
    ladder=(("compiled again", "alias"), ("aot_eager", "agrees"), ("inductor", "alias"), ("cse=False", "agrees")),
    evidence=("out0 shares memory with input0", "found in /home/somebody/corpus/seeds"),
    proofs=(RewriteProof("layout_flip_twice@mul>add", Proof(Level.BIT_EXACT), "abc"),),
    repro=Repro({"backend": "inductor"}, {"exact": True}, True),
    reduced=Reduced(2, 7),
    blame=Blame(Stage.POST_GRAD, UNIT, True, ("first shows after it",), ("TORCHINDUCTOR_DISABLED_PASSES=X",)),
)
SNIPPET = """\
import torch

def f(x, y):
    z = torch.slice_scatter(x, y, dim=0, start=2, end=4)
    x.copy_(z)
    return z

for name, g in ("eager", f), ("compiled", torch.compile(f)):
    x = torch.ones(8)
    y = torch.ones(2)
    print(f"{name}:", g(x, y).data_ptr() == x.data_ptr())
"""
DRAFT = Draft(
    SNIPPET, "eager: False\ncompiled: True", "alias", "False", "True", "", "PyTorch version: 2.13.0\nOS: some Linux"
)
#: Words of the tool's own.
OURS = re.compile(
    r"fxmorph|\b(seed|recipe|rung|plan|rewrit\w+|fingerprint|oracle|verdict|proof|proved|triage)\b|"
    r"BIT_EXACT|INDEX_EXACT|VALUE_EXACT|layout_flip_twice|pass_patterns\["
)


def above_the_fold(text: str) -> str:
    """What is read before anything is opened; of scripts the names are theirs."""
    return re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)


def issue(**changes: object) -> str:
    made = replace(MADE, **changes)  # type: ignore[arg-type]
    return issue_text(made, VERSIONS, made.ladder)


def test_it_follows_the_template() -> None:
    text = issue(draft=DRAFT)
    assert [h for h in text.splitlines() if h.startswith("###")] == ["### 🐛 Describe the bug", "### Versions"]
    assert repro_text(MADE) in text and "OS: some Linux" in text.partition("### Versions")[2]
    assert "`topic: fuzzer`" in above_the_fold(text)


def test_what_was_run_and_what_it_printed_comes_first() -> None:
    text = issue(draft=DRAFT)
    first = text.partition("```python\n")[2].partition("```")
    assert first[0] == SNIPPET and first[2].startswith("\n\n```\neager: False\ncompiled: True\n```")
    folded = text.index("<details>")
    assert text.index("def make_inputs") > folded > text.index("compiled: True")


def test_without_a_snippet_the_script_is_not_folded() -> None:
    for draft in (None, Draft()):
        assert "def make_inputs" in above_the_fold(issue(draft=draft))


@pytest.mark.parametrize("draft", [None, DRAFT])
def test_words_of_our_own_are_below_the_fold(draft: Draft | None) -> None:
    text = issue(draft=draft)
    assert not OURS.findall(above_the_fold(text))
    assert "layout_flip_twice@mul>add" in text and "BIT_EXACT" in text


def test_no_path_of_a_machine_is_told() -> None:
    assert "/home/" not in issue(draft=DRAFT) and "somebody" not in issue(draft=DRAFT)


def test_backends_and_settings_are_told_and_what_switches_it_off() -> None:
    read = above_the_fold(issue(draft=DRAFT))
    assert "| `aot_eager` | agrees |\n| `inductor` | differs |\n| `cse=False` | agrees |" in read
    assert "It is gone with `reinplace_inplaceable_ops` (post-grad passes) switched off." in read
    assert "TORCHINDUCTOR_DISABLED_PASSES=X" in issue() and 'TORCH_LOGS="aot_graphs,post_grad_graphs"' in issue()
    unsure = issue(blame=replace(MADE.blame, confirmed=False))  # type: ignore[type-var]
    assert "was not seen to help" in unsure and "It is gone with" not in unsure


def test_settings_of_inductor_are_not_told_of_what_is_wrong_before_it() -> None:
    ladder = (("layout_optimization=False", "stride"), ("eager", "agrees"), ("aot_eager", "stride"), ("inductor", "s"))
    read = above_the_fold(issue_text(replace(MADE, stage="aot"), VERSIONS, ladder))
    assert "layout_optimization" not in read and "| `aot_eager` | differs |" in read


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("torch._inductor.config.cpp.simdlen = 1", "import torch._inductor.config"),
        ("torch._inductor.decomposition.decompositions.pop(torch.ops.aten.std.correction)", "import torch._inductor.d"),
        ("torch._functorch.config.cse = False", "import torch._functorch.config"),
    ],
)
def test_what_is_typed_into_the_script_runs_there(line: str, needed: str) -> None:
    typed = lines(replace(MADE, blame=replace(MADE.blame, redo=(line,))))  # type: ignore[type-var]
    assert typed[0].startswith(needed) and typed[-1] == line
    script = script_with("import os\nimport torch\n", typed)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_lines_that_were_not_seen_to_help_are_not_told() -> None:
    line = "torch._functorch.config.cse = False"
    of_partitioner = replace(MADE.blame, redo=(line, 'torch.compile(fn, backend="eager")', "A=1 python repro.py"))
    assert lines(replace(MADE, blame=of_partitioner))[1:] == [line]  # type: ignore[type-var]
    untried = issue(blame=of_partitioner, draft=DRAFT)
    assert line not in untried and "A=1 python repro.py" in untried
    assert f"```python\n{line}\n```" in issue(blame=of_partitioner, draft=replace(DRAFT, gone_with=line))


def test_numbers_are_told_where_numbers_are_shown() -> None:
    worst = (Element((0,), "1.0", "3.0", "1.0", "2.0", "1e-9"),)
    noise = (Element((0,), "1.0", "1.0000001", "1.0", "1e-7", "1e-9"),)
    shown = Exhibit((SlotExhibit("out0", "f", "f", 4, 1, (), worst), SlotExhibit("out1", "f", "f", 4, 1, (), noise)))
    told = {"exhibit": shown, "repro": Repro({}, {"rtol": 1e-3, "atol": 1e-4}, True)}
    text = issue(kinds=(Kind.VALUE,), **told)
    assert "eager is off by 1e-9, compiled by 2.0" in text and "`out0` (f)" in text and "`out1` (f)" not in text
    assert "eager is off by" not in issue(kinds=(Kind.IDENTITY,), **told)
    assert "eager is off by" not in issue(kinds=(Kind.GRADIENT,), **told)


def test_labels_say_who_where_and_what() -> None:
    kernel = "codegen.CppVecKernel"
    said = labels(replace(MADE, kinds=(Kind.CRASH,), unit=kernel, blame=Blame(Stage.CODEGEN, kernel, True)))
    assert said == ["oncall: pt2", "module: inductor", "oncall: cpu inductor", "module: crash"]
    of_aot = replace(MADE, stage="aot", unit="functionalization.ViewMetaSequence")
    assert labels(of_aot)[1:] == ["module: aotdispatch", "module: functionalization"]
    assert "module: sdpa" in labels(replace(MADE, unit="joint.pass_patterns[0]/_sfdp_pattern_5_inference"))


def test_when_it_is_not_seen_is_told() -> None:
    assert "With inputs of float64 both agree." in above_the_fold(
        issue(draft=replace(DRAFT, contrast="With inputs of float64 both agree."))
    )


def test_a_decomposition_is_named_wherever_it_is_called() -> None:
    unit = "decomposition.aten.multi_margin_loss.default"
    of_aot = replace(MADE, stage="aot", unit=unit, blame=Blame(Stage.DECOMPOSITION, unit, True))
    said = issue_text(of_aot, VERSIONS, MADE.ladder)
    assert said.startswith("# [decomp] ") and "`module: decompositions`" in said


def test_what_the_backend_says_is_not_said_again() -> None:
    of_dynamo = replace(MADE, stage="dynamo", unit="dynamo", blame=Blame(Stage.DYNAMO, "dynamo", True))
    assert "It is gone with" not in issue_text(of_dynamo, VERSIONS, MADE.ladder)


def test_a_whole_stage_has_a_name() -> None:
    of_joint = replace(MADE, unit="joint", blame=Blame(Stage.JOINT, "joint", True))
    assert "It is gone with the joint graph passes switched off." in issue_text(of_joint, VERSIONS, MADE.ladder)


def test_what_does_not_raise_says_so() -> None:
    seen = Exhibit(raised=("RuntimeError: no", ""))
    raising = replace(MADE, kinds=(Kind.RAISES,), exhibit=seen)
    said = issue_text(raising, VERSIONS, MADE.ladder)
    assert "this program does not raise the RuntimeError of eager, without a warning." in said and "(silent)" in said
    loud = issue_text(replace(raising, exhibit=Exhibit(raised=("", "RuntimeError: no"))), VERSIONS, MADE.ladder)
    assert "this program raises RuntimeError, eager does not." in loud and "(silent)" not in loud
    assert "(silent)" not in issue(kinds=(Kind.STRIDE,))


def test_a_long_snippet_is_said_to_be_the_shortest() -> None:
    long = replace(DRAFT, snippet=SNIPPET + "x = 1\n" * 4)
    assert "No shorter script" in issue(draft=long) and "No shorter script" not in issue(draft=DRAFT)


def test_errors_are_shown_where_there_are_any() -> None:
    raised = issue(kinds=(Kind.RAISES,), exhibit=Exhibit(raised=("RuntimeError: no such thing", "")))
    assert "### Error logs\n\n```\neager: RuntimeError: no such thing\ncompiled: no exception\n```" in raised
    assert "Traceback" not in raised


def test_generated_code_is_folded() -> None:
    text = issue(draft=replace(DRAFT, kernels="#include <torch/x.h>\nvoid kernel() {}"))
    assert "```cpp\n#include <torch/x.h>\nvoid kernel() {}\n```" in text and "kernel()" not in above_the_fold(text)


def test_releases_and_what_is_known_are_told() -> None:
    read = above_the_fold(issue(releases=(("2.10.0", "gone"), ("2.13.0", "still there")), known="pytorch/pytorch#1"))
    assert "| 2.10.0 | gone |" in read and "pytorch/pytorch#1" in read


def test_numbers_are_those_of_the_reduced_program() -> None:
    assert "output 0 differs" not in issue()  # the reason is the case's


def test_an_issue_without_an_environment_says_how_to_get_it() -> None:
    versions = issue().partition("### Versions")[2]
    assert "python -m torch.utils.collect_env" in versions and "torch 2.13.0" in versions


def test_every_stage_has_logs_that_torch_knows() -> None:
    from torch._logging._internal import log_registry

    for stage in Stage:
        said = logs(replace(MADE, blame=Blame(stage, "", False)))
        assert all(log_registry.is_log(name) or log_registry.is_artifact(name) for name in said.split(",")), stage


def of_a_unit(folder: Path, *kinds: Kind) -> tuple[Pair, Finding]:
    """A pair whose program is in ``folder``, and the finding of it."""
    program = folder / "made" / "seed.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(
        '"""x"""\nimport torch\n\nMETA = {}\n\ndef fn(x):\n    return (x + 1,)\n\ndef make_inputs():\n    pass\n'
    )
    for name in ("before", "after"):
        (program.parent / f"{name}.txt").write_text(f"{UNIT} of /home/somebody/a.py\n\ngraph():\n    return {name}\n")
    pair = Pair(UNIT, "/home/somebody/a.py", "inference", "g", 1, Status.FINDING, kinds, program=str(program))
    unit = UnitCase("pass", "g", "inference", "seed", operations=("add", "cat"))
    return pair, replace(MADE, program="", kinds=kinds, unit_case=unit, reduced=Reduced(), recipe="", proofs=())


def test_a_unit_alone_has_a_report_of_the_same_form(tmp_path: Path) -> None:
    pair, made = of_a_unit(tmp_path, Kind.VALUE)
    for shown in (frozenset({Kind.VALUE}), frozenset()):
        write_pass_finding(tmp_path / "ab", made, pair, ["compiled as a whole: value"], shown, VERSIONS)
        text = (tmp_path / "ab" / "issue.md").read_text(encoding="utf-8")
        assert text.startswith("# [inductor] `cat` returns wrong values (`reinplace_inplaceable_ops`)")
        read = above_the_fold(text)
        assert not OURS.findall(read) and "/home/" not in text and "def fn(x):\n    return (x + 1,)" in read
        assert "return before" in text and ("No compile of a whole program" in read) is not bool(shown)


Changed = Callable[[torch.Tensor], torch.Tensor]
#: What may come in place of a result that is a view of the input, by what the script then compares.
INSTEAD = {
    Kind.VALUE: lambda t: t + 1,
    Kind.STRIDE: lambda t: t.clone(memory_format=torch.contiguous_format),
    Kind.ALIAS: lambda t: t.clone(),
}


def script_exits(folder: Path, given: torch.Tensor, changed: Changed, monkeypatch: pytest.MonkeyPatch) -> object:
    """The exit code of ``repro.py`` where the compiled program returns ``changed`` of a view of what is given."""
    script = compile((folder / "repro.py").read_text(encoding="utf-8"), "repro.py", "exec")
    seed = SimpleNamespace(META={"config": {}}, fn=lambda x: (x.t(),), make_inputs=lambda: [given.clone()])
    monkeypatch.setitem(sys.modules, "seed", seed)
    monkeypatch.setattr(torch, "compile", lambda fn: lambda x: (changed(*fn(x)),))
    with pytest.raises(SystemExit) as ended:
        exec(script, {"__file__": "repro.py"})
    return ended.value.code


@pytest.mark.parametrize("kind", INSTEAD)
@pytest.mark.parametrize("of_whole", [False, True])
def test_the_script_of_a_unit_compares_what_was_seen(
    kind: Kind, of_whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, made = of_a_unit(tmp_path, Kind.SHAPE if of_whole else kind)
    write_pass_finding(tmp_path / "ab", made, pair, [], frozenset({kind}), VERSIONS)
    for changed, code in ((lambda t: t, 0), (INSTEAD[kind], 1)):
        assert script_exits(tmp_path / "ab", torch.ones(2, 3), changed, monkeypatch) == code


@pytest.mark.parametrize(
    ("given", "off", "shown"),
    [
        (torch.full((2, 3), 10**6), 1, True),
        (torch.zeros(2, 3, dtype=torch.bool), True, True),
        (torch.ones(2, 3, dtype=torch.float64), 2.8e-8, True),
        (torch.ones(2, 3, dtype=torch.float64), 1e-12, False),
        (torch.ones(2, 3, dtype=torch.complex64), 1e-6, False),
        (torch.ones(2, 3, dtype=torch.bfloat16), 2**-7, False),
        (torch.ones(2, 3, dtype=torch.bfloat16), 2**-5, True),
        (torch.ones(2, 3, dtype=torch.float8_e4m3fn), 0, False),
    ],
    ids=str,
)
def test_the_script_of_a_unit_compares_as_the_dtype_can(
    given: torch.Tensor, off: complex, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, made = of_a_unit(tmp_path, Kind.VALUE)
    write_pass_finding(tmp_path / "ab", made, pair, [], frozenset({Kind.VALUE}), VERSIONS)
    differs = script_exits(tmp_path / "ab", given, lambda t: t + off if off else t.clone(), monkeypatch)
    assert differs == int(shown)


def test_the_script_of_a_unit_compares_memory_where_it_was_seen_alone(tmp_path: Path) -> None:
    for kind in (Kind.ALIAS, Kind.VALUE):
        pair, made = of_a_unit(tmp_path, kind)
        write_pass_finding(tmp_path / "ab", made, pair, [], frozenset(), VERSIONS)
        script = (tmp_path / "ab" / "repro.py").read_text(encoding="utf-8")
        assert ("aliases=True" in script) is (kind is Kind.ALIAS)


GRAPH = """class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[2, 2][2, 1]"):
        # File: program.py:7 in fn, code: r = x.permute(1, 0)
        permute: "f32[2, 2][1, 2]" = torch.ops.aten.permute.default(arg0_1, [1, 0]);  arg0_1 = None
        mul: "f32[2, 2][1, 2]" = torch.ops.aten.mul.Tensor(permute, 1);  permute = None
        full: "f32[2][1]" = torch.ops.aten.full.default([2], 1, dtype = torch.float32, device = device(type='cpu'))
        return (mul, full)
"""
LONG = GRAPH + "".join(f"x{i} = 1\n" for i in range(MOST_LINES + 1))


def test_what_a_pass_does_to_the_graph_is_told() -> None:
    after = GRAPH.replace("mul.Tensor(permute", "mul.Tensor(arg0_1").replace("permute: ", "# ")
    change = "\n".join([
        "```diff", " def forward(self, arg0_1):", "-permute = aten.permute(arg0_1, [1, 0])",
        "-mul = aten.mul.Tensor(permute, 1)", "+mul = aten.mul.Tensor(arg0_1, 1)",
        " full = aten.full([2], 1, dtype = torch.float32)", "```",
    ])  # fmt: skip
    shown = Exhibit(graphs=(GraphPair(f"{UNIT} (post_grad)", UNIT, GRAPH, after),))
    assert change in above_the_fold(issue(draft=DRAFT, exhibit=shown))
    not_confirmed = replace(MADE.blame, confirmed=False)  # type: ignore[type-var]
    assert "```diff" not in issue(draft=DRAFT, exhibit=shown, blame=not_confirmed)


@pytest.mark.parametrize(
    "pair",
    [
        GraphPair("rewrites", "a rule", GRAPH, GRAPH.replace("mul", "add")),
        GraphPair(UNIT, UNIT, GRAPH, ""),
        GraphPair(UNIT, UNIT, GRAPH, GRAPH),
        GraphPair(UNIT, UNIT, GRAPH, LONG),
    ],
    ids=["of a rule", "one side", "no change", "too long"],
)
def test_a_change_that_is_none_or_too_long_is_not_shown(pair: GraphPair) -> None:
    assert graph_change(replace(MADE, exhibit=Exhibit(graphs=(pair,)))) == [] == graph_change(MADE)
