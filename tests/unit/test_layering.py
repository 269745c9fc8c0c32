"""Who may import what: rooms import downwards, private torch has one home, the parent's records do without torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("fxmorph/**/*.py"), *ROOT.glob("oracles/*.py"), *ROOT.glob("transforms/*.py")])

#: Roots of torch that are private or may move without notice.
PRIVATE = ("torch.utils._", "torch.fx._", "torch.fx.experimental", "torch._")
#: Uses outside torchapi/ that stand, each with its reason.  Tuples of (file, dotted name).
ALLOWED = {
    # A public-in-all-but-name view constructor; there is no other way to set the negative bit.
    ("fxmorph/programs/inputs.py", "torch._neg_view"),
    ("fxmorph/judge/reference/lanes.py", "torch._neg_view"),
    # Where Dynamo's graphs find `linear` and friends: a home of names, not an API that is called.
    ("fxmorph/programs/graph.py", "torch._C._nn"),
    # Keeps operators of a recorded function from being recorded twice.
    ("fxmorph/rewriting/tracing.py", "torch._C.DisableTorchFunction"),
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
    attributes = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    inner = {id(n.value) for n in attributes}
    yield from (dotted(n) for n in attributes if id(n) not in inner)


@cache  # each of hundreds of files is parsed and walked once for all tests
def names_of(file: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(What a file imports, what it uses.)"""
    tree = ast.parse(file.read_text())
    return tuple(imported(tree)), tuple(used(tree))


def private_uses(file: Path) -> set[tuple[str, str]]:
    where, names = file.relative_to(ROOT).as_posix(), names_of(file)[1]
    return {(where, name) for name in names if name.startswith(PRIVATE) and name != "torch.__version__"}


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


#: Packages that few commands need, each with the room or file that alone imports it.
HOMES = {"z3": "fxmorph/prove/", "openai": "fxmorph/propose/", "ray": "fxmorph/campaign/ray_engine.py"}


@pytest.mark.parametrize(("package", "home"), HOMES.items())
def test_heavy_packages_have_one_home(package: str, home: str) -> None:
    for file in SOURCES:
        where = file.relative_to(ROOT).as_posix()
        roots = {name.split(".")[0] for name in names_of(file)[0]}
        assert package not in roots or where.startswith(home), where


#: The rooms, from the ground up: a file imports its own room and those below it.
ROOMS = (
    "core", "torchapi", "programs", "rules", "rewriting", "prove", "judge", "inductor", "triage", "propose", "campaign",
    "report", "commands", "front",
)  # fmt: skip
#: What people import or run keeps its place at the top, and belongs to a room none the less.
FRONT_DOOR = {
    "__init__": "core", "model": "core", "events": "core", "rules": "rules", "oracle": "judge", "cli": "front",
    "__main__": "front", "testing": "front", "pytest_plugin": "front",
}  # fmt: skip
#: Folders beside ``fxmorph/`` that are installed inside of it.
BESIDE = {"transforms": "rules", "oracles": "judge", "corpus": "core"}
#: Imports that go upwards and stand, each with its reason.  Tuples of (file, module).
UPWARDS: set[tuple[str, str]] = set()


def room_of(module: str) -> str:
    """The room of a module by its dotted name."""
    names = module.split(".")[1:] or ["__init__"]
    return BESIDE.get(names[0]) or (FRONT_DOOR[names[0]] if len(names) == 1 and names[0] in FRONT_DOOR else names[0])


def module_of(file: Path) -> str:
    where = file.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__")
    return ".".join(where.split("/") if where.startswith("fxmorph") else ["fxmorph", *where.split("/")])


def modules_imported(file: Path) -> Iterator[str]:
    """Modules of fxmorph that a file imports anywhere in it, in functions and for type checking too."""
    for name in names_of(file)[0]:
        if name.split(".")[0] == "fxmorph":
            yield name if name in MODULES else name.rpartition(".")[0]


MODULES = {module_of(file) for file in SOURCES}


def upwards() -> set[tuple[str, str]]:
    found = set()
    for file in SOURCES:
        level = ROOMS.index(room_of(module_of(file)))
        where = file.relative_to(ROOT).as_posix()
        found |= {(where, m) for m in modules_imported(file) if ROOMS.index(room_of(m)) > level}
    return found


def test_every_file_lies_in_a_room() -> None:
    assert {room_of(module) for module in MODULES} == set(ROOMS)


def test_rooms_import_downwards() -> None:
    assert upwards() == UPWARDS


def test_one_file_name_names_one_file() -> None:
    names = [file.stem for file in SOURCES if file.is_relative_to(ROOT / "fxmorph") and file.stem != "__init__"]
    assert sorted(names) == sorted(set(names))


LIGHT = ("cli", "core.config", "events", "core.store", "core.records", "model", "core.seeds", "rules")


@pytest.mark.parametrize("module", LIGHT)
def test_importing_it_does_not_import_torch(module: str) -> None:
    code = f"import fxmorph.{module}, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "False"


def test_the_drawing_has_every_room_in_its_order() -> None:
    drawn = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1]
    named = [line.split()[0] for line in drawn.splitlines() if line.strip() and line.split()[0] in ROOMS]
    assert tuple(reversed(named)) == ROOMS[:-1]


def test_the_files_that_a_newcomer_is_sent_to_are_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Where is")[2].partition("## ")[0]
    rows = re.findall(r"\| `(\w+)` \| `([\w/.]+)` \|", table)
    assert len(rows) == 5
    for room, file in rows:
        assert (ROOT / "fxmorph" / room / file).is_file(), (room, file)
