"""Pinning the model to eager: every modelled operator on every dtype, computed by both and compared.

The model's formulas were read out of kernels and measured, so they hold for the torch release and the
device where this says so.  Where they do not, the operator is no longer modelled at bit level there
(:func:`downgraded`), and proofs that need it fall back to weaker levels.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fxmorph.programs.inputs import dtype_name
from fxmorph.prove.shadow_memory import NotModelled
from fxmorph.prove.smt import concrete
from fxmorph.prove.smt.eager_scalars import DIVISIONS, TRAPPING, bits_differ, evaluate
from fxmorph.prove.smt.scalars import Op, Slot, Var, _argument_text
from fxmorph.prove.smt.sorts import FLOATS, INTEGERS

#: What differs from the model, by torch release and device: (operator, dtype).
#: ``fxmorph prove --conformance --device DEVICE`` measures them.
MISMATCHES: dict[tuple[str, str], frozenset[tuple[str, str]]] = {
    **{(release, "cpu"): frozenset() for release in ("2.6", "2.8", "2.10", "2.13", "2.15")},
    # An H200: relu and clamp make +0 of -0, float32 sqrt is not correctly rounded, x / scalar multiplies by
    # the reciprocal, 16-bit sums with a scalar do not round the scalar first.
    ("2.11", "cuda"): frozenset(
        (operator, dtype)
        for operators, dtypes in (
            ("add sub", "float16 bfloat16"),
            ("threshold", "float16 bfloat16"),
            ("pow", "float16 float32 float64"),
            ("div sqrt rsqrt", "float32 float64"),
            ("relu relu6 clamp addcmul addcdiv", "float16 bfloat16 float32 float64"),
        )
        for operator in operators.split()
        for dtype in dtypes.split()
    ),
}

#: The release whose divisions are known to be safe but for those that ``evaluate`` refuses.
MEASURED_ON = "2.13"

_found: set[tuple[str, str, str]] = set()


@dataclass(frozen=True)
class Conformed:
    """One operator with its arguments on one dtype.

    ``agrees``: on every value tried, in vector loops, their tails and scalar loops.  ``by_lane``: eager's
    own answer depends on which of them an element is computed in (the model leaves it open).  ``inputs``,
    ``model`` and ``eager`` show the first difference; ``note`` says why nothing was compared.
    """

    operator: str
    arguments: str
    dtype: str
    agrees: bool
    by_lane: bool = False
    compared: int = 0
    inputs: tuple[Any, ...] = ()
    model: Any = None
    eager: Any = None
    note: str = ""

    @property
    def consequence(self) -> str:
        """What a difference leads to."""
        return "" if self.agrees else f"{self.operator} of {self.dtype} is uninterpreted at bit level"


def release() -> str:
    """``2.13`` of ``2.13.0+cpu``."""
    version = torch.__version__
    return ".".join(version.split("+")[0].split(".")[:2])


def pinned(device: str) -> bool:
    """Whether the model was compared with eager on this release and device."""
    return (release(), device) in MISMATCHES


def downgraded(operator: str, dtype: torch.dtype, device: str = "cpu") -> bool:
    """Whether an operator on a dtype is not to be modelled at bit level: known to differ, or found and adopted.

    On a device other than the CPU, which the model was made of, that is all where nothing was compared.
    """
    key = (operator, dtype_name(dtype))
    if device != "cpu" and not pinned(device):
        return True
    return (*key, device) in _found or key in MISMATCHES.get((release(), device), ())


def adopt(rows: Iterable[Conformed], device: str = "cpu") -> frozenset[tuple[str, str, str]]:
    """Downgrade, in this process, what ``rows`` say differs on ``device``.  Returns what is downgraded."""
    _found.update((r.operator, r.dtype, device) for r in rows if not r.agrees)
    return frozenset(_found)


# -- what is compared -------------------------------------------------------------

_ONE: dict[str, Any] = {"self": Slot(0)}
_TWO: dict[str, Any] = {"self": Slot(0), "other": Slot(1)}
_SCALARS = (0.1, 3.0, -1.0, 1 / 3, 2.0)
_ADDED = {"self": Slot(0), "tensor1": Slot(1), "tensor2": Slot(2)}


def _float_rows() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """(operator, arguments, whether it gives Booleans)."""
    for name in "neg abs floor ceil trunc round sqrt rsqrt reciprocal square sign relu relu6".split():
        yield name, _ONE, False
    yield "nan_to_num", _ONE, False
    yield "nan_to_num", {"self": Slot(0), "nan": 2.0, "posinf": 3.0, "neginf": -0.1}, False
    for name in "isnan isinf isfinite isposinf isneginf logical_not".split():
        yield name, _ONE, True
    for name in "add sub mul div maximum minimum fmax fmin remainder fmod floor_divide copysign".split():
        yield name, _TWO, False
    for name in "lt le gt ge eq ne logical_and logical_or logical_xor".split():
        yield name, _TWO, True
    for scalar in _SCALARS:
        given = {"self": Slot(0), "other": scalar}
        for name in "add sub mul div remainder fmod".split():
            yield name, given, False
        yield "sub", {"self": scalar, "other": Slot(0)}, False
        for name in "lt le eq ge".split():
            yield name, given, True
    for alpha in (2, 0.1, -3):
        yield "add", {**_TWO, "alpha": alpha}, False
        yield "sub", {**_TWO, "alpha": alpha}, False
    for mode in ("trunc", "floor"):
        yield "div", {**_TWO, "rounding_mode": mode}, False
        yield "div", {"self": Slot(0), "other": 0.1, "rounding_mode": mode}, False
    for exponent in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.0):
        yield "pow", {"self": Slot(0), "exponent": exponent}, False
    for low, high in ((0.0, None), (None, 0.0), (-1, 1), (0.1, 6.0), (2.0, 1.0)):
        bounds = {"min": low} if high is None else {"max": high} if low is None else {"min": low, "max": high}
        yield "clamp", {"self": Slot(0), **bounds}, False
    yield "clamp", {"self": Slot(0), "min": Slot(1), "max": Slot(2)}, False
    yield "clamp_min", {"self": Slot(0), "min": 0.1}, False
    yield "clamp_max", {"self": Slot(0), "max": 0.1}, False
    yield "hardtanh", _ONE, False
    for threshold in (0.1, 0.3):
        yield "threshold", {"self": Slot(0), "threshold": threshold, "value": 20.0}, False
    yield "threshold_backward", {"grad_output": Slot(0), "self": Slot(1), "threshold": 0}, False
    yield "leaky_relu", _ONE, False
    yield "leaky_relu", {"self": Slot(0), "negative_slope": 0.2}, False
    yield "heaviside", {"self": Slot(0), "values": Slot(1)}, False
    for value in (1, 2, 0.1):
        yield "addcmul", {**_ADDED, "value": value}, False
        yield "addcdiv", {**_ADDED, "value": value}, False
    yield "lerp", {"self": Slot(0), "end": Slot(1), "weight": Slot(2)}, False
    for weight in (0.3, 0.5, 0.7, 2.0):
        yield "lerp", {"self": Slot(0), "end": Slot(1), "weight": weight}, False


def _integer_rows() -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name in "neg abs square sign relu bitwise_not floor ceil trunc positive".split():
        yield name, _ONE, False
    yield "logical_not", _ONE, True
    for name in (
        "add sub mul maximum minimum remainder fmod floor_divide bitwise_and bitwise_or bitwise_xor"
        " bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ fmax fmin"
    ).split():
        yield name, _TWO, False
    for name in "lt le gt ge eq ne logical_and logical_or logical_xor".split():
        yield name, _TWO, True
    for mode in ("trunc", "floor"):
        yield "div", {**_TWO, "rounding_mode": mode}, False
        for scalar in (4, -3, 7):
            yield "div", {"self": Slot(0), "other": scalar, "rounding_mode": mode}, False
    for scalar in (3, -1, 4):
        for name in "add sub mul remainder fmod".split():
            yield name, {"self": Slot(0), "other": scalar}, False
    for scalar in (1, 3, 7, 9):
        yield "bitwise_left_shift", {"self": Slot(0), "other": scalar}, False
        yield "bitwise_right_shift", {"self": Slot(0), "other": scalar}, False
    for exponent in (0, 1, 2, 3):
        yield "pow", {"self": Slot(0), "exponent": exponent}, False
    yield "add", {**_TWO, "alpha": 3}, False
    yield "sub", {**_TWO, "alpha": 3}, False
    yield "clamp", {"self": Slot(0), "min": 0, "max": 5}, False
    yield "clamp_min", {"self": Slot(0), "min": 2}, False
    yield "clamp", {"self": Slot(0), "min": Slot(1), "max": Slot(2)}, False
    yield "addcmul", {**_ADDED, "value": 3}, False
    yield "heaviside", {"self": Slot(0), "values": Slot(1)}, False


def _boolean_rows() -> Iterator[tuple[str, dict[str, Any], bool]]:
    for name in "add mul maximum minimum bitwise_and bitwise_or bitwise_xor eq ne lt le gt ge logical_and".split():
        yield name, _TWO, True
    yield "bitwise_not", _ONE, True
    yield "logical_not", _ONE, True


def _rows() -> Iterator[tuple[Op, tuple[torch.dtype, ...]]]:
    """Applications of operators, with the dtypes of their operands."""
    groups = ((FLOATS, _float_rows), (INTEGERS, _integer_rows), ((torch.bool,), _boolean_rows))
    for dtypes, rows in groups:
        for dtype, (name, given, truth) in itertools.product(dtypes, list(rows())):
            # Negative scalars do not fit uint8: what eager does with them is its own affair.
            if dtype == torch.uint8 and any(isinstance(v, int) and v < 0 for v in given.values()):
                continue
            slots = sum(isinstance(v, Slot) for v in given.values())
            operands = tuple(Var(i, dtype) for i in range(slots))
            yield Op(name, tuple(sorted(given.items())), torch.bool if truth else dtype, operands), (dtype,) * slots
        for dtype in dtypes:
            operands = (Var(0, torch.bool), Var(1, dtype), Var(2, dtype))
            arguments = (("condition", Slot(0)), ("other", Slot(2)), ("self", Slot(1)))
            yield Op("where", arguments, dtype, operands), (torch.bool, dtype, dtype)
            for name in ("amax", "amin"):
                yield Op(name, (), dtype, tuple(Var(i, dtype) for i in range(3))), (dtype,) * 3
    for old, new in itertools.permutations((*FLOATS, *INTEGERS, torch.bool), 2):
        yield Op("cast", (("self", Slot(0)),), new, (Var(0, old),)), (old,)


# -- on which values ----------------------------------------------------------------

_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 0.1, -7.25, 100.0, 255.0, 257.0, 2049.0, 65504.0,
            1e-5, float("inf"), -float("inf"), float("nan"))  # fmt: skip
_RANDOM, _SINGLES = 700, 60


def _column(dtype: torch.dtype, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Special values of a dtype, and random ones."""
    if dtype == torch.bool:
        return torch.tensor([False, True]), torch.rand(_RANDOM, generator=generator) > 0.5
    if dtype in INTEGERS:
        info = torch.iinfo(dtype)
        low = [info.min, info.min + 1, -129, -128, -100, -8, -7, -3, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 63, 64]
        special = sorted({v for v in [*low, 100, 127, 128, 255, info.max - 1, info.max] if info.min <= v <= info.max})
        wide = torch.randint(-(2**62), 2**62, (_RANDOM,), generator=generator)
        wide = wide >> torch.randint(0, 62, (_RANDOM,), generator=generator)
        return torch.tensor(special, dtype=dtype), wide.to(dtype)
    limits = torch.finfo(dtype)
    extremes = [limits.max, -limits.max, limits.tiny, limits.tiny / 2, -limits.tiny * limits.eps, 1 + limits.eps]
    special_values = torch.tensor([*_SPECIAL, *extremes], dtype=torch.float64).to(dtype)
    half = _RANDOM // 2
    powers = torch.randint(-12, 12, (half,), generator=generator).double().exp2()
    plain = torch.randn(half, generator=generator, dtype=torch.float64) * powers
    view = {2: torch.int16, 4: torch.int32, 8: torch.int64}[plain.to(dtype).element_size()]
    bits = torch.randint(-(2**62), 2**62, (_RANDOM - half,), generator=generator) * 2 + 1
    bits ^= torch.randint(0, 2**40, (_RANDOM - half,), generator=generator)
    patterns = bits.to(view).view(dtype)
    # Signalling NaNs are beyond the model, which has one NaN.
    patterns = torch.where(patterns.isnan(), torch.full_like(patterns, float("nan")), patterns)
    return special_values, torch.cat([plain.to(dtype), patterns])


