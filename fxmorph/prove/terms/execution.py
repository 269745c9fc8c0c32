"""Term execution: every element of memory is the name of the term that computes it.

Equal names are equal terms, so two programs that give equal names compute the same; what only
moves data gives names of arguments and constants, whatever the element type, which is a complete
proof for that shape (labels).  Names are 62-bit hashes of an operator and its operands' names,
computed for whole tensors at once, so a run costs what the program costs.  What names cannot show
equal is taken apart in ``unfolding.py``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.programs.inputs import dtype_name
from fxmorph.programs.operators import COMPARISONS, EMPTY, POSITIONS
from fxmorph.prove.shadow_memory import Call, NotModelled, shape_of_values
from fxmorph.prove.smt.scalars import Const, Slot, _argument_text
from fxmorph.prove.terms.term_rules import (
    COMMUTES,
    FILLS,
    FLOAT_ONLY,
    PROMOTES,
    REDUCTIONS,
    RUN_ON_SHADOWS,
    SORTED,
    TO_FLOAT,
    common_dtype,
    depends_on_lane,
    is_pointwise,
)
from fxmorph.torchapi.dispatch import aten_packet, tree_leaves, tree_map
from fxmorph.torchapi.storages import storage_key

_SIXTEEN = (torch.float16, torch.bfloat16)
#: Names from here on are operators, and the bits of a name below it.
OPERATOR, _LOW = 1 << 62, (1 << 62) - 1
#: More names than this in one row, or in all expressions of one operator's results, are not taken apart.
MAX_ROW, MAX_LEAVES = 64, 15_000
#: Elements of memory that a vector loop may want to begin at a multiple of.
_ALIGNED = 16
#: Tensors of more distinct constants are known by their hashes only.
MAX_CONSTANTS = 4096


def _salt(*parts: object) -> int:
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def _mix(a: torch.Tensor, b: torch.Tensor | int) -> torch.Tensor:
    """A hash of two (int64, wrapping), as in splitmix64 and boost's hash_combine."""
    golden = -0x61C8864680B583EB
    b = b + golden if isinstance(b, torch.Tensor) else (b + golden + 2**63) % 2**64 - 2**63
    x = a ^ (b + (a << 6) + (a >> 2))
    x = (x ^ (x >> 30)) * -0x40A7B892E31B1A47
    x = (x ^ (x >> 27)) * -0x6B2FB644ECCEEE15
    return x ^ (x >> 31)


def _row(ids: torch.Tensor) -> torch.Tensor:
    """One hash of each row of ``ids`` (n, k), its order included."""
    places = _mix(torch.arange(ids.shape[1], dtype=torch.int64), 0x5BD1E995)
    return _mix(_mix(ids, 1) ^ places, 7).sum(1) + ids.shape[1]


@dataclass
class Applied:
    """One operator's application to whole tensors: ``ids`` (n,) of the results, operands (n,) each or a row (n, k)."""

    name: str
    arguments: tuple[tuple[str, Any], ...]
    dtype: torch.dtype
    ids: torch.Tensor
    operands: list[torch.Tensor]
    dtypes: list[torch.dtype]  # of the operands; one for all of a row
    row: bool = False
    opaque: bool = False
    #: Of an operator whose every element depends on all of its operands: the operands, flat, and their dtypes.
    whole: tuple[tuple[torch.Tensor, torch.dtype], ...] = ()


