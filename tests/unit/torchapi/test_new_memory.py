"""New memory that holds garbage."""

import torch

from fxmorph.torchapi.new_memory import garbage_in_new_memory


def test_new_memory_holds_what_nobody_wrote() -> None:
    torch.full((8,), 7.0)
    with garbage_in_new_memory():
        kept = [torch.empty(8) for _ in range(8)]
    assert len({tuple(t.tolist()) for t in kept}) == 1 and not {0.0, 7.0} & set(kept[0].tolist())
