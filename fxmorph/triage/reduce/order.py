"""The total order in which one program is simpler than another.

Compared part by part, the first that differs decides:

1. fewer calls, 2. fewer outputs, 3. fewer inputs, 4. fewer settings of the compiler,
5. fewer inputs that require grad, 6. lower ranks, 7. fewer elements,
8. dtypes nearer to float32, 9. fewer inputs that are not contiguous memory of their own,
10. plainer constants (0, 1, small integers, nothing where there is a default),
11. plainer values (all 0, all 1, a range, integers), 12. a shorter text, then the text itself.

Every pass only offers programs that are simpler, so that reduction ends and does not depend on the
order of its passes for that (after Hypothesis' shortlex order of choices).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import fx

from fxmorph.programs.graph import calls
from fxmorph.programs.inputs import flat_storage
from fxmorph.torchapi.storages import storage_key
from fxmorph.triage.reduce.candidate import Candidate

#: The plainest first; what is not listed comes last.
DTYPES = (torch.float32, torch.int64, torch.bool, torch.float64, torch.float16, torch.bfloat16, torch.int32)
#: What a constant costs that is no small number.
ODD = 1000


def simplicity(program: Candidate) -> tuple[Any, ...]:
    """The smaller, the simpler; raises :class:`~fxmorph.programs.graph.Unprintable`."""
    tensors = [v for v in program.values if isinstance(v, torch.Tensor)]
    shared = Counter(storage_key(t) for t in tensors)
    config = program.config
    return (
        program.nodes,
        len(outputs(program.graph)),
        len(program.holders),
        len(config.options) + len(config.inductor) + len(config.dynamo),
        sum(t.requires_grad for t in tensors),
        sum(t.ndim for t in tensors),
        sum(t.numel() for t in tensors),
        sum(DTYPES.index(t.dtype) if t.dtype in DTYPES else len(DTYPES) for t in tensors),
        sum(not plain(t) or shared[storage_key(t)] > 1 for t in tensors),
        sum(constant_cost(n.args) + constant_cost(n.kwargs) for n in calls(program.graph)),
        sum(value_cost(t) for t in tensors),
        len(program.text),
        program.text,
    )


def outputs(graph: fx.Graph) -> list[Any]:
    """What the graph returns, as a list."""
    returned = output_node(graph).args[0]
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def output_node(graph: fx.Graph) -> fx.Node:
    """The node that returns."""
    return next(n for n in reversed(graph.nodes) if n.op == "output")


def plain(t: torch.Tensor) -> bool:
    """Whether a tensor is contiguous and all of its memory."""
    return t.is_contiguous() and t.numel() * t.element_size() == t.untyped_storage().nbytes()


def constant_cost(value: Any) -> int:
    """What a constant argument costs; each argument costs 1 besides."""
    if isinstance(value, (tuple, list)):
        return sum(1 + constant_cost(v) for v in value)
    if isinstance(value, dict):
        return sum(1 + constant_cost(v) for v in value.values())
    if isinstance(value, slice):
        return sum(1 + constant_cost(v) for v in (value.start, value.stop, value.step) if v is not None)
    if value is None or isinstance(value, (fx.Node, bool)):
        return 0
    if isinstance(value, (int, float)):
        whole = value == value and abs(value) < ODD and value == int(value)
        return 2 * abs(int(value)) + (value < 0) if whole else 2 * ODD
    return ODD


def value_cost(t: torch.Tensor) -> int:
    """0 all zeros, 1 all ones, 2 a range, 3 small integers, 4 anything else."""
    flat = flat_storage(t.detach())
    if not flat.numel():
        return 0
    if not bool(flat.ne(0).any()):
        return 0
    if not bool(flat.ne(1).any()):
        return 1
    if t.is_complex() or t.dtype == torch.bool:
        return 4
    wide = flat.double()
    if torch.equal(wide, torch.arange(flat.numel(), dtype=torch.float64, device=flat.device)):
        return 2
    return 3 if bool((wide == wide.round()).all()) and float(wide.abs().max()) < ODD else 4
