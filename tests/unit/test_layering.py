"""Who may import what: private torch in one package, heavy imports late, the parent's records without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("fxmorph/**/*.py"), *ROOT.glob("oracles/*.py"), *ROOT.glob("transforms/*.py")])

#: Roots of torch that are private or may move without notice.
PRIVATE = ("torch.utils._", "torch.fx._", "torch.fx.experimental", "torch._")
#: Uses outside torchapi/ that stand, each with its reason.  Tuples of (file, dotted name).
ALLOWED = {
    # A public-in-all-but-name view constructor; there is no other way to set the negative bit.
    ("fxmorph/inputs.py", "torch._neg_view"),
    ("fxmorph/judge/shadow.py", "torch._neg_view"),
    # Where Dynamo's graphs find `linear` and friends: a home of names, not an API that is called.
    ("fxmorph/graph.py", "torch._C._nn"),
    # Keeps operators of a recorded function from being recorded twice.
    ("fxmorph/tracing.py", "torch._C.DisableTorchFunction"),
}


def test_sources_are_found() -> None:
    assert len(SOURCES) > 40


def dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used(tree: ast.AST) -> Iterator[str]:
    """Imports, and the longest dotted names that are read."""
    yield from imported(tree)
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    yield from (dotted(n) for n in ast.walk(tree) if isinstance(n, ast.Attribute) and id(n) not in inner)


def private_uses(file: Path) -> set[tuple[str, str]]:
    where = file.relative_to(ROOT).as_posix()
    tree = ast.parse(file.read_text())
    return {(where, name) for name in used(tree) if name.startswith(PRIVATE) and name != "torch.__version__"}


def test_private_torch_is_used_in_torchapi_alone() -> None:
    outside = [f for f in SOURCES if "fxmorph/torchapi" not in f.as_posix()]
    found = set().union(*map(private_uses, outside))
    # Rules spell what programs spell, and optimisers are written with these.
    spelled = {(f, n) for f, n in found if f.startswith("transforms/") and n.startswith("torch._foreach_")}
    assert found - spelled - ALLOWED == set()


def test_every_exception_is_still_needed() -> None:
    found = set().union(*map(private_uses, SOURCES))
    assert found >= ALLOWED


def test_the_search_sees_imports_and_attribute_use() -> None:
    file = ROOT / "fxmorph/torchapi/compiling.py"
    names = {name for _, name in private_uses(file)}
    assert "torch._dynamo.exc.BackendCompilerFailed" in names
    assert "torch._inductor.config.patch" in names


@pytest.mark.parametrize(("package", "home"), [("z3", "fxmorph/prove/"), ("openai", "fxmorph/propose/")])
def test_heavy_packages_have_one_home(package: str, home: str) -> None:
    for file in SOURCES:
        where = file.relative_to(ROOT).as_posix()
        roots = {name.split(".")[0] for name in imported(ast.parse(file.read_text()))}
        assert package not in roots or where.startswith(home), where


LIGHT = ("cli", "config", "events", "store", "records", "model", "seeds", "rules")


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_does_not_import_torch(module: str) -> None:
    code = f"import fxmorph.{module}, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"
