"""What the text of a finding's program says of it."""

from __future__ import annotations

import ast

import pytest

from fxmorph.triage.folder.program_text import returns_flat_tuples


def function(*lines: str) -> ast.AST:
    return ast.parse("def fn(x, y):\n" + "\n".join(f"    {line}" for line in lines)).body[0]


@pytest.mark.parametrize(
    "lines",
    [
        ("return x + 1, torch.relu(y)",),
        ("u = x.sin()", "return (u, x)"),
        ("u = F.softmax(x)", "v = u[0]", "return u, v"),
        ("v = torch.cat([x, x])", "v.add_(1)", "return (v,)"),
        ("v = x.view(2)", "w = v.to(torch.int8)", "return (v, w)"),
        ("v = torch.fft.rfft(x)", "return (v,)"),
        ("v = x.sum(0)", "return (v if x.dim() else y,)"),
    ],
)
def test_parts_that_are_one_tensor_each(lines: tuple[str, ...]) -> None:
    assert returns_flat_tuples(function(*lines))


@pytest.mark.parametrize(
    "lines",
    [
        ("u = torch.unsafe_chunk(x, 1)", "return (u,)"),
        ("return (torch.linalg.qr(x),)",),
        ("u = x.max()", "return (u,)"),
        ("u = torch.nn.functional.max_pool2d(x, 2, return_indices=True)", "return (u,)"),
        ("u = torch.ops.mine.several(x)", "return (u,)"),
        ("return ((x, y), x)",),
        ("u = [x, y]", "return (u,)"),
        ("return x",),
        ("return (torch.relu(x), *y)",),
    ],
)
def test_parts_that_may_be_several(lines: tuple[str, ...]) -> None:
    assert not returns_flat_tuples(function(*lines))
