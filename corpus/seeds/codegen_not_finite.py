"""What a program makes itself that is not finite: rows that are masked as a whole, empty groups, logarithms of 0.

Operators that say what they do with such values meet them in reductions, scans, conditions and conversions."""

import torch
import torch.nn.functional as F

ORIGIN = "masked statistics and log-domain sums (own spelling)"


def make_inputs():
    counts = torch.randint(0, 4, (5, 35))
    counts[3] = 0
    return [torch.randn(5, 35), torch.rand(5, 35) > 0.6, counts]


def fn(x, keep, counts):
    whole = keep & (torch.arange(x.shape[0], device=x.device) != 1)[:, None]  # row 1 keeps nothing
    low, high = x.masked_fill(~whole, float("-inf")), x.masked_fill(~whole, float("inf"))
    missing = x.masked_fill(~whole, float("nan"))
    logs = counts.float().log()
    in_logs = [
        low.logsumexp(1),
        low.logsumexp((0, 1), keepdim=True),
        torch.logaddexp(low, logs),
        torch.logaddexp2(low, low),
        logs.exp() * x,
        low.exp().sum(1),
        torch.xlogy(counts, counts) + torch.special.entr(counts / 4),
        F.softplus(low) + low.sigmoid(),
    ]
    repaired = [
        missing.nan_to_num(),
        missing.nan_to_num(2.5),
        low.nan_to_num(neginf=-3.0),
        low.nan_to_num(),
        high.nan_to_num(posinf=4.0, neginf=-1.0),
        (-high).nan_to_num(posinf=7.0),
        low.softmax(1).nan_to_num(0.5),
        (x / counts).nan_to_num(nan=1.0, posinf=8.0, neginf=-8.0),
    ]
    told = [
        missing.isnan().sum(1),
        low.isinf() & keep,
        high.isfinite().all(0),
        torch.isposinf(high),
        torch.isneginf(low).int(),
        torch.where(missing != missing, 1.0, missing),
        missing > x,
        missing <= 0,
        ~(low > high),
    ]
    reduced = [
        missing.nansum(1),
        missing.nanmean(1),
        missing.amax(1),
        missing.amin(0),
        missing.max(1).values,
        low.amax(1),
        high.amin(1),
        low.max(1).indices,
        missing.argmin(1),
        high.min(0).indices,
        missing.prod(1),
        low.sum(0),
        high.mean(1),
        missing.any(1),
    ]
    bounded = [
        missing.clamp(-1, 1),
        low.clamp(min=-2.0),
        torch.maximum(missing, x),
        torch.minimum(missing, low),
        torch.fmax(missing, x),
        torch.fmin(missing, low),
        low.relu() + F.relu6(high) + F.hardtanh(low),
        missing.sign() + low.sign() + high.sgn(),
        F.leaky_relu(missing, 0.1),
        low.tanh() + high.atan(),
    ]
    scanned = [low.cummax(1).values, high.cummin(1).values, low.logcumsumexp(1), high.cumsum(0)]
    narrow = [missing.bfloat16().amax(1), low.half(), high.bfloat16().nan_to_num(), missing.bool()]
    return (*in_logs, *repaired, *told, *reduced, *bounded, *scanned, *narrow)
