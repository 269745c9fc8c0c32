"""Inputs as short Python source that needs only torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.model import ValuePlan
from fxmorph.programs.graph import function_of, imports_of
from fxmorph.programs.inputs import FLOATING, InputSet, dtype_name, flat_storage
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.storages import storage_key

#: Tensors with more elements than this are not written out value by value.
LITERAL_NUMEL = 256


@dataclass(frozen=True)
class Spelling:
    """How :func:`make_inputs_text` writes its parts.

    ``memory``: 1-D memory with the values that are to be in it; ``ending``: what follows a view of memory, given the
    input; ``other``: what is no tensor; ``returned``: the list of all inputs; ``alone``: a contiguous tensor that is
    all of its memory and shares it with no other input (None: as a view too).
    """

    memory: Callable[[torch.Tensor], str]
    ending: Callable[[torch.Tensor], str]
    other: Callable[[Any], str]
    returned: Callable[[Sequence[str]], str]
    alone: Callable[[torch.Tensor], str] | None = None


def make_inputs_text(values: Sequence[Any], spelling: Spelling) -> str:
    """``def make_inputs()`` that returns a list of inputs with the shapes, strides, offsets and shared memory of these.

    What the parts of ``spelling`` raise passes through.
    """
    keys = [storage_key(v) for v in values if isinstance(v, torch.Tensor)]
    lines: list[str] = []
    memories: dict[int, tuple[str, torch.dtype]] = {}
    items: list[str] = []
    for value in values:
        if not isinstance(value, torch.Tensor):
            items.append(spelling.other(value))
            continue
        key = storage_key(value)
        if spelling.alone is not None and value.is_contiguous() and _whole(value) and keys.count(key) == 1:
            items.append(spelling.alone(value))
            continue
        if key not in memories:
            memories[key] = f"memory{len(memories)}", value.dtype
            lines.append(f"    {memories[key][0]} = {spelling.memory(flat_storage(value.detach()))}\n")
        name, dtype = memories[key]
        cast = "" if value.dtype == dtype else f".view({value.dtype})"
        where = f"{tuple(value.shape)}, {tuple(value.stride())}, {int(value.storage_offset())}"
        items.append(f"{name}{cast}.as_strided({where})" + spelling.ending(value))
    return f"def make_inputs():\n{''.join(lines)}    return {spelling.returned(items)}\n"


def seed_file_text(made: str, body: str, meta: Mapping[str, Any], doc: str, origin: str) -> str:
    """A seed file of ``make_inputs`` and the text of a graph."""
    said = " ".join(doc.split()).replace("\\", "/").replace('"""', "'''").strip().rstrip('"')
    head = f'"""{said}"""\n\n{imports_of(body)}import torch\n\nORIGIN = {origin!r}\n'
    head += f"META = {dict(meta)!r}\n" if meta else ""
    return f"{head}\n\n{made}\n\n{body}"


def drive_text(contexts: str) -> str:
    """``def drive(g, *inputs)`` that calls the program inside of context managers."""
    return f"def drive(g, *inputs):\n    with {contexts}:\n        return g(*inputs)\n"


class _NotInStyle(Exception):
    """The style cannot express the values."""


def inputs_text(inputs: InputSet, style: str, plan: ValuePlan) -> str | None:
    """``def make_inputs()`` for the input set; None where the style cannot express it.

    Styles, simplest first: ``arange`` (small distinct values), ``random`` (under the RNG seed
    that the caller sets), ``literal`` (values written out), ``bytes`` (any value, as a hex string).
    """

    def memory(flat: torch.Tensor) -> str:
        made = _flat_text(flat, style, plan)
        if made is None:
            raise _NotInStyle
        return made

    def alone(t: torch.Tensor) -> str:
        shape = ", ".join(map(str, t.shape)) if t.ndim else "()"
        reshaped = "" if t.ndim == 1 else f".reshape({shape})"
        return memory(flat_storage(t.detach())) + reshaped + (".requires_grad_()" if t.requires_grad else "")

    def ending(t: torch.Tensor) -> str:
        return ".detach().requires_grad_()" if t.requires_grad else ""

    try:
        return make_inputs_text(inputs.rebuild(), Spelling(memory, ending, repr, _packed, alone))
    except _NotInStyle:
        return None


