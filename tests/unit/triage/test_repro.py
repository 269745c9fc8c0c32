"""Reports.  The scripts are run against the real torch: on live bugs they exit 1."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from preloaded import Preloaded

from fxmorph.core.finding_parts import Repro
from fxmorph.model import BugClass, Finding, Kind
from fxmorph.triage.folder.regression import regression_text
from fxmorph.triage.folder.repro import repro_text

Run = Callable[[str], subprocess.CompletedProcess[str]]


def finding(program: str, kinds: tuple[Kind, ...], check: dict[str, Any] | None = None, **config: Any) -> Finding:
    return Finding(
        id="ab12cd34",
        case_id="0" * 16,
        seed="corpus/seeds/some.py",
        recipe="layout_flip_twice@mul>add",
        kinds=kinds,
        bug_class=BugClass.BAM,
        stage="inductor",
        unit="post_grad_passes: reinplace_inplaceable_ops",
        triangle="variant-miscompiled",
        fingerprint="f" * 16,
        reason="output 0 differs",
        program=program,
        ladder=(("eager", "clean"), ("aot_eager", "clean"), ("inductor", "finding")),
        evidence=("eager    [0.0, 1.0]", "compiled [0.0, 2.0]"),
        repro=Repro(config, check or {"exact": True}),
    )


SCATTER = """\
import torch

def make_inputs():
    return [torch.arange(8.0), torch.full((2,), -3.0)]

def fn(base, part):
    made = torch.slice_scatter(base, part, dim=0, start=2, end=4)
    base.copy_(made)
    return made
"""

#: Name (with the public issue) to a finding that is live in torch 2.13.0.
LIVE: dict[str, Finding] = {
    "alias-195451": finding(SCATTER, (Kind.ALIAS,)),
    "value-after-write-195451": finding(
        SCATTER
        + """
def drive(g, base, part):
    made = g(base, part).mul_(0.5)
    return made, base
""",
        (Kind.VALUE, Kind.MUTATION),
    ),
    "dtype-in-a-tuple-189518": finding(
        """\
import torch
def make_inputs():
    return [torch.zeros(2)]
def fn(x):
    c = torch.ones((3, 5), dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)
    parts = c.split(2)
    return (parts,)
""",
        (Kind.DTYPE,),
    ),
    "dtype-189518": finding(
        """\
import torch
def make_inputs():
    return [torch.zeros(2)]
def fn(x):
    return torch.ones((3, 5), dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)
""",
        (Kind.DTYPE,),
    ),
    "attention-195320": finding(
        """\
import torch
class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(3))
    def forward(self, x):
        q, k, v = (p(x).view(3, 4, 4, 8) for p in self.qkv)
        scores = q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1) * 0.35
        return scores.softmax(-1) @ v.permute(0, 2, 1, 3)
def make_fn():
    return Attention().eval()
def make_inputs():
    return [torch.randn(3, 4, 32)]
""",
        (Kind.VALUE,),
        {"rtol": 1e-3, "atol": 1e-4, "exact": False},
        no_grad=True,
    ),
    "stride-198364": finding(
        """\
import torch
def make_inputs():
    return [torch.rand(4, 3).mT, torch.rand(3, 4) - 0.5]
def fn(a, b):
    return torch.copysign(a, b)
""",
        (Kind.STRIDE,),
    ),
    "raises-195675": finding(
        """\
import torch
def make_inputs():
    return [torch.randn(3)]
def fn(x):
    return torch.clamp(x, min=-3.5e39, max=3.5e39)
""",
        (Kind.RAISES,),
    ),
    "foreach-198033": finding(
        """\
import torch
def make_inputs():
    return [torch.rand(6, 6)]
def fn(x):
    torch._foreach_add_([x], [x.flip(0)])
    return x
""",
        (Kind.VALUE, Kind.MUTATION),
        {"rtol": 1e-5, "atol": 1e-6},
        inductor={"freezing": False},
        compile={"dynamic": False},
    ),
}

CLAMP = """\
import torch
def make_inputs():
    return [torch.randn(5, requires_grad=True), [torch.tensor([1, 2**60])]]
def fn(x, ints):
    return {"a": (x * 2).sin(), "b": [ints[0] + 1, 3, None]}, x
