"""``fxmorph corpus stats``: how many seeds a corpus has, and what they cover of what torch has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from fxmorph.commands.columns import print_columns, print_line
from fxmorph.commands.measured_seeds import MeasuredSeeds, every_feature, measured_seeds, reached_by
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.features import Coverage, coverage_of
from fxmorph.events import CorpusMeasured, FeaturesCovered


def stats(settings: Settings) -> Exit:
    """Print the table, or the line of JSON; bad seeds make the exit code that of a usage error."""
    found = measured_seeds(settings)
    code = found.tell_unmeasured()
    if not found.seeds:
        return code
    coverage = coverage_of(reached_by(found.seeds), every_feature())
    told = _event(found, coverage)
    if settings.json:
        print_line(json.dumps(told.to_json()))
        return code
    forms = ", ".join(f"{count} {form}" for form, count in told.seeds.items())
    number = sum(told.seeds.values())
    print_line(f"{number} seeds ({forms}), {told.graphs} distinct graphs, {told.cpu_s:.1f} CPU seconds")
    _print_table(coverage)
    return code


def _event(found: MeasuredSeeds, coverage: Sequence[Coverage]) -> CorpusMeasured:
    reaches = [measured.reach for measured in found.seeds]
    forms = Counter(measured.seed.form for measured in found.seeds)
    return CorpusMeasured(
        seeds=dict(sorted(forms.items())),
        graphs=len({reach.graphs or reach.hash for reach in reaches}),
        cpu_s=round(sum(reach.seconds for reach in reaches), 2),
        coverage={row.kind.value: FeaturesCovered(row.covered, row.missing) for row in coverage},
        unmeasured={
            **{other.seed.label: other.reason for other in found.unmeasured},
            **{refusal.path: refusal.reason for refusal in found.bad},
        },
    )


def _print_table(coverage: Sequence[Coverage]) -> None:
    rows = [
        (row.kind.plural, str(len(row.covered)), str(row.all), f"{len(row.covered) / row.all:.1%}") for row in coverage
    ]
    print_columns(("features", "covered", "of", "share"), rows)
