"""Tables for Laplace noise beside HDMM's marginals, written from their mathematics."""

from itertools import combinations

import numpy as np
import pytest
import scipy

from strategies import evaluate, examples, select
from strategies.operators import Marginals


def hdmm_marginals(sizes: tuple[int, ...], sets: list[tuple[int, ...]], starts: int) -> float:
    """Return the best of local searches over weights of all 2^d marginals, each a dense descent.

    ``min (Σ θ)² Σ_U w_U / Σ_{S ⊇ U} θ_S²/n_S`` with ``w_U = Σ_{S ⊇ U} Π_U (n_i - 1) / n_S`` over
    the workload's tables S.
    """
    d = len(sizes)
    every = [set(c) for k in range(d + 1) for c in combinations(range(d), k)]
    cells = np.array([float(np.prod([sizes[i] for i in s])) for s in every])
    inside = np.array([[u <= s for s in every] for u in every])
    asked = np.array([tuple(sorted(s)) in sets for s in every])
    ranks = np.array([float(np.prod([sizes[i] - 1 for i in u])) for u in every])
    energies = ranks * (inside @ (asked / cells))
    used = energies > 0
    share, energies = (inside / cells)[used], energies[used]

    def log_loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        values = share @ weights**2
        error, cost = np.sum(energies / values), weights.sum()
        slope = -2 * weights * ((energies / values**2) @ share)
        return 2 * np.log(cost) + np.log(error), 2 / cost + slope / error

    rng = np.random.default_rng(0)
    found = [
        scipy.optimize.minimize(
            log_loss, start, jac=True, method="L-BFGS-B", bounds=[(1e-9, None)] * len(every)
        )
        for start in (np.ones(len(every)), *rng.random((starts - 1, len(every))))
    ]
    return float(np.exp(min(one.fun for one in found)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "order"), [((2,) * 6, 2), ((2,) * 7, 3), ((5, 8, 3, 7, 6), 2), ((2, 9, 2, 9), 3)]
)
def test_never_above_the_marginals_of_hdmm(sizes: tuple[int, ...], order: int) -> None:
    workload = examples.marginals(sizes, order)
    assert isinstance(workload, Marginals)
    known = hdmm_marginals(sizes, list(workload.attribute_sets), 5)
    found = select(workload, "l1", random_state=0, time_limit=1.0)
    assert found.loss <= known * (1 + 1e-6)


def test_the_oracle_knows_the_loss_of_the_tables_alone() -> None:
    """One attribute: θ on the table and on the total, on a grid."""
    shares = np.linspace(0.001, 0.999, 999)
    losses = [
        evaluate(np.eye(3), np.vstack([s * np.eye(3), np.full((1, 3), 1 - s)])).loss for s in shares
    ]
    assert hdmm_marginals((3,), [(0,)], 3) == pytest.approx(min(losses), rel=1e-2)
