"""How many files of ours a call goes through: what a reader must open to follow it.

Files are counted that are entered by a call of one of their functions, warm: not those that are
only imported. A fit may enter 46, of which the layers of the spine (plan, curator, kind, model) are
seven, and a predict 14; a posterior forest's fit also fits its posterior (eight files), a private
forest's takes its rules besides, and the predict of "batch" is a release.
"""

import sys
from pathlib import Path

import pytest

import mrf_matrix
from mrf_matrix import (
    BatchPredictionClassifier,
    MatrixForestClassifier,
    PrivateForestClassifier,
    load_dataset,
)
from mrf_matrix.estimators import PosteriorForestClassifier

ROOT = Path(mrf_matrix.__file__).parent
TREES = {"n_trees": 8, "max_depth": 2, "strategy": "identity", "random_state": 0}
MADE = {
    "matrix": (lambda domain: MatrixForestClassifier(domain, **TREES), 46, 14),
    "tables": (lambda domain: PosteriorForestClassifier(domain, random_state=0), 50, 12),
    "batch": (lambda domain: BatchPredictionClassifier(domain, n_batches=3, **TREES), 30, 40),
    "auto": (lambda domain: PrivateForestClassifier(domain, n_records=1728), 57, 13),
}
"""Each with the most files that its fit and its predict may enter."""


def entered(call):
    """Return the files of ours, by their paths in the package, in which a call runs a function."""
    seen = set()

    def profile(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return {path.relative_to(ROOT).as_posix() for path in map(Path, seen) if ROOT in path.parents}


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


@pytest.mark.parametrize("name", MADE)
def test_few_files_are_entered(car, name):
    make, most_of_fit, most_of_predict = MADE[name]
    for _ in range(2):  # warm: nothing is imported below, and the sum without a ledger was told
        make(car.domain).fit(car.X, car.y).predict(car.X[:9])
    model = make(car.domain)
    fit = entered(lambda: model.fit(car.X, car.y))
    first = entered(lambda: model.predict(car.X[50:60]))
    predict = entered(lambda: model.predict(car.X[:50]))
    assert "estimators/base.py" in fit & predict, "the count sees what it should"
    assert len(fit) <= most_of_fit, sorted(fit)
    assert len(predict) <= most_of_predict, sorted(predict)
    assert len(first | predict) <= most_of_predict + 2, "what is worked out once is near too"


def test_answers_given_before_are_near_at_hand(car):
    model = MADE["batch"][0](car.domain).fit(car.X, car.y)
    labels = model.predict(car.X[:50])
    found = entered(lambda: model.predict(car.X[:50]))
    assert len(found) <= 10, sorted(found)
    assert (model.predict(car.X[:50]) == labels).all()


def test_the_count_counts():
    assert entered(lambda: None) == set()
    assert entered(lambda: mrf_matrix.Domain.from_sizes([2]).sizes) >= {"domain/domain.py"}
