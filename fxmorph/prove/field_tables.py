"""Two prime fields and their tables: inverses, powers, logarithms, signs, roots and random functions.

The primes are p = 2q + 1 and q (p a safe prime), so that x -> g**x, g of order q, is a homomorphism
from (Z_q, +) into (Z_p, *): this is how Mirage (OSDI 2025) models exp.  Elements are float64 tensors
of integers, on which torch's own linear kernels are exact as long as sums stay below 2**53.
"""

from __future__ import annotations

import hashlib
from functools import cache

import torch

#: p = 2q + 1, both prime.  -1 is not a square modulo p, and all of 2, 3, 5, ... 37 are: a square is
#: what stands for a positive number, so small positive constants are positive.
P = 701399
Q = 350699
_GENERATOR_P = next(h for h in range(2, P) if pow(h, 2, P) != 1 and pow(h, Q, P) != 1)

#: The largest sum of products that float64 holds exactly.
EXACT = 2**53


def _powers(base: int, modulus: int) -> torch.Tensor:
    """base**0 ... base**(modulus - 2), by doubling."""
    out = torch.empty(modulus - 1, dtype=torch.int64)
    out[0], n = 1, 1
    while n < modulus - 1:
        m = min(n, modulus - 1 - n)
        out[n : n + m] = out[:m] * pow(base, n, modulus) % modulus
        n += m
    return out


@cache
def powers_p() -> torch.Tensor:
    """The powers of a generator modulo p, by exponent (int64)."""
    return _powers(_GENERATOR_P, P)


@cache
def logs_p() -> torch.Tensor:
    """The exponent of each nonzero element of Z_p; 0 at 0."""
    out = torch.zeros(P, dtype=torch.int64)
    out[powers_p()] = torch.arange(P - 1)
    return out


@cache
def inverse(modulus: int) -> torch.Tensor:
    """1/x by x (float64); NaN at 0."""
    if modulus == P:
        values = powers_p()
    else:
        factors = [f for f in range(2, Q - 1) if (Q - 1) % f == 0]
        generator = next(h for h in range(2, Q) if all(pow(h, (Q - 1) // f, Q) != 1 for f in factors))
        values = _powers(generator, Q)
    out = torch.full((modulus,), float("nan"), dtype=torch.float64)
    out[values] = values.flip(0).roll(1).double()  # h**k and h**(n - k)
    return out


@cache
def signs() -> torch.Tensor:
    """The Legendre symbol modulo p by x: 1 for squares, -1 for others, 0 at 0 (float64)."""
    out = (1 - 2 * (logs_p() % 2)).double()
    out[0] = 0
    return out


@cache
def roots() -> torch.Tensor:
    """The square among the roots of |x| = sign(x) x, by x (float64): root(xy) = root(x) root(y), root(xx) = |x|."""
    logs = logs_p()
    logs = torch.where(logs % 2 == 0, logs, (logs + Q) % (P - 1))  # |x|
    half = logs // 2
    half = torch.where(half % 2 == 0, half, half + Q)
    out = powers_p()[half].double()
    out[0] = 0
    return out


def salt(*parts: object) -> int:
    """A 64-bit hash of Python values, the same in every process."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def scrambled(x: torch.Tensor, key: int) -> torch.Tensor:
    """A hash of int64 values (wrapping arithmetic, as in splitmix64)."""
    x = (x ^ key) * -0x61C8864680B583EB
    x = (x ^ ((x >> 30) & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    x = (x ^ ((x >> 27) & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return x ^ ((x >> 31) & 0x1FFFFFFFF)


def residues(hashes: torch.Tensor, modulus: int) -> torch.Tensor:
    """Hashes as field elements (float64)."""
    return ((hashes & (2**62 - 1)) % modulus).double()


def lookup(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """table[x], NaN where x is no element."""
    bad = ~(x.abs() < table.shape[0])
    out = table[torch.where(bad, torch.zeros_like(x), x).long()]
    return torch.where(bad, torch.full_like(out, float("nan")), out)
