"""When two FX graphs are the same: what tells whether a pass changed one."""

from __future__ import annotations

from typing import Any

from torch import fx


def structure(graph: fx.Graph) -> tuple[Any, ...]:
    """Equal for graphs with the same calls in the same order; node names do not enter."""
    number = {node: i for i, node in enumerate(graph.nodes)}

    def show(value: Any) -> Any:
        if isinstance(value, fx.Node):
            return ("%", number.get(value, -1))
        if isinstance(value, (tuple, list)):
            return tuple(map(show, value))
        if isinstance(value, dict):
            return tuple((k, show(v)) for k, v in value.items())
        return repr(value)

    return tuple(
        (n.op, "") if n.op == "placeholder" else (n.op, str(n.target), show(n.args), show(n.kwargs))
        for n in graph.nodes
    )