"""

#: Findings of which nothing is there: everything noted must agree.
GONE: dict[str, Finding] = {
    "every-kind": finding(
        CLAMP,
        tuple(k for k in Kind if k not in (Kind.CRASH, Kind.TIMEOUT)),
        {"rtol": 1e-5, "atol": 1e-6},
        inductor={"cpp.simdlen": 256},
        dynamo={"cache_size_limit": 4},
        rng_seed=5,
        threads=1,
        grad_weights="integers",
    ),
    "module-with-state": finding(
        """\
import torch
fn = torch.nn.BatchNorm1d(3)
def make_inputs():
    return [torch.randn(4, 3)]
""",
        (Kind.VALUE, Kind.MUTATION, Kind.GRADIENT),
        {"rtol": 1e-4, "atol": 1e-5},
        calls=2,
        grad_weights="ones",
    ),
    "random": replace(
        finding(
            """\
import torch
def make_inputs():
    return [torch.ones(64)]
def fn(x):
    return torch.nn.functional.dropout(x, 0.5)
""",
            (Kind.RNG,),
        ),
        repro=Repro(random=True),
    ),
    "module-that-may-raise": finding(
        """\
import torch
def make_fn():
    return torch.nn.Linear(3, 2)
def make_inputs():
    return [torch.randn(4, 3, requires_grad=True)]
""",
        (Kind.RAISES, Kind.IDENTITY, Kind.DEVICE),
    ),
    "module-that-may-crash": finding(
        """\
import torch
fn = torch.nn.Linear(3, 2)
def make_inputs():
    return [torch.randn(4, 3, requires_grad=True)]
""",
        (Kind.CRASH,),
    ),
    "complex": finding(
        """\
import torch
def make_inputs():
    return [torch.randn(4, dtype=torch.complex64, requires_grad=True)]
def fn(z):
    return z * z.conj() * 1j, z.abs()
""",
        (Kind.VALUE, Kind.GRADIENT, Kind.NONFINITE),
        {"rtol": 1e-4, "atol": 1e-5},
    ),
}


#: Is otherwise when compiled, by whatever backend.
OTHER_NUMBER = """\
import torch
def make_inputs():
    return [torch.ones(4, 1, 3)]
def fn(x):
    return x * 2, 1 + 2 * torch.compiler.is_compiling()
"""


@pytest.fixture
def run_repro(preloaded: Preloaded, tmp_path: Path) -> Run:
    def run(text: str) -> subprocess.CompletedProcess[str]:
        file = tmp_path / "repro.py"
        file.write_text(text)
        return preloaded.script(file)

    return run


def test_a_fresh_interpreter_says_the_same(tmp_path: Path) -> None:
    file = tmp_path / "repro.py"
    file.write_text(repro_text(with_backend(finding(OTHER_NUMBER, (Kind.VALUE,)), "eager")))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and done.stdout.endswith("still there\n"), done.stdout + done.stderr


def test_a_number_that_is_returned_counts(run_repro: Run) -> None:
    done = run_repro(repro_text(with_backend(finding(OTHER_NUMBER, (Kind.VALUE,)), "eager")))
    assert done.returncode == 1 and "tensor(3)" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("wrong,said", [(True, "OK (expected failures=1)"), (False, "FAILED (unexpected successes=1)")])
def test_the_unit_test_is_expected_to_fail_until_the_bug_is_fixed(wrong: bool, said: str, run_repro: Run) -> None:
    program = OTHER_NUMBER if wrong else OTHER_NUMBER.replace(" + 2 * torch.compiler.is_compiling()", "")
    done = run_repro(regression_text(with_backend(finding(program, (Kind.VALUE,)), "eager")))
    assert done.stderr.rstrip().endswith(said), done.stdout + done.stderr
    assert done.returncode == (0 if wrong else 1)


DRAWN = """\
import torch
W = torch.randn(3)
def make_inputs():
    return [torch.zeros(3)]
def fn(x):
    return x if torch.compiler.is_compiling() else x + W
"""


def test_what_its_module_draws_is_the_same_in_each_process(run_repro: Run) -> None:
    text = repro_text(with_backend(finding(DRAWN, (Kind.VALUE,)), "eager"))
    first, second = run_repro(text), run_repro(text)
    assert first.returncode == 1 and first.stdout == second.stdout, first.stdout + second.stdout


TURNED = """\
import torch
def make_inputs():
    return [torch.ones(2, 2), torch.ones(2)]
def fn(x, y):
    if not torch.compiler.is_compiling():
        x.transpose_(0, 1)
    return x.clone(memory_format=torch.contiguous_format) + y