def _samples(dtypes: tuple[torch.dtype, ...]) -> list[torch.Tensor]:
    """Combinations of special values (all, or some of those of three operands) and random ones.

    Of one 16-bit float all values.
    """
    if dtypes in ((torch.float16,), (torch.bfloat16,)):
        every = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtypes[0])
        return [torch.where(every.isnan(), torch.full_like(every, float("nan")), every)]
    generator = torch.Generator().manual_seed(20260101)
    columns = [_column(d, generator) for d in dtypes]
    picked = torch.cartesian_prod(*[torch.arange(len(s)) for s, _ in columns]).reshape(-1, len(dtypes))
    if len(picked) > 1600:
        picked = picked[torch.randperm(len(picked), generator=generator)[:1600]]
    out = [torch.cat([s[picked[:, i]], r]) for i, (s, r) in enumerate(columns)]
    return out


def _numbers(t: torch.Tensor) -> Any:
    """A tensor as ``concrete`` wants it."""
    if t.is_floating_point():
        return t.double().numpy()
    if t.dtype == torch.bool:
        return t.numpy()
    return t.long().numpy().astype(np.uint64) & np.uint64((1 << INTEGERS[t.dtype]) - 1)


def _tensor(values: Any, dtype: torch.dtype) -> torch.Tensor:
    """Values of ``concrete`` as a tensor; floats are elements of ``dtype`` already."""
    if dtype in FLOATS or dtype == torch.bool:
        return torch.from_numpy(np.array(values)).to(dtype)
    return torch.from_numpy(np.array(values).astype(np.int64)).to(dtype)


