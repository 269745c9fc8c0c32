"""A finding on disk, and whether fresh processes show it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.exits import ReproExit
from fxmorph.core.finding_parts import Match
from fxmorph.core.records import from_json, to_json
from fxmorph.core.scripts import Scripts
from fxmorph.core.store import DiskError
from fxmorph.model import Finding, Kind
from fxmorph.prove.certificates import Certificates
from fxmorph.torchapi.devices import missing
from fxmorph.triage.folder.asserting_kernel import asserting_kernel
from fxmorph.triage.folder.graph_files import graph_files
from fxmorph.triage.folder.issue import issue_text
from fxmorph.triage.folder.regression import regression_text
from fxmorph.triage.folder.repro import repro_text
from fxmorph.triage.folder.repro_run import run_repro, said_by

#: Fresh processes that must all show the difference, where there is time: `fxmorph reduce`.
TIMES = 3

_QUOTED_CUDA = re.compile(r"""(['"])cuda(:\d+)?\1""")


def write_finding(folder: Path, finding: Finding, versions: Mapping[str, str], proofs: Path) -> None:
    """``finding.json`` in ``folder``, and where there is a program ``repro.py``, a unit test, ``issue.md`` and graphs.

    Raises :class:`DiskError`.

    Certificates of the finding's rewrites, from the folder ``proofs``, go into ``folder/proofs``.
    """
    files = {"finding.json": json.dumps(to_json(finding), indent=1, ensure_ascii=False) + "\n"}
    if finding.program:
        files |= {
            "repro.py": repro_text(finding),
            f"test_{finding.fingerprint}.py": regression_text(finding),
            "issue.md": issue_text(finding, versions, finding.ladder),
            **graph_files(finding),
        }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        Certificates(proofs).ship([p.certificate for p in finding.proofs], folder / "proofs")
    except OSError as error:
        raise DiskError(
            f"{folder}: cannot write the finding ({error.strerror}); free space or choose --state"
        ) from None


@dataclass(frozen=True)
class Confirmation:
    """``shown`` of ``runs`` fresh processes show the difference; ``without`` is what one without the unit shows.

    ``said`` is the last line of the last process; ``without`` is "" where no unit can be switched off.
    ``elsewhere`` says what the other sort of device shows, as ``on cuda: gone``; "" where there is none.
    ``match`` is the public issue that it was shown to be, ``kernel`` what is said of the GPU's kernel that ends it.
    """

    shown: int
    runs: int
    said: str
    without: str = ""
    elsewhere: str = ""
    match: Match | None = None
    kernel: str = ""

    @property
    def stands(self) -> bool:
        return self.shown == self.runs

    def __str__(self) -> str:
        unit = f"; with the guilty unit switched off: {self.without}" if self.without else ""
        many = "a fresh process" if self.shown == self.runs == 1 else f"{self.shown} of {self.runs} fresh processes"
        return "; ".join(filter(None, (f"repro.py shows it in {many}{unit}", self.elsewhere, self.kernel)))


def confirm(folder: Path, cache: Path, times: int = TIMES, scripts: Scripts | None = None) -> Confirmation:
    """Run the repro up to ``times`` times, until it does not show the difference; if more than once, then without
    the guilty unit and on the other sort of device too.

    ``scripts``: as for :func:`run_repro`; where several must agree they are new interpreters, whose memory lies
    elsewhere each time.
    """
    scripts = scripts if times == 1 else None
    for shown in range(times):
        code, said = run_repro(folder, cache, scripts=scripts)
        if code != ReproExit.STILL_THERE:
            return Confirmation(shown, shown + 1, said)
    if times == 1:
        return Confirmation(1, 1, said)
    code, _ = run_repro(folder, cache, without_unit=True)
    without = "" if code == ReproExit.NO_UNIT else said_by(code)
    return Confirmation(times, times, said, without, _elsewhere(folder, cache))


def ending_kernel(finding: Finding, folder: Path, cache: Path) -> str:
    """What is said of the GPU's kernel that ends the finding's program; "" of other findings, and where none is named.

    No unit is switched off for those: a GPU's context does not survive the processes that this would take.
    """
    if Kind.CRASH not in finding.kinds or finding.config.get("device") != "cuda":
        return ""
    kernel = asserting_kernel(folder, cache)
    return str(kernel) if kernel is not None else ""


def _elsewhere(folder: Path, cache: Path) -> str:
    """What the repro of a CPU finding shows with its inputs on the GPU, or of a GPU finding with them on the CPU."""
    finding: Finding = from_json(Finding, json.loads((folder / "finding.json").read_text(encoding="utf-8")))
    device = "cpu" if finding.config.get("device") == "cuda" else "cuda"
    if missing(device):
        return ""
    program = finding.program if device == "cuda" else _QUOTED_CUDA.sub("'cpu'", finding.program)
    moved = replace(finding, program=program, repro=finding.repro.with_config(device=device))
    with TemporaryDirectory(prefix="fxmorph-elsewhere-") as place:
        Path(place, "repro.py").write_text(repro_text(moved), encoding="utf-8")
        code, _ = run_repro(Path(place), cache)
    return f"on {device}: {said_by(code)}"