"""


@pytest.mark.parametrize("program", [TURNED, TURNED.replace("return x.clone", "return {}, x.clone")])
def test_strides_of_inputs_count_where_they_are_what_differs(program: str, run_repro: Run) -> None:
    check = {"exact": True, "inputs": True}
    done = run_repro(repro_text(with_backend(finding(program, (Kind.STRIDE,), check), "eager")))
    assert done.returncode == 1 and "input strides of dims > 1" in done.stdout, done.stdout + done.stderr
    assert run_repro(repro_text(with_backend(finding(program, (Kind.STRIDE,)), "eager"))).returncode == 0


COUNTS = """\
import torch
class Counts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seen, by):
        ctx.save_for_backward(seen)
        ctx.by = by
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        ctx.saved_tensors[0].add_(ctx.by)
        return grad * 2, None, None
def make_inputs():
    return [torch.ones(3, requires_grad=True), torch.zeros(3)]
def fn(x, seen):
    return Counts.apply(x, seen, 1 + torch.compiler.is_compiling())
"""


@pytest.mark.parametrize("backward", [True, False])
def test_what_the_backward_pass_writes_is_noted_after_it(backward: bool, run_repro: Run) -> None:
    check = {"rtol": 0.0, "atol": 0.0, "exact": True, "backward": backward}
    done = run_repro(repro_text(with_backend(finding(COUNTS, (Kind.MUTATION,), check), "eager")))
    assert done.returncode == backward, done.stdout + done.stderr


def with_backend(of: Finding, backend: str) -> Finding:
    return replace(of, repro=of.repro.with_config(backend=backend))


#: The same issue is there in a tuple; kinds that others have too.
_SLOW = ("dtype-189518", "attention-195320", "foreach-198033")


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in _SLOW else n for n in LIVE])
def test_exit_1_while_the_bug_is_there(name: str, run_repro: Run) -> None:
    done = run_repro(repro_text(LIVE[name]))
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.endswith("still there\n") and not done.stderr.count("Traceback")


@pytest.mark.parametrize("name", LIVE)
def test_exit_0_once_it_is_gone(name: str, run_repro: Run) -> None:
    done = run_repro(repro_text(with_backend(LIVE[name], "eager")))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("gone\n")


#: Of those that are compiled by Inductor, which are run by the default tests.
_ALWAYS = ("every-kind",)


@pytest.mark.parametrize("name", [n if n in _ALWAYS else pytest.param(n, marks=pytest.mark.slow) for n in GONE])
def test_no_difference_where_there_is_none(name: str, run_repro: Run) -> None:
    done = run_repro(repro_text(GONE[name]))
    assert done.returncode == 0, repro_text(GONE[name]) + done.stdout + done.stderr


NO_GRADIENT = """
def make_inputs():
    return [torch.ones(3, requires_grad=True)]
def fn(x):
    return (x.detach() * 2,)
"""


def test_a_program_without_a_gradient_has_none_to_differ(run_repro: Run) -> None:
    made = finding(NO_GRADIENT, (Kind.GRADIENT,))
    done = run_repro(repro_text(with_backend(made, "eager")))
    assert done.returncode == 0, done.stdout + done.stderr


BROKEN_BACKEND = """
import torch
def breaks(gm, inputs):
    {body}
torch._dynamo.register_backend(breaks)
"""

PLAIN = """
def make_inputs():
    return [torch.ones(3, requires_grad=True)]
def fn(x):
    return x * 2
