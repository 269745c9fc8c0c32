"""Random results of two sides, whose numbers differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fxmorph.judge.exchangeable import COMPILED, EAGER, odd

Draw = Callable[[torch.Generator], torch.Tensor]


def judged(eager: Draw, compiled: Draw, seed: int = 0) -> str:
    g = torch.Generator().manual_seed(seed)
    return odd([eager(g) for _ in range(EAGER)], [compiled(g) for _ in range(COMPILED)])


def uniform(*shape: int) -> Draw:
    return lambda g: torch.rand(shape, generator=g)


def coins(n: int, p: float) -> Draw:
    return lambda g: (torch.rand(n, generator=g) < p).float()


RIGHT: dict[str, Draw] = {
    "numbers": uniform(40, 30),
    "one number": uniform(1),
    "one number for all": lambda g: torch.rand(1, generator=g).expand(500) * 2,
    "coins": coins(12, 0.3),
    "one coin": coins(1, 0.5),
    "rare ones": coins(300, 0.01),
    "hardly ever": coins(3, 0.002),
    "heavy tails": lambda g: torch.empty(400).cauchy_(generator=g),
    "short": lambda g: torch.rand(3000, generator=g).bfloat16(),
    "whole": lambda g: torch.randint(0, 5, (30,), generator=g),
    "sums": lambda g: torch.rand(20, 40, generator=g).sum(1),
    "not a number at times": lambda g: torch.randn(50, generator=g).log(),
    "complex": lambda g: torch.randn(40, dtype=torch.complex64, generator=g),
    "nothing": uniform(0, 3),
}


@pytest.mark.parametrize("name", RIGHT)
def test_runs_of_one_kind_are_never_odd(name: str) -> None:
    assert [said for seed in range(25) if (said := judged(RIGHT[name], RIGHT[name], seed))] == []


@pytest.mark.parametrize(
    ("eager", "compiled", "said"),
    [
        (uniform(40, 30), lambda g: torch.rand(40, 30, generator=g) * 2, "lie outside of what eager gives"),
        (uniform(40, 30), lambda g: torch.rand(40, 30, generator=g) ** 2, "values lie otherwise"),
        (uniform(40, 30), lambda g: torch.rand(40, 30, generator=g) / 2 + 0.25, "values spread otherwise"),
        (uniform(40), lambda g: torch.arange(40.0) / 40, "the numbers are the same under 8 seeds"),
        (uniform(1), lambda g: torch.tensor([0.3]), "the numbers are the same under 8 seeds"),
        (coins(400, 0.1), coins(400, 0.4), "values lie otherwise"),
        (uniform(50), lambda g: torch.full((50,), float("nan")), "lie outside of what eager gives"),
        (RIGHT["whole"], lambda g: torch.randint(0, 9, (300,), generator=g)[:30] + 3, "lie outside"),
    ],
)
def test_others_are(eager: Draw, compiled: Draw, said: str) -> None:
    assert said in judged(eager, compiled)
