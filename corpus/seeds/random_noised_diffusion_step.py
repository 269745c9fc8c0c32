"""One training step of a diffusion model: a time for each sample, noise mixed in by the schedule, and the
loss of a small denoiser against that noise; the classes of some samples are dropped."""

import torch

ORIGIN = "denoising diffusion objective with classifier-free guidance (own spelling)"


def make_inputs():
    return [
        torch.randn(5, 12),
        torch.randint(0, 4, (5,)),
        torch.linspace(0.99, 0.01, 20),
        torch.randn(12, 12, requires_grad=True),
        torch.randn(5, 12, requires_grad=True),
    ]


def fn(clean, labels, schedule, weight, embedding):
    steps = torch.randint(0, 20, (5,))
    kept = schedule[steps][:, None]
    noise = torch.randn_like(clean)
    noisy = kept.sqrt() * clean + (1 - kept).sqrt() * noise
    labels = torch.where(torch.rand(5) < 0.1, 4, labels)
    guess = torch.tanh(noisy @ weight) + embedding[labels]
    return (guess - noise).square().mean(), noisy.shape[0] * 2
