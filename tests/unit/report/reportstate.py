"""A state folder as runs leave it, made without running anything."""

from __future__ import annotations

from pathlib import Path

from fxmorph.core.config import Settings
from fxmorph.core.exhibit import EQUAL, NOT_FINITE, Element, Exhibit, GraphPair, SlotExhibit
from fxmorph.core.finding_parts import Blame, Repro
from fxmorph.core.store import Store
from fxmorph.core.units import Stage
from fxmorph.model import (
    BugClass,
    Case,
    CaseResult,
    CompileConfig,
    Finding,
    Kind,
    Level,
    Proof,
    RewriteProof,
    Seed,
    Status,
    ValuePlan,
)
from fxmorph.triage.folder.repro import repro_text

PROGRAM = """\
def make_inputs():
    return [torch.arange(12.0).reshape(3, 4)]

def fn(l_x_):
    mul = l_x_ * 2
    softmax = torch.softmax(mul, -1)
    return (softmax,)
"""
BEFORE = """\
def forward(self, arg0_1: "f32[3, 4][4, 1]cpu"):
    mul: "f32[3, 4][4, 1]cpu" = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None
    clone: "f32[3, 4][4, 1]cpu" = torch.ops.aten.clone.default(mul);  mul = None
    return (clone,)
"""
AFTER = BEFORE.replace("clone.default(mul)", "alias.default(mul)")
SHOWN = Exhibit(
    slots=(
        SlotExhibit(
            "out0", "float32[3, 4] strides [4, 1]", "float32[3, 4] strides [4, 1]", 12, 5,
            ((EQUAL, -3.0, 0.5, NOT_FINITE), (EQUAL,) * 4, (0.0, EQUAL, EQUAL, EQUAL)),
            (Element((0, 3), "1.5", "nan", "1.4999", "inf", "1e-08"),),
        ),
    ),
    relations=(("out0 shares memory with input0", "no", "yes"),),
    graphs=(GraphPair("post_grad", "post_grad.remove_noop_ops", BEFORE, AFTER),),
)  # fmt: skip


def finding(number: int, **changes: object) -> Finding:
    kinds = ((Kind.VALUE,), (Kind.ALIAS, Kind.MUTATION), (Kind.GRADIENT,))[number % 3]
    values: dict[str, object] = {
        "id": f"{number:04d}beef0000", "case_id": f"{number:016x}", "seed": "corpus/seeds/some.py",
        "recipe": "mutate_late@mul>add" if number % 2 else "", "kinds": kinds,
        "bug_class": (BugClass.UGO, BugClass.BAM, BugClass.KC)[number % 3],
        "stage": ("inductor", "aot")[number % 2], "unit": ("post_grad.remove_noop_ops", "")[number % 2],
        "triangle": "seed-miscompiled", "fingerprint": f"{number:04d}beef0000",
        "reason": f"value of out0: 5 of 12 elements <script>alert({number})</script>", "program": PROGRAM,
        "ladder": (("eager", "agrees"), ("inductor", "value")), "evidence": ("value of out0",),
        "proofs": (RewriteProof("mutate_late@mul>add", Proof(Level.BIT_EXACT), "abc"),),
        "repro": Repro({"backend": "inductor"}, {"exact": True}), "exhibit": SHOWN,
        "blame": Blame(
            Stage.POST_GRAD, "post_grad.remove_noop_ops", True, ("gone without it",),
            ("TORCH_LOGS=+inductor python x.py",),
        ),
    }  # fmt: skip
    return Finding(**{**values, **changes})  # type: ignore[arg-type]


def make_state(
    folder: Path, cases: int = 30, findings: int = 3, torch: str = "2.13.0", first: int = 0, seeds: int = 1
) -> Path:
    """``findings`` are numbered from ``first``; the last of several is known, and has a duplicate."""
    with Store(folder) as store:
        run = store.create_run(Settings(paths=("corpus/",)), {"torch": torch, "device": "cpu", "seed": 0})
        statuses = (Status.CLEAN, Status.CLEAN, Status.EDGE_CASE, Status.SKIPPED, Status.FINDING)
        for index in range(cases):
            seed = Seed(f"corpus/seeds/some{index % seeds or ''}.py", "module", "ab" * 8)
            case = Case(seed, index, 0, (ValuePlan.SEED,), CompileConfig())
            status = statuses[index % len(statuses)]
            reason = "" if status is Status.CLEAN else f"{status}: some reason, at some length " * 3
            recipe = "layout_flip@mul ; mutate_late@add" if index % 2 else ""
            store.add_result(
                run,
                index,
                case,
                CaseResult(
                    case.id, status, reason=reason, recipe=recipe, seconds=(("compile", 1.0),), fired=("joint.x",)
                ),
            )
        ids = []
        for number in range(first, first + findings):
            last = number == first + findings - 1 and findings > 1
            made = finding(number, known="pytorch/pytorch#1" if last else "")
            place = folder / "findings" / made.id
            place.mkdir(parents=True)
            (place / "repro.py").write_text(repro_text(made))
            store.add_finding(run, made, str(place))
            ids.append(made.id)
            if last:
                store.add_finding(run, finding(900 + number), "", duplicate_of=made.id)
        counts = {s.value: sum(statuses[i % 5] is s for i in range(cases)) for s in statuses}
        units = {"joint.remove_noop_ops": {"verdicts": {"clean": 4, "finding": 1}, "outcomes": {"proved": 3}}}
        store.finish_run(
            run, {"counts": counts, "cases": cases, "rungs": {"cpu": cases}, "findings": ids, "wall_s": 90.0,
                  "coverage": {"rules": 5, "variants": 9, "passes": {"units": units}}},
        )  # fmt: skip
    return folder
