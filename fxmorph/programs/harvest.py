"""Seeds from a running program: each graph that it gives to ``torch.compile``, as a seed file.

Two ways in: ``fxmorph capture -- python script.py`` watches any program, which goes on with the
backends that it asked for; ``torch.compile(model, backend="fxmorph_capture")`` records and runs
eagerly.  A seed keeps what its inputs look like (:func:`inputs_source`), not their data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fxmorph.core.exits import Exit
from fxmorph.core.said import said

#: Environment: folder of seeds, file of event lines, size of windows, name of the program.
OUT, LOG, WINDOW, PROGRAM = (f"FXMORPH_CAPTURE_{name}" for name in ("DIR", "LOG", "WINDOW", "PROGRAM"))
DEFAULT_OUT = "captured"
DEFAULT_WINDOW = 40

#: What every Python process of the program runs first.  The program's own sitecustomize, which
#: this one hides, is run after it.
SITECUSTOMIZE = """\
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p or '.') != here]
try:
    sys.path.append({root!r})
    try:
        from fxmorph.programs.harvest import start_watching
    finally:
        sys.path.remove({root!r})
    start_watching()
except Exception as error:
    with open(os.environ['FXMORPH_CAPTURE_LOG'], 'a') as log:
        log.write(json.dumps({{'event': 'failed', 'reason': f'{{type(error).__name__}}: {{error}}'}}) + '\\n')
del sys.modules['sitecustomize']
try:
    import sitecustomize
except ImportError:
    sys.modules['sitecustomize'] = sys
"""


# -- in the process that starts the program ------------------------------------


def capture_program(argv: list[str], out: Path, window: int) -> int:
    """Run a program and record the graphs that it compiles as seeds in ``out``.

    Graphs of more than ``window`` calls are also cut into windows.  What the program prints is
    its own; lines about seeds go to stderr when it has ended.  Returns 0 when it succeeded and
    left at least one seed, its own exit code when it failed (seeds written before are kept), 5
    when there was nothing to capture, 2 when it cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="fxmorph-capture-") as temp:
        folder, log = Path(temp), Path(temp, "log")
        root = str(Path(__file__).resolve().parents[2])
        (folder / "sitecustomize.py").write_text(SITECUSTOMIZE.format(root=root), encoding="utf-8")
        env = dict(os.environ)
        env["PYTHONPATH"] = os.pathsep.join([temp, *filter(None, [env.get("PYTHONPATH")])])
        env.update({OUT: str(out.resolve()), LOG: str(log), WINDOW: str(window), PROGRAM: _program_name(argv)})
        try:
            code = _run(argv, env)
        except OSError as error:
            _say(f"fxmorph capture: {argv[0]}: {error.strerror or error}")
            return Exit.USAGE
        return _summarise(_events(log), out, code)


