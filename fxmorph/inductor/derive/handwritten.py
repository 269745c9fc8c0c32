"""Programs written for pattern entries whose pattern says too little of what their handler asks for.

Each is graph text and the specs of its inputs; the calls are spelled as the stage of the entry has
them (before AOTAutograd in torch's own functions and methods, after it in ATen).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fxmorph.inductor.derive.derived_graph import InputSpec
from fxmorph.inductor.derive.sketch import Sketch

_SPLIT = "s = torch.functional.split(x, [2, 2, 4], dim=1)\n"
_PARTS = "a = s[0]\nb = s[1]\nc = s[2]\n"
_SIX = "s = torch.functional.split(x, [2, 2, 2, 2, 2, 2], dim=1)\n" + "".join(f"p{i} = s[{i}]\n" for i in range(6))
_UNBIND = "u = torch.unbind(x, dim=0)\na = u[0]\nb = u[1]\nc = u[2]\n"
_UNBIND_1 = "u = torch.unbind(x, dim=1)\n" + "".join(f"p{i} = u[{i}]\n" for i in range(4))
_ATEN_SPLIT = "s = torch.ops.aten.split_with_sizes.default(x, [2, 2, 2], 1)\na = s[0]\nb = s[1]\nc = s[2]\n"
_DQ = "d0 = torch.ops.quantized_decomposed.dequantize_per_tensor.default({}, 0.1, 3, 0, 255, torch.uint8)\n"
_SOFTMAX = "m = torch.ops.aten.amax.default(s, [1], True)\no = torch.ops.aten.sub.Tensor(s, m)\nreturn (o,)"
_BN = "o = torch.nn.functional.batch_norm(c, m, v, w, b, False, 0.1, 1e-05)\nreturn (o,)"
_BN_INPUTS = "x=float32[2,4,6,6] k=float32[8,4,3,3] m=float32[8] v=float32[8]:positive w=float32[8] b=float32[8]"


def _qconv(total: str, swapped: bool) -> str:
    operands = "d, q" if swapped else "q, d"
    return (
        "d = torch.ops.quantized_decomposed.dequantize_per_tensor.default(y, 0.2, 2, 0, 255, torch.uint8"
        + (", out_dtype=torch.bfloat16" if "bfloat16" in total else "")
        + ")\nq = torch.ops.onednn.qconv_pointwise.default(x, 0.1, 3, w, s, z, b, [1, 1], [0, 0], [1, 1], 1, 1.0, 0, "
        + ("torch.bfloat16" if "bfloat16" in total else "torch.float32")
        + f", 'none', [], '')\nt = torch.ops.aten.add.Tensor({operands})\n{total}"
    )


_QCONV_INPUTS = (
    "x=uint8[2,8,8,8] y=uint8[2,8,8,8] w=int8[8,8,1,1]:packed-conv:const s=float32[8]:positive:const "
    "z=int64[8]:=0:const b=float32[8]:const"
)
_RELU = "r = torch.ops.aten.relu.default(t)\nreturn (r,)"
_TO_BF16 = "k = torch.ops.prims.convert_element_type.default(t, torch.bfloat16)\n"
_RELU_BF16 = "r = torch.ops.aten.relu.default(k)\nreturn (r,)"
_QCONV = "_register_qconv_post_op_fusion_pass.qconv"
_MAX_POOL = "m = torch.ops.aten.max_pool2d_with_indices.default(d0, "
_LOW_POOL = "m = torch.ops.prims._low_memory_max_pool_with_offsets.default(d0, "
_QUANT = "o = torch.ops.quantized_decomposed.quantize_per_tensor.default(v, 0.1, 3, 0, 255, torch.uint8)\nreturn (o,)"


def _woq(count: int) -> str:
    lines = [
        f"w{i} = torch.ops.prims.convert_element_type.default(q{i}, torch.bfloat16)\n"
        f"m{i} = torch.ops.aten.mm.default(x, w{i})\no{i} = torch.ops.aten.mul.Tensor(m{i}, s{i})\n"
        for i in range(1, count + 1)
    ]
    return "".join(lines) + "return (" + ", ".join(f"o{i}" for i in range(1, count + 1)) + ")"


#: Full name of the entry, the body, its inputs (``name=dtype[sizes]:fill:const``).
_PROGRAMS: tuple[tuple[str, str, str], ...] = (
    (
        "pre_grad.normalization_pass/normalize_split_default",
        "s = x.split(2, 1)\na = s[0]\nreturn (a,)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.normalization_pass/normalize_split_default#2",
        "s = torch.functional.split(x, 2, 1)\na = s[1]\nreturn (a,)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.normalization_pass/normalize_unbind_default",
        "u = x.unbind(-1)\na = u[1]\nreturn (a,)",
        "x=float32[4,3]",
    ),
    (
        "pre_grad.normalization_pass/normalize_unbind_default#2",
        "u = torch.unbind(x, -1)\na = u[1]\nreturn (a,)",
        "x=float32[4,3]",
    ),
    (
        "pre_grad.normalization_pass/normalize_cat_default",
        "o = torch.cat([x, y], -1)\nreturn (o,)",
        "x=float32[2,3] y=float32[2,4]",
    ),
    (
        "pre_grad.normalization_pass/normalize_stack_default",
        "o = torch.stack([x, y], -1)\nreturn (o,)",
        "x=float32[2,3] y=float32[2,3]",
    ),
    ("pre_grad.normalization_pass/normalize_squeeze_default", "o = x.squeeze(1)\nreturn (o,)", "x=float32[2,1,3]"),
    ("pre_grad.normalization_pass/normalize_reshape_default", "o = x.reshape(4, -1)\nreturn (o,)", "x=float32[2,6]"),
    (
        "pre_grad.normalization_pass/normalize_clamp_default",
        "o = torch.clamp(x, -1.0, 1.0)\nreturn (o,)",
        "x=float32[2,6]",
    ),
    ("pre_grad.normalization_pass/normalize_clamp_default#2", "o = x.clamp(-1.0, 1.0)\nreturn (o,)", "x=float32[2,6]"),
    ("pre_grad.normalization_pass/normalize_detach_default", "o = x.detach()\nreturn (o,)", "x=float32[2,6]"),
    (
        "pre_grad.remove_split_with_size_one_pass/remove_split_with_size_one",
        "s = x.split(8, 1)\na = s[0]\no = torch.sin(a)\nreturn (o,)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.remove_split_with_size_one_pass/remove_split_with_size_one#2",
        "s = torch.functional.split(x, [8], dim=1)\na = s[0]\no = torch.sin(a)\nreturn (o,)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.merge_getitem_cat_pass/merge_getitem_cat",
        _SPLIT + _PARTS + "o = torch.cat([a, b], dim=1)\nr = torch.sin(c)\nreturn (o, r)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.merge_splits_pass/merge_splits",
        _SPLIT + _PARTS + "t = torch.functional.split(c, [1, 3], dim=1)\nd = t[0]\ne = t[1]\nreturn (a, b, d, e)",
        "x=float32[3,8]",
    ),
    (
        "pre_grad.mutate_cat_pass/mutate_cat_node",
        _SPLIT + _PARTS + "o = torch.cat([a, b], dim=1)\nr = torch.sin(c)\nreturn (o, r)",
        "x=float32[3,8]",
    ),
    *(
        (
            f"pre_grad.split_cat_pass/merge_split_squeeze{number}",
            "s = torch.functional.split(x, [1, 1], dim=1)\na = s[0]\nb = s[1]\n"
            f"c = torch.squeeze(a, {dim}1)\nd = torch.squeeze(b, {dim}1)\nreturn (c, d)",
            "x=float32[3,2,4]",
        )
        for number in ("", "#2")
        for dim in ("", "dim=")
    ),
    *(
        (
            f"pre_grad.split_cat_pass/simplify_split_cat{number}",
            _SPLIT + _PARTS + f"y = torch.sin(c)\no = torch.cat({call})\nreturn (o, y)",
            "x=float32[3,8]",
        )
        for number in ("", "#2", "#3")
        for call in ("tensors=[a, b, y], dim=1", "[a, b, y], dim=1", "[a, b, y], 1")
    ),
    *(
        (
            f"pre_grad.unbind_stack_pass/merge_unbind_stack{number}",
            _UNBIND + f"o = torch.stack({call})\nreturn (o,)",
            "x=float32[3,8]",
        )
        for number in ("", "#2", "#3")
        for call in ("[a, b, c], 0", "[a, b, c], dim=0", "tensors=[a, b, c], dim=0")
    ),
    (
        "pre_grad.split_cat_to_slices_pass/split_cat_to_slices",
        _SIX + "y = torch.sin(p5)\no = torch.cat([p0, p1, p2, p3, y], dim=1)\nreturn (o,)",
        "x=float32[3,12]",
    ),
    (
        "pre_grad.unbind_cat_to_view_pass/unbind_cat_to_view",
        _UNBIND_1 + "y = torch.sin(p3)\no = torch.cat([p0, p1, p2, y], dim=1)\nreturn (o,)",
        "x=float32[3,4,5]",
    ),
    (
        "pre_grad.split_stack_to_cats_pass/split_stack_to_cats",
        _SIX + "y = torch.sin(p5)\no = torch.stack([p0, p1, p2, p3, y], dim=1)\nreturn (o,)",
        "x=float32[3,12]",
    ),
    (
        "pre_grad.unbind_stack_to_slices_pass/unbind_stack_to_slices",
        _UNBIND_1 + "y = torch.sin(p3)\no = torch.stack([p0, p1, p2, y], dim=1)\nreturn (o,)",
        "x=float32[3,4,5]",
    ),
    (
        "pre_grad.move_reshape_out_of_split_stack_pass/move_reshape_out_of_split_stack",
        _SIX
        + "".join(f"r{i} = torch.reshape(p{i}, (3, 2))\n" for i in range(6))
        + "o = torch.stack([r0, r1, r2, r3, r4, r5], dim=1)\nreturn (o,)",
        "x=float32[3,12]",
    ),
    (
        "pre_grad.einsum_to_pointwise_pass/replace_einsum_to_pointwise",
        "e = torch.functional.einsum('bni, bnio -> bno', x, w)\no = e + y\nreturn (o,)",
        "x=float32[2,3,4] w=float32[2,3,4,5] y=float32[2,3,5]",
    ),
    (
        "pre_grad.apply_gumbel_max_trick_pass/apply_gumbel_max_trick",
        "p = torch.nn.functional.softmax(x, dim=-1)\ne = torch.empty_like(x)\nr = e.exponential_(1.0)\nd = p / r\n"
        "o = torch.argmax(d, dim=-1, keepdim=True)\nreturn (o,)",
        "x=float32[4,8]",
    ),
    (
        "pre_grad.efficient_conv_bn_eval_pass/efficient_conv_bn_eval_graph_transform_inlined",
        "c = torch.conv2d(x, k, None, (1, 1), (1, 1), (1, 1), 1)\n" + _BN,
        _BN_INPUTS,
    ),
    (
        "pre_grad.efficient_conv_bn_eval_pass/efficient_conv_bn_eval_graph_transform_decomposed",
        "c = torch.ops.aten.conv2d.default(x, k, None, [1, 1], [1, 1], [1, 1], 1)\n"
        "o = torch.ops.aten.batch_norm.default(c, w, b, m, v, False, 0.1, 1e-05, False)\nreturn (o,)",
        _BN_INPUTS,
    ),
    (
        "joint.pass_patterns[0]/pointless_convert",
        "a = torch.ops.prims.convert_element_type.default(x, torch.float32)\n"
        "o = torch.ops.prims.convert_element_type.default(a, torch.bfloat16)\nreturn (o,)",
        "x=float16[4,8]",
    ),
    (
        "joint.pass_patterns[0]/scatter_upon_const_tensor",
        "f = torch.ops.aten.full.default([4, 8], 2.5, dtype=torch.float32)\n"
        "o = torch.ops.aten.scatter.value(f, 1, i, 1.5)\nreturn (o,)",
        "i=int64[4,1]",
    ),
    (
        "joint.early_patterns/pointless_view",
        "o = torch.ops.aten.view.default(x, [4, 8])\nreturn (o,)",
        "x=float32[4,8]",
    ),
    *(
        (
            "joint.pass_patterns[1]/" + name,
            call.format("t" if cast else "s") + cast + _SOFTMAX,
            f"x={dtype}[4,8] y={dtype}[4,1]",
        )
        for cast, dtype, names in (
            ("", "float32", ("mul_softmax_pattern", "mul_softmax_pattern#3", "div_softmax_pattern")),
            (
                "s = torch.ops.prims.convert_element_type.default(t, torch.float32)\n",
                "bfloat16",
                ("mul_softmax_pattern#2", "mul_softmax_pattern#4", "div_softmax_pattern#2"),
            ),
        )
        for name, call in zip(
            names,
            (
                "{} = torch.ops.aten.mul.Tensor(x, y)\n",
                "{} = torch.ops.aten.mul.Tensor(y, x)\n",
                "{} = torch.ops.aten.div.Tensor(x, y)\n",
            ),
            strict=True,
        )
    ),
    *(
        (
            f"{where}/_misc_patterns_init.randperm_index_pattern",
            "r = torch.ops.aten.randperm.default(64, device=torch.device('cpu'), pin_memory=False)\n"
            "i = torch.ops.aten.slice.Tensor(r, 0, 0, 42)\no = torch.ops.aten.index.Tensor(x, [i])\nreturn (o, i)",
            "x=float32[64,8]",
        )
        for where in ("joint.pass_patterns[0]", "post_grad.pass_patterns[1]")
    ),
    (
        "freezing.pass_patterns[0]/unnecessary_dtype_convert",
        "o = torch.ops.prims.convert_element_type.default(x, torch.float32)\nreturn (o,)",
        "x=float32[4,8]",
    ),
    (
        "freezing.pass_patterns[0]/addmm_patterns_init.int8_woq_fusion_pattern",
        _woq(3),
        "x=bfloat16[4,8] q1=int8[8,8]:const q2=int8[8,8]:const q3=int8[8,8]:const s1=bfloat16[8]:positive:const "
        "s2=bfloat16[8]:positive:const s3=bfloat16[8]:positive:const",
    ),
    (
        "freezing.pass_patterns[2]/_recover_linear.linear_bias_pattern",
        "t = torch.ops.aten.permute.default(w, [1, 0])\n"
        "k = torch.ops.mkldnn._reorder_linear_weight(t, 4)\n"
        "l = torch.ops.mkldnn._linear_pointwise.default(x, k, None, 'none', [], '')\n"
        "o = torch.ops.aten.add.Tensor(l, b)\nreturn (o,)",
        "x=bfloat16[4,8] w=bfloat16[8,8]:const b=bfloat16[8]:const",
    ),
    (
        "freezing.pass_patterns[4]/_register_concat_linear_int8_woq_lowering.woq_int8",
        "".join(
            f"t{i} = torch.ops.aten.permute.default(w{i}, [1, 0])\n"
            f"c{i} = torch.ops.prims.convert_element_type.default(t{i}, torch.bfloat16)\n"
            for i in (1, 2, 3)
        )
        + "k = torch.ops.aten.cat.default([c1, c2, c3], 1)\nm = torch.ops.aten.mm.default(x, k)\n"
        "o = torch.ops.aten.mul.Tensor(m, s)\nreturn (o,)",
        "x=bfloat16[4,8] w1=int8[8,8]:const w2=int8[8,8]:const w3=int8[8,8]:const s=bfloat16[24]:positive:const",
    ),
    *(
        (f"freezing.pass_patterns[{n}]/{_QCONV}{number}", _qconv(tail, swapped), _QCONV_INPUTS)
        for n, pairs, tail in (
            (3, ("#19", "#20"), _TO_BF16 + _RELU_BF16),
            (4, ("#3", "#4"), _RELU),
            (4, ("#11", "#12"), _TO_BF16 + "return (k,)"),
            (5, ("", "#2"), "return (t,)"),
        )
        for number, swapped in zip(pairs, (False, True), strict=True)
    ),
    *(
        (
            f"post_grad.pass_patterns[1]/_register_quantized_maxpool2d_lowering.qmaxpool2d{number}",
            _DQ.format("x") + pool + f"{args})\nv = m[0]\n" + _QUANT,
            "x=uint8[2,8,8,8]",
        )
        for number, args in (
            *((n, "[2, 2], [2, 2]") for n in ("", "#2")),
            *((n, "[2, 2], [2, 2], [0, 0]") for n in ("#3", "#4")),
            *((n, "[2, 2], [2, 2], [0, 0], [1, 1]") for n in ("#5", "#6")),
            *((n, "[2, 2], [2, 2], [0, 0], [1, 1], False") for n in ("#7", "#8")),
        )
        for pool in (_MAX_POOL, _LOW_POOL)
    ),
    (
        "post_grad.pass_patterns[2]/splitwithsizes_cat_replace",
        _ATEN_SPLIT + "o = torch.ops.aten.cat.default([a, b, c], 1)\nreturn (o,)",
        "x=float32[4,6]",
    ),
    (
        "post_grad.pass_patterns[2]/cat_splitwithsizes_replace",
        "k = torch.ops.aten.cat.default([x, y], 1)\ns = torch.ops.aten.split_with_sizes.default(k, [2, 4], 1)\n"
        "a = s[0]\nb = s[1]\nreturn (a, b)",
        "x=float32[4,2] y=float32[4,4]",
    ),
    *(
        (
            f"post_grad.pass_patterns[2]/register_partial_reduction_pattern.reuse_partial{number}",
            f"p = torch.ops.aten.{red}.default(x, [1], False)\nf = torch.ops.aten.{full}.default(x)\nreturn (p, f)",
            "x=float32[64,64]",
        )
        for number, red, full in (("", "amax", "max"), ("#2", "amin", "min"))
    ),
    (
        "post_grad.pass_patterns[1]/pointless_cumsum_replacement",
        "f = torch.ops.aten.full.default([4, 8], 3, dtype=torch.int64, layout=torch.strided, "
        "device=torch.device('cpu'), pin_memory=False)\no = torch.ops.aten.cumsum.default(f, 1)\n"
        "p = torch.ops.aten.add.Tensor(o, x)\nreturn (p,)",
        "x=int64[4,8]",
    ),
    (
        "post_grad.decompose_mm_pass/decompose_bmm",
        "o = torch.ops.aten.bmm.default(x, y)\nreturn (o,)",
        "x=float32[1,4,8] y=float32[1,8,5]",
    ),
    (
        "post_grad.decompose_mm_pass/decompose_addmm",
        "o = torch.ops.aten.addmm.default(b, x, y)\nreturn (o,)",
        "b=float32[5] x=float32[1,8] y=float32[8,5]",
    ),
    (
        "post_grad.decompose_mm_pass/decompose_mm",
        "o = torch.ops.aten.mm.default(x, y)\nreturn (o,)",
        "x=float32[1,8] y=float32[8,5]",
    ),
    (
        "post_grad.split_cat_aten_pass/merge_split_cat_aten",
        _ATEN_SPLIT + "o = torch.ops.aten.cat.default([a, b, y], dim=1)\nreturn (o, c)",
        "x=float32[4,6] y=float32[4,3]",
    ),
    (
        "post_grad.select_cat_aten_pass/merge_select_cat_aten",
        "".join(f"a{i} = torch.ops.aten.select.int(x, 1, {i})\n" for i in range(3))
        + "o = torch.ops.aten.cat.default([a0, a1, a2], dim=1)\nreturn (o,)",
        "x=float32[4,3,5]",
    ),
    (
        "post_grad.move_view_after_cat_aten_pass/move_view_after_cat",
        _ATEN_SPLIT
        + "".join(f"r{p} = torch.ops.aten.reshape.default({p}, [4, 1, 2])\n" for p in "abc")
        + "o = torch.ops.aten.cat.default([ra, rb, rc], dim=1)\nreturn (o,)",
        "x=float32[4,6]",
    ),
    *(
        (
            f"post_grad.partitioned_scatter_optimization/create_replacement{number}",
            f"o = torch.ops.aten.{op}.default(x, [i], v, True)\nreturn (o,)",
            "x=float32[16] i=int64[8192] v=float32[8192]",
        )
        for number, op in (("", "index_put_"), ("#2", "index_put"))
    ),
)
_INPUT = re.compile(r"(\w+)=(\w+)\[([\d,]*)\]((?::[^:\s]+)*)")


def _spec(text: str) -> tuple[str, InputSpec]:
    """``x=float32[2,3]:positive:const`` to a name and a spec; strides are contiguous."""
    found = _INPUT.fullmatch(text)
    if found is None:
        raise ValueError(f"input {text!r}")
    name, dtype, sizes, marks = found.groups()
    shape = tuple(int(s) for s in sizes.split(",") if s)
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    words = [m for m in marks.split(":") if m]
    fills = [w for w in words if w != "const"]
    return name, InputSpec(dtype, shape, tuple(strides), fills[0] if fills else "normal", "const" in words)


def programs(full_name: str) -> Iterator[Sketch]:
    """The programs written for an entry."""
    for name, body, inputs in _PROGRAMS:
        if name == full_name:
            named = [_spec(part) for part in inputs.split()]
            lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
            parameters = ", ".join(n for n, _ in named)
            yield Sketch(f"def fn({parameters}):\n{lines}", tuple(spec for _, spec in named))
