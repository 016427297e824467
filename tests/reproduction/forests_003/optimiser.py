"""The published optimiser: from random starts its descent ends at the Identity."""

import numpy as np
from data_sets import beside
from forests_003.panels import SETTINGS, records
from forests_003.published_products import PairLoss, alternate
from item import Figure, Item, Run
from scipy.optimize import minimize

from mrf_matrix import (
    RandomTrees,
    path_matrix,
    path_matrix_from_codes,
    prediction_workload,
    query_matrix,
)
from strategies import select
from strategies.bounds.path_bounds import distinct_paths
from strategies.operators import Operator
from strategies.operators.masks.components import mask_rows

LEAST, MOST = "published optimiser, best start", "worst start"
FOUND, BOUND = "searched (ours)", "below which no strategy is (ours)"
ROUNDS, STEPS = 30, 200
KINDS = ("training", "prediction")
PANELS = ("Car", "Balance", "Iris", "Heart", "Mushroom")
ENSEMBLES = {"Heart": ("_e0", "_e1"), "Mushroom": tuple(f"_e{i}" for i in range(5))}
THEIRS = {"Heart, prediction": 1.289}
"""The authors' optimiser over the Identity, where it is not 1: worse than what it starts beside."""


def workloads(name: str, kind: str, seed: int) -> list[Operator]:
    """Return the workloads of a panel: drawn ones, or of Heart and Mushroom the authors' own."""
    if name in ENSEMBLES:
        return [given(name.lower(), suffix, kind) for suffix in ENSEMBLES[name]]
    data, settings = records(name), SETTINGS[name]
    paths = path_matrix(RandomTrees(**settings).grow(data.domain, random_state=seed))
    if kind == "training":
        return [paths]
    _, test, _, _ = data.halves(seed)
    return [prediction_workload(paths, query_matrix(test, data.domain))]


def given(name: str, suffix: str, kind: str) -> Operator:
    """Return a workload of the authors' forests."""
    with np.load(beside(f"workloads/{name}_seed0.npz")) as data:
        sizes = data[f"domain{suffix}"].tolist()
        paths = path_matrix_from_codes(data[f"paths{suffix}"], sizes, data[f"tree_id{suffix}"])
        if kind == "training":
            return paths
        return prediction_workload(paths, query_matrix(data[f"Q{suffix}"], sizes))


def published(workload: Operator, kind: str, seed: int) -> float:
    """Return the loss after one descent of p-Identity, p = 1, from a random start.

    As HDMM does for the authors: a factor an attribute for training, one over all cells for
    prediction.
    """
    rng = np.random.default_rng(seed)
    if kind == "prediction":
        return one_row(workload.to_dense(), rng.random(workload.shape[1]))
    loss = PairLoss.of(distinct_paths(mask_rows(workload)))
    thetas = {i: rng.random((1, loss.paths.sizes[i])) for i in loss.paths.varying_attributes}
    return alternate(loss, thetas, ROUNDS, STEPS)[0]


def one_row(rows: np.ndarray, start: np.ndarray) -> float:
    """Return the loss where the descent over A(θ) = [I; θ] diag(1/(1+θ)), θ >= 0, ends."""
    squares = np.einsum("ij,ij->j", rows, rows)
    ended = minimize(
        one_row_loss,
        start,
        (rows, squares),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(start),
    )
    return float(np.exp(ended.fun))


def one_row_loss(
    theta: np.ndarray, rows: np.ndarray, squares: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return ln of Σ g s² - |W(sθ)|²/(1 + |θ|²), s = 1 + θ, g = diag WᵀW, and its gradient."""
    scale, size = 1 + theta, 1 + theta @ theta
    through = rows @ (scale * theta)
    total = through @ through
    loss = squares @ scale**2 - total / size
    gradient = 2 * squares * scale + 2 * total / size**2 * theta
    gradient -= 2 * (through @ rows) * (1 + 2 * theta) / size
    return float(np.log(loss)), gradient / loss


def over_identity(part: str, run: Run) -> list[Figure]:
    """Return losses as multiples of the Identity's, summed over a panel's ensembles."""
    name, kind = part.split(", ")
    several = workloads(name, kind, 0)
    identity = sum(float((one.column_norms("l2") ** 2).sum()) for one in several)
    starts = [sum(published(one, kind, seed) for one in several) / identity for seed in run.seeds]
    limit = 4.0 if run.full else 0.3
    found = [select(one, random_state=0, time_limit=limit) for one in several]
    return [
        Figure(part, LEAST, min(starts), repeats=run.repeats),
        Figure(part, MOST, max(starts), repeats=run.repeats),
        Figure(part, FOUND, sum(one.loss for one in found) / identity),
        Figure(part, BOUND, sum(one.lower_bound for one in found) / identity),
    ]


ITEMS = (
    Item(
        name="003-optimiser",
        title="OPT_p: what the published optimiser finds",
        rows=(4, 5),
        measure=over_identity,
        privacy="No release: losses of strategies, known without records.",
        parts=tuple(f"{name}, {kind}" for name in PANELS for kind in KINDS),
        quick=("Iris, training", "Balance, training", "Iris, prediction"),
        repeats=10,
        quick_repeats=3,
        claims={
            "on training workloads every start ends at the Identity, or .2 % above": lambda t: all(
                0.999 < t[row, column] < 1.005
                for row in t.rows
                if "training" in row
                for column in (LEAST, MOST)
            ),
            "the library's search is never above it": lambda t: bool(
                (t.column(FOUND) <= t.column(LEAST) + 1e-9).all()
            ),
            "and is below it for prediction": lambda t: all(
                t[row, FOUND] < 0.99 for row in t.rows if "Iris, prediction" in row
            ),
            "no loss is below its certificate": lambda t: bool(
                (t.column(BOUND) <= t.column(FOUND) + 1e-9).all()
            ),
        },
        paper={
            (row, LEAST): THEIRS.get(row, 1.0)
            for row in (f"{name}, {kind}" for name in PANELS for kind in KINDS)
        },
        why="Losses over the Identity's, for Laplace noise. In brackets the authors' optimiser on"
        " their own forests; here forests are drawn, but for Heart and Mushroom, which are theirs."
        " HDMM's optimiser is written again from its formulas; for prediction on Iris its one free"
        " row can gain 9 to 13 %, which the authors' run did not find.",
        finding="the strategy that the paper's optimiser finds is the Identity: each cell of the"
        " domain measured once. The gain over Laplace noise comes from noise on cells in place of"
        " trees, not from an optimised strategy. The Identity is a local minimum of the objective"
        " (strategies, guide), so descents that start near it stay.",
        beyond="Strategies searched by the portfolio, and a certificate for each.",
    ),
)
