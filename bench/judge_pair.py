"""What ``fxmorph.testing.judge_pair`` takes: seconds of one pair after the first, with the prover and without.

    python bench/judge_pair.py [--times 20]

The pairs are graphs of some twenty calls: one that is right and is proved, one that rounds otherwise, one that is
wrong.  The first pair of a process also imports Dynamo, which is told apart.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.update(OMP_NUM_THREADS="1")

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from fxmorph.testing import judge_pair

ROUNDS = 3


def before(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.addmm(b, x, w.t())
    for _ in range(ROUNDS):
        y = torch.sigmoid(torch.relu(y + s) * 0.5 - 1.0)
    return y.t().sum(0), torch.cat([y, y], 1)


def respelled(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.addmm(b, x, w.permute(1, 0))
    for _ in range(ROUNDS):
        y = torch.sigmoid(torch.relu(s + y) / 2.0 + -1.0)
    return y.permute(1, 0).sum(0), torch.cat([y, y], 1)


def rounding(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = b + (x[:, None, :] * w).sum(-1)
    for _ in range(ROUNDS):
        y = torch.sigmoid(torch.relu(y + s) * 0.5 - 1.0)
    return y.t().sum(0), torch.cat([y, y], 1)


def wrong(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, s: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.addmm(b, x, w.t())
    for _ in range(ROUNDS):
        y = torch.sigmoid(torch.relu(y + s) * 0.5 + 1.0)
    return y.t().sum(0), torch.cat([y, y], 1)


def inputs() -> list[torch.Tensor]:
    return [torch.randn(4, 8), torch.randn(6, 8), torch.randn(6), torch.randn(4, 6)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pairs: list[Callable[..., object]] = [respelled, rounding, wrong]
    first = _traced(before)
    started = time.perf_counter()
    judge_pair(first, first, inputs())
    print(f"first pair of the process: {time.perf_counter() - started:.2f} s")
    print(f"{'':<12}{'calls':>7}{'with the prover':>17}{'without':>10}  verdict")
    for function in pairs:
        after = _traced(function)
        calls = sum(node.op == "call_function" for node in after.graph.nodes)
        medians, verdict = [], ""
        for prove in (True, False):
            took = []
            for _ in range(options.times):
                given, started = inputs(), time.perf_counter()
                verdict = str(judge_pair(first, after, given, prove=prove).status)
                took.append(time.perf_counter() - started)
            medians.append(statistics.median(took))
        print(f"{function.__name__:<12}{calls:>7}{medians[0]:>15.3f} s{medians[1]:>8.3f} s  {verdict}")
    return 0


def _traced(function: Callable[..., object]) -> fx.GraphModule:
    return make_fx(function)(*inputs())


if __name__ == "__main__":
    sys.exit(main())
