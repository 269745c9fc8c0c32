"""Exponential moving average of weights for a target network.

lerp_ moves the targets; a counter-based decay warms up and integer buffers are
copied as they are."""

import torch

ORIGIN = "EMA / target-network update (own spelling)"
META = {"no_grad": True}


def make_inputs():
    target = [torch.randn(5, 3), torch.randn(3)]
    online = [torch.randn(3, 5).t(), torch.randn(3)]
    return [target, online, torch.tensor(4), torch.tensor(9)]


def fn(target, online, target_steps, online_steps):
    decay = torch.clamp((1.0 + online_steps) / (10.0 + online_steps), max=0.99)
    for t, o in zip(target, online, strict=True):
        t.lerp_(o, 1 - decay)
    target_steps.copy_(online_steps)
    return decay
