"""Programs with known defects of torch 2.13, and near misses: as like, wrong too, of another cause.

A near miss has the fault ``planted`` (an operator that is lowered as another), or another public defect; of some both
sides would pass the cheap test of an entry.
"""

from __future__ import annotations

from dataclasses import dataclass

from fxmorph.core.finding_parts import Reduced, Repro
from fxmorph.model import BugClass, Finding, Kind


@dataclass(frozen=True)
class Program:
    """``lines`` are the body of ``fn``; its arguments are named by ``inputs``, each with the text that makes it."""

    name: str
    inputs: str
    lines: str
    kinds: str
    operations: str
    no_grad: bool = False
    planted: tuple[str, str] = ()  # type: ignore[assignment]

    @property
    def source(self) -> str:
        named = [item.split(" = ", 1) for item in self.inputs.split("; ")]
        body = "\n".join(f"    {line}" for line in self.lines.split("; "))
        made = ", ".join(text for _, text in named)
        arguments = ", ".join(name for name, _ in named)
        return f"import torch\n\n\ndef make_inputs():\n    return [{made}]\n\n\ndef fn({arguments}):\n{body}\n"

    @property
    def finding(self) -> Finding:
        kinds, name = tuple(map(Kind, self.kinds.split())), self.name
        return Finding(
            name, "c", "s", "", kinds, BugClass.UGO, "inductor", "", "seed-miscompiled", name, "", self.source,
            repro=Repro({"backend": "inductor", **({"no_grad": True} if self.no_grad else {})}),
            reduced=Reduced(operations=tuple(self.operations.split())),
        )  # fmt: skip


_SIN = ("sin", "cos")
_QKV = "q = torch.randn(2, 5, 5, 4); k = torch.randn(2, 5, 5, 4); v = torch.randn(2, 5, 5, 4)"
_HEADS = "q = q.permute(0, 2, 1, 3); v = v.permute(0, 2, 1, 3)"
_SHIFT = "x[1:] = x[:-1].clone()"

