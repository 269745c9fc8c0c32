"""A finding's ``repro.py`` with its guilty unit switched off: ``python -m fxmorph.triage.blame.ablation FOLDER``.

The exit code is that of the repro: 0 where the difference is gone.  4: no unit that can be switched off.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

from fxmorph.core.exits import ReproExit


def main(folder: Path) -> None:
    """Run the repro in this process, which must be a fresh one; leaves by ``SystemExit``."""
    from fxmorph.core.finding_parts import Blame
    from fxmorph.core.records import from_json
    from fxmorph.model import CompileConfig
    from fxmorph.torchapi.compiling import configured
    from fxmorph.triage.blame.probe import holding_back
    from fxmorph.triage.reduce.same_finding import without_guilty

    stored = json.loads((folder / "finding.json").read_text(encoding="utf-8"))["extra"].get("blame")
    held = without_guilty(from_json(Blame, stored)) if stored else None
    if held is None:
        raise SystemExit(ReproExit.NO_UNIT)
    with configured(CompileConfig.make(inductor=dict(held.settings))), holding_back(held):
        runpy.run_path(str(folder / "repro.py"), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
