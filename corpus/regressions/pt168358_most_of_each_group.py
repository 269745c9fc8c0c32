"""Issue 168358: what is compared with the largest of its group is computed again with more precision than that was
rounded to, so that none is equal to it, and gradients of `scatter_reduce` are NaN."""

import torch

ORIGIN = "pytorch/pytorch#168358"
EXPECTED = "finding"
BROKEN_IN = "2.13.0"


def make_inputs():
    generator = torch.Generator().manual_seed(4)
    messages = torch.randn(12, 20, generator=generator).bfloat16().requires_grad_()
    return [messages, torch.randint(0, 4, (12,), generator=generator)]


def fn(messages, receivers):
    heard = messages.tanh() * 1.3
    most = heard.new_full((4, heard.shape[1]), -9.0)
    return most.scatter_reduce(0, receivers[:, None].expand_as(heard), heard, "amax").float()
