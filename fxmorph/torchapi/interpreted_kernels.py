"""Compiles whose kernels are interpreted by us, where C++ or Triton would be generated.

Lowering, scheduler, memory planning, the wrapper and calls of other kernels stay torch's.  So what is wrong with
kernels that are interpreted too is wrong before code is generated, and what is right then is generated wrong.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import sympy
import torch
from torch._inductor import config
from torch._inductor.loop_body import MemoryUsageType

from fxmorph.model import Kernels
from fxmorph.torchapi.dispatch import no_dispatch
from fxmorph.torchapi.fake_gpu import fusing_as_for_a_gpu
from fxmorph.torchapi.kernel_interpreter import Kernel, Local, Part
from fxmorph.torchapi.kernel_memory import OWNERS, number_of_graph
from fxmorph.torchapi.kernel_operations import NotInterpreted, configured_precision
from fxmorph.torchapi.kernels_in_fp64 import open_to_fp64
from fxmorph.torchapi.printed_indices import PrintedIndices

#: Kernels of the programs that are compiled, by the number that their wrappers call them by.
_KERNELS: dict[int, Kernel] = {}
_numbers = itertools.count()
_WRITES = (MemoryUsageType.STORE, MemoryUsageType.STORE_REDUCTION)
_READS = (MemoryUsageType.LOAD, MemoryUsageType.LOAD_SEED, MemoryUsageType.BUCKETIZE)


@dataclass(frozen=True)
class _Manner:
    """How kernels are interpreted.

    ``one_by_one``: an iteration reads what those before it wrote, as in a loop.  ``reductions``: only kernels that
    reduce are interpreted.  ``printed``: addresses are computed from their text in this language.
    """

    one_by_one: bool = False
    reductions: bool = False
    printed: Kernels | None = None


def forget_kernels() -> None:
    """Programs that were compiled before are not run any more."""
    _KERNELS.clear()
    OWNERS.clear()


def run_kernel(number: int, sizes: Mapping[str, int], buffers: Mapping[str, Any]) -> None:
    """What the wrapper of a compiled program calls."""
    with no_dispatch():
        _KERNELS[number].run(sizes, buffers)


@contextlib.contextmanager
def kernels_interpreted(
    flavour: Kernels = Kernels.CPP, one_by_one: bool = False, reductions: bool = False, printed: bool = False
) -> Iterator[None]:
    """Compiles inside generate no code for kernels of Inductor's own.

    They are fused as for C++, or as for a GPU on tensors of the CPU.  A kernel that is right only ``one_by_one``, an
    iteration after the other, depends on the order of its iterations.  ``printed``: an address is what the text says
    that the code would have of it.
    """
    manner = _Manner(one_by_one, reductions, flavour if printed else None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(open_to_fp64())
        if flavour is Kernels.GPU:
            stack.enter_context(fusing_as_for_a_gpu())
            stack.enter_context(_scheduling_for_gpus(manner))
        else:
            stack.enter_context(_scheduling_for_cpus(manner))
        yield


@contextlib.contextmanager
def _scheduling_for_cpus(manner: _Manner) -> Iterator[None]:
    from torch._inductor.codegen.cpp import CppScheduling, OuterLoopFusedSchedulerNode

    original = CppScheduling.codegen_node

    def codegen(self: Any, node: Any) -> None:
        if manner.reductions and not node.is_reduction():
            original(self, node)
            return
        if isinstance(node, OuterLoopFusedSchedulerNode):
            nodes = [n for outer in node.get_outer_nodes() for n in outer.get_nodes()]
            _emit(nodes, manner, node.outer_loop_fusion_depth)
        else:
            split = getattr(self, "try_loop_split", list)  # of an index that is divided
            _emit(split(node.get_nodes()), manner)
        self.scheduler.free_buffers()

    with mock.patch.object(CppScheduling, "codegen_node", codegen):
        yield


@contextlib.contextmanager
def _scheduling_for_gpus(manner: _Manner) -> Iterator[None]:
    from torch._inductor.codegen.simd_kernel_features import NodeScheduleMarker
    from torch._inductor.codegen.triton import TritonScheduling

    def codegen(self: Any, node: Any) -> None:
        launched(self, [node])

    def combined(self: Any, node: Any) -> None:
        launched(self, node.get_subkernel_nodes())

    def launched(self: Any, kernels: Sequence[Any]) -> None:
        """Kernels that are launched as one: none may read what another one writes."""
        removed = getattr(self.scheduler, "removed_ops", ())  # not in torch 2.8
        nodes = [[n for n in k.get_nodes() if n.get_name() not in removed] for k in kernels]
        for part, raced in _in_order([part for part in nodes if part]):
            _, (numel, rnumel) = max(part, key=lambda n: int(n.is_reduction())).group
            ordered = list(NodeScheduleMarker.only_nodes(self.generate_node_schedule(part, numel, rnumel)))
            _emit(ordered, manner, raced=raced)
        self.scheduler.free_buffers()

    def templated(self: Any, template: Any, *_: Any, **__: Any) -> None:
        raise NotInterpreted(f"the template {getattr(template.node, 'name', template)} for a GPU")

    methods: dict[str, Callable[..., None]] = {
        "codegen_node": codegen, "codegen_combo_kernel": combined, "codegen_mix_order_reduction": codegen,
        "codegen_nested_reduction": codegen, "codegen_template": templated,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        for name, function in methods.items():
            if hasattr(TritonScheduling, name):
                stack.enter_context(mock.patch.object(TritonScheduling, name, function))
        yield


def _in_order(kernels: Sequence[Sequence[Any]]) -> Iterator[tuple[Sequence[Any], frozenset[str]]]:
    """Kernels, each after those that write what it reads, with the buffers of which that is so."""
    from torch._inductor.virtualized import V

    def touched(kernel: Sequence[Any], kinds: Collection[Any]) -> dict[str, str]:
        real = V.graph.scheduler.mutation_real_name
        return {real.get(name, name): name for node in kernel for name in _names(node, kinds)}

    reads, writes = ([touched(kernel, kinds) for kernel in kernels] for kinds in (_READS, _WRITES))
    left = list(range(len(kernels)))
    while left:
        # Two may wait for each other: then neither comes before it.
        free = [i for i in left if not any(reads[i].keys() & writes[j].keys() for j in left if j != i)]
        chosen = (free or left)[0]
        left.remove(chosen)
        others = frozenset().union(*(writes[j].keys() for j in range(len(kernels)) if j != chosen))
        yield kernels[chosen], frozenset(name for real, name in reads[chosen].items() if real in others)


def _emit(
    nodes: Sequence[Any], manner: _Manner, shared: int | None = None, raced: frozenset[str] = frozenset()
) -> None:
    """In the place of a kernel's code: the wrapper calls :func:`run_kernel`."""
    from torch._inductor.codegen.common import Kernel as GeneratedKernel
    from torch._inductor.virtualized import V

    if V.graph.cpp_wrapper:
        raise NotInterpreted("cpp_wrapper")
    parts = [_part(node, shared) for node in nodes]
    # It decides which buffers take over memory, and which need none.
    planned: Any = GeneratedKernel()
    loaded: set[str] = set()
    with V.set_kernel_handler(planned):
        for node, part in zip(nodes, parts, strict=True):
            node.decide_inplace_update()
            node.mark_run()
            loaded |= part.reads - planned.store_buffer_names
            planned.store_buffer_names |= part.writes
        for name in loaded & set(planned.store_buffer_names):
            planned.must_keep_buffers.add(name)
        planned.remove_kernel_local_buffers()
    V.graph.removed_buffers |= planned.removed_buffers
    V.graph.inplaced_to_remove |= planned.inplaced_to_remove
    made = {buffer.get_name() for node in nodes for buffer in node.get_outputs() if _is_made(buffer)}
    local = {name: _local(name) for name in sorted(planned.removed_buffers)}
    symbols = _symbols(nodes, local.values())
    kernel = Kernel(
        name="", graph=number_of_graph(V.graph), parts=parts, nodes=_origins(nodes), symbols=symbols,
        precision=configured_precision(), made=frozenset(made - planned.removed_buffers),
        in_place=frozenset(planned.inplace_update_buffers) - planned.removed_buffers,
        own=frozenset(_own(parts)), local=local,
        one_by_one=manner.one_by_one, raced=raced,
        printed=PrintedIndices(manner.printed) if manner.printed is not None else None,
    )  # fmt: skip
    number = next(_numbers)
    kernel.name = f"{_name(nodes)}_{number}"
    _KERNELS[number] = kernel
    _write_call(number, kernel, planned)


