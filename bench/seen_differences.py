"""Adds what shipped programs showed under the installed torch, by stored runs, to ``corpus/seen-differences.json``.

usage: python bench/seen_differences.py STATE...   (of ``fxmorph run corpus/``, any number of them)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fxmorph.core.seen_differences import FILE, key_of
from fxmorph.core.store import Store
from fxmorph.core.versions import version_of
from fxmorph.model import Status

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
                        seen[key_of(case)] = sorted({*seen.get(key_of(case), ()), *result.kinds})
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{sum(map(len, table.values()))} programs of {len(table)} releases in {TABLE}")


if __name__ == "__main__":
    main()
