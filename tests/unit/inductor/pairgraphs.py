"""Graphs for tests of pairs: functions traced to ATen with fake tensors noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx


def traced(function: Callable[..., Any], *inputs: Any) -> fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*inputs)


def numbers(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
