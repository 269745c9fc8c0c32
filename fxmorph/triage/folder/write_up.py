"""What a report needs besides a finding: a snippet that was run, kernels, the environment."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fxmorph.core.finding_parts import Draft
from fxmorph.core.records import from_json
from fxmorph.core.units import IN_CODE
from fxmorph.model import Finding, Kind
from fxmorph.triage.folder.by_hand import lines, script_with
from fxmorph.triage.folder.environment import anonymous, environment
from fxmorph.triage.folder.generated_kernels import kernels
from fxmorph.triage.folder.repro_run import fresh_environment
from fxmorph.triage.folder.snippet import COMPILED, EAGER, PRINTS_EXCEPTION, forms, sketches
from fxmorph.triage.folder.snippet_trial import SECONDS

#: Wall seconds beyond those of the trials: torch's import, a last compile; and for a snippet that runs alone.
MORE_SECONDS, ALONE_SECONDS = 120, 180
#: Lines and characters of what a side prints that a report has.
MOST_LINES, MOST_PRINTED = 8, 1000
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
#: Lines of a traceback that a report has; the last ones, where it is longer.
MOST_OF_A_TRACEBACK = 80
_TRACED = "Traceback (most recent call last):"
#: Where a line of torch's logs begins, and a file of an installed package.
_LOGGED = re.compile(r"^[VIWE]\d{4} ", re.MULTILINE)
_INSTALLED = re.compile(r'File "[^"\n]*/(?:site|dist)-packages/')
#: Runs of a snippet that crashes, and what an allocator or a runtime says before it ends the process.
CRASHING_RUNS = 3
_LAST_WORDS = re.compile(
    r"(free|malloc|realloc|munmap_chunk|corrupted|double free|terminate called|munmap|\*\*\*|Fatal|Segmentation|"
    r"Floating point|Illegal)"
)
#: The line of a snippet that prints an exception, with its indentation.
_PRINTS_IT = re.compile(rf"^( *){re.escape(PRINTS_EXCEPTION)}$", re.MULTILINE)
_AND_TRACES_IT = r'\g<0>\n\1if name == "compiled": __import__("traceback").print_exc()'


def written_up(folder: Path, cache: Path) -> Draft:
    """The draft of the finding in ``folder``; ``cache`` is Inductor's folder."""
    finding: Finding = from_json(Finding, json.loads((folder / "finding.json").read_text(encoding="utf-8")))
    with TemporaryDirectory(prefix="fxmorph-snippet-") as place:
        draft = _sketched(finding, folder, Path(place), cache)
        if draft.snippet:
            draft = _run_alone(draft, finding, Path(place), cache)
        gone_with = _gone_with(finding, folder, Path(place), cache)
    return replace(draft, environment=environment(), gone_with=gone_with)


def _sketched(finding: Finding, folder: Path, place: Path, cache: Path) -> Draft:
    # What does not end is not waited for again, and what differs from run to run shows nothing when it is printed.
    if Kind.TIMEOUT in finding.kinds or finding.config.get("own_numbers"):
        return Draft()
    return _crashing(finding) if Kind.CRASH in finding.kinds else _tried(folder, place, cache)


def _tried(folder: Path, place: Path, cache: Path) -> Draft:
    """The shortest snippet, by a process of its own."""
    out = place / "draft.json"
    program = [sys.executable, "-m", "fxmorph.triage.folder.snippet_trial", str(folder.resolve()), str(out)]
    try:
        subprocess.run(program, env=fresh_environment(cache), capture_output=True, timeout=SECONDS + MORE_SECONDS)
    except subprocess.TimeoutExpired:
        return Draft()
    return from_json(Draft, json.loads(out.read_text(encoding="utf-8"))) if out.is_file() else Draft()


def _crashing(finding: Finding) -> Draft:
    """The program as it is: what takes its process with it is not tried in several forms."""
    for sketch in sketches(finding):
        for form in forms(sketch, (Kind.CRASH,)):
            return Draft(replace(sketch, form=form).text(), shown=Kind.CRASH.value)
    return Draft()


