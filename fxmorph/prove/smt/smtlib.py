"""SMT-LIB 2 text of queries, in the standard's own operators, so that any solver reads it.

z3's printer leaks names of its internals (``bvudiv_i``); here a term is written as it was built, each
shared node once as a defined constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import z3

_RENAMED = {
    "if": "ite",
    "iff": "=",
    "implies": "=>",
    "RNE": "RNE",
    "roundNearestTiesToEven": "RNE",
    "fp.to_ieee_bv": "fp.to_ieee_bv",
}
#: Operators of z3 whose decl carries indices that SMT-LIB writes too.
_INDEXED = frozenset("to_fp to_fp_unsigned fp.to_sbv fp.to_ubv extract sign_extend zero_extend".split())
_PREFIXED = ("+zero", "-zero", "+oo", "-oo", "NaN")


def text(assertions: Sequence[Any], logic: str = "ALL") -> str:
    """A script that declares, asserts and checks; ``unsat`` is the answer sought."""
    out = [f"(set-logic {logic})"]
    names: dict[int, str] = {}
    declared: set[str] = set()
    roots = []
    for assertion in assertions:
        for node in _postorder(assertion, names):
            names[node.get_id()] = _written(node, names, declared, out)
        roots.append(names[assertion.get_id()])
    out += [f"(assert {r})" for r in roots]
    return "\n".join([*out, "(check-sat)", ""])


def _postorder(root: Any, known: dict[int, str]) -> list[Any]:
    order, stack, seen = [], [(root, False)], set(known)
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node.get_id() not in seen:
            seen.add(node.get_id())
            stack.append((node, True))
            if not _is_numeral(node):
                stack += [(c, False) for c in reversed(node.children())]
    return order


def _is_numeral(node: Any) -> bool:
    return isinstance(node, (z3.FPNumRef, z3.BitVecNumRef, z3.RatNumRef, z3.IntNumRef))


def _written(node: Any, names: dict[int, str], declared: set[str], out: list[str]) -> str:
    if _is_numeral(node):
        return _numeral(node)
    decl = node.decl()
    name = decl.name()
    if z3.is_true(node) or z3.is_false(node):
        return str(name)
    if decl.kind() == z3.Z3_OP_UNINTERPRETED:
        if name not in declared:
            declared.add(name)
            sorts = " ".join(decl.domain(i).sexpr() for i in range(decl.arity()))
            out.append(f"(declare-fun {name} ({sorts}) {decl.range().sexpr()})")
        if not node.num_args():
            return str(name)
        head = str(name)
    elif name in _INDEXED:
        indices = " ".join(str(p) for p in _indices(node))
        head = f"(_ {name} {indices})"
    else:
        head = _RENAMED.get(name, name)
    if not node.num_args():
        return str(node.sexpr())
    if name in ("and", "or") and node.num_args() == 1:
        return names[node.arg(0).get_id()]
    inner = " ".join(names[c.get_id()] for c in node.children())
    written = f"({head} {inner})"
    if len(written) < 24:
        return written
    fresh = f"t{len(out)}"
    out.append(f"(define-fun {fresh} () {node.sort().sexpr()} {written})")
    return fresh


def _indices(node: Any) -> list[int]:
    sort = node.sort()
    if z3.is_fp_sort(sort):
        return [sort.ebits(), sort.sbits()]
    return list(node.decl().params())


def _numeral(node: Any) -> str:
    if isinstance(node, z3.RatNumRef):
        top, bottom = node.numerator_as_long(), node.denominator_as_long()
        size = f"{abs(top)}.0" if bottom == 1 else f"(/ {abs(top)}.0 {bottom}.0)"
        return f"(- {size})" if top < 0 else size
    if isinstance(node, z3.IntNumRef):
        return f"(- {-node.as_long()})" if node.as_long() < 0 else str(node.as_long())
    return str(node.sexpr())
