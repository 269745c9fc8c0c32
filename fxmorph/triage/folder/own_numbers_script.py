"""What a ``repro.py`` does that compares under the compiler's own random numbers (``fxmorph/judge/own_numbers.py``)."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from pathlib import Path

from fxmorph.model import RNG_SEED, Kind
from fxmorph.triage.folder.script_parts import bare, indent

#: What a script takes from ``fxmorph/judge/exchangeable.py``.
_TAKEN = "odd, EAGER, COMPILED, SLOPES, STEP, SMOOTH, WRONG, TIMES"
#: Kinds whose comparison hangs on the numbers.
HANGING = frozenset({Kind.VALUE, Kind.NONFINITE, Kind.MUTATION, Kind.GRADIENT, Kind.RNG})


@cache
def samples() -> list[str]:
    """What asks whether results are distributed alike, in a function: the program may use its names."""
    return [
        "def sampled():  # whether results under several seeds are distributed as others are",
        *indent(bare(Path(__file__).parents[2] / "judge" / "exchangeable.py")),
        f"    return {_TAKEN}",
        f"{_TAKEN} = sampled()",
    ]


def runs(function: str, compiled: str, stateful: bool) -> list[str]:
    """``eager`` and ``compiled``: what ``run`` notes of each under several seeds."""
    keep = ["    state = copy.deepcopy(f.state_dict()) if isinstance(f, torch.nn.Module) else {}", "    noted = []"]
    again = ["        f.load_state_dict(state) if state else None", "        noted.append(run(f, seed))"]
    once = ["    return [run(f, seed) for seed in seeds]"]
    return [
        "def runs(f, seeds):",
        *([*keep, "    for seed in seeds:", *again, "    return noted"] if stateful else once),
        "",
        f"first, f = {RNG_SEED}, {function}",
        "eager = runs(f, range(first, first + EAGER))",
        f"g = {compiled.replace(function, 'f', 1)}",
        "compiled = runs(g, range(first, first + COMPILED))",
    ]


def compared(kinds: Collection[str]) -> list[str]:
    """What is different, in words: of what does not hang on random numbers, of what does, and of drawing them."""
    lines = [
        "different = []",
        "for what in eager[0]:",
        "    for k in range(len(eager[0][what])):",
        "        mine, theirs = ([one[what][k] for one in side] for side in (eager, compiled))",
        "        if all(same(t, mine[0]) for t in mine):",
        "            odd_one = '' if any(same(t, mine[0]) for t in theirs) else f'{theirs[0]} for {mine[0]}'",
        "        else:",
        "            odd_one = odd(mine, theirs) if torch.is_tensor(mine[0]) else ''",
        "        different += [f'{what} {k}: {odd_one}'] if odd_one else []",
    ]
    if Kind.RNG in kinds:
        lines += [
            "def generators():",
            "    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []",
            "    return [torch.get_rng_state(), *of_gpus]",
            "left = generators()",
            "torch.manual_seed(first + COMPILED - 1)",
            "if all(map(torch.equal, left, generators())):",
            "    different.append('the random generator is left as it was before the call')",
            "one, other = runs(g, [first, first])",
            "if not all(map(same, [*one.values()], [*other.values()])):",
            "    different.append('one seed gives other results when it runs again')",
        ]
    if Kind.GRADIENT in kinds:
        lines += [
            "mine, theirs = ([slope_off(h, first + k) for k in range(SLOPES)] for h in (f, g))",
            "if max(mine) <= SMOOTH and min(theirs) > WRONG + TIMES * max(mine):",
            "    said = f'gradients are off by {min(theirs):.0%} from the slopes of their program under one seed'",
            "    different.append(f'{said}; in eager by {max(mine):.1%}')",
        ]
    return [
        *lines,
        "print(*different, 'still there' if different else 'gone', sep='\\n')",
        "sys.exit(1 if different else 0)",
    ]


def slope_off(call: str) -> list[str]:
    """How far gradients are from the slope of a loss along their signs, under one seed, relative to it."""
    return [
        "def slope_off(f, seed):  # of a loss along the signs of its gradients, from what they say",
        "    module = f if isinstance(f, torch.nn.Module) else torch.nn.Module()",
        "    def loss(moved):",
        "        torch.manual_seed(0)",
        "        inputs = make_inputs()",
        "        leaves = [t for t in (*torch.utils._pytree.tree_leaves(inputs), *module.parameters())",
        "                  if torch.is_tensor(t) and t.requires_grad and t.is_leaf]",
        "        with torch.no_grad():",
        "            for t, by in zip(leaves, moved):",
        "                t.add_(by)",
        "        torch.manual_seed(seed)",
        f"        outs = [t for t in torch.utils._pytree.tree_leaves({call}) if torch.is_tensor(t)]",
        "        outs = [t for t in outs if t.requires_grad]",
        "        weights = [(torch.arange(t.numel()).to(t) + i).reshape(t.shape) % 5 + 1 for i, t in enumerate(outs)]",
        "        total = sum((t * w).sum() for t, w in zip(outs, weights))",
        "        slopes = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)",
        "        with torch.no_grad():",
        "            for t, by in zip(leaves, moved):",
        "                t.sub_(by)",
        "        return total.detach().double(), leaves, slopes",
        "    _, leaves, slopes = loss([])",
        "    by = [STEP * t.detach().abs().max() * g.sign() for t, g in zip(leaves, slopes)]",
        "    told = sum((2 * b * g).double().sum() for b, g in zip(by, slopes))",
        "    return float(abs((loss(by)[0] - loss([-b for b in by])[0]) / told - 1))",
    ]
