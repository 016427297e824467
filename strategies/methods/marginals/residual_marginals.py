"""Residual marginals: every component measured by itself, with weights in closed form.

With the energies ``w_U = tr(WᵀW E_U)/n`` and ranks ``p_U`` of the components, a strategy with
``AᵀA = n Σ_U λ_U E_U`` has squared L2 column norm ``Σ_U λ_U p_U`` and error ``Σ_U w_U/λ_U``. So
``λ_U ∝ sqrt(w_U/p_U)`` is best, with loss ``(Σ_U sqrt(w_U p_U))²``. Where ``WᵀW`` lies in the
marginals algebra no strategy at all is better for Gaussian noise: with y uniform, the nuclear norm
bound is the same number.

For Laplace noise a set of weight θ costs ``θ s_U`` and has ``λ_U = θ² κ_U``; the best weights are
``θ ∝ (w_U/(κ_U s_U))^(1/3)``, with loss ``(Σ_U (w_U s_U²/κ_U)^(1/3))³``.

References
----------
Xiao, He, Zhang, Kifer: An optimal and scalable matrix mechanism for noisy marginals under convex
loss functions (ResidualPlanner, 2023). Written from the formulas.
"""

import numpy as np

from strategies.methods.family import BOTH_NORMS, Family, Search, factory
from strategies.methods.marginals.algebra import expanded_energies, set_cells
from strategies.methods.marginals.candidates import largest_table
from strategies.methods.marginals.marginals import applies, expansion_seconds
from strategies.operators import Norm, ObliqueResiduals, Operator, fits
from strategies.operators.masks.energies import Energies
from strategies.problem.problem import Problem


def weighted_components(problem: Problem, search: Search) -> Operator:
    """Return every component that the workload reaches, with the best weights.

    Raises ValueError if the workload shows no product structure.
    """
    energies = expanded_energies(problem.workload, problem.energies)
    if energies is None:
        raise ValueError(
            f"workload {problem.workload!r} shows no attributes: expected rows of masks, or an "
            f"operator with sizes."
        )
    return best_residuals(energies, problem.norm)


def best_residuals(energies: Energies, norm: Norm) -> ObliqueResiduals:
    """Return the components of a workload with the weights θ of least loss, sensitivity 1."""
    sets = [tuple(map(int, np.flatnonzero(row))) for row in energies.sets]
    plain = ObliqueResiduals.of_codes(energies.sizes, sets, [1] * len(sets))
    scales = plain.eigenvalues(energies.sets)
    if norm == "l2":
        values = np.sqrt(energies.values / energies.ranks)
        weights = np.sqrt(values / scales / (values @ energies.ranks))
    else:
        costs = np.array([float(one) for one in plain.set_norms("l1")])
        weights = np.cbrt(energies.values / (scales * costs))
        weights /= weights @ costs
    return plain.with_weights(weights.tolist())


def is_served(problem: Problem) -> bool:
    """Tell whether the workload's components are known, and their tables fit in memory.

    In the algebra the components' ranks add up to the workload's, so their tables take about the
    room of its own answers, whatever that is; the weights take none.
    """
    known = problem.energies
    if known is None:
        return (problem.norm == "l2" or problem.merging is None) and applies(problem)
    if not fits((max(known.sizes),) * 2, 16):  # differences of codes
        return False
    if known.is_invariant:
        return True
    few = set_cells(known.sets, known.sizes).sum() <= largest_table()
    return problem.workload.sizes is not None and bool(few)


@factory
def residual_marginals() -> Family:
    """Measure every component of tables by itself: product domains of any size."""
    return Family(
        "residual_marginals",
        "domain",
        BOTH_NORMS,
        is_served,
        weighted_components,
        share=0.0,
        least=expansion_seconds,
    )
