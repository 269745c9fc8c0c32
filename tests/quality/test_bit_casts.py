"""Bits of what no rounding has reached are judged exactly; of what one has, only what no rounding could do.

The compiler is damaged in its table of decompositions, so that nothing needs a C++ compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
from decompositions_exchanged import instead, judge

from fxmorph.model import Kind, Status

pytestmark = pytest.mark.usefixtures("torch_quiet")

Program = Callable[..., Any]
GENERATOR = torch.Generator().manual_seed(0)
WORDS = torch.randint(-(2**31), 2**31 - 1, (64,), generator=GENERATOR, dtype=torch.int32)
BYTES = torch.randint(0, 255, (64,), generator=GENERATOR).to(torch.uint8)
FLOATS = torch.randn(64, generator=GENERATOR)
HALVES, NINE = FLOATS.half(), torch.full((64,), 9.0)
INFINITE = torch.tensor([torch.inf, -torch.inf, torch.nan, 1.5] * 16)
MATRICES = [torch.randn(8, 8, generator=GENERATOR), torch.randn(8, 8, generator=GENERATOR)]


def packed(x: torch.Tensor) -> torch.Tensor:
    words = x.clone()
    words.view(torch.int16).mul_(3)
    return words ^ 5


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return ((x.view(torch.int32) & 0x7FFFFFFF).view(torch.float32) * 1.5).sin()


def parts_in_turn(x: torch.Tensor) -> torch.Tensor:
    """Real and imaginary parts, seen as real numbers one after the other and not from the first on."""
    z = torch.complex(x.cos(), x.sin())
    return torch.stack([z[3].imag, z[0].real, z[5].real * 3, z[1:3].imag.sum()])


def pairs_in_turn(x: torch.Tensor) -> torch.Tensor:
    """Real numbers seen as complex ones, one after the other."""
    pairs = x.cos().reshape(-1, 2)
    return torch.stack([torch.view_as_complex(pairs[2]), torch.view_as_complex(pairs[0]) * 2]).abs()


def sine_by_cosine(x: torch.Tensor) -> torch.Tensor:
    return (x - math.pi / 2).cos()


def cosine_by_sine(x: torch.Tensor) -> torch.Tensor:
    return (x + math.pi / 2).sin()


#: Programs of bits that no rounding has reached, and exchanges.
WRONG: dict[str, tuple[Program, list[Any], AbstractContextManager[Any]]] = {
    "words as halves": (
        lambda x: (x ^ 5).view(torch.int16) + 1, [WORDS], instead("bitwise_xor __xor__", lambda a, b: a | b),
    ),
    "bytes as words": (
        lambda x: (x + 1).view(torch.int32) & 255, [BYTES], instead("bitwise_and __and__", lambda a, b: a ^ b),
    ),
    "sign bits of inputs": (
        lambda x: (x.view(torch.int32) >> 31) & 1, [FLOATS], instead("bitwise_and __and__", lambda a, b: a | b),
    ),
    "a view that is written": (packed, [WORDS], instead("bitwise_xor __xor__", lambda a, b: a | b)),
    "floats made of bits": (magnitude, [FLOATS], instead("sin", lambda x: x.cos())),
    "parts of complex numbers": (parts_in_turn, [FLOATS], instead("cos", lambda x: (x + 1.58).sin())),
    "pairs as complex numbers": (pairs_in_turn, [FLOATS], instead("cos", lambda x: (x + 1.58).sin())),
    "the next half": (
        lambda x, bound: torch.nextafter(x, bound).view(torch.int16), [HALVES, NINE.half()],
        instead("nextafter", lambda x, bound: (x + (bound - x).float() * 1e-9).half()),
    ),
    "the next float": (
        lambda x, bound: torch.nextafter(x, bound) - x, [FLOATS, NINE],
        instead("nextafter", lambda x, bound: (x + (bound - x).double() * 1e-16).float()),
    ),
    "the largest float": (
        lambda x: x.nan_to_num().view(torch.int32), [INFINITE],
        instead("nan_to_num", lambda x, *_: torch.where(x.isnan(), 0.0, x.clamp(-3e38, 3e38))),
    ),
}  # fmt: skip


def halves_beside_a_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    bits = (x @ w).view(torch.int16)
    return bits.flip(0)[:, ::2].to(torch.float32) + w @ x


#: Programs whose bits rounding decides in part, and exchanges that no rounding explains.
FAR: dict[str, tuple[Program, list[Any], AbstractContextManager[Any]]] = {
    "halves of products": (halves_beside_a_product, MATRICES, instead("flip", lambda x, dims: x.clone())),
    "exponents": (
        lambda x: ((x * 1.1).sin().view(torch.int32) >> 23) & 255, [FLOATS],
        instead("bitwise_and __and__", lambda a, b: a | b),
    ),
    "truncated by bits": (
        lambda x: ((x * 1.1).sin().view(torch.int32) & -65536).view(torch.float32), [FLOATS],
        instead("sin", lambda x: x.cos()),
    ),
    "returned as bits": (
        lambda x, w: (x @ w).view(torch.int16), MATRICES,
        instead("mm", lambda a, b: (a.flip(0).unsqueeze(2) * b.unsqueeze(0)).sum(1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*WRONG, *FAR])
def test_bits_that_no_rounding_gives_are_judged(name: str) -> None:
    program, inputs, damage = {**WRONG, **FAR}[name]
    got = judge(program, inputs, damage)
    assert (got.status, got.kinds) == (Status.FINDING, (Kind.VALUE,)), got.reason


def written_by_rounding(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    bits = y.view(torch.int32)
    y.mul_(1.1).sin_()
    return bits & 255


def written_by_decisions(x: torch.Tensor) -> torch.Tensor:
    halves = (x.sigmoid() * 100).round().to(torch.int32)
    return halves.view(torch.int16) * 2


RIGHT: dict[str, tuple[Program, list[Any], AbstractContextManager[Any]]] = {
    "words as halves": (lambda x: (x ^ 5).view(torch.int16) + 1, [WORDS], nullcontext()),
    "a view that is written": (packed, [WORDS], nullcontext()),
    "floats made of bits": (magnitude, [FLOATS], nullcontext()),
    "the next half": (
        lambda x, bound: torch.nextafter(x, bound).view(torch.int16), [HALVES, NINE.half()], nullcontext(),
    ),
    "what comes next of rounded values": (
        lambda x, bound: torch.nextafter((x * 1.1).sin(), bound) * 3, [FLOATS, NINE],
        instead("sin", sine_by_cosine),
    ),
    "the next float in place": (lambda x, bound: x.clone().nextafter_(bound) - x, [FLOATS, NINE], nullcontext()),
    "the largest half": (lambda x: x.nan_to_num().view(torch.int16), [INFINITE.half()], nullcontext()),
    "bits of rounded values": (
        lambda x: (x * 1.1).sin().view(torch.int32) & 255, [FLOATS], instead("sin", sine_by_cosine),
    ),
    "hashes of rounded values": (
        lambda x: ((x * 1.1).sin().view(torch.int32) * -1640531527 >> 31) & 1, [FLOATS],
        instead("sin", sine_by_cosine),
    ),
    "products as bits": (
        lambda x, w: (x @ w).view(torch.int16), MATRICES,
        instead("mm", lambda a, b: (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)),
    ),
    "halves of products": (
        halves_beside_a_product, MATRICES, instead("mm", lambda a, b: (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)),
    ),
    "bits of values that are written": (written_by_rounding, [FLOATS], nullcontext()),
    "bits of decisions": (
        written_by_decisions, [FLOATS], instead("sigmoid", lambda x: 1 / (1 + x.neg().exp())),
    ),
}  # fmt: skip


@pytest.mark.parametrize("program", [parts_in_turn, pairs_in_turn])
def test_parts_of_complex_numbers_may_round(program: Program) -> None:
    got = judge(program, [FLOATS], instead("cos", cosine_by_sine))
    assert got.status is Status.CLEAN, got.reason


def test_gradients_of_parts_of_complex_numbers_may_round() -> None:
    def gate(x: torch.Tensor) -> torch.Tensor:
        cosine, sine = x[0].cos(), x[1].sin()
        return torch.stack([torch.complex(cosine, sine), torch.complex(x[2].cos(), x[1])]).abs()

    got = judge(gate, [FLOATS.clone().requires_grad_()], instead("cos", cosine_by_sine))
    assert got.status is Status.CLEAN, got.reason


@pytest.mark.parametrize("name", RIGHT)
def test_right_bits_and_those_of_rounded_values_are_no_finding(name: str) -> None:
    program, inputs, damage = RIGHT[name]
    got = judge(program, inputs, damage)
    assert got.status in (Status.CLEAN, Status.INCONCLUSIVE, Status.TIE), got.reason
