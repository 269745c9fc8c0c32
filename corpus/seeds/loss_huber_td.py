"""Temporal-difference loss with a Huber penalty and importance weights.

Q-values of the taken actions are gathered; done flags zero the bootstrap."""

import torch
import torch.nn.functional as F

ORIGIN = "DQN update with prioritised replay (own spelling)"


def make_inputs():
    q = torch.randn(6, 4, requires_grad=True)
    done = torch.tensor([False, True, False, False, True, False])
    action = torch.randint(0, 4, (6,))
    return [q, torch.randn(4, 6).t(), action, torch.randn(6), done, torch.rand(6) + 0.1]


def fn(q, q_next, action, reward, done, weight):
    with torch.no_grad():
        bootstrap = q_next.max(dim=1).values
        target = reward + 0.9 * bootstrap * (~done)
    taken = q.gather(1, action[:, None]).squeeze(1)
    error = F.smooth_l1_loss(taken, target, reduction="none", beta=0.5)
    huber = F.huber_loss(taken, target, delta=0.7)
    return (weight * error).mean() + huber, (taken - target).detach().abs()