def _gone_with(finding: Finding, folder: Path, place: Path, cache: Path) -> str:
    """Lines that switch the accused unit off, where the finding's script exits with 0 with them; else ""."""
    code = lines(finding)
    text = script_with((folder / "repro.py").read_text(encoding="utf-8"), code) if code else ""
    if not text or Kind.TIMEOUT in finding.kinds:
        return ""
    script = place / "repro.py"
    script.write_text(text, encoding="utf-8")
    try:
        done = _run(script, fresh_environment(cache))
    except subprocess.TimeoutExpired:
        return ""
    return "\n".join(code) if done.returncode == 0 else ""


def _run_alone(draft: Draft, finding: Finding, place: Path, cache: Path) -> Draft:
    """With what the snippet prints in a fresh process, as its reader will run it; empty where that shows nothing."""
    script = place / "snippet.py"
    script.write_text(_PRINTS_IT.sub(_AND_TRACES_IT, draft.snippet), encoding="utf-8")
    accused = finding.blame is not None and finding.blame.stage in IN_CODE
    env = {**fresh_environment(cache), **({"TORCH_LOGS": "output_code"} if accused else {})}
    crashes = Kind.CRASH in finding.kinds
    try:
        runs = [_run(script, env) for _ in range(CRASHING_RUNS if crashes else 1)]
    except subprocess.TimeoutExpired:
        return Draft()
    # Memory that is overwritten kills a process when it is next looked at: not each time, or not at the same place.
    died = [run for run in runs if run.returncode < 0]
    done = died[0] if died else runs[0]
    sides = said_of_sides(done.stdout)
    if crashes:
        sides = {**sides, COMPILED: "\n".join(filter(None, [sides[COMPILED], how_it_died(done)]))}
        each_time = len(died) == len(runs)
        draft = replace(draft, contrast="" if each_time else f"Of {len(runs)} runs {len(died)} crashed.")
    if not sides[EAGER] or (not died if crashes else sides[EAGER] == sides[COMPILED]):
        return Draft()
    eager, compiled = (_readable(sides[what]) for what in (EAGER, COMPILED))
    return replace(
        draft,
        printed=f"{EAGER} {eager}\n{COMPILED} {compiled}",
        eager=eager,
        compiled=compiled,
        kernels=anonymous(kernels(done.stderr)),
        traceback=traceback_printed(done.stderr),
    )


def _run(script: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A fresh process that runs the script; raises ``TimeoutExpired``."""
    return subprocess.run(
        [sys.executable, "-u", "-W", "ignore", script.name],
        cwd=script.parent, env=env, capture_output=True, text=True, timeout=ALONE_SECONDS,
    )  # fmt: skip


def how_it_died(done: subprocess.CompletedProcess[str]) -> str:
    """By which signal, and what the C library or the runtime said last, as ``free(): invalid pointer``."""
    try:
        name = signal.Signals(-done.returncode).name
    except ValueError:
        name = f"signal {-done.returncode}"
    last = next((line for line in reversed(done.stderr.splitlines()) if _LAST_WORDS.match(line)), "")
    return f"(killed by {name}{f': {last.strip()}' if last else ''})"


def traceback_printed(printed: str) -> str:
    """The last traceback that was printed, of an exception and what caused it, without this machine's folders."""
    traced = [_LOGGED.split(part)[0] for part in printed.split(_TRACED)[1:]]
    if not traced:
        return ""
    text = anonymous(_INSTALLED.sub('File "', traced[-1])).strip("\n")
    lines = [line for line in text.splitlines() if line.strip(" ~^")]
    cut = [] if len(lines) <= MOST_OF_A_TRACEBACK else ["  …"]
    return "\n".join([_TRACED, *cut, *lines[-MOST_OF_A_TRACEBACK:]])


def said_of_sides(printed: str) -> Mapping[str, str]:
    """What a snippet printed of each side."""
    sides = {EAGER: "", COMPILED: ""}
    side = ""
    for line in printed.splitlines():
        head = next((what for what in sides if line.startswith(what)), "")
        side = head or side
        if side:
            sides[side] += f"{line.removeprefix(head).strip() if head else line}\n"
    return {what: said.rstrip() for what, said in sides.items()}


def _readable(text: str) -> str:
    lines = anonymous(_ADDRESS.sub("", text)).splitlines()
    said = "\n".join(lines[:MOST_LINES])
    whole = len(lines) <= MOST_LINES and len(said) <= MOST_PRINTED
    return said if whole else f"{said[:MOST_PRINTED].rstrip()} …"
