"""The graph passes that Inductor's own pipeline functions call, read from their source.

Inductor keeps no list of its passes: ``joint_graph_passes`` and its like call them one after the
other, each under a condition on ``torch._inductor.config``.  Reading those functions finds the
passes of whichever release is installed with the names that PyTorch's bisector uses, and the
call itself can be run alone, on another graph, in the function's own namespace.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import functools
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

_FX_PASSES = "torch._inductor.fx_passes"
#: Pipeline functions: stage, module, function, its parameter that is the graph module.
PIPELINES = (
    ("pre_grad", f"{_FX_PASSES}.pre_grad", "pre_grad_passes", "gm"),
    ("pre_grad", f"{_FX_PASSES}.pre_grad", "fuse_fx", "gm"),
    ("joint", f"{_FX_PASSES}.joint_graph", "joint_graph_passes", "graph"),
    ("joint", f"{_FX_PASSES}.replace_random", "replace_random_passes", "gm"),
    ("freezing", "torch._inductor.freezing", "_freeze", "aot_autograd_gm"),
    ("freezing", "torch._inductor.freezing", "freeze", "aot_autograd_gm"),
    ("freezing", f"{_FX_PASSES}.freezing_patterns", "freezing_passes", "gm"),
    ("post_grad", f"{_FX_PASSES}.post_grad", "post_grad_passes", "gm"),
)
#: Calls in them that change no graph.
_NO_PASSES = frozenset(
    "lint recompile print_readable lazy_init fake_tensor_prop record_has_frozen_params is_cpu_device get_all_devices"
    " detect_fake_mode ShapeProp shape_prop propagate FakeTensorUpdater spmd_check chunk count lazy_format_graph_code"
    " mark_mixed_dtype_allowed_computation_ops recover_original_precision_folded_computation_ops find_nodes"
    " replace_params_with_constants GraphTransformObserver pass_execution_and_save trace_structured __copy__".split()
)
#: Names of a pipeline's own that stand for something whenever a pass runs alone.
_KNOWN = {
    "is_inference": True,
    "is_cpu": True,
    "input_device": torch.device("cpu"),
    "add_passes": None,
    "remove_passes": None,
}


class CannotRun(Exception):
    """The pass needs something that only a running compile has; the message names it."""


@dataclass(frozen=True)
class Step:
    """One call of a pass in a pipeline.

    ``call`` is the expression, ``conditions`` the tests around it as written, ``function`` the pass where
    it is a function, ``pattern_pass`` the ``PatternMatcherPass`` where it is one; ``observed``: it runs under
    a ``GraphTransformObserver`` of that name, which can leave it out.
    """

    stage: str
    name: str
    pipeline: Callable[..., Any]
    module_name: str
    call: ast.expr
    conditions: tuple[str, ...]
    function: Callable[..., Any] | None = None
    pattern_pass: Any = None
    observed: bool = False
    assigned: dict[str, ast.expr] = field(default_factory=dict, repr=False)
    imported: dict[str, Any] = field(default_factory=dict, repr=False)

    def off(self) -> tuple[str, ...]:
        """The conditions that do not hold by default (in inference on a CPU)."""
        return tuple(c for c in self.conditions if not self._holds(c))

    def _holds(self, condition: str) -> bool:
        if condition in self.assigned:  # a count of what fired before, not a setting
            return True
        scope = {**self.pipeline.__globals__, **self.imported, **_KNOWN, "example_inputs": (), "counters": {}}
        try:
            with torch.no_grad():
                return bool(eval(condition, scope))
        except Exception:  # a name that only the running function knows
            return False

    def settings(self) -> dict[str, Any]:
        """Settings of ``torch._inductor.config`` that make its conditions hold, where a switch does."""
        return {name: True for name in _switches(self.off()) if setting(name) in (False, None)}

    def switches(self) -> tuple[str, ...]:
        """Settings of ``torch._inductor.config`` that turn it off when they are false."""
        return tuple(_switches(self.conditions))


def setting(dotted: str) -> Any:
    """The value of a setting of ``torch._inductor.config``, ``...`` where this torch has none of that name."""
    import torch._inductor.config

    config: Any = torch._inductor.config
    for part in dotted.split("."):
        config = getattr(config, part, ...)
    return config


def _switches(conditions: Sequence[str]) -> Iterator[str]:
    """Settings that all of the conditions together want to be true."""
    tests = [ast.parse(condition, mode="eval").body for condition in conditions]
    while tests:
        test = tests.pop(0)
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            tests[:0] = test.values
        elif isinstance(test, ast.Attribute) and ast.unparse(test).startswith("config."):
            yield ast.unparse(test).removeprefix("config.")


def _calls_in(statement: ast.stmt) -> Iterator[ast.Call]:
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call):
        yield value


def _observer(call: ast.expr) -> str | None:
    """The name given to a ``GraphTransformObserver``, where that is what is called."""
    if not (isinstance(call, ast.Call) and _leaf(call.func) == "GraphTransformObserver" and len(call.args) > 1):
        return None
    name = call.args[1]
    return str(name.value) if isinstance(name, ast.Constant) else ""


def _leaf(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _ends(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], (ast.Return, ast.Raise))


class _Reader:
    """Collects the calls of passes in one pipeline function."""

    def __init__(self, stage: str, function: Callable[..., Any], module_name: str) -> None:
        source = inspect.getsource(inspect.unwrap(function))
        tree = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.stage, self.function, self.module_name, self.tree = stage, inspect.unwrap(function), module_name, tree
        self.imported = self._imports()
        self.assigned = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id != module_name
        }
        self.found: list[Step] = []

    def _imports(self) -> dict[str, Any]:
        scope = dict(self.function.__globals__)
        before = set(scope)
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                with contextlib.suppress(Exception):  # a part that this build lacks
                    exec(compile(ast.Module([node], []), "<imports of a pipeline>", "exec"), scope)
        return {name: value for name, value in scope.items() if name not in before}

    def read(self) -> list[Step]:
        self._block(self.tree.body, ())
        return self.found

    def _block(self, body: Sequence[ast.stmt], conditions: tuple[str, ...], observed: str = "") -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                test = ast.unparse(statement.test)
                self._block(statement.body, (*conditions, test), observed)
                self._block(statement.orelse, (*conditions, f"not ({test})"), observed)
                if _ends(statement.body):
                    conditions = (*conditions, f"not ({test})")
            elif isinstance(statement, ast.With):
                name = next(filter(None, (_observer(item.context_expr) for item in statement.items)), observed)
                self._block(statement.body, conditions, name)
            elif isinstance(statement, (ast.For, ast.Try)):
                self._block(statement.body, conditions, observed)
            else:
                for call in _calls_in(statement):
                    self._call(call, conditions, observed)

    def _call(self, call: ast.Call, conditions: tuple[str, ...], observed: str) -> None:
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in ("apply_graph_pass", "apply_gm_pass"):
            name = _observer(function.value)
            if not name or "custom_p" in ast.unparse(call.args[0]):
                return  # a list of passes, or the user's own
            suffix = ".graph" if function.attr == "apply_graph_pass" else ""
            given = ast.parse(f"{self.module_name}{suffix}", mode="eval").body
            self._add(name, ast.Call(call.args[0], [given], []), call.args[0], conditions, True)
        elif _leaf(function) not in _NO_PASSES and self._takes_graph(call):
            name = observed or _leaf(function).lstrip("_")
            self._add(name, call, function, conditions)

    def _takes_graph(self, call: ast.Call) -> bool:
        ours = (self.module_name, f"{self.module_name}.graph")
        on_graph = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in ours
        return on_graph or any(ast.unparse(a) in ours for a in call.args)

    def _add(
        self, name: str, call: ast.expr, passed: ast.expr, conditions: tuple[str, ...], observed: bool = False
    ) -> None:
        target, pattern_pass = self._resolve(passed)
        if pattern_pass is not None:
            name = getattr(pattern_pass, "pass_name", None) or ast.unparse(passed).removesuffix(".apply")
        elif name == "apply":
            return  # each pattern pass of a list
        own = getattr(target, "__name__", "")
        if own in {pipeline[2] for pipeline in PIPELINES}:
            return
        if "custom_p" in name:  # the user's own pass, or one of Inductor's that is observed under its name
            if not own:
                return
            name = own
        self.found.append(
            Step(
                self.stage,
                name,
                self.function,
                self.module_name,
                call,
                conditions,
                target,
                pattern_pass,
                observed,
                self.assigned,
                self.imported,
            )
        )

    def _resolve(self, passed: ast.expr) -> tuple[Callable[..., Any] | None, Any]:
        """(function, pattern pass) behind what is called: a name, ``partial(name, …)``, ``lambda``, ``pass.apply``."""
        if isinstance(passed, ast.Lambda):
            return self._resolve(passed.body)
        if isinstance(passed, ast.Call):
            return self._resolve(passed.args[0] if _leaf(passed.func) == "partial" else passed.func)
        try:
            value = eval(ast.unparse(passed), {**self.function.__globals__, **self.imported})
        except Exception:
            return None, None
        owner = getattr(value, "__self__", None)
        if owner is not None and hasattr(owner, "patterns"):
            return None, owner
        return (value, None) if callable(value) else (None, None)


@functools.cache
def steps() -> tuple[Step, ...]:
    """The passes of every pipeline of this torch in the order of calls, each (stage, name) once."""
    found: dict[tuple[str, str], Step] = {}
    for stage, module_name, function_name, graph_module in PIPELINES:
        function = None
        with contextlib.suppress(ImportError):
            function = getattr(importlib.import_module(module_name), function_name, None)
        if function is None:
            continue
        with contextlib.suppress(OSError, SyntaxError):  # no source beside the byte code
            for step in _Reader(stage, function, graph_module).read():
                found.setdefault((stage, step.name), step)
    # The sort that a pipeline repeats without an observer is the pass that was observed.
    observed = {(s.stage, s.function) for s in found.values() if s.observed and s.function is not None}
    return tuple(s for s in found.values() if s.observed or (s.stage, s.function) not in observed)


def run_step(step: Step, gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """Run one pass on ``gm`` in place, its settings switched on; what the pass returns.

    ``inputs`` are fake inputs of the graph.  Raises :class:`CannotRun`, and what the pass raises.
    """
    import torch._inductor.config as config

    scope = {**step.pipeline.__globals__, **step.imported, **_KNOWN, step.module_name: gm}
    scope |= dict.fromkeys(("example_inputs", "aot_example_inputs"), inputs)
    with config.patch(step.settings()):
        try:
            return _evaluate(step, step.call, scope)
        except ValueError as error:
            if "process group" in str(error):
                raise CannotRun(f"{step.name} needs an initialised process group") from error
            raise


def _evaluate(step: Step, expression: ast.expr, scope: dict[str, Any]) -> Any:
    """The value of an expression of the pipeline; what it would have assigned before is evaluated first."""
    bound = {a.arg for node in ast.walk(expression) if isinstance(node, ast.Lambda) for a in node.args.args}
    for name in (node.id for node in ast.walk(expression) if isinstance(node, ast.Name)):
        if name in scope or name in bound or hasattr(builtins, name):
            continue
        if name not in step.assigned:
            raise CannotRun(f"{step.name} needs {name!r} of a running compile")
        scope[name] = _evaluate(step, step.assigned[name], scope)
    whole = ast.fix_missing_locations(ast.Expression(copy.deepcopy(expression)))
    return eval(compile(whole, f"<{step.name}>", "eval"), scope)