# -- comparing ------------------------------------------------------------------------


def conformance(device: str = "cpu", operators: Iterable[str] = ()) -> list[Conformed]:
    """Model and eager on ``device`` compared; of ``operators`` only where given."""
    wanted = set(operators)
    return [_compared(node, dtypes, device) for node, dtypes in _rows() if not wanted or node.name in wanted]


def _compared(node: Op, dtypes: tuple[torch.dtype, ...], device: str) -> Conformed:
    from fxmorph.prove.smt.scalar_model import Translation

    name = dtype_name(dtypes[0] if node.name != "where" else node.dtype)
    arguments = " ".join(f"{k}={v if isinstance(v, float) else _argument_text(v)}" for k, v in node.arguments)
    if node.name == "cast":
        arguments = f"to {dtype_name(node.dtype)}"
    row = Conformed(node.name, arguments, name, True)
    columns = _samples(dtypes)
    translation = Translation(dtypes)
    ctx = translation.context
    term = translation.term(node)
    keep = np.ones(len(columns[0]), dtype=bool)
    try:
        for condition in [*(c for _, c in ctx.needed), *ctx.ranges]:
            keep &= _model(condition, columns, {})
        keep &= ~_trapping(node, columns).numpy()
        columns = [c[torch.from_numpy(keep)] for c in columns]
        models = [
            _tensor(_model(term, columns, dict(zip(_choices(ctx.choices), chosen, strict=True))), node.dtype)
            for chosen in itertools.product((False, True), repeat=ctx.choices)
        ]
    except concrete.NotConcrete as error:
        return _noted(row, f"uninterpreted: {error}")
    there = [c.to(device) for c in columns]
    try:
        eagers = [evaluate(node, there), evaluate(node, [c.roll(5) for c in there]).roll(-5)]
        eagers.append(evaluate(node, there, scattered=True))
        # One by one, as the tail of a vectorised loop: two zeros are among the first.
        singles = [evaluate(node, [c[i : i + 1] for c in there]) for i in range(min(_SINGLES, len(there[0])))]
        if singles:
            eagers.append(torch.cat([*singles, eagers[0][len(singles) :]]))
    except (NotModelled, RuntimeError, TypeError) as error:
        return _noted(row, f"eager: {str(error).splitlines()[0]}")
    eagers = [e.cpu() for e in eagers]
    lanes = any(bool(bits_differ(eagers[0], e).any()) for e in eagers[1:])
    for eager in eagers:
        wrong = torch.stack([bits_differ(m, eager) for m in models]).all(0)
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            inputs = tuple(c[i].item() for c in columns)
            return Conformed(
                node.name, arguments, name, False, lanes, len(eager), inputs, models[0][i].item(), eager[i].item()
            )
    return Conformed(node.name, arguments, name, True, lanes, len(columns[0]))


def _trapping(node: Op, columns: list[torch.Tensor]) -> torch.Tensor:
    """Where the least integer is divided by -1: releases differ in which of such divisions end the process."""
    given = dict(node.arguments)
    if node.name not in DIVISIONS or node.dtype not in TRAPPING or release() == MEASURED_ON:
        return torch.zeros(len(columns[0]), dtype=torch.bool)
    above, below = (
        columns[v.number] if isinstance(v, Slot) else torch.full_like(columns[0], v)
        for v in (given["self"], given["other"])
    )
    return (above == torch.iinfo(node.dtype).min) & (below == -1)


def _noted(row: Conformed, note: str) -> Conformed:
    return Conformed(row.operator, row.arguments, row.dtype, True, note=note)


def _choices(count: int) -> list[str]:
    return [f"choice_{i + 1}" for i in range(count)]


def _model(term: Any, columns: list[torch.Tensor], choices: dict[str, bool]) -> Any:
    values = {f"v{i}": _numbers(c) for i, c in enumerate(columns)}
    values.update({k: np.bool_(v) for k, v in choices.items()})
    return concrete.evaluate(term, values, len(columns[0]), zero=("uf_out_of_range_",))
