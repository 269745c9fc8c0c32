"""How good generated programs are: valid in eager, finite, how fast they are drawn, what they reach.

``python bench/generator.py [--valid 2000] [--reach 10000] [--seed 0]``
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fxmorph.programs.generator.catalogue import FAMILIES
from fxmorph.programs.generator.generated import drafted, generated_text, seed_text


@dataclass
class Tally:
    """What programs were like, counted."""

    ran: int = 0
    finite: int = 0
    writes: int = 0
    aliases: int = 0
    either: int = 0
    grads: int = 0
    errors: Counter[str] = field(default_factory=Counter)


class Overloads(TorchDispatchMode):
    """Collects the ATen overloads that are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(str(func))
        return func(*args, **(kwargs or {}))


def tensors(value: Any) -> list[torch.Tensor]:
    return [t for t in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(t, torch.Tensor)]


def run(text: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Inputs and outputs of a seed's text, gradients computed where there are any."""
    module: dict[str, Any] = {}
    exec(text, module)
    torch.manual_seed(0)
    inputs = module["make_inputs"]()
    torch.manual_seed(2)
    outputs = tensors(module["fn"](*inputs))
    with_grad = [t for t in outputs if t.requires_grad]
    if with_grad:
        torch.autograd.backward([(t.abs() if t.is_complex() else t).sum() for t in with_grad])
    return inputs, outputs


def shares_memory(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> bool:
    places = [t.untyped_storage().data_ptr() for t in [*inputs, *outputs] if t.numel()]
    return len(set(places)) < len(places)


def judge(seed: int, number: int, tally: Tally) -> None:
    draft = drafted(seed, number)
    try:
        inputs, outputs = run(seed_text(draft, ""))
    except Exception as error:
        tally.errors[f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"] += 1
        return
    written = any(v.storage.written for v in draft.values)
    shared = shares_memory(inputs, outputs)
    floats = [t for t in outputs if t.is_floating_point() or t.is_complex()]
    floats += [t.grad for t in inputs if t.grad is not None]
    tally.ran += 1
    tally.finite += all(bool(torch.isfinite(t).all()) for t in floats)
    tally.writes += written
    tally.aliases += shared
    tally.either += written or shared
    tally.grads += any(t.requires_grad for t in inputs)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--valid", type=int, default=2000)
    options.add_argument("--reach", type=int, default=10000)
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)

    start = time.process_time()
    for number in range(asked.valid):
        generated_text(asked.seed, number)
    print(f"drawn: {asked.valid / (time.process_time() - start):.0f} programs a CPU second")

    tally = Tally()
    for number in range(asked.valid):
        judge(asked.seed, number, tally)
    for name, count in (
        ("valid in eager", tally.ran),
        ("all results and gradients finite", tally.finite),
        ("write in place", tally.writes),
        ("share memory between inputs and outputs", tally.aliases),
        ("write or share", tally.either),
        ("with gradients", tally.grads),
    ):
        print(f"{name}: {count} of {asked.valid} ({100 * count / asked.valid:.1f} %)")
    for error, count in tally.errors.most_common():
        print(f"  {count} {error}")

    overloads, rows = Overloads(), Counter[str]()
    for number in range(asked.reach):
        draft = drafted(asked.seed, number)
        rows.update(draft.rows)
        try:
            with overloads:
                run(seed_text(draft, ""))
        except Exception:
            continue
    aten = {name for name in overloads.seen if name.startswith("aten.")}
    every = sum(map(len, FAMILIES.values()))
    print(f"in {asked.reach} programs: {len(rows)} of {every} rows drawn, {len(aten)} ATen overloads dispatched")


if __name__ == "__main__":
    main()
