"""Columns of a matrix orthogonalised through its transposed view.

Gram-Schmidt on the rows of x.t(); every write goes through the view into the
argument, whose layout stays row-major."""

import torch

ORIGIN = "orthogonal initialisation written by hand"
META = {"no_grad": True}


def make_inputs():
    return [torch.randn(7, 3)]


def fn(x):
    basis = x.t()
    for i in range(basis.size(0)):
        for j in range(i):
            basis[i] -= (basis[i] @ basis[j]) * basis[j]
        basis[i] /= basis[i].norm()
    return x.t() @ x
