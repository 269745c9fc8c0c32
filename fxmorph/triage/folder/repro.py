"""``repro.py`` of a finding: a script that needs torch only.

It exits 1 while torch.compile differs from eager in what the finding names, 0 once it does
not, and 2 when it could not run (which is no answer).  What it notes of a call, and how it
seeds, is what ``fxmorph/programs/observe.py`` does; where objects are returned or passed it has the code of
``fxmorph/programs/contents.py`` in it, and so looks into them as that does.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from fxmorph.core.exits import ReproExit
from fxmorph.model import NUMERIC_KINDS, Finding, Kind
from fxmorph.torchapi.new_memory import IN_A_SCRIPT
from fxmorph.triage.folder.own_numbers_script import HANGING, compared, runs, samples, slope_off
from fxmorph.triage.folder.program_text import defined, holds_containers, readable, returns_flat_tuples, without_inputs
from fxmorph.triage.folder.script_parts import (
    HELD_IN,
    MEMORY,
    NUMBERS,
    OFFSET,
    STATE,
    TENSORS,
    indent,
    looking,
    lost_device,
    moved,
    resized,
)

#: torch.testing's tolerances for float32, where a finding does not bring its own.
DEFAULT_CHECK: Mapping[str, Any] = {"rtol": 1.3e-6, "atol": 1e-5, "exact": False}
#: Per kind: the name that the script prints, and what to note of a call: ``outs`` are the
#: tensors returned, ``ins`` those passed (after the call), ``leaves`` all that was returned.
_NOTES: Mapping[Kind, tuple[str, str]] = {
    Kind.STRUCTURE: ("output structure", "[str(structure), *map(type, leaves)]"),
    Kind.DTYPE: ("output dtypes", "[t.dtype for t in outs]"),
    Kind.SHAPE: ("output shapes", "[t.shape for t in outs]"),
    Kind.STRIDE: (
        "output strides of dims > 1",
        "[[s for n, s in zip(t.shape, t.stride()) if n > 1] for t in outs]",
    ),
    Kind.OFFSET: ("output storage offsets in memory that others share", "[offset(t, ins + outs) for t in outs]"),
    Kind.DEVICE: ("output devices", "[t.device for t in outs]"),
    Kind.REQUIRES_GRAD: ("output requires_grad", "[t.requires_grad for t in outs]"),
    # Pairs among what the arguments hold then, module state and outputs, by position.
    Kind.IDENTITY: (
        "identity",
        "[(i, j) for i, a in enumerate(ins + outs) for j, b in enumerate((ins + outs)[:i]) if a is b]",
    ),
    Kind.ALIAS: (
        "alias",
        "[(i, j) for i, a in enumerate(ins + outs) for j in range(i) if memory(a) & memory((ins + outs)[j])]",
    ),
    Kind.VALUE: ("output values", "[t.detach().clone() if isinstance(t, torch.Tensor) else t for t in leaves]"),
    Kind.NONFINITE: ("finite and NaN elements of outputs", "[m for t in outs for m in (t.isfinite(), t.isnan())]"),
    Kind.MUTATION: ("inputs after the call", "[t.detach().clone() for t in ins] + [t.stride() for t in ins]"),
    Kind.GRADIENT: ("gradients", "grads"),
    Kind.RNG: ("random generator after the call", "torch.get_rng_state().long().sum().item()"),
}
#: On a GPU, which has a generator of its own.
_OF_GPU = (
    "random generators after the call",
    "[state.long().sum().item() for state in (torch.get_rng_state(), torch.cuda.get_rng_state())]",
)
#: What the short script notes, by name: lists of tensors, as many on both sides.
_FLAT: Mapping[str, str] = {
    "output values": "[t.detach().clone() for t in outs]",
    "finite and NaN elements of outputs": "[m for t in outs for m in (t.isfinite(), t.isnan())]",
    "inputs after the call": "[t.detach().clone() for t in ins]",
    "gradients": "grads",
}
#: Of scripts about what caches keep: who runs it may have switched them off.
WITH_CACHES = (
    'for name in ("FX_GRAPH", "AUTOGRAD"): os.environ.pop(f"TORCHINDUCTOR_{name}_CACHE", None)  # it is about caches'
)
#: An exception that any program raises on a machine that has nothing to compile with.
NO_TOOLS = (
    '    if any(t in str(error) for t in ("No working C++", "working triton")): raise  # this machine cannot compile'
)
#: What the short script calls the tensors that were returned.
_COLLECTED = "outs"
#: Words of operators that draw random numbers, in a program without its ``make_inputs``.
_RANDOM = re.compile(r"rand|dropout|bernoulli|normal|multinomial|poisson|exponential|cauchy|geometric|uniform|rrelu")
#: What may draw random numbers at all, a module's parameters included.
_DRAWS = re.compile(rf"{_RANDOM.pattern}|gumbel|fractional|nn\.[A-Z]|\binit\.")
#: Statements that draw none where the program's module is loaded.
_DRAWING_NONE = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
#: What a call writes into, in a program without its ``make_inputs``.
_WRITES = re.compile(r"\w_\(|\]\s*[-+*/@&|^]?=[^=]|setitem|\bout=|inplace=")
#: Where a list or a dict among the arguments may hold other things after the call.
_HELD = ("what the arguments hold", "[str(held), *map(type, arguments)]")
#: What is noted otherwise where objects are looked into.
_LOOKED: Mapping[Kind, str] = {
    Kind.STRUCTURE: "[str(structure).split(' at 0x')[0], held_in(out).forms]",
    Kind.VALUE: "[t.detach().clone() if torch.is_tensor(t) else t for t in held_in(out).slots.values()]",
}
_HELD_BY_OBJECTS = (
    "what the arguments hold",
    "[*held_in(inputs).forms.items(), *held_in(inputs).plain.values()]",
)

_OWN_PROCESS = frozenset({Kind.CRASH, Kind.TIMEOUT})
#: Kinds that a module's parameters and buffers have a part in.
_OF_STATE = frozenset({Kind.GRADIENT, Kind.MUTATION, Kind.ALIAS, Kind.IDENTITY, Kind.OFFSET})
#: What an output is, and an input may be otherwise after the call: views that are made in place change it.
_OF_TENSORS = frozenset({Kind.DTYPE, Kind.SHAPE, Kind.STRIDE, Kind.OFFSET, Kind.DEVICE})


def repro_text(finding: Finding) -> str:
    """The script for ``finding``.

    ``finding.program`` defines ``make_inputs()`` and ``fn(...)`` (or ``make_fn()``), and
    ``drive(g, *inputs)`` where the call is more than one ``g(*inputs)``.  Of
    ``finding.repro`` it reads ``check`` (``rtol``, ``atol``, ``exact``, ``inputs``: not only outputs have another
    dtype, shape or stride, ``backward``: inputs are written in the backward pass), ``random`` and
    ``config``: ``backend``, ``compile``, ``inductor``, ``dynamo``, ``no_grad``, ``rng_seed``
    (before the call), ``device``, ``dtype`` (that the seed was converted to), ``context``,
    ``calls`` (on the same inputs; the last is compared), ``sizes`` (old and new: what is compared
    is a call at another size, after one at the inputs' own), ``threads``, ``garbage`` (in new
    memory, so that what nothing wrote shows), ``own_numbers`` (the compiler draws others than eager),
    ``timeout`` (wall seconds), ``grad_weights`` ("randn", "integers", "ones"), ``objects`` (are looked into).
    Raises ``ValueError`` when the program is not Python or lacks these functions.
    """
    script = Script(finding)
    tail = script.in_child_process() if script.child else script.comparison()
    return "\n".join([*script.head(), *tail]) + "\n"


class Script:
    """The parts of one script, each a list of lines."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        self.config: Mapping[str, Any] = finding.config
        self.check: Mapping[str, Any] = finding.repro.check or DEFAULT_CHECK
        self.kinds = {Kind.RAISES if kind is Kind.COMPILE_ERROR else kind for kind in finding.kinds}
        self.kinds -= {Kind.SECOND_CALL}  # which says when the others show
        #: Whether the compiler draws numbers of its own, so that runs under several seeds are compared.
        self.own_numbers = bool(self.config.get("own_numbers")) and bool(self.kinds & HANGING)
        if self.own_numbers:
            self.kinds = (self.kinds & HANGING) | ({Kind.VALUE} if Kind.RNG in self.kinds else set())
        self.defined = defined(finding.program)
        called = without_inputs(finding.program)
        loading = [n for n in ast.parse(finding.program).body if not isinstance(n, _DRAWING_NONE)]
        self.module_draws = any(_DRAWS.search(ast.unparse(n)) for n in loading)
        self.random = bool(finding.repro.random) and bool(_RANDOM.search(called))
        self.writes = bool(_WRITES.search(called))
        #: Whether it makes gradients itself, and whether lists and dicts are among its arguments.
        self.differentiates, self.holders = ".backward(" in called, holds_containers(self.defined["make_inputs"])
        #: Whether the compiled program runs in a process of its own.
        self.child = bool(self.kinds & _OWN_PROCESS)
        # A function needs no copy; a module has state that the first run would leave to the second.
        self.copied = "make_fn" not in self.defined and not isinstance(self.defined["fn"], ast.FunctionDef)
        self.stateful = self.copied or "make_fn" in self.defined
        # A reduced program makes its inputs where they belong; a seed's own source may not.
        wanted = str(self.config.get("device") or "cpu")
        self.device = "" if wanted == "cpu" or repr(wanted) in finding.program else wanted
        self.dtype = str(self.config.get("dtype") or "")
        self.sizes = tuple(self.config.get("sizes") or ())
        self.moves = bool(self.device or self.dtype)
        # These may happen in the backward pass alone.
        elsewhere = self.kinds & {Kind.RAISES, *_OWN_PROCESS} and "requires_grad" in finding.program
        self.backward = (
            Kind.GRADIENT in self.kinds or bool(self.check.get("backward"))
            or bool(elsewhere and not self.config.get("no_grad"))
        )  # fmt: skip
        #: Whether what is returned or passed holds tensors that are not nested in lists, tuples and dicts alone.
        self.objects = bool(self.config.get("objects"))
        #: Most programs: what is returned and passed is looked at as flat lists of tensors, without helpers.
        state_matters = self.stateful and bool(self.kinds & _OF_STATE or self.check.get("inputs"))
        self.flat = not (
            state_matters or self.objects or self.moves or self.sizes
            or "complex" in finding.program or "grad_weights" in self.config
            or (Kind.RAISES in self.kinds and self.kinds != {Kind.RAISES})
            or self.kinds & {Kind.STRUCTURE, *_OWN_PROCESS}
            or {Kind.GRADIENT, Kind.REQUIRES_GRAD} <= self.kinds
            or (self.backward and self.differentiates)
            or (Kind.MUTATION in self.kinds and self.holders)
        )  # fmt: skip
        fn = self.defined.get("fn")
        self.nested = "drive" in self.defined or fn is None or not returns_flat_tuples(fn)

    def head(self) -> list[str]:
        """Comment, imports, settings, and the program."""
        f = self.finding
        copies = self.copied or (self.own_numbers and self.stateful)
        about = f"fxmorph {f.id}: {', '.join(f.kinds)} at {f.stage}" + (f" ({f.unit})" if f.unit else "")
        return self.program(
            [
                *textwrap.wrap(about, 118, initial_indent="# ", subsequent_indent="# ", break_long_words=False),
                "# Exits 1 while torch.compile differs from eager, 0 once it does not, 2 if it could not run.",
                f"import {'copy, ' if copies else ''}os, {'subprocess, ' if self.child else ''}sys; "
                "sys.excepthook = lambda *error: (sys.__excepthook__(*error), os._exit(2))",
                *([WITH_CACHES] if self._caches else []),
            ]
        )

    def program(self, start: list[str]) -> list[str]:
        """``start``, then torch and the settings, then the program and what it needs."""
        f = self.finding
        lines = readable(f.program).strip("\n").split("\n")
        future = [line for line in lines if line.startswith("from __future__")]
        program = [line for line in lines if line.rstrip() != "import torch" and line not in future]
        flattens = not self.flat and (self.backward or (not self.child and bool(self.kinds & set(_NOTES))))
        threads = self.config.get("threads")
        tree = [*(["tree_flatten"] if flattens else []), *(["tree_map"] if self.moves or self.sizes else [])]
        return [
            *future,
            *start,
            "import torch" + (f"; torch.set_num_threads({threads})" if threads else ""),
            *([IN_A_SCRIPT] if self.config.get("garbage") else []),
            *([f"from torch.utils._pytree import {', '.join(tree)}"] if tree else []),
            *self._settings(),
            *(["torch.manual_seed(0)  # as where it was judged: its module draws"] if self.module_draws else []),
            "",
            *re.sub(r"\n{2,}(?=\n| )", "\n", "\n".join(program)).strip("\n").split("\n"),
            *(["", *moved(self.device, self.dtype)] if self.moves else []),
            *(["", *resized(*self.sizes)] if self.sizes else []),
        ]

    def _settings(self) -> list[str]:
        settings = {module: dict(self.config.get(module) or {}) for module in ("dynamo", "inductor")}
        if self.random:
            settings["inductor"].setdefault("fallback_random", True)
        lines = []
        for module, values in settings.items():
            if values:
                lines.append(f"import torch._{module}.config")
            lines += [f"torch._{module}.config.{key} = {value!r}" for key, value in values.items()]
        if self._caches:
            lines += ["import torch._functorch.config", "torch._functorch.config.enable_autograd_cache = True"]
            lines += [
                'keys = getattr(torch.compiler, "config", None)  # nothing is found that was cached before',
                'if hasattr(keys, "cache_key_tag"): keys.cache_key_tag = str(os.getpid())',
            ]
        return lines

    @property
    def _caches(self) -> bool:
        return bool(dict(self.config.get("inductor") or {}).get("fx_graph_cache"))

    def _fresh(self) -> tuple[list[str], str]:
        """Lines before each side's run, and the expression for its function."""
        if "make_fn" in self.defined:
            ready, function = ["torch.manual_seed(1)"], "make_fn()"
        else:
            ready, function = [], "copy.deepcopy(fn)" if self.copied else "fn"
        return ready, f"moved({function})" if self.moves and self.stateful else function

    def _compiled(self, function: str) -> str:
        options = {"backend": self.config.get("backend", "inductor"), **dict(self.config.get("compile") or {})}
        return f"torch.compile({function}, {', '.join(f'{k}={v!r}' for k, v in options.items())})"

    def _call(self, guarded: bool = False) -> list[str]:
        """Fresh inputs, the call, and the gradients where something asks for them.

        ``guarded``: an exception of the call is noted, one of ``make_inputs`` is not.
        """
        call = ["out = drive(f, *inputs)" if "drive" in self.defined else "out = f(*inputs)"]
        if self.flat:
            called = call[0].removeprefix("out = ")
            called = f"torch.utils._pytree.tree_leaves({called})" if self.nested else called
            if Kind.VALUE not in self.kinds:
                call = [f"{_COLLECTED} = [t for t in {called} if torch.is_tensor(t)]"]
            else:  # of a number, too
                kept = "isinstance(t, (torch.Tensor, int, float))"
                call = [f"returned = {called}", f"{_COLLECTED} = [torch.as_tensor(t) for t in returned if {kept}]"]
        calls = int(self.config.get("calls") or 1)
        if Kind.SECOND_CALL in self.finding.kinds and not self._caches:  # whose driver calls it again
            calls *= 2
        rng_seed = "seed" if self.own_numbers else self.config.get("rng_seed", 2 if self.random else None)
        seeded = [] if rng_seed is None else [f"torch.manual_seed({rng_seed})"]
        call = [*seeded, *call]
        if calls > 1:
            call = [f"for _ in range({calls}):  # on the same inputs; the last call is compared", *indent(call)]
        if self.config.get("context") == "inference":
            call = _under("with torch.inference_mode():", call)
        elif self.config.get("no_grad"):
            call = _under("with torch.no_grad():", call)
        if self.backward and self.flat:
            device = "" if self.config.get("device", "cpu") == "cpu" else ", device=t.device"
            ends = _COLLECTED
            if self.writes:
                ends = "ends"
                call.append(f"ends = outs + [t for t in {self._leaves()} if torch.is_tensor(t) and t.grad_fn]")
            call += [
                # Other ones for each result: two that are taken for each other differ in nothing else.
                f"weights = [(torch.arange(t.numel(){device}) + i).reshape(t.shape) % 5 + 1"
                f" for i, t in enumerate({ends})]",
                # One side alone may return what needs no gradient: its loss is a constant, and not the number 0.
                f"terms = [(t * w).sum() for t, w in zip({ends}, weights) if t.requires_grad]",
                "loss = sum(terms, torch.zeros((), requires_grad=True))",
                f"wanted = [t for t in {self._leaves()} if torch.is_tensor(t) and t.requires_grad and t.is_leaf]",
                "grads = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)",
            ]
            if guarded:  # there may be nothing to differentiate, which is no difference
                call[-1] = "torch.autograd.grad(loss, wanted, allow_unused=True) if terms and wanted else None"
        elif self.backward:
            ins = self._with_state("tensors(inputs)")
            written = f" + [t for t in {ins} if t.grad_fn]" if self.writes else ""
            if self.differentiates:
                call.append(f"grads = [t.grad for t in {ins} if t.is_leaf]")
            else:
                call.append(f"grads = gradients(tensors(out){written}, {ins})")
        if guarded:
            call = ["try:", *indent(call), "except Exception as error:"]
            call += ["    print(f'{type(error).__name__}: {error}'[:400])", NO_TOOLS, "    return {'raises': True}"]
        inputs = "tree_map(moved, make_inputs())" if self.moves else "make_inputs()"
        made = [f"inputs = {inputs}"]
        if self.sizes:
            first = "drive(f, *inputs)" if "drive" in self.defined else "f(*inputs)"
            made += [first, f"inputs = tree_map(resized, {inputs})"]
        drawn = ["torch.manual_seed(0)"] if self.own_numbers or _DRAWS.search(self.finding.program) else []
        lines = [*drawn, *made, *call]
        if self.config.get("context") == "autocast":
            device = self.config.get("device") or "cpu"
            return [f"with torch.autocast({device!r}, torch.bfloat16):", *indent(lines)]
        return lines

    def _leaves(self) -> str:
        return "torch.utils._pytree.tree_leaves(inputs)" if self.nested else "inputs"

    def _with_state(self, inputs: str) -> str:
        return f"{inputs} + state(f)" if self.stateful else inputs

    def comparison(self) -> list[str]:
        """Note the same of both sides, compare."""
        if self.own_numbers:
            return self._under_several_seeds()
        lines, equal = self.noted()
        unequal = equal.replace(" == ", " != ") if " == " in equal else f"not {equal}"
        if Kind.RAISES in self.kinds:  # a side that raised noted nothing else
            unequal = f"what in compiled and {unequal}"
        return [
            *lines,
            f"different = [what for what in eager if {unequal}]",
            "for what in different: print(f'{what}:\\n  eager    {eager[what]}\\n  compiled {compiled[what]}')",
            "print('still there' if different else 'gone')",
            "sys.exit(1 if different else 0)",
        ]

    def _under_several_seeds(self) -> list[str]:
        call = "drive(f, *inputs)" if "drive" in self.defined else "f(*inputs)"
        slopes = Kind.GRADIENT in self.kinds and not self.differentiates
        ready, function = self._fresh()
        return [
            *self._noting()[0],
            *samples(),
            "",
            *([*slope_off(call), ""] if slopes else []),
            *ready,
            *runs(function, self._compiled(function), self.stateful),
            *compared(self.kinds if slopes else self.kinds - {Kind.GRADIENT}),
        ]

    def noted(self) -> tuple[list[str], str]:
        """Lines that note the same of ``eager`` and ``compiled``, and when ``what`` of it is equal."""
        lines, equal = self._noting()
        ready, function = self._fresh()
        if ready:
            lines += [*ready, f"eager = run({function})", *ready, f"compiled = run({self._compiled(function)})"]
        else:
            lines.append(f"eager, compiled = run({function}), run({self._compiled(function)})")
        return lines, equal

    def _noting(self) -> tuple[list[str], str]:
        """The function that notes, and when ``what`` of two notes is equal."""
        kinds = self.kinds - {Kind.RNG} if self.own_numbers else self.kinds
        on_gpu = self.config.get("device") == "cuda"
        notes = [(_OF_GPU if on_gpu and kind is Kind.RNG else note) for kind, note in _NOTES.items() if kind in kinds]
        if self.objects:
            changed = {_NOTES[kind][0]: what for kind, what in _LOOKED.items()}
            notes = [(name, changed.get(name, what)) for name, what in notes]
        if self.check.get("inputs"):
            of_outs = [note for kind, note in _NOTES.items() if kind in kinds & _OF_TENSORS]
            notes += [(name.replace("output", "input"), what.replace("in outs]", "in ins]")) for name, what in of_outs]
        if Kind.REQUIRES_GRAD in self.kinds and self.writes:
            notes.append(("requires_grad of inputs", "[t.requires_grad for t in ins]"))
        if Kind.MUTATION in self.kinds and (self.holders or self.objects):
            notes.append(_HELD_BY_OBJECTS if self.objects else _HELD)
        asked = " ".join(what for _, what in notes)
        raises = Kind.RAISES in self.kinds
        helped = not self.flat and (self.backward or re.search(r"\b(outs|ins)\b", asked))
        lines = ["", *self._helpers()] if helped or self.objects else []
        lines += ["", *STATE] if self.stateful and (self.backward or re.search(r"\bins\b", asked)) else []
        lines += ["", *MEMORY] if Kind.ALIAS in self.kinds else []
        lines += ["", *OFFSET] if Kind.OFFSET in self.kinds else []
        lines += ["", *self._gradients()] if self.backward and not self.flat and not self.differentiates else []
        body = indent(self._call(guarded=raises))
        if self.objects and self.stateful:
            body = ["    own.update(map(id, f.modules()) if isinstance(f, torch.nn.Module) else ())", *body]
        if self.flat:
            notes = [(name, _FLAT.get(name, what)) for name, what in notes]
            if re.search(r"\bins\b", asked):
                body.append(f"    ins = [t for t in {self._leaves()} if isinstance(t, torch.Tensor)]")
        else:
            if re.search(r"\b(leaves|structure)\b", asked):
                body.append("    leaves, structure = tree_flatten(out)")
            if re.search(r"\barguments\b", asked):
                body.append("    arguments, held = tree_flatten(inputs)")
            if re.search(r"\bouts\b", asked):
                body.append("    outs = tensors(out)")
            if re.search(r"\bins\b", asked):
                body.append(f"    ins = {self._with_state('tensors(inputs)')}")
        if raises:
            notes = [("raises", "False"), *notes]
        with_tensors = bool(self.kinds & NUMERIC_KINDS)
        only_tensors = self.flat and all(name in _FLAT for name, _ in notes)
        head = "def run(f, seed):" if self.own_numbers else "def run(f):"
        lines += ["", head, *(_at_once(body, notes) or [*body, *_returned(notes)]), ""]
        lines += [*self._same(only_tensors and not self.own_numbers), ""] if with_tensors else []
        equal = "same(eager[what], compiled[what])" if with_tensors else "eager[what] == compiled[what]"
        return lines, "all(map(same, eager[what], compiled[what]))" if only_tensors else equal

    def _helpers(self) -> list[str]:
        return [*looking(), "", *HELD_IN] if self.objects else TENSORS

    def _gradients(self) -> list[str]:
        weights = {
            "ones": "torch.ones(t.shape)",
            "integers": "torch.randint(1, 4, t.shape, generator=g)",
            "randn": "torch.randn(t.shape, generator=g, dtype=torch.float64)",
        }[self.config.get("grad_weights", "randn")]
        lines = [
            "def gradients(outs, ins):",
            "    loss, wanted = None, [t for t in ins if t.requires_grad and t.is_leaf]",
            "    for k, t in enumerate(outs):",
        ]
        if "complex" in self.finding.program:
            lines.append("        t = torch.view_as_real(t) if t.is_complex() else t")
        if "generator" in weights:
            lines.append("        g = torch.Generator().manual_seed(7919 + k)")
        return [
            *lines,
            f"        weight = {weights}.to(t)",
            "        if t.requires_grad:",
            "            loss = (0 if loss is None else loss) + (t * weight).sum()",
            "    if loss is None or not wanted:",
            "        return []",
            "    return list(torch.autograd.grad(loss, wanted, allow_unused=True))",
        ]

    def _same(self, only_tensors: bool) -> list[str]:
        """Whether two notes are equal; ``only_tensors``: two tensors, as long lists on both sides."""
        rtol, atol = self.check.get("rtol") or 0, self.check.get("atol") or 0
        lines = []
        if self.check.get("exact") or not (rtol or atol):
            equal = "bool(((a == b) | ((a != a) & (b != b))).all())  # NaN equals NaN"
        elif "complex" in self.finding.program:
            lines.append("exact = not (a.is_floating_point() or a.is_complex())")
            lines.append("a, b = (t.to(torch.complex128) for t in (a, b))")
            equal = f"torch.allclose(a, b, *((0, 0) if exact else ({rtol!r}, {atol!r})), equal_nan=True)"
        else:
            lines.append(f"rtol, atol = ({rtol!r}, {atol!r}) if a.is_floating_point() else (0, 0)")
            equal = "torch.allclose(a.double(), b.double(), rtol, atol, equal_nan=True)"
        if only_tensors:
            return ["def same(a, b):", *indent(lines), f"    return a.shape == b.shape and {equal}"]
        return [
            "def same(a, b):",
            "    if isinstance(a, list):",
            "        return len(a) == len(b) and all(map(same, a, b))",
            *(NUMBERS if self.objects else []),
            "    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):",
            *indent(indent(lines)),
            f"        return a.shape == b.shape and {equal}",
            "    return same_plain(a, b) is not False" if self.objects else "    return a == b",
        ]

    def in_child_process(self) -> list[str]:
        """For what takes its process with it: the compiled call runs in a child."""
        ready, function = self._fresh()
        seconds = float(self.config.get("timeout") or 120)
        compiled = f"run({self._compiled(function)})"
        return [
            *(["", *(self._helpers()), "", *self._gradients()] if self.backward else []),
            *(["", *STATE] if self.backward and self.stateful else []),
            "",
            "def run(f):",
            *indent(self._call()),
            "",
            *ready,
            "if len(sys.argv) > 1:",
            *indent(lost_device(compiled) if self.config.get("device") == "cuda" else [compiled]),
            "    os._exit(0)",
            "try:",
            f"    run({function})",
            "    eager = 'runs'",
            "except Exception as error:",
            "    eager = f'raises {type(error).__name__}'",
            "try:",
            f"    code = subprocess.run([sys.executable, __file__, 'compiled'], timeout={seconds:g}).returncode",
            "except subprocess.TimeoutExpired:",
            f"    print('eager answers, compiled does not in {seconds:g} s')",
            f"    sys.exit({1 if Kind.TIMEOUT in self.kinds else 2})",
            "print(f'eager {eager}, compiled ends with exit code {code}')",
            f"sys.exit(1 if code < 0 or code == {ReproExit.LOST_DEVICE} else 2 if code and eager == 'runs' else 0)"
            "  # below 0: killed by a signal"
            if Kind.CRASH in self.kinds
            else "sys.exit(2 if code and eager == 'runs' else 0)",
        ]


def _under(head: str, lines: list[str]) -> list[str]:
    """The block, on one line where it has one."""
    return [f"{head} {lines[0]}"] if len(lines) == 1 else [head, *indent(lines)]


def _at_once(body: list[str], notes: list[tuple[str, str]]) -> list[str] | None:
    """The lines where what the last one collects is noted once: it is noted as it is collected."""
    if len(notes) != 1 or not notes[0][1].endswith(f" for t in {_COLLECTED}]") or notes[0][1].count(_COLLECTED) != 1:
        return None
    before, equals, collected = body[-1].partition(f"{_COLLECTED} = [t for t in ")
    noted = notes[0][1].removesuffix(f"{_COLLECTED}]")
    line = f"{before}return {{{notes[0][0]!r}: {noted}{collected}}}"
    return [*body[:-1], line] if equals and len(line) <= 120 else None


def _returned(notes: list[tuple[str, str]]) -> list[str]:
    if len(notes) == 1:
        line = f"    return {{{notes[0][0]!r}: {notes[0][1]}}}"
        if len(line) <= 120:
            return [line]
    return ["    return {", *(f"        {name!r}: {what}," for name, what in notes), "    }"]
