"""Elements moved by index arithmetic: ranges, reversals, rolls, tiles, windows, paddings, transposes, scatters.

Quotients and remainders of loop variables, conditions on them, and loads and stores that are not next to each other."""

import torch
import torch.nn.functional as F

ORIGIN = "image and sequence rearrangement utilities (own spelling)"


def make_inputs():
    return [torch.randn(33, 35), torch.randn(2, 12, 5, 7), torch.randint(0, 33, (35,)), torch.randn(35)]


def fn(x, image, places, row):
    n = x.shape[1]

    def steps(*of):
        return torch.arange(*of, device=x.device)

    ranges = [
        steps(n) * 3 - 7,
        steps(n - 1, -1, -1),
        steps(0, 2 * n, 2) // 3,
        row + steps(n),
    ]
    ranges += [
        steps(5, -n + 5, -1) * row,
        torch.linspace(-1, 1, n, device=x.device) + row,
        (steps(n) % 4 - 2).float() * row,
    ]
    moved = [
        x.flip(0),
        x.flip(1),
        x.flip(0, 1),
        x.roll(5, 1),
        x.roll((-2, 3), (0, 1)),
        x.mT + 1,
        x.mT.reshape(35, 33) * 2,
    ]
    shaped = [x.reshape(-1, 11) + 1, x.view(3, 11, 35).transpose(0, 1).reshape(33, 35) * 2, x.reshape(-1)[7:1150:3] - 1]
    repeated = [
        row.repeat(3) * 2,
        row.repeat_interleave(3) + 1,
        x.expand(2, 33, 35).reshape(66, 35) - 1,
        x.tile(1, 2) + 1,
    ]
    shuffled = [
        F.pixel_shuffle(image, 2) * 2,
        F.pixel_unshuffle(image[..., :4, :6], 2),
        F.channel_shuffle(image, 3) + 1,
    ]
    windows = [
        image.unfold(3, 3, 2) + 1,
        row.unfold(0, 5, 3) * 2,
        F.unfold(image, 3),
        F.avg_pool2d(image, 2, 2, ceil_mode=True),
    ]
    pooled = [
        F.max_pool2d(image, 3, 2, 1, return_indices=True),
        F.max_pool2d(image, 2, dilation=2),
        F.adaptive_avg_pool2d(image, 3),
    ]
    padded = [
        F.pad(x, (3, -2, 0, 4), value=2.0),
        F.pad(image, (1, 2, 2, 1), mode="reflect"),
        F.pad(image, (2, 0, 1, 3), mode="circular"),
    ]
    joined = [
        torch.cat([x, x[:, :3] * 2], 1),
        torch.cat([x[1:], x[:1]]),
        torch.stack([row, row * 2], 1).reshape(-1),
        torch.hstack([x, -x]),
    ]
    parts = [
        x.triu(1),
        x.tril(-2),
        x[::3, 1::2] * 2,
        x.diagonal(1) + 1,
        x[:, -4:] - 1,
        torch.diag_embed(row[:9]),
        x.narrow(1, 3, 9) + 1,
    ]
    chosen = [x[places, steps(n)], x.gather(0, places[None]), x.index_select(0, places) * 2, x.take(places * 35)]
    written = [
        x.new_zeros(33).index_add(0, places, row),
        x.index_copy(0, places[:1], row[None]),
        x.scatter(0, places[None], 9.0),
    ]
    written += [
        x.new_zeros(33).scatter_add(0, places, row),
        x.slice_scatter(row[:33].view(33, 1).expand(33, 12), 1, 1, 35, 3),
    ]
    return (
        *ranges,
        *moved,
        *shaped,
        *repeated,
        *shuffled,
        *windows,
        *pooled,
        *padded,
        *joined,
        *parts,
        *chosen,
        *written,
    )
