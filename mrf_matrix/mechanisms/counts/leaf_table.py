"""The private leaf counts C = T D of a public forest, where D itself is out of reach."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import AnyInts, Longs
from mrf_matrix.base.checks import PrivateValue
from mrf_matrix.base.provenance import NOTHING, Provenance
from mrf_matrix.mechanisms.counts.cells import PublicDomain, checked_counts, counted_over
from mrf_matrix.mechanisms.counts.counts import PrivateAnswers
from strategies.operators import (
    Marginals,
    MatrixLike,
    Operator,
    RowKronecker,
    RowScaled,
    Scaled,
    as_operator,
)
from strategies.operators.masks.components import mask_rows


@dataclass(frozen=True, eq=False, repr=False)
class LeafCounts(PrivateValue):
    """How many records of each class reach each leaf of a public forest: **private**.

    It takes the place of `CellCounts` in `measure` wherever every row of the strategy is a
    leaf's row times an integer, and gives the same answers there.

    Parameters
    ----------
    paths : RowKronecker of shape (o, n)
        The forest's decision-path matrix T.
    counts : ndarray of int, shape (o, k)
        ``T D``, not negative.
    domain : Domain, optional
        The domain of the records.
    """

    paths: RowKronecker
    counts: Longs
    domain: PublicDomain | None = None
    _provenance: Provenance = field(default=NOTHING, repr=False)

    def __post_init__(self) -> None:
        rows = self.paths.shape[0]
        expected = f"({rows}, k), a row for each leaf"
        object.__setattr__(self, "counts", checked_counts(self.counts, rows, expected))
        object.__setattr__(self, "_provenance", counted_over(self.domain, self._provenance))

    @property
    def provenance(self) -> Provenance:
        """Where the leaves came from: that of the domain and of the forest."""
        return self._provenance

    @property
    def sizes(self) -> tuple[int, ...]:
        """Attribute sizes of the public domain."""
        return self.paths.sizes

    @property
    def n_classes(self) -> int:
        """Number of classes k, public."""
        return int(self.counts.shape[1])

    def __add__(self, other: object) -> "LeafCounts":
        """Return the counts of both data sets together, in the leaves of one forest."""
        if not isinstance(other, LeafCounts):
            return NotImplemented
        if not _same_paths(self.paths, other.paths) or self.domain != other.domain:
            raise ValueError("leaf counts of different forests: expected one public forest.")
        both = self.provenance | other.provenance
        return LeafCounts(self.paths, self.counts + other.counts, self.domain, both)

    __array_ufunc__ = None  # so that `ndarray @ counts` comes here

    def __rmatmul__(self, matrix: MatrixLike) -> PrivateAnswers:
        """Return ``A @ counts``: answers without noise, which nothing shows."""
        return PrivateAnswers(self.answers(as_operator(matrix)).astype(np.float64))

    def answers(self, operator: Operator) -> Longs:
        """Return ``A D`` exactly, shape (m, k), where each row of A is a leaf's, weighted.

        Raises
        ------
        ValueError
            If the operator measures anything else.
        OverflowError
            If an answer might exceed 63 bits.
        """
        weights = self.check_measured(operator)
        largest = int(np.abs(weights).max(initial=0))
        if largest * float(self.counts.sum(axis=0, dtype=np.float64).max()) >= 2**62:
            raise OverflowError(
                f"strategy entries of {largest} times the number of records may exceed 63 bits: "
                f"expected smaller integers; lower the precision of the rounding."
            )
        return np.asarray(weights.reshape(-1, 1) * self.counts, dtype=np.int64)

    def check_measured(self, operator: Operator) -> AnyInts:
        """Return the weight of each leaf in an operator, or refuse one of other rows.

        Raises
        ------
        ValueError
            If the operator measures anything but these leaves.
        """
        weights, inner = _weighted_rows(operator)
        if not isinstance(inner, RowKronecker) or not _same_paths(inner, self.paths):
            raise ValueError(
                "counts are those of a forest's leaves, and the strategy measures something else: "
                "expected a strategy whose rows are these leaves, such as allocation='per_tree' "
                "or a posterior forest of these blocks, or counts of cells, from count_stream."
            )
        return weights

    def __repr__(self) -> str:
        return f"LeafCounts(private, {self.paths.shape[0]} leaves, {self.n_classes} classes)"


def _weighted_rows(operator: Operator) -> tuple[AnyInts, Operator]:
    """Return integer weights and the structure whose rows they multiply."""
    weights = np.ones(1, dtype=np.int64)
    while isinstance(operator, RowScaled | Scaled):
        more = operator.weights if isinstance(operator, RowScaled) else operator.weight
        weights, operator = weights * _whole(np.asarray(more)), operator.inner
    rows = mask_rows(operator) if isinstance(operator, Marginals) else None
    if rows is None:
        return weights, operator
    each = np.ones(1) if rows.mix is None else rows.mix.diagonal()  # the leaves of a tree a table
    return weights * _whole(each), RowKronecker.from_masks(rows.masks)


def _whole(given: NDArray[np.generic]) -> NDArray[np.int64]:
    whole: NDArray[np.int64] = np.rint(given).astype(np.int64)
    if not np.array_equal(whole, given):
        raise ValueError(
            "the strategy's rows have real weights: expected integers; round it first with "
            "round_strategy(matrix, norm)."
        )
    return whole


def _same_paths(one: RowKronecker, other: RowKronecker) -> bool:
    return one.sizes == other.sizes and np.array_equal(one.bits, other.bits)
