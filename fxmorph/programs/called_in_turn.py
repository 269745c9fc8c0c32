"""A program called again and again, each time with something changed that guards and cache keys must notice.

What a compiler keeps of one call (a compiled function, an entry of a cache on disk) may answer the next one only
where nothing that it was made for has changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from fxmorph.programs.inputs import NotApplicable
from fxmorph.torchapi.dispatch import tensors_of, tree_leaves, tree_map
from fxmorph.torchapi.storages import storage_key

if TYPE_CHECKING:
    from fxmorph.programs.load import Invocation, LoadedSeed


#: What a script calls a program's own driver, where the program is called several times.
ONCE = "drive_once"


@dataclass(frozen=True)
class Change:
    """What is changed for one call: ``one`` is done to each argument, ``text`` says so as a lambda.

    ``training``: the module's mode is the other one for this call.
    """

    one: Callable[[Any], Any]
    text: str = ""
    training: bool = False

    def of(self, args: list[Any]) -> list[Any]:
        return [tree_map(self.one, value) for value in args]

    @property
    def given(self) -> str:
        """The arguments of the call, as text."""
        return f"*tree_map({self.text}, inputs)" if self.text else "*inputs"


def _number(scale: float, shift: float) -> Change:
    """Floats where there are some; else there is nothing to change."""
    text = f"lambda v: v * {scale} + {shift} if type(v) is float else v"
    return Change(lambda v: v * scale + shift if type(v) is float else v, text)


def _whole(by: int) -> Change:
    return Change(lambda v: v + by if type(v) is int else v, f"lambda v: v + {by} if type(v) is int else v")


def _wider(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    other = torch.float32 if value.dtype == torch.float64 else torch.float64
    return value.detach().to(other).requires_grad_(value.requires_grad)


_AS_IT_IS = Change(lambda v: v)
_DTYPE = Change(
    _wider,
    "lambda v: v.detach().to(torch.float32 if v.dtype == torch.float64 else torch.float64)"
    " if torch.is_tensor(v) and v.is_floating_point() else v",
)
_MODE = Change(lambda v: v, training=True)


def _of_its_own(value: Any) -> Any:
    return value.detach().clone().requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value


_APART = Change(
    _of_its_own, "lambda v: v.detach().clone().requires_grad_(v.requires_grad) if torch.is_tensor(v) else v"
)
#: Numbers change twice: the second value makes what is compiled hold for any, and the third asks whether it does.
_NUMBERS = ((_number(1.5, 0.25), _number(2.25, 0.5)), (_number(0.75, 0.0), _number(0.5, 0.0)))
_WHOLES = ((_whole(1), _whole(2)),)


@dataclass(frozen=True)
class Turns:
    """The calls after the first, which has no gradients where ``plain_first``.

    ``apart_first``: tensors that share memory have memory of their own in the first call (pytorch/pytorch#139789).
    """

    changes: tuple[Change, ...]
    plain_first: bool
    apart_first: bool = False

    @property
    def of_dtype(self) -> bool:
        """Whether the dtype is what changes."""
        return _DTYPE in self.changes

    @property
    def _first(self) -> Change:
        return _APART if self.apart_first else _AS_IT_IS

    def of(self, loaded: LoadedSeed, input_seed: int) -> Invocation:
        """One program that makes all calls, each on arguments of its own, and returns what each returned."""
        from fxmorph.programs.load import Invocation

        first = loaded.fresh(input_seed, self._first.of)
        later = [(c, loaded.fresh(input_seed, c.of)) for c in self.changes]

        def drive(g: Any) -> Any:
            with torch.no_grad() if self.plain_first else contextlib.nullcontext():
                out = [first.drive(g)]
            for change, call in later:
                if change.training:
                    g.train(not g.training)
                out.append(call.drive(g))
                if change.training:
                    g.train(not g.training)
            return out

        return Invocation(first.fn, [first.args, *(call.args for _, call in later)], drive, first.state)

    def text(self, driven: bool) -> str:
        """The same as a function ``drive`` of a script; ``driven``: its program is driven by :data:`ONCE`."""
        called = f"{ONCE}(g, " if driven else "g("
        first = f"out = [{called}{self._first.given})]"
        lines = [
            "def drive(g, *inputs):  # what is kept of one call must not answer the next",
            "    from torch.utils._pytree import tree_map",
            *(["    with torch.no_grad():", f"        {first}"] if self.plain_first else [f"    {first}"]),
        ]
        for change in self.changes:
            lines += ["    g.train(not g.training)"] if change.training else []
            lines.append(f"    out.append({called}{change.given}))")
            lines += ["    g.train(not g.training)"] if change.training else []
        return "\n".join([*lines, "    return out"])


def turns(loaded: LoadedSeed, input_seed: int) -> Turns:
    """What may change from call to call: what eager accepts.  Raises :class:`NotApplicable` where that is nothing."""
    made = loaded.fresh(input_seed)
    kinds = {type(v) for v in tree_leaves(made.args)}
    found: list[Change] = []
    for pair in (*(_NUMBERS if float in kinds else ()), *(_WHOLES if int in kinds and float not in kinds else ())):
        if _accepted(loaded, input_seed, pair):
            found += pair
            break
    grads = not loaded.no_grad and any(t.requires_grad for t in made.tensors)
    if grads:
        found.append(_AS_IT_IS)
    if isinstance(made.fn, torch.nn.Module) and any(part.training for part in made.fn.modules()):
        found.append(_MODE)
    given = tensors_of(made.args)
    apart = not grads and len({storage_key(t) for t in given}) < len(given) and _accepted(loaded, input_seed, [_APART])
    if apart:
        found.insert(0, _AS_IT_IS)
    if not found and any(t.is_floating_point() for t in given) and _accepted(loaded, input_seed, [_DTYPE]):
        found.append(_DTYPE)
    if not found:
        raise NotApplicable("nothing to change from call to call")
    return Turns(tuple(found), grads, apart)


def _accepted(loaded: LoadedSeed, input_seed: int, changes: Sequence[Change]) -> bool:
    try:
        for change in changes:
            made = loaded.fresh(input_seed, change.of)
            with torch.no_grad():
                made.drive(made.fn)
    except Exception:
        return False
    return True
