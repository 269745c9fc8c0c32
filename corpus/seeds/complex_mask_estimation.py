"""Complex ratio mask applied to a spectrogram, with magnitude and phase.

Mask and spectrogram arrive as real pairs; a conjugate product measures the
correlation of the estimate with the reference."""

import torch

ORIGIN = "speech-enhancement network, complex mask (own spelling)"


def make_inputs():
    return [torch.randn(2, 7, 5, 2), torch.randn(2, 7, 5, 2), torch.randn(2, 7, 5, 2)]


def fn(mask, noisy, clean):
    m, x, y = (torch.view_as_complex(z) for z in (mask, noisy, clean))
    gain = torch.tanh(m.abs())
    estimate = gain * torch.exp(1j * m.angle()) * x
    correlation = (estimate * y.conj()).sum(dim=(1, 2))
    energy = (estimate.real**2 + estimate.imag**2).mean(dim=1)
    return torch.view_as_real(estimate), correlation.real, energy
