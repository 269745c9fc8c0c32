"""The title of a report, as a person would write it: what the program does, and what comes out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from fxmorph.core.finding_parts import Draft
from fxmorph.model import Finding, Kind
from fxmorph.triage.folder.graph_files import exhibit_of
from fxmorph.triage.folder.hand_style import hand_function
from fxmorph.triage.folder.program_text import readable
from fxmorph.triage.folder.unit_words import pass_name, prefix

#: Characters of a title, and of code in it.
MOST, MOST_CODE = 96, 52
#: Operators that a title names, and a row of a table.
MOST_OPERATORS = 3
#: Operators that say little where there are others.
PLAIN = frozenset(
    "view reshape permute transpose unsqueeze squeeze expand contiguous clone detach to float size add sub mul div "
    "t mT relu requires_grad_ getitem".split()
)
#: What comes out, by kind, where no more is known.
_SAID: Mapping[Kind, str] = {
    Kind.VALUE: "returns wrong values",
    Kind.NONFINITE: "differs from eager in NaN or Inf",
    Kind.DTYPE: "returns another dtype than eager",
    Kind.SHAPE: "returns another shape than eager",
    Kind.STRUCTURE: "returns another structure than eager",
    Kind.STRIDE: "returns other strides than eager",
    Kind.OFFSET: "returns another storage offset than eager",
    Kind.DEVICE: "returns a tensor on another device than eager",
    Kind.ALIAS: "shares other memory than in eager",
    Kind.IDENTITY: "returns another object than in eager",
    Kind.MUTATION: "leaves wrong values in its input",
    Kind.GRADIENT: "gives wrong gradients",
    Kind.REQUIRES_GRAD: "returns another requires_grad than eager",
    Kind.RNG: "draws other random numbers than eager under fallback_random",
    Kind.RAISES: "raises, or does not, other than eager",
    Kind.SECOND_CALL: "is wrong on the second call",
    Kind.OUT_OF_BOUNDS: "reaches beyond the memory of a buffer",
    Kind.POISON: "reads memory before it is written",
    Kind.ORDER: "hangs on the order of iterations",
    Kind.COMPILE_ERROR: "does not compile",
    Kind.CRASH: "crashes the process",
    Kind.TIMEOUT: "does not end",
}
#: Kinds of which both sides stand in the title, by what is named.
_INSTEAD: Mapping[Kind, str] = {
    Kind.DTYPE: "", Kind.SHAPE: "shape ", Kind.STRIDE: "strides ", Kind.OFFSET: "storage offset ", Kind.DEVICE: "",
    Kind.REQUIRES_GRAD: "requires_grad=",
}  # fmt: skip
#: Kinds that the layout of an input may decide.
_OF_LAYOUT = frozenset({Kind.VALUE, Kind.STRIDE, Kind.OFFSET})
#: Exceptions that say where another was raised.
_WRAPPERS = frozenset({"BackendCompilerFailed", "InductorError", "LoweringException"})
_SIZE = re.compile(r"torch\.Size\((.*)\)")
#: Of a snippet that prints one of several results.
_ONE_RESULT = re.compile(r"\b[fg]\([\w, ]*\)\[(\d+)\](?!\()")
_NUMBER = re.compile(r"(?<![\w.])-?\d+\.?\d*(?:e[-+]?\d+)?(?![\w.])")


def title(finding: Finding) -> str:
    """One line: which part of the compiler, what the program does, what comes out, and when."""
    said, name = _outcome(finding), pass_name(finding.unit)
    for subject in _subjects(finding):
        line = f"{prefix(finding)} {subject} {said}"
        if len(line) <= MOST:
            for more in (_conditions(finding), f" (`{name}`)" if name else ""):
                line += more if len(line + more) <= MOST else ""
            return line
    return line


def what(finding: Finding) -> str:
    """What is wrong, in words."""
    return ", ".join(_SAID[k] for k in finding.kinds)


def main_kind(finding: Finding) -> Kind:
    """The kind that the snippet shows, else the first that a title can tell."""
    if finding.draft and finding.draft.shown:
        return Kind(finding.draft.shown)
    return next((kind for kind in _SAID if kind in finding.kinds), finding.kinds[0])


# -- what it does --------------------------------------------------------------


def _subjects(finding: Finding) -> Iterator[str]:
    """What the program does, most exact first."""
    fn = _function(finding)
    if fn is not None:
        code = _code(fn)
        if code and len(code) <= MOST_CODE:
            yield f"`{code}`"
    operators = _operators(finding, fn)
    for most in range(min(len(operators), MOST_OPERATORS), 0, -1):
        yield " + ".join(f"`{name}`" for name in operators[:most])
    yield f"`{operators[0]}`" if operators else "a compiled program"


def _function(finding: Finding) -> ast.FunctionDef | None:
    """The function of the snippet, else of the program."""
    draft = finding.draft or Draft()
    for text, name in ((draft.snippet, "f"), (readable(finding.program), "fn")):
        for node in ast.parse(text).body if text else []:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return _as_printed(node, text)
    return None


def _as_printed(fn: ast.FunctionDef, text: str) -> ast.FunctionDef:
    """``fn`` for the one of its results that the script prints, where that is one of several: others are beside it."""
    last, printed = fn.body[-1], _ONE_RESULT.search(text)
    if printed is None or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Tuple):
        return fn
    body: list[ast.stmt] = [ast.Return(last.value.elts[int(printed[1])])]
    for statement in reversed(fn.body[:-1]):
        used = {node.id for later in body for node in ast.walk(later) if isinstance(node, ast.Name)}
        if _only_makes(statement) - used:
            continue
        body.insert(0, statement)
    return ast.FunctionDef(fn.name, fn.args, body, fn.decorator_list, lineno=fn.lineno)


def _only_makes(statement: ast.stmt) -> set[str]:
    """The name that a statement gives a value to and does nothing else; none where it may do more."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return set()
    parts = list(ast.walk(statement.value))
    writes = any(isinstance(n, ast.Attribute) and n.attr.endswith("_") for n in parts)
    writes |= any(isinstance(n, ast.keyword) and n.arg in ("out", "inplace") for n in parts)
    return set() if writes or len(statement.targets) > 1 else {statement.targets[0].id}


