"""A program under reduction: a graph, its inputs, and how it is compiled."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx

from fxmorph.model import CompileConfig
from fxmorph.programs.graph import calls, print_graph
from fxmorph.programs.inputs import InputSet, memory_of
from fxmorph.programs.profile import Profile, profile


@dataclass(frozen=True)
class Candidate:
    """``graph`` is not edited once it is here; ``no_grad``: the program runs without gradients."""

    graph: fx.Graph
    inputs: InputSet
    config: CompileConfig
    no_grad: bool = False

    @cached_property
    def text(self) -> str:
        """The graph as Python; raises :class:`~fxmorph.programs.graph.Unprintable`."""
        return print_graph(self.graph)

    @cached_property
    def values(self) -> list[Any]:
        """The inputs, to be read only."""
        return self.inputs.rebuild()

    @cached_property
    def profile(self) -> Profile:
        """One run in eager, as far as it goes: a finding may be that eager raises."""
        with torch.set_grad_enabled(not self.no_grad):
            return profile(self.graph, self.inputs, partial=True)

    @cached_property
    def digest(self) -> str:
        """Equal for equal programs with equal inputs, compiled alike."""
        made = hashlib.sha256(f"{self.text} {self.config} {self.no_grad}".encode())
        for value in self.values:
            if isinstance(value, torch.Tensor):
                made.update(f"{value.dtype} {value.shape} {value.stride()} {value.requires_grad}".encode())
                made.update(memory_of(value).cpu().numpy().tobytes())
            else:
                made.update(repr(value).encode())
        return made.hexdigest()

    @property
    def nodes(self) -> int:
        """How many calls the graph has."""
        return len(calls(self.graph))

    @property
    def holders(self) -> list[fx.Node]:
        """The placeholders, one an input."""
        return [n for n in self.graph.nodes if n.op == "placeholder"]
