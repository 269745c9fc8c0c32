"""Mirror padding of a signal inside its own buffer.

The signal is every second sample of a stored one. Both ends are overwritten by
flipped copies of the samples next to them; one of the two channels is negated
through a strided view."""

import torch

ORIGIN = "overlap-add audio framing (own spelling)"


def make_inputs():
    return [torch.arange(68, dtype=torch.float32).view(2, 34)[:, ::2]]


def fn(signal):
    margin = 3
    signal[:, :margin] = signal[:, margin + 1 : 2 * margin + 1].flip(-1)
    signal[:, -margin:] = signal[:, -2 * margin - 1 : -margin - 1].flip(-1)
    signal[1::2].neg_()
    frames = signal.unfold(1, 5, 4)
    return frames * torch.hann_window(5, device=signal.device), signal[:, ::4]
