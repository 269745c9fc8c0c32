"""Reports of the shipped regressions that are alive: what stands above the fold holds no word of ours and no path."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

REGRESSIONS = Path(__file__).parents[2] / "corpus" / "regressions"
RELEASE = torch.__version__.partition("+")[0]
#: Words of the tool's own, and places of a machine.
FORBIDDEN = re.compile(
    r"fxmorph|\b(seed|recipe|rung|plan|rewrit\w+|fingerprint|oracle|verdict|proof|proved|triage)\b|"
    r"pass_patterns\[|(?<![\w.:/<-])/(home|root|tmp|work|usr|opt|private|Users)/|torch\._C\._nn"
)
MACHINE = re.compile(r"(?<![\w.:/<-])/(home|root|tmp|work|private|Users)/\w+")


def alive() -> list[Path]:
    return [f for f in sorted(REGRESSIONS.glob("*.py")) if re.search(rf'BROKEN_IN = ".*\b{RELEASE}\b', f.read_text())]


@pytest.mark.slow
def test_reports_are_for_maintainers(tmp_path: Path) -> None:
    files = [str(f) for f in alive()]
    if not files:
        pytest.skip(f"no regression is alive in torch {RELEASE}")
    state = tmp_path / "state"
    options = ["--no-rewrites", "-j", "1", "--max-time", "20m", "--state", str(state)]
    subprocess.run([sys.executable, "-m", "fxmorph", "run", *files, *options], capture_output=True)
    texts = {f.parent.name: f.read_text(encoding="utf-8") for f in state.glob("findings/*/issue.md")}
    assert len(texts) >= len(files) // 2
    for name, text in texts.items():
        read = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
        assert not FORBIDDEN.findall(read), name
        assert not MACHINE.findall(text), name
        title = text.partition("\n")[0]
        assert title.startswith("# [") and len(title) <= 100
    short = [text.partition("```python\n")[2].partition("```")[0] for text in texts.values() if "eager: " in text]
    assert len(short) >= len(texts) * 3 // 4
    for snippet in short[:3]:
        done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True)
        assert "eager:" in done.stdout and "compiled:" in done.stdout, done.stderr
