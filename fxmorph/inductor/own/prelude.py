"""What becomes of a graph before a pass is given it: its dialect, passes that run first, what the author assumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxmorph.core.said import cut, said
from fxmorph.core.units import Stage
from fxmorph.inductor.apply import clone_module
from fxmorph.inductor.own.call import PassError, planned
from fxmorph.inductor.own.handed import Handed
from fxmorph.inductor.own.own_pass import apply_pass
from fxmorph.inductor.own.pass_forms import OwnPass
from fxmorph.torchapi.edge_dialect import to_edge_dialect


class LeftOut(Exception):
    """The pass is not given this graph; the message says why."""


@dataclass
class Assumption:
    """A predicate over graphs under the text that the user gave: a function of what a pass may be a function of."""

    text: str
    holds_of: Callable[[Handed], Any]

    def holds(self, handed: Handed) -> bool:
        """Raises :class:`PassError` for what is no answer."""
        try:
            answer = self.holds_of(handed)
        except PassError:
            raise
        except Exception as error:
            raise PassError(f"--assume {self.text} raises {said(error)}") from error
        if not isinstance(answer, bool):
            raise PassError(f"--assume {self.text} returns {type(answer).__name__}: want True or False")
        return answer


def assumption(value: Any, text: str) -> Assumption:
    """Raises :class:`PassError` for what cannot be called with a graph."""
    return Assumption(text, planned(value, f"--assume {text}").call)


@dataclass
class Prelude:
    """``edge``: operators are those of ExecuTorch's edge dialect; then ``passes`` run, in order; graphs of which an
    assumption does not hold are left out, and counted in ``left_out``.
    """

    passes: Sequence[OwnPass] = ()
    assumptions: Sequence[Assumption] = ()
    edge: bool = False
    left_out: int = 0

    def prepared(
        self, gm: fx.GraphModule, stage: Stage, inputs: Callable[[], Sequence[Any]], inference: bool = True
    ) -> fx.GraphModule:
        """The graph that the pass is given, ``gm`` itself where nothing is asked for; raises :class:`LeftOut`.

        Raises :class:`PassError` where a pass or an assumption turns out to be none.
        """
        if self.edge:
            if several := _of_several_dtypes(gm.graph):
                raise self._leaving_out(f"the edge dialect refuses operands of several dtypes, as those of {several}")
            gm = clone_module(gm)
            try:
                to_edge_dialect(gm)
            except Exception as error:  # an operator that the dialect does not have
                raise self._leaving_out(f"it has no form in the edge dialect: {cut(str(error))}") from error
        for own in self.passes:
            try:
                gm = apply_pass(own, gm, stage, inputs, inference).after
            except PassError:
                raise
            except Exception as error:
                raise self._leaving_out(f"--prelude {own.name} raises {said(error)}") from error
        for each in self.assumptions:
            if not each.holds(Handed(clone_module(gm), inputs, inference)):
                raise self._leaving_out(f"--assume {each.text} does not hold")
        return gm

    def _leaving_out(self, why: str) -> LeftOut:
        self.left_out += 1
        return LeftOut(why)


#: Operators whose tensors are of one dtype in the edge dialect.
_OF_ONE_DTYPE = frozenset("cat stack add sub mul div addmm mm bmm maximum minimum".split())


def _of_several_dtypes(graph: fx.Graph) -> str:
    """An operator of the graph whose tensors are of several dtypes, where the dialect's verifier wants one."""
    for node in graph.nodes:
        if str(node.target).split(".")[0] == "aten" and str(node.target).split(".")[1] in _OF_ONE_DTYPE:
            values = [n.meta.get("val") for n in node.all_input_nodes]
            if len({v.dtype for v in values if isinstance(v, torch.Tensor)}) > 1:
                return str(node.target)
    return ""
