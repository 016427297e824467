"""Effects of fitted models: their sums, their bands, and what nobody measured."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit

from mrf_matrix import Attribute, Domain, PrivateForestClassifier, load_model, save_model
from mrf_matrix.estimators import (
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.study import effect, explained, importance

DOMAIN = Domain(
    [
        Attribute("age", edges=[20, 40, 60], outside="open"),
        Attribute("sex", categories=["F", "M"]),
        Attribute("town", categories=["A", "B", "C"]),
    ],
    target=Attribute("outcome", categories=["no", "yes"]),
)


def records(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    X = {
        "age": rng.uniform(0, 80, n),
        "sex": rng.choice(["F", "M"], n),
        "town": rng.choice(["A", "B", "C"], n),
    }
    odds = 0.08 * (X["age"] - 40) + 0.7 * (X["sex"] == "M")
    return X, np.where(rng.random(n) < expit(odds), "yes", "no")


@pytest.mark.parametrize("attributes", [0, None, ["age", 1], {"age": 1}])
def test_attributes_are_named(attributes):
    model = PosteriorForestClassifier(DOMAIN, random_state=0).fit(*records(50))
    with pytest.raises(TypeError, match="expected a name, or several"):
        effect(model, attributes)


KINDS = (
    PosteriorForestClassifier,
    ResidualForestClassifier,
    PrivateForestClassifier,
    PooledForestClassifier,
)


def frame(X):
    return np.rec.fromarrays(list(X.values()), names=list(X))


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.__name__)
def model(request):
    X, y = records()
    kind = request.param(DOMAIN, epsilon=3.0, n_records=4000, random_state=0)
    return kind.fit(frame(X), y)


def test_effects_point_where_the_world_points(model):
    found = effect(model, "age")
    assert found.classes == ("yes", "no")
    assert np.diff(found.log_odds).min() > 0
    assert found.names == ("age",)
    assert len(found.labels[0]) == len(found.log_odds) == 4
    turned = effect(model, "age", classes=("no", "yes"))
    assert_allclose(turned.log_odds, -found.log_odds)
    assert_allclose(turned.half_widths, found.half_widths)


def test_bands_grow_with_the_level(model):
    narrow, wide = (effect(model, "town", level=level).half_widths for level in (0.5, 0.99))
    assert (wide > narrow).all()


def test_contributions_and_the_constant_are_the_log_odds(model):
    X, _ = records(50, seed=1)
    names, added = explained(model, frame(X))
    assert names[0] == "constant"
    assert added.shape == (50, len(names))
    labels = np.where(added.sum(axis=1) > 0, "yes", "no")
    assert (labels == model.predict(frame(X))).mean() > 0.9  # averaging moves few of them


def test_scores_of_three_classes_explain_each_against_each(tmp_path):
    """Log odds between two classes are differences of scores, and so add up around a triangle."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(5000, 3))
    y = np.where(rng.random(5000) < 0.7, X[:, 0], rng.integers(0, 3, 5000))
    domain = Domain.from_sizes([3, 3, 3], n_classes=3)
    model = ResidualForestClassifier(domain, epsilon=3.0, n_records=5000, random_state=0).fit(X, y)
    assert next(iter(importance(model))) == "x0"
    around = [explained(model, X[:9], classes=pair)[1] for pair in ((0, 1), (1, 2), (2, 0))]
    assert_allclose(sum(around), 0, atol=1e-12)
    found = effect(model, "x0", classes=(2, 0))
    assert found.log_odds.argmax() == 2
    assert found.log_odds.argmin() == 0
    assert (found.half_widths > 0).all()
    save_model(model, tmp_path / "model.mrf")
    assert importance(load_model(tmp_path / "model.mrf")) == importance(model)


def test_importance_is_of_the_release_alone(model, tmp_path):
    found = importance(model)
    first = next(iter(found))
    if isinstance(model, PooledForestClassifier) and isinstance(first, tuple):
        assert "age" in first, "its tree may tell as much of the three together"
        first = next(name for name in found if isinstance(name, str))
    assert first == "age"
    assert sorted(found.values(), reverse=True) == list(found.values())
    save_model(model, tmp_path / "model.mrf")
    assert importance(load_model(tmp_path / "model.mrf")) == found


def test_what_was_not_measured_has_no_effect():
    X, y = records()
    model = PosteriorForestClassifier(DOMAIN, epsilon=1, blocks=[["age"]], random_state=0)
    model.fit(frame(X), y)
    with pytest.raises(ValueError, match="measured"):
        effect(model, "sex")
    with pytest.raises(ValueError, match="classes"):
        effect(model, "age", classes=("yes", "maybe"))
    with pytest.raises(ValueError, match="level"):
        effect(model, "age", level=1)


def test_pictures_of_one_and_two_attributes():
    plt = pytest.importorskip("matplotlib.pyplot")
    from mrf_matrix.plotting import EffectDisplay

    plt.switch_backend("agg")
    X, y = records()
    model = PosteriorForestClassifier(
        DOMAIN, epsilon=3, blocks=[["age", "sex"], ["town"]], random_state=0
    ).fit(frame(X), y)
    curve = EffectDisplay.from_estimator(model, "age")
    assert curve.ax_.get_xlabel() == "age"
    assert "yes" in curve.ax_.get_ylabel()
    heat = EffectDisplay.from_estimator(model, ("sex", "age"))
    assert (heat.ax_.get_xlabel(), heat.ax_.get_ylabel()) == ("age", "sex")
    plt.close("all")


def test_lines_join_codes_that_are_in_order_alone():
    plt = pytest.importorskip("matplotlib.pyplot")
    from mrf_matrix.plotting import EffectDisplay
    from mrf_matrix.plotting.models import clearest

    plt.switch_backend("agg")
    domain = Domain(
        [
            Attribute("age", edges=[0, 10, 20, 30, 40], missing="category"),
            Attribute("pay", categories=[1, 2, 5]),
            Attribute("town", categories=["a", "b", "c"]),
            Attribute("long", categories=[*range(60)], missing="category"),
        ],
        Attribute("class", categories=["no", "yes"]),
    )
    codes = np.random.default_rng(0).integers(0, domain.sizes, (300, 4))
    model = PosteriorForestClassifier(
        domain, epsilon=3, blocks=[["age"], ["pay"], ["town"], ["long"]], random_state=0
    ).fit(domain.decode(codes, numeric="midpoint"), np.where(codes[:, 0] > 2, "yes", "no"))
    for name, joined in (("age", 4), ("pay", 3), ("town", 0)):
        shown = effect(model, name)
        assert shown.in_order == (joined,)
        line = EffectDisplay.from_estimator(model, name).ax_.lines[-1]
        np.testing.assert_array_equal(line.get_ydata(), shown.log_odds[:joined])
    few = clearest(effect(model, "long"))
    known = [label != "(missing)" for label in few.labels[0]]
    assert few.in_order == (sum(known),)
    assert len(known) < 61
    plt.close("all")
