"""Issue 138908: rows doubled through index assignment are doubled twice.

With dynamic shapes, table[index] += table[index] was fused so that a repeated row
read a value already written. Duplicate indices in a non-accumulating write are
argued to be undefined upstream; the same mechanism was fixed for 174074."""

import torch

ORIGIN = "pytorch/pytorch#138908"
EXPECTED = "finding"
BROKEN_IN = "2.4.0 2.6.0"
META = {"compile": {"dynamic": True}}


def make_inputs():
    return [torch.full((1, 3), -4, dtype=torch.int64), torch.randn(3, 24)]


def fn(raw, table):
    rows = raw + 4
    table[rows] += table[rows]
