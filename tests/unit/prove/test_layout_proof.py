"""Layout rules for all sizes: right ones are proved, wrong ones never, and operations are as eager's."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import z3

from fxmorph.model import FLOATS, Level
from fxmorph.prove.sizes.extents import Case, Extent, Poly, Refused, Unsupported, explore
from fxmorph.prove.sizes.layout_proof import AllSizes, Example, _run, prove_all_sizes
from fxmorph.prove.sizes.symbolic_lookup import factories
from fxmorph.prove.sizes.symbolic_tensor import Sym, Token
from fxmorph.rules import Rule, load_rules

F = torch.nn.functional
SHIPPED = {r.id: r for r in load_rules()}


def made(
    before: Callable[..., Any], after: Callable[..., Any], where: tuple[str, ...] = (), scalars: Any = None, **args: str
) -> Rule:
    return Rule("made", before, after, args or {"x": "m n"}, "", where=where, scalars=scalars or {}, dtypes=FLOATS,
                claim=Level.INDEX_EXACT)  # fmt: skip


def replayed(rule: Rule, example: Example) -> bool:
    """Whether both sides give the same labels at the sizes of a case; eager may refuse ``before``."""
    first, tensors = 0, {}
    for name, shape in example.shapes.items():
        if any(text in (f"{name}.dtype == 'int64'",) for text in rule.where):
            tensors[name] = torch.zeros(shape, dtype=torch.int64)
            continue
        if f"{name}.dtype == 'bool'" in rule.where:
            tensors[name] = torch.zeros(shape, dtype=torch.bool)
            continue
        count = torch.Size(shape).numel()
        tensors[name] = torch.arange(first + 1.0, first + count + 1.0, dtype=torch.float64).reshape(shape)
        first += count
    given = {**tensors, **example.scalars}

    def side(f: Callable[..., Any]) -> torch.Tensor:
        names = f.__code__.co_varnames[: f.__code__.co_argcount]
        return f(**{n: given[n] for n in names})

    try:
        before = side(rule.before)
    except (RuntimeError, IndexError):
        return True
    after = side(rule.after)
    return before.shape == after.shape and torch.equal(before, after)


# ---------------------------------------------------------------- right and wrong rules

RIGHT: dict[str, Rule] = {
    "transposed twice": made(lambda x: x.t().t(), lambda x: x),
    "permutations compose": made(
        lambda x: x.permute(1, 2, 0).permute(1, 2, 0), lambda x: x.permute(2, 0, 1), x="a b c"
    ),
    "merge and split": made(lambda x: x.reshape(-1).view(x.shape), lambda x: x, ("x.numel > 0",)),
    "flip of a merged axis": made(lambda x: x.flatten().flip(0), lambda x: x.flip(0, 1).flatten()),
    "roll twice": made(lambda x: x.roll(2, 0).roll(5, 0), lambda x: x.roll(7, 0)),
    "roll by any two numbers": made(
        lambda x, k, m: x.roll(k, 0).roll(m, 0), lambda x, k, m: x.roll(k + m, 0),
        ("type(k) is int", "type(m) is int"), {"k": None, "m": None}, x="a b",
    ),
    "roll of a flip": made(lambda x: x.flip(0).roll(3, 0), lambda x: x.roll(-3, 0).flip(0)),
    "roll by rows": made(lambda x: x.flatten().roll(2 * x.shape[1]), lambda x: x.roll(2, 0).flatten(), ("n >= 1",)),
    "reversed chunks": made(
        lambda x: torch.cat(x.chunk(2)[::-1]), lambda x: x.roll(x.shape[0] // 2, 0), ("m >= 2",)
    ),
    "equal chunks": made(lambda x: torch.stack(x.chunk(2)).flatten(0, 1), lambda x: x, ("m >= 2",)),
    "halves": made(
        lambda x: torch.cat([x[: x.shape[0] // 2], x[x.shape[0] // 2 :]]), lambda x: x
    ),
    "chunks of three": made(lambda x: torch.cat(x.chunk(3, 1), 1), lambda x: x),
    "slices of slices": made(lambda x: x[2:][3:], lambda x: x[5:]),
    "slice of a cat": made(
        lambda x, y: torch.cat([x, y])[x.shape[0] :], lambda x, y: y, x="a n", y="b n"
    ),
    "flip of a cat": made(
        lambda x, y: torch.cat([x, y]).flip(0), lambda x, y: torch.cat([y.flip(0), x.flip(0)]), x="a n", y="b n"
    ),
    "transposed cat": made(
        lambda x, y: torch.hstack([x, y]), lambda x, y: torch.vstack([x.t(), y.t()]).t(), x="n a", y="n b"
    ),
    "stack and merge": made(
        lambda x, y: torch.stack([x, y]).flatten(0, 1), lambda x, y: torch.cat([x, y]), x="m n", y="m n"
    ),
    "interleaving stack": made(
        lambda x, y: torch.stack([x, y], 1).flatten(0, 1)[::2], lambda x, y: x, x="m n", y="m n"
    ),
    "two columns as two rows": made(
        lambda x: x.view(-1, 2).t().reshape(2, -1)[0], lambda x: x[0::2], ("n % 2 == 0", "n > 0"), x="n"
    ),
    "heads": made(
        lambda x: x.view(x.shape[0], x.shape[1], 4, -1).transpose(1, 2).transpose(1, 2).flatten(2), lambda x: x,
        ("d % 4 == 0", "x.numel > 0"), x="b t d",
    ),
    "channel shuffle": made(
        lambda x: x.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2).unflatten(1, (-1, 2)).transpose(1, 2)
        .flatten(1, 2), lambda x: x, ("c % 2 == 0", "x.numel > 0"), x="n c l",
    ),
    "groups of unknown size": made(
        lambda x, g: x.unflatten(0, (g, c_of(x, g))).transpose(0, 1).flatten(0, 1)
        .unflatten(0, (c_of(x, g), g)).transpose(0, 1).flatten(0, 1),
        lambda x, g: x, ("type(g) is int", "g >= 1", "c % g == 0"), {"g": None}, x="c n",
    ),
    "pixels": made(
        lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 3), 3), lambda x: x, ("c % 9 == 0", "x.numel > 0"), x="n c h w"
    ),
    "repeat": made(lambda x: x.repeat(2, 3), lambda x: torch.cat([torch.cat([x] * 3, 1)] * 2)),
    "repeat_interleave": made(
        lambda x: x.repeat_interleave(3, 0), lambda x: x.unsqueeze(1).expand(-1, 3, -1).flatten(0, 1)
    ),
    "tile": made(lambda x: x.tile(2), lambda x: torch.cat([x, x], 1)),
    "expand and select": made(
        lambda x, y: x.expand_as(y)[..., 0], lambda x, y: x[..., 0].expand(y.shape[:-1]), ("x.ndim == y.ndim",
        "x.ndim >= 1", "x.shape[-1] == y.shape[-1]", "y.shape[-1] >= 1"), x="...", y="...",
    ),
    "padding": made(lambda x: F.pad(x, (1, 2, 3, 0)), lambda x: F.pad(F.pad(x, (1, 2)), (0, 0, 3, 0))),
    "padding by zeros": made(
        lambda x: F.pad(x, (0, 2)), lambda x: torch.cat([x, x.new_zeros(x.shape[0], 2)], 1)
    ),
    "split and stack": made(lambda x: torch.stack(x.unbind(0)), lambda x: x, ("1 <= m <= 5",)),
    "uneven split": made(lambda x: torch.cat(x.split([2, x.shape[0] - 2])[::-1]), lambda x: x.roll(-2, 0), ("m >= 2",)),
    "narrow and select": made(lambda x: x.narrow(1, 1, 1).squeeze(1), lambda x: x[:, 1], ("n >= 2",)),
    "last dims": made(lambda x: x.mT.movedim(-1, 0), lambda x: x.movedim(-2, 0), ("x.ndim >= 2",), x="..."),
    "windows": made(lambda x: x.unfold(0, 2, 2)[:, 0], lambda x: x[0:-1:2], ("n % 2 == 0", "n >= 2"), x="n"),
    "diagonal": made(lambda x: x.t().diagonal(), lambda x: x.diagonal()),
    "rows by index": made(lambda x: x[torch.arange(x.shape[0] - 1, -1, -1)], lambda x: x.flip(0)),
    "own strides": made(
        lambda x: x.t(), lambda x: x.as_strided((x.shape[1], x.shape[0]), (x.stride(1), x.stride(0))), x="m n"
    ),
}  # fmt: skip


def c_of(x, g):
    return x.shape[0] // g


WRONG: dict[str, Rule] = {
    "square only: transpose": made(lambda x: x.t().flatten(), lambda x: x.flatten()),
    "square only: two views": made(lambda x: x.reshape(x.shape[1], x.shape[0]), lambda x: x.t(), ("x.numel > 0",)),
    "square only: flipped axis": made(lambda x: x.flip(0).t(), lambda x: x.t().flip(0)),
    "even only: halves": made(lambda x: x[: x.shape[0] // 2], lambda x: x.chunk(2)[0]),
    "even only: order of chunks": made(
        lambda x: torch.cat(x.chunk(2)[::-1]), lambda x: x.roll((x.shape[0] + 1) // 2, 0), ("m >= 2",)
    ),
    "short of one": made(lambda x: x[1:-1], lambda x: x.narrow(0, 1, x.shape[0] - 2)[:-1], ("m >= 3",)),
    "one off": made(lambda x: torch.cat([x[:2], x[1:]]), lambda x: x, ("m >= 3",)),
    "raises on few rows": made(lambda x: x[:2], lambda x: x.narrow(0, 0, 2)),
    "sign of roll": made(lambda x: x.flip(0).roll(1, 0), lambda x: x.roll(1, 0).flip(0)),
    "direction of roll": made(lambda x: x.roll(2, 0), lambda x: torch.cat([x[2:], x[:2]]), ("m >= 3",)),
    "roll across rows": made(lambda x: x.flatten().roll(1), lambda x: x.roll(1, 1).flatten()),
    "repeat as interleave": made(lambda x: x.repeat(2, 1), lambda x: x.repeat_interleave(2, 0)),
    "stack in the other dim": made(
        lambda x, y: torch.stack([x, y], 0).flatten(0, 1), lambda x, y: torch.stack([x, y], 1).flatten(0, 1),
        x="m n", y="m n",
    ),
    "order of cat": made(
        lambda x, y: torch.cat([x, y]).flip(0), lambda x, y: torch.cat([x.flip(0), y.flip(0)]), x="a n", y="b n"
    ),
    "shuffle is not its inverse": made(
        lambda x: x.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1), lambda x: x, ("c % 2 == 0", "c > 0"), x="c"
    ),
    "groups and members swapped": made(
        lambda x: x.unflatten(0, (3, -1))[0], lambda x: x.unflatten(0, (-1, 3))[:, 0], ("c % 3 == 0", "c > 0"), x="c"
    ),
    "every other from the wrong start": made(lambda x: x[::2], lambda x: x[1::2], ("n % 2 == 0",), x="n"),
    "size of every other": made(lambda x: x[::2], lambda x: x.narrow(0, 0, x.shape[0] // 2), x="n"),
    "padding on the other side": made(lambda x: F.pad(x, (1, 0)), lambda x: F.pad(x, (0, 1))),
    "padding with another value": made(lambda x: F.pad(x, (1, 0)), lambda x: F.pad(x, (1, 0), value=1.0)),
    "padding with minus zero": made(lambda x: F.pad(x, (1, 0)), lambda x: F.pad(x, (1, 0), value=-0.0)),
    "ambiguous when empty": made(lambda x: x.clone(), lambda x: x.reshape(x.shape[0], -1)),
    "pixels of nothing": made(  # eager's pixel_unshuffle leaves the sizes of what is empty
        lambda x: x, lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 3), 3), ("c % 9 == 0",), x="n c h w"
    ),
    "size 1 only": made(lambda x: x.squeeze(0), lambda x: x[0], ("m >= 1",)),
    "not for one row": made(lambda x: x.unsqueeze(0).squeeze(), lambda x: x),
    "rank 2 only": made(lambda x: x.flip(-1), lambda x: x.flip(1), ("x.ndim >= 2",), x="..."),
    "rank 3 is not its own inverse": made(
        lambda x: x, lambda x: x.permute(*range(1, x.dim()), 0).permute(*range(1, x.dim()), 0), ("x.ndim >= 1",),
        x="...",
    ),
    "negative dim of unsqueeze": made(lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(x.dim() - 1), x="..."),
    "windows of the wrong step": made(lambda x: x.unfold(0, 2, 1)[:, 0], lambda x: x[::2], ("n >= 2",), x="n"),
    "strides of the other order": made(
        lambda x: x.t(), lambda x: x.as_strided((x.shape[1], x.shape[0]), (x.stride(0), x.stride(1)))
    ),
    "rows and columns of a diagonal": made(lambda x: x.diagonal(1), lambda x: x.diagonal(-1)),
    "some choice is wrong": made(lambda x, k: x.roll(k, 0), lambda x, k: x.roll(-k, 0), (), {"k": (0, 1)}),
    "any number is wrong": made(
        lambda x, k: x.roll(k, 0), lambda x, k: x.roll(abs(k), 0), ("type(k) is int",), {"k": None}
    ),
    "bounds of where": made(lambda x: x, lambda x: torch.stack(x.unbind(0)[:4]), ("1 <= m <= 5",)),
    "writes": made(lambda x: x.clone(), lambda x: x.zero_()),
    "another dtype": made(lambda x: x.clone(), lambda x: x.to(torch.float64)),
    "arithmetic": made(lambda x: x, lambda x: x + 0),
}

#: Right, and beyond the method: an offset that is no multiple of what was merged needs a product of two sizes.
BEYOND = {
    "roll of everything": made(lambda x: x.roll(1).roll(-1), lambda x: x),
    "slices of a merged axis": made(lambda x: x.flatten()[1:][2:], lambda x: x.flatten()[3:]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_are_proved(name: str) -> None:
    proof = prove_all_sizes(RIGHT[name], ranks=(0, 1, 2, 3))
    assert proof.proved, proof.reason
    assert proof.ranks and proof.examples and proof.smt
    assert all(replayed(RIGHT[name], e) for e in proof.examples)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_not_proved(name: str) -> None:
    proof = prove_all_sizes(WRONG[name], ranks=(0, 1, 2, 3))
    assert not proof.proved and proof.reason


@pytest.mark.parametrize("name", BEYOND)
def test_what_is_beyond_the_method_is_not_shown(name: str) -> None:
    proof = prove_all_sizes(BEYOND[name])
    assert not proof.proved and "unknown size" in proof.reason


def test_where_before_raises_there_is_nothing_to_show() -> None:
    assert prove_all_sizes(made(lambda x: x.narrow(0, 0, 2), lambda x: x[:2])).proved


def test_a_rule_that_no_sizes_meet_is_not_proved() -> None:
    proof = prove_all_sizes(made(lambda x: x, lambda x: x, ("m >= 3", "m <= 2")))
    assert not proof.proved and not proof.ranks and "no sizes" in proof.reason


def test_ranks_that_conditions_exclude_are_not_counted() -> None:
    proof = prove_all_sizes(SHIPPED["identity_permute_cycle"], ranks=range(5))
    assert proof.proved and proof.ranks == ((3,), (4,))
    assert proof.covers((3,)) and not proof.covers((2,)) and not proof.covers((5,))


def test_a_number_of_no_type_is_not_spoken_of() -> None:
    proof = prove_all_sizes(made(lambda x, k: x.roll(k, 0), lambda x, k: x.roll(k, 0), (), {"k": None}))
    assert not proof.proved and proof.reason == "k may be any number"


def test_a_solver_that_gives_up_proves_nothing() -> None:
    assert not prove_all_sizes(RIGHT["roll of a flip"], rlimit=1).proved


def test_the_same_proof_twice_gives_the_same_queries() -> None:
    first, second = (prove_all_sizes(RIGHT["roll of a flip"]) for _ in range(2))
    assert first.smt == second.smt and first.examples == second.examples and first.ranks == second.ranks


def test_queries_are_text_that_a_solver_reads_and_answers_unsat() -> None:
    proof = prove_all_sizes(RIGHT["flip of a cat"])
    for text in proof.smt:
        solver = z3.Solver(ctx=z3.Context())
        solver.from_string(text)
        assert solver.check() == z3.unsat


# ---------------------------------------------------------------- shipped rules

QUICK = """identity_roll_back identity_split_cat identity_take_flat identity_pad_crop identity_index_negative
layout_permute_heads layout_narrow_as_index layout_pixel_round_trip layout_select_as_strided layout_chunk_second
layout_index_select_as_gather layout_unfold_as_strided layout_view_rows_as_cat layout_gather_as_index""".split()


def checked(rule: Rule) -> AllSizes:
    proof = prove_all_sizes(rule)
    wrong = [e for e in proof.examples if not replayed(rule, e)]
    assert not wrong, (rule.id, wrong)
    return proof


#: Like others of them: a window, an index, a concatenation, a part.
SLOW = ("layout_select_as_strided", "layout_narrow_as_index", "layout_view_rows_as_cat", "layout_chunk_second")


@pytest.mark.parametrize("id", [pytest.param(i, marks=pytest.mark.slow) if i in SLOW else i for i in QUICK])
def test_shipped_rules_are_proved(id: str) -> None:
    proof = checked(SHIPPED[id])
    assert proof.proved, proof.reason


@pytest.mark.slow
def test_most_shipped_layout_rules_are_proved() -> None:
    layouts = [r for r in SHIPPED.values() if r.claim is Level.INDEX_EXACT and r.family in ("identity", "layout")]
    proofs = [checked(r) for r in layouts]
    assert sum(p.proved for p in proofs) >= 0.95 * len(proofs), [(p.rule, p.reason) for p in proofs if not p.proved]


# ---------------------------------------------------------------- operations against eager


def operations(rng: random.Random) -> list[Callable[[Any], Any]]:
    """Operations with random arguments, some of them out of range."""
    a, b, c = (rng.randint(-3, 3) for _ in range(3))
    n, m = rng.randint(0, 3), rng.randint(1, 3)
    return [
        lambda x: x.transpose(a, b), lambda x: x.movedim(a, b), lambda x: x.unsqueeze(a), lambda x: x.squeeze(a),
        lambda x: x.squeeze(), lambda x: x.flip(a), lambda x: x.roll(b, a), lambda x: x.roll(b), lambda x: x.mT,
        lambda x: x.narrow(a, b, n), lambda x: x.select(a, b), lambda x: x[b:c], lambda x: x[..., b::m],
        lambda x: x[None, b:], lambda x: x[b], lambda x: x[:, c:], lambda x: x.flatten(a, b), lambda x: x.reshape(-1),
        lambda x: x.reshape(x.shape[0], -1), lambda x: x.reshape(-1, m), lambda x: x.unflatten(a, (m, -1)),
        lambda x: x.repeat(*([1] * (x.dim() - 1)), n), lambda x: x.repeat_interleave(n, a), lambda x: x.tile(n, m),
        lambda x: x.expand(m, *x.shape), lambda x: x.chunk(m, a)[-1], lambda x: x.split(m, a)[-1],
        lambda x: torch.cat([x, x], a), lambda x: torch.stack([x, x], a), lambda x: torch.cat([x[1:], x[:1]]),
        lambda x: F.pad(x, (b, c)), lambda x: x.diagonal(b), lambda x: x.unfold(a, n, m), lambda x: x.tril(b),
        lambda x: x.triu(b), lambda x: x[torch.arange(x.shape[0])], lambda x: torch.hstack([x, x]),
        lambda x: torch.vstack([x, x]), lambda x: x.permute(*range(1, x.dim()), 0), lambda x: x.unbind(a)[0],
        lambda x: x[: x.shape[0] // 2], lambda x: x.roll(x.shape[-1] // 2, -1), lambda x: torch.diag_embed(x),
        lambda x: torch.cat([x, x.flip(a)], b), lambda x: x.take(torch.arange(x.numel())),
        lambda x: F.pixel_shuffle(x, m), lambda x: F.pixel_unshuffle(x, m), lambda x: x.t(),
        lambda x: x.gather(-1, torch.arange(x.shape[-1]).expand(x.shape)), lambda x: x.swapaxes(a, b),
    ]  # fmt: skip


def on(case: Case, f: Callable[[Any], Any], x: Sym) -> Any:
    def side(x: Any) -> Any:
        return f(x)

    # The functions above are of this module, so ``torch`` is replaced for them.
    return _run(f, case, {"x": x})


def eager(fs: list[Callable[[Any], Any]], shape: tuple[int, ...]) -> torch.Tensor | None:
    x = torch.arange(1, torch.Size(shape).numel() + 1).reshape(shape)
    try:
        for f in fs:
            x = f(x)
    except (RuntimeError, IndexError, ValueError):
        return None
    return x


def labels(x: Sym, shape: tuple[int, ...], value: Callable[[Any], int], put: list[tuple[Any, Any]]) -> torch.Tensor:
    """The cells of a result at sizes of a model, as eager labels of its input's."""
    case = x.case
    factors = [[value(case.term(f)) for f in axis] for axis in x.axes]
    flat = [n for axis in factors for n in axis]
    out: list[int] = []
    for at in itertools.product(*(range(n) for n in flat)):
        digits = iter(case.int_val(d) for d in at)
        cell = z3.simplify(z3.substitute(x.cell([[next(digits) for _ in axis] for axis in factors]), *put))
        if z3.is_int_value(cell):
            out.append(cell.as_long())
            continue
        place = 0
        for k, n in enumerate(shape):
            place = place * n + cell.arg(k).as_long()
        out.append(place + 1)
    sizes = [torch.Size(axis).numel() for axis in factors]
    return torch.tensor(out, dtype=torch.int64).reshape(sizes)


