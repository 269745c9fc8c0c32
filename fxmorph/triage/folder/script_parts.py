"""Functions that scripts of findings have in them, as lines of source."""

from __future__ import annotations

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path

from fxmorph.core.exits import ReproExit

TENSORS = [
    "def tensors(tree):",
    "    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]",
]
HELD_IN = [
    "own = set()  # modules of the program, whose state is looked at for itself",
    "def held_in(tree):",
    "    return look_into([(f'[{i}]', x) for i, x in enumerate(tree_flatten(tree)[0])], own)",
    "def tensors(tree):",
    "    return list(held_in(tree).tensors.values())",
]
#: Numbers and arrays are rounded as tensors are.
NUMBERS = [
    "    if isinstance(a, float) and isinstance(b, float):",
    "        a, b = (torch.tensor(v, dtype=torch.float64) for v in (a, b))",
    "    elif getattr(getattr(a, 'dtype', None), 'kind', None) in ('f', 'c'):  # an array of numpy",
    "        a, b = torch.as_tensor(a), torch.as_tensor(b)",
]
STATE = [
    "def state(f):",
    "    return [*f.parameters(), *f.buffers()] if isinstance(f, torch.nn.Module) else []",
]
MEMORY = [
    "def memory(t):  # addresses of the elements",
    "    size, storage = t.element_size(), t.untyped_storage()",
    "    places = torch.arange(storage.nbytes() // size).as_strided(t.shape, t.stride(), t.storage_offset())",
    "    return {storage.data_ptr() + size * i for i in places.flatten().tolist()}",
]
OFFSET = [
    "def offset(t, others):  # in memory of its own it says nothing",
    "    start = t.untyped_storage().data_ptr()",
    "    shared = any(start == o.untyped_storage().data_ptr() for o in others if o is not t)",
    "    return t.storage_offset() if shared and t.numel() else 0",
]


def bare(module: Path, without: Collection[str] = ()) -> list[str]:
    """The source of a module of this package, for a script: no docstrings, comments or functions of these names."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    kept = [n for n in tree.body[1:] if getattr(n, "name", "") not in without]
    kept = [n for n in kept if getattr(n, "module", "") != "__future__"]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.unparse(ast.Module(kept, [])).replace("\n\n", "\n").split("\n")


@cache
def looking() -> list[str]:
    """What looks and compares in ``fxmorph/programs/contents.py``, in a function: the program may use its names."""
    return [
        "def looking():  # what is in an object: tensors and plain values by place",
        *indent(bare(Path(__file__).parents[2] / "programs" / "contents.py", ("differing", "_what", "shown"))),
        "    return look_into, same_plain",
        "look_into, same_plain = looking()",
    ]


def moved(device: str, dtype: str) -> list[str]:
    to = ", ".join([*([repr(device)] if device else []), *([f"torch.{dtype}"] if dtype else [])])
    return [
        "def moved(x):",
        "    if isinstance(x, torch.Tensor):",
        f"        y = x.detach().to({device!r})" if device else "        y = x.detach()",
        *([f"        y = y.to(torch.{dtype}) if y.is_floating_point() else y"] if dtype else []),
        "        return y.requires_grad_(x.requires_grad)",
        f"    return x.to({to}) if isinstance(x, torch.nn.Module) else x",
    ]


def resized(old: int, new: int) -> list[str]:
    return [
        "def resized(x):",
        "    if not isinstance(x, torch.Tensor):",
        "        return x",
        "    y = x.detach()",
        "    for d, n in enumerate(x.shape):",
        f"        if n == {old}:",
        f"            y = y.index_select(d, torch.arange({new}, device=x.device) % {old})",
        "    return y.requires_grad_(x.requires_grad)",
    ]


def lost_device(statement: str) -> list[str]:
    """The statement, and exit code ``LOST_DEVICE`` if its kernels broke the GPU context."""
    return [
        "try:",
        f"    {statement}",
        "    torch.cuda.synchronize()",
        "except RuntimeError as error:",
        "    print(error)",
        f"    os._exit({ReproExit.LOST_DEVICE} if 'CUDA error' in str(error) else 2)",
    ]


def indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]
