"""A finding's ``repro.py`` with one known defect of torch mended.

``python -m fxmorph.triage.known.mended_repro FOLDER MEND``

The exit code is that of the repro: 0 where the difference is gone, by the mend.  5: the mend was not made for this
torch.  6: it is gone, and the mend had nothing to do with it.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from fxmorph.core.exits import ReproExit


def main(folder: Path, name: str) -> None:
    """Run the repro in this process, which must be a fresh one; leaves by ``SystemExit``."""
    # What was compiled without the mend is no answer.
    os.environ |= dict.fromkeys(("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "0")
    from fxmorph.torchapi.mends.mend import Used
    from fxmorph.torchapi.mends.mend_catalogue import MENDS

    mend, used = MENDS[name], Used()
    why = mend.misfit()
    if why:
        print(why)
        raise SystemExit(ReproExit.NO_MEND)
    with mend.apply(used):
        try:
            runpy.run_path(str(folder / "repro.py"), run_name="__main__")
        except SystemExit as left:
            if left.code not in (None, ReproExit.GONE):
                raise
    raise SystemExit(ReproExit.GONE if used.times else ReproExit.NOT_BY_THE_MEND)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
