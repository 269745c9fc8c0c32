"""Averages over integer and bool counts with a float64 accumulator.

Accuracy, precision and a running mean over a long integer history: sums of
bools, int / int division and float64 sums of float32 values."""

import torch

ORIGIN = "metric accumulation of an evaluation loop (own spelling)"


def make_inputs():
    predicted = torch.randint(0, 3, (17,))
    target = torch.randint(0, 3, (17,))
    return [predicted, target, torch.randn(17), torch.zeros((), dtype=torch.float64)]


def fn(predicted, target, loss, accumulator):
    hit = predicted == target
    accuracy = hit.sum() / hit.numel()
    positive = (predicted == 1).sum(dtype=torch.int32)
    true_positive = (hit & (target == 1)).sum(dtype=torch.int32)
    precision = true_positive / positive.clamp(min=1)
    accumulator += loss.to(torch.float64).sum()
    running = hit.cumsum(0, dtype=torch.float32) / torch.arange(1, 18, device=hit.device)
    return accuracy, precision, accumulator / 17, running, hit.float().mean()
