"""What each part of a campaign adds: root causes found in the same time with that part switched off.

    python bench/ablation.py [corpus] [--max-time 4m] [--seeds 0 1 2] [--jobs N] [--without NAME ...]
                             [--keep FILE] [--draw FILE.svg]

Each campaign is one ``fxmorph run`` of that wall time and so many workers in a state folder and a compiler cache of
its own, with everything, and then without

- ``rewrites``: seeds are judged as they are, whole and by units of Inductor, and all else goes on;
- ``configurations``: every case is compiled as programs are by default;
- ``rungs``: all kernels are compiled, none is interpreted and no unit of Inductor is tried alone;
- ``sources``: seeds, their variants and units alone on them, no operators of torch's tests or generated programs;
- ``scheduling``: kinds of cases take turns whatever they cost, and what reached something new is not tried more often.

What the installed torch is known to differ in comes last in a campaign, whatever that tries first; here nothing is
known of it, as of a build of one's own, so that causes are found as what is tried meets them.

A *root cause* is the stage, the unit and the kinds of a finding that is a duplicate of no other; a finding without a
unit is one by its fingerprint.  ``--keep`` writes what was found when, one JSON line a campaign, and takes campaigns
that are there from it; ``--draw`` needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from where_time_goes import measured

#: What the command line switches off.
OPTIONS: dict[str, tuple[str, ...]] = {
    "rungs": ("--rung", "cpu", "--only", "seeds", "--only", "operators", "--only", "generated"),
    "sources": ("--only", "seeds", "--only", "passes"),
}
EVERYTHING = ""


@dataclass
class Campaign:
    """``causes``: each as text, with wall seconds from the start to its finding; ``cpu`` seconds of all processes."""

    without: str
    seed: int
    cpu: float
    cases: int
    causes: dict[str, float]


# -- what no option switches off: the parent of a campaign decides it -------------------------


def in_turn(lanes: Sequence[Any]) -> Iterator[Any]:
    """The jobs of lanes one of each at a time."""
    left = [lane for lane in lanes if lane.after is None]
    while left:
        for lane in list(left):
            try:
                yield next(lane.jobs)
            except StopIteration:
                left.remove(lane)
                left += [late for late in lanes if late.after is lane]


def without_rewrites() -> None:
    """``--no-rewrites`` would leave out all that is no seed, too."""
    from fxmorph.campaign.unit_schedule import UnitSchedule
    from fxmorph.campaign.variants import Variants

    Variants.after = lambda self, looks: iter(())  # type: ignore[method-assign]
    Variants.dry = True
    UnitSchedule._variants = lambda self: iter(())  # type: ignore[method-assign]


def without_configurations() -> None:
    from fxmorph.campaign.configurations import Configurations

    Configurations.under = lambda self, case, place: case  # type: ignore[method-assign]


def without_scheduling() -> None:
    from fxmorph.campaign import portfolio, unit_schedule
    from fxmorph.campaign.credit import Credit

    portfolio.mixed = unit_schedule.mixed = in_turn  # type: ignore[assignment]
    Credit.add = lambda self, seed, recipe, fired: []  # type: ignore[method-assign]


def without_what_is_known() -> None:
    from fxmorph.core import seen_differences

    seen_differences._table = dict  # type: ignore[assignment]


PATCHES: dict[str, Callable[[], None]] = {
    "rewrites": without_rewrites,
    "configurations": without_configurations,
    "scheduling": without_scheduling,
}
PARTS = ("rewrites", "configurations", "rungs", "sources", "scheduling")


def run_patched(part: str) -> None:
    """Be the command ``fxmorph`` without a part, or with all where it is none of :data:`PATCHES`."""
    from fxmorph.__main__ import main

    without_what_is_known()
    if part in PATCHES:
        PATCHES[part]()
    main()


# -- campaigns ---------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", nargs="?", default="corpus")
    parser.add_argument("--max-time", default="4m", help="of each campaign")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--jobs", default=str(min(os.cpu_count() or 1, 8)))
    parser.add_argument("--without", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    kept = _kept(options.keep)
    found: list[Campaign] = []
    for seed in options.seeds:
        for without in (EVERYTHING, *options.without):
            campaign = next((c for c in kept if (c.without, c.seed) == (without, seed)), None)
            if campaign is None:
                campaign = _campaign(without, seed, options)
                if options.keep:
                    with options.keep.open("a") as file:
                        file.write(json.dumps(asdict(campaign)) + "\n")
            found.append(campaign)
    _table(found, options)
    if options.draw:
        _draw(found, options.draw)
    return 0


def _kept(file: Path | None) -> list[Campaign]:
    if file is None or not file.exists():
        return []
    return [Campaign(**json.loads(line)) for line in file.read_text().splitlines()]


def _campaign(without: str, seed: int, options: argparse.Namespace) -> Campaign:
    code = f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r}); import ablation; "
    start = [sys.executable, "-c", f"{code}ablation.run_patched({without!r})"]
    causes: dict[str, float] = {}
    began = time.monotonic()

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "finding" and not event["duplicate_of"]:
            causes.setdefault(_cause(event), round(time.monotonic() - began, 1))

    with tempfile.TemporaryDirectory(prefix="fxmorph-bench-") as state:
        command = [*start, "run", options.path, "--max-time", options.max_time, "--seed", str(seed), "--json"]
        command += ["--jobs", options.jobs, "--state", state, *OPTIONS.get(without, ())]
        cpu, finished, _ = measured(command, hear, {"TORCHINDUCTOR_CACHE_DIR": f"{state}/inductor"})
    if finished is None:
        sys.exit(f"the campaign {_named(without)} did not finish; see its lines above")
    return Campaign(without, seed, round(cpu, 1), sum(finished["rungs"].values()), causes)


def _cause(finding: dict[str, Any]) -> str:
    unit = finding["unit"] or finding["fingerprint"]
    return f"{finding['stage']} | {unit} | {', '.join(finding['kinds'])}"


# -- tables ------------------------------------------------------------------------------------


def _named(without: str) -> str:
    return f"without {without}" if without else "everything"


def _table(found: Sequence[Campaign], options: argparse.Namespace) -> None:
    seeds = " ".join(map(str, options.seeds))
    print(f"{options.path}, {options.max_time} of wall time each, {options.jobs} workers, seeds {seeds}")
    print(f"{'':<24}{'CPU s':>8}{'cases':>8}{'causes of each seed':>22}{'mean':>7}{'together':>10}{'here alone':>12}")
    arms = list(dict.fromkeys(c.without for c in found))
    whole = {cause for c in found if c.without == EVERYTHING for cause in c.causes}
    for arm in arms:
        mine = [c for c in found if c.without == arm]
        together = {cause for c in mine for cause in c.causes}
        alone = len(together - whole) if arm else len(whole - {x for c in found if c.without for x in c.causes})
        each = " ".join(str(len(c.causes)) for c in mine)
        mean = statistics.mean(len(c.causes) for c in mine)
        print(
            f"{_named(arm):<24}{statistics.mean(c.cpu for c in mine):>8.0f}"
            f"{statistics.mean(c.cases for c in mine):>8.0f}{each:>22}{mean:>7.1f}{len(together):>10}{alone:>12}"
        )
    print("\n'here alone': with everything, in no other row; without a part, not with everything")
    for cause in sorted({cause for c in found for cause in c.causes}):
        rows = [f"{_named(a)} {sum(cause in c.causes for c in found if c.without == a)}" for a in arms]
        print(f"  {cause}: {', '.join(rows)}")


def _draw(found: Sequence[Campaign], file: Path) -> None:
    """Mean number of causes by time, one line for each part."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    from envelope_draw import STYLE

    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
        end = max(max(c.causes.values(), default=0.0) for c in found)
        for arm in dict.fromkeys(c.without for c in found):
            mine = [c for c in found if c.without == arm]
            times = sorted(t for c in mine for t in c.causes.values())
            counts = [(n + 1) / len(mine) for n in range(len(times))]
            axis.step(
                [0.0, *times, end], [0.0, *counts, counts[-1] if counts else 0.0], where="post", label=_named(arm),
                linewidth=2.4 if not arm else 1.2,
            )  # fmt: skip
        axis.set_xlabel("seconds of wall time")
        axis.set_ylabel("root causes (mean)")
        axis.grid(True)
        axis.legend()
        figure.savefig(file, transparent=True, metadata={"Date": None})
        plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
