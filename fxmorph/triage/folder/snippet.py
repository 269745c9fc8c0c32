"""A short script in which one function runs in eager and compiled, and prints what differs.

Text alone: ``snippet_trial.py`` runs what is made here, and keeps what shows the difference.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fxmorph.model import Finding, Kind
from fxmorph.torchapi.new_memory import IN_A_SCRIPT
from fxmorph.triage.folder.hand_style import hand_calls, hand_function
from fxmorph.triage.folder.program_text import defined, readable, without_inputs

#: Lines that a snippet should not exceed, blank ones not counted.
MOST_LINES = 12
#: Columns of a line that inputs share.
WIDTH = 88
#: What the two sides are printed under.
EAGER, COMPILED = "eager:", "compiled:"
#: How an exception of either side is printed.
PRINTS_EXCEPTION = 'print(f"{name}:", type(error).__name__, error)'
#: What stands for the side that runs, in forms.
SIDE = "g"
#: What draws random numbers in a call, and what may draw them at all, a module's parameters included.
_RANDOM = re.compile(r"rand|[Dd]ropout|bernoulli|normal|multinomial|poisson|exponential_|uniform_|rrelu|gumbel")
_DRAWS = re.compile(rf"{_RANDOM.pattern}|nn\.[A-Z]|\binit\.")
_SEEDED = "torch.manual_seed(0)"
_WRITES = re.compile(
    r"[a-zA-Z0-9]_\(|\]\s*[-+*/@&|^]?=[^=]|setitem|\bout=|inplace=|^\s*\w+\s*[-+*/@&|^]=", re.MULTILINE
)


#: What binds as closely as a name does.
_ATOMS = (ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.List, ast.Tuple)
_IMPORT = re.compile(r"(import|from) ")
_VALUE = re.compile(r"\w+ = ")


@dataclass(frozen=True)
class Form:
    """How one ``kind`` is shown: ``statements``, then what is ``printed``.

    ``guarded``: an exception is printed too.
    """

    kind: Kind
    printed: str
    statements: tuple[str, ...] = ()
    guarded: bool = False


@dataclass(frozen=True)
class Snippet:
    """The parts of one script.

    ``settings`` follow the import of torch, ``function`` is what is called on both sides, ``arguments`` are those of
    ``torch.compile``.  ``setup`` are lines before the ``inputs``, which are names and expressions; ``fresh``: each
    side makes its own.  ``call`` is the call of a side, which ``outputs`` describes as in ``HandFunction``;
    ``context`` what the calls are made under; ``kept`` are the places of the inputs in the program's own list.
    """

    settings: tuple[str, ...]
    definitions: tuple[str, ...]
    function: str
    arguments: str
    setup: tuple[str, ...]
    inputs: tuple[tuple[str, str], ...]
    call: str
    kept: tuple[int, ...]
    outputs: int | None = None
    fresh: bool = False
    copied: bool = False
    context: str = ""
    form: Form = Form(Kind.VALUE, "")
    joined: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    def text(self) -> str:
        """The script."""
        body = self._calls()
        if self.context:
            body = [f"with {self.context}:", *_indented(body)]
        # What each side makes for itself is drawn from a seed of its own, below.
        before = self.definitions if self.fresh else (*self.definitions, *body)
        drawn = [_SEEDED] if _DRAWS.search("\n".join(before)) else []
        imports = [line for line in self.definitions if _IMPORT.match(line)]
        first = [*(["import copy"] if self.copied else []), "import torch", *imports, *self.settings]
        defined = [line for line in self.definitions if line not in imports]
        # Of what is defined a function stands apart, a module that is made stands with the inputs.
        values = [line for line in defined if _VALUE.match(line)]
        parts = [first, *([d] for d in defined if d not in values), [*drawn, *values, *body]]
        return "\n\n".join("\n".join(part) for part in parts if part) + "\n"

    def _calls(self) -> list[str]:
        inputs, form = self._inputs(), self.form
        compiled = f"torch.compile({self._of_its_own()}{self.arguments})"
        alone = not (self.fresh or form.statements or form.guarded or self.copied)
        if alone and form.printed.count(f"{SIDE}(") == 1:
            printed = (form.printed.replace(f"{SIDE}(", f"{side}(", 1) for side in (self.function, compiled))
            return [*inputs, *(f'print("{what}", {p})' for what, p in zip((EAGER, COMPILED), printed, strict=True))]
        shown = [*form.statements, f'print(f"{{name}}:", {form.printed})']
        if form.guarded:
            shown = ["try:", *_indented(shown), "except Exception as error:"]
            shown.append(f"    {PRINTS_EXCEPTION}")
        loop = f'for name, {SIDE} in ("eager", {self.function}), ("compiled", {compiled}):'
        if self.fresh:
            made = [*inputs, *shown]
            shown = [*([_SEEDED] if _DRAWS.search("\n".join(made)) else []), *made]
        return [*([] if self.fresh else inputs), loop, *_indented(shown)]

    def _of_its_own(self) -> str:
        return f"copy.deepcopy({self.function})" if self.copied else self.function

    def _inputs(self) -> list[str]:
        """Lines that make the inputs, one each or as many a line as fit."""
        rows: list[list[tuple[str, str]]] = []
        for one in self.inputs:
            if one[0] == one[1]:  # made above under this name
                continue
            if self.joined and rows and len(_assigned([*rows[-1], one])) <= WIDTH:
                rows[-1].append(one)
            else:
                rows.append([one])
        return [*self.setup, *map(_assigned, rows)]


def line_count(text: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in text.splitlines())


def _assigned(row: Sequence[tuple[str, str]]) -> str:
    names, values = zip(*row, strict=True)
    return f"{', '.join(names)} = {', '.join(values)}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for text in lines for line in text.split("\n")]


# -- from a finding ------------------------------------------------------------


def sketches(finding: Finding) -> Iterator[Snippet]:
    """Snippets of the finding's program, the one most as a person would write it first; none has its form yet.

    Raises ``ValueError`` as :func:`defined` does.
    """
    program = readable(finding.program)
    names = defined(program)
    tree = ast.parse(program)
    made = names["make_inputs"]
    items = _items(made) if isinstance(made, ast.FunctionDef) else None
    if items is None:
        return
    setup, expressions = items
    writes = bool(_WRITES.search(without_inputs(program)))
    settings, arguments, context = _configured(finding)
    common = {"settings": settings, "arguments": arguments, "context": context, "setup": setup}
    own = [n for n in tree.body if getattr(n, "name", "") not in ("make_inputs", "fn", "make_fn", "drive")]
    own = [n for n in own if not _assigns(n, "fn")]
    kept = [ast.unparse(n) for n in own if ast.unparse(n) != "import torch" and not _is_future(n)]
    fresh = writes or Kind.GRADIENT in finding.kinds or bool(finding.kinds and Kind.MUTATION in finding.kinds)
    drive = names.get("drive")
    for definitions, function, parameters, outputs, stateful in _functions(names, expressions):
        whole: dict[str, Any] = {
            **common, "definitions": (*kept, *definitions), "function": function, "fresh": fresh,
            "copied": stateful and bool(set(finding.kinds) & {Kind.MUTATION, Kind.GRADIENT, Kind.SECOND_CALL}),
        }  # fmt: skip
        if isinstance(drive, ast.FunctionDef):
            calls = hand_calls(drive, SIDE)
            if calls is not None and len(calls[0]) == len(expressions):
                inputs = tuple(zip(calls[0], expressions, strict=True))
                form = Form(_strongest(finding.kinds), calls[2], calls[1])
                everything = tuple(range(len(expressions)))
                yield Snippet(**{**whole, "fresh": True}, inputs=inputs, call="", kept=everything, form=form)
            continue
        given = tuple((name, expressions[i]) for name, i in parameters)
        call = f"{SIDE}({', '.join(name for name, _ in given)})"
        yield Snippet(**whole, inputs=given, call=call, kept=tuple(i for _, i in parameters), outputs=outputs)


def _strongest(kinds: Iterable[Kind]) -> Kind:
    order = list(_EASIEST)
    return min(kinds, key=lambda k: order.index(k) if k in order else len(order))


def _functions(
    names: Mapping[str, ast.AST], expressions: Sequence[str]
) -> Iterator[tuple[list[str], str, list[tuple[str, int]], int | None, bool]]:
    """Definitions of the function, its expression, its inputs by name and place, its outputs, whether it has state."""
    plain = [(name, i) for i, name in zip(range(len(expressions)), _letters(), strict=False)]
    fn, make_fn = names.get("fn"), names.get("make_fn")
    if isinstance(make_fn, ast.FunctionDef):
        if len(make_fn.body) == 1 and isinstance(make_fn.body[0], ast.Return) and make_fn.body[0].value is not None:
            yield [f"f = {ast.unparse(make_fn.body[0].value)}"], "f", plain, None, True
        else:
            yield [ast.unparse(make_fn), "f = make_fn()"], "f", plain, None, True
    elif isinstance(fn, ast.FunctionDef):
        by_hand = hand_function(fn)
        if by_hand is not None and len(fn.args.args) == len(expressions):
            chosen = list(zip(by_hand.names, by_hand.kept, strict=True))
            yield ["\n".join(by_hand.lines())], "f", chosen, by_hand.outputs, False
        fn.name = "f"
        yield [ast.unparse(fn)], "f", plain, None, False
    elif isinstance(fn, ast.Assign):
        yield [f"f = {ast.unparse(fn.value)}"], "f", plain, None, True


def _letters() -> Iterator[str]:
    yield from ("x", "y", "z", "w", "u", "v", "p", "q", "r", "s")
    yield from (f"x{i}" for i in range(1, 1000))


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets)


def _is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _items(make_inputs: ast.FunctionDef) -> tuple[tuple[str, ...], list[str]] | None:
    """Lines before the inputs, and an expression for each; None where they are not returned as a list."""
    *before, last = [s for s in make_inputs.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if not isinstance(last, ast.Return) or not isinstance(last.value, (ast.List, ast.Tuple)):
        return None
    items = [ast.unparse(e) for e in last.value.elts]
    if any(isinstance(e, ast.Starred) for e in last.value.elts):
        return None
    for statement in reversed(before):  # a value that one input alone is made of
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            break
        name = ast.unparse(statement.targets[0])
        if not name.isidentifier():
            break
        uses = [i for i, item in enumerate(items) for _ in re.findall(rf"\b{name}\b", item)]
        earlier = "\n".join(ast.unparse(s) for s in before if s is not statement)
        if len(uses) != 1 or re.search(rf"\b{name}\b", earlier):
            break
        value = ast.unparse(statement.value)
        if items[uses[0]] != name and not isinstance(statement.value, _ATOMS):
            value = f"({value})"
        items[uses[0]] = re.sub(rf"\b{name}\b", lambda _, value=value: value, items[uses[0]])  # type: ignore[misc]
        before = [s for s in before if s is not statement]
    return tuple(ast.unparse(s) for s in before), items


def _configured(finding: Finding) -> tuple[tuple[str, ...], str, str]:
    """Settings, further arguments of ``torch.compile``, and what calls are made under."""
    config = finding.config
    settings = [f"torch._dynamo.config.{k} = {v!r}" for k, v in (config.get("dynamo") or {}).items()]
    arguments = {k: v for k, v in (config.get("compile") or {}).items() if v is not None}
    inductor = dict(config.get("inductor") or {})
    if Kind.RNG in finding.kinds or (finding.repro.random and _RANDOM.search(without_inputs(finding.program))):
        inductor.setdefault("fallback_random", True)
    backend = config.get("backend", "inductor")
    if backend != "inductor":
        arguments["backend"] = backend
    elif inductor and "mode" not in arguments:
        arguments["options"] = {**inductor, **(arguments.get("options") or {})}
        inductor = {}
    settings += [f"torch._inductor.config.{k} = {v!r}" for k, v in inductor.items()]
    if settings:
        settings = [*(f"import torch._{m}.config" for m in ("dynamo", "inductor") if _names(settings, m)), *settings]
    if config.get("threads"):
        settings.append(f"torch.set_num_threads({config['threads']})")
    if config.get("garbage"):
        settings.append(IN_A_SCRIPT)
    if config.get("no_grad"):
        settings.append("torch.set_grad_enabled(False)")
    device = config.get("device") or "cpu"
    if device != "cpu" and repr(device) not in finding.program:
        settings.append(f"torch.set_default_device({device!r})")
    if config.get("dtype"):
        settings.append(f"torch.set_default_dtype(torch.{config['dtype']})")
    context = {"autocast": f"torch.autocast({device!r}, torch.bfloat16)", "inference": "torch.inference_mode()"}
    said = "".join(f", {k}={v!r}" for k, v in arguments.items())
    return tuple(settings), said, context.get(config.get("context") or "", "")


def _names(settings: Iterable[str], module: str) -> bool:
    return any(line.startswith(f"torch._{module}.config.") for line in settings)


# -- forms ---------------------------------------------------------------------

#: Attributes that show a kind, by what is written after an output.
_ATTRIBUTES: Mapping[Kind, str] = {
    Kind.DTYPE: ".dtype",
    Kind.SHAPE: ".shape",
    Kind.STRIDE: ".stride()",
    Kind.OFFSET: ".storage_offset()",
    Kind.DEVICE: ".device",
    Kind.REQUIRES_GRAD: ".requires_grad",
}
#: Kinds in the order in which they are easiest to see for a reader.
_EASIEST = (
    Kind.RAISES, Kind.COMPILE_ERROR, Kind.CRASH, Kind.TIMEOUT, Kind.VALUE, Kind.NONFINITE, Kind.SHAPE, Kind.DTYPE,
    Kind.GRADIENT, Kind.MUTATION, Kind.ALIAS, Kind.IDENTITY, Kind.STRIDE, Kind.OFFSET, Kind.REQUIRES_GRAD,
    Kind.DEVICE, Kind.RNG, Kind.STRUCTURE,
)  # fmt: skip
#: What makes a scalar of an output, plainest first: a sum may hide what is wrong with its gradient.  The last one gives
#: each element another gradient, whatever the strides of the output are.
_LOSSES = (".sum()", ".square().sum()", ".sin().sum()", ".flatten().cumsum(0).sum()")


def forms(snippet: Snippet, kinds: Sequence[Kind], calls: int = 1) -> Iterator[Form]:
    """Ways to show what the finding says, easiest to see first."""
    if snippet.form.printed:  # the program says itself what is to be looked at
        printed = ast.parse(snippet.form.printed, mode="eval").body
        parts = [ast.unparse(e) for e in printed.elts] if isinstance(printed, ast.Tuple) else []
        yield from (replace(snippet.form, printed=part) for part in (*parts, snippet.form.printed))
        yield replace(snippet.form, guarded=True)
        return
    calls = calls * 2 if Kind.SECOND_CALL in kinds else calls
    before = (snippet.call,) * (calls - 1)
    for kind in _EASIEST:
        if kind in kinds or (tuple(kinds) == (Kind.SECOND_CALL,) and kind is Kind.VALUE):
            for form in _of_kind(snippet, kind):
                yield replace(form, statements=(*before, *form.statements))


def _of_kind(snippet: Snippet, kind: Kind) -> Iterator[Form]:
    call, names = snippet.call, snippet.names
    parts = [call] if snippet.outputs is None else [f"{call}[{i}]" for i in range(snippet.outputs)]
    guarded = kind in (Kind.RAISES, Kind.COMPILE_ERROR)
    if kind in (Kind.VALUE, Kind.NONFINITE) or guarded:
        yield from (Form(kind, part, guarded=guarded) for part in dict.fromkeys((*parts, call)))
        if not guarded:  # a view beyond its memory cannot be printed
            yield from (Form(kind, f"{part}.clone()") for part in parts)
        if guarded:
            yield from (Form(kind, f"{part}{loss}.backward()", guarded=True) for part in parts for loss in _LOSSES)
    elif kind in (Kind.CRASH, Kind.TIMEOUT):
        yield Form(kind, call)
    elif kind in _ATTRIBUTES:
        yield from (Form(kind, part + _ATTRIBUTES[kind]) for part in parts)
    elif kind is Kind.GRADIENT:
        yield from _of_gradients(snippet, parts)
    elif kind is Kind.MUTATION:
        yield from (Form(kind, name, (call,)) for name in names)
        yield from (Form(kind, f"{name}.stride()", (call,)) for name in names)
    elif kind in (Kind.ALIAS, Kind.IDENTITY):
        yield from _of_pairs(snippet, kind, parts)
    elif kind is Kind.RNG:
        yield Form(kind, "torch.rand(2)", (_SEEDED, call))
    else:
        yield Form(kind, call)


def _of_gradients(snippet: Snippet, parts: Sequence[str]) -> Iterator[Form]:
    leaves = [name for name, value in snippet.inputs if "requires_grad" in value]
    wanted = [f"{name}.grad" for name in leaves] or [f"[p.grad for p in {SIDE}.parameters()]"]
    for loss in _LOSSES:
        outs = [f"{part}{loss}" for part in parts]
        if len(parts) > 1:
            outs.append(f"sum(t{loss} for t in {snippet.call})")
        written = [(snippet.call, f"{name}{loss}.backward()") for name in snippet.names if name not in leaves]
        for statements in (*((f"{out}.backward()",) for out in outs), *written):
            yield from (Form(Kind.GRADIENT, grad, statements) for grad in wanted)
    yield from (Form(Kind.REQUIRES_GRAD, f"{part}.requires_grad") for part in parts)  # where there is none at all


def _of_pairs(snippet: Snippet, kind: Kind, parts: Sequence[str]) -> Iterator[Form]:
    """Pairs of outputs and inputs, and of outputs, that are one object or share memory."""
    if kind is Kind.IDENTITY:
        relations = ["{a} is {b}"]
    else:
        relations = ["{a}.data_ptr() == {b}.data_ptr()"]
        relations.append("{a}.untyped_storage().data_ptr() == {b}.untyped_storage().data_ptr()")
    count = snippet.outputs or 0
    outs = [f"out{i}" for i in range(count)]
    for relation in relations:
        for part in parts:
            yield from (Form(kind, relation.format(a=part, b=name)) for name in snippet.names)
        together = (f"{', '.join(outs)} = {snippet.call}",)
        for i, a in enumerate(outs):
            yield from (Form(kind, relation.format(a=a, b=b), together) for b in outs[:i])
