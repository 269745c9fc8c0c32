"""Shadows in two prime fields: what an operator gives for elements of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from fxmorph.programs.operators import EMPTY, POSITIONS
from fxmorph.prove.field import choice, networks, pointwise, products, reductions  # noqa: F401  (fill MEANINGS)
from fxmorph.prove.field.arithmetic import Arithmetic
from fxmorph.prove.field.elements import FRESH, NAN, NUMBER, Degree, Order, Val
from fxmorph.prove.field.meanings import MEANINGS, Given
from fxmorph.prove.field.primes import P, Q, residues, salt, scrambled
from fxmorph.prove.shadow_memory import Call, NotModelled, Shadowing, shape_of_values
from fxmorph.prove.terms.term_rules import FILLS, RUN_ON_SHADOWS
from fxmorph.torchapi.dispatch import OpOverload, aten_packet, decomposition_of, schema_of, tree_leaves, tree_map
from fxmorph.torchapi.storages import storage_key

#: Of RUN_ON_SHADOWS, those that have meanings of their own.
_OWN = frozenset("copy index_put _unsafe_index_put slice_backward select_backward diagonal_backward".split())


@dataclass
class _About:
    """What is known of a storage's shadow: see :class:`Val`."""

    known: bool
    degree: Degree = NUMBER
    bits: float = 0.0
    q: bool = True
    #: Whether it is an argument's, as it was given.
    given: bool = False