def _write_call(number: int, kernel: Kernel, planned: Any) -> None:
    from torch._inductor.virtualized import V

    wrapper = V.graph.wrapper_code
    for symbol in kernel.symbols.values():
        wrapper.ensure_size_computed(symbol)
    names = sorted(frozenset().union(*(p.reads | p.writes for p in kernel.parts)) - set(kernel.local))
    buffers = ", ".join(f"{name!r}: {_variable(name, planned)}" for name in names)
    sizes = ", ".join(f"{name!r}: {name}" for name in sorted(kernel.symbols))
    home = f"__import__('sys').modules[{__name__!r}]"
    wrapper.writeline(f"{home}.run_kernel({number}, {{{sizes}}}, {{{buffers}}})")


def _variable(name: str, planned: Any) -> str:
    """What the wrapper calls the memory of a buffer: by the last buffer in it, of those that take it over in turn."""
    from torch._inductor.virtualized import V

    renamed: str = V.graph.scheduler.mutation_real_name.get(name, name)
    names = getattr(planned.args.inplace_buffers.get(renamed), "other_names", None)
    return names[-1] if names else renamed


def _part(node: Any, shared: int | None) -> Part:
    used = {what: _names(node, kinds) for what, kinds in (("reads", _READS), ("writes", _WRITES))}
    points, rounds = node.get_ranges()
    return Part(node._body, points, rounds, used["reads"], used["writes"], shared)


