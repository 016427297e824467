"""Fitting and predicting beside scikit-learn's compiled random forest, in the same run.

Run with ``pytest tests/benchmarks/test_multinomial_speed.py --benchmark-only``. Both are timed in
seconds of processor, best of several runs, so that a busy machine does not decide.
"""

from time import process_time

import numpy as np
import pandas as pd
import pytest
from rivals.classifiers import ObliqueForestClassifier
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from mrf_matrix.datasets import load_dataset
from mrf_matrix.estimators import MultinomialForestClassifier


def best(call, runs):
    """Return the shortest of several runs, in seconds of processor."""
    times = []
    for _ in range(runs):
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


def table(name, request):
    """Return numeric records and classes."""
    if name == "breast cancer":
        return load_breast_cancer(return_X_y=True)
    if name == "car":
        data = load_dataset("car")
        return data.codes.astype(float), data.labels
    folder = request.getfixturevalue("shared_dir") / "data"
    frame = pd.read_csv(folder / f"{name}.csv")
    y = pd.factorize(frame.pop("class"), sort=True)[0]
    return np.column_stack([pd.factorize(frame[c], sort=True)[0] for c in frame]).astype(float), y


@pytest.mark.parametrize(("name", "runs"), [("car", 5), ("breast cancer", 4), ("letter", 2)])
def test_fit_takes_at_most_twice_scikit_learns_time(benchmark, request, name, runs):
    X, y = table(name, request)
    theirs = RandomForestClassifier(100, min_samples_leaf=5, max_features=None, random_state=0)
    ours = MultinomialForestClassifier(random_state=0)
    theirs_seconds = best(lambda: theirs.fit(X, y), runs)
    seconds = best(lambda: ours.fit(X, y), runs)
    benchmark.pedantic(ours.fit, (X, y), rounds=1, iterations=1)
    benchmark.extra_info |= {"times scikit-learn's fit": round(seconds / theirs_seconds, 2)}
    assert seconds < 2 * theirs_seconds
    predict = best(lambda: ours.predict(X), 8), best(lambda: theirs.predict(X), 8)
    benchmark.extra_info |= {"times scikit-learn's prediction": round(predict[0] / predict[1], 2)}
    assert predict[0] < 1.2 * predict[1]


def test_connect_4_takes_a_minute_or_two(benchmark, request):
    X, y = table("connect4", request)
    forest = MultinomialForestClassifier(random_state=0)
    start = process_time()
    benchmark.pedantic(forest.fit, (X, y), rounds=1, iterations=1)
    assert process_time() - start < 150


@pytest.mark.parametrize("split", ["pca", "lda", "mpsvm_t", "mpsvm_p", "mpsvm_n"])
@pytest.mark.parametrize("name", ["vehicle", "breast cancer"])
def test_oblique_trees_take_at_most_three_random_forests(benchmark, request, name, split):
    X, y = table(name, request)
    ours = ObliqueForestClassifier(split=split, random_state=0)
    theirs = best(lambda: RandomForestClassifier(random_state=0).fit(X, y), 3)
    ratio = best(lambda: ours.fit(X, y), 3) / theirs
    benchmark.pedantic(ours.fit, (X, y), rounds=1, iterations=1)
    benchmark.extra_info["times scikit-learn's fit"] = round(ratio, 2)
    assert ratio < 3
