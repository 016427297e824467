"""Estimates of a workload's answers: several releases over one domain, brought to one matrix.

Dividing the answers of release i, and the rows of its strategy, by the deviation ``σ_i`` of its
noise makes all draws of variance one. What is least squares afterwards is generalised least squares
before (Aitken, 1935).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, lsqr

from mrf_matrix.base.arrays import Array, Seed
from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.provenance import join
from mrf_matrix.compilation import path_matrix, prediction_workload, query_matrix
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.measurement.least_squares import recovered_squares
from mrf_matrix.mechanisms.measurement.measure import (
    check_determined,
    checked_workload,
    determined_estimate,
)
from mrf_matrix.mechanisms.rounding import is_integral
from mrf_matrix.mechanisms.statement import Claim
from strategies.operators import (
    Dense,
    Operator,
    Product,
    RowKronecker,
    RowSpaceError,
    Scaled,
    Stack,
    cross_gram,
    fits,
)
from strategies.operators.base.arrays import plain_floats
from strategies.operators.base.recovery import check_countable
from strategies.problem.merging import can_merge, merge_columns

FARTHEST = 1e6  # ratio of the deviations of two releases that rounding still lets one weigh
KEPT_STACKS = 4  # stacks of matrices of several releases that are kept


@dataclass(frozen=True, eq=False)
class PooledReleases:
    """Answers ``y = A D + noise`` with independent draws of one variance."""

    matrix: Operator  # shape (m, n): rows of all strategies, each divided by its deviation
    answers: Array  # shape (m, k): the answers, divided alike
    variance: float
    """Variance of every draw: that of the only release, 1 for several, 0 without noise."""
    sizes: tuple[int, ...]  # attribute sizes of the domain
    claim: Claim  # see `claim_of`

    @property
    def n_classes(self) -> int:
        return int(self.answers.shape[1])

    @property
    def total_row(self) -> Operator:
        """The query that counts all records, shape (1, n)."""
        return RowKronecker.from_masks([np.ones((1, size), dtype=bool) for size in self.sizes])


def pool_releases(releases: Release | Sequence[Release]) -> PooledReleases:
    """Bring releases of the same records to one matrix and one variance.

    Releases of the same strategy are averaged, weighted by ``1/σ²``, so that its structure stays.

    Raises TypeError, ValueError if something else than releases is given, or they are over
    different domains or classes, or some have noise and others none.
    """
    given = checked_releases(releases)
    matrices = [release.mechanism.rounded.recovery for release in given]
    groups = _group_by_matrix(matrices)
    means, variances = zip(*(_mean([given[i] for i in same]) for same in groups), strict=True)
    first = [matrices[same[0]] for same in groups]
    sizes, claim = given[0].sizes, claim_of(given)
    if len(groups) == 1:
        return PooledReleases(first[0], means[0], variances[0], sizes, claim)
    units = np.array([sensitivity_of(given[same[0]]) for same in groups])
    roots = _roots(np.sqrt(variances), units)
    matrix = _stack(tuple(first), roots)
    scaled = np.concatenate([root * mean for root, mean in zip(roots, means, strict=True)])
    return PooledReleases(matrix, scaled, 1.0 if any(variances) else 0.0, sizes, claim)


def _mean(releases: Sequence[Release]) -> tuple[Array, float]:
    """Return the mean answers of one matrix, weighted by ``1/σ²``, and their variance."""
    variances = np.array([release.variance for release in releases])
    least = float(variances.min())
    weights = np.divide(least, variances, out=np.ones(len(variances)), where=variances > 0)
    answers = np.average([release.answers for release in releases], axis=0, weights=weights)
    return answers, least / float(weights.sum())


def sensitivity_of(release: Release) -> float:
    """Return the largest column norm of a release's integers, in the norm of its budget."""
    exact = float(release.mechanism.rounded.column_sum)
    return exact if release.budget.norm == "l1" else sqrt(exact)


