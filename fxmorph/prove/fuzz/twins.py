"""Pairs of functions that are alike for ordinary arguments and not for all: what one takes for the other is wrong.

Around the two sides of a right rule they make a wrong one that an engine shows if it shares the mistake.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fxmorph.model import FLOATS, INTS
from fxmorph.rules import Rule


@dataclass(frozen=True)
class Twin:
    """Statements for one side and the other, ``{name}`` standing for a number that is drawn from ``values``.

    ``$call`` is the side's own result, ``$0`` and ``$1`` its first and last tensor.  It needs so many ``arguments``, is
    of dtypes of floating point, of integers, or of any (``of``), or of rules with integer arguments (``mixed``).
    ``either_way``: it makes no difference which function is on which side.
    """

    family: str
    left: str
    right: str
    values: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    of: str = "any"
    arguments: int = 0
    mixed: bool = False
    either_way: bool = True

    def fits(self, rule: Rule) -> bool:
        """Whether it may be put around the sides of a rule."""
        among = {"float": FLOATS, "int": INTS}.get(self.of, rule.dtypes)
        if rule.site == "late" or not set(rule.dtypes) <= set(among):
            return False
        return len(rule.args) >= self.arguments and rule.mixed >= self.mixed

    def drawn(self, rng: random.Random) -> dict[str, Any]:
        """A number for each name."""
        return {name: rng.choice(among) for name, among in self.values.items()}


def _result(family: str, left: str, right: str, values: Mapping[str, Sequence[Any]] | None = None, **said: Any) -> Twin:
    """Expressions in the side's result ``t``."""
    before, after = (f"t = $call\nreturn {text}" for text in (left, right))
    return Twin(family, before, after, values or {}, **{"of": "float", **said})


