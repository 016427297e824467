"""How far probabilities are from what happens; docs/posterior.md has the Brier scores.

Run with ``python tests/benchmarks/test_calibration.py [DATASET ...]``: it prints the table in
Markdown, and where the posterior forest is not the best. Test records of ten splits together, one
draw of research noise each; forests of the paper's settings, measured by cells.
"""

import sys
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from rival_data import load, split
from rival_methods import OURS, design
from rival_runs import seed_of, shares_of

from mrf_matrix import Domain, MatrixForestClassifier
from mrf_matrix.study import expected_calibration_error

NAMES = {"car": "Car", "balance_scale": "Balance", "tic_tac_toe": "Tic-tac-toe"}
SPLITS = 10
EPSILONS = (0.1, 0.5, 1.0, 2.0)


class Figures(NamedTuple):
    """Expected calibration error in 15 bins, Brier score, and accuracy."""

    ece: float
    brier: float
    accuracy: float


def cells_forest(voting: str, domain: Domain, epsilon: float, n_records: int, seed: int) -> Any:
    """M-RF, batch training, measured by cells: no search for a strategy."""
    return MatrixForestClassifier(
        domain,
        epsilon=epsilon,
        voting=voting,
        strategy="identity",
        noise="research",
        noise_state=seed,
        **design(domain, seed),
    )


METHODS = {
    "M-RF, hard votes": partial(cells_forest, "hard"),
    "M-RF, weight votes": partial(cells_forest, "weight"),
    "private naive Bayes": OURS["private naive Bayes"],
    "posterior forest": OURS["posterior forest"],
}


def figures_of(shares: np.ndarray, truth: np.ndarray) -> Figures:
    """Return the figures of predicted shares (b, k) of records of classes (b,)."""
    gaps = shares - np.eye(shares.shape[1])[truth]
    return Figures(
        expected_calibration_error(truth, shares),
        float((gaps**2).sum(axis=1).mean()),
        float(np.mean(shares.argmax(axis=1) == truth)),
    )


def study(name: str, splits: int = SPLITS) -> dict[float, dict[str, Figures]]:
    """Return every method's figures at every ε, of the splits' test records together."""
    data = load(name)
    truth = np.concatenate([data.labels[split(data, number)[1]] for number in range(splits)])
    found: dict[float, dict[str, Figures]] = {epsilon: {} for epsilon in EPSILONS}
    for method, factory in METHODS.items():
        parts = [
            list(shares_of(data, factory, number, [(e, seed_of(number, 0)) for e in EPSILONS]))
            for number in range(splits)
        ]
        for epsilon, shares in zip(EPSILONS, zip(*parts, strict=True), strict=True):
            found[epsilon][method] = figures_of(np.concatenate(shares), truth)
    return found


def markdown(kept: dict[str, dict[float, dict[str, Figures]]]) -> str:
    """Return the table of calibration error / Brier score."""
    lines = ["| | ε | " + " | ".join(METHODS) + " |", "|---" * (2 + len(METHODS)) + "|"]
    for name, found in kept.items():
        for epsilon, by_method in found.items():
            title = NAMES[name] if epsilon == EPSILONS[0] else ""
            cells = [
                f"{one.ece:.3f} / {one.brier:.3f}".replace("0.", ".") for one in by_method.values()
            ]
            lines.append(f"| {title} | {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def not_best(kept: dict[str, dict[float, dict[str, Figures]]]) -> str:
    """Return where another method has a smaller error than the posterior forest."""
    lines = []
    for name, found in kept.items():
        for epsilon, by_method in found.items():
            for figure in ("ece", "brier"):
                best = min(by_method, key=lambda m: round(getattr(by_method[m], figure), 3))
                least, ours = by_method[best], by_method["posterior forest"]
                if round(getattr(least, figure), 3) < round(getattr(ours, figure), 3):
                    lines.append(
                        f"{NAMES[name]}, ε = {epsilon:g}: the {figure} of {best} is less, at "
                        f"accuracy {least.accuracy:.3f} against {ours.accuracy:.3f}"
                    )
    return "\n".join(lines) or "The posterior forest is the best everywhere."


def test_a_sure_and_right_forecast_scores_nothing_and_an_ignorant_one_its_due():
    truth = np.array([0, 1, 1, 0])
    assert figures_of(np.eye(2)[truth], truth) == (0, 0, 1)
    assert figures_of(np.full((4, 2), 0.5), truth) == (0, 0.5, 0.5)
    assert figures_of(np.eye(2)[1 - truth], truth) == (1, 2, 0)  # negative control


@pytest.mark.parametrize("name", NAMES)
def test_calibration(benchmark, name):
    """Three splits: a Brier score that beats the other methods' where noise is large."""
    found = benchmark.pedantic(study, args=(name, 3), rounds=1)
    print("\n" + markdown({name: found}))
    for figures in (found[0.1], found[0.5]):
        ours = figures["posterior forest"].brier
        assert all(ours < one.brier + 0.02 for one in figures.values())


def main() -> None:
    kept = {name: study(name) for name in sys.argv[1:] or NAMES}
    print(markdown(kept), not_best(kept), sep="\n\n")


if __name__ == "__main__":
    main()
