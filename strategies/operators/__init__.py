"""Matrices as values; each structure knows how it acts, its norms and its inverse.

Explicit ones, those over ordered cells, products, stacks and weights of others stand here;
`tables`: over the attributes of a domain; `masks`: algebra of rows that are products of masks;
`base`: the rules of every structure, and answers to workloads.
"""

from strategies.operators.base.arrays import (
    Array,
    MemoryCapError,
    check_allocation,
    current_cap,
    fits,
    memory_cap,
    readable_bytes,
)
from strategies.operators.base.operator import Norm, Operator, cross_gram
from strategies.operators.base.recovery import (
    RowSpaceError,
    error_trace,
    errors_of_determined_rows,
    estimate,
    row_errors,
)
from strategies.operators.explicit import Dense, Gram, MatrixLike, Sparse, as_operator
from strategies.operators.identity import Grouping, Identity, PIdentity, over_groups
from strategies.operators.kronecker import Kronecker, WeightedKronecker
from strategies.operators.ordered_sums import AllRanges, PrefixSums
from strategies.operators.product import Product, RowScaled
from strategies.operators.ranges import Ranges
from strategies.operators.row_kronecker import RowKronecker
from strategies.operators.tables.marginals import Marginals
from strategies.operators.tables.oblique_residuals import ObliqueResiduals
from strategies.operators.tables.product_marginals import JointMarginals, ProductMarginals
from strategies.operators.tables.table_stack import TableStack
from strategies.operators.triangles import Semiseparable, Toeplitz
from strategies.operators.wrappers import Scaled, Stack, Transposed

__all__ = [
    "AllRanges",
    "Array",
    "Dense",
    "Gram",
    "Grouping",
    "Identity",
    "JointMarginals",
    "Kronecker",
    "Marginals",
    "MatrixLike",
    "MemoryCapError",
    "Norm",
    "ObliqueResiduals",
    "Operator",
    "PIdentity",
    "PrefixSums",
    "Product",
    "ProductMarginals",
    "Ranges",
    "RowKronecker",
    "RowScaled",
    "RowSpaceError",
    "Scaled",
    "Semiseparable",
    "Sparse",
    "Stack",
    "TableStack",
    "Toeplitz",
    "Transposed",
    "WeightedKronecker",
    "as_operator",
    "check_allocation",
    "cross_gram",
    "current_cap",
    "error_trace",
    "errors_of_determined_rows",
    "estimate",
    "fits",
    "memory_cap",
    "over_groups",
    "readable_bytes",
    "row_errors",
]
