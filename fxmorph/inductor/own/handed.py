"""What a pass is handed: a graph or its module, and what else its parameters ask for that is known without being told.

Example inputs are known by the name of the parameter, settings by a class that can be made without arguments.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx


@dataclass(frozen=True)
class Handed:
    """A graph that a pass may change, what it is run on, and whether nothing is trained."""

    gm: fx.GraphModule
    inputs: Callable[[], Sequence[Any]] = tuple
    inference: bool = True


Giver = Callable[[Handed], Any]

#: Names that say what is a module, what is a graph, and what is inputs.
_MODULES = frozenset(
    "gm graph_module graph_model module mod model traced fx_module graph_mod traced_module exported_model".split()
)
_GRAPHS = frozenset("graph g fx_graph".split())
_INPUTS = frozenset(
    "example_inputs example_input sample_inputs sample_input inputs input_tensors fake_inputs example_args "
    "sample_args".split()
)
_INFERENCE = frozenset("is_inference inference".split())
_TRAINING = frozenset("is_training training is_backward".split())


def graph_kind(parameter: inspect.Parameter) -> type | None:
    """``Graph`` or ``GraphModule``, by the annotation or the name; None where neither tells."""
    said = parameter.annotation
    text = said if isinstance(said, str) else getattr(said, "__name__", "")
    bare = text.rpartition(".")[2].strip("'\"")
    for kind in (fx.GraphModule, fx.Graph):
        if bare == kind.__name__:
            return kind
    if bare == "Module" and parameter.name not in _GRAPHS:  # which a GraphModule is
        return fx.GraphModule
    if parameter.name in _MODULES:
        return fx.GraphModule
    return fx.Graph if parameter.name in _GRAPHS else None


def inputs_giver(parameter: inspect.Parameter) -> Giver | None:
    """What gives a parameter the inputs of the graph; None where its name does not ask for them."""
    return (lambda handed: list(handed.inputs())) if parameter.name in _INPUTS else None


def giver_of(parameter: inspect.Parameter, owner: Any) -> Giver | None:
    """What gives a parameter of ``owner`` its value; None where nothing that is known does."""
    if (inputs := inputs_giver(parameter)) is not None:
        return inputs
    if parameter.name in _INFERENCE:
        return lambda handed: handed.inference
    if parameter.name in _TRAINING:
        return lambda handed: not handed.inference
    made = _defaults_of(annotation_of(parameter, owner))
    return None if made is None else lambda _: made


def annotation_of(parameter: inspect.Parameter, owner: Any) -> Any:
    """The annotation as an object, of an optional one what it may be; None where there is none that can be read."""
    said = parameter.annotation
    if said is parameter.empty:
        return None
    if isinstance(said, str):
        try:
            said = typing.get_type_hints(_hinted(owner)).get(parameter.name)
        except Exception:  # names that only a type checker sees
            return None
    inside = [kind for kind in typing.get_args(said) if kind is not type(None)]
    return inside[0] if len(inside) == 1 and type(None) in typing.get_args(said) else said


def _hinted(owner: Any) -> Any:
    """What carries the annotations: of a class its constructor, of an object that is called its class's method."""
    if inspect.isclass(owner):
        return owner.__init__
    if inspect.isroutine(owner):
        return inspect.unwrap(owner)
    return inspect.unwrap(type(owner).__call__ if callable(owner) else owner)


def _defaults_of(kind: Any) -> Any:
    """An instance of a class of settings made without arguments; None where that is no such class."""
    if not inspect.isclass(kind) or kind.__module__.split(".")[0] in ("builtins", "typing", "torch", "collections"):
        return None
    if issubclass(kind, torch.nn.Module) or inspect.isabstract(kind):
        return None
    try:
        return kind()
    except Exception:
        return None
