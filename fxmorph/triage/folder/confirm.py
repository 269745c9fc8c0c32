"""A finding on disk, and running its ``repro.py`` again in a fresh process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit, ReproExit
from fxmorph.core.finding_parts import Match
from fxmorph.core.lifetime import BREAKS, GONE, STILL_THERE
from fxmorph.core.records import from_json, to_json
from fxmorph.core.scripts import Scripts
from fxmorph.core.store import DiskError, Store
from fxmorph.core.vector_units import vector_units_setting
from fxmorph.model import Finding
from fxmorph.prove.certificates import Certificates
from fxmorph.torchapi.devices import missing
from fxmorph.triage.folder.graph_files import graph_files
from fxmorph.triage.folder.issue import issue_text
from fxmorph.triage.folder.regression import regression_text
from fxmorph.triage.folder.repro import WITH_CACHES, repro_text

#: Wall seconds for one repro: torch's import, a cold compile, on a loaded machine.
REPRO_SECONDS = 300

#: Fresh processes that must all show the difference, where there is time: `fxmorph reduce`.
TIMES = 3

_SAID: dict[int, str] = {ReproExit.GONE: GONE, ReproExit.STILL_THERE: STILL_THERE}
_REPLAYED: dict[int, str] = {ReproExit.GONE: "FIXED", ReproExit.STILL_THERE: "FAILS"}
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


def said_by(code: int) -> str:
    """What a repro's exit code says."""
    return _SAID.get(code, BREAKS)


def run_repro(
    folder: Path, cache: Path, *, without_unit: bool = False, mend: str = "", scripts: Scripts | None = None
) -> tuple[int, str]:
    """(exit code, last line printed) of the finding's repro in a fresh process; -1 on time-out.

    ``cache`` is Inductor's folder.  ``without_unit``: with the guilty unit switched off
    (``fxmorph/triage/blame/ablation.py``).  ``mend``: with that known defect mended (``fxmorph/triage/known/``).
    ``scripts`` says where fresh processes come from: new interpreters by default.
    """
    program = ["repro.py"]
    if WITH_CACHES in _text(folder / "repro.py"):  # which is read when torch is imported
        scripts = None
    if without_unit:  # by a setting that torch reads when it is imported
        program, scripts = ["-m", "fxmorph.triage.blame.ablation", "."], None
    elif mend:
        program = ["-m", "fxmorph.triage.known.mended_repro", ".", mend]
    return (scripts or Scripts()).run(program, folder, fresh_environment(cache), REPRO_SECONDS)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:  # who runs it says so
        return ""


def fresh_environment(cache: Path) -> dict[str, str]:
    """This process's, without what would let a repro miss what it is to show."""
    left_out = {
        # The workers' own: who runs the script has other threads, and other loops.
        *("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "OMP_DYNAMIC"),
        "TORCHINDUCTOR_DISABLED_PASSES",
    }
    env = {k: v for k, v in os.environ.items() if k not in left_out and not k.startswith("TORCH_BISECT_")}
    # What an earlier process compiled is not taken from Inductor's caches: it may be right by now, or wrong.
    off = dict.fromkeys(("TORCHINDUCTOR_FX_GRAPH_CACHE", "TORCHINDUCTOR_AUTOGRAD_CACHE"), "0")
    own = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    return {**env, **off, **vector_units_setting(), **own}


@dataclass(frozen=True)
class Confirmation:
    """``shown`` of ``runs`` fresh processes show the difference; ``without`` is what one without the unit shows.

    ``said`` is the last line of the last process; ``without`` is "" where no unit can be switched off.
    ``elsewhere`` says what the other sort of device shows, as ``on cuda: gone``; "" where there is none.
    ``match`` is the public issue that it was shown to be.
    """

    shown: int
    runs: int
    said: str
    without: str = ""
    elsewhere: str = ""
    match: Match | None = None

    @property
    def stands(self) -> bool:
        return self.shown == self.runs

    def __str__(self) -> str:
        unit = f"; with the guilty unit switched off: {self.without}" if self.without else ""
        many = "a fresh process" if self.shown == self.runs == 1 else f"{self.shown} of {self.runs} fresh processes"
        return f"repro.py shows it in {many}{unit}" + (f"; {self.elsewhere}" if self.elsewhere else "")


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


def replay(settings: Settings, ids: list[str], every: bool, say: Callable[[str], None]) -> int:
    """``fxmorph replay``: FIXED, FAILS or ERROR for each finding; exit code 1 if one still fails.

    Of a known issue that is fixed it is said which entry has had its day.  As many run at once as there are jobs, in
    a cache of their own: in Inductor's usual one its bisector leaves what switches passes off.
    """
    with Store(settings.state_dir, write=False) as store:
        found = [(f, store.place(f.id)[0]) for f in store.findings()] if every else []
        found += [store.finding(id) for id in ids]
    worst = 0
    with TemporaryDirectory(prefix="fxmorph-replay-") as cache, ThreadPoolExecutor(settings.effective_jobs) as pool:

        def again(one: tuple[Finding, str]) -> tuple[int, str]:
            finding, folder = one
            if Path(folder, "repro.py").is_file():
                return run_repro(Path(folder), Path(cache))
            return ReproExit.BREAKS, f"no repro.py; `fxmorph explain {finding.case_id}` judges the case again"

        for (finding, folder), (code, said) in zip(found, pool.map(again, found), strict=True):
            word = _REPLAYED.get(code, "ERROR")
            known = f": known as {finding.known}" if finding.known else ""
            more = {"FIXED": known, "ERROR": f": {said}"}.get(word, "")
            say(f"{word} {finding.id} {folder}{more}")
            worst = max(worst, {"FIXED": Exit.OK, "FAILS": Exit.FINDINGS, "ERROR": Exit.INTERNAL}[word])
    return worst
