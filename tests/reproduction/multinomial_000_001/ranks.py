"""Which of several methods is best over data sets: average ranks and signed-rank tests."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, wilcoxon

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import one_word
from strategies.operators.base.arrays import plain_floats


@dataclass(frozen=True, eq=False)
class PairedRanks:
    """Methods on the same splits of the same data sets, each set beside a reference.

    Attributes
    ----------
    methods : tuple of str
    datasets : tuple of str
    reference : str
        The method that the others are tested against.
    level : float
        Significance level of one test.
    means : ndarray of shape (datasets, methods)
        Mean score.
    average_ranks : ndarray of shape (methods,)
        Mean over the data sets of the rank of the mean score, 1 for the best, ties shared.
    p_values : ndarray of shape (datasets, methods)
        Of Wilcoxon's two-sided signed-rank test of the paired scores against the reference; 1 where
        all pairs are equal.
    sides : ndarray of shape (datasets, methods)
        Sign of the sum of signed ranks: 1 where it speaks for the method, -1 for the reference.
    """

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    reference: str
    level: float
    means: Array
    average_ranks: Array
    p_values: Array
    sides: Array

    def mark(self, dataset: str, method: str, better: str = "†", worse: str = "*") -> str:
        """Return `better` or `worse` than the reference at the level of the test, or neither."""
        at = self.datasets.index(dataset), self.methods.index(method)
        if self.p_values[at] >= self.level or self.sides[at] == 0:
            return ""
        return better if self.sides[at] > 0 else worse


def paired_ranks(
    scores: Mapping[str, Mapping[str, ArrayLike]],
    reference: str | None = None,
    *,
    level: float = 0.05,
) -> PairedRanks:
    """Return average ranks over data sets, and signed-rank tests against one method.

    Parameters
    ----------
    scores : mapping of data set to mapping of method to array of shape (r,)
        Scores, higher for better, of which the methods' i-th are of the same split.
    reference : str, optional
        Tested against; the first method by default.
    level : float, default=0.05

    Raises
    ------
    ValueError
        If there is nothing, the methods of the sets or the lengths of a set's scores differ, or
        the reference is none of the methods.

    Notes
    -----
    Wilcoxon (1945), as Bai et al. (2022) mark their tables; ranks as in Demšar (2006). The r scores
    of repeated cross-validation share training records and so are no independent pairs: the
    p-values are too small (Nadeau and Bengio, 2003), the more so the more often it is repeated.
    Read a mark as "consistent over these splits".

    Examples
    --------
    >>> forest, tree = [0.97, 0.96, 0.98, 0.95, 0.99, 0.97], [0.9, 0.91, 0.92, 0.9, 0.91, 0.88]
    >>> found = paired_ranks({"wine": {"MRF": forest, "CART": tree}}, "MRF")
    >>> found.average_ranks.tolist(), found.mark("wine", "CART")
    ([1.0, 2.0], '*')
    """
    tables = {name: _table(name, rows) for name, rows in scores.items()}
    methods = tuple(next(iter(scores.values()))) if scores else ()
    if not methods:
        raise ValueError("scores is empty: expected scores of methods on one or more data sets.")
    others = [name for name, rows in scores.items() if set(rows) != set(methods)]
    if others:
        raise ValueError(f"{others} have other methods than {list(methods)}: expected the same.")
    chosen = one_word("reference", methods[0] if reference is None else reference, methods)
    means = np.array([[table[one].mean() for one in methods] for table in tables.values()])
    tested = np.array(
        [[signed_ranks(table[one], table[chosen]) for one in methods] for table in tables.values()]
    )
    return PairedRanks(
        methods,
        tuple(tables),
        chosen,
        level,
        means,
        rankdata(-means, axis=1).mean(axis=0),
        tested[..., 0],
        tested[..., 1],
    )


def signed_ranks(first: Array, second: Array) -> tuple[float, float]:
    """Return the two-sided p-value of paired scores, and the sign of their sum of signed ranks."""
    gaps = first - second
    gaps = gaps[gaps != 0]
    if not len(gaps):
        return 1.0, 0.0
    side = np.sign((np.sign(gaps) * rankdata(np.abs(gaps))).sum())
    return float(wilcoxon(gaps, method="auto").pvalue), float(side)


def _table(name: str, rows: Mapping[str, ArrayLike]) -> dict[str, Array]:
    """Return the scores of a data set as arrays of one length."""
    found = {method: plain_floats(f"scores of {name!r}", row) for method, row in rows.items()}
    shapes = {one.shape for one in found.values()}
    if len(shapes) > 1 or any(len(shape) != 1 or not shape[0] for shape in shapes):
        raise ValueError(f"scores of {name!r} have shapes {shapes}: expected one length above 0.")
    if not all(np.isfinite(one).all() for one in found.values()):
        raise ValueError(f"scores of {name!r} are not all finite numbers.")
    return found