def _code(fn: ast.FunctionDef) -> str:
    """Its body on one line, without what is returned where that is a name; "" where it is no plain function."""
    by_hand = hand_function(fn)
    if by_hand is None:
        return ""
    *others, last = by_hand.body
    last = last.removeprefix("return ")
    return "; ".join(others if others and last.isidentifier() else [*others, last])


def _operators(finding: Finding, fn: ast.FunctionDef | None) -> list[str]:
    """Operators that the accused unit speaks of, then those nearest the output, in the order of the program."""
    if fn is None:
        tree = ast.parse(finding.program) if finding.program else ast.Module([], [])
        # Of a module what is called in its own methods matters, not how it is made.
        methods = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in ("forward", "fn")]
        modules = dict(re.findall(r"self\.(\w+) = (?:torch\.)?nn\.(\w+)\(", finding.program))
        called = [modules.get(name, name) for n in methods for name in _called(n)] or list(finding.operations)
    else:
        called = _called(fn)
    names = list(dict.fromkeys(called))
    words = finding.unit.rpartition("/")[2].lower()
    accused = [n for n in names if n.strip("_") and n.strip("_") in words]
    rest = [n for n in reversed(names) if n not in accused and n not in PLAIN]
    plain = [n for n in reversed(names) if n not in accused and n in PLAIN]
    chosen = [*accused, *rest, *([] if accused or rest else plain)][:MOST_OPERATORS]
    return sorted(chosen, key=names.index)


def _called(fn: ast.AST) -> list[str]:
    """Names of what is called, first first."""
    calls = [n for n in ast.walk(fn) if isinstance(n, ast.Call) and isinstance(n.func, (ast.Attribute, ast.Name))]
    calls.sort(key=lambda n: (n.end_lineno or 0, n.end_col_offset or 0))
    names = [n.func.attr if isinstance(n.func, ast.Attribute) else ast.unparse(n.func) for n in calls]
    return [name for name in names if name not in ("float", "slice", "int", "tuple", "list")]


# -- what comes out ------------------------------------------------------------


def _outcome(finding: Finding) -> str:
    kind, draft = main_kind(finding), finding.draft or Draft()
    return (_told(kind, finding, draft) or _SAID[kind]) + _when(finding, kind)


