"""A pass over FX graphs, as `post_grad_custom_post_pass` of Inductor takes it.  `fxmorph check-pass passes.py:NAME`."""

import torch

RELU = torch.ops.aten.relu.default


def drop_second_relu(graph: torch.fx.Graph) -> None:
    """Replace relu(relu(x)) by relu(x) where nothing else reads the inner one."""
    for node in graph.find_nodes(op="call_function", target=RELU):
        inner = node.args[0]
        if inner.target is RELU and len(inner.users) == 1:
            node.replace_all_uses_with(inner)
            graph.erase_node(node)