@pytest.mark.parametrize("seed", range(60))
def test_operations_are_those_of_eager(seed: int) -> None:
    """Chains on unknown sizes, looked at in a model of each case, are what eager gives at its sizes."""
    rng = random.Random(seed)
    fs = [rng.choice(operations(rng)) for _ in range(rng.choice((1, 1, 2, 3)))]
    rank = rng.choice((1, 2, 2, 3))
    def run(answers: tuple[bool, ...]) -> list[tuple[bool, ...]]:
        case = Case(answers)
        atoms = [case.atom(f"n{k}") for k in range(rank)]
        integer = case.int_val(0).sort()
        data = z3.Function("data.x", *[integer] * rank, integer)
        x = Sym(case, tuple((a,) for a in atoms), lambda ix: data(*(d for ds in ix for d in ds)), Token())
        made: Any = None
        try:
            made = x
            for f in fs:
                made = on(case, f, made)
        except (Refused, IndexError):
            made = None
        model = case.model(*(case.term(atom) <= rng.choice((4, 5)) for atom in atoms))
        if model is None:
            return case.open

        def value(t: Any) -> int:
            return int(model.eval(t, model_completion=True).as_long())

        shape = tuple(value(case.term(a)) for a in atoms)
        wanted = eager(fs, shape)
        if made is None or wanted is None:
            assert made is None and wanted is None, (shape, made, wanted)
            return case.open
        put = [(v, case.int_val(value(v))) for v in case.monomials.values()]
        got = labels(made, shape, value, put)
        assert got.shape == wanted.shape and torch.equal(got, wanted), shape
        return case.open

    with contextlib.suppress(Unsupported):
        explore(run, 60)


