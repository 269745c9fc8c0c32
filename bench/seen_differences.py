"""Adds what shipped programs, and units alone, showed under the installed torch, by stored runs, to
``corpus/seen-differences.json``.

usage: python bench/seen_differences.py STATE...   (of ``fxmorph run corpus/``, any number of them)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from fxmorph.core.seen_differences import FILE, keys_of, unit_key
from fxmorph.core.store import Store
from fxmorph.core.versions import version_of
from fxmorph.inductor.pair_record import place_of
from fxmorph.model import Rung, Status

TABLE = Path(__file__).parent.parent / "corpus" / FILE


def main() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    seen = table.setdefault(version_of("torch").partition("+")[0], {})
    for state in map(Path, sys.argv[1:]):
        with Store(state, write=False) as store:
            for run in store.runs():
                for _, case, result in store.cases(run.id):
                    shipped = case.seed.form == "operator" or "corpus/seeds" in case.seed.path
                    if result.status is Status.FINDING and not case.number and shipped:
                        keys = keys_of(case.seed)
                        if len(keys) == 1:  # of several operators it may be any
                            _add(seen, *keys, result.kinds)
                for finding in store.findings(run.id, duplicates=True):
                    if finding.unit_case is not None and finding.unit_case.rung == Rung.PASS:
                        sort = finding.unit_case.sort or ""
                        _add(seen, unit_key(place_of(finding.unit, sort), sort), finding.kinds)
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{sum(map(len, table.values()))} programs and units of {len(table)} releases in {TABLE}")


def _add(seen: dict[str, list[str]], key: str, kinds: Iterable[str]) -> None:
    seen[key] = sorted({*seen.get(key, ()), *kinds})


if __name__ == "__main__":
    main()
