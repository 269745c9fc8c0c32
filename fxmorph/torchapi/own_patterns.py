"""Patterns of a user's own: passes made of them, and what was given where they were registered."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import fx
from torch._higher_order_ops.auto_functionalize import auto_functionalized

from fxmorph.torchapi.patterns import Source

__all__ = [
    "auto_functionalized", "entries_of", "is_matcher_pass", "is_replacement", "matcher_pass", "noting_replacements",
    "pattern_pass_of", "rewritten", "traced_pattern",
]  # fmt: skip


def _matcher() -> Any:
    return importlib.import_module("torch._inductor.pattern_matcher")


def matcher_pass() -> Any:
    """An empty ``PatternMatcherPass``."""
    return _matcher().PatternMatcherPass()


def is_matcher_pass(value: Any) -> bool:
    return isinstance(value, _matcher().PatternMatcherPass)


def pattern_pass_of(pattern: Callable[..., Any], replacement: Callable[..., Any], examples: Sequence[Any]) -> Any:
    """A ``PatternMatcherPass`` of one replacement, traced on the example inputs as for inference."""
    matcher, patterns = _matcher(), matcher_pass()
    matcher.register_replacement(pattern, replacement, list(examples), matcher.fwd_only, patterns)
    return patterns


def rewritten(gm: fx.GraphModule, pattern: Any, replacement: Any) -> None:
    """``torch.fx.subgraph_rewriter`` on the module in place."""
    from torch.fx import subgraph_rewriter

    subgraph_rewriter.replace_pattern(gm, pattern, replacement)


@contextlib.contextmanager
def noting_replacements() -> Iterator[list[Source]]:
    """What ``register_replacement`` and ``subgraph_rewriter`` are given inside, as they are told of it.

    Modules that are imported inside get functions that note; those that hold the functions already are told too.
    """
    from torch.fx import subgraph_rewriter

    matcher = _matcher()
    noted: list[Source] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(_replaced(matcher, "register_replacement", _noting_registered(matcher, noted)))
        for name in ("replace_pattern", "replace_pattern_with_filters"):
            stack.enter_context(_replaced(subgraph_rewriter, name, _noting_rewritten(subgraph_rewriter, name, noted)))
        yield noted


def _noting_registered(matcher: Any, noted: list[Source]) -> Callable[..., Any]:
    original = matcher.register_replacement
    signature = inspect.signature(original)

    @functools.wraps(original)
    def registered(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        check = given.get("extra_check", matcher._return_true)
        scalars = dict(given.get("scalar_workaround") or {})
        parts = (given["search_fn"], given["replace_fn"], given["trace_fn"], check)
        noted.append(Source(*parts, tuple(given["example_inputs"]), scalars))
        return original(*args, **kwargs)

    return registered


def _noting_rewritten(module: Any, name: str, noted: list[Source]) -> Callable[..., Any]:
    original = getattr(module, name)

    @functools.wraps(original)
    def called(gm: Any, pattern: Any, replacement: Any = None, *args: Any, **kwargs: Any) -> Any:
        if callable(pattern) and pattern not in [s.search_fn for s in noted]:
            noted.append(Source(pattern, replacement or pattern, fx.symbolic_trace, lambda match: True, (), {}))
        return original(gm, pattern, replacement, *args, **kwargs)

    return called


@contextlib.contextmanager
def _replaced(module: Any, name: str, by: Callable[..., Any]) -> Iterator[None]:
    """``by`` in the place of a function of ``module``, wherever a module holds it."""
    original = getattr(module, name)
    holders = [m for m in list(sys.modules.values()) if m is not None and vars(m).get(name) is original]
    for holder in holders:
        setattr(holder, name, by)
    try:
        yield
    finally:
        for holder in [m for m in list(sys.modules.values()) if m is not None and vars(m).get(name) is by]:
            setattr(holder, name, original)


def traced_pattern(pattern: Any) -> fx.GraphModule:
    """A pattern of ``subgraph_rewriter`` as it reads it: traced symbolically; raises what tracing raises."""
    if isinstance(pattern, fx.GraphModule):
        return pattern
    traced: fx.GraphModule = fx.symbolic_trace(pattern)
    return traced


def entries_of(patterns: Any) -> list[Any]:
    """The entries of a ``PatternMatcherPass``, each once."""
    found = {id(entry): entry for members in patterns.patterns.values() for entry in members}
    return list(found.values())


def is_replacement(entry: Any) -> bool:
    """Whether an entry was made of a search and a replacement function, and has no handler of its own."""
    return isinstance(entry, _matcher().ReplacementPatternEntry)