def _when(finding: Finding, kind: Kind) -> str:
    """In which calls, where not in the first one."""
    if finding.stage == "cache":
        return " when compile caches answer"
    return " on the second call" if Kind.SECOND_CALL in finding.kinds and kind is not Kind.SECOND_CALL else ""


def _told(kind: Kind, finding: Finding, draft: Draft) -> str:
    """More than the kind, where it was seen; else ""."""
    mine, theirs = draft.eager, draft.compiled
    if kind in (Kind.RAISES, Kind.COMPILE_ERROR):
        return what_raises(kind, exhibit_of(finding).raised)
    if not mine or not theirs:
        return ""
    if (
        kind is Kind.VALUE
        and "drive" in finding.program
        and any(row[2] == "yes" for row in exhibit_of(finding).relations)
    ):
        return "returns memory that it does not share in eager"
    if kind in _INSTEAD:
        return f"returns {_INSTEAD[kind]}{_short(theirs)} instead of {_short(mine)}"
    if kind in (Kind.ALIAS, Kind.IDENTITY) and {mine, theirs} == {str(True), str(False)}:
        return _related(kind, draft.snippet, theirs == str(True))
    if kind is Kind.GRADIENT and _all_zero(theirs) and not _all_zero(mine):
        return "gives zero gradients"
    if kind in (Kind.VALUE, Kind.NONFINITE, Kind.GRADIENT):
        for word in ("nan", "inf"):
            if (word in theirs) != (word in mine):
                there, here = ("compiled", "eager") if word in theirs else ("eager", "compiled")
                said = {"nan": "NaN", "inf": "Inf"}[word]
                return f"gives {said} where {here} is finite" if there == "compiled" else f"loses the {said} of eager"
    return ""


def what_raises(kind: Kind, raised: tuple[str, str]) -> str:
    """Which side raises what, of those two; "" where that is not known."""
    mine, theirs = map(_exception, raised)
    if kind is Kind.COMPILE_ERROR:
        return f"does not compile: {theirs}" if theirs else ""
    if mine and not theirs:
        return f"does not raise the {mine} of eager"
    return f"raises {theirs}, eager does not" if theirs and not mine else ""


def _exception(said: str) -> str:
    """The name of the exception that the compiler wrapped, else of the one that was raised."""
    names = [said.partition(":")[0], *re.findall(r"\b(\w+(?:Error|Exception))(?=:)", said)]
    return next((name for name in names if name not in _WRAPPERS), names[0])


def _related(kind: Kind, snippet: str, more: bool) -> str:
    """``more``: compiled shares or is what eager does not."""
    outputs = "out1" in snippet
    if kind is Kind.IDENTITY:
        other = "one object twice" if outputs else "its input itself"
        return f"returns {other}" if more else f"returns a new tensor instead of {other}"
    if more:
        return "returns outputs that share memory" if outputs else "returns memory of its input"
    return "returns outputs that no longer share memory" if outputs else "returns a copy instead of a view of its input"


def _all_zero(text: str) -> bool:
    numbers = _NUMBER.findall(text)
    return bool(numbers) and not any(float(n) for n in numbers)


def _short(text: str) -> str:
    return _SIZE.sub(r"\1", text).removeprefix("torch.")


# -- when ----------------------------------------------------------------------


def _conditions(finding: Finding) -> str:
    """Essential facts of the inputs and of the compile."""
    draft, config = finding.draft or Draft(), finding.config
    snippet = draft.snippet
    said = []
    made = re.sub(r"def f\(.*?\n\n", "", snippet, flags=re.DOTALL)
    dtypes = list(dict.fromkeys(re.findall(r"dtype=torch\.(\w+)", made)))
    if main_kind(finding) in _OF_LAYOUT and re.search(r"\.(mT|t\(\)|as_strided\()", made):
        said.append(" for a strided input" if ".as_strided(" in made else " for a transposed input")
    if len(dtypes) == 1 and dtypes[0] not in ("float32", "int64"):
        said.append(f" for {dtypes[0]}")
    options = {**(config.get("compile") or {})}
    said += [f" with {k}={v}" for k, v in options.items() if k in ("dynamic", "mode") and v is not None]
    if config.get("context") == "autocast":
        said.append(" under autocast")
    if config.get("sizes"):
        said.append(" at a second size")
    return "".join(said)
