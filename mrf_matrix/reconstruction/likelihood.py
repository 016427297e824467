"""Maximum likelihood under the noise's own law.

Least squares is the best *linear* estimate. Laplace noise has a sharper peak than its variance
tells: a location measured often enough is known with half the variance from the median.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseLaw, NoNoise, Release
from mrf_matrix.mechanisms.measurement.least_squares import (
    check_determined,
    checked_workload,
    determined_estimate,
    estimated_cells,
    factors_of,
    recovered_squares,
)
from mrf_matrix.reconstruction.absolute_deviations import least_absolute_deviations
from mrf_matrix.reconstruction.estimate import Estimate
from mrf_matrix.reconstruction.pooling import checked_releases, claim_of
from mrf_matrix.reconstruction.projected_descent import constrained_least_squares
from mrf_matrix.reconstruction.simplex import FeasibleTables
from strategies.operators import Dense, Marginals, Operator, as_operator, check_allocation

LARGEST_PROGRAMME = 4_000_000  # entries of answers x coefficients that a linear programme may have
MANY = 8  # answers per coefficient from which large-sample variances are given


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LikelihoodEstimate(Estimate):
    """A maximum-likelihood estimate with its coefficients.

    Parameters
    ----------
    coefficients : ndarray of shape (p, k)
        β, one column a class; in records where there is no model.
    log_likelihood : float
        ``Σ log P(noise = y - A X β)`` over all answers and classes, with the law's formula
        continued between the integers.
    """

    coefficients: Array
    log_likelihood: float


@dataclass(frozen=True, eq=False)
class _Fit:
    """Answers over the scale of their noise, and what they measure of the coefficients.

    `ratios` (m,) are variances of the noise over its squared scale: 1 for continuous Gaussian
    noise, less for discrete noise of a small scale.
    """

    matrix: Array
    answers: Array
    queries: Dense
    ratios: Array


def maximum_likelihood(
    releases: Release | Sequence[Release],
    workload: object,
    *,
    model: object = None,
    nonnegative: bool = False,
) -> LikelihoodEstimate:
    """Answer a workload from the likeliest counts of a linear model ``D = X β``.

    Maximises ``Σ log P(noise = y - A X β)`` over β, for every class. Discrete Laplace noise of
    scale ``t_i`` gives least weighted absolute deviations, ``Σ |y - A X β| / t_i``, solved as a
    linear programme; discrete Gaussian noise gives generalised least squares.

    Parameters
    ----------
    releases : Release or sequence of Release
        All with Laplace or all with Gaussian noise.
    workload : ndarray, scipy sparse or Operator of shape (q, n)
    model : ndarray, scipy sparse or Operator of shape (n, p), optional
        X, chosen without looking at the records; see `additive_model`. By default every cell is
        its own coefficient.
    nonnegative : bool, default=False
        Require ``β >= 0``.

    Returns
    -------
    LikelihoodEstimate
        With exact variances for Gaussian noise without constraint. For Laplace noise with
        `approximate_variances` where there are at least `MANY` answers a coefficient: half of least
        squares', reached as answers grow many and the scale is well above 1. All of them hold if
        the counts follow the model.

    Raises
    ------
    RowSpaceError
        If the releases do not determine the workload under the model.
    MemoryCapError, ValueError
        If there are too many coefficients, the noises are of both kinds, or there is none.
    RuntimeError
        If a solver fails.

    Notes
    -----
    Without a model, and with as many cells as answers, it is least squares: there is nothing to
    weigh. Few answers a coefficient make its error larger than least squares', not smaller.

    Examples
    --------
    A count measured 101 times: the median.

    >>> from mrf_matrix.mechanisms import PureDP, count_cells, measure
    >>> counts = count_cells(np.zeros((50, 1), int), np.zeros(50, int), sizes=(1,), n_classes=1)
    >>> release = measure(np.ones((101, 1)), counts, PureDP(1), noise="research", random_state=0)
    >>> found = maximum_likelihood(release, [[1]])
    >>> bool(found.values.item() == np.median(release.answers))
    True
    """
    queries = checked_workload(workload)
    given = checked_releases(releases)
    law = _common_law(given)
    fit = _fit(given, queries, model)
    if law is DiscreteGaussian:
        estimate, beta = _gaussian(fit, nonnegative)
    else:
        estimate, beta = _laplace(fit, nonnegative)
    scales = np.concatenate([np.full(len(r.answers), float(r.noise_scale)) for r in given])
    residuals = (fit.answers - fit.matrix @ beta) * scales[:, None]
    ends = np.cumsum([len(release.answers) for release in given])[:-1]
    likelihood = sum(
        float(release.law.log_pmf(part).sum())
        for release, part in zip(given, np.split(residuals, ends), strict=True)
    )
    return LikelihoodEstimate(
        **estimate, coefficients=beta, log_likelihood=likelihood, claim=claim_of(given)
    )


def _common_law(releases: Sequence[Release]) -> type[NoiseLaw]:
    laws = {type(release.law) for release in releases}
    if len(laws) > 1:
        raise ValueError(
            "releases have noises of both kinds, Laplace and Gaussian: expected one kind. "
            "combine(...) takes both."
        )
    law = laws.pop()
    if law in (DiscreteLaplace, DiscreteGaussian):
        return law
    if law is NoNoise:
        raise ValueError(
            "releases have no noise, so every other count has probability 0: expected a finite "
            "budget, or combine(...)."
        )
    raise TypeError(
        f"releases have noise of law {law.__name__}: expected discrete Laplace or discrete "
        f"Gaussian noise, whose likelihood is known here, or combine(...)."
    )


def _fit(releases: Sequence[Release], queries: Operator, model: object) -> _Fit:
    """Divide every release by its noise's scale and bring it to the model's coefficients."""
    parts = [release.mechanism.rounded.recovery for release in releases]
    rows, n = sum(part.shape[0] for part in parts), parts[0].shape[1]
    if queries.shape[1] != n:
        raise ValueError(f"workload has {queries.shape[1]} columns: expected {n} cells.")
    design = None if model is None else as_operator(model, "model")
    if design is not None and design.shape[0] != n:
        raise ValueError(f"model has {design.shape[0]} rows: expected {n}, one for each cell.")
    p = n if design is None else design.shape[1]
    if rows * p > LARGEST_PROGRAMME:
        raise ValueError(
            f"model has {p} coefficients for {rows} answers: expected a product of at most "
            f"{LARGEST_PROGRAMME}. Fit a model of fewer coefficients, or use combine(...)."
        )
    check_allocation("cells of the model", (n, p))
    explicit = None if design is None else design.to_dense()
    scales = [float(release.noise_scale) for release in releases]
    matrix = np.concatenate(
        [_through(part, explicit) / scale for part, scale in zip(parts, scales, strict=True)]
    )
    answers = np.concatenate(
        [release.answers / scale for release, scale in zip(releases, scales, strict=True)]
    )
    ratios = [release.variance / scale**2 for release, scale in zip(releases, scales, strict=True)]
    reduced = Dense(_through(queries, explicit))
    check_determined(reduced, Dense(matrix))
    rows_of = [len(release.answers) for release in releases]
    return _Fit(matrix, answers, reduced, np.repeat(ratios, rows_of))


def _through(matrix: Operator, design: Array | None) -> Array:
    if design is not None:
        check_allocation("rows over the model's coefficients", (matrix.shape[0], design.shape[1]))
    return matrix.to_dense() if design is None else matrix.matmat(design)


def _gaussian(fit: _Fit, nonnegative: bool) -> tuple[dict[str, Any], Array]:
    """Return least squares weighted by scales, with the exact variances of the discrete noise."""
    matrix = Dense(fit.matrix)
    if nonnegative:
        beta = constrained_least_squares(matrix, fit.answers, FeasibleTables(), 1.0)
        return _biased(fit, beta, "Gaussian"), beta
    cells = estimated_cells(matrix, fit.answers)
    beta = matrix.least_squares(fit.answers) if cells is None else cells
    return {
        "values": determined_estimate(fit.queries, matrix, fit.answers),
        "variances": _weighted_squares(fit.queries, matrix, fit.ratios),
        "method": "maximum likelihood, Gaussian noise",
    }, beta


def _weighted_squares(queries: Dense, matrix: Dense, ratios: Array) -> Array:
    """Return ``Σ_j (W B⁺)_rj² v_j`` of every row, for answers j of variance ``v_j``.

    On the orthonormal basis Q of B's columns, ``W B⁺ = C Qᵀ``, so it is ``(C Qᵀ diag(v) Q Cᵀ)_rr``.
    """
    factors = factors_of(matrix)
    basis, coordinates = (factors.coordinates(part.to_dense()) for part in (matrix, queries))
    spread = basis.T @ (ratios[:, None] * basis)
    return np.asarray(np.einsum("ij,ij->i", coordinates @ spread, coordinates))


def _laplace(fit: _Fit, nonnegative: bool) -> tuple[dict[str, Any], Array]:
    beta = least_absolute_deviations(fit.matrix, fit.answers, nonnegative=nonnegative)
    if nonnegative:
        return _biased(fit, beta, "Laplace"), beta
    enough = fit.matrix.shape[0] >= MANY * fit.matrix.shape[1]
    # Fisher's information of a location under Laplace noise of scale 1 is 1
    approximate = recovered_squares(fit.queries, Dense(fit.matrix)) if enough else None
    known = (
        "the variances are those of many answers and a scale well above 1."
        if enough
        else f"fewer than {MANY} answers a coefficient are too few for large-sample variances."
    )
    return {
        "values": fit.queries.matmat(beta),
        "variances": None,
        "approximate_variances": approximate,
        "method": "maximum likelihood, Laplace noise",
        "note": f"No exact expected error; {known}",
    }, beta


def _biased(fit: _Fit, beta: Array, noise: str) -> dict[str, Any]:
    return {
        "values": fit.queries.matmat(beta),
        "variances": None,
        "method": f"maximum likelihood, {noise} noise, no negative coefficients",
        "note": "Biased, for coefficients cannot be negative: the expected error depends on the "
        "data and is not known.",
    }


def additive_model(
    domain: Domain | Sequence[int], attribute_sets: Sequence[Sequence[int]] | None = None
) -> Operator:
    """Return X with ``(X β)_cell`` the sum of the effects of the cell's codes.

    Parameters
    ----------
    domain : Domain or sequence of int
        The domain, or its attributes' sizes.
    attribute_sets : sequence of sequences of int, optional
        One table of effects for each set; by default one for each attribute.

    Returns
    -------
    Operator of shape (n, p)
        p is the number of cells of all tables. Sums over each table agree, so its columns are
        dependent where there are several: effects are not unique, answers are.

    Examples
    --------
    >>> additive_model([2, 2]).to_dense()
    array([[1., 0., 1., 0.],
           [1., 0., 0., 1.],
           [0., 1., 1., 0.],
           [0., 1., 0., 1.]])
    """
    sizes = domain.sizes if isinstance(domain, Domain) else tuple(domain)
    sets = [(i,) for i in range(len(sizes))] if attribute_sets is None else list(attribute_sets)
    return Marginals(sizes, sets, [1] * len(sets)).T
