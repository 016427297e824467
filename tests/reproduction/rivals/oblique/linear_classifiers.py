"""Hyperplanes between two groups of points, of many nodes at once: six linear classifiers."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import sklearn
from rivals.oblique.axis_cuts import Level, best_threshold
from rivals.oblique.moments import ClassMoments
from rivals.oblique.proximal_planes import between_groups
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from mrf_matrix.base.arrays import Array, Bools

Planes = tuple[Array, Array]  # weights (problems, m) and thresholds (problems,)


@dataclass(frozen=True, eq=False)
class GroupedLevel:
    """Points of two-group problems: those of a node, once for each partition of its classes."""

    level: Level  # its nodes are the problems; labels are the classes
    is_second: Bools  # (r,): the group of each point
    moments: ClassMoments  # of the two groups of every problem

    @classmethod
    def of(cls, level: Level, is_second: Bools) -> "GroupedLevel":
        """Return the problems with their moments."""
        problems = len(level.starts)
        counts = np.bincount(2 * level.node + is_second, minlength=2 * problems).reshape(-1, 2)
        grouped = Level(
            level.values, is_second.astype(np.int64), level.node, level.starts, counts, 1
        )
        return cls(level, is_second, ClassMoments.of(grouped))


def proximal(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return the better bisector of the two proximal planes, Tikhonov's ridge where singular."""
    weights, threshold, _ = between_groups(problems.level, problems.moments, "tikhonov")
    return weights, threshold


def discriminant(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return Fisher's linear discriminant with the groups' shares as priors."""
    moments = problems.moments
    sizes = np.maximum(moments.counts, 1)
    gap = moments.means[:, 1] - moments.means[:, 0]
    spread = moments.within_scatter / sizes.sum(axis=1)[:, None, None]
    weights = _solved(spread, gap, 1e-9)
    middle = moments.means.mean(axis=1)
    odds = np.log(sizes[:, 1] / sizes[:, 0])
    return weights, np.einsum("pm,pm->p", weights, middle) - odds


def least_squares(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return the least-squares support vector machine with γ = 1."""
    weights, share, middle = _regression(problems, np.ones(len(problems.moments.counts)))
    return weights, np.einsum("pm,pm->p", weights, middle) - share


def ridge(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return ridge regressions with λ = 10^j, j random, cut at their best place."""
    exponent = generator.integers(-5, 6, len(problems.moments.counts))
    strength: Array = np.power(10.0, exponent)
    weights, _, _ = _regression(problems, strength)
    level = problems.level
    sums = np.einsum("rm,rm->r", level.values, weights[level.node])
    threshold, purity = best_threshold(level, sums)
    return weights, np.where(purity < 0, np.nan, threshold)


def logistic(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return logistic regressions by liblinear, one problem after another."""
    return _by_liblinear(problems, lambda: LogisticRegression(solver="liblinear", random_state=0))


def support_vectors(problems: GroupedLevel, generator: np.random.Generator) -> Planes:
    """Return linear support vector machines with C = 2^j, j random, by liblinear."""
    strength = iter(2.0 ** generator.integers(-2, 8, len(problems.moments.counts)))
    return _by_liblinear(
        problems, lambda: LinearSVC(C=next(strength), dual=False, random_state=0, max_iter=200)
    )


CLASSIFIERS: Mapping[str, Callable[[GroupedLevel, np.random.Generator], Planes]] = {
    "proximal": proximal,
    "discriminant": discriminant,
    "logistic": logistic,
    "least_squares": least_squares,
    "support_vectors": support_vectors,
    "ridge": ridge,
}


def _regression(problems: GroupedLevel, strength: Array) -> tuple[Array, Array, Array]:
    """Regress ±1 on the points: weights, mean of the targets, mean of the points."""
    moments = problems.moments
    n = moments.counts.sum(axis=1)
    share = (moments.counts[:, 1] - moments.counts[:, 0]) / n
    middle = np.einsum("pg,pgm->pm", moments.counts / n[:, None], moments.means)
    gap = moments.means[:, 1] - moments.means[:, 0]
    product = (2 * moments.counts[:, 0] * moments.counts[:, 1] / n)[:, None] * gap
    m = middle.shape[1]
    gram = moments.total_scatter + strength[:, None, None] * np.eye(m)
    return np.linalg.solve(gram, product[..., None])[..., 0], share, middle


def _solved(matrices: Array, right: Array, ridge_share: float) -> Array:
    m = matrices.shape[-1]
    added = ridge_share * np.trace(matrices, axis1=1, axis2=2) / m
    added = np.where(added > 0, added, 1.0)
    regular = matrices + added[:, None, None] * np.eye(m)
    return np.asarray(np.linalg.solve(regular, right[..., None])[..., 0])


def _by_liblinear(
    problems: GroupedLevel, make: Callable[[], LogisticRegression | LinearSVC]
) -> Planes:
    level = problems.level
    count, m = len(level.starts), level.values.shape[1]
    weights, threshold = np.full((count, m), np.nan), np.zeros(count)
    ends = np.append(level.starts[1:], len(level.node))
    with (
        sklearn.config_context(assume_finite=True, skip_parameter_validation=True),
        warnings.catch_warnings(),
    ):
        # A plane that is not yet the best one is a candidate like any other.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for problem, (begin, end) in enumerate(zip(level.starts, ends, strict=True)):
            group = problems.is_second[begin:end]
            model = make()
            if group.all() or not group.any():
                continue
            model.fit(level.values[begin:end], group)
            weights[problem], threshold[problem] = model.coef_[0], -model.intercept_[0]
    return weights, threshold
