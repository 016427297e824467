"""Labels kept under redrawn noise; docs/many_forests.md has rows of the table.

``python tests/benchmarks/test_abstaining.py`` prints it. Car as a whole, 32 trees of depth 3 on a
release of its cells, three releases of research noise.
"""

from functools import cache

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from mrf_matrix import Domain, MatrixForestClassifier, RandomTrees, from_release, load_dataset

EPSILONS = (0.1, 0.5, 1.0, 2.0)
VOTINGS = ("hard", "product", "shares", "posterior")
RELEASES = 3
LEVEL = 0.95


@cache
def forest_and_records() -> tuple:
    """Return domain, forest, codes and labels."""
    car = load_dataset("car")
    domain = Domain.from_sizes(car.domain.sizes, n_classes=car.domain.n_classes)
    return domain, RandomTrees(32, 3).grow(domain, random_state=0), car.codes, car.labels


def classifier(epsilon: float, voting: str, seed: int):
    """Return the forest on one release."""
    domain, forest, codes, labels = forest_and_records()
    model = MatrixForestClassifier(
        domain, epsilon=epsilon, forest=forest, strategy="identity", noise="research",
        noise_state=seed,
    ).fit(codes, labels)  # fmt: skip
    return from_release(model.release_, domain, forest=forest, voting=voting)


def kept_and_right(epsilon: float, voting: str) -> np.ndarray:
    """Return the shares of labels kept, of those kept that are right, and of all, over releases.

    Right is what the same forest says without noise.
    """
    codes = forest_and_records()[2]
    truth = classifier(np.inf, voting, 0).predict(codes)
    found = []
    for seed in range(RELEASES):
        model = classifier(epsilon, voting, seed)
        kept = ~np.ma.getmaskarray(model.predict_or_abstain(codes, level=LEVEL))
        right = model.predict(codes) == truth
        found.append([kept.mean(), right[kept].mean() if kept.any() else np.nan, right.mean()])
    return np.nanmean(found, axis=0)


def main() -> None:
    """Print the table."""
    for epsilon in EPSILONS:
        row = [
            "{}: {:.2f}: {:.3f} ({:.2f})".format(voting, *kept_and_right(epsilon, voting))
            for voting in VOTINGS
        ]
        print(f"ε = {epsilon:g}  " + "  ".join(row), flush=True)


@pytest.mark.parametrize("voting", ["hard", "posterior"])
def test_labels_that_are_kept_are_better_than_the_rest(benchmark: BenchmarkFixture, voting: str):
    """At ε = 1 labels kept are right at about the level, all labels less often."""
    kept, right, every = benchmark.pedantic(kept_and_right, (1.0, voting), rounds=1)
    print(f"\n{voting}: {kept:.2f} kept, {right:.3f} of them right, {every:.3f} of all")
    assert right > max(LEVEL, every)


if __name__ == "__main__":
    main()
