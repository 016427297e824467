r"""Effects of one block of attributes: a normal posterior, updated by noisy tables of residuals.

*Prior covariances of effects: the orthogonal components of the analysis of variance.* A table over
the attributes of a block B has a component for every nonempty ``U`` within B: what the codes of U
say together and no fewer of them do. Its covariance is a Kronecker product, ``C_i K_i C_i'`` for i
in U and all ones elsewhere, where ``K_i`` is the kernel of one attribute and ``C_i = I - 1 q_i'``
takes out the mean over the attribute's shares ``q_i``.

A table of residuals ``G`` is linear in what the log odds still lack, ``δ``, for small ``δ``:

.. math:: G = H δ + e, \qquad e \sim N(0, v + H), \qquad
          δ \sim N\Bigl(0, P + v_0 1 1^\top + \sum_U a_U K_U\Bigr),

H the diagonal of expected curvatures, v the variance of the noise (sampling adds H), P what
earlier tables left unknown of these effects, ``v_0`` of the intercept. The variances ``a_U`` by
which the effects may still grow are picked by the evidence of G among few values, and shrunk
toward what other blocks showed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import log

import numpy as np

from mrf_matrix.base.arrays import Array


@dataclass(frozen=True)
class Smoothness:
    """How alike the effects of neighbouring codes are: ``rough I + (1-rough) reach^|u-v|``.

    Attributes
    ----------
    rough : float
        Share of the variance that every code has for itself.
    reach : float
        Correlation of the rest between neighbouring codes.
    """

    rough: float
    reach: float


def attribute_kernel(size: int, *, ordered: bool, smoothness: Smoothness) -> Array:
    """Return the kernel of one attribute, centred, with a mean diagonal of one.

    `size`: number of codes; `ordered`: whether neighbouring codes are alike.

    >>> attribute_kernel(2, ordered=False, smoothness=Smoothness(0.1, 0.9))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    if size == 1:
        return np.zeros((1, 1))
    kernel = np.eye(size)
    if ordered and size > 2:
        codes = np.arange(size)
        gaps = np.abs(codes[:, None] - codes)
        kernel = smoothness.rough * kernel + (1 - smoothness.rough) * smoothness.reach**gaps
    centred = kernel - kernel.mean(axis=0) - kernel.mean(axis=1)[:, None] + kernel.mean()
    return np.asarray(centred * (size / np.trace(centred)))


@dataclass(frozen=True, eq=False)
class Component:
    """One component of a block's table: how many attributes meet in it, and its covariance."""

    order: int
    kernel: Array


def block_components(kernels: Sequence[Array], margins: Sequence[Array]) -> tuple[Component, ...]:
    """Return the components of a block's table, those of few attributes first.

    `kernels`: of the block's attributes, from `attribute_kernel`; `margins`: shares of the records
    with each code, summing to one.

    Covariances are (n, n), n the product of the sizes.
    """
    centred = []
    for kernel, shares in zip(kernels, margins, strict=True):
        left = kernel - shares @ kernel
        centred.append(left - (left @ shares)[:, None])
    flat = [np.ones_like(kernel) for kernel in kernels]
    found = []
    for order in range(1, len(kernels) + 1):
        for chosen in combinations(range(len(kernels)), order):
            product: Array = np.ones((1, 1))
            for i in range(len(kernels)):
                part = centred[i] if i in chosen else flat[i]
                product = np.asarray(np.kron(product, part), dtype=np.float64)
            found.append(Component(order, product))
    return tuple(found)


