"""``test_<fingerprint>.py`` of a finding: a unit test that is expected to fail while the bug is there.

In a test tree it does no harm until the bug is fixed; then it is an unexpected success, and who fixed it takes the
decorator away.  In the style of PyTorch's own tests, but on plain ``unittest``: their ``common_utils`` needs a package
that torch does not bring.
"""

from __future__ import annotations

import re

from fxmorph.model import Finding, Kind
from fxmorph.triage.folder.repro import Script

#: A comparison in a subtest that fails is expected too.
_EXPECTED = "    @unittest.expectedFailure  # take this line away where the bug is fixed"
_MAIN = ["", 'if __name__ == "__main__":', "    unittest.main()"]


def regression_text(finding: Finding) -> str:
    """The test's source; raises ``ValueError`` as ``repro_text`` does."""
    script = Script(finding)
    name = "_".join(re.sub(r"\W+", "_", str(k)) for k in finding.kinds)
    where = re.sub(r"\W+", "_", finding.unit.partition(".")[2])
    title = f"test_{name}_{where.strip('_') or finding.stage}".lower()
    body = _beside(title) if script.child or script.own_numbers else _in_process(script, title)
    return "\n".join([*body, *_MAIN]) + "\n"


def _start(script: Script, *modules: str) -> list[str]:
    f = script.finding
    known = f"; {f.known}" if f.known else ""
    needed = sorted({*modules, "unittest", *(["copy"] if script.copied else [])})
    return [
        '# Owner(s): ["oncall: pt2"]',
        f"# fxmorph {f.id}: {f.unit or f.stage}{known}",
        *(f"import {module}" for module in needed),
        "",
    ]


def _in_process(script: Script, title: str) -> list[str]:
    lines, equal = script.noted()
    # What runs is the test's; what defines stays at the top.
    run = next(i for i, line in enumerate(lines) if line.startswith(("torch.manual_seed", "eager")))
    return [
        *script.program(_start(script)),
        *lines[:run],
        "",
        "class TestCompiledLikeEager(unittest.TestCase):",
        _EXPECTED,
        f"    def {title}(self):",
        *(f"        {line}" for line in lines[run:]),
        # A side that raised noted nothing else.
        f"        for what in {'eager.keys() & compiled' if Kind.RAISES in script.kinds else 'eager'}:",
        "            with self.subTest(what):",
        "                message = f'eager {eager[what]}, compiled {compiled[what]}'",
        f"                self.assertTrue({equal}, message)",
    ]


def _beside(title: str) -> list[str]:
    """Runs the script beside it: a crash or a hang would take the test's process with it, and a comparison of runs
    under many seeds is too long to be written twice."""
    return [
        '# Owner(s): ["oncall: pt2"]',
        "import pathlib",
        "import subprocess",
        "import sys",
        "import unittest",
        "",
        "class TestCompiledLikeEager(unittest.TestCase):",
        _EXPECTED,
        f"    def {title}(self):",
        "        repro = pathlib.Path(__file__).with_name('repro.py')",
        "        self.assertEqual(subprocess.run([sys.executable, repro]).returncode, 0)",
    ]
