"""Which of a GPU's kernels ends a program: an assertion of a generated kernel, or of a native one, as the script prints
it.

Where kernels run behind the program the exception is raised by whatever call comes next; with
``CUDA_LAUNCH_BLOCKING`` it is raised where the kernel was started.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from fxmorph.triage.folder.repro_run import REPRO_SECONDS, fresh_environment

#: What a kernel prints, once for each thread that fails: by Triton and by ``CUDA_KERNEL_ASSERT``.
_ASSERTION = re.compile(
    r"^(?P<file>\S+?):(?P<line>\d+): (?P<function>.+?): block: .*? Assertion `(?P<said>.*)` failed", re.MULTILINE
)
#: What the generated file of a kernel calls it, and what the call of it names in generated code.
_NAMED = re.compile(r"""['"]kernel_name['"]: ['"](\w+)['"]""")
_STARTED = re.compile(r"\b((?:triton|cpp_fused)_\w+)\.run\(")


@dataclass(frozen=True)
class AssertingKernel:
    """``name`` of a kernel, and what it ``asserts`` (at ``line`` of its text); "" where it says nothing."""

    name: str
    asserts: str = ""
    line: int = 0

    def __str__(self) -> str:
        said = f", whose line {self.line} asserts `{self.asserts}`" if self.asserts else ""
        return f"ends in the kernel {self.name}{said}"


def asserting_kernel(folder: Path, cache: Path) -> AssertingKernel | None:
    """Run the finding's repro once more, each kernel waited for; None where it names no kernel."""
    environment = {**fresh_environment(cache), "CUDA_LAUNCH_BLOCKING": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "repro.py"], cwd=folder, env=environment, capture_output=True, text=True,
            errors="replace", timeout=REPRO_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None
    return named_in(done.stderr + done.stdout)


def named_in(printed: str) -> AssertingKernel | None:
    """The kernel that a script's output names: by its assertion, or else in the innermost frame that starts one."""
    found = _ASSERTION.search(printed)
    if found is not None:
        name = _name_in(Path(found["file"])) or f"{found['function']} of {Path(found['file']).name}"
        return AssertingKernel(name, found["said"], int(found["line"]))
    started = _STARTED.findall(printed)
    return AssertingKernel(started[-1]) if started else None


def _name_in(file: Path) -> str:
    """Inductor's name of the kernel in a file that it generated; "" for other files."""
    try:
        named = _NAMED.search(file.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return named[1] if named else ""
