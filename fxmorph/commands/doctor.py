"""``fxmorph doctor``: what this machine and this torch offer, and whether a planted fault is seen.

The self-tests go through the same worker processes and judges as a campaign does.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fxmorph.campaign.worker_server import PRELOADED
from fxmorph.core.config import Settings
from fxmorph.core.exits import Exit
from fxmorph.core.pool import Ended, Pool, answer_jobs
from fxmorph.core.python_headers import missing_headers
from fxmorph.core.said import cut
from fxmorph.core.versions import SUPPORTED, UNKNOWN, version_of
from fxmorph.model import Case, CaseResult, CompileConfig, Kernels, Kind, Rung, Status, ValuePlan
from fxmorph.rules import Registry, load_rules

#: CPU seconds for one self-test, a first compile included.
SECONDS = 180.0
#: A run needs about this much for its compile cache.
DISK_GIB = 3.0

PROGRAM = '''\
"""A small program that every release compiles right."""

import torch


def make_inputs():
    return [torch.randn(5, 8), torch.randn(8, 8)]


def fn(x, w):
    y = torch.nn.functional.silu(torch.sin(x).abs() @ w)
    return torch.softmax(y, dim=-1), y.sum(0), y * y.sum(1, keepdim=True).flip(0)
'''


@dataclass(frozen=True)
class SelfTest:
    """A fault to plant (``""`` for none) and what the judgement must then say; whether kernels are interpreted."""

    name: str
    plant: str
    status: Status
    kinds: tuple[Kind, ...] = ()
    stage: str = ""
    interpreted: bool = False

    def passed(self, result: CaseResult) -> bool:
        return result.status is self.status and result.kinds == self.kinds and result.stage == self.stage


SELF_TESTS = (
    SelfTest("a right program is clean", "", Status.CLEAN),
    SelfTest("a fault in a lowering (sin as cos)", "lowering", Status.FINDING, (Kind.VALUE,), "inductor"),
    SelfTest("a fault in a pass (sin made cos)", "pass", Status.FINDING, (Kind.VALUE,), "inductor"),
    SelfTest(
        "a fault in a decomposition (silu * 1.5)", "decomposition", Status.FINDING, (Kind.VALUE,), "decomposition"
    ),
    SelfTest("a fault on several threads alone", "threads", Status.FINDING, (Kind.VALUE,), "inductor"),
    SelfTest("an unsound rule (abs(x) to x)", "rule", Status.UNSOUND_REWRITE),
    SelfTest("a right program is clean, its kernels interpreted", "", Status.CLEAN, interpreted=True),
    SelfTest(
        "a fusion that reads what others write, for GPUs alone",
        "fusion",
        Status.IR_ONLY,
        (Kind.ORDER,),
        "inductor",
        True,
    ),
)


def run_doctor(settings: Settings, print_line: Callable[[str], None]) -> int:
    """Print what there is, then run the self-tests.

    Returns 0 when all is well, 1 when a self-test fails, 2 when this machine cannot run the
    main job (no compiler for a device that was asked for, or a state folder that cannot be written).
    """
    import torch

    from fxmorph.torchapi.compiling import backends, cpp_compiler, no_interpreter

    def row(what: str, text: str) -> None:
        print_line(f"{what:<14}{text}")

    troubles: list[str] = []
    row("python", f"{platform.python_version()} on {platform.platform(terse=True)}")
    row("torch", f"{torch.__version__}: {_release(torch.__version__)}")
    row("cpus", str(os.cpu_count() or 1) + f", {settings.effective_jobs} workers by default")
    compiler = cpp_compiler()
    row("c++", _compiler_version(compiler) if compiler else "none; install g++ (apt install g++) or set CXX")
    lacks = missing_headers()
    row("headers", lacks or "of Python, which kernels include")
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    names = ", ".join(torch.cuda.get_device_name(i) for i in range(devices))
    row("cuda", f"{devices}: {names}" if devices else "no device that this torch can use")
    triton = importlib.util.find_spec("triton") is not None
    version = version_of("triton")
    row("triton", "none" if not triton else "found" if version == UNKNOWN else version)
    offered = {"cpu": compiler is not None and not lacks, "cuda": devices > 0 and triton}
    # The first compiles what it found, on the CPU.
    rungs = {**offered, "pass (run --pass)": offered["cpu"], "ir (--rung ir)": not no_interpreter()}
    row("rungs", "; ".join(f"{name}: {'runs here' if ok else 'does not run here'}" for name, ok in rungs.items()))
    if no_interpreter():
        row("", f"ir is absent: {no_interpreter()}")
    if lacks:
        troubles.append(lacks)
    for device in settings.devices:
        if not offered.get(device, False) and not lacks:
            troubles.append(f"device {device} was asked for and has no working compiler here")
    row("backends", ", ".join(backends()))
    row("rules", str(len(load_rules([Path(p) for p in settings.transforms]))))
    row("oracles", _oracles())
    row("seeds", _seeds())
    writable, free = _disk(settings.state_dir)
    row("state", f"{settings.state}: {'writable' if writable else 'NOT writable'}, {free:.1f} GiB free")
    if not writable:
        troubles.append(f"the state folder {settings.state} cannot be written; choose --state")
    if free < DISK_GIB:
        row("", f"less than the {DISK_GIB:.0f} GiB that a long run may need")
    if troubles:
        for trouble in troubles:
            print_line(f"cannot run: {trouble}")
        return Exit.USAGE
    failed = 0
    for device in settings.devices:
        for test, good, said in run_self_tests(device, preload=settings.devices == ("cpu",)):
            failed += not good
            row("self-test", f"{'ok' if good else 'FAILED'}: {test.name} on {device}: {said}")
    bad = f"{failed} self-tests failed: verdicts of this installation mean nothing"
    print_line(bad if failed else "all is well")
    return Exit.FINDINGS if failed else Exit.OK


def _release(version: str) -> str:
    parts = tuple(int(p) for p in version.split("+")[0].split(".")[:2] if p.isdigit())
    first, last = (".".join(map(str, v)) for v in SUPPORTED)
    inside = SUPPORTED[0] <= parts <= SUPPORTED[1]
    return f"{'within' if inside else 'OUTSIDE'} {first} to {last}, for which fxmorph is written"


def _compiler_version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path}: does not answer ({type(error).__name__})"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return f"{path}: {lines[0] if lines else 'no version'}"


def _oracles() -> str:
    from fxmorph.oracle import load_oracles

    found = load_oracles()
    return f"{len(found)}: {', '.join(o.name for o in found)}"


def _seeds() -> str:
    import fxmorph.corpus as corpus
    from fxmorph.core.seeds import find_seeds

    seeds = regressions = refused = 0
    for folder in map(Path, corpus.__path__):
        found, refusals = find_seeds([str(folder)])
        every, _ = find_seeds([str(folder)], regressions=True)
        seeds, regressions, refused = seeds + len(found), regressions + len(every) - len(found), refused + len(refusals)
    return f"{seeds} shipped, {regressions} regressions" + (f", {refused} REFUSED" if refused else "")


def _disk(folder: Path) -> tuple[bool, float]:
    """(writable, free GiB) of a folder or of its nearest parent that exists."""
    where = folder.resolve()
    while not where.exists():
        where = where.parent
    return os.access(where, os.W_OK | os.X_OK) and where.is_dir(), shutil.disk_usage(where).free / 2**30


# -- self-tests ------------------------------------------------------------------


def run_self_tests(device: str, preload: bool = True) -> Iterator[tuple[SelfTest, bool, str]]:
    """(test, whether it passed, what was seen), each judged in a worker process.

    ``preload``: fork from a process that has the compiler imported, which CUDA does not survive.
    """
    with tempfile.TemporaryDirectory(prefix="fxmorph-doctor-") as temp:
        seed = Path(temp, "doctor.py")
        seed.write_text(PROGRAM, encoding="utf-8")
        cache = str(Path(temp, "cache"))
        before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "TORCHINDUCTOR_COMPILE_THREADS")}
        os.environ.update(dict.fromkeys(before, "1"))
        try:
            with Pool(1, serve, (device, cache), [PRELOADED] if preload else []) as pool:
                tests = _tests_of(device)
                jobs = [(test.plant, str(seed), test.interpreted) for test in tests]
                for test, ended in zip(tests, pool.run(jobs, SECONDS), strict=True):
                    yield test, *_outcome(test, ended)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _tests_of(device: str) -> list[SelfTest]:
    """Those of what a device has: kernels are interpreted on the CPU, by releases that can."""
    from fxmorph.torchapi.compiling import no_interpreter

    return [test for test in SELF_TESTS if not test.interpreted or (device == "cpu" and not no_interpreter())]


def _outcome(test: SelfTest, ended: Ended) -> tuple[bool, str]:
    """Whether the test passed, and what was seen."""
    if isinstance(ended.value, CaseResult):
        return test.passed(ended.value), _said(ended.value)
    return False, f"{ended.trouble}: {ended.detail or 'no detail'}"


def _said(result: CaseResult) -> str:
    kinds = f" ({', '.join(result.kinds)})" if result.kinds else ""
    stage = f" at stage {result.stage}" if result.stage else ""
    reason = f": {cut(result.reason)}" if result.status not in (Status.CLEAN, Status.FINDING) else ""
    return f"{result.status}{kinds}{stage}{reason}"


def serve(connection: Connection, device: str, cache: str) -> None:
    """Worker process: judge the program of each job (plant, path) until the connection closes."""
    import torch

    from fxmorph.torchapi.compiling import quiet

    quiet()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
    torch.set_num_threads(1)

    def answer(job: tuple[str, str, bool]) -> CaseResult:
        plant, path, interpreted = job
        return judge_planted(plant, path, device, interpreted)

    answer_jobs(connection, answer, lambda _: traceback.format_exc().strip().splitlines()[-1])


def judge_planted(plant: str, path: str, device: str = "cpu", interpreted: bool = False) -> CaseResult:
    """Judge the seed at ``path`` in this process with a fault planted; ``rule`` plants an unsound rule."""
    from fxmorph.core.clock import Clock
    from fxmorph.core.seeds import find_seeds
    from fxmorph.judge.case import judge_case

    (seed,), _ = find_seeds([path])
    rules = unsound_rules() if plant == "rule" else Registry()
    rung = Rung.IR if interpreted else Rung.CUDA if device == "cuda" else Rung.CPU
    number = 1 if plant == "rule" else 0
    plans = [ValuePlan.SEED, *([ValuePlan.THREADS] if plant == "threads" else [])]
    plans += [ValuePlan.GPU] if interpreted else []
    config = CompileConfig.make(kernels=Kernels.CPP if interpreted else Kernels.GENERATED)
    case = Case(seed, number, 0, tuple(plans), config, rung=rung, device=device)
    with _planted(plant):
        return judge_case(case, rules, Clock())


def _planted(plant: str) -> contextlib.AbstractContextManager[Any]:
    import torch

    from fxmorph.torchapi.planting import planted_decomposition, planted_lowering, planted_pass

    def sin_to_cos(graph: Any) -> None:
        for node in graph.nodes:
            if node.target is torch.ops.aten.sin.default:
                node.target = torch.ops.aten.cos.default

    def wrong_silu(x: Any) -> Any:
        return x * torch.sigmoid(x) * 1.5

    if plant == "lowering":
        return planted_lowering("sin", "cos")
    if plant == "pass":
        return planted_pass(sin_to_cos)
    if plant == "threads":
        return planted_pass(lambda graph: sin_to_cos(graph) if torch.get_num_threads() > 1 else None)
    if plant == "decomposition":
        return planted_decomposition("silu", wrong_silu)
    if plant == "fusion":
        from fxmorph.torchapi.planting_backend import planted_fusion_for_gpus

        return planted_fusion_for_gpus()
    return contextlib.nullcontext()


def unsound_rules() -> Registry:
    """A registry that holds one rule, which is wrong for negative numbers."""
    from fxmorph.model import Level
    from fxmorph.rules import rule

    @rule(args={"x": "..."}, claim=Level.BIT_EXACT, preserves=("dtype",))
    class planted_abs_dropped:
        """Drops abs: wrong on purpose."""

        def before(x):
            return x.abs()  # type: ignore[no-untyped-def]

        def after(x):
            return x * 1  # type: ignore[no-untyped-def]

    registry = Registry()
    registry.add(planted_abs_dropped)  # type: ignore[arg-type]
    return registry
