"""All rows, by family, and how often a family is drawn."""

from __future__ import annotations

from fxmorph.programs.generator.index_rows import INDEXING, ORDERING
from fxmorph.programs.generator.joining_rows import JOINING
from fxmorph.programs.generator.layer_rows import LAYERS, NORMS
from fxmorph.programs.generator.loss_rows import LOSSES
from fxmorph.programs.generator.motif_rows import MOTIFS
from fxmorph.programs.generator.pointwise_rows import POINTWISE
from fxmorph.programs.generator.product_rows import PRODUCTS
from fxmorph.programs.generator.reduction_rows import REDUCTIONS
from fxmorph.programs.generator.rows import Rows
from fxmorph.programs.generator.view_rows import VIEWS
from fxmorph.programs.generator.write_rows import LISTS, WRITES

FAMILIES: dict[str, Rows] = {
    "pointwise": POINTWISE, "views": VIEWS, "writes": WRITES, "reductions": REDUCTIONS, "joining": JOINING,
    "indexing": INDEXING, "ordering": ORDERING, "products": PRODUCTS, "layers": LAYERS, "norms": NORMS,
    "losses": LOSSES, "lists": LISTS, "motifs": MOTIFS,
}  # fmt: skip
#: The usual share of each family among the operators of a program.
DIET = {
    "pointwise": 22.0, "views": 20.0, "writes": 12.0, "reductions": 9.0, "joining": 7.0, "indexing": 7.0,
    "ordering": 2.0, "products": 6.0, "layers": 5.0, "norms": 3.0, "losses": 1.5, "lists": 1.5, "motifs": 9.0,
}  # fmt: skip
