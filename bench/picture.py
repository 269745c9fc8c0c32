"""Draws what a run finds: docs/finding.svg, the issue of one finding as a terminal shows it.

    python bench/picture.py [--state DIR] [--out docs/finding.svg]

Runs ``fxmorph run`` on a program whose input is overwritten (pytorch 197039), or takes the first finding of a state
folder, and draws the beginning of its issue.md: its title, the script that shows it, what that prints, and what makes
it go.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.terminal_theme import MONOKAI

PROGRAM = """import torch
import torch.nn.functional as F


def make_inputs():
    scores = torch.randn(4, 6)
    return [scores, torch.tensor([0, 2]), torch.randn(6, requires_grad=True)]


def fn(scores, masked, bias):
    shifted = (scores - bias).square()
    scores.index_fill_(0, masked, 0.0)
    return F.softmax(shifted, dim=-1) * 2
"""
COMMAND = ("run", "overwritten.py", "--max-time", "5m")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--state", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/finding.svg"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        state = given.state or _run(Path(folder))
        issues = sorted(state.glob("findings/*/issue.md"))
        if not issues:
            print(f"no finding in {state}", file=sys.stderr)
            return 1
        text = issues[0].read_text(encoding="utf-8")
    given.out.write_text(_drawn(text), encoding="utf-8")
    return 0


def _run(folder: Path) -> Path:
    (folder / "overwritten.py").write_text(PROGRAM, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "fxmorph", *COMMAND, "--quiet"], cwd=folder, check=False)
    return folder / ".fxmorph"


def _drawn(issue: str) -> str:
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True)
    console.print(f"[bold green]$[/] fxmorph {' '.join(COMMAND)}\n[bold green]$[/] head .fxmorph/findings/*/issue.md\n")
    console.print(Markdown("\n\n".join(_beginning(issue)), code_theme="monokai"))
    drawn = console.export_svg(title="fxmorph", theme=MONOKAI)
    # No font is fetched where the picture is looked at.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)


def _beginning(issue: str) -> Iterator[str]:
    """Its paragraphs without what is folded, up to the versions, and without what is there for whoever triages it."""
    unfolded = re.sub(r"<details>.*?</details>", "", issue, flags=re.DOTALL).partition("### Versions")[0]
    part, fenced = list[str](), False
    for line in [*unfolded.splitlines(), ""]:
        fenced ^= line.startswith("```")
        if line or fenced:
            part.append(line)
        elif part:
            if not part[0].startswith(("Found by", "Matches", "|")):
                yield "\n".join(part)
            part = []


if __name__ == "__main__":
    sys.exit(main())