def _run(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Exit code of the program, 128 + n when signal n ended it."""
    with subprocess.Popen(list(argv), env=dict(env)) as child:
        while True:
            try:
                code = child.wait()
                return code if code >= 0 else 128 - code
            except KeyboardInterrupt:
                continue  # the program has had it too, and decides


def _program_name(argv: Sequence[str]) -> str:
    words = list(argv)
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    scripts = [w for w in words if w.endswith(".py")]
    return Path(scripts[0] if scripts else words[0]).name


def _events(log: Path) -> list[dict[str, str]]:
    if not log.exists():
        return []
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.strip()]


def _summarise(events: Sequence[Mapping[str, str]], out: Path, code: int) -> int:
    by: dict[str, list[Mapping[str, str]]] = {}
    for event in events:
        by.setdefault(event["event"], []).append(event)
    for event in by.get("seed", ()):
        _say(f"seed {out / event['file']}: {event['about']}")
    refused = list(dict.fromkeys(e["reason"] for e in by.get("refused", ())))
    for reason in refused:
        _say(f"no seed: {reason}")
    for reason in dict.fromkeys(e["reason"] for e in by.get("failed", ())):
        _say(f"fxmorph capture: the recorder does not work in the program's Python: {reason}")
    seeds, again = len(by.get("seed", ())), len(by.get("again", ()))
    _say(f"{seeds} seeds in {out}, {again} graphs seen before, {len(refused)} kinds of graph without a seed")
    if code:
        _say(f"the program ended with exit code {code}")
        return code
    if seeds or again:
        return Exit.OK
    if "watching" not in by and "failed" not in by:
        _say("no Python was seen that reads PYTHONPATH (python -I, -E and -S do not)")
    elif not refused and "failed" not in by:
        _say("the program compiled nothing with torch.compile")
    return Exit.NOTHING_RAN


def _say(line: str) -> None:
    print(line, file=sys.stderr)


# -- in the program --------------------------------------------------------------

_watching = False


def start_watching() -> None:
    """Record every graph that this process compiles from now on.  Does not import torch."""
    global _watching
    from fxmorph.torchapi.hooking import watch_graphs

    _watching = True
    _tell("watching")
    watch_graphs(record)


def capture_backend(gm: Any, example_inputs: Sequence[Any], **_: Any) -> Callable[..., Any]:
    """The ``torch.compile`` backend ``fxmorph_capture``: records the graph, runs it eagerly.

    Seeds go to the folder that FXMORPH_CAPTURE_DIR names, else to ``captured``.
    """
    if not _watching:
        record(gm, example_inputs)
    return gm.forward


def register() -> None:
    """Make ``backend="fxmorph_capture"`` known where the entry point does not."""
    from fxmorph.torchapi.compiling import register_backend

    register_backend("fxmorph_capture", capture_backend)


def record(gm: Any, example_inputs: Sequence[Any]) -> None:
    """Write the graph as a seed; what stands in the way is told, never raised."""
    from fxmorph.programs.graph import Unprintable
    from fxmorph.programs.inputs import Unsupported

    try:
        with _undisturbed():
            _record(gm, example_inputs)
    except (Unprintable, Unsupported) as error:
        _tell("refused", reason=" ".join(str(error).split()))
    except Exception as error:
        _tell("refused", reason=said(error))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """The program's random numbers go on as if nothing had run in between."""
    import torch

    with torch.random.fork_rng(enabled=True, devices=[]):
        yield


def _tell(event: str, **more: str) -> None:
    """One event line for the process that started the program; seeds go to stderr without one."""
    log = os.environ.get(LOG)
    if log:
        with open(log, "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, **more}) + "\n")
    elif event == "seed":
        _say(f"fxmorph: seed {more['file']}: {more['about']}")
    elif event == "refused":
        _say(f"fxmorph: no seed: {more['reason']}")


#: The head of a seed file.
HEADER = '''\
"""A graph of {count} calls that {program} compiled{part}.

Recorded by fxmorph; inputs are drawn to be like the program's, they are not its data."""

import builtins
import math
import operator

import torch

ORIGIN = {origin!r}
'''


@dataclass(frozen=True)
class _Setting:
    """The modes that the graph was compiled under."""

    no_grad: bool
    autocast: tuple[tuple[str, str], ...]
    device: str


def _setting(values: Sequence[Any]) -> _Setting:
    import torch

    from fxmorph.programs.inputs import dtype_name

    devices = sorted({v.device.type for v in values if isinstance(v, torch.Tensor)} - {"cpu"})
    casts = []
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            casts.append((device, dtype_name(torch.get_autocast_dtype(device))))
    return _Setting(not torch.is_grad_enabled(), tuple(casts), devices[0] if devices else "cpu")


def _record(gm: Any, example_inputs: Sequence[Any]) -> None:
    from fxmorph.programs.capture import lift_constants
    from fxmorph.programs.graph import calls
    from fxmorph.programs.inputs import Unsupported

    graph, constants = lift_constants(gm)
    values = [_plain(v) for v in example_inputs] + constants
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(values):
        raise Unsupported(f"{len(placeholders)} placeholders for {len(values)} inputs")
    if not calls(graph):
        return
    setting = _setting(values)
    name = _write(graph, values, setting, "")
    size = int(os.environ.get(WINDOW, DEFAULT_WINDOW))
    if name and len(calls(graph)) > size:
        _write_windows(graph, values, setting, size, name)


def _plain(value: Any) -> Any:
    """A symbolic number as the number that it has in this run."""
    from fxmorph.programs.inputs import Unsupported
    from fxmorph.torchapi.hooking import hint

    if hasattr(value, "node") and not hasattr(value, "dtype"):
        number = hint(value)
        if number is None:
            raise Unsupported("a symbolic number without a value")
        return number
    return value


def _write_windows(graph: Any, values: Sequence[Any], setting: _Setting, size: int, name: str) -> None:
    """Cut the graph; each window gets inputs like those that the whole graph feeds it.

    Inputs of a window share no memory with each other.
    """
    import torch

    from fxmorph.programs.graph import calls, windows
    from fxmorph.programs.inputs import InputSet
    from fxmorph.programs.profile import GraphTooLarge, profile

    try:
        with torch.set_grad_enabled(not setting.no_grad):
            seen = profile(graph, InputSet.snapshot(values))
    except GraphTooLarge as error:
        _tell("refused", reason=f"windows of {name}: {error}")
        return
    by_name = {n.name: n for n in seen.order}
    for number, (window, feeds) in enumerate(windows(graph, size)):
        output = next(n for n in window.nodes if n.op == "output")
        fed = [seen.values.get(by_name[feed]) for feed in feeds]
        if any(v is None for v in fed):
            _tell("refused", reason=f"window {number} of {name}: needs values that are no tensors or numbers")
            continue
        if not output.args[0]:
            continue
        if not setting.no_grad and not any(map(_writes, calls(window))):
            for feed, value in zip(feeds, fed, strict=True):
                spec = seen.specs.get(by_name[feed])
                if isinstance(value, torch.Tensor) and spec is not None and spec.requires_grad:
                    value.requires_grad_(True)
        _write(window, fed, setting, f"_w{number}")


def _writes(node: Any) -> bool:
    """Whether a call is spelled as a write (``add_``, ``setitem``, ``out=``, ``+=``)."""
    from fxmorph.programs.canon import canonical

    name = canonical(node).name
    return (name.endswith("_") and not name.endswith("__")) or name == "setitem" or "out" in node.kwargs


def _write(graph: Any, values: Sequence[Any], setting: _Setting, suffix: str) -> str:
    """Write one seed unless an equal one is there; its file name, or "" for an equal one."""
    import torch

    from fxmorph.programs.graph import calls, graph_hash, print_graph
    from fxmorph.programs.source import drive_text

    program = os.environ.get(PROGRAM) or Path(sys.argv[0] or "program").name
    body = print_graph(graph)
    made = inputs_source(values, any(map(_writes, calls(graph))), setting.device)
    key = hashlib.sha256(f"{graph_hash(graph)}\n{made}\n{setting}".encode()).hexdigest()[:10]
    stem = "".join(c if c.isalnum() else "_" for c in program.removesuffix(".py")) or "program"
    name = f"{stem}_{key}{suffix}.py"
    count = len(calls(graph))
    part = f", window {suffix[2:]}" if suffix else ""
    origin = f"captured from {program} (torch {torch.__version__}){part}"
    meta: dict[str, Any] = {"no_grad": True} if setting.no_grad else {}
    if setting.device != "cpu":
        meta["device"] = setting.device
    text = HEADER.format(count=count, program=program, part=part, origin=origin)
    text += f"META = {meta!r}\n" if meta else ""
    text += f"\n\n{made}\n\n{body}"
    if setting.autocast:
        casts = ", ".join(f"torch.autocast({d!r}, dtype=torch.{t})" for d, t in setting.autocast)
        text += f"\n\n{drive_text(casts)}"
    folder = Path(os.environ.get(OUT, DEFAULT_OUT))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(folder / name, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        _tell("again", file=name)
        return ""
    _tell("seed", file=name, about=f"{count} calls, {len(values)} inputs{part}")
    return name


# -- inputs like the program's -----------------------------------------------------


def inputs_source(values: Sequence[Any], writes: bool, device: str = "cpu") -> str:
    """``def make_inputs()`` that draws inputs with the specs of ``values``.

    Kept: shapes, strides, offsets, dtypes, shared memory, requires_grad; ranges of integers and
    whether they are sorted or a permutation; whether floats are positive, non-negative, 0-1
    masks or attention masks; the share of True in bool masks and causal form.  Other values are
    normal.  ``writes``: the graph writes in place, so inputs that are not leaves must not become
    leaves.  Raises ``Unsupported``.
    """
    import torch

    from fxmorph.programs.graph import literal
    from fxmorph.programs.source import Spelling, make_inputs_text

    for value in values:
        if isinstance(value, torch.Tensor):
            _check(value)
        else:
            literal(value)
    place = f", device={device!r}" if device != "cpu" else ""

    def grad(t: Any) -> str:
        return ".requires_grad_()" + ("" if t.is_leaf or not writes else ".clone()") if t.requires_grad else ""

    def ending(t: Any) -> str:
        return (".conj()" if t.is_conj() else "") + (f".detach(){grad(t)}" if t.requires_grad else "")

    spelling = Spelling(
        memory=lambda flat: _drawn(flat, place),
        ending=ending,
        other=literal,
        returned=lambda items: "[\n" + "".join(f"        {item},\n" for item in items) + "    ]",
        alone=lambda t: _drawn(t.detach(), place) + grad(t),
    )
    return make_inputs_text(values, spelling)


def _check(t: Any) -> None:
    import torch

    from fxmorph.programs.inputs import Unsupported

    if type(t) not in (torch.Tensor, torch.nn.Parameter) or t.layout != torch.strided:
        raise Unsupported(f"input of type {type(t).__name__} and layout {t.layout}")
    if t.is_quantized or t.is_meta or t.is_neg():
        raise Unsupported("quantised, meta or negative-view input")
    if t.device.type not in ("cpu", "cuda"):
        raise Unsupported(f"input on {t.device.type}")


def _drawn(t: Any, place: str) -> str:
    """An expression that draws a contiguous tensor of the shape and nature of ``t``."""
    import torch

    n, shape, dtype = t.numel(), tuple(t.shape), str(t.dtype)
    typed = f", dtype={dtype}" if t.dtype != torch.float32 else ""
    if not n:
        return f"torch.zeros({shape}, dtype={dtype}{place})"
    if t.is_complex():
        return f"torch.randn({shape}, dtype={dtype}{place})"
    if t.dtype == torch.bool:
        if _causal(t):
            return f"torch.ones({shape}, dtype=torch.bool{place}).tril()"
        return f"(torch.rand({shape}{place}) < {float(t.double().mean()):.2f})"
    if not t.is_floating_point():
        return _drawn_integers(t, place)
    if str(t.dtype).startswith("torch.float8"):
        return f"torch.randn({shape}{place}).to({dtype})"
    v = t.double()
    if n > 1 and bool(((v == 0) | (v == 1)).all()) and bool((v == 0).any()) and bool((v == 1).any()):
        return f"(torch.rand({shape}{place}) < {float(v.mean()):.2f}).to({dtype})"
    low = float(v.min())
    masked = v == low
    if n > 1 and low <= -1e4 and bool((masked | (v == 0)).all()):
        text = f"float('{low}')" if low == float("-inf") else repr(low)
        if _causal(~masked):
            return f"torch.full({shape}, {text}, dtype={dtype}{place}).triu(1)"
        share = min(float(masked.double().mean()), 0.1)  # a row that is masked as a whole gives NaN
        hidden = f"torch.rand({shape}{place}) < {share:.2f}"
        return f"torch.zeros({shape}, dtype={dtype}{place}).masked_fill_({hidden}, {text})"
    if low > 0:
        return f"(torch.rand({shape}{typed}{place}) + 0.5)"
    if low == 0 and bool((v > 0).any()):
        return f"torch.rand({shape}{typed}{place})"
    return f"torch.randn({shape}{typed}{place})"


def _causal(mask: Any) -> bool:
    """Whether True is exactly the lower triangle of the last two dimensions."""
    if mask.ndim < 2 or min(mask.shape[-2:]) < 2:
        return False
    return bool((mask == mask.new_ones(mask.shape).tril()).all())


def _drawn_integers(t: Any, place: str) -> str:
    flat = t.flatten()
    n, shape, dtype = t.numel(), tuple(t.shape), str(t.dtype)
    low, high = int(flat.min()), int(flat.max())
    typed = f", dtype={dtype}{place}"
    reshaped = "" if len(shape) == 1 else f".reshape({shape})"
    rising = n > 1 and bool((flat[1:] >= flat[:-1]).all())
    if n > 1 and high - low == n - 1 and int(flat.unique().numel()) == n:
        if rising:
            return f"torch.arange({low}, {high + 1}{typed}){reshaped}"
        return f"(torch.randperm({n}{typed}) + {low}){reshaped}"
    if rising and low != high:
        rest = f"torch.randint({low}, {high + 1}, ({n - 1},){typed})"
        return f"torch.cat([torch.full((1,), {low}{typed}), {rest}]).sort().values{reshaped}"
    return f"torch.randint({low}, {high + 1}, {shape}{typed})"


if "torch" in sys.modules:  # imported for its backend, not by the watcher
    register()
