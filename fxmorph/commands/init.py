"""``fxmorph init``: a folder with a seed, a rule, an oracle, a pass, tests of them and a CI workflow to start from."""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path

from fxmorph.core.config import ConfigError
from fxmorph.core.exits import Exit

#: Where each file of ``scaffold/`` goes.
PLACES = {
    "example_seed.py": "seeds/scaled_softmax.py",
    "example_rule.py": "transforms/mine.py",
    "example_oracle.py": "oracles/stays_finite.py",
    "example_pass.py": "passes.py",
    "example_tests.py": "tests/test_torch_compile.py",
    "fxmorph.toml": "fxmorph.toml",
    "pytest.ini": "pytest.ini",
    "workflow.yml": ".github/workflows/fxmorph.yml",
}


def init(folder: Path, say: Callable[[str], None]) -> Exit:
    """Write the files and say what to do with them; raises ``ConfigError`` where one of them is there already."""
    there = [place for place in PLACES.values() if (folder / place).exists()]
    if there:
        raise ConfigError(f"{folder / there[0]} is there already: name a new folder (nothing was written)")
    scaffold = resources.files("fxmorph.commands") / "scaffold"
    try:
        for name, place in PLACES.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text((scaffold / name).read_text(encoding="utf-8"), encoding="utf-8")
            say(str(file))
    except OSError as error:
        raise ConfigError(f"{error.filename or folder}: {error.strerror}") from None
    change = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    say(f"next: {change}pytest          # the seed, the pass, the rule and the oracle")
    say(f"      {change}fxmorph run seeds --max-time 2m   # the seed and variants of it")
    return Exit.OK
