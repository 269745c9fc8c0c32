"""Arguments that overlap in memory: windows over one ring of samples, its transposed frames, and a window apart.

Some are written, and what was written is read through the others, before and after."""

import torch

ORIGIN = "streaming filters over one shared buffer (own spelling)"
META = {"no_grad": True}


def make_inputs():
    ring, other = torch.randn(24), torch.randn(4, 6)
    frames = ring[:20].view(4, 5)
    return [ring[2:14], torch.randn(5), ring[8:20], frames.t(), other[1:], other[:, 2:5], torch.randn(12)]


def fn(early, taps, late, frames, rows, columns, gain):
    before = (frames * taps[:, None]).sum(0)
    early.mul_(gain.sigmoid())
    between = late - gain
    late[3:7] += between[:4]
    after = frames @ torch.ones(4, device=frames.device)
    columns.copy_(rows.sum(0)[2:5].expand(4, 3) * 0.5)
    rows[0].neg_()
    return before, between, after, early[::2] * 2, rows + 1, columns.amax(1)
