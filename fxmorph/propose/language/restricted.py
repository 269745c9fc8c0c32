"""The restricted language: bodies of proposals as text, checked, then interpreted.

The text is parsed by ``ast`` and every node of it checked against what is allowed (``allowed.py``);
nothing is compiled or executed as Python.  A :class:`Body` walks the checked tree over whatever it
is given: tensors, recorded tensors (``tracing.py``) whose FX graph it so builds, tensors of unknown
sizes (``prove/sizes/layout_proof.py``).  Loops unroll while it runs.  Text, depth, nodes, steps, integers and
sequences are limited; the sizes of tensors by ``building.estimate``, on fake tensors, before anything is
allocated.
"""

from __future__ import annotations

import ast
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from fxmorph.propose.language.allowed import BUILTINS, LIMIT_ATTRIBUTES, METHODS, RESULT_ATTRIBUTES, TENSOR_ATTRIBUTES
from fxmorph.propose.language.grammar import MAX_INT, MODULES, TooLarge, dotted, parse_body
from fxmorph.propose.proposal import Malformed, Unsupported

#: Expressions and statements that one run may evaluate, and elements of a sequence and of a tensor.
MAX_STEPS, MAX_SEQUENCE, MAX_ELEMENTS = 20_000, 1_024, 1_000_000

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}  # fmt: skip
_IN_PLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul, ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod, ast.Pow: operator.ipow, ast.BitAnd: operator.iand,
    ast.BitOr: operator.ior, ast.BitXor: operator.ixor, ast.LShift: operator.ilshift, ast.RShift: operator.irshift,
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
    ast.Is: operator.is_, ast.IsNot: operator.is_not,
}  # fmt: skip


class Body:
    """A checked body as a callable over its parameters, which ``inspect.signature`` names.

    ``args`` are symbolic shapes by name; a size named in the body is read off the first argument
    that has it.  ``text`` is what was written.  Raises at call what the operations raise, and
    :class:`TooLarge`.
    """

    def __init__(self, text: str, args: Mapping[str, str], scalars: Sequence[str] = (), torch_: Any = torch) -> None:
        sizes = _places(args)
        clash = set(sizes) & {*args, *scalars} or {*args, *scalars} & {*MODULES, *BUILTINS}
        if clash:
            raise Malformed(f"{min(clash)!r} names two things")
        self.text, self._args, self._scalars, self._torch = text, dict(args), tuple(scalars), torch_
        self._statements = parse_body(text, (*args, *scalars, *sizes))
        used = {n.id for s in self._statements for n in ast.walk(s) if isinstance(n, ast.Name)}
        self._sizes = {word: place for word, place in sizes.items() if word in used}
        self.parameters = [n for n in args if n in used or any(n == arg for arg, _ in self._sizes.values())]
        self.parameters += [n for n in scalars if n in used]
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kind) for n in self.parameters])

    def under(self, torch_: Any) -> Body:
        """The same body over another ``torch``, as ``prove/sizes/`` has one of tensors of unknown sizes."""
        return Body(self.text, self._args, self._scalars, torch_)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = self.__signature__.bind(*args, **kwargs).arguments
        names = {**given, **{w: given[a].shape[i] for w, (a, i) in self._sizes.items()}}
        return _Run(names, self._torch).body(self._statements)


