"""What rewriting adds: the same number of cases and CPU seconds with rewrites off and on.

    python bench/ablation.py [corpus/seeds] [--cases 400] [--seed N] [--jobs N] [--investigate N]

``on`` judges seeds and then variants, as a campaign does.  ``off`` judges the same seeds again and
again, each time under another input seed.  Seeds that are found wrong as they are take no further
part in either.  Then findings are reduced and blamed, and root causes counted by stage, unit and
kinds: at the same number of cases, and at the same CPU seconds (those of the cheaper arm).
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata

from fxmorph.campaign import jobs, worker
from fxmorph.campaign.finding_queue import Effort
from fxmorph.core.pool import Ended, Pool
from fxmorph.core.seeds import find_seeds
from fxmorph.judge.plans import PLANS
from fxmorph.model import Case, CaseResult, CompileConfig, Seed, Status

CASE_SECONDS = 120.0
#: Stage, unit, kinds.
Cause = tuple[str, str, str]


@dataclass
class Judged:
    """One case: its number in its arm, and CPU seconds of the arm when it was done."""

    index: int
    case: Case
    result: CaseResult
    cpu_at: float


@dataclass
class Arm:
    """One side of the comparison; ``causes`` by index of the finding that showed it first."""

    name: str
    judged: list[Judged] = field(default_factory=list)
    cpu: float = 0.0
    blame_cpu: float = 0.0
    causes: dict[Cause, list[Judged]] = field(default_factory=dict)
    left: int = 0

    def until(self, cpu: float) -> tuple[int, list[Cause]]:
        """(cases, causes) seen before the arm had used ``cpu`` seconds."""
        cases = sum(j.cpu_at <= cpu for j in self.judged)
        return cases, [c for c, seen in self.causes.items() if any(j.cpu_at <= cpu for j in seen)]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus/seeds")
    parser.add_argument("--cases", type=int, default=400, help="of each arm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--investigate", type=int, default=25, help="findings of each arm that are reduced and blamed")
    options = parser.parse_args()
    seeds, _ = find_seeds([options.path])
    if not seeds:
        print(f"no seeds in {options.path}", file=sys.stderr)
        return 2
    arms = []
    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as temp:
        os.environ.update(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1")
        for name in ("off", "on"):
            arm = Arm(name)
            cache = os.path.join(temp, name)  # neither finds what the other compiled
            os.mkdir(cache)
            log = os.path.join(cache, "workers.log")
            arguments = ([], cache, log, os.path.join(cache, "proofs"))
            with Pool(options.jobs, worker.serve, arguments, ["fxmorph.campaign.worker"]) as pool:
                _judge(arm, pool, seeds, options.seed, options.cases)
                _blame(arm, pool, options.investigate)
            arms.append(arm)
    _table(arms, options)
    return 0


def _order(arm: Arm, seeds: list[Seed], campaign_seed: int) -> Iterator[Case]:
    """Round 0 is every seed as it is; then variants (on) or other inputs (off) of those that are right."""
    usable = list(seeds)
    number = 0
    while usable:
        shuffled = list(usable)
        if number:
            random.Random(f"order {campaign_seed} {number}").shuffle(shuffled)
        for seed in shuffled:
            on = arm.name == "on"
            yield Case(
                seed, number if on else 0, campaign_seed, PLANS, CompileConfig.make(),
                input_seed=0 if on else number, torch=metadata.version("torch"),
            )  # fmt: skip
        wrong = {
            j.case.seed.hash
            for j in arm.judged
            if j.case.number == 0 and j.result.status in (Status.FINDING, Status.ERROR, Status.UNSUPPORTED)
        }
        usable = [s for s in usable if s.hash not in wrong]
        number += 1


def _judge(arm: Arm, pool: Pool, seeds: list[Seed], campaign_seed: int, cases: int) -> None:
    order = enumerate(_order(arm, seeds, campaign_seed))
    sent = 0
    while True:
        while pool.idle and sent < cases:
            index, case = next(order, (0, None))
            if case is None:
                cases = sent
                break
            pool.submit(jobs.Judge(index, case), CASE_SECONDS)
            sent += 1
        if not pool.busy:
            return
        for ended in pool.ended(timeout=1.0):
            result = ended.value or _lost(ended)
            arm.cpu += sum(used for _, used in result.seconds)
            arm.judged.append(Judged(ended.job.index, ended.job.case, result, arm.cpu))
            _progress(f"{arm.name}: {len(arm.judged)} of {cases} cases, {arm.cpu:.0f} CPU s")


def _lost(ended: Ended) -> CaseResult:
    return CaseResult(ended.job.case.id, Status.ERROR, reason=ended.trouble, seconds=(("lost", ended.cpu),))


def _blame(arm: Arm, pool: Pool, limit: int) -> None:
    """Reduce and blame findings, those that differ most from each other first."""
    found = sorted((j for j in arm.judged if j.result.status is Status.FINDING), key=lambda j: j.index)
    seen: dict[tuple[object, ...], int] = {}
    ranked = []
    for j in found:
        key = (j.result.kinds, j.result.stage, j.case.seed.hash)
        ranked.append((seen.setdefault(key, 0), j.index, j))
        seen[key] += 1
    queue = [j for _, _, j in sorted(ranked, key=lambda r: r[:2])]
    arm.left = max(len(queue) - limit, 0)
    queue = queue[:limit]
    by_index = {j.index: j for j in queue}
    while queue or pool.busy:
        while pool.idle and queue:
            j = queue.pop(0)
            seconds = Effort().seconds
            pool.submit(jobs.Investigate(j.index, j.case, j.result, seconds), seconds * 4)
        for ended in pool.ended(timeout=1.0):
            j = by_index[ended.job.index]
            got = ended.value
            unit = got.unit if got is not None else ""
            arm.blame_cpu += sum(used for _, used in got.seconds) if got is not None else ended.cpu
            kinds = ", ".join(got.kinds if got is not None else j.result.kinds)
            arm.causes.setdefault((j.result.stage, unit or "?", kinds), []).append(j)
            _progress(f"{arm.name}: blaming, {len(queue)} left")


def _progress(line: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{line}\033[K", end="", file=sys.stderr, flush=True)


def _table(arms: list[Arm], options: argparse.Namespace) -> None:
    _progress("")
    lost = sum(not j.result.seconds or j.result.seconds[0][0] == "lost" for arm in arms for j in arm.judged)
    if lost:
        print(f"{lost} cases ended without a judgement (crash, time-out or harness error); they count as cases")
    print(f"torch {metadata.version('torch')}, {options.path}, seed {options.seed}")
    heads = (("cases", 7), ("CPU s", 9), ("findings", 10), ("causes", 8), ("blaming CPU s", 15), ("not blamed", 12))
    print(f"{'rewrites':<10}" + "".join(f"{head:>{width}}" for head, width in heads))
    for arm in arms:
        findings = sum(j.result.status is Status.FINDING for j in arm.judged)
        print(
            f"{arm.name:<10}{len(arm.judged):>7}{arm.cpu:>9.0f}{findings:>10}{len(arm.causes):>8}"
            f"{arm.blame_cpu:>15.0f}{arm.left:>12}"
        )
    equal = min(arm.cpu for arm in arms)
    print(f"\nat {equal:.0f} CPU s of judging each")
    for arm in arms:
        cases, causes = arm.until(equal)
        print(f"{arm.name:<10}{cases:>7} cases, {len(causes)} causes")
    for arm in arms:
        others = {c for other in arms if other is not arm for c in other.causes}
        print(f"\nroot causes with rewrites {arm.name} (* only here)")
        for cause, seen in sorted(arm.causes.items()):
            stage, unit, kinds = cause
            mark = " " if cause in others else "*"
            first = min(j.index for j in seen)
            print(f" {mark} {stage} | {unit} | {kinds} | {len(seen)} findings, first at case {first}")
        if not arm.causes:
            print("   none")


if __name__ == "__main__":
    sys.exit(main())