"""


@pytest.mark.parametrize(
    "body,kinds,code",
    [
        ("raise ValueError('planted')", (Kind.COMPILE_ERROR,), 1),
        ("raise ValueError('planted')", (Kind.VALUE,), 2),  # not what the finding says
        ("import ctypes; ctypes.string_at(0)", (Kind.CRASH,), 1),
        pytest.param("import time; time.sleep(60)", (Kind.TIMEOUT,), 1, marks=pytest.mark.slow),
        pytest.param("raise ValueError('planted')", (Kind.CRASH,), 2, marks=pytest.mark.slow),
        ("return gm", (Kind.CRASH,), 0),
        pytest.param("return gm", (Kind.TIMEOUT,), 0, marks=pytest.mark.slow),
        ("return lambda *a: [t[0] * float('inf') for t in [a]]", (Kind.NONFINITE,), 1),
        ("return lambda *a: [a[0].detach() * 3]", (Kind.REQUIRES_GRAD,), 1),
        ("return lambda *a: [a[0] * 2.5]", (Kind.GRADIENT,), 1),
        ("return lambda *a: [(a[0] * 2)[:2]]", (Kind.SHAPE,), 1),
        ("return lambda *a: [(a[0].repeat(2) * 2)[3:]]", (Kind.OFFSET,), 0),  # in memory of its own
        ("return lambda *a: [a[0].as_strided((2,), (1,), 1)]", (Kind.OFFSET,), 1),
        ("return lambda *a: [a[0]]", (Kind.IDENTITY,), 1),
    ],
)
def test_planted_faults(body: str, kinds: tuple[Kind, ...], code: int, run_repro: Run) -> None:
    program = BROKEN_BACKEND.format(body=body) + PLAIN
    seconds = 15 if "sleep" in body else 120
    done = run_repro(repro_text(finding(program, kinds, backend="breaks", timeout=seconds)))
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.parametrize(("body", "code"), [("import ctypes; ctypes.string_at(0)", 1), ("return gm", 0)])
def test_a_program_that_crashes_where_eager_raises_is_still_shown(body: str, code: int, run_repro: Run) -> None:
    raises = PLAIN.replace("x * 2", "torch.embedding(x[:, None], torch.tensor([7]))")
    program = BROKEN_BACKEND.format(body=body) + raises
    done = run_repro(repro_text(finding(program, (Kind.CRASH,), backend="breaks")))
    assert done.returncode == code, done.stdout + done.stderr
    assert "eager raises IndexError" in done.stdout


TWO_RESULTS = """
import torch
class Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return a * 2, b * 2
    @staticmethod
    def backward(ctx, of_a, of_b):
        return of_b * 2, of_a * 2
def breaks(gm, inputs):
    return lambda *a: Exchanged.apply(a[0], a[1])
torch._dynamo.register_backend(breaks)

def make_inputs():
    return [torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)]
def fn(x, y):
    return x * 2, y * 2
"""


def test_gradients_of_two_results_that_are_taken_for_each_other_differ(run_repro: Run) -> None:
    done = run_repro(repro_text(finding(TWO_RESULTS, (Kind.GRADIENT,), {"rtol": 1e-3, "atol": 1e-4}, backend="breaks")))
    assert done.returncode == 1, done.stdout + done.stderr


COMPILING = "torch.compiler.is_compiling()"


@pytest.mark.parametrize(
    "held,body,kinds",
    [
        ("[torch.ones(3)]", "if not {0}: held.append(w.detach())", (Kind.MUTATION,)),
        ("{'a': torch.ones(3)}", "held['b' if {0} else 'c'] = w.detach()", (Kind.MUTATION,)),
        ("torch.ones(3)", "(w * held * (2 if {0} else 1)).sum().backward()", (Kind.GRADIENT,)),
        ("torch.ones(3)", "held.add_(w * 2 - w.detach() if {0} else w)", (Kind.GRADIENT,)),
        ("torch.ones(3)", "held.add_(w.detach() if {0} else w)", (Kind.REQUIRES_GRAD,)),
        ("torch.ones(3)", "held = held.clone(); held = held if {0} else torch.nn.Parameter(held)", (Kind.STRUCTURE,)),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_what_a_call_does_to_objects(held: str, body: str, kinds: tuple[Kind, ...], code: int, run_repro: Run) -> None:
    program = (
        f"import torch\ndef make_inputs():\n    return [{held}, torch.arange(3.0, requires_grad=True)]\n"
        f"def fn(held, w):\n    {body.format(COMPILING if code else 'False')}\n    return held, w + 1\n"
    )
    done = run_repro(repro_text(finding(program, kinds, backend="eager")))
    assert done.returncode == code, done.stdout + done.stderr


WITHIN_OBJECTS = """\
import torch
class Layer:
    def __init__(self):
        self.keys, self.seen, self.gen = torch.zeros(3), 0, object()
class Cache:
    def __init__(self):
        self.layers = [Layer()]
        self.me = self
def make_inputs():
    return [torch.arange(3.0, requires_grad=True), Cache()]
def fn(x, cache):
    made = Cache()
    wrong = {wrong}
    {body}
    return x + 1, made
