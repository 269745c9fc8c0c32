"""Attention: as one call, and spelled out as models do."""

from __future__ import annotations

from fxmorph.programs.generator.draft import Draft, Value
from fxmorph.programs.generator.fresh_inputs import given
from fxmorph.programs.generator.operands import shaped
from fxmorph.programs.generator.product_rows import product
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.shapes import sizes
from fxmorph.programs.generator.spans import BITS, Span
from fxmorph.programs.generator.strided import Layout

ROWS = Rows()


#: Of scores with places that are masked out: nothing but a softmax is fit for them.
MASKED = BITS._replace(rounded=True)


def _attention_operands(draft: Draft) -> tuple[Value, Value, Value]:
    b, h = draft.dice.between(1, 2), draft.dice.between(1, 3)
    length, kept, width = (
        draft.dice.one_of((1, 3, 4, 7, 8, 9)),
        draft.dice.one_of((1, 3, 5, 8, 9)),
        draft.dice.one_of((2, 4, 8, 16)),
    )
    dtype = draft.mood.dtype if draft.mood.dtype in ("float32", "float64", "bfloat16") else "float32"
    q = shaped(draft, (b, h, length, width), dtype)
    k = shaped(draft, (b, h, kept, width), dtype)
    v = shaped(draft, (b, h, kept, draft.dice.one_of((width, width, 5))), dtype)
    return q, k, v


@ROWS.add("attention", 5)
def _attention(draft: Draft) -> None:
    q, k, v = _attention_operands(draft)
    shape, length, kept = (*q.shape[:3], v.shape[3]), q.shape[2], k.shape[2]
    parts, arguments = [q, k, v], [q.name, k.name, v.name]
    kind = draft.dice.below(4)
    if kind == 1:
        mask = given(draft, draft.dice.one_of(((length, kept), (q.shape[0], 1, length, kept))), q.dtype)
        parts, arguments = [*parts, mask], [*arguments, f"attn_mask={mask.name}"]
    elif kind == 2:
        arguments.append("is_causal=True")
    elif kind == 3:
        mask = draft.emit(
            f"torch.ones({length}, {kept}, dtype=torch.bool).tril({draft.dice.below(3)})",
            (length, kept),
            "bool",
            Span(0, 1, True, False),
            [],
        )
        parts, arguments = [*parts, mask], [*arguments, f"attn_mask={mask.name}"]
    if draft.dice.chance(0.3):
        arguments.append(f"scale={draft.dice.one_of(('0.5', '0.25', '1.0'))}")
    draft.emit(
        f"F.scaled_dot_product_attention({', '.join(arguments)})",
        shape,
        q.dtype,
        v.span._replace(whole=False, rounded=True),
        parts,
        dense=False,
    )


@ROWS.add("attention_by_hand", 6)
def _attention_by_hand(draft: Draft) -> None:
    """Spelled out as models do, so that patterns for attention are met."""
    q, k, v = _attention_operands(draft)
    batch, heads, length, width = q.shape
    kept = k.shape[2]
    size = (batch, heads, length, kept)
    turned = draft.dice.one_of((f"{k.name}.transpose(-2, -1)", f"{k.name}.mT", f"{k.name}.permute(0, 1, 3, 2)"))
    scale = draft.dice.one_of((f" / {width**0.5:.4g}", f" * {width**-0.5:.4g}", "", " * 0.5", ".div(2.0)"))
    brackets = ("({})" if scale else "{}").format
    multiply = draft.dice.one_of((f"{q.name} @ {turned}", f"torch.matmul({q.name}, {turned})"))
    scores = draft.emit(
        f"{brackets(multiply)}{scale}",
        size,
        q.dtype,
        product(q, k, width)._replace(whole=False, rounded=True),
        [q, k],
        dense=False,
    )
    kind = draft.dice.below(4)
    if kind == 1:
        mask = given(
            draft, draft.dice.one_of(((length, kept), (batch, 1, 1, kept), (batch, heads, length, kept))), q.dtype
        )
        scores = draft.emit(
            f"{scores.name} + {mask.name}",
            size,
            q.dtype,
            Span(scores.span.lo + mask.span.lo, scores.span.hi + mask.span.hi),
            [scores, mask],
            dense=False,
        )
    elif kind == 2:
        mask = given(draft, draft.dice.one_of(((length, kept), (batch, 1, 1, kept))), "bool")
        fill = draft.dice.one_of(
            ("-100.0", "-1e4", "torch.finfo(torch.float32).min" if q.dtype == "float32" else "-1e4")
        )
        scores = draft.emit(
            f"{scores.name}.masked_fill({mask.name}, {fill})",
            size,
            q.dtype,
            MASKED,
            [scores, mask],
            dense=False,
            copied=True,
        )
    elif kind == 3 and kept == length:
        mask = draft.emit(
            f"torch.ones({length}, {kept}, dtype=torch.bool).tril()",
            (length, kept),
            "bool",
            Span(0, 1, True, False),
            [],
        )
        scores = draft.emit(
            f"torch.where({mask.name}, {scores.name}, float('-inf'))",
            size,
            q.dtype,
            MASKED,
            [scores, mask],
            dense=False,
            copied=True,
        )
    typed = ", dtype=torch.float32" if q.dtype == "float32" and draft.dice.chance(0.2) else ""
    weights = draft.emit(
        f"torch.softmax({scores.name}, dim=-1{typed})", size, q.dtype, Span(0, 1), [scores], dense=False
    )
    out = draft.emit(
        f"{weights.name} @ {v.name}",
        (batch, heads, length, v.shape[3]),
        q.dtype,
        v.span._replace(whole=False, rounded=True),
        [weights, v],
        dense=False,
    )
    if draft.dice.chance(0.4):
        shape = (batch, length, heads * v.shape[3])
        # With one head it is a view.
        draft.alias(f"{out.name}.transpose(1, 2).reshape({sizes(shape)})", out, Layout(shape, None))
