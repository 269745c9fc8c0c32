"""Whether operators are judged as wide as they round: each against Inductor's decomposition of it, no compile.

    python bench/operator_envelopes.py [--dtype float32] [--draws 4] [PART OF A NAME ...]

Each operator of torch's own tests is called on the most unlike of their samples, with values drawn around those, and
judged as a program whose compiled side is the decomposition, run eagerly in the same dtype.  Prints the overloads of
which a value was accused, how often, and the first accusation: a defect of the decomposition, or an envelope that is
too narrow (fxmorph/judge/reference/tables.py).
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fxmorph.core.clock import Clock
from fxmorph.judge.trial import GraphSubject, Trial
from fxmorph.model import CompileConfig, Kind, Status, ValuePlan
from fxmorph.programs.inputs import InputSet
from fxmorph.programs.observe import Observation
from fxmorph.torchapi.compiling import quiet
from fxmorph.torchapi.decompose import inductor_decompositions
from fxmorph.torchapi.dispatch import tree_flatten, tree_unflatten
from fxmorph.torchapi.operator_samples import SampleCall, operator_tests, recorded_calls

#: Calls of one overload that are judged, for each operator of the tests.
CALLS = 3
#: A drawn value is the sample's and so much of the sample's spread.
MOVED = 0.5


class Decomposed(Trial):
    """A trial whose compiled side is a plain function."""

    def __init__(self, eager: Callable[..., Any], function: Callable[..., Any], inputs: list[Any]) -> None:
        subject = GraphSubject(eager, {ValuePlan.SEED: InputSet.snapshot(inputs)}, lambda c: c, False)
        super().__init__(subject, CompileConfig.make(), 0, Clock())
        self._function = function

    def compiled(self, plan: ValuePlan) -> Observation:
        return self.observe(plan, lambda _: self._function)


def calls(dtype: torch.dtype, parts: list[str]) -> Iterator[SampleCall]:
    decompositions = inductor_decompositions()
    wanted = {o for o in decompositions if isinstance(o, torch._ops.OpOverload)}
    for op in operator_tests():
        if parts and not any(part in op.name for part in parts):
            continue
        seen: Counter[Any] = Counter()
        made: list[SampleCall] = []
        with contextlib.suppress(Exception):  # what has no samples of this dtype
            made = recorded_calls(op, dtype, wanted)
        for call in made:
            seen[call.overload] += 1
            if seen[call.overload] <= CALLS:
                yield call


def drawn(t: torch.Tensor, draw: torch.Generator) -> torch.Tensor:
    """Other values of a tensor's domain: of one sign, within [0, 1] or within [-1, 1] where all of the sample's are."""
    if not t.is_floating_point() or not t.numel():
        return t.detach().clone()
    spread = float(t.double().std()) if t.numel() > 1 else float(t.abs().max())
    moved = MOVED * (spread if 0 < spread < float("inf") else 1.0) * torch.randn(t.shape, generator=draw)
    y = t.detach().nan_to_num(0.3, 2.0, -2.0) + moved.to(t.dtype)
    if (t > 0).all():
        y = y.abs() + t.min() / 2
    if (t >= 0).all() and (t <= 1).all():
        y = y.abs() % 1.0
    elif (t.abs() <= 1).all():
        y = y / y.abs().max().clamp(min=1.0)
    return t.detach().clone().copy_(y)


def accused(call: SampleCall, function: Callable[..., Any], draw: torch.Generator) -> str:
    """What is said of a wrong value; "" if nothing is."""
    flat, spec = tree_flatten((call.args, call.kwargs))
    places = [i for i, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def program(run: Callable[..., Any]) -> Callable[..., Any]:
        def called(*tensors: torch.Tensor) -> Any:
            given = dict(zip(places, tensors, strict=True))
            args, kwargs = tree_unflatten([given.get(i, value) for i, value in enumerate(flat)], spec)
            return run(*args, **kwargs)

        return called

    trial = Decomposed(program(call.overload), program(function), [drawn(flat[i], draw) for i in places])
    values = (Kind.VALUE, Kind.NONFINITE)
    found = [v for v in trial.judge(ValuePlan.SEED) if v.status is Status.FINDING and v.kind in values]
    return found[0].reason if found else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART OF A NAME")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--draws", type=int, default=4)
    asked = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    decompositions, count, started = inductor_decompositions(), 0, time.process_time()
    times: Counter[str] = Counter()
    said: dict[str, str] = {}
    for call in calls(getattr(torch, asked.dtype), asked.parts):
        for seed in range(asked.draws):
            name, reason = str(call.overload), ""
            with contextlib.suppress(Exception):  # what takes such values not, eager or decomposed
                reason = accused(call, decompositions[call.overload], torch.Generator().manual_seed(seed))
                count += 1
            if reason:
                times[name] += 1
                said.setdefault(name, reason)
    for name, number in times.most_common():
        print(f"{number:4} {name}: {said[name]}")
    seconds = time.process_time() - started
    print(f"{count} judged, {sum(times.values())} accused, of {len(times)} overloads; {seconds:.0f} CPU s")


if __name__ == "__main__":
    main()
