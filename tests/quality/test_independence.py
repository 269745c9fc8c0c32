"""The reference never runs what is tested: with every decomposition wrong its lanes are the same to the bit.

And so a wrong decomposition is flagged wherever a program of the corpus shows it, and makes no verdict milder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._decomp import decomposition_table, global_decomposition_table
from torch._inductor import decomposition

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.reference.reference_run import ReferenceRun
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.trial import SeedSubject, Trial, summary
from fxmorph.model import CompileConfig, Seed, Status, ValuePlan
from fxmorph.programs.bits import same_bits
from fxmorph.programs.load import load_seed
from fxmorph.programs.observe import Observation, observe, same_observation
from fxmorph.torchapi.compiling import reset

pytestmark = pytest.mark.usefixtures("torch_quiet")

SEEDS = {s.path.rpartition("/")[2]: s for s in find_seeds([str(Path(__file__).parents[2] / "corpus" / "seeds")])[0]}
#: Some of each family, quick to compile.
FEW = (
    "cast_uint8_image_normalise.py", "intbool_floor_div_signed.py", "index_gather_beam.py",
    "inplace_ring_buffer.py", "layout_window_partition.py",
)  # fmt: skip
PART = 0.95


def off(value: Any) -> Any:
    """A result that is wrong: 1 % too large (16-bit types, which round more: 20 %), one too many, the other truth."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bool:
        return ~value
    if not value.dtype.is_floating_point and not value.dtype.is_complex:
        return value + 1
    return value * (1.2 if value.dtype.itemsize < 4 else 1.01)


def damaged(right: Callable[..., Any], note: Callable[[], object]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        out = right(*args, **kwargs)
        if out is NotImplemented:
            return out
        note()
        return type(out)(map(off, out)) if type(out) in (tuple, list) else off(out)

    return call


@contextmanager
def wrong(only: str = "") -> Iterator[set[str]]:
    """Decompositions of every table of torch's (or the one of that name) are wrong; names of those called are in what
    this gives.
    """
    used: set[str] = set()
    tables: list[dict[Any, Any]] = [decomposition_table, decomposition.decompositions]
    tables += [t for t in global_decomposition_table.values() if t is not decomposition_table]
    saved = [dict(table) for table in tables]
    for table in tables:
        for operator, right in list(table.items()):
            if str(operator) == only or not only:
                table[operator] = damaged(right, lambda name=str(operator): used.add(name))  # type: ignore[misc]
    reset()
    decomposition.fast_random_decomps.cache_clear()
    try:
        yield used
    finally:
        for table, old in zip(tables, saved, strict=True):
            table.update(old)
        decomposition.fast_random_decomps.cache_clear()
        reset()


@contextmanager
def watched() -> Iterator[set[str]]:
    """Decompositions that compiles use, all right."""
    used: set[str] = set()
    saved = dict(decomposition.decompositions)

    def noting(name: str, right: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            out = right(*args, **kwargs)
            if out is not NotImplemented:
                used.add(name)
            return out

        return call

    decomposition.decompositions.update({o: noting(str(o), right) for o, right in saved.items()})
    decomposition.fast_random_decomps.cache_clear()
    reset()
    try:
        yield used
    finally:
        decomposition.decompositions.update(saved)
        decomposition.fast_random_decomps.cache_clear()
        reset()


def lanes(seed: Seed) -> dict[str, torch.Tensor]:
    run, subject = ReferenceRun(differentiated=True), SeedSubject(load_seed(seed))
    seen = observe(subject.fresh(ValuePlan.SEED, 0), lambda f: f, no_grad=subject.no_grad, mode=run, keep=run.keep)
    kept = {name: slot.value for name, slot in seen.slots().items() if isinstance(slot.value, Shadows)}
    return {f"{name} {lane}": t for name, value in kept.items() for lane, t in value.lanes.items()}


def same_lanes(seed: Seed) -> bool:
    right = lanes(seed)
    with wrong():
        other = lanes(seed)
    return right.keys() == other.keys() and all(same_bits(t, other[name]) for name, t in right.items())


@dataclass
class Judged:
    status: Status
    compiled: Observation | None


def judged(seed: Seed) -> Judged:
    subject = SeedSubject(load_seed(seed))
    trial = Trial(subject, CompileConfig.make("aot_eager_decomp_partition"), 0, Clock())
    status, *_ = summary(trial.judge(ValuePlan.SEED))
    return Judged(status, trial.sides[1] if trial.sides else None)


#: A verdict is milder than those before it.
SEVERITY = [
    Status.FINDING, Status.ERROR, Status.UNSUPPORTED, Status.INCONCLUSIVE, Status.SKIPPED, Status.EXPECTED,
    Status.EDGE_CASE, Status.TIE, Status.ILL_CONDITIONED, Status.CLEAN,
]  # fmt: skip


def plants(seed: Seed) -> Iterator[tuple[str, str]]:
    """Each decomposition that compiling the seed uses, and what comes of it wrong: flagged, shows nothing, milder,
    or the status.
    """
    with watched() as used:
        right = judged(seed)
    for name in sorted(used):
        with wrong(name):
            got = judged(seed)
        if got.status is Status.FINDING:
            yield name, "flagged"
        elif right.compiled and got.compiled and same_observation(right.compiled, got.compiled):
            yield name, "shows nothing"  # zeros, what nobody reads, shapes
        else:
            milder = SEVERITY.index(got.status) > SEVERITY.index(right.status)
            yield name, "milder" if milder else str(got.status)


def told(seeds: dict[str, Seed]) -> tuple[dict[str, int], list[str]]:
    """How many plants there are by outcome, and those that are not flagged, by name."""
    counts: dict[str, int] = {}
    missed = []
    for label, seed in seeds.items():
        for name, outcome in plants(seed):
            counts[outcome] = counts.get(outcome, 0) + 1
            if outcome not in ("flagged", "shows nothing"):
                missed.append(f"{label} {name}: {outcome}")
    return counts, missed


@pytest.mark.parametrize("name", FEW)
def test_the_lanes_are_the_same_to_the_bit_where_every_decomposition_is_wrong(name: str) -> None:
    assert same_lanes(SEEDS[name])


def test_wrong_decompositions_of_a_few_seeds_are_flagged() -> None:
    counts, missed = told({name: SEEDS[name] for name in FEW[:2]})
    assert counts["flagged"] >= PART * (counts["flagged"] + len(missed)), missed


@pytest.mark.slow
@pytest.mark.parametrize("name", SEEDS)
def test_the_lanes_of_every_seed_are_the_same(name: str) -> None:
    assert same_lanes(SEEDS[name])


@pytest.mark.slow
def test_wrong_decompositions_are_flagged_wherever_a_seed_shows_them() -> None:
    counts, missed = told(SEEDS)
    print(counts, *missed, sep="\n")
    assert "milder" not in counts
    assert counts["flagged"] >= PART * (counts["flagged"] + len(missed)), missed
