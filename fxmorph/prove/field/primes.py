"""Two prime fields and their tables: inverses, powers, logarithms, signs, roots and random functions.

The primes are p = 2q + 1 and q (p a safe prime), so that x -> g**x, g of order q, is a homomorphism
from (Z_q, +) into (Z_p, *): this is how Mirage (OSDI 2025) models exp.  Elements are float64 tensors
of integers, on which torch's own linear kernels are exact as long as sums stay below 2**53.
"""

from __future__ import annotations

import hashlib
from functools import cache

import torch

#: p = 2q + 1, both prime.  -1 is not a square modulo either; 2, 3, 5, ... 31 are modulo p and up to 19
#: modulo q: a square is what stands for a positive number, so small positive constants are positive.
P = 628319
Q = 314159

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
def powers(modulus: int) -> torch.Tensor:
    """The powers of a generator, by exponent (int64)."""
    order = modulus - 1
    primes = [f for f in range(2, 1000) if order % f == 0 and all(f % d for d in range(2, f))]
    for f in primes:
        while order % f == 0:
            order //= f
    primes += [order] if order > 1 else []  # 1 or a prime for both moduli
    generator = next(h for h in range(2, modulus) if all(pow(h, (modulus - 1) // f, modulus) != 1 for f in primes))
    return _powers(generator, modulus)


@cache
def logs(modulus: int) -> torch.Tensor:
    """The exponent of each nonzero element; 0 at 0."""
    out = torch.zeros(modulus, dtype=torch.int64)
    out[powers(modulus)] = torch.arange(modulus - 1)
    return out


@cache
def inverse(modulus: int) -> torch.Tensor:
    """1/x by x (float64); NaN at 0."""
    out = torch.full((modulus,), float("nan"), dtype=torch.float64)
    out[powers(modulus)] = powers(modulus).flip(0).roll(1).double()  # h**k and h**(n - k)
    return out


@cache
def signs() -> torch.Tensor:
    """The Legendre symbol modulo p by x: 1 for squares, -1 for others, 0 at 0 (float64)."""
    out = (1 - 2 * (logs(P) % 2)).double()
    out[0] = 0
    return out


@cache
def roots(modulus: int) -> torch.Tensor:
    """The square among the roots of |x| = sign(x) x, by x (float64): root(xy) = root(x) root(y), root(xx) = |x|."""
    half_way = (modulus - 1) // 2
    exponents = logs(modulus)
    exponents = torch.where(exponents % 2 == 0, exponents, (exponents + half_way) % (modulus - 1))  # |x|
    half = exponents // 2
    half = torch.where(half % 2 == 0, half, half + half_way)
    out = powers(modulus)[half].double()
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
