"""One release, many forests: the same answers as a fit of its own, and refusals by name."""

import numpy as np
import pytest

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    Provenance,
    RandomTrees,
    load_dataset,
    load_model,
    save_model,
)
from mrf_matrix.estimators import from_release
from mrf_matrix.forests import LearnedStructureError
from strategies.operators import Identity, RowSpaceError

CAR = load_dataset("car")
CELLS = Identity(CAR.domain.size, CAR.domain.sizes)


@pytest.fixture(scope="module")
def model():
    return MatrixForestClassifier(
        CAR.domain, n_trees=8, max_depth=3, strategy=CELLS, random_state=0
    ).fit(CAR.X, CAR.y)


@pytest.mark.parametrize("voting", ["hard", "weight", "product", "shares", "posterior"])
def test_the_same_forest_predicts_as_the_fitted_one(model, voting):
    again = from_release(model.release_, CAR.domain, forest=model.forest_, voting=voting)
    other = model.voted_by(voting)
    np.testing.assert_array_equal(again.predict(CAR.X), other.predict(CAR.X))
    np.testing.assert_allclose(again.predict_proba(CAR.X), other.predict_proba(CAR.X))


def test_other_depths_are_forests_of_their_own(model):
    """Without noise: the forest that would have been fitted."""
    exact = MatrixForestClassifier(
        CAR.domain, epsilon=float("inf"), n_trees=2, max_depth=1, strategy=CELLS
    ).fit(CAR.X, CAR.y)
    deep = RandomTrees(16, 5).grow(CAR.domain, random_state=3)
    fitted = MatrixForestClassifier(
        CAR.domain, epsilon=float("inf"), forest=deep, strategy=CELLS
    ).fit(CAR.X, CAR.y)
    asked = from_release(exact.release_, CAR.domain, forest=deep, voting="hard")
    np.testing.assert_array_equal(asked.predict(CAR.X), fitted.predict(CAR.X))


def test_depths_vote_together(model):
    several = [RandomTrees(4, depth).grow(CAR.domain, random_state=depth) for depth in (1, 2, 4)]
    mixed = from_release(model.release_, CAR.domain, forest=several, voting="weight")
    apart = [
        from_release(model.release_, CAR.domain, forest=one, voting="weight")._votes(CAR.X)
        for one in several
    ]
    np.testing.assert_allclose(mixed._votes(CAR.X), sum(apart))
    (ensemble,) = mixed.ensembles_
    assert set(ensemble.forest.depth[ensemble.forest.leaves]) == {1, 2, 4}
    for voting in ("product", "shares", "posterior"):
        shares = mixed.voted_by(voting).predict_proba(CAR.X)
        np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_it_is_saved_like_any_other(model, tmp_path):
    asked = from_release(model.release_, CAR.domain, forest=RandomTrees(4, 2), random_state=0)
    save_model(asked, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict_proba(CAR.X), asked.predict_proba(CAR.X))
    assert loaded.privacy_report_ == asked.privacy_report_


def test_what_the_release_cannot_answer_is_refused(model):
    stumps = RandomTrees(2, 1).grow(CAR.domain, random_state=0)
    narrow = MatrixForestClassifier(CAR.domain, forest=stumps, allocation="per_tree")
    release = narrow.fit(CAR.X, CAR.y).release_
    with pytest.raises(RowSpaceError):
        from_release(release, CAR.domain, forest=RandomTrees(4, 3), random_state=0)
    other = Domain.from_sizes([2, 2], n_classes=4)
    with pytest.raises(ValueError, match="sizes"):
        from_release(model.release_, other, forest=RandomTrees(1, 1))
    with pytest.raises(ValueError, match="forest has a domain"):
        from_release(
            model.release_, CAR.domain, forest=RandomTrees(1, 1).grow(other, random_state=0)
        )
    with pytest.raises(TypeError, match="Release"):
        from_release(model, CAR.domain, forest=stumps)
    with pytest.raises(TypeError, match="forest="):
        from_release(model.release_, CAR.domain, forest="deep")
    with pytest.raises(ValueError, match="at least one"):
        from_release(model.release_, CAR.domain, forest=[])
    with pytest.raises(ValueError, match="domain=None"):
        from_release(model.release_, forest=stumps)


def test_a_structure_learned_from_records_is_refused(model):
    from dataclasses import replace

    grown = RandomTrees(1, 1).grow(CAR.domain, random_state=0)
    learned = replace(grown, provenance=Provenance.from_records("forest"))
    with pytest.raises(LearnedStructureError):
        from_release(model.release_, CAR.domain, forest=learned)
