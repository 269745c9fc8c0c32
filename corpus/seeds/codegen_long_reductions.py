"""Reductions of thousands of elements, whole, by rows and by columns, and chains of them over the same rows.

Long sums are added up in chunks and moments in one pass, each thread has a part of its own, and what one reduction
leaves for the next stays in a buffer of the thread."""

import torch

ORIGIN = "statistics over long sequences and vocabularies (own spelling)"


def make_inputs():
    logits = torch.randn(5, 4111) * 0.5
    return [logits, torch.randn(4111, 19) + 3, torch.randint(-9, 9, (3, 5003)), torch.randn(7, 2051).bfloat16()]


def normalised(scores):
    """Rows that are shifted, scaled and scaled again by what comes of them."""
    shifted = scores - scores.amax(1, keepdim=True)
    weights = shifted.exp()
    weights = weights / weights.sum(1, keepdim=True)
    kept = torch.where(weights > weights.mean(1, keepdim=True), weights, 0.0)
    return kept / kept.sum(1, keepdim=True), kept.amax(1)


def fn(logits, columns, whole, short):
    sums = [logits.sum(), logits.sum(1), columns.sum(0), (logits * 2).mean(1), columns.mean(), columns.sum()]
    moments = [torch.var_mean(logits, 1), torch.var_mean(columns, 0), columns.std(), logits.var(correction=0)]
    extremes = [logits.amax(), logits.amin(1), columns.amax(0), columns.amin(), logits.max(1), columns.min(0)]
    places = [logits.argmax(), logits.argmin(1), columns.argmax(0), columns.argmin(), whole.argmax(1)]
    of_whole = [whole.sum(), whole.sum(1), whole.amax(1), whole.min(), (whole > 8).any(1), (whole > -9).all()]
    of_short = [short.sum(1), short.amax(1), short.float().var(1), short.sum(), short.amin(), short.mean(0)]
    others = [(1 + logits * 1e-3).prod(1), logits.logsumexp(1), logits.norm(dim=1), (columns > 5).sum(0)]
    layer = torch.nn.functional.layer_norm(logits, (4111,))
    doubled = [logits.double().sum(1), columns.double().sum(0), whole.to(torch.int32).sum(1), whole.float().sum()]
    rows = [*normalised(logits), logits.log_softmax(1), layer * 2]
    return (*sums, *moments, *extremes, *places, *of_whole, *of_short, *others, *doubled, *rows)