# ---------------------------------------------------------------- numbers


def test_polynomials_divide() -> None:
    a, b = Poly.atom("a"), Poly.atom("b")
    assert (a * b + a).divide(a) == (b + Poly.number(1), Poly())
    assert (a + a + Poly.number(3)).divide(Poly.number(2)) == (a + Poly.number(1), Poly.number(1))
    assert (a * a - b * b).divide(a + b) == (a - b, Poly())
    assert str(a + a * b) and (a - a).constant == 0


@pytest.mark.parametrize("expression", [
    "n // 2 + (n + 1) // 2 == n", "n % 3 < 3", "-(-n // 4) * 4 >= n", "(n + 7) % 7 == n % 7", "max(n, m) >= m",
    "n % m <= n", "(n * m) % m == 0", "(-n) % 5 + n % 5 in (0, 5)", "divmod(n, m)[0] * m + n % m == n",
    "abs(n - m) == max(n, m) - min(n, m)", "(n + m) % m == n % m", "n // m <= n",
])  # fmt: skip
def test_integers_are_those_of_python(expression: str) -> None:
    def run(answers: tuple[bool, ...]) -> list[tuple[bool, ...]]:
        case = Case(answers)
        n, m = (Extent(case, case.atom(name)) for name in "nm")
        if m >= 1:
            assert eval(expression, {"n": n, "m": m})
        return case.open

    explore(run, 100)


def test_a_size_is_not_a_number() -> None:
    case = Case()
    n = Extent(case, case.atom("n"))
    for use in (lambda: range(n), lambda: n / 2, lambda: float(n), lambda: {n: 1}):
        with pytest.raises((Unsupported, TypeError)):
            use()


def test_factories_refuse_what_eager_refuses() -> None:
    made = factories(Case())
    with pytest.raises(Refused):
        made["arange"](3, 1)
    with pytest.raises(Refused):
        made["zeros"](-1)
