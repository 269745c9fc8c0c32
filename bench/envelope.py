"""How the error of compiled programs sits inside the rounding envelope, and what the envelope catches.

    python bench/envelope.py [corpus/seeds] --out FOLDER [--variants 1] [--limit N] [--seed N]
    python bench/envelope.py --operators --out FOLDER
    python bench/envelope.py --redraw FOLDER

Takes each seed, and variants of it, in float64, float32, bfloat16 and float16; runs eager,
compiled (Inductor, CPU) and reference; measures each element of outputs and gradients; then puts
a single wrong element into eager's result and asks fxmorph, ``torch._dynamo.utils.same`` and
``torch.testing.assert_close`` whether they see it.  Writes ``envelope.json`` and plots into FOLDER
and prints the tables of docs/envelope.md.  ``--operators`` measures single operators instead and
writes ``operators.json``.  ``--redraw`` makes plots and tables again from those files.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from envelope_programs import OPERATORS, in_dtype, operator_program, runs_in

from fxmorph.core.clock import Clock
from fxmorph.core.seeds import find_seeds
from fxmorph.judge import numeric
from fxmorph.judge.case import judge_subject, make_variant
from fxmorph.judge.reference.gates import Gates
from fxmorph.judge.reference.precision import SPREAD_FACTOR, UNIT
from fxmorph.judge.reference.shadows import Shadows
from fxmorph.judge.reference.tables import KERNELS
from fxmorph.judge.trial import LazyReference, SeedSubject, Subject, Trial, summary
from fxmorph.model import Case, CompileConfig, Seed, Status, ValuePlan
from fxmorph.programs.capture import CaptureFailed
from fxmorph.programs.graph import Unprintable
from fxmorph.programs.inputs import dtype_name
from fxmorph.programs.load import LoadedSeed, SeedFailed, load_seed
from fxmorph.programs.observe import Observation, as_is
from fxmorph.rewriting.claims import Unsound
from fxmorph.rules import Registry, load_rules
from fxmorph.torchapi.compiling import quiet
from fxmorph.torchapi.dispatch import TorchDispatchMode

#: Dtypes of the study and the smallest injected error, as a power of two: half a unit in the last place.
DTYPES = {torch.float64: -53, torch.float32: -24, torch.bfloat16: -8, torch.float16: -11}
MEASURED = (Status.CLEAN, Status.EXPECTED)
SLOTS, ELEMENTS = 3, 2  # of each graph that get injected errors
#: Sizes, as powers of two, of errors that are injected into any element, judged or not.
ANYWHERE = (-6, 5)
CHECKS = ("fxmorph", "same", "assert_close")
GROUP = 22  # operators that are compiled as one program
QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
#: Bins of log2(error / allowed) for the plot; below the first: 0 included.
BINS = (-30, 6, 0.5)


class KeptTrial(Trial):
    """A trial whose reference run is made once and can be read after the judgement."""

    kept: LazyReference | None = None

    def reference(self, plan: ValuePlan, eager: Observation, draw: int = 0) -> LazyReference:
        if draw:
            return super().reference(plan, eager, draw)
        if self.kept is None:
            self.kept = super().reference(plan, eager)
        return self.kept


class Names(TorchDispatchMode):
    """Collects the names of the operators that a program runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


@dataclass
class Slot:
    """One floating value of a run, flat, in fp64: errors and what the policy allows."""

    name: str
    eager: torch.Tensor
    compiled: torch.Tensor
    shadows: Shadows
    error: torch.Tensor  # of compiled, against the nearer of wide and cast
    own: torch.Tensor  # of eager
    outside: torch.Tensor  # how far compiled lies outside the interval between wide and cast
    allowed: torch.Tensor
    scale: torch.Tensor  # the larger magnitude of wide and cast
    judged: torch.Tensor  # finite, hangs on no tie, well-conditioned

    wide: torch.Tensor  # the same but not well-conditioned

    @property
    def ratio(self) -> torch.Tensor:
        """The part of the allowed error that is used; 1 is the edge of the envelope."""
        return torch.where(self.outside > 0, self.outside / self.allowed, 0.0)

    def in_units(self, t: torch.Tensor) -> torch.Tensor:
        """In units of roundoff of each value; of the smallest normal number below that."""
        return t / self.scale.clamp(min=torch.finfo(self.eager.dtype).smallest_normal) / UNIT[self.eager.dtype]