def _roots(deviations: Array, units: Array) -> tuple[float, ...]:
    """Return what each matrix is divided by its deviation with: ``1/σ``, 1 without any noise.

    Deviations, in units of the sensitivity, count as at most `FARTHEST` apart: rounding could not
    tell the noisier matrix from nothing else. Answers of the sharper one then carry a variance
    that is stated too large, by ``FARTHEST**-2`` of the noisier one's.
    """
    relative = deviations / units
    if not relative.any():
        return (1.0,) * len(units)
    kept = np.maximum(relative, relative.max() / FARTHEST)
    return tuple((1 / (kept * units)).tolist())


def _group_by_matrix(matrices: Sequence[Operator]) -> list[list[int]]:
    """Return the numbers of the releases that measured the same matrix, in order."""
    groups: dict[int, list[int]] = {}
    for number, matrix in enumerate(matrices):
        groups.setdefault(id(matrix), []).append(number)
    return list(groups.values())


@lru_cache(maxsize=KEPT_STACKS)
def _stack(blocks: tuple[Operator, ...], roots: tuple[float, ...]) -> Operator:
    """Stack matrices, of which the last few stacks are kept, for their factors.

    A study draws noise many times for the same strategies. Matrices are told apart as objects.
    """
    scaled = [Scaled(root, block) for root, block in zip(roots, blocks, strict=True)]
    return merge_equal_columns(Stack(scaled))


def claim_of(releases: Sequence[Release]) -> Claim:
    """Return what may be claimed of answers from several releases: what all of them rest on."""
    known = join(release.provenance for release in releases)
    return Claim(known, tuple(str(release.law) for release in releases))


def checked_releases(releases: Release | Iterable[Release]) -> list[Release]:
    given = [releases] if isinstance(releases, Release) else list(releases)
    if not given:
        raise ValueError("releases is empty: expected at least one Release, from measure(...).")
    for number, release in enumerate(given):
        if not isinstance(release, Release):
            raise TypeError(
                f"releases[{number}] is of type {type(release).__name__}: expected a Release, "
                f"from measure(...)."
            )
    shapes = {(release.sizes, release.n_classes) for release in given}
    if len(shapes) > 1:
        raise ValueError(
            f"releases are over different domains or classes, (sizes, classes) = "
            f"{sorted(shapes)}: expected releases of the same records over one domain."
        )
    if 0 < sum(release.budget.is_infinite for release in given) < len(given):
        raise ValueError(
            "releases: some have noise and others none. Expected all with noise, or none: exact "
            "counts need no noisy ones beside them."
        )
    return given


def merge_equal_columns(matrix: Operator) -> Operator:
    """Return the same matrix over groups of equal columns, where that makes it smaller."""
    if not can_merge(matrix):
        return matrix
    merging = merge_columns(matrix)
    if merging.is_trivial:
        return matrix
    return Product(merging.apply(matrix), merging.grouping)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimate:
    """Estimated answers of a workload, from releases alone.

    Parameters
    ----------
    values : ndarray of shape (q, k)
        A row for each query, a column for each class, in records.
    variances : ndarray of shape (q,) or None
        Expected squared error of every row in each class: exact, whatever the data are. None
        where it depends on the data; then `note` says so.
    method : str
        The estimator's name.
    note : str
        What a reader of the values must know. Required where there are no variances.
    claim : Claim, optional
        Of the releases behind the answers, see `claim_of`; where it is none of privacy the display
        says so. None where no release is known.
    """

    values: Array
    variances: Array | None
    method: str
    note: str = ""
    claim: Claim | None = None

    def __post_init__(self) -> None:
        values = _read_only("values", self.values, None)
        if values.ndim != 2:
            raise ValueError(f"values has shape {values.shape}: expected (q, k).")
        object.__setattr__(self, "values", values)
        if self.variances is not None:
            kept = _read_only("variances", self.variances, len(values))
            object.__setattr__(self, "variances", kept)
        if self.variances is None and not self.note:
            raise ValueError("note is empty: expected why there are no variances.")

    @property
    def expected_error(self) -> float | None:
        """Expected squared error summed over rows and classes; None where it has none."""
        if self.variances is None:
            return None
        return float(self.values.shape[1] * self.variances.sum())

    @property
    def row_rms(self) -> Array | None:
        """Root-mean-square error of every row, in records; None where it has none."""
        return None if self.variances is None else np.sqrt(self.variances)

    def __repr__(self) -> str:
        rows, classes = self.values.shape
        error = self.expected_error
        known = "no expected error" if error is None else f"expected_error={error:.6g}"
        said = [f"{rows} x {classes}, {self.method}, {known}", self.note.rstrip(".")]
        if self.claim is not None and not self.claim.is_private:
            said.append(self.claim.statement.rstrip("."))
        return f"{type(self).__name__}({'. '.join(filter(None, said))})"