"""


@pytest.mark.parametrize(
    "body,kinds",
    [
        ("made.layers[0].keys = x * (3 if wrong else 2)", (Kind.VALUE,)),
        ("made.layers[0].seen = float('nan') if wrong else 4.0", (Kind.VALUE,)),
        ("cache.layers[0].keys = x.detach() * (3 if wrong else 2)", (Kind.MUTATION,)),
        ("cache.layers[0].seen += 2 if wrong else 1", (Kind.MUTATION,)),
        ("made.layers += [Layer()] if wrong else []", (Kind.STRUCTURE,)),
        ("made.layers[0].keys = (x.double() if wrong else x) * 2", (Kind.DTYPE, Kind.VALUE)),
        ("made.layers[0].keys = x.clone() if wrong else x", (Kind.IDENTITY,)),
        ("cache.layers[0].keys = x.clone() if wrong else x", (Kind.ALIAS,)),
        ("made.layers[0].keys = x * (3 if wrong else 2)", (Kind.GRADIENT,)),
        ("made.layers[0].keys = x[1 if wrong else 0:][:2]", (Kind.OFFSET,)),
    ],
)
@pytest.mark.parametrize("code", [0, 1])
def test_what_is_within_objects(body: str, kinds: tuple[Kind, ...], code: int, run_repro: Run) -> None:
    program = WITHIN_OBJECTS.format(wrong=COMPILING if code else "False", body=body)
    done = run_repro(repro_text(finding(program, kinds, backend="eager", objects=True)))
    assert done.returncode == code, done.stdout + done.stderr


def test_a_program_without_objects_has_no_code_about_them() -> None:
    assert "looking" not in repro_text(finding(PLAIN, tuple(k for k in Kind)))
    assert "def looking" in repro_text(finding(PLAIN, (Kind.VALUE,), objects=True))


@pytest.mark.parametrize("program", ["import no_such_module", "raise KeyError", "make_inputs = None"])
def test_exit_2_when_it_cannot_run(program: str, run_repro: Run) -> None:
    done = run_repro(repro_text(finding(PLAIN + program, (Kind.VALUE,))))
    assert done.returncode == 2 and "Traceback" in done.stderr


def test_exit_2_where_nothing_can_be_compiled(run_repro: Run) -> None:
    nowhere = {"cpp.cxx": (None, "/no/compiler"), "force_disable_caches": True}
    done = run_repro(repro_text(finding(PLAIN, (Kind.COMPILE_ERROR,), inductor=nowhere)))
    assert done.returncode == 2 and "No working C++ compiler" in done.stderr, done.stdout + done.stderr


def test_programs_that_are_none() -> None:
    with pytest.raises(ValueError, match="not Python"):
        repro_text(finding("def fn(:", (Kind.VALUE,)))
    with pytest.raises(ValueError, match="does not define make_inputs"):
        repro_text(finding("def fn(x): return x", (Kind.VALUE,)))


def test_only_the_needed_checks_are_written() -> None:
    text = repro_text(LIVE["stride-198364"])
    assert "stride" in text
    assert not any(word in text for word in ("allclose", "memory(", "gradients", "deepcopy", "raises", "def same"))
    assert len(text.splitlines()) <= 35


def test_a_seed_found_on_a_gpu_runs_there() -> None:
    text = repro_text(finding(SCATTER, (Kind.CRASH,), device="cuda"))
    assert "inputs = tree_map(moved, make_inputs())" in text
    assert "torch.cuda.synchronize()" in text
    compile(text, "repro.py", "exec")
    reduced = SCATTER.replace("torch.arange(8.0)", "torch.arange(8.0).to('cuda')")
    assert "moved" not in repro_text(finding(reduced, (Kind.ALIAS,), device="cuda"))


def test_the_generator_of_a_gpu_is_looked_at_too() -> None:
    program = GONE["random"].program
    made = {device: repro_text(finding(program, (Kind.RNG,), device=device)) for device in ("cpu", "cuda")}
    assert "torch.cuda.get_rng_state()" in made["cuda"] and "cuda" not in made["cpu"]
    compile(made["cuda"], "repro.py", "exec")


def test_runs_under_several_seeds_are_compared_where_the_compiler_draws_its_own_numbers(
    run_repro: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    made = finding(GONE["random"].program, (Kind.VALUE, Kind.RNG), own_numbers=True, backend="aot_eager")
    text = repro_text(replace(made, repro=replace(made.repro, check={"exact": True})))
    assert "eager = runs(f, range(first, first + EAGER))" in text and max(map(len, text.splitlines())) <= 120
    done = run_repro(text)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_script_fits_its_line_length() -> None:
    for made in (*LIVE.values(), *GONE.values()):
        assert max(map(len, repro_text(made).splitlines())) <= 120