FIRST_VARIANCES = np.array([0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
"""Variances on the log odds that the evidence of a block's first table chooses from."""

LATER_VARIANCES = FIRST_VARIANCES[:5]  # the same of later tables, which find what is left

USUAL_OF_ORDER = {2: 0.02, 3: 0.005}
"""Usual variances of the effects of pairs and triples; those of single attributes are learned."""

SMALL = 0.01  # added to variances before their logarithms are compared

LEAST_UNKNOWN = 1e-6  # no effect is known better than this variance


@dataclass(frozen=True)
class Table:
    """A noisy table of residuals, in records."""

    residuals: Array  # (n,): noisy sums of weighted residuals, one a cell
    curvatures: Array  # (n,): expected derivative of each sum by the log odds; positive
    variance: float  # variance of the noise on each sum


@dataclass(frozen=True, eq=False)
class EffectBlock:
    """What is known of a block's effects on the log odds."""

    attributes: tuple[int, ...]
    sizes: tuple[int, ...]  # of these attributes
    components: tuple[Component, ...]  # prior covariances, see `block_components`
    mean: Array  # (n,)
    covariance: Array  # (n, n)
    n_visits: int = 0  # tables of residuals seen
    left: Table | None = None  # the last of them, less what its step took of it

    @classmethod
    def empty(
        cls, attributes: Sequence[int], sizes: Sequence[int], components: tuple[Component, ...]
    ) -> "EffectBlock":
        n = int(np.prod(sizes))
        return cls(tuple(attributes), tuple(sizes), components, np.zeros(n), np.zeros((n, n)))


@dataclass(frozen=True, eq=False)
class Update:
    """What a table taught."""

    block: EffectBlock
    step: Array  # (n,): what the log odds of each cell's records gain, the intercept's part within
    intercept_step: float
    intercept_variance: float  # what is still unknown of the intercept
    variance: float  # mean variance picked for the effects of single attributes


def update_block(
    block: EffectBlock,
    table: Table,
    intercept_variance: float,
    usual: float,
    *,
    within: Callable[[Array], Array],
    pooling: float,
) -> Update:
    """Return what is known after a table of residuals.

    `intercept_variance`: what is unknown of the intercept, ``v_0``; `usual`: usual variance of the
    effects of one attribute; `within`: what becomes of the change of effects, for the table is
    linear nearby only; `pooling`: penalty on the squared logarithm of a variance over its usual
    one.
    """
    root = np.sqrt(table.variance + table.curvatures)
    scaled, target = table.curvatures / root, table.residuals / root
    prior, picked = _pick_covariance(block, scaled, target, intercept_variance, usual, pooling)
    inner = np.eye(len(root)) + scaled[:, None] * prior * scaled
    gain = scaled[:, None] * np.linalg.solve(
        inner, np.column_stack([target, scaled[:, None] * prior])
    )
    intercept_step = intercept_variance * float(gain[:, 0].sum())
    effects = within(prior @ gain[:, 0] - intercept_step)
    ones = scaled @ np.linalg.solve(inner, scaled)
    left = max(intercept_variance - intercept_variance**2 * float(ones), 0.0)
    covariance = prior - prior @ gain[:, 1:]
    covariance = (covariance + covariance.T) / 2
    covariance -= min(left, _common_variance(covariance))
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] = np.maximum(covariance[diagonal], LEAST_UNKNOWN)
    step = effects + intercept_step
    known = replace(
        block,
        mean=block.mean + effects,
        covariance=covariance,
        n_visits=block.n_visits + 1,
        left=replace(table, residuals=table.residuals - table.curvatures * step),
    )
    return Update(known, step, intercept_step, left, picked)


def _common_variance(covariance: Array) -> float:
    """Return the largest variance that all effects may have in common: ``1 / (1ᵀ Σ⁻¹ 1)``."""
    n = len(covariance)
    certain = covariance + LEAST_UNKNOWN * np.eye(n)
    return 1 / max(float(np.linalg.solve(certain, np.ones(n)).sum()), 1e-300)


def _pick_covariance(
    block: EffectBlock,
    scaled: Array,
    target: Array,
    intercept_variance: float,
    usual: float,
    pooling: float,
) -> tuple[Array, float]:
    """Return the covariance of what may be lacking, and the mean variance of single effects.

    Variances of the components are picked in turn, twice where there are several. The largest
    array holds a covariance for every value: (8, n, n).
    """
    grid = LATER_VARIANCES if block.n_visits else FIRST_VARIANCES
    values = np.zeros(len(block.components))
    prior = block.covariance + intercept_variance
    for _ in range(1 if len(values) == 1 else 2):
        for i, component in enumerate(block.components):
            expected = usual if component.order == 1 else USUAL_OF_ORDER[component.order]
            prior = prior - values[i] * component.kernel
            evidence = _evidence(prior, component.kernel, grid, scaled, target)
            penalty = pooling * (np.log(grid + SMALL) - log(expected + SMALL)) ** 2
            values[i] = grid[int(np.argmax(np.round(evidence - penalty, 6)))]  # ties: the smaller
            prior = prior + values[i] * component.kernel
    single = [v for v, part in zip(values, block.components, strict=True) if part.order == 1]
    return prior, float(np.mean(single))


def _evidence(prior: Array, kernel: Array, grid: Array, scaled: Array, target: Array) -> Array:
    """Return the log evidence of the scaled table for each variance of one component."""
    covariances = prior + grid[:, None, None] * kernel
    inner = np.eye(len(scaled)) + scaled[:, None] * covariances * scaled
    factors = np.linalg.cholesky(inner)
    whitened = np.linalg.solve(
        factors, np.broadcast_to(target[:, None], (len(grid), len(target), 1))
    )
    halves = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray(-0.5 * (whitened[..., 0] ** 2).sum(axis=1) - halves)
