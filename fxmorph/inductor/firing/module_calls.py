"""Calls of modules on a value, for passes over graphs that are traced symbolically."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import unset_fake_temporarily

#: Modules made of the number of channels, of the size of the last dimension, or of nothing that depends on the value.
_BY_CHANNELS: dict[type, Callable[[int], tuple[Any, ...]]] = {
    nn.Conv1d: lambda c: (c, 4, 3), nn.Conv2d: lambda c: (c, 4, 3), nn.Conv3d: lambda c: (c, 4, 3),
    nn.ConvTranspose2d: lambda c: (c, 4, 3), nn.BatchNorm1d: lambda c: (c,), nn.BatchNorm2d: lambda c: (c,),
    nn.BatchNorm3d: lambda c: (c,), nn.GroupNorm: lambda c: (2, c), nn.InstanceNorm2d: lambda c: (c,),
}  # fmt: skip
_BY_LAST: dict[type, Callable[[int], tuple[Any, ...]]] = {
    nn.Linear: lambda n: (n, 8), nn.LayerNorm: lambda n: (n,), nn.RMSNorm: lambda n: (n,),
}  # fmt: skip
_PLAIN: dict[type, tuple[Any, ...]] = {
    nn.MaxPool2d: (2,), nn.AvgPool2d: (2,), nn.AdaptiveAvgPool2d: (1,), nn.Softmax: (-1,), nn.LogSoftmax: (-1,),
    nn.Upsample: (None, 2),
}  # fmt: skip
#: Shapes of what modules are called on.
SHAPES: tuple[tuple[int, ...], ...] = ((4, 6), (2, 4, 6, 6), (2, 4, 8))


def module_calls(kind: type, value: Any) -> Iterator[functools.partial[nn.Module]]:
    """What makes a module of the class that can be called on the (fake) value."""
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return
    if kind in _BY_CHANNELS:
        if value.ndim > 1:
            yield functools.partial(kind, *_BY_CHANNELS[kind](int(value.shape[1])))
    elif kind in _BY_LAST:
        yield functools.partial(kind, *_BY_LAST[kind](int(value.shape[-1])))
    else:
        yield functools.partial(kind, *_PLAIN.get(kind, ()))


def made_module(make: Callable[[], nn.Module]) -> nn.Module:
    """The module in evaluation, with parameters and buffers that are the same each time and not those of a new one."""
    with unset_fake_temporarily(), torch.random.fork_rng(devices=[]):
        seed_generators(0)
        module = make().eval()
        with torch.no_grad():
            for value in [*module.parameters(), *module.buffers()]:
                if value.is_floating_point():
                    value.copy_(torch.rand_like(value) + 0.5 if value.ndim == 1 else torch.randn_like(value))
        return module
