"""Issue 104505: as_strided replayed on top of an earlier view.

as_strided addresses the storage, whatever view it is called on. AOTAutograd
replayed it relative to the diagonal, so the wrong cells of the table moved. Later
releases refuse to compile the program."""

import torch

ORIGIN = "pytorch/pytorch#104505"
EXPECTED = "finding"
BROKEN_IN = "2.1.2 (from 2.4.0 on the compiled side raises)"


def make_inputs():
    return [torch.randn(3, 5)]


def fn(table):
    main = table.diagonal()
    header = main.as_strided((3,), (1,), 0)
    header.sub_(2.0)
    return table
