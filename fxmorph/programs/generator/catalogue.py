"""All rows, by family, and how often a family is drawn."""

from __future__ import annotations

from fxmorph.programs.generator import (
    attention_rows,
    binary_rows,
    cast_rows,
    conv_rows,
    division_rows,
    index_rows,
    joining_rows,
    list_rows,
    loss_rows,
    motif_rows,
    norm_rows,
    order_rows,
    pool_rows,
    product_rows,
    reduction_rows,
    scan_rows,
    scatter_rows,
    ternary_rows,
    unary_rows,
    view_rows,
    write_rows,
)
from fxmorph.programs.generator.rows import Row

FAMILIES: dict[str, list[Row]] = {
    "pointwise": [*unary_rows.ROWS, *binary_rows.ROWS, *division_rows.ROWS, *ternary_rows.ROWS, *cast_rows.ROWS],
    "views": view_rows.ROWS,
    "writes": write_rows.ROWS,
    "reductions": [*reduction_rows.ROWS, *scan_rows.ROWS],
    "joining": joining_rows.ROWS,
    "indexing": [*index_rows.ROWS, *scatter_rows.ROWS],
    "ordering": order_rows.ROWS,
    "products": [*product_rows.ROWS, *attention_rows.ROWS],
    "layers": [*conv_rows.ROWS, *pool_rows.ROWS],
    "norms": norm_rows.ROWS,
    "losses": loss_rows.ROWS,
    "lists": list_rows.ROWS,
    "motifs": motif_rows.ROWS,
}
#: The share of each family among the operators of a long program: loops over elements, which one compiler run has many
#: of, with much index arithmetic.
LONG_DIET = {"views": 45.0, "pointwise": 20.0, "joining": 8.0, "indexing": 8.0, "reductions": 8.0, "motifs": 5.0}
#: The usual share of each family among the operators of a program.
DIET = {
    "pointwise": 22.0,
    "views": 20.0,
    "writes": 12.0,
    "reductions": 9.0,
    "joining": 7.0,
    "indexing": 7.0,
    "ordering": 2.0,
    "products": 6.0,
    "layers": 5.0,
    "norms": 3.0,
    "losses": 1.5,
    "lists": 1.5,
    "motifs": 9.0,
}
