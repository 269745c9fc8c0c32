"""Loops long enough for several threads: element-wise rows, transposes, scattered sums, reductions that stay inside.

Threads share the outer loop or the whole nest of loops, add to the same places, and some have less to do."""

import torch

ORIGIN = "batch preparation and gradient accumulation (own spelling)"


def make_inputs():
    rows = torch.randn(131, 257)
    places = torch.randint(0, 257, (131, 257))
    return [rows, places, torch.randint(-99, 99, (131, 257)), torch.randn(13, 11, 301).half()]


def fn(rows, places, whole, short):
    wide = [rows * 2 + 1, rows.sigmoid() * whole, torch.where(whole > 0, rows, -rows), whole // 7, whole % 5]
    turned = [rows.mT + 1, rows.mT.contiguous() * rows.mT, short.transpose(0, 2) * 2, short.permute(1, 2, 0) + 1]
    turned += [rows + rows[:, :131].mT.repeat(1, 2)[:131, :257].flip(0), whole.mT * 3, (rows > 0).mT.contiguous()]
    inside = [rows.sum(1), rows.amax(1), rows.softmax(1), rows.argmax(1), whole.sum(1), short.amax(2), short.sum(0)]
    across = [rows.sum(0), rows.amin(0), rows.mean(0), whole.amax(0), rows.softmax(0), rows.var(0), short.amax(1)]
    spread = [
        torch.zeros_like(rows).scatter_add(1, places, rows),
        torch.zeros_like(whole).scatter_add(0, places % 131, whole),
        torch.zeros(257, device=rows.device).index_add(0, places[0], rows[:, 0].sum() + rows[0]),
        torch.zeros(257, 131, device=rows.device).index_put((places[0, :131],), rows[:, :131], accumulate=True),
    ]
    taken = [rows.gather(1, places), rows[:, places[0]] * 2, whole[places[:, 0] % 131] + 1]
    joined = [torch.cat([rows, rows * 2], 1), torch.cat([whole, whole.flip(1)]), rows.roll(100, 1) - rows.roll(3, 0)]
    centred = rows - rows.mean(1, keepdim=True)
    scaled = centred / centred.square().mean(1, keepdim=True).add(1e-5).sqrt()
    return (*wide, *turned, *inside, *across, *spread, *taken, *joined, scaled, scaled.amax(1), scaled.sum(0))