@dataclass
class Pool:
    """All elements of one dtype, over its clean and expected graphs."""

    ratios: list[torch.Tensor] = field(default_factory=list)
    differ: list[torch.Tensor] = field(default_factory=list)
    widths: list[torch.Tensor] = field(default_factory=list)
    ill: list[torch.Tensor] = field(default_factory=list)


def measured(name: str, eager: torch.Tensor, compiled: torch.Tensor, shadows: Shadows) -> Slot:
    """What the judge computes of each element."""
    e, c, w = eager.double(), compiled.double(), shadows.lanes["wide"].double()
    r = shadows.lanes["cast"].double() if "cast" in shadows.lanes else w
    env = numeric.envelope(eager, compiled, shadows.lanes)
    scale = torch.maximum(w.abs(), r.abs())
    bound = torch.maximum(env.wide_bound, env.cast_bound)
    decided = torch.isfinite(e) & torch.isfinite(c) & torch.isfinite(w) & ~env.tied
    wide = bound > numeric.ILL_CONDITIONED * scale
    return Slot(
        name, eager, compiled, shadows,
        error=torch.minimum((c - w).abs(), (c - r).abs()),
        own=env.own,
        outside=env.outside,
        allowed=env.allowed,
        scale=scale,
        judged=decided & ~wide,
        wide=decided & wide,
    )  # fmt: skip


def slots_of(eager: Observation, compiled: Observation, reference: LazyReference, dtype: torch.dtype) -> Iterator[Slot]:
    """Outputs and gradients of this dtype (its parts, if complex) that the rounding envelope decides about."""
    theirs = compiled.slots()
    for slot in (*eager.outputs, *eager.gradients):
        a, b = slot.value, theirs[slot.name].value if slot.name in theirs else None
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.shape != b.shape:
            continue
        kept = reference.shadows(slot.name)
        if not a.numel() or kept is None or "wide" not in kept.lanes or a.dtype != b.dtype:
            continue
        if a.is_complex():
            a, b = (torch.view_as_real(t.resolve_conj()) for t in (a, b))
            lanes = {k: torch.view_as_real(v.resolve_conj()) for k, v in kept.lanes.items()}
            kept = Shadows(torch.view_as_real(kept.native.resolve_conj()), lanes)
        if a.dtype == dtype:
            yield measured(slot.name, a, b, kept)


def same(slot: Slot, got: torch.Tensor) -> bool:
    from torch._dynamo.utils import same as rmse_same

    quietly = logging.getLogger("fxmorph.bench").debug
    return bool(rmse_same(slot.eager, got, fp64_ref=slot.shadows.lanes["wide"], log_error=quietly))


