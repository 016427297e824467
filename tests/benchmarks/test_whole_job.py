"""The whole job on Car, beside scikit-learn's ExtraTrees on the same records in the same run.

Run with ``pytest tests/benchmarks/test_whole_job.py --benchmark-only -s``. The published code takes
about 20 seconds for what is timed here: grow, compile, select the Identity, fit and predict.
"""

from time import perf_counter

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset

TREES, DEPTH = 128, 4


@pytest.fixture(scope="module")
def car():
    data = load_dataset("car")
    return data.codes, data.labels, Domain.from_sizes(data.domain.sizes, n_classes=4)


def train_and_predict(car, noise="exact"):
    codes, labels, domain = car
    model = MatrixForestClassifier(
        domain, epsilon=1.0, n_trees=TREES, max_depth=DEPTH, strategy="identity", noise=noise
    )
    return model.fit(codes, labels).predict(codes)


@pytest.mark.parametrize("noise", ["exact", "research"])
def test_train_and_predict_on_car(benchmark, car, noise):
    codes, labels, _ = car
    benchmark(train_and_predict, car, noise)
    rival = ExtraTreesClassifier(n_estimators=TREES, random_state=0)
    start = perf_counter()
    rival.fit(codes, labels).predict(codes)
    ratio = benchmark.stats["median"] / (perf_counter() - start)
    print(f"\n{noise} noise: {ratio:.2f} of ExtraTrees' time")
    assert ratio < 5


def test_a_million_records(benchmark, car):
    _, _, domain = car
    generator = np.random.default_rng(0)
    codes = generator.integers(0, domain.sizes, size=(1_000_000, 6)).astype(np.int32)
    labels = generator.integers(4, size=1_000_000)
    model = MatrixForestClassifier(domain, epsilon=1.0, strategy="identity", random_state=0)
    benchmark.pedantic(model.fit, (codes, labels), rounds=3)
    start = perf_counter()
    np.unique(codes, axis=0)
    print(
        f"\n{benchmark.stats['median'] / (perf_counter() - start):.2f} of one sort of the records"
    )