_SMALL = (2, 3, 5, 7, 16, 25, 100)
_INTEGERS = [
    _result("integers", "(t.to(torch.int8) * {k}).to(t.dtype)", "t.to(torch.int8).to(t.dtype) * {k}", {"k": _SMALL}),
    _result("integers", "(t.to(torch.int8) + {k}).to(t.dtype)", "t.to(torch.int8).to(t.dtype) + {k}",
            {"k": (90, 100, 120, 126)}),
    _result("integers", "(t.to(torch.int16) * {k}).to(t.dtype)", "t.to(torch.int16).to(t.dtype) * {k}",
            {"k": (300, 1000, 20000)}),
    _result("integers", "(t.to(torch.int32) << {k}).to(t.dtype)", "t.to(torch.int32).to(t.dtype) * 2.0**{k}",
            {"k": (26, 28, 30)}),
    _result("integers", "t.to(torch.int32).to(torch.int8).to(t.dtype)", "t.to(torch.int32).to(t.dtype)"),
    _result("integers", "t.to(torch.int64).to(torch.uint8).to(t.dtype)", "t.to(torch.int64).to(t.dtype)"),
    _result("integers", "(t.to(torch.int32) // {k}).to(t.dtype)", "torch.trunc(t.to(torch.int32) / {k}).to(t.dtype)",
            {"k": _SMALL}),
    _result("integers", "torch.remainder(t.to(torch.int32), {k}).to(t.dtype)",
            "torch.fmod(t.to(torch.int32), {k}).to(t.dtype)", {"k": _SMALL}),
    _result("integers", "(t.to(torch.int32) >> {k}).to(t.dtype)", "(t.to(torch.int32) / 2.0**{k}).trunc().to(t.dtype)",
            {"k": (1, 2, 3)}),
    _result("integers", "-(t.to(torch.int8)).to(t.dtype).abs()", "-(t.to(torch.int8).abs()).to(t.dtype)"),
    _result("integers", "t * {k} // {k}", "t", {"k": _SMALL}, of="int"),
    _result("integers", "t.to(torch.int8).to(t.dtype)", "t", of="int"),
    _result("integers", "t >> {k}", "torch.div(t, 2**{k}, rounding_mode='trunc')", {"k": (1, 2, 3)}, of="int"),
    _result("integers", "t // {k}", "torch.div(t, {k}, rounding_mode='trunc')", {"k": _SMALL}, of="int"),
    _result("integers", "t.to(torch.float32).to(t.dtype)", "t", of="int"),
    _result("integers", "(t * t).to(torch.float64).sqrt().to(t.dtype)", "t.abs()", of="int"),
    _result("integers", "torch.clamp(t, max={k}) + 0", "t", {"k": (10, 100, 125)}, of="int"),
]  # fmt: skip
_FAR = (3.0, 6.0, 12.0, 20.0, 45.0)
_BRANCHES = [
    _result("branch", "torch.nn.functional.softplus(t, {b}, {c})", "torch.log1p(torch.exp(t * {b})) / {b}",
            {"b": (1, 0.5, 2), "c": (3, 5, 8)}),
    _result("branch", "torch.nn.functional.softplus(t, 1, {c})", "torch.nn.functional.softplus(t, 1, {c} + 1)",
            {"c": (2, 3, 5)}),
    _result("branch", "torch.clamp(t, -{c}, {c})", "t", {"c": _FAR}),
    _result("branch", "torch.clamp(t, max={c})", "torch.clamp(t, max={c} + 0.5)", {"c": _FAR}),
    _result("branch", "torch.nn.functional.hardshrink(t, {c})", "torch.nn.functional.hardshrink(t, {d})",
            {"c": (0.5, 0.25), "d": (0.4999, 0.51, 0.3)}),
    _result("branch", "torch.nn.functional.threshold(t, -{c}, 1.0)", "t", {"c": _FAR}),
    _result("branch", "torch.nn.functional.hardtanh(t, -{c}, {c})", "t", {"c": _FAR}),
    _result("branch", "torch.nn.functional.relu6(t)", "torch.relu(t)"),
    _result("branch", "torch.nn.functional.elu(t, {c})", "torch.where(t > 0, t, torch.expm1(t))", {"c": (1.001, 0.99)}),
    _result("branch", "torch.nn.functional.celu(t, {c})", "torch.nn.functional.elu(t, {c})", {"c": (2.0, 0.5)}),
    _result("branch", "torch.nn.functional.hardswish(t)", "torch.where(t > -3, t * (t + 3) / 6, 0)"),
    _result("branch", "torch.nn.functional.hardsigmoid(t)", "torch.clamp(t / 6 + 0.5, min=0)"),
    _result("branch", "torch.where(t.abs() > {c}, -t, t)", "t", {"c": _FAR}),
    _result("branch", "torch.where(t == {c}, -t, t)", "t", {"c": (0.5, 3.0, 7.0, 100.0, 0.1, 1.5)}),
    _result("branch", "torch.nan_to_num(t, posinf={c})", "t", {"c": _FAR}),
    _result("branch", "torch.round(t, decimals={k})", "torch.round(t * 10**{k}) / 10.0**{k}", {"k": (1, 2)}),
    _result("branch", "torch.nn.functional.leaky_relu(t, {c})", "torch.relu(t) + {c} * torch.minimum(t, t * 0)",
            {"c": (0.01, 0.2)}),
    _result("branch", "torch.nn.functional.softshrink(t, {c})", "t - torch.clamp(t, -{c}, {d})",
            {"c": (0.5, 0.25), "d": (0.5, 0.26)}),
    _result("branch", "torch.bucketize(t, torch.tensor([-{c}, 0.0, {c}], dtype=t.dtype)).to(t.dtype)",
            "torch.bucketize(t, torch.tensor([-{c}, 0.0], dtype=t.dtype)).to(t.dtype)", {"c": _FAR}),
]  # fmt: skip
_ROUNDED = [0.1, 1 / 3, math.pi, math.e, 0.7, math.log(2), math.sqrt(2), 1e-3, 1.1]
_CONSTANTS = [
    _result("constant", "t / {k}", "t * {c}", {"k": (3.0,), "c": (0.3333333432674408, 0.333333, 0.33333333333)}),
    _result("constant", "t / {k}", "t * {c}", {"k": (7.0,), "c": (0.1428571492433548, 0.142857, 0.142857142857)}),
    _result("constant", "t * 3.141592653589793", "t * {c}", {"c": (3.1415927410125732, 3.14159265, 3.1416)}),
    _result("constant", "t * 0.1", "t * {c}", {"c": (0.10000000149011612, 0.1000000001)}),
    _result("constant", "t + 0.7", "t + {c}", {"c": (0.699999988079071, 0.7000001)}),
    _result("constant", "t * torch.tensor({c}, dtype=torch.float32)", "t * {c}", {"c": _ROUNDED}),
    _result("constant", "t * torch.tensor({c}, dtype=torch.float16).item()", "t * {c}", {"c": _ROUNDED}),
    _result("constant", "t / math.sqrt({k})", "t * {c}", {"k": (2.0,), "c": (0.70710677, 0.7071067690849304)}),
    _result("constant", "torch.exp(t)", "torch.exp2(t * {c})", {"c": (1.4426950216293335, 1.442695, 1.4427)}),
    _result("constant", "torch.log(t)", "torch.log2(t) * {c}", {"c": (0.6931471824645996, 0.693147, 0.6931)}),
]  # fmt: skip
#: Kernels that were seen to give other bits in other lanes, and some that may.
_KERNELS = (
    "torch.sinh torch.cosh torch.tan torch.exp torch.log1p torch.lgamma torch.erf torch.sigmoid torch.tanh torch.sin "
    "torch.nn.functional.mish torch.nn.functional.silu torch.nn.functional.gelu torch.logit torch.erfinv torch.expm1 "
    "torch.digamma torch.rsqrt torch.asinh torch.nn.functional.softplus torch.nn.functional.logsigmoid torch.exp2"
).split()
_LANES = [
    _result("lane", "{f}(t)", "{f}(torch.stack([t, t], -1)[..., 0])", {"f": _KERNELS}, either_way=False),
    _result("lane", "{f}(t)", "{f}(t.T.contiguous()).T if t.ndim == 2 else {f}(t)", {"f": _KERNELS}),
    _result("lane", "{f}(t)", "torch.cat([{f}(t[:1]), {f}(t[1:])]) if t.ndim else {f}(t)", {"f": _KERNELS}),
    _result("lane", "{f}(t)", "{f}(t.flatten().repeat(3))[: t.numel()].reshape(t.shape)", {"f": _KERNELS}),
    _result("lane", "torch.{g}(t, t + 1)", "torch.{g}(torch.stack([t, t])[0], torch.stack([t + 1, t], -1)[..., 0])",
            {"g": ("atan2", "logaddexp", "hypot", "pow", "fmod", "logaddexp2", "nextafter", "xlogy")}),
    _result("lane", "t.sum(-1) if t.ndim else t", "t.flip(-1).sum(-1) if t.ndim else t"),
    _result("lane", "t.cumsum(0) if t.ndim else t", "t.contiguous().cumsum(0) if t.ndim else t"),
]  # fmt: skip
_MIXED = [
    Twin("mixed", "if $a.dtype == torch.int64:\n    $a = $a{change}\nreturn $call".replace("$a", which), "return $call",
         {"change": (".abs()", ".clamp(min=0)", ".clamp(max=1)", f" * {which}", " % 3", " // 2 * 2", " & 1",
                     ".to(torch.int8).long()", ".to(torch.uint8).long()", ".clamp(max=3)", ".bool().long()")},
         mixed=True)
    for which in ("$0", "$1")
] + [
    Twin("mixed", "$0 = $0{change}\nreturn $call", "return $call",
         {"change": (".to(torch.float16).to($0.dtype)", ".to(torch.bfloat16).to($0.dtype)")}, mixed=True),
]  # fmt: skip
_OFFSETS = [
    Twin("offset", "$0 = $0.as_strided($0.shape, $0.stride(), {k})\nreturn $call", "return $call", {"k": (0,)}),
    Twin("offset", "return $call + $0.storage_offset() // {k}", "return $call", {"k": (1, 2)}),
    Twin("offset", "return $call if $0.is_contiguous() else -$call", "return $call"),
    Twin("offset", "return -$call if $0.stride()[-1:] == ({k},) else $call", "return $call", {"k": (0, 2)}),
    Twin("offset", "$0 = $0.as_strided($0.shape, $0.contiguous().stride(), $0.storage_offset())\nreturn $call",
         "return $call"),
    Twin("offset", "return $call + ($0.untyped_storage().nbytes() > $0.numel() * $0.element_size())", "return $call"),
]  # fmt: skip
_ALIASES = [
    Twin("alias", "scratch = $1\nscratch.mul_(2)\n$1 = scratch * 0.5\nt = $call.clone()\n"
         "scratch.mul_(0.5)\nreturn t", "return $call", arguments=2, either_way=False),
    Twin("alias", "kept, scratch = $1.clone(), $1\nscratch.fill_({k})\n$1 = kept\n"
         "t = $call.clone()\nscratch.copy_(kept)\nreturn t",
         "return $call", {"k": (0, 1)}, arguments=2, either_way=False),
    Twin("alias", "return -$call if $0.data_ptr() == $1.data_ptr() else $call", "return $call", arguments=2),
]  # fmt: skip
_OF_SIZE = ("$call.flip(-1)", "-$call", "$call + 1", "$call * 2")
_SIZED = "n = $0.shape[-1] if $0.ndim else 1\n"
_TEXTS = [
    Twin("text", _SIZED + "return {wrong} if {asked} else $call", "return $call",
         {"asked": ("len(str(n)) > 1", "len(str(n)) > 2", "repr(n) == '6'", "'1' in str(n)", "hash(n) == 9",
                    "f'{n}'.endswith('7')", "type(n) is int", "isinstance(n, int)", "id(n) == id(5)",
                    "n.bit_length() > 3"),
          "wrong": _OF_SIZE}),
]  # fmt: skip
_SIZES = [
    Twin("size", _SIZED + "return {wrong} if n > {k} else $call", "return $call",
         {"k": (7, 12, 16, 24, 32, 64, 100, 128, 256, 1024), "wrong": _OF_SIZE}),
    Twin("size", _SIZED + "return {wrong} if n == {k} else $call", "return $call",
         {"k": (0, 1, 2, 4, 5, 16, 32), "wrong": _OF_SIZE}),
    Twin("size", _SIZED + "return {wrong} if n % {k} == 1 and n > {k} else $call", "return $call",
         {"k": (2, 4, 8, 16), "wrong": _OF_SIZE}),
    Twin("size", "return {wrong} if $0.numel() > {k} else $call", "return $call",
         {"k": (64, 200, 1000, 2000), "wrong": _OF_SIZE}),
    Twin("size", "return {wrong} if $0.ndim == {k} else $call", "return $call",
         {"k": (0, 1, 3, 4), "wrong": _OF_SIZE[1:]}),
]  # fmt: skip
_TIES = [
    _result("tie", "torch.where({k} * t > {c}, t, -t)", "torch.where({k} * t >= {c}, t, -t)",
            {"k": (1, 2, 4, 0.5), "c": (1, 2.5, 0.75, 5.3, 0.3, 3)}),
    _result("tie", "torch.where(t + {c} > {k}, t, 0)", "torch.where(t + {c} >= {k}, t, 0)",
            {"k": (1, 2, 4, 0.5), "c": (1, 2.5, 0.75, 3)}),
    _result("tie", "torch.where(t * t > {k}, t, 0)", "torch.where(t * t >= {k}, t, 0)", {"k": (1, 4, 2.25, 0.25)}),
    _result("tie", "torch.round(t)", "torch.floor(t + 0.5)"),
    _result("tie", "torch.heaviside(t, t * 0 + {c})", "torch.heaviside(t, t * 0 + {k})", {"c": (0.5,), "k": (0, 1)}),
    _result("tie", "t.argmax(-1) if t.ndim else t", "t.shape[-1] - 1 - t.flip(-1).argmax(-1) if t.ndim else t"),
    _result("tie", "torch.sign(t) * t", "torch.where(t - {c} > 0, t, torch.where(t - {c} >= 0, -t, torch.sign(t) * t))",
            {"c": (1.0, 0.5, 2.0, 1.25)}),
]  # fmt: skip
_GUARDS = [
    _result("guard", "torch.where(torch.isnan(torch.log(t + {c})), 0, t)", "t", {"c": (10, 50, 100, 3)}),
    _result("guard", "torch.nan_to_num(t)", "t"),
    _result("guard", "torch.where(t != t, 0, t)", "t"),
    _result("guard", "torch.where(torch.isinf(torch.exp(t * {c})), 0, t)", "t", {"c": (1, 8, 100)}),
    _result("guard", "torch.where(torch.isfinite({c} / t), t, 1)", "t", {"c": (1, 2)}),
    _result("guard", "torch.sqrt(t * t)", "t.nan_to_num(1).abs()"),
    _result("guard", "torch.where(torch.isnan(torch.sqrt(t + {c})), -t, t)", "t", {"c": (4, 20, 60)}),
    _result("guard", "torch.where(torch.isnan(torch.acos(t / {c})), -t, t)", "t", {"c": (4, 20, 60)}),
]  # fmt: skip

TWINS = (
    *_INTEGERS, *_BRANCHES, *_CONSTANTS, *_LANES, *_MIXED, *_OFFSETS, *_ALIASES, *_TEXTS, *_SIZES, *_TIES, *_GUARDS,
)  # fmt: skip
