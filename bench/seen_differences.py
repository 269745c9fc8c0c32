"""Adds what shipped programs, and units alone, showed under the installed torch, by stored runs, to
``corpus/seen-differences.json``.

usage: python bench/seen_differences.py STATE...   (of ``fxmorph run corpus/``, any number of them)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from fxmorph.core.operator_seeds import OperatorProgram
from fxmorph.core.seen_differences import FILE, keys_of, unit_key
from fxmorph.core.store import Store
from fxmorph.core.versions import version_of
from fxmorph.inductor.pair_record import place_of
from fxmorph.model import Rung, Seed, Status

TABLE = Path(__file__).parent.parent / "corpus" / FILE


def main() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    seen = table.setdefault(version_of("torch").partition("+")[0], {})
    for state in map(Path, sys.argv[1:]):
        with Store(state, write=False) as store:
            for run in store.runs():
                findings = list(store.findings(run.id, duplicates=True))
                left = {finding.case_id: finding.operations for finding in findings}
                for _, case, result in store.cases(run.id):
                    shipped = case.seed.form == "operator" or "corpus/seeds" in case.seed.path
                    if result.status is Status.FINDING and not case.number and shipped:
                        for key in _guilty(case.seed, left.get(case.id, ())):
                            _add(seen, key, result.kinds)
                for finding in findings:
                    if finding.unit_case is not None and finding.unit_case.rung == Rung.PASS:
                        sort = finding.unit_case.sort or ""
                        _add(seen, unit_key(place_of(finding.unit, sort), sort), finding.kinds)
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{sum(map(len, table.values()))} programs and units of {len(table)} releases in {TABLE}")


def _guilty(seed: Seed, operations: Collection[str]) -> list[str]:
    """Keys of a program that differs; of calls of several operators the one that its reduced program calls alone."""
    keys = keys_of(seed)
    if len(keys) == 1:
        return keys
    operators = OperatorProgram.of(seed).operators
    called = [key for name, key in zip(operators, keys, strict=True) if {*name.split(".")} & {*operations}]
    return called if len(called) == 1 else []


def _add(seen: dict[str, list[str]], key: str, kinds: Iterable[str]) -> None:
    seen[key] = sorted({*seen.get(key, ()), *kinds})


if __name__ == "__main__":
    main()
