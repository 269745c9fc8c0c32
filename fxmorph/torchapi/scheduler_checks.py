"""What functions of Inductor's scheduler find out, compared with what we find out ourselves, and put right.

A check says of one call of a function what is wrong with what it did, nothing where it agrees.  Watched compiles
stay as they are; in mended ones our own answer takes the place of a wrong one, and right ones stay as they are.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from unittest import mock

from fxmorph.torchapi import plain_accesses, plain_dependencies, plain_fusion
from fxmorph.torchapi.corrections import Check

_SCHEDULER = "torch._inductor.scheduler"
_CPP = "torch._inductor.codegen.cpp"
T = TypeVar("T")


@dataclass(frozen=True)
class _Checked:
    """Where a function is looked up when it is called, and its check."""

    module: str
    name: str
    check: Check


#: By the name of the unit.  What others rely on comes first.
_CHECKED: Mapping[str, _Checked] = {
    "extract_read_writes": _Checked(
        "torch._inductor.dependencies", "extract_read_writes", plain_accesses.check_accesses
    ),
    "compute_dependencies": _Checked(
        _SCHEDULER, "Scheduler.compute_dependencies", plain_dependencies.check_dependencies
    ),
    "compute_ancestors": _Checked(_SCHEDULER, "Scheduler.compute_ancestors", plain_dependencies.check_ancestors),
    "SchedulerNode/recompute_size_and_body": _Checked(
        _SCHEDULER, "SchedulerNode.recompute_size_and_body", plain_dependencies.check_order_kept
    ),
    "SchedulerNode/refresh_dependencies": _Checked(
        _SCHEDULER, "SchedulerNode.refresh_dependencies", plain_dependencies.check_order_kept
    ),
    "prune_redundant_deps": _Checked(_SCHEDULER, "_prune_redundant_deps", plain_dependencies.check_pruned),
    "refresh_group_node_dependencies": _Checked(
        _SCHEDULER, "refresh_group_node_dependencies", plain_dependencies.check_group
    ),
    "init_group_node": _Checked(_SCHEDULER, "init_group_node", plain_dependencies.check_group_place),
    "compute_last_usage": _Checked(_SCHEDULER, "Scheduler.compute_last_usage", plain_dependencies.check_last_usage),
    "fusable_read_and_write": _Checked(
        _SCHEDULER, "Scheduler.fusable_read_and_write", plain_fusion.check_read_and_write
    ),
    "fusable_weak_dep": _Checked(_SCHEDULER, "Scheduler.fusable_weak_dep", plain_fusion.check_weak),
    "will_fusion_create_cycle": _Checked(
        _SCHEDULER, "Scheduler.will_fusion_create_cycle", plain_fusion.check_cycle
    ),
    "can_fuse": _Checked(_SCHEDULER, "Scheduler.can_fuse", plain_fusion.check_order),
    "CppScheduling/can_fuse_horizontal": _Checked(
        _CPP, "CppScheduling.can_fuse_horizontal", plain_fusion.check_loops
    ),
    "CppScheduling/can_fuse_vertical": _Checked(
        _CPP, "CppScheduling.can_fuse_vertical", plain_fusion.check_loops_of_reader
    ),
}  # fmt: skip
#: Names of what can be checked.
CHECKED: Collection[str] = tuple(_CHECKED)


@contextlib.contextmanager
def scheduler_checked(*mended: str) -> Iterator[dict[str, str]]:
    """What is wrong, in words, by the name of the function that did it, in compiles inside; ``mended`` are put right.

    Where any is mended, no other is looked at.
    """
    wrong: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for unit in mended or CHECKED:
            checked = _CHECKED[unit]
            home: Any = importlib.import_module(checked.module)
            *path, name = checked.name.split(".")
            for part in path:
                home = getattr(home, part, None)
            original = getattr(home, name, None)
            if original is not None:
                watched = _watched(original, unit, checked.check, wrong, bool(mended))
                stack.enter_context(mock.patch.object(home, name, watched))
        yield wrong


def _watched(
    original: Callable[..., Any], unit: str, check: Check, wrong: dict[str, str], mend: bool
) -> Callable[..., Any]:
    @functools.wraps(original)
    def watched(*args: Any, **kwargs: Any) -> Any:
        after = _said(lambda: check(*args, **kwargs))
        result = original(*args, **kwargs)
        correction = None if after is None else _said(lambda: after(result))
        if correction is None:
            return result
        wrong.setdefault(unit, correction.wrong)
        return correction.mend() if mend else result

    return watched


def _said(say: Callable[[], T]) -> T | None:
    """None where we cannot say: nodes of a kind, or of a release, that we do not know are not wrong."""
    try:
        return say()
    except Exception:
        return None