class Field:
    """The finite-field domain.  A shadow's real part is the element modulo p, its imaginary part that modulo q.

    NaN is an undefined element: 1/0, a logarithm modulo p, an exponential modulo q.
    """

    dtype = torch.complex128

    def __init__(
        self,
        seed: int = 0,
        order: Order = Order.MIXED,
        strict: bool = False,
        planted: bool = False,
        side: int = 0,
        numbers: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.m = Arithmetic(seed, order, strict)
        #: Whether most elements of arguments are 0, 1, -1, one of two others or of ``numbers``, so that ties occur.
        self.planted, self.numbers = planted, numbers
        #: Which of the programs that are compared is run.
        self.side = side
        self._about: dict[int, _About] = {}
        self._kept: list[Any] = []  # storages stay alive, so that keys stay unique
        self._fresh = 0
        #: Bytes of an element of the widest floating-point argument.
        self._widest = 0

    # -- values ----------------------------------------------------------------

    def input(self, argument: str, elements: int, dtype: torch.dtype) -> torch.Tensor:
        """Random elements for an argument's memory, the same for the same seed and name."""
        if dtype.is_complex:
            raise NotModelled("complex numbers")
        self._widest = max(self._widest, dtype.itemsize if dtype.is_floating_point else 0)
        h = scrambled(torch.arange(elements), salt("input", argument, self.m.seed))
        if dtype == torch.bool and not self.m.mixed:
            bit = (h & 1).double()
            return torch.complex(bit, bit)
        p, q = residues(h, P), residues(scrambled(h, 99), Q)
        if self.planted:
            pool = residues(scrambled(torch.arange(2), salt("pool", self.m.seed)), Q)
            values = torch.cat([torch.tensor([0.0, 1.0, -1.0], dtype=torch.float64), pool, -pool[:1]])
            noted = torch.tensor(self.numbers, dtype=torch.float64).reshape(-1, 2)
            which = (scrambled(h, 17) & (2**40 - 1)) % (len(values) + len(noted) + 2 * (self.m.seed % 2))
            some = which < len(values) + len(noted)
            at = torch.where(some, which, 0)
            pools = (torch.cat([torch.remainder(values, m), noted[:, i]]) for i, m in enumerate((P, Q)))
            p, q = (torch.where(some, pool[at], x) for x, pool in zip((p, q), pools, strict=True))
        return torch.complex(p, q)

    def note(
        self, t: torch.Tensor, known: bool, degree: Degree = NUMBER, bits: float = 0.0, given: bool = False
    ) -> None:
        """Say of a tensor's memory whether its values are those of the native run, and whether they were ``given``."""
        self._about[storage_key(t)] = _About(known, degree, bits, given=given)
        self._kept.append(t.untyped_storage())

    def known(self, native: torch.Tensor) -> torch.Tensor:
        self.note(native, True)
        return self._joined(self.m.constants(native))

    def load(self, call: Call, t: torch.Tensor) -> Val:
        shadow, about = call.shadow(t), self._about[storage_key(t)]
        return Val(shadow.real, shadow.imag if about.q else None, about.degree, about.bits)

    def is_argument(self, call: Call, t: torch.Tensor) -> bool:
        return self._about[storage_key(t)].given

    def is_known(self, call: Call, t: torch.Tensor) -> bool:
        return self._about[storage_key(t)].known

    @staticmethod
    def _joined(v: Val) -> torch.Tensor:
        q = torch.full_like(v.p, NAN) if v.q is None else v.q
        return torch.complex(*torch.broadcast_tensors(v.p, q))

    # -- operators -------------------------------------------------------------

    def bitcast(self, shadow: torch.Tensor, old: torch.dtype, new: torch.dtype) -> torch.Tensor:
        raise NotModelled("memory seen under two dtypes")

    def apply(self, call: Call) -> list[torch.Tensor]:
        if call.name in EMPTY:
            return [self._uninitialised(t) for t in call.targets]
        operands = [t for t in call.tensors if call.name not in FILLS or t is not call.arguments.get("self")]
        known = all(self.is_known(call, t) for t in operands)
        # In float64 a number that float32 has rounded is that number, and not the one before.
        exact = not any(t.is_floating_point() for t in call.targets) or all(map(self._coarse, call.targets))
        if known and (not operands or exact):
            return [self._plain(t) for t in call.targets]
        if shape_of_values(call):
            given = [v for k, v in call.arguments.items() if k in ("indices", "mask", "repeats")]
            places = [t for t in tree_leaves(given) if isinstance(t, torch.Tensor)]
            if not places or not all(self.is_known(call, t) for t in places):
                raise NotModelled(f"{call.name}: a shape that depends on values")
        try:
            values = self._values(call)
            if len(values) != len(call.targets):  # results that were not asked for
                values = [v for v in values if v is not None]
        except NotModelled:
            if not known:
                raise
            return [self._plain(t) for t in call.targets]
        out = []
        for t, v in zip(call.targets, values, strict=True):
            if v is None:
                out.append(self._unknown(t))
                continue
            self._set(t, _About(known, v.degree, v.bits, v.q is not None))
            if not known and _wraps(call, t):
                self.m.assumptions.add("no-overflow")
            out.append(self._joined(v).expand(t.shape))
        return out

    def _plain(self, t: torch.Tensor) -> torch.Tensor:
        self._set(t, _About(True))
        return self._joined(self.m.constants(t, exactly=self._coarse(t)))

    def _coarse(self, t: torch.Tensor) -> bool:
        """Whether a number among its elements was rounded to fewer bits than the arguments have."""
        return t.is_floating_point() and t.element_size() < self._widest

    def _set(self, t: torch.Tensor, about: _About) -> None:
        key = storage_key(t)
        old = self._about.get(key)
        if old is not None:
            about = _About(
                old.known and about.known,
                old.degree.worst(about.degree),
                max(old.bits, about.bits),
                old.q or about.q,
            )
        else:
            self._kept.append(t.untyped_storage())
        self._about[key] = about

    def _uninitialised(self, t: torch.Tensor) -> torch.Tensor:
        """Elements that no other program has."""
        self._fresh += 1
        self._set(t, _About(False, FRESH))
        return self.input(f"uninitialised {self.side} {self._fresh}", t.numel(), t.dtype).reshape(t.shape)

    def _unknown(self, t: torch.Tensor) -> torch.Tensor:
        """Results that are not modelled: undefined."""
        self._set(t, _About(False, q=False))
        return torch.full(t.shape, complex(NAN, NAN), dtype=torch.complex128)

    def _values(self, call: Call) -> list[Val | None]:
        name = call.name
        if name.startswith("_foreach_"):
            return self._each(call)
        if name in MEANINGS:
            given = Given(call, self.m, self)
            out = MEANINGS[name](given)
            unread = given.unread()
            if unread:
                raise NotModelled(f"{name} with {unread[0]}")
            return list(out) if isinstance(out, (list, tuple)) else [out]
        if name in RUN_ON_SHADOWS and name not in _OWN:
            return self._moved(call)
        return self._decomposed(call)

    def _each(self, call: Call) -> list[Val | None]:
        """An operator on lists, one after the other."""
        name = call.name.removeprefix("_foreach_")
        out: list[Val | None] = []
        for i, target in enumerate(call.targets):
            arguments = {k: v[i] if isinstance(v, (list, tuple)) else v for k, v in call.arguments.items()}
            if "scalars" in arguments:
                key = {"addcmul": "value", "addcdiv": "value", "pow": "exponent", "lerp": "weight"}.get(name, "other")
                arguments[key] = arguments.pop("scalars")
            for old, new in (("scalar", "other"), ("tensors1", "end"), ("weights", "weight")):
                if old in arguments:
                    arguments[new] = arguments.pop(old)
            one = Call(name, call.func, arguments, [target], min(call.written, 1), call.memory)
            if name not in MEANINGS:
                raise NotModelled(call.name)
            value = MEANINGS[name](Given(one, self.m, self))
            out += value if isinstance(value, list) else [value]
        return out

    def _moved(self, call: Call) -> list[Val | None]:
        """Kernels that copy and select elements run on the shadows."""
        if call.name == "scatter" and "reduce" in call.arguments:
            raise NotModelled("scatter with reduce")
        given = Given(call, self.m, self)
        abouts: list[_About] = []

        def ready(key: str, value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if key in POSITIONS:
                    return given.places(value)
                abouts.append(self._about[storage_key(value)])
                return call.shadow(value)
            if isinstance(value, (list, tuple)) and any(isinstance(t, torch.Tensor) for t in value):
                return [ready(key, t) for t in value]
            if key in ("value", "fill_value"):
                v = self.m.constant(value)
                abouts.append(_About(True))
                return complex(float(v.p), float(v.q))  # type: ignore[arg-type]
            return value

        arguments = {k: ready(k, v) for k, v in call.arguments.items()}
        packet = aten_packet(call.name)
        if packet is None:
            raise NotModelled(call.name)
        try:
            out = packet(**arguments)
        except (NotImplementedError, RuntimeError):
            parts = []
            for part in ("real", "imag"):
                take = {
                    k: tree_map(
                        lambda t, part=part: (
                            getattr(t, part)
                            if isinstance(t, complex) or (isinstance(t, torch.Tensor) and t.is_complex())
                            else t
                        ),
                        v,
                    )
                    for k, v in arguments.items()
                }
                try:
                    parts.append(packet(**take))
                except (NotImplementedError, RuntimeError) as error:
                    raise NotModelled(f"{call.name}: {str(error).splitlines()[0]}") from None
            out = torch.complex(parts[0], parts[1])
        outs = out if isinstance(out, (list, tuple)) else [out]
        degree, bits = NUMBER.worst(*(a.degree for a in abouts)), max((a.bits for a in abouts), default=0.0)
        q = any(a.q for a in abouts) or not abouts
        return [Val(o.real, o.imag if q else None, degree, bits) for o in outs]

    def _decomposed(self, call: Call) -> list[Val | None]:
        """What torch's own decomposition computes."""
        func = call.func if call.written == 0 else _functional(call)
        decomposition = None if func is None else decomposition_of(func)
        if func is None or decomposition is None:
            raise NotModelled(call.name)
        given, keywords = [], {}
        for a in schema_of(func).arguments:
            value = call.arguments.get(a.name, a.default_value if a.has_default_value() else None)
            if not a.kwarg_only:
                given.append(value)
            elif a.name in call.arguments:
                keywords[a.name] = value
        try:
            with torch.no_grad(), Shadowing(call.memory):
                out = decomposition(*given, **keywords)
        except NotModelled as why:
            raise NotModelled(f"{call.name}: {why}") from None
        except (TypeError, RuntimeError, NotImplementedError, AssertionError) as error:
            raise NotModelled(f"{call.name}: {str(error).splitlines()[:1]}") from None
        outs = [o for o in tree_leaves(out)]
        while len(outs) < len(call.targets):
            outs.append(None)
        return [None if o is None else self.load(call, o) for o in outs]


#: Operators that give integers which fit where their operands do.
_FITS = RUN_ON_SHADOWS | FILLS | frozenset(
    """_to_copy to convert_element_type copy where masked_fill maximum minimum clamp clamp_min clamp_max relu amax
    amin max min sign sgn floor ceil trunc round remainder fmod floor_divide argmax argmin sort argsort topk median
    mode bitwise_and bitwise_or bitwise_xor bitwise_not logical_not index_put searchsorted bucketize kthvalue cummax
    cummin detach alias clone unique nonzero""".split()
)  # fmt: skip
#: Those that count truth values.
_COUNTS = frozenset("sum cumsum count_nonzero".split())


def _wraps(call: Call, target: torch.Tensor) -> bool:
    """Whether an operator's result is one of integers that may be too large for their dtype."""
    if target.dtype.is_floating_point or target.dtype in (torch.bool, torch.complex64, torch.complex128):
        return False
    if call.name in _FITS and "accumulate" not in call.arguments:
        return False
    counts = call.name in _COUNTS and all(t.dtype == torch.bool for t in call.tensors)
    return not (counts and target.dtype in (torch.int32, torch.int64))


def _functional(call: Call) -> OpOverload | None:
    packet = aten_packet(call.name)
    if packet is None:
        return None
    for overload in packet.overloads():
        func = getattr(packet, overload)
        names = {a.name for a in func._schema.arguments}
        if call.arguments.keys() <= names and not any(
            a.alias_info is not None and a.alias_info.is_write for a in func._schema.arguments
        ):
            return func  # type: ignore[no-any-return]
    return None
