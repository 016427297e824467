"""Designs chosen without data against the best of the grid, chosen with the test labels.

Run all of it with ``python tests/benchmarks/test_design_choice.py`` (half an hour on one core), a
part with ``pytest tests/benchmarks/test_design_choice.py --benchmark-only``.
"""

import sys

import numpy as np
import pytest

from mrf_matrix import Domain, load_dataset
from mrf_matrix.estimators.design import from_design
from mrf_matrix.planning import tune

DATASETS = ("balance_scale", "car", "tic_tac_toe", "nursery")
EPSILONS = (0.1, 0.5, 1.0, 2.0)


def real_accuracies(search, data, splits):
    """Return every design's mean test accuracy: a forest, split and noise draw for each seed."""
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    scores = {trial.key: [] for trial in search.trials}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(data.n_records)
        test, train = np.split(order, [data.n_records // 5])
        for trial in search.trials:
            model = from_design(search, noise="research", noise_state=seed, random_state=seed)
            model.set_params(domain=domain, **trial.design)
            model.fit(data.codes[train], data.labels[train])
            right = model.predict(data.codes[test]) == data.labels[test]
            scores[trial.key].append(right.mean())
    return {key: float(np.mean(values)) for key, values in scores.items()}


def compared(name, epsilon, splits=4, space=None, time_limit=0.5):
    """Return the accuracies of the tuned design and of the oracle's, and both designs."""
    data = load_dataset(name)
    search = tune(
        data.domain,
        epsilon=epsilon,
        n_records=data.n_records - data.n_records // 5,
        space=space,
        time_limit=time_limit,
    )
    real = real_accuracies(search, data, splits)
    oracle = max(search.trials, key=lambda trial: real[trial.key])
    return real[search.best.key], real[oracle.key], search.best.design, oracle.design


@pytest.mark.parametrize("name", DATASETS[:2])
def test_design_choice(benchmark, name):
    space = {"max_depth": [1, 3], "n_trees": [16], "strategy": ["identity"], "voting": ["hard"]}
    found = benchmark.pedantic(
        compared, args=(name, 1.0), kwargs={"splits": 2, "space": space}, rounds=1
    )
    assert found[0] > found[1] - 0.2


def main(names):
    gaps = []
    for name in names:
        for epsilon in EPSILONS:
            tuned, oracle, chosen, best = compared(name, epsilon)
            gaps.append(oracle - tuned)
            print(f"| {name} | {epsilon:g} | {tuned:.3f} | {oracle:.3f} | {gaps[-1]:.3f} | "
                  f"{list(chosen.values())} | {list(best.values())} |", flush=True)  # fmt: skip
    print(f"mean distance to the oracle: {np.mean(gaps):.4f}")


if __name__ == "__main__":
    main(sys.argv[1:] or DATASETS)
