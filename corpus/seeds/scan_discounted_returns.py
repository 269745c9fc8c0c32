"""Discounted returns and advantages by a reversed loop and by cumsum.

The loop resets at episode ends; the cumsum variant divides by the discount
powers and flips the time axis."""

import torch

ORIGIN = "policy-gradient return computation (own spelling)"


def make_inputs():
    done = torch.zeros(7, 3)
    done[3, 1] = 1.0
    return [torch.randn(7, 3), torch.randn(8, 3), done]


def fn(reward, value, done):
    running = torch.zeros(3, device=reward.device)
    rows = []
    for t in reversed(range(reward.size(0))):
        delta = reward[t] + 0.9 * value[t + 1] * (1 - done[t]) - value[t]
        running = delta + 0.9 * 0.95 * (1 - done[t]) * running
        rows.append(running)
    advantage = torch.stack(rows).flip(0)
    power = 0.9 ** torch.arange(7.0, device=reward.device).unsqueeze(1)
    returns = (reward * power).flip(0).cumsum(0).flip(0) / power
    return advantage, returns