def _packed(items: Sequence[str]) -> str:
    """The list on one line where it fits, else as many items a line as fit."""
    line = ", ".join(items)
    return f"[{line}]" if len(line) < 90 else f"[\n{_rows(items)}    ]"


def _rows(items: Sequence[str]) -> str:
    """List items, as many a line as fit."""
    rows = [""]
    for item in items:
        if rows[-1] and len(f"{rows[-1]} {item},") > 108:
            rows.append("")
        rows[-1] += f" {item},"
    return "".join(f"       {row}\n" for row in rows)


def _whole(t: torch.Tensor) -> bool:
    """Whether the tensor is all of its memory."""
    return t.storage_offset() == 0 and t.numel() * t.element_size() == t.untyped_storage().nbytes()


def _flat_text(flat: torch.Tensor, style: str, plan: ValuePlan) -> str | None:
    """A 1-D tensor with values in the given style, on the device of ``flat``."""
    made = _cpu_text(flat, style, plan)
    return made if made is None or flat.device.type == "cpu" else f"{made}.to({flat.device.type!r})"


def _cpu_text(flat: torch.Tensor, style: str, plan: ValuePlan) -> str | None:
    n, dtype = flat.numel(), flat.dtype
    name = f"torch.{dtype_name(dtype)}"
    floating = dtype in FLOATING
    if style == "bytes":
        raw = bytes(flat.cpu().view(torch.uint8).tolist()) if n else b""
        if not n:
            return f"torch.zeros(0, dtype={name})"
        return f"torch.frombuffer(bytearray.fromhex({raw.hex()!r}), dtype={name})"
    if plain := _plain(flat, name):
        return plain
    if style == "literal" or not (floating or dtype.is_complex):
        if n <= LITERAL_NUMEL and (style == "literal" or not floating):
            return _literal(flat, name)
        if style == "literal":
            return None
        return _integers(flat, name)
    if style == "arange":
        if dtype.is_complex or not bool(torch.isfinite(flat).all()):
            return None
        # Positive inputs (variances, probabilities) stay positive.
        start = 1 if n and float(flat.min()) >= 0 else -(n // 2)
        scaled = f"torch.arange({start}, {start + n}, dtype={name})"
        return scaled if n <= 64 else f"({scaled} % 7)"
    if plan is ValuePlan.EXACT:
        return f"torch.randint(-4, 5, ({n},)).to({name})"
    suffix = "" if dtype == torch.float32 else f", dtype={name}"
    if n and not dtype.is_complex and float(flat.min()) >= 0:
        return f"torch.rand({n}{suffix})"
    return f"torch.randn({n}{suffix})"


def _plain(flat: torch.Tensor, name: str) -> str:
    """The values themselves where they are all 0, all 1, or 0, 1, 2 and so on; else ""."""
    n = flat.numel()
    if n < 2 or flat.is_complex() or bool(torch.signbit(flat.float()).any()):
        return ""
    for text, value in (("zeros", 0), ("ones", 1)):
        if not bool(flat.ne(value).any()):
            return f"torch.{text}({n}{'' if name == 'torch.float32' else f', dtype={name}'})"
    if n > 2 and flat.dtype != torch.bool and torch.equal(flat.double().cpu(), torch.arange(n, dtype=torch.float64)):
        return f"torch.arange({n}{'' if name == 'torch.int64' else f', dtype={name}'})"
    return ""


def _integers(flat: torch.Tensor, name: str) -> str | None:
    """Large integer or bool tensors: drawn from the same range."""
    if flat.dtype == torch.bool:
        return f"(torch.rand({flat.numel()}) > 0.5)"
    low, high = int(flat.min()), int(flat.max())
    return f"torch.randint({low}, {high + 1}, ({flat.numel()},)).to({name})"


def _literal(flat: torch.Tensor, name: str) -> str:
    values = [_number(v) for v in flat.tolist()]
    suffix = "" if name == "torch.float32" and any("." in v for v in values) else f", dtype={name}"
    return f"torch.tensor([{', '.join(values)}]{suffix})"


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f"float('{value}')"
    return repr(value)


def run_inputs(text: str) -> list[Any]:
    """The values that an ``make_inputs`` text makes, seeded as ``repro.py`` seeds."""
    seed_generators(0)
    return list(function_of(text, "make_inputs")())
