"""A state folder with three nights, made without running anything."""

from __future__ import annotations

from pathlib import Path

from reportstate import finding

from fxmorph.core.config import Settings
from fxmorph.core.finding_parts import Likely
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE
from fxmorph.core.nights import Night
from fxmorph.core.store import Store
from fxmorph.model import Case, CaseResult, CompileConfig, Finding, Seed, Status, ValuePlan
from fxmorph.report.collect import collect
from fxmorph.report.html import write_report
from fxmorph.report.site import site_of, write_site
from fxmorph.triage.folder.confirm import write_finding
from fxmorph.triage.known.public_states import PublicStates

#: The torch of each night, and when it began: at noon, day after day.
TORCH = ("2.16.0.dev20261101+cpu", "2.16.0.dev20261102+cpu", "2.16.0.dev20261103+cpu")
BEGAN = (1793534400.0, 1793620800.0, 1793707200.0)

#: Causes by number: one that stays, one that goes, one that goes and is back, one that is new in the last night.
STAYS, GOES, RETURNS, LATE = (finding(number).id for number in range(4))
#: What runs of a night find, and what repros of others show then.
FOUND = ((0, 1, 2), (0,), (0, 2, 3))
REPLAYED = ((), ((GOES, STILL_THERE), (RETURNS, GONE)), ((GOES, GONE), ("none", BREAKS)))


def of_night(number: int) -> Finding:
    public = "pytorch/pytorch#189518" if number == 1 else ""
    likely = (Likely("pytorch/pytorch#195320", "attention", 0.8, "operators"),) if number == 2 else ()
    return finding(number, known=public, likely=likely)


def make_nights(folder: Path, count: int = 3) -> Path:
    """The first ``count`` nights."""
    for night in range(count):
        with Store(folder) as store:
            header = {"torch": TORCH[night], "device": "cpu", "seed": night}
            run = store.create_run(Settings(paths=("corpus/",)), header)
            case = Case(Seed("corpus/seeds/some.py", "module", "ab" * 8), night, 0, (ValuePlan.SEED,), CompileConfig())
            store.add_result(run, 0, case, CaseResult(case.id, Status.FINDING))
            for number in FOUND[night]:
                made = of_night(number)
                place = folder / "findings" / made.id
                write_finding(place, made, {"torch": TORCH[night]}, folder / "proofs")
                store.add_finding(run, made, str(place))
            seen = finding(50 + night, confirmed=False)
            write_finding(folder / "seen" / seen.id, seen, {"torch": TORCH[night]}, folder / "proofs")
            store.add_finding(run, seen, str(folder / "seen" / seen.id))
            store.finish_run(run, {"cases": 1})
            trouble = ("shard 2/2 was killed by SIGKILL; what it stored is kept",) if night == 1 else ()
            store.add_night(Night(night + 1, BEGAN[night], TORCH[night], (run,), 1, 1, REPLAYED[night], trouble))
    return folder


def made_site(folder: Path, make: bool = True) -> Path:
    """The site of three nights, in ``folder / "site"``; of those that are there already without ``make``."""
    state = folder / "state"
    if make:
        make_nights(state)
    with Store(state, write=False) as store:
        nights = store.nights()
    pages = {night.number: state / "nights" / f"{night.number}.html" for night in nights}
    (state / "nights").mkdir(exist_ok=True)
    for night in nights:
        write_report([state], pages[night.number], night.runs)
    write_site(site_of(collect([state]), nights, PublicStates()), folder / "site", pages)
    return folder / "site"
