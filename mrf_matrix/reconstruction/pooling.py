"""Several releases over one domain, brought to one matrix and one variance.

Dividing the answers of release i, and the rows of its strategy, by the deviation ``σ_i`` of its
noise makes all draws of variance one. What is least squares afterwards is generalised least squares
before (Aitken, 1935).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.provenance import join
from mrf_matrix.mechanisms import Release
from mrf_matrix.mechanisms.statement import Claim
from strategies.operators import Operator, Product, RowKronecker, Scaled, Stack
from strategies.problem.merging import can_merge, merge_columns

FARTHEST = 1e6  # ratio of the deviations of two releases that rounding still lets one weigh
KEPT_STACKS = 4  # stacks of matrices of several releases that are kept


@dataclass(frozen=True, eq=False)
class Pooled:
    """Answers ``y = A D + noise`` with independent draws of one variance."""

    matrix: Operator  # shape (m, n): rows of all strategies, each divided by its deviation
    answers: Array  # shape (m, k): the answers, divided alike
    variance: float
    """Variance of every draw: that of the only release, 1 for several, 0 without noise."""
    sizes: tuple[int, ...]  # attribute sizes of the domain
    claim: Claim  # see `claim_of`

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.answers.shape[1])

    @property
    def total_row(self) -> Operator:
        """The query that counts all records, shape (1, n)."""
        return RowKronecker.from_masks([np.ones((1, size), dtype=bool) for size in self.sizes])


def pool_releases(releases: Release | Sequence[Release]) -> Pooled:
    """Bring releases of the same records to one matrix and one variance.

    Releases of the same strategy are averaged, weighted by ``1/σ²``, so that its structure stays.

    Raises TypeError, ValueError if something else than releases is given, or they are over
    different domains or classes, or some have noise and others none.
    """
    given = checked_releases(releases)
    matrices = [release.mechanism.rounded.recovery for release in given]
    groups = _of_one_matrix(matrices)
    means, variances = zip(*(_mean([given[i] for i in same]) for same in groups), strict=True)
    first = [matrices[same[0]] for same in groups]
    sizes, claim = given[0].sizes, claim_of(given)
    if len(groups) == 1:
        return Pooled(first[0], means[0], variances[0], sizes, claim)
    units = np.array([sensitivity_of(given[same[0]]) for same in groups])
    roots = _roots(np.sqrt(variances), units)
    matrix = _stacked(tuple(first), roots)
    scaled = np.concatenate([root * mean for root, mean in zip(roots, means, strict=True)])
    return Pooled(matrix, scaled, 1.0 if any(variances) else 0.0, sizes, claim)


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


def _of_one_matrix(matrices: Sequence[Operator]) -> list[list[int]]:
    """Return the numbers of the releases that measured the same matrix, in order."""
    groups: dict[int, list[int]] = {}
    for number, matrix in enumerate(matrices):
        groups.setdefault(id(matrix), []).append(number)
    return list(groups.values())


@lru_cache(maxsize=KEPT_STACKS)
def _stacked(blocks: tuple[Operator, ...], roots: tuple[float, ...]) -> Operator:
    """Stack matrices, of which the last few stacks are kept, for their factors.

    A study draws noise many times for the same strategies. Matrices are told apart as objects.
    """
    scaled = [Scaled(root, block) for root, block in zip(roots, blocks, strict=True)]
    return over_merged_cells(Stack(scaled))


def claim_of(releases: Sequence[Release]) -> Claim:
    """Return what may be claimed of answers from several releases: what all of them rest on."""
    known = join(release.provenance for release in releases)
    return Claim(known, tuple(str(release.law) for release in releases))


def checked_releases(releases: Release | Iterable[Release]) -> list[Release]:
    """Return one or more releases over one domain as a list, or refuse."""
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


def over_merged_cells(matrix: Operator) -> Operator:
    """Return the same matrix over groups of equal columns, where that makes it smaller."""
    if not can_merge(matrix):
        return matrix
    merging = merge_columns(matrix)
    if merging.is_trivial:
        return matrix
    return Product(merging.apply(matrix), merging.grouping)