def _names(node: Any, kinds: Collection[Any]) -> frozenset[str]:
    return frozenset(e.buffer_name for kind in kinds for e in node._body.memory_usage[kind] if e.buffer_name)


def _is_made(buffer: Any) -> bool:
    """Whether the kernel is to write the whole buffer: it changes no other one."""
    return not buffer.get_mutations() and not buffer.node.get_inputs_that_alias_output()


def _own(parts: Sequence[Part]) -> Iterator[str]:
    """Names of buffers that kernels of Inductor's make, in memory of its own."""
    from torch._inductor import ir
    from torch._inductor.virtualized import V

    for name in frozenset().union(*(p.reads | p.writes for p in parts)):
        real = V.graph.scheduler.mutation_real_name.get(name, name)
        buffer = V.graph.scheduler.name_to_buf.get(real)
        if buffer is not None and isinstance(buffer.node, ir.ComputedBuffer) and not buffer.get_mutations():
            yield name


def _local(name: str) -> Local:
    from torch._inductor.virtualized import V

    layout = V.graph.get_buffer(name).get_layout()
    return Local(layout.size, layout.stride, layout.dtype)


def _origins(nodes: Sequence[Any]) -> list[str]:
    """The FX nodes that a kernel comes from, in the order of the graph."""
    found = {origin for node in nodes for origin in node.node.get_origins()}
    order = {node: number for graph in {o.graph for o in found} for number, node in enumerate(graph.nodes)}
    return [origin.name for origin in sorted(found, key=lambda o: (order[o], o.name))]


def _name(nodes: Sequence[Any]) -> str:
    from torch._inductor.utils import get_fused_kernel_name

    named: str = get_fused_kernel_name(nodes, "original_aten")
    return named


def _symbols(nodes: Sequence[Any], local: Collection[Local]) -> dict[str, Any]:
    """The sizes that loops, addresses and buffers hang on, wherever in a body they are."""
    said: list[Any] = [n for buffer in local for n in (*buffer.size, *buffer.stride)]
    for node in nodes:
        body = node._body
        said += [*body.indexing_exprs.values(), *itertools.chain(*node.get_ranges())]
        said += getattr(body, "indirect_var_ranges", {}).values()
        said += (a for n in body.get_nodes() for a in torch.utils._pytree.tree_leaves((n.args, n.kwargs)))
        said += _closed_over(body)
    symbols = set().union(*(s.free_symbols for s in said if isinstance(s, sympy.Basic)))
    own = {v for node in nodes for v in (*node._body.var_ranges, *node._body.indirect_vars)}
    return {s.name: s for s in symbols - own}


def _closed_over(body: Any) -> Iterator[Any]:
    """What functions of a body keep, as sizes that indices must lie below."""
    for function in body.submodules.values():
        for cell in getattr(function, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # a cell that is empty
                yield cell.cell_contents


def missing_settings() -> list[str]:
    """Settings of Inductor that are needed here and this release lacks."""
    return [name for name in ("cpu_backend", "inplace_buffers", "emulate_precision_casts") if not hasattr(config, name)]