def _read_only(name: str, given: Array, length: int | None) -> Array:
    """Return a read-only view of finite floats of the expected length."""
    array = plain_floats(name, given)
    if length is not None and array.shape != (length,):
        raise ValueError(f"{name} has shape {array.shape}: expected ({length},), one for each row.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite: expected finite estimates.")
    view = array.view()
    view.flags.writeable = False
    return view


NEAR = 1e-6  # relative difference from a count that is rounding where there is no noise


def exact_counts(queries: Operator, matrix: Operator, answers: Array) -> Array:
    """Return ``W A⁺ y`` for answers without noise, rounded where W is of integers.

    Raises RowSpaceError if rows of the workload are no combination of the matrix's rows.
    """
    values = determined_estimate(queries, matrix, answers)
    return np.rint(values) if is_integral(queries) else values


def exact_estimate(queries: Operator, pool: PooledReleases, method: str) -> Estimate:
    """Return the answers of releases without noise, whatever they would be estimated by."""
    values = exact_counts(queries, pool.matrix, pool.answers)
    return Estimate(
        values=values,
        variances=np.zeros(len(values)),
        method=f"{method}, no noise",
        claim=pool.claim,
    )


def agree_with_totals(
    matrix: Operator, answers: Array, class_totals: object, total: object
) -> bool:
    """Tell whether answers without noise determine the totals that are claimed, and meet them.

    `matrix` (m, g); `answers` (m, k); `class_totals` (k,); `total`: of all classes together.
    """
    if class_totals is None and total is None:
        return True
    try:
        sums = exact_counts(Dense(np.ones((1, matrix.shape[1]))), matrix, answers)[0]
    except RowSpaceError:
        return False
    found, known = (sums, class_totals) if total is None else (sums.sum(), total)
    return bool(np.allclose(found, np.asarray(known), rtol=NEAR, atol=NEAR))


def exact_where_near(values: Array, exact: Array) -> Array:
    """Return estimates without noise, exact wherever they are that up to rounding."""
    return np.where(np.isclose(values, exact, rtol=NEAR, atol=NEAR), exact, values)


def combine(releases: Release | Sequence[Release], workload: object) -> Estimate:
    """Answer a workload from one or several releases by generalised least squares.

    With strategies ``A_i``, answers ``y_i`` and noise variances ``v_i``, and ``A`` and ``y`` the
    stacks of ``A_i / √v_i`` and ``y_i / √v_i``, the answers are ``W A⁺ y``: of all unbiased linear
    estimates the one with the least variance, ``||(W A⁺)_r||²`` (Aitken, 1935).

    Parameters
    ----------
    releases : Release or sequence of Release
        Measurements of the same records over the same domain, with strategies, budgets and
        noises of their own. That the records are the same cannot be checked.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
        Queries in the row space of the strategies *together*.

    Returns
    -------
    Estimate
        Unbiased, with exact variances.

    Raises
    ------
    RowSpaceError
        If rows of the workload are no combination of the strategies' rows; it names them.
    TypeError, ValueError
        If releases or workload are not of the kind described.

    Examples
    --------
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.array([[0], [2], [2]]), np.zeros(3, int), sizes=(3,), n_classes=1)
    >>> cells = measure(np.eye(3), counts, PureDP(1), noise="research", random_state=0)
    >>> total = measure(np.ones((1, 3)), counts, PureDP(1), noise="research", random_state=1)
    >>> alone, both = combine(cells, np.ones((1, 3))), combine([cells, total], np.ones((1, 3)))
    >>> round(both.expected_error / alone.expected_error, 12)
    0.25
    """
    queries = checked_workload(workload)
    pool = pool_releases(releases)
    if pool.variance == 0:
        return exact_estimate(queries, pool, "least squares")
    values = determined_estimate(queries, pool.matrix, pool.answers)
    variances = pool.variance * recovered_squares(queries, pool.matrix)
    return Estimate(
        values=values, variances=variances, method="generalised least squares", claim=pool.claim
    )


