"""What to type to see a finding go: lines for its script, and commands for a shell."""

from __future__ import annotations

import re

from fxmorph.core.finding_parts import NOBODY
from fxmorph.model import Finding
from fxmorph.triage.folder.environment import anonymous

#: How a line begins that is typed in a shell; what else there is to do by hand is Python.
_SHELL = re.compile(r"[A-Z_]+=|python ")
#: What compiles in another way than the script does; of backends a table tells.
_COMPILES = "torch.compile("
#: A module of torch's own that a line has to import first, as ``import torch`` need not have done.
_PRIVATE = re.compile(r"\b(torch\._(?:inductor|functorch)\.\w+)(?=\.)")
_IMPORTS_TORCH = re.compile(r"^import torch$", re.MULTILINE)


def commands(finding: Finding) -> list[str]:
    """For a shell, in the folder of the script."""
    return [line for line in _redo(finding) if _SHELL.match(line)]


def lines(finding: Finding) -> list[str]:
    """Python, to be put below ``import torch``: imports first; none where there is nothing to set."""
    code = [line for line in _redo(finding) if not _SHELL.match(line) and not line.startswith(_COMPILES)]
    return [*sorted({f"import {module}" for line in code for module in _PRIVATE.findall(line)}), *code]


def script_with(script: str, code: list[str]) -> str:
    """The script with the lines in their place, "" where it has none."""
    text, places = _IMPORTS_TORCH.subn(lambda _: "\n".join(["import torch", *code]), script, count=1)
    return text if places else ""


def _redo(finding: Finding) -> list[str]:
    return [anonymous(line) for line in (finding.blame or NOBODY).redo]