#: By the name of the mend.
SAME: dict[str, tuple[Program, ...]] = {
    "cumsum-fill": (
        Program(
            "cumsum",
            "x = torch.rand(4)",
            "return x * 2, torch.ones((3, 4), dtype=torch.bool).cumsum(1, dtype=torch.float16)",
            "dtype",
            "ones cumsum mul",
        ),
    ),
    "attention-key": (
        Program(
            "key",
            _QKV,
            f"{_HEADS}; k = k.permute(0, 2, 3, 1); w = torch.matmul(q, k).mul(0.5).softmax(-1); return w @ v",
            "value",
            "permute matmul mul softmax",
            no_grad=True,
        ),
    ),
    "foreach-reads": (
        Program(
            "foreach",
            "x = torch.rand(6, 5); y = torch.rand(3, 4)",
            "torch._foreach_add_([x, y], [x.flip(0), y]); return x + 1",
            "value mutation",
            "_foreach_add_ flip add",
        ),
    ),
    "copied-sources": (
        Program(
            "copied",
            "old = torch.zeros(2, 5); state = torch.rand(2, 5)",
            "old[:, 0:] = state[:, 0:]; state.mul_(0.5); return state + 1",
            "mutation",
            "setitem getitem mul_ add",
        ),
    ),
    "overlapping-scatter": (
        Program(
            "shift",
            "x = torch.rand(3, 16, 16)",
            f"{_SHIFT}; return x * 2",
            "value mutation",
            "setitem getitem clone mul",
        ),
        Program(
            "by two",
            "x = torch.rand(6, 16, 16)",
            "x[2:] = x[:-2].clone(); return x.sum(0)",
            "value mutation",
            "setitem getitem clone sum",
        ),
    ),
    "returned-scatter": (
        Program(
            "returned",
            "x = torch.rand(2, 5); y = torch.rand(2, 2)",
            "z = torch.slice_scatter(x, y, dim=1, start=2, end=4); x.copy_(z); return z",
            "alias",
            "slice_scatter copy_",
        ),
    ),
    "overwritten-scatter": (
        Program(
            "overwritten scatter",
            "x = torch.rand(3, 4); row = torch.rand(4)",
            "y = x.select_scatter(row, 0, 1); x.fill_(5.0); return y * 1.5, y",
            "value",
            "select_scatter fill_ mul",
        ),
    ),
    "neutral-results": (
        Program(
            "neutral",
            "x = torch.rand(3, 4)",
            "return x + torch.zeros(3, 4), x.sum()",
            "identity alias",
            "add zeros sum",
        ),
        Program("divided", "x = torch.rand(3, 4)", "return x.sin(), x * torch.ones(3, 4)", "alias", "mul ones sin"),
    ),
    "decomposition-strides": (
        Program(
            "floor",
            "x = torch.rand(3, 7).t(); y = torch.rand(7, 3) + 0.5",
            "return torch.floor_divide(x, y)",
            "stride",
            "floor_divide",
        ),
        Program(
            "outer",
            "x = torch.rand(3, 7).t(); y = torch.rand(7); z = torch.rand(3)",
            "return torch.addr(x, y, z, beta=0.0)",
            "stride",
            "addr",
        ),
    ),
    "strided-bases": (
        Program(
            "strided",
            "x = torch.rand(1, 2)",
            "y = x.repeat(4, 3); return torch.as_strided(y[:, ::3], (4, 6), y.stride())",
            "value",
            "repeat getitem as_strided",
        ),
    ),
    "addmm-bias": (
        Program(
            "bias",
            "b = torch.rand(12, 1); x = torch.rand(1, 1); w = torch.rand(1, 1)",
            "return torch.relu(torch.addmm(b, x, w))",
            "raises",
            "addmm relu",
        ),
    ),
    "addmm-dtypes": (
        Program(
            "dtypes",
            "x = torch.rand(1, 1, dtype=torch.float16); w = torch.rand(6, 1); b = torch.rand(6)",
            "return torch.nn.functional.linear(x, w, b).sin()",
            "raises",
            "linear sin",
            no_grad=True,
        ),
    ),
    "clamp-bounds": (
        Program("bound", "x = torch.rand(2, 5)", "return torch.clamp(x * 3, max=1e39)", "raises", "clamp mul"),
    ),
    "deviation-precision": (
        Program("small", "x = torch.rand(17) * 1e-28", "return x.std() * 1e28", "value", "std mul"),
        Program(
            "large",
            "x = torch.rand(17) * 1e24",
            "return x.std(), x.reshape(1, 17).std(1)",
            "value nonfinite",
            "reshape std",
        ),
    ),
    "overwritten-inputs": (
        Program(
            "overwritten",
            "x = torch.arange(18.0).reshape(6, 1, 3); y = torch.rand(6, 4, 3, requires_grad=True); "
            "s = torch.rand(1, 4, 3, requires_grad=True)",
            "z = (x - y) * s; x.mul_(0.25); return z",
            "gradient",
            "sub mul mul_",
        ),
    ),
}
_SHIFTED = SAME["overlapping-scatter"][0]
_COPIED = SAME["copied-sources"][0]
_RETURNED = SAME["returned-scatter"][0]
_OTHER_BOUND = "x = torch.rand(1, 4); w = torch.rand(3, 4); b = torch.rand(3)"
NEAR: dict[str, tuple[Program, ...]] = {
    "cumsum-fill": (
        Program(
            "right cumsum",
            "x = torch.rand(3, 4)",
            "return torch.ones(3, 4, dtype=torch.int64).cumsum(1) + x.sin()",
            "value",
            "ones cumsum sin add",
            planted=_SIN,
        ),
        Program(
            "wrong fill and sin",
            "x = torch.rand(3, 4)",
            "return torch.ones(3, 4, dtype=torch.bool).cumsum(1, dtype=torch.float16) + x.sin()",
            "value",
            "ones cumsum sin add",
            planted=_SIN,
        ),
    ),
    "attention-key": (
        Program(
            "as_strided beside attention",
            f"{_QKV}; x = torch.rand(1, 2)",
            f"{_HEADS}; k = k.permute(0, 2, 1, 3); w = (q @ k.transpose(-2, -1)).mul(0.5).softmax(-1); "
            "y = x.repeat(4, 3); return w @ v, torch.as_strided(y[:, ::3], (4, 6), y.stride())",
            "value",
            "permute transpose matmul mul softmax repeat as_strided",
            no_grad=True,
        ),
        Program(
            "mask of two",
            f"{_QKV}; keep = torch.tensor([[1, 2, 0, 2, 1], [2, 0, 1, 1, 2]])",
            f"{_HEADS}; k = k.permute(0, 2, 1, 3); scores = (q @ k.transpose(-2, -1)).div(2.0); "
            "off = (keep == 0).view(2, 1, 1, 5).expand_as(scores); "
            "return torch.softmax(scores.masked_fill(off, float('-inf')), dim=-1) @ v",
            "value",
            "permute transpose matmul div eq view expand_as masked_fill softmax",
            no_grad=True,
        ),
    ),
    "foreach-reads": (
        Program(
            "foreach beside a shift",
            "x = torch.rand(3, 16, 16); y = torch.rand(4)",
            f"torch._foreach_add_([y], [y * 2]); {_SHIFT}; return x, y",
            "value mutation",
            "_foreach_add_ mul setitem getitem clone",
        ),
        Program(
            "foreach of a sine",
            "x = torch.rand(6, 5)",
            "torch._foreach_mul_([x], [x.sin()]); return x",
            "value mutation",
            "_foreach_mul_ sin",
            planted=_SIN,
        ),
    ),
    "copied-sources": (_SHIFTED, _RETURNED),
    "overlapping-scatter": (_COPIED, _RETURNED),
    "returned-scatter": (SAME["overwritten-scatter"][0], _SHIFTED, SAME["neutral-results"][0]),
    "overwritten-scatter": (_RETURNED, _SHIFTED),
    "neutral-results": (
        _RETURNED,
        Program(
            "neutral and returned",
            "x = torch.rand(2, 5); y = torch.rand(2, 2); w = torch.rand(3)",
            "z = torch.slice_scatter(x, y, dim=1, start=2, end=4); x.copy_(z); return z, w + torch.zeros(3)",
            "alias",
            "slice_scatter copy_ add zeros",
        ),
    ),
    "decomposition-strides": (
        Program(
            "copysign",
            "x = torch.rand(3, 7).t(); y = torch.rand(7, 3) + 0.5",
            "return torch.copysign(x, y), torch.floor_divide(y, y)",
            "stride",
            "copysign floor_divide",
        ),
        Program(
            "copysign alone",
            "x = torch.rand(3, 7).t(); y = torch.rand(7, 3)",
            "return torch.copysign(x, y), torch.addr(y, y[:, 0], y[0])",
            "stride",
            "copysign addr getitem",
        ),
    ),
    "strided-bases": (
        Program(
            "strided input and shift",
            "x = torch.rand(3, 16, 16); y = torch.rand(4, 4)",
            f"{_SHIFT}; return x, y.as_strided((4,), (5,)) + 1",
            "value mutation",
            "as_strided add setitem getitem clone",
        ),
        Program(
            "strided sine",
            "x = torch.rand(4, 6)",
            "y = x.sin(); return torch.as_strided(y[:, ::3], (4, 6), y.stride())",
            "value",
            "sin getitem as_strided",
            planted=_SIN,
        ),
    ),
    "addmm-bias": (
        SAME["addmm-dtypes"][0],
        Program(
            "bound behind a product",
            _OTHER_BOUND,
            "return torch.addmm(b, x, w.t()).clamp(max=1e39)",
            "raises",
            "addmm t clamp",
        ),
    ),
    "addmm-dtypes": (
        SAME["addmm-bias"][0],
        Program(
            "bound behind a layer",
            _OTHER_BOUND,
            "return torch.nn.functional.linear(x, w, b).clamp(max=1e39)",
            "raises",
            "linear clamp",
            no_grad=True,
        ),
    ),
    "clamp-bounds": (
        Program(
            "clamped bias",
            "b = torch.rand(12, 1); x = torch.rand(1, 1); w = torch.rand(1, 1)",
            "return torch.addmm(b, x, w).clamp(max=1.0)",
            "raises",
            "addmm clamp",
        ),
        Program(
            "clamped layer",
            "x = torch.rand(1, 1, dtype=torch.float16); w = torch.rand(6, 1); b = torch.rand(6)",
            "return torch.nn.functional.linear(x, w, b).clamp(min=0.0)",
            "raises",
            "linear clamp",
            no_grad=True,
        ),
    ),
    "deviation-precision": (
        Program("deviation of a sine", "x = torch.rand(17)", "return x.sin().std()", "value", "sin std", planted=_SIN),
        Program(
            "deviation beside a shift",
            "x = torch.rand(3, 16, 16); y = torch.rand(17) * 1e-28",
            f"{_SHIFT}; return x, y.std()",
            "value mutation",
            "setitem getitem clone std",
        ),
    ),
    "overwritten-inputs": (
        Program(
            "gradient of a cosine",
            "x = torch.rand(6); y = torch.rand(6, requires_grad=True)",
            "z = y.cos(); x.mul_(0.5); return z",
            "gradient",
            "cos mul_",
            planted=_SIN,
        ),
        Program(
            "overwritten, and a cosine",
            "x = torch.rand(6); y = torch.rand(6, requires_grad=True)",
            "z = (x - y).cos(); x.mul_(0.5); return z",
            "gradient",
            "sub cos mul_",
            planted=_SIN,
        ),
    ),
}
