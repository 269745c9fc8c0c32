"""One run of a graph on its own inputs, node by node: values, strides, shared memory, and who writes when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxmorph.model import TensorSpec
from fxmorph.programs.inputs import InputSet, memory_of, spec_of, strided_clone
from fxmorph.programs.modes import Modes, modes_restored
from fxmorph.programs.observe import loss_of
from fxmorph.torchapi.devices import seed_generators
from fxmorph.torchapi.dispatch import tree_leaves
from fxmorph.torchapi.storages import storage_key

#: Graphs whose values exceed this many elements are not profiled.
MAX_ELEMENTS = 20_000_000


class GraphTooLarge(Exception):
    """The values of a graph are more than are kept."""


@dataclass
class Profile:
    """One run of a graph, node by node.

    ``values`` are clones as they were when computed; ``reread`` has those that were written to since,
    as a later node read them, by (reader, read).
    """

    order: dict[fx.Node, int] = field(default_factory=dict)
    values: dict[fx.Node, Any] = field(default_factory=dict)
    reread: dict[tuple[fx.Node, fx.Node], torch.Tensor] = field(default_factory=dict)
    specs: dict[fx.Node, TensorSpec] = field(default_factory=dict)
    storages: dict[fx.Node, frozenset[int]] = field(default_factory=dict)
    writes: list[tuple[int, int]] = field(default_factory=list)  # (order of the writer, storage)
    #: Nodes that require grad once the graph has run; a later write may have made them.
    differentiable: frozenset[fx.Node] = frozenset()
    #: Orders of the nodes that switch a mode of the process, and whether all modes were as before when the run ended.
    switches: list[int] = field(default_factory=list)
    keeps_modes: bool = True

    def read_by(self, readers: Iterable[fx.Node], node: fx.Node) -> Any:
        """The value of ``node`` as the first of ``readers`` that reads it found it, which is all of them's."""
        return next((self.reread[r, node] for r in readers if (r, node) in self.reread), self.values[node])

    def written_after(self, storages: frozenset[int], order: int) -> bool:
        """Whether a later node writes to any of the storages."""
        return any(k > order and s in storages for k, s in self.writes)

    def touched_after(self, storages: frozenset[int], order: int) -> bool:
        """Whether a later node (the output included) reads or writes any of the storages."""
        for node, k in self.order.items():
            if k > order:
                used = [node, *node.all_input_nodes] if node.op != "output" else node.all_input_nodes
                if any(self.storages.get(n, frozenset()) & storages for n in used):
                    return True
        return False


def _readable(t: Any) -> bool:
    return isinstance(t, torch.Tensor) and t.layout == torch.strided and not t.is_quantized


class _Profiler(fx.Interpreter):
    def __init__(self, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(torch.nn.Module(), graph), garbage_collect_values=False)
        self.profile = Profile()
        self._tensors: dict[int, torch.Tensor] = {}
        self._versions: dict[int, int] = {}
        self._contents: dict[int, torch.Tensor] = {}
        self._total = 0

    def run_node(self, n: fx.Node) -> Any:
        read = [self.env[a] for a in n.all_input_nodes if isinstance(self.env.get(a), torch.Tensor)]
        for a in n.all_input_nodes:
            if a in self.profile.specs and self.profile.written_after(self.profile.storages[a], self.profile.order[a]):
                self.profile.reread[n, a] = strided_clone(self.env[a])
        modes = Modes.now()
        result = super().run_node(n)
        p = self.profile
        k = p.order[n] = len(p.order)
        if modes != Modes.now():
            p.switches.append(k)
        keys = set()
        for t in tree_leaves(result):
            if isinstance(t, torch.Tensor) and t.layout == torch.strided:
                key = storage_key(t)
                keys.add(key)
                if key not in self._tensors:
                    self._tensors[key], self._versions[key] = t, t._version
                self._total += t.numel()
        p.storages[n] = frozenset(keys)
        for key, t in self._tensors.items():
            if t._version != self._versions[key]:
                self._versions[key] = t._version
                p.writes.append((k, key))
        self._unannounced_writes(k, read if n.op != "output" else [])
        for t in (*read, *tree_leaves(result)):
            if _readable(t):
                self._contents[storage_key(t)] = memory_of(t).clone()
        if self._total > MAX_ELEMENTS:
            raise GraphTooLarge("graph too large to profile")
        if isinstance(result, torch.Tensor) and result.layout == torch.strided and not result.is_quantized:
            p.specs[n] = spec_of(result, len(p.specs))
            p.values[n] = strided_clone(result)
        elif not isinstance(result, torch.Tensor):
            p.values[n] = result if isinstance(result, (int, float, bool)) else None
        return result

    def _unannounced_writes(self, order: int, read: list[torch.Tensor]) -> None:
        """Some operators write without counting a version (batch_norm its running statistics)."""
        for t in filter(_readable, read):
            key = storage_key(t)
            before, now = self._contents.get(key), memory_of(t)
            changed = before is not None and before.shape == now.shape and not torch.equal(before, now)
            if changed and (order, key) not in self.profile.writes:
                self.profile.writes.append((order, key))


def profile(graph: fx.Graph, inputs: InputSet, backward: bool = False, partial: bool = False) -> Profile:
    """Run the graph on the inputs, and its backward pass if asked; raises whatever the program raises.

    ``partial``: of a program that raises, what was seen until then.
    """
    seed_generators(2)
    profiler = _Profiler(graph)
    with modes_restored() as modes:
        try:
            out = profiler.run(*inputs.rebuild())
        except Exception:
            if partial:
                return profiler.profile
            raise
        finally:
            profiler.profile.keeps_modes = modes == Modes.now()
    profiler.profile.differentiable = frozenset(
        n for n, value in profiler.env.items() if isinstance(value, torch.Tensor) and value.requires_grad
    )
    if backward:
        loss = loss_of([t for t in tree_leaves(out) if isinstance(t, torch.Tensor)], exact=False)
        if loss is not None and loss.requires_grad:
            loss.backward()
    return profiler.profile
