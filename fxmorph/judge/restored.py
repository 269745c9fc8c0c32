"""A module that was compiled before, in the state of one that was made anew.

Dynamo guards a module by identity, so that a new one for each plan would be compiled anew.
"""

from __future__ import annotations

from typing import Any

import torch

from fxmorph.programs.contents import Contents, differing, is_tensor, look_into, same_plain
from fxmorph.programs.inputs import flat_storage
from fxmorph.programs.load import Invocation, state_of
from fxmorph.torchapi.compiling import MARKS

#: Tensors that are their memory, and nothing beside it.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
#: Where modules have their parts.
_PARTS = ("_parameters", "_buffers", "_modules")
#: What every module has beside its parts and its author's attributes, but for the mode that it is in.
_OF_ALL_MODULES = frozenset(vars(torch.nn.Module())) - {"training", *_PARTS} | MARKS


def restored(old: Invocation, made: Invocation) -> Invocation | None:
    """``made`` with the module of ``old`` in the place of its own, in the same state.

    None where writing to the memory of parameters and buffers does not make the one what the other is: a call put
    other tensors into the module, gave its buffers a gradient, left it in another mode, or changed what its author
    keeps there beside them.
    """
    if not _same_memory(old, made) or not _same_beside(old, made):
        return None
    with torch.no_grad():
        for name, tensor in old.state.items():
            # The memory beside a view, too, which plans write and which is looked at.
            flat_storage(tensor).copy_(flat_storage(made.state[name]))
            tensor.grad = None
    return Invocation(old.fn, made.args, made.drive, old.state)


def _same_memory(old: Invocation, made: Invocation) -> bool:
    now = state_of(old.fn)
    return now.keys() == made.state.keys() and all(
        t is old.state.get(k) and t.is_leaf and _alike(t, made.state[k]) for k, t in now.items()
    )


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of a module's state are the same but for what their memory holds."""
    of_memory = all(t.layout == torch.strided and not t.is_quantized and type(t) in _PLAIN for t in (a, b))
    return of_memory and _form(a) == _form(b)


def _form(t: torch.Tensor) -> tuple[object, ...]:
    memory = t.untyped_storage().nbytes()
    return t.requires_grad, t.dtype, t.device, t.shape, t.stride(), t.storage_offset(), memory


def _same_beside(old: Invocation, made: Invocation) -> bool:
    """Whether modes, attributes and parts are the same: parameters and buffers by their names."""
    (mine, names), (theirs, their_names) = _beside(old), _beside(made)
    if mine.slots.keys() != theirs.slots.keys() or any(differing(mine, theirs)):
        return False
    return all(_same(mine.slots[place], theirs.slots[place], names, their_names) for place in mine.slots)


def _beside(program: Invocation) -> tuple[Contents, dict[int, str]]:
    """What its modules hold, each other aside; the names of parameters and buffers by their ids."""
    modules = dict(program.fn.named_modules())  # type: ignore[attr-defined]
    held = [
        (f"{name}.{key}", value)
        for name, module in modules.items()
        for key, value in vars(module).items()
        if key not in _OF_ALL_MODULES
    ]
    return look_into(held, {id(m) for m in modules.values()}), {id(t): name for name, t in program.state.items()}


def _same(a: Any, b: Any, names: dict[int, str], their_names: dict[int, str]) -> bool:
    if not is_tensor(a) or not is_tensor(b):
        return is_tensor(a) == is_tensor(b) and same_plain(a, b) is True
    if id(a) in names or id(b) in their_names:
        return names.get(id(a)) == their_names.get(id(b))
    return type(a) is type(b) and _alike(a, b) and torch.equal(a, b)