def vote_noise_share(
    forest: Forest,
    releases: Release | Sequence[Release],
    *,
    n_cells: int = 128,
    random_state: Seed = 0,
) -> float:
    """Return the variance of a mean over trees as a share of the variance of one leaf.

    For random cells x of the domain, ``|| (1/τ) Σ_t T_t(x) A⁺ ||²`` over the mean of
    ``|| T_t(x) A⁺ ||²``, where ``T_t(x)`` is the leaf of tree t that holds x. It is 1 where all
    trees ask the same leaf, and 1/τ where their noises are independent. Only the strategies
    matter, not their answers.

    Parameters
    ----------
    forest : Forest
    releases : Release or sequence of Release
    n_cells : int, default=128
        Random cells.
    random_state : None, int or numpy.random.Generator, default=0
        Draws the cells, which are public.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> from mrf_matrix.domain import Domain
    >>> from mrf_matrix.forests import RandomTrees
    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> from strategies.operators import Identity
    >>> counts = count_cells(np.zeros((5, 2), int), np.zeros(5, int), sizes=(4, 4), n_classes=1)
    >>> release = measure(Identity(16, (4, 4)), counts, PureDP(1), noise="research")
    >>> trees = RandomTrees(n_trees=1, max_depth=1)
    >>> vote_noise_share(trees.grow(Domain.from_sizes([4, 4]), random_state=0), release)
    1.0
    """
    n_cells = whole_number("n_cells", n_cells)
    generator = np.random.default_rng(random_state)
    sizes = forest.domain.sizes
    cells = np.stack([generator.integers(0, size, n_cells) for size in sizes], axis=1)
    matrix = pool_releases(releases).matrix
    paths = path_matrix(forest)
    votes = recovered_squares(prediction_workload(paths, query_matrix(cells, sizes)), matrix)
    distinct, number, _ = paths.unique_rows()
    leaves = recovered_squares(distinct, matrix)[number][forest.apply(cells)]
    return float(min(1.0, votes.mean() / forest.n_trees**2 / leaves.mean()))


TOLERANCE = 1e-6  # relative residual above which the total lies outside the strategies' row space


def total_weights(pool: PooledReleases) -> Array | None:
    """Return the least s with ``sᵀA = 1ᵀ``, shape (m,), or None where there is none."""
    m, n = pool.matrix.shape
    if fits((n, 8)):
        weights = _solve_by_lsqr(pool, m, n)
        if np.linalg.norm(pool.matrix.rmatmat(weights) - 1.0) <= TOLERANCE * np.sqrt(n):
            return weights
        try:
            check_determined(pool.total_row, pool.matrix)
        except RowSpaceError:
            return None
        if fits((m, n), 16):
            return np.asarray(linalg.lstsq(pool.matrix.to_dense().T, np.ones(n), cond=1e-12)[0])
    check_countable(pool.matrix)
    cross = cross_gram(pool.matrix, pool.total_row)[:, 0]
    weights = np.asarray(linalg.lstsq(pool.matrix.row_gram(), cross, cond=1e-12)[0])
    # |sᵀA - 1ᵀ|² = n - sᵀA1, over n
    return weights if 1 - float(weights @ cross) / n <= 1e-9 else None


def _solve_by_lsqr(pool: PooledReleases, m: int, n: int) -> Array:
    """Solve ``Aᵀs = 1`` by LSQR, whose limit is the least solution (Paige and Saunders, 1982)."""
    transpose = LinearOperator(
        (n, m), matvec=pool.matrix.rmatmat, rmatvec=pool.matrix.matmat, dtype=np.float64
    )
    solved = lsqr(transpose, np.ones(n), atol=1e-14, btol=1e-14, iter_lim=8 * min(m, n) + 100)
    return np.asarray(solved[0], dtype=np.float64)
