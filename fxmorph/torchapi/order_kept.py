"""Which function of Inductor's scheduler loses the order of two nodes that the program asks for.

Whenever dependencies change, the pairs of nodes that must stay in order are looked up again; what one function drops
and another puts back is not lost.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from fxmorph.torchapi.program_order import ProgramOrder, Wanted, is_weak

#: Classes of nodes, whose methods change what they wait for.
_CLASSES = (
    "BaseSchedulerNode",
    "SchedulerNode",
    "ExternKernelSchedulerNode",
    "NopKernelSchedulerNode",
    "FusedSchedulerNode",
    "Scheduler",
)
#: What only sets what it is given, and what the whole is made of.
_NOT_ASKED = ("set_read_writes", "prune_deps", "_init", "codegen")


@contextlib.contextmanager
def order_watched(mended: str = "") -> Iterator[dict[str, str]]:
    """What order is lost, in words, by the function that loses it; what ``mended`` loses is put back at once."""
    from torch._inductor import scheduler

    lost: dict[str, str] = {}
    keeper = _Keeper(mended, lost)
    with contextlib.ExitStack() as stack:
        setting = keeper.attributes_set(scheduler.BaseSchedulerNode.__setattr__)
        stack.enter_context(mock.patch.object(scheduler.BaseSchedulerNode, "__setattr__", setting))
        for home, name, unit in _functions(scheduler):
            watched = keeper.watched(home.__dict__[name], unit)
            stack.enter_context(mock.patch.object(home, name, watched))
        stack.enter_context(
            mock.patch.object(scheduler.Scheduler, "compute_dependencies", keeper.started(scheduler.Scheduler))
        )
        stack.enter_context(mock.patch.object(scheduler.Scheduler, "_init", keeper.whole(scheduler.Scheduler._init)))
        yield lost


def _functions(module: Any) -> Iterator[tuple[Any, str, str]]:
    """Where each function lies, its name there, and that of its unit."""
    for name, value in vars(module).items():
        if hasattr(value, "__code__") and value.__module__ == module.__name__:
            yield module, name, name.lstrip("_")
    for name in _CLASSES:
        home = getattr(module, name, None)
        for method, value in vars(home).items() if home is not None else ():
            if hasattr(value, "__code__") and not method.startswith("__") and method not in _NOT_ASKED:
                yield home, method, f"{name}/{method}"


class _Keeper:
    """The pairs of one scheduler, and who lost which."""

    def __init__(self, mended: str, told: dict[str, str]) -> None:
        self.mended, self.told = mended, told
        self.scheduler: Any = None
        self.wanted: list[Wanted] = []
        self.lost: dict[int, str] = {}
        #: Times that dependencies were set, in all and when they were last looked at.
        self.changes = self.looked = 0
        self.nodes: tuple[int, ...] = ()

    def attributes_set(self, original: Callable[..., None]) -> Callable[[Any, str, Any], None]:
        """What nodes do in the place of their ``__setattr__``."""

        def set_attribute(node: Any, name: str, value: Any) -> None:
            original(node, name, value)
            self.changes += name == "unmet_dependencies"

        return set_attribute

    def watched(self, original: Callable[..., Any], unit: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def function(*args: Any, **kwargs: Any) -> Any:
            before = self.changes
            result = original(*args, **kwargs)
            if self.scheduler is not None:
                try:
                    self._look(unit, before)
                except Exception:  # nodes that we do not know: nothing is told of this scheduler
                    self.scheduler, self.lost = None, {}
            return result

        return function

    def started(self, home: Any) -> Callable[..., Any]:
        """Dependencies are there from here on; those that are not are told by the check of this function."""
        original = home.compute_dependencies

        @functools.wraps(original)
        def compute(scheduler: Any) -> Any:
            reads = {n.get_name(): [d.name for d in n.read_writes.reads if not is_weak(d)] for n in scheduler.nodes}
            result = original(scheduler)
            with contextlib.suppress(Exception):  # nodes that we do not know have no order that we know
                wanted = ProgramOrder(scheduler, reads).wanted
                self.scheduler = scheduler
                self.wanted = [w for w in wanted if not self._is_lost(w, {})]
            return result

        return compute

    def whole(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def schedule(*args: Any, **kwargs: Any) -> Any:
            self.scheduler, self.wanted, self.lost, self.nodes = None, [], {}, ()
            result = original(*args, **kwargs)
            self.scheduler = None
            for number, unit in self.lost.items():
                wanted = self.wanted[number]
                self.told.setdefault(unit, f"{wanted.later.get_name()} does not wait for {wanted.earlier.get_name()}")
            return result

        return schedule

    def _look(self, unit: str, before: int) -> None:
        """Look up the pairs where the function has changed dependencies since there were ``before``, or fused nodes."""
        nodes = tuple(map(id, self.scheduler.name_to_fused_node.values()))
        if self.changes == max(before, self.looked) and nodes == self.nodes:
            return
        self.looked, self.nodes = self.changes, nodes
        known: dict[int, set[int]] = {}
        lost = [i for i, wanted in enumerate(self.wanted) if self._is_lost(wanted, known)]
        if unit == self.mended:
            for number in lost:
                if number not in self.lost:
                    self._put_back(self.wanted[number])
        self.lost = {i: self.lost.get(i, unit) for i in lost}

    def _is_lost(self, wanted: Wanted, known: dict[int, set[int]]) -> bool:
        from torch._inductor.virtualized import V

        fused, names = self.scheduler.name_to_fused_node, (wanted.later.get_name(), wanted.earlier.get_name())
        if names[0] == names[1] or any(n not in fused or n in V.graph.removed_operations for n in names):
            return False
        later, earlier = (fused[n] for n in names)
        return later is not earlier and id(earlier) not in self._before(later, known)

    def _before(self, node: Any, known: dict[int, set[int]]) -> set[int]:
        """Nodes, by ``id``, that a node waits for."""
        if id(node) not in known:
            found, left, buffers = set[int](), [node], self.scheduler.name_to_buf
            while left:
                for dep in left.pop().unmet_dependencies:
                    if dep.name in buffers:
                        maker = self.scheduler.name_to_fused_node.get(buffers[dep.name].defining_op_name())
                        if maker is not None and id(maker) not in found:
                            found.add(id(maker))
                            left.append(maker)
            known[id(node)] = found
        return known[id(node)]

    def _put_back(self, wanted: Wanted) -> None:
        from torch._inductor.dependencies import StarDep, WeakDep

        name = wanted.later.get_name()
        node = self.scheduler.name_to_fused_node[name]
        dep = WeakDep(wanted.buffer, wanted.writes, True) if wanted.writes else StarDep(wanted.buffer)
        node.read_writes = node.read_writes.with_read(dep)
        node.unmet_dependencies = type(node.unmet_dependencies)([*node.unmet_dependencies, dep])