def _places(args: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    """Each named size: the first argument that has it and the index in its shape."""
    out: dict[str, tuple[str, int]] = {}
    for name, text in args.items():
        words = text.split()
        dots = words.index("...") if "..." in words else len(words)
        for i, word in enumerate(words):
            if word.isidentifier():
                out.setdefault(word, (name, i if i < dots else i - len(words)))
    return out


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor or stands for one: torch asks its type what to do."""
    return hasattr(type(value), "__torch_function__")


class _Run:
    """One run of a checked body."""

    def __init__(self, names: dict[str, Any], torch_: Any) -> None:
        self.names, self.torch, self.steps = names, torch_, 0

    def body(self, statements: Sequence[ast.stmt]) -> Any:
        for s in statements[:-1]:
            self.statement(s)
        last = statements[-1]
        assert isinstance(last, ast.Return) and last.value is not None
        return self.value(last.value)

    def statement(self, s: ast.stmt) -> None:
        self.step()
        if isinstance(s, ast.Assign):
            value = self.value(s.value)
            for target in s.targets:
                self.assign(target, value)
        elif isinstance(s, ast.AugAssign):
            op = _IN_PLACE[type(s.op)]
            if isinstance(s.target, ast.Name):
                self.names[s.target.id] = self.binary(type(s.op), op, self.names[s.target.id], self.value(s.value))
            else:
                assert isinstance(s.target, ast.Subscript)
                holder, index = self.value(s.target.value), self.value(s.target.slice)
                part = self.binary(type(s.op), op, holder[index], self.value(s.value))
                self.put(holder, index, part)
        elif isinstance(s, ast.For):
            for item in self.items(self.value(s.iter)):
                self.assign(s.target, item)
                for inner in s.body:
                    self.statement(inner)
        elif isinstance(s, ast.If):
            for inner in s.body if self.truth(self.value(s.test)) else s.orelse:
                self.statement(inner)
        elif isinstance(s, ast.Expr):
            self.value(s.value)

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, ast.Subscript):
            self.put(self.value(target.value), self.value(target.slice), value)
        else:
            assert isinstance(target, (ast.Tuple, ast.List))
            parts = self.items(value)
            if len(parts) != len(target.elts):
                raise ValueError(f"{len(parts)} values for {len(target.elts)} names")
            for one, part in zip(target.elts, parts, strict=True):
                self.assign(one, part)

    def put(self, holder: Any, index: Any, value: Any) -> None:
        if not is_tensor(holder):
            raise Malformed("only elements of tensors can be assigned")
        holder[index] = value

    # -- expressions -----------------------------------------------------------

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooLarge(f"more than {MAX_STEPS} steps")

    def value(self, e: ast.expr) -> Any:
        self.step()
        match e:
            case ast.Constant():
                return e.value
            case ast.Name():
                return self.names[e.id]
            case ast.Tuple():
                return tuple(self.several(e.elts))
            case ast.List():
                return self.several(e.elts)
            case ast.Slice():
                return slice(*(None if p is None else self.value(p) for p in (e.lower, e.upper, e.step)))
            case ast.Subscript():
                holder = self.value(e.value)
                if isinstance(holder, str):
                    raise Malformed("a text has no parts")
                return holder[self.value(e.slice)]
            case ast.UnaryOp(op=ast.Not()):
                return not self.truth(self.value(e.operand))
            case ast.UnaryOp():
                return self.bounded(_UNARY[type(e.op)](self.value(e.operand)))
            case ast.BinOp():
                return self.binary(type(e.op), _BINARY[type(e.op)], self.value(e.left), self.value(e.right))
            case ast.BoolOp():
                return self.connected(e)
            case ast.Compare():
                return self.compared(e)
            case ast.IfExp():
                return self.value(e.body if self.truth(self.value(e.test)) else e.orelse)
            case ast.Attribute():
                return self.attribute(e)
            case ast.Call():
                return self.call(e)
            case ast.ListComp() | ast.GeneratorExp():
                return list(self.comprehended(e.elt, e.generators))
        raise Malformed(f"{type(e).__name__} is not part of the language")

    def several(self, parts: Sequence[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for part in parts:
            out += self.items(self.value(part.value)) if isinstance(part, ast.Starred) else [self.value(part)]
            self.limited(len(out))
        return out

    def comprehended(self, element: ast.expr, loops: Sequence[ast.comprehension]) -> Iterator[Any]:
        loop, *inner = loops
        for item in self.items(self.value(loop.iter)):
            self.assign(loop.target, item)
            if all(self.truth(self.value(test)) for test in loop.ifs):
                if inner:
                    yield from self.comprehended(element, inner)
                else:
                    yield self.value(element)

    def binary(self, kind: type[ast.operator], op: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if isinstance(left, str) or isinstance(right, str):
            raise Malformed("texts cannot be computed with")
        if isinstance(left, int) and isinstance(right, int):
            if kind is ast.Pow and abs(right) * max(left.bit_length(), 1) > 128 and abs(left) > 1:
                raise TooLarge(f"{left} ** {right}")
            if kind is ast.LShift and right > 64:
                raise TooLarge(f"{left} << {right}")
        for a, b in ((left, right), (right, left)):
            if isinstance(a, (tuple, list)) and isinstance(b, int):
                self.limited(len(a) * max(b, 0))
        return self.bounded(op(left, right))

    def bounded(self, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > MAX_INT:
            raise TooLarge(f"an integer of {value.bit_length()} bits")
        if isinstance(value, torch.Tensor) and value.numel() > MAX_ELEMENTS:
            raise TooLarge(f"a tensor of {value.numel()} elements; at most {MAX_ELEMENTS}")
        if isinstance(value, (tuple, list)):
            self.limited(len(value))
        return value

    def limited(self, length: int) -> None:
        if length > MAX_SEQUENCE:
            raise TooLarge(f"a sequence of {length}; at most {MAX_SEQUENCE}")

    def connected(self, e: ast.BoolOp) -> Any:
        value: Any = None
        for part in e.values:
            value = self.value(part)
            if self.truth(value) is isinstance(e.op, ast.Or):
                break
        return value

    def compared(self, e: ast.Compare) -> Any:
        left = self.value(e.left)
        for op, part in zip(e.ops, e.comparators, strict=True):
            right = self.value(part)
            result = _COMPARE[type(op)](left, right)
            if len(e.ops) == 1:
                return result
            if not self.truth(result):
                return False
            left = right
        return True

    def truth(self, value: Any) -> bool:
        if is_tensor(value):
            raise Malformed("control flow on a tensor's values")
        return bool(value)

    def items(self, value: Any) -> list[Any]:
        if isinstance(value, str) or is_tensor(value):
            raise Malformed("only sequences can be taken apart")
        if isinstance(value, (tuple, list, range)):
            self.limited(len(value))
        return list(value)

    def attribute(self, e: ast.Attribute) -> Any:
        path = dotted(e)
        if path:
            return self.found(path)
        holder, name = self.value(e.value), e.attr
        if is_tensor(holder):
            fine = name in TENSOR_ATTRIBUTES
        elif isinstance(holder, (torch.finfo, torch.iinfo)):
            fine = name in LIMIT_ATTRIBUTES
        else:
            fine = isinstance(holder, tuple) and name in RESULT_ATTRIBUTES
        if not fine:
            raise Malformed(f"{type(holder).__name__} has no attribute {name!r} in the language")
        return getattr(holder, name)

    def found(self, path: str) -> Any:
        """What a checked path of torch names."""
        value = self.torch
        for part in path.split(".")[1:]:
            try:
                value = getattr(value, part)
            except AttributeError:
                raise Unsupported(f"{path}, which this torch ({torch.__version__}) does not have") from None
        return value

    def call(self, e: ast.Call) -> Any:
        path = dotted(e.func)
        method = isinstance(e.func, ast.Attribute) and not path
        holder = self.value(e.func.value) if method and isinstance(e.func, ast.Attribute) else None
        args = self.several(e.args)
        kwargs = {k.arg: self.value(k.value) for k in e.keywords if k.arg is not None}
        if isinstance(e.func, ast.Name):
            return self.builtin(e.func.id, args, kwargs)
        if path:
            return self.bounded(self.found(path)(*args, **kwargs))
        assert isinstance(e.func, ast.Attribute)
        name = e.func.attr
        if name == "append" and isinstance(holder, list):
            self.limited(len(holder) + 1)
            holder.append(*args)
            return None
        if not is_tensor(holder) or name not in METHODS:
            raise Malformed(f"{type(holder).__name__} has no method {name!r} in the language")
        return self.bounded(getattr(holder, name)(*args, **kwargs))

    def builtin(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if name == "abs":
            return abs(*args)
        if name == "len" and is_tensor(args[0]):
            return args[0].shape[0]
        if any(map(is_tensor, args)):
            raise Malformed(f"{name}() of a tensor")
        texts = [a for a in args if isinstance(a, str)]
        if texts and (name != "float" or texts[0] not in ("inf", "-inf", "nan")):
            raise Malformed(f"{name}() of a text")
        made = _CALLS[name](*args, **kwargs)
        if isinstance(made, range):
            self.limited(len(made))
        if isinstance(made, (enumerate, zip)):
            return list(made)
        return self.bounded(made)


_CALLS: dict[str, Callable[..., Any]] = {
    "len": len, "min": min, "max": max, "int": int, "float": float, "bool": bool, "range": range, "sum": sum,
    "enumerate": enumerate, "zip": zip, "tuple": tuple, "list": list, "round": round, "complex": complex,
    "slice": slice,
}  # fmt: skip