def close(slot: Slot, got: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(got, slot.eager)
    except AssertionError:
        return False
    return True


def flagged(slot: Slot, got: torch.Tensor, gates: Gates) -> tuple[Status, dict[str, bool]]:
    """fxmorph's status of a slot, and which of CHECKS object to it."""
    status = numeric.compare(slot.eager, got, slot.shadows, gates).status
    return status, {
        "fxmorph": status is Status.FINDING,
        "same": not same(slot, got),
        "assert_close": not close(slot, got),
    }


def inject(slots: list[Slot], gates: Gates, rng: random.Random, anywhere: bool = False) -> dict[str, dict[str, int]]:
    """Counts by log2 of the relative size: tried, caught by each check, fxmorph's status where missed.

    One wrong element at a time, among those that the policy judges, or among all.
    """
    out: dict[int, Counter[str]] = {}
    for slot in rng.sample(slots, min(SLOTS, len(slots))):
        wanted = slot.eager.double().abs() >= torch.finfo(slot.eager.dtype).smallest_normal
        wanted &= torch.isfinite(slot.eager) & (slot.judged | anywhere)
        places = wanted.flatten().nonzero().flatten().tolist()
        for place in rng.sample(places, min(ELEMENTS, len(places))):
            sign = rng.choice((-1, 1))
            for power in range(*ANYWHERE) if anywhere else range(DTYPES[slot.eager.dtype], 1):
                got = slot.eager.clone(memory_format=torch.contiguous_format)
                was = float(got.view(-1)[place])
                got.view(-1)[place] = was * (1 + sign * 2.0**power)
                now = float(got.view(-1)[place])
                if now == was or not math.isfinite(now):
                    continue
                status, found = flagged(slot, got, gates)
                count = out.setdefault(power, Counter())
                count["tried"] += 1
                count.update(check for check in CHECKS if found[check])
                if not found["fxmorph"]:
                    count[f"missed: {status}"] += 1
    return {str(power): dict(out[power]) for power in sorted(out)}


def study(subject: Subject, case: Case, label: str, dtype: torch.dtype, pool: Pool, clock: Clock) -> dict[str, Any]:
    """Run one graph in one dtype and measure it; the record of the JSON."""
    record: dict[str, Any] = {"graph": label}
    trial = KeptTrial(subject, case.compile, case.input_seed, clock)
    eager = trial.eager(ValuePlan.SEED)
    if eager.raised:
        return record | {"status": "eager raises", "reason": eager.raised}
    compiled = trial.compiled(ValuePlan.SEED)
    verdicts = trial.weigh(ValuePlan.SEED, eager, compiled)
    status, kinds, reason = summary(verdicts)
    record |= {"status": str(status), "kinds": list(map(str, kinds)), "reason": reason}
    if compiled.raised:
        return record
    reference = trial.reference(ValuePlan.SEED, eager)
    gates = reference.gates()
    slots = list(slots_of(eager, compiled, reference, dtype))
    names = Names()
    trial.observe(ValuePlan.SEED, as_is, mode=names)
    unjudged = gates.random_values or gates.bit_cast or gates.overflow
    record |= {"slots": len(slots), "exact": gates.exact, "kernels": sorted(names.seen & KERNELS)}
    if status in MEASURED and slots and not unjudged:
        record |= _summarised(slots, gates, pool, random.Random(f"{case.campaign_seed} {label}"))
    elif not unjudged:
        record["worst"] = [_worst(s) for s in sorted(slots, key=_peak)[-2:]]
    if status is Status.FINDING:
        stands = judge_subject(case, subject, clock)
        record |= {"status": str(stands.status), "reason": stands.reason, "stage": stands.stage}
    return record


def _peak(slot: Slot) -> float:
    return float(slot.ratio[slot.judged].max()) if bool(slot.judged.any()) else 0.0


def _worst(slot: Slot) -> dict[str, Any]:
    """The judged element nearest to its bound, in units of roundoff of its value."""
    ratio = torch.where(slot.judged, slot.ratio, 0.0).flatten()
    at = int(ratio.argmax())
    sizes = {"error": slot.error, "own": slot.own, "allowed": slot.allowed}
    return {"slot": slot.name, "ratio": float(ratio[at])} | {
        k: float(slot.in_units(t).flatten()[at]) for k, t in sizes.items()
    }


def _summarised(slots: list[Slot], gates: Gates, pool: Pool, rng: random.Random) -> dict[str, Any]:
    out: dict[str, Any] = {"elements": 0, "unjudged": 0, "differ": 0, "disagree": 0}
    out["false"] = {check: 0 for check in CHECKS}
    # Without rounding there is no envelope: nothing may differ.
    rounding = [] if gates.exact else [s for s in slots if bool(s.judged.any())]
    for slot in slots:
        out["elements"] += slot.judged.numel()
        out["unjudged"] += int((~slot.judged).sum())
        out["differ"] += int((slot.eager != slot.compiled).sum())
        status, found = flagged(slot, slot.compiled, gates)
        for check in CHECKS:
            out["false"][check] += found[check]
        # The bench's own bound must be the product's: it alarms where ``compare`` does.
        alarm = bool((slot.ratio > 1)[slot.judged].any())
        out["disagree"] += not gates.exact and alarm != (status is Status.FINDING)
    for slot in rounding:
        pool.ratios.append(slot.ratio[slot.judged])
        pool.differ.append((slot.eager != slot.compiled)[slot.judged])
        pool.widths.append(slot.in_units(slot.allowed)[slot.judged])
        pool.ill.append(slot.ratio[slot.wide])
    if rounding:
        out["worst"] = [_worst(max(rounding, key=_peak))]
    out["injected"] = inject([s for s in slots if bool(s.judged.any())], gates, rng)
    out["anywhere"] = inject(slots, gates, rng, anywhere=True)
    return out


# -- graphs ----------------------------------------------------------------------


def case_of(seed: Seed, number: int, campaign_seed: int) -> Case:
    config = CompileConfig.make()
    return Case(seed, number, campaign_seed, (ValuePlan.SEED,), config, torch=metadata.version("torch"))


def graph(
    loaded: LoadedSeed, case: Case, dtype: torch.dtype, rules: Registry, pool: Pool, clock: Clock
) -> dict[str, Any]:
    """The record of a seed (number 0) or of one of its variants."""
    label = f"{Path(case.seed.path).stem}#{case.number}"
    converted = in_dtype(loaded, dtype)
    try:
        if not case.number:
            return study(SeedSubject(converted), case, label, dtype, pool, clock)
        variant = make_variant(case, converted, rules, clock)
        if not variant.recipe:
            return {"graph": label, "status": "no rewrite", "reason": "no rewrite applies"}
        return study(variant.subject, case, label, dtype, pool, clock) | {"recipe": str(variant.recipe)}
    except (CaptureFailed, Unprintable, SeedFailed, Unsound) as error:
        return {"graph": label, "status": "no graph", "reason": f"{type(error).__name__}: {error}"[:300]}
    except Exception as error:  # one graph must not end the study; it is counted and told
        traceback.print_exc()
        return {"graph": label, "status": "bench error", "reason": f"{type(error).__name__}: {error}"[:300]}


def operators(dtype: torch.dtype, seed: int, clock: Clock) -> list[dict[str, Any]]:
    """For each operator alone, largest errors and median allowance in units of roundoff."""
    names = [name for name in OPERATORS if runs_in(name, dtype)]
    rows = []
    for first in range(0, len(names), GROUP):
        subject, owner = operator_program(names[first : first + GROUP], dtype, seed)
        trial = Trial(subject, CompileConfig.make(), 0, clock)
        eager, compiled = trial.eager(ValuePlan.SEED), trial.compiled(ValuePlan.SEED)
        if eager.raised or compiled.raised:
            print(f"operators {dtype_name(dtype)}: {eager.raised or compiled.raised}", file=sys.stderr)
            continue
        for slot in slots_of(eager, compiled, trial.reference(ValuePlan.SEED, eager), dtype):
            # Near zeros of a result the size of the element says little: its RMS is the measure.
            rms = float((slot.scale**2).mean().sqrt()) * UNIT[dtype]
            rows.append(
                {
                    "operator": owner[slot.name],
                    "slot": "gradient" if slot.name.startswith("grad") else "output",
                    "compiled": float((slot.error / rms).max()),
                    "eager": float((slot.own / rms).max()),
                    "allowed": float((slot.allowed / rms).median()),
                    "ratio": float(slot.ratio.max()),
                    "unjudged": float((~slot.judged).double().mean()),
                }
            )
    return rows


# -- summary ---------------------------------------------------------------------


def summarise(records: list[dict[str, Any]], pool: Pool) -> dict[str, Any]:
    used = [r for r in records if "elements" in r]
    plain = [r for r in used if not r["kernels"]]
    injected, anywhere = _added(used, "injected"), _added(used, "anywhere")
    ratio, differ, width, ill = (
        torch.cat(x) if x else torch.zeros(1) for x in (pool.ratios, pool.differ, pool.widths, pool.ill)
    )
    peaks = torch.tensor([r["worst"][0]["ratio"] for r in used if "worst" in r] or [0.0], dtype=torch.float64)
    return {
        "graphs": len(used),
        "exact": sum(r["exact"] for r in used),
        "statuses": dict(Counter(r["status"] for r in records)),
        "elements": int(ratio.numel()),
        "unjudged": sum(r["unjudged"] for r in used) / max(sum(r["elements"] for r in used), 1),
        "differ": float(differ.double().mean()),
        "ratio": _quantiles(ratio),
        "ratio_where_bits_differ": _quantiles(ratio[differ.bool()]),
        "ratio_ill_conditioned": _quantiles(ill),
        "graph_maximum": _quantiles(peaks),
        "width": _quantiles(width),
        "slots": sum(r["slots"] for r in used),
        "false": {c: sum(r["false"][c] for r in used) for c in CHECKS},
        "false_graphs": {c: sum(bool(r["false"][c]) for r in used) for c in CHECKS},
        "disagree": sum(r["disagree"] for r in used),
        "cumulative": {"elements": _cumulative(ratio), "graphs": _cumulative(peaks)},
        "injected": {str(k): dict(v) for k, v in sorted(injected.items())},
        "anywhere": {str(k): dict(v) for k, v in sorted(anywhere.items())},
        "caught": _caught(injected),
        "plain_graphs": len(plain),
        "caught_plain": _caught(_added(plain, "injected")),
    }


def _added(records: list[dict[str, Any]], key: str) -> dict[int, Counter[str]]:
    out: dict[int, Counter[str]] = {}
    for record in records:
        for power, counts in record[key].items():
            out.setdefault(int(power), Counter()).update(counts)
    return out


def _quantiles(t: torch.Tensor) -> list[float]:
    if not t.numel():
        return [0.0] * len(QUANTILES)
    ordered = t.double().sort().values
    return [float(ordered[min(int(q * len(ordered)), len(ordered) - 1)]) for q in QUANTILES]


def _cumulative(ratio: torch.Tensor) -> list[float]:
    """Share of ratios up to each bin edge."""
    first, last, step = BINS
    edges = [2.0 ** (first + step * k) for k in range(int((last - first) / step) + 1)]
    return [float((ratio <= edge).double().mean()) for edge in edges]


def _caught(injected: dict[int, Counter[str]]) -> dict[str, list[int | None]]:
    return {check: [smallest(injected, check, share) for share in (0.5, 0.99)] for check in CHECKS}


def smallest(injected: dict[int, Counter[str]], check: str, share: float) -> int | None:
    """The smallest power of two from which on the check catches at least ``share``."""
    found = None
    for power in sorted(injected, reverse=True):
        if injected[power][check] < share * injected[power]["tried"]:
            break
        found = power
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--out", type=Path, default=Path("envelope-out"), help="folder of the JSON and the plots")
    parser.add_argument("--variants", type=int, default=1, help="variants of each seed, beside the seed itself")
    parser.add_argument("--limit", type=int, default=0, help="only so many graphs, drawn at random; 0: all")
    parser.add_argument("--minutes", type=float, default=0, help="begin no graph after so long; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operators", action="store_true", help="measure single operators instead of graphs")
    parser.add_argument("--redraw", type=Path, help="folder with an envelope.json to draw and print again")
    options = parser.parse_args()
    try:
        import envelope_draw
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("matplotlib is missing: pip install matplotlib", file=sys.stderr)
        return 2
    folder = options.redraw or options.out
    folder.mkdir(parents=True, exist_ok=True)
    quiet()
    torch.set_num_threads(1)
    single = folder / "operators.json"
    if options.operators:
        rows = {dtype_name(d): operators(d, options.seed, Clock()) for d in DTYPES}
        single.write_text(json.dumps(rows, indent=1) + "\n")
        print(envelope_draw.operator_table(rows))
        return 0
    file = folder / "envelope.json"
    if not options.redraw:
        _measure(options, file)
    data = json.loads(file.read_text())
    envelope_draw.draw(data, folder)
    print(envelope_draw.tables(data))
    if options.redraw and single.exists():
        print(envelope_draw.operator_table(json.loads(single.read_text())))
    return 0


def _measure(options: argparse.Namespace, file: Path) -> None:
    seeds, _ = find_seeds([options.path])
    random.Random(f"order {options.seed}").shuffle(seeds)
    rules, clock, started = load_rules(), Clock(), time.monotonic()
    pools = {dtype: Pool() for dtype in DTYPES}
    records: dict[torch.dtype, list[dict[str, Any]]] = {dtype: [] for dtype in DTYPES}
    rounds = [(number, seed) for seed in seeds for number in range(options.variants + 1)]
    random.Random(f"rounds {options.seed}").shuffle(rounds)  # a run that is cut short is a sample of all
    rounds = rounds[: options.limit or None]
    for k, (number, seed) in enumerate(rounds):
        if options.minutes and time.monotonic() - started > 60 * options.minutes:
            break
        loaded = load_seed(seed)
        for dtype in DTYPES:
            record = graph(loaded, case_of(seed, number, options.seed), dtype, rules, pools[dtype], clock)
            records[dtype].append(record)
            if record["status"] not in ("clean", "expected"):
                text = f"{dtype_name(dtype)} {record['graph']}: {record['status']}: {record['reason'][:200]}"
                print(text, file=sys.stderr)
        print(f"{k + 1} of {len(rounds)} graphs, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
        if k % 8 == 0:  # a run that is stopped leaves what it has
            _write(file, options, records, pools)
    _write(file, options, records, pools)


def _write(
    file: Path, options: argparse.Namespace, records: dict[torch.dtype, list[dict[str, Any]]],
    pools: dict[torch.dtype, Pool],
) -> None:  # fmt: skip
    data = {
        "torch": metadata.version("torch"),
        "seed": options.seed,
        "policy": {
            "EAGER_FACTOR": numeric.EAGER_FACTOR,
            "SPREAD_FACTOR": SPREAD_FACTOR,
            "ILL_CONDITIONED": numeric.ILL_CONDITIONED,
            "FAR_OUTSIDE": numeric.FAR_OUTSIDE,
        },
        "quantiles": QUANTILES,
        "bins": BINS,
        "dtypes": {dtype_name(d): summarise(records[d], pools[d]) for d in DTYPES},
        "graphs": {dtype_name(d): records[d] for d in DTYPES},
    }
    file.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
