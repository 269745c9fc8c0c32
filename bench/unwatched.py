"""Which results of programs nobody would see to be wrong: eager's own, each with one element changed, are judged.

    python bench/unwatched.py corpus/ [op:NAME ...] [--by 1.0]

In the place of what a compiled program gives stand eager's results, on a program's own values and on exact ones.  The
middle element of each tensor (results, written inputs, gradients) is moved by itself and ``--by`` times one more, and
then, of floats, made NaN.  What is accused on neither set of values is printed, with what the judge said instead.
Nothing is compiled.  Exit code 1 where there is any.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import torch

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.trial import SeedSubject, Trial
from fxmorph.model import Case, CompileConfig, Seed, Status, ValuePlan, Verdict
from fxmorph.programs.inputs import NotApplicable
from fxmorph.programs.load import SeedFailed, load_case
from fxmorph.programs.observe import Observation, Slot
from fxmorph.torchapi.compiling import quiet

PLANS = (ValuePlan.SEED, ValuePlan.EXACT)
FIELDS = ("outputs", "after", "gradients", "backward")


@dataclass(frozen=True)
class Change:
    """A change of one element; ``by`` None: it becomes NaN."""

    by: float | None

    def of(self, t: torch.Tensor) -> torch.Tensor | None:
        """A changed copy; None where there is no such change."""
        floating = t.is_floating_point() or t.is_complex()
        if not t.numel() or (self.by is None and not floating):
            return None
        flat = t.clone().flatten()
        at = len(flat) // 2
        if self.by is None:
            if bool(flat[at].isnan()):
                return None
            flat[at] = torch.nan
        elif floating:
            known = torch.isfinite(flat[at])
            flat[at] = torch.where(known, flat[at] + self.by * (1 + flat[at].abs()), 1.0).to(flat.dtype)
        else:
            flat[at] = ~flat[at] if t.dtype == torch.bool else flat[at] + 1
        return flat.reshape(t.shape)

    def made_to(self, seen: Observation) -> tuple[Observation, set[str]]:
        """The observation with all tensors changed that can be, and the names of these."""
        changed: set[str] = set()

        def new(slot: Slot) -> Slot:
            plain = isinstance(slot.value, torch.Tensor) and slot.value.layout == torch.strided
            value = self.of(slot.value) if plain and not slot.value.is_quantized else None
            if value is None:
                return slot
            changed.add(slot.name)
            return replace(slot, value=value)

        return replace(seen, **{name: [new(s) for s in getattr(seen, name)] for name in FIELDS}), changed

    def __str__(self) -> str:
        return "made NaN" if self.by is None else "moved"


def unwatched(seed: Seed, changes: list[Change]) -> tuple[int, list[str]]:
    """How many changes were tried, and in words those that are accused on no set of values."""
    config = CompileConfig.make()
    trial = Trial(SeedSubject(load_case(Case(seed, 0, 0, PLANS, config))), config, 0, Clock())
    told: dict[tuple[str, str], list[Verdict | None]] = {}
    for plan in PLANS:
        try:
            eager = trial.eager(plan)
        except NotApplicable:
            continue
        if eager.raised:
            continue
        reference = trial.reference(plan, eager)
        for change in changes:
            compiled, names = change.made_to(eager)
            by_slot: dict[str, Verdict] = {}
            for verdict in trial.weigh(plan, eager, compiled, reference):
                worst = by_slot.get(verdict.slot)
                if worst is None or verdict.status is Status.FINDING:
                    by_slot[verdict.slot] = verdict
            for name in names:
                told.setdefault((name, str(change)), []).append(by_slot.get(name, by_slot.get("")))
    return len(told), [
        f"  {name} {change}: " + (f"{v.status}, {v.reason}"[:160] if (v := verdicts[0]) is not None else "clean")
        for (name, change), verdicts in told.items()
        if not any(v is not None and v.status is Status.FINDING for v in verdicts)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", metavar="PATH", help="programs, or operators of torch's tests as op:NAME")
    parser.add_argument("--by", type=float, default=1.0, help="by how many times 1 + its size a number is moved [1.0]")
    options = parser.parse_args()
    quiet()
    torch.set_num_threads(1)
    seeds, _ = find_seeds(options.paths)
    tried = unseen = 0
    for seed in seeds:
        try:
            changes, lines = unwatched(seed, [Change(options.by), Change(None)])
        except SeedFailed as error:
            print(f"{seed.path}: {error}", flush=True)
            continue
        tried, unseen = tried + changes, unseen + len(lines)
        if lines:
            print(f"{seed.path} {seed.name}", *lines, sep="\n", flush=True)
    print(f"{len(seeds)} programs, {tried} changes of results, {unseen} that nobody sees")
    return int(bool(unseen))


if __name__ == "__main__":
    sys.exit(main())