class Terms:
    """The domain of terms.

    ``layouts``: operators whose rounding depends on how their operands lie in memory (sums, matrix
    products, kernels) are told apart by shape and strides; equal names are then equal bits.  Without,
    equal names are equal over the reals.  ``leaves``: what expressions are made of, beyond which they
    are not taken apart.  ``draw``: which of many sets of names; by chance two terms may have one name in one of them.
    """

    dtype = torch.int64

    def __init__(self, layouts: bool = True, leaves: int = MAX_LEAVES, draw: int = 0) -> None:
        self.layouts, self.leaves, self._draw = layouts, leaves, draw
        self.entries: list[Applied] = []
        self._inputs: list[tuple[str, torch.dtype, int]] = []  # (argument, dtype, first name)
        self._next = 1
        self._consts: dict[int, Const] = {}
        self._index: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        #: Calls of operators whose bits depend on the lane: a hash of all of it, and the names that it gave.
        self.lane_calls: list[tuple[int, torch.Tensor]] = []

    # -- names -----------------------------------------------------------------

    def _salt(self, *parts: object) -> int:
        return _salt(*parts, self._draw) if self._draw else _salt(*parts)

    def input(self, argument: str, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """Names of the elements of an argument's memory (``elements``,)."""
        self._inputs.append((argument, dtype, self._next))
        out = torch.arange(self._next, self._next + elements)
        self._next += elements
        return out

    def known(self, native: torch.Tensor) -> torch.Tensor:
        salt = self._salt("const", dtype_name(native.dtype))
        if native.is_complex():
            raise NotModelled("complex constants")
        values = native.detach().double() if native.is_floating_point() else native.detach().long()
        bits = values.contiguous().view(torch.int64) if native.is_floating_point() else values
        if native.is_floating_point():
            bits = torch.where(values.isnan(), torch.full_like(bits, 0x7FF8 << 48), bits)
        ids = -(_mix(_mix(bits, salt), 3) & _LOW) - 1
        names, places = ids.reshape(-1), values.reshape(-1)
        if names.numel() > MAX_CONSTANTS:
            names, inverse = torch.unique(names, return_inverse=True)
            places = torch.empty_like(names, dtype=places.dtype).scatter_(0, inverse, places)
        if names.numel() <= MAX_CONSTANTS:
            for i, v in zip(names.tolist(), places.tolist(), strict=True):
                self._consts.setdefault(i, Const(bool(v) if native.dtype == torch.bool else v, native.dtype))
        return ids

    def constant(self, value: Any, dtype: torch.dtype) -> int:
        """The name of a constant."""
        return int(self.known(torch.tensor(value, dtype=dtype)))

    def _enter(self, entry: Applied) -> torch.Tensor:
        self.entries.append(entry)
        self._index = None
        return entry.ids

    def _elementwise(
        self,
        name: str,
        arguments: dict[str, Any],
        dtype: torch.dtype,
        operands: list[torch.Tensor],
        dtypes: list[torch.dtype],
    ) -> torch.Tensor:
        given = tuple(sorted(arguments.items()))
        operands = list(torch.broadcast_tensors(*operands)) if operands else []
        texts = [(k, _argument_text(v)) for k, v in given]
        salt = self._salt(name, texts, dtype_name(dtype), list(map(dtype_name, dtypes)))
        flat = [o.reshape(-1) for o in operands]
        hashed = list(flat)
        if name in COMMUTES and len(flat) == 2 and "alpha" not in arguments:
            hashed = [torch.minimum(*flat), torch.maximum(*flat)]
        ids = torch.full_like(flat[0], salt)
        for h in hashed:
            ids = _mix(ids, h)
        ids = (ids & _LOW) | OPERATOR
        return self._enter(Applied(name, given, dtype, ids, flat, dtypes)).reshape(operands[0].shape)

    def _cast(self, ids: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
        if old == new:
            return ids
        if bool((ids < 0).all()):
            values = self._values(ids)
            if values is not None:
                return self.known(values.to(new))
        return self._elementwise("cast", {"self": Slot(0)}, new, [ids], [old])

    def _values(self, ids: torch.Tensor) -> torch.Tensor | None:
        """The values of constants' names, where all are noted."""
        try:
            consts = [self._consts[i] for i in ids.reshape(-1).tolist()]
        except KeyError:
            return None
        if not consts:
            return None
        return torch.tensor([c.value for c in consts], dtype=consts[0].dtype).reshape(ids.shape)

    def bitcast(self, shadow: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
        """Names of the same bits in another dtype; casting back gives the names there were."""
        if bool((shadow < 0).all()):
            values = self._values(shadow)
            if values is not None:
                return self.known(values.view(new))
        if bool((shadow < 0).any()):
            raise NotModelled("bits of constants among others")
        salt = self._salt("bitcast", *sorted((dtype_name(old), dtype_name(new)))) & _LOW
        return shadow ^ (salt | 1 << 60)

    # -- operators -------------------------------------------------------------

    def apply(self, call: Call) -> list[torch.Tensor]:
        if call.name in EMPTY:
            return [self._unknown(t) for t in call.targets]
        tensors = call.tensors
        others = [t for t in tensors if call.name not in FILLS or t is not call.arguments.get("self")]
        if all(bool((call.shadow(t) < 0).all()) for t in others):
            return [self._computed(call, t) for t in call.targets]
        places = [t for k in POSITIONS & call.arguments.keys() for t in tree_leaves(call.arguments[k])]
        fixed = all(bool((call.shadow(t) < 0).all()) for t in places if isinstance(t, torch.Tensor))
        if shape_of_values(call) and not (call.name in RUN_ON_SHADOWS and fixed):
            raise NotModelled(f"{call.name}: a shape that depends on values")
        if call.name in RUN_ON_SHADOWS:
            return self._move(call)
        if call.name in ("_to_copy", "to", "convert_element_type"):
            return [self._cast(call.shadow(tensors[0]), tensors[0].dtype, call.targets[0].dtype)]
        if call.name in ("where", "masked_fill"):
            return [self._select(call)]
        if call.name in REDUCTIONS and len(call.targets) == 1:
            return [self._reduce(call)]
        if call.name in ("mm", "bmm", "mv", "dot", "addmm", "baddbmm") and len(call.targets) == 1:
            made = self._product(call)
            if made is not None:
                return [made]
        if is_pointwise(call.name) and len(call.targets) == 1:
            return [self._pointwise(call)]
        return self._opaque(call)

    def _computed(self, call: Call, target: torch.Tensor) -> torch.Tensor:
        """What eager computed of constants only; other constants may give other bits in another lane."""
        out = self.known(target)
        if is_pointwise(call.name) and target.numel():
            tensors = call.tensors
            floating = any(t.is_floating_point() for t in (*tensors, target))
            dtype = target.dtype if target.is_floating_point() or not tensors else tensors[0].dtype
            if floating and depends_on_lane(call.name, call.arguments, dtype):
                self._in_lanes(call.name, [*tensors, target], out)
        return out

    def _in_lanes(self, name: str, tensors: list[torch.Tensor], out: torch.Tensor) -> None:
        if not self.layouts:
            return
        layout = [(t.shape, t.stride(), t.storage_offset() % _ALIGNED) for t in tensors]
        whole = int(_row(out.reshape(1, -1))) if out.numel() else 0
        self.lane_calls.append((self._salt(name, layout, whole), out.reshape(-1)))

    def _unknown(self, t: torch.Tensor) -> torch.Tensor:
        """Uninitialised memory: names that nothing else has."""
        return self.input("uninitialised", t.numel(), t.dtype).reshape(t.shape)

    def _move(self, call: Call) -> list[torch.Tensor]:
        target = call.targets[0]
        given = dict(call.arguments)
        for key in POSITIONS & given.keys():
            places = [t for t in tree_leaves(given[key]) if isinstance(t, torch.Tensor)]
            if not all(bool((call.shadow(t) < 0).all()) for t in places):
                return self._opaque(call)
            if call.written and any(storage_key(t) == storage_key(target) for t in places):
                raise NotModelled(f"{call.name} overwrites what says where to")
        if call.name in ("index_put", "_unsafe_index_put") and given.get("accumulate"):
            return self._opaque(call)
        if call.name == "scatter" and "reduce" in given:
            return self._opaque(call)
        zero = self.constant(0, target.dtype)
        for key in ("value", "fill_value"):
            if key in given and not isinstance(given[key], torch.Tensor):
                given[key] = self.constant(given[key], target.dtype) - zero

        def named(key: str, value: Any) -> Any:
            def one(t: Any) -> Any:
                if not isinstance(t, torch.Tensor) or key in POSITIONS:
                    return t
                # Less the name of zero, so that what an operator fills with zeros is zero's name.
                return self._cast(call.shadow(t), t.dtype, target.dtype) - zero

            return tree_map(one, value)

        if call.name == "copy":
            source = call.arguments["src"]
            moved = self._cast(call.shadow(source), source.dtype, target.dtype)
            return [moved.expand(target.shape)]
        ready = {k: named(k, v) for k, v in given.items()}
        if call.name in FLOAT_ONLY:
            return [self._ranked(call, ready, zero)]
        try:
            out = call.func(**ready) if call.written == 0 else self._functional(call)(**ready)
        except (NotImplementedError, RuntimeError) as error:
            raise NotModelled(f"{call.name} on names: {str(error).splitlines()[0]}") from None
        outs = list(out) if isinstance(out, (tuple, list)) else [out]
        return [o + zero for o in outs]

    def _functional(self, call: Call) -> Any:

        packet = aten_packet(call.name)
        if packet is None:
            raise NotModelled(call.name)
        return packet

    def _ranked(self, call: Call, ready: dict[str, Any], zero: int) -> torch.Tensor:
        """A move whose kernel wants floating point: names travel as their ranks, 0 for zero's own."""
        names = torch.unique(torch.cat([ready["self"].reshape(-1), torch.zeros(1, dtype=torch.int64)]))
        offset = int(torch.searchsorted(names, 0))
        ranks = (torch.searchsorted(names, ready["self"]) - offset).double()
        out = call.func(**{**ready, "self": ranks})
        return names[out.long() + offset] + zero

    def _select(self, call: Call) -> torch.Tensor:
        target, given = call.targets[0], call.arguments
        if call.name == "where":
            condition, left, right = given["condition"], given["self"], given["other"]
        else:
            condition, left, right = given["mask"], given["value"], given["self"]

        def side(value: Any) -> torch.Tensor:
            if isinstance(value, torch.Tensor):
                return self._cast(call.shadow(value), value.dtype, target.dtype)
            return torch.tensor(self.constant(value, target.dtype))

        flags = call.shadow(condition)
        if bool((flags < 0).all()):
            if call.written and storage_key(condition) == storage_key(target):
                raise NotModelled(f"{call.name} overwrites its own mask")
            return torch.where(condition, side(left), side(right)).expand(target.shape)
        arguments = {"condition": Slot(0), "self": Slot(1), "other": Slot(2)}
        kinds = [condition.dtype, target.dtype, target.dtype]
        out = self._elementwise("where", arguments, target.dtype, [flags, side(left), side(right)], kinds)
        return out.expand(target.shape)

    def _reduce(self, call: Call) -> torch.Tensor:
        x, target = call.arguments["self"], call.targets[0]
        dims = call.arguments.get("dim")
        dims = list(range(x.ndim)) if dims is None or dims == [] else [dims] if isinstance(dims, int) else list(dims)
        dims = sorted({d % max(x.ndim, 1) for d in dims}) if x.ndim else []
        accumulate = torch.bool if call.name in ("any", "all") else target.dtype
        ids = call.shadow(x)
        if call.name not in ("any", "all"):
            ids = self._cast(ids, x.dtype, accumulate)
        rest = [d for d in range(x.ndim) if d not in dims]
        width = 1
        for d in dims:
            width *= x.shape[d]
        rows = ids.permute(rest + dims).reshape(-1, width) if x.ndim else ids.reshape(1, 1)
        # Integers wrap alike in any order, and have one zero.
        inexact = target.dtype.is_floating_point
        ordered = inexact and (call.name not in SORTED or self.layouts)
        if not ordered:
            rows = rows.sort(dim=1).values
        layout = (x.shape, x.stride(), dims) if self.layouts and ordered else ()
        return self._over_rows(call.name, target, rows, layout, x.dtype)

    def _over_rows(
        self, name: str, target: torch.Tensor, rows: torch.Tensor, layout: tuple[Any, ...], source: torch.dtype
    ) -> torch.Tensor:
        salt = self._salt(name, dtype_name(target.dtype), layout, dtype_name(source) if name in ("any", "all") else "")
        ids = (_mix(_row(rows), salt) & _LOW) | OPERATOR
        told = (("layout", self._salt(layout)),) if layout else ()
        operand = source if name in ("any", "all") else target.dtype
        entry = Applied(name, told, target.dtype, ids, [rows], [operand], row=True, opaque=rows.shape[1] > MAX_ROW)
        return self._enter(entry).reshape(target.shape)

    def _product(self, call: Call) -> torch.Tensor | None:
        """Matrix products as sums of products; None where they are too large to take apart."""
        given, target = call.arguments, call.targets[0]
        names = {"mm": ("self", "mat2"), "bmm": ("self", "mat2"), "mv": ("self", "vec"), "dot": ("self", "tensor"),
                 "addmm": ("mat1", "mat2"), "baddbmm": ("batch1", "batch2")}[call.name]  # fmt: skip
        a, b = given[names[0]], given[names[1]]
        if a.dtype != target.dtype or b.dtype != target.dtype:
            return None
        left, right = call.shadow(a), call.shadow(b)
        left = left.unsqueeze(0) if left.ndim == 1 else left
        right = right.unsqueeze(-1) if right.ndim == 1 else right
        k, n, m = left.shape[-1], right.shape[-1], left.shape[-2]
        if target.numel() * k > 4_000_000:
            return None
        right = right.mT
        lead = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        rows = torch.cat(
            [left.unsqueeze(-2).expand(*lead, m, n, k), right.unsqueeze(-3).expand(*lead, m, n, k)], -1
        ).reshape(-1, 2 * k)
        layout = (a.shape, a.stride(), b.shape, b.stride(), call.name) if self.layouts else ()
        out = self._over_rows("dot", target, rows, layout, target.dtype)
        if call.name not in ("addmm", "baddbmm"):
            return out
        alpha, beta = given.get("alpha", 1), given.get("beta", 1)
        if alpha != 1:
            out = self._elementwise("mul", {"self": Slot(0), "other": alpha}, target.dtype, [out], [target.dtype])
        if beta == 0:
            return out
        added = call.shadow(given["self"])
        if beta != 1:
            added = self._elementwise("mul", {"self": Slot(0), "other": beta}, target.dtype, [added], [target.dtype])
        # One rounding or two is the kernel's own business.
        name = call.name if self.layouts else "add"
        operands, kinds = [added.expand(target.shape), out], [target.dtype, target.dtype]
        return self._elementwise(name, {"self": Slot(0), "other": Slot(1)}, target.dtype, operands, kinds)

    def _pointwise(self, call: Call) -> torch.Tensor:
        target = call.targets[0]
        given = dict(call.arguments)
        if call.name == "rsub":
            given["self"], given["other"] = given["other"], given["self"]
        name = {"rsub": "sub", "true_divide": "div"}.get(call.name, call.name)
        if given.get("rounding_mode", "") is None:
            del given["rounding_mode"]
        tensors = [t for t in tree_leaves(list(given.values())) if isinstance(t, torch.Tensor)]
        result = target.dtype
        computed = result
        if name in PROMOTES:
            computed = common_dtype(given)
            result = torch.bool if name in COMPARISONS else computed
            if name in TO_FLOAT and "rounding_mode" not in given and not computed.is_floating_point:
                computed = result = torch.get_default_dtype()
        widest = max(t.ndim for t in tensors)
        operands: list[torch.Tensor] = []
        dtypes: list[torch.dtype] = []

        def slot(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            ids, scalar = call.shadow(value), False
            if name not in PROMOTES:
                scalar = value.ndim == 0 and widest > 0 and any(t.dtype != value.dtype for t in tensors)
            elif value.dtype != computed:
                scalar = value.ndim == 0 and widest > 0 and computed in _SIXTEEN
                if not scalar:
                    ids = self._cast(ids, value.dtype, computed)
            promoted = name in PROMOTES and not scalar
            dtypes.append(computed if promoted else value.dtype)
            operands.append(ids)
            return Slot(len(operands) - 1, scalar)

        arguments = {k: tree_map(slot, v) if not isinstance(v, torch.Tensor) else slot(v) for k, v in given.items()}
        out = self._elementwise(name, arguments, result, operands, dtypes)
        floating = any(d.is_floating_point for d in (computed, result, *dtypes))
        if floating and depends_on_lane(name, arguments, computed):
            self._in_lanes(name, [*tensors, target], out)
        return self._cast(out, result, target.dtype).expand(target.shape)

    def _opaque(self, call: Call) -> list[torch.Tensor]:
        """A function of all of its operands' elements, known by its name only."""
        parts: list[object] = [call.name, *(dtype_name(t.dtype) for t in call.targets)]
        rows: list[int] = []
        whole: list[tuple[torch.Tensor, torch.dtype]] = []
        for key, value in sorted(call.arguments.items()):
            if any(isinstance(t, torch.Tensor) for t in tree_leaves(value)):
                for t in tree_leaves(value):
                    if isinstance(t, torch.Tensor):
                        ids = call.shadow(t).reshape(1, -1)
                        rows.append(int(_row(ids)) if ids.numel() else 0)
                        whole.append((ids.reshape(-1), t.dtype))
                        parts += [key, tuple(t.shape), dtype_name(t.dtype), t.stride() if self.layouts else ()]
                    else:
                        parts += [key, repr(t)]
            else:
                parts += [key, repr(value)]
        outs = []
        given = self._salt(*parts)
        for i, t in enumerate(call.targets):
            ids = _mix(torch.arange(t.numel()), self._salt(i, given, *rows))
            ids = (ids & _LOW) | OPERATOR
            told = (("output", i), ("given", given))
            entry = Applied(call.name, told, t.dtype, ids, [], [], opaque=True, whole=tuple(whole))
            outs.append(self._enter(entry).reshape(t.shape))
        return outs

    # -- what differs ----------------------------------------------------------

    def lanes_differ(self, split: int) -> bool:
        """Whether the calls before ``split`` of ``lane_calls`` may have put a number into another lane than the rest.

        They have not where both have the same calls on the same tensors, none of which computes what another does.
        """
        sides = [dict(self.lane_calls[:split]), dict(self.lane_calls[split:])]
        if sides[0].keys() != sides[1].keys():
            return True
        names = [torch.unique(ids) for ids in sides[0].values()]
        return bool(names) and len(torch.unique(torch.cat(names))) < sum(map(len, names))

    def moved_only(self, ids: torch.Tensor) -> bool:
        """Whether every element is one of an argument or a constant."""
        return bool((ids < OPERATOR).all())

    def origin(self, name: int) -> tuple[str, int] | None:
        """(argument, index in its memory) of an argument's element; None for anything else."""
        if not 0 < name < self._next:
            return None
        # An empty argument has no names, so the next one begins at the same: the last that begins there is meant.
        argument, _, first = max((i for i in reversed(self._inputs) if i[2] <= name), key=lambda i: i[2])
        return None if argument == "uninitialised" else (argument, name - first)

    def const(self, name: int) -> Const | None:
        """The constant of a negative name."""
        return self._consts.get(name)

    def made(self, ids: torch.Tensor) -> torch.Tensor:
        """Which names are an operator's; others are bits of one seen in another dtype."""
        if not self.entries:
            return torch.zeros_like(ids, dtype=torch.bool)
        return torch.isin(ids, torch.cat([e.ids for e in self.entries]))

    def lookup(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each operator's name, its entry and its place in it."""
        if self._index is None:
            every = torch.cat([e.ids for e in self.entries])
            numbers = torch.cat([torch.full_like(e.ids, i) for i, e in enumerate(self.entries)])
            places = torch.cat([torch.arange(len(e.ids)) for e in self.entries])
            order = torch.argsort(every, stable=True)
            self._index = every[order], numbers[order], places[order]
        every, numbers, places = self._index
        at = torch.searchsorted(every, ids)
        return numbers[at], places[at]
