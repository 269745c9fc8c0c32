"""Features that are packed, of which the first columns come again, and unpacked: cats of cats, slices and splits."""

import torch

ORIGIN = "packing of feature columns (own spelling)"
META = {"no_grad": True}


def make_inputs():
    generator = torch.Generator().manual_seed(29)
    return [torch.randn(5, 8, generator=generator), torch.randn(5, 6, generator=generator)]


def fn(users, items):
    u, i = torch.relu(users), items * 2
    packed = torch.cat([u, i], 1)
    begun_again = torch.cat([packed, packed[:, :4]], 1)
    turned = torch.cat([i, u], 1)
    past_the_first = torch.cat([turned, turned[:, :10]], 1)
    back = torch.cat([users.sin(), i], 1).split([8, 6], 1)
    elsewhere = torch.cat([items.sin(), u], 1).split([8, 6], 1)
    a, b, c = torch.cat([u, items], 1).split([4, 4, 6], 1)
    p, q, r = torch.cat([users, i], 1).split([4, 4, 6], 1)
    return (
        begun_again.sigmoid(),
        past_the_first.exp(),
        back[0] * 3,
        back[1].abs(),
        *elsewhere,
        torch.cat([a, b, c], 1),
        torch.cat([q, p, r], 1),
    )
