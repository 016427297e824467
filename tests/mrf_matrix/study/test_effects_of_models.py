"""Effects of models that hold a tree: the whole model's, against all codes of the domain."""

from itertools import combinations, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from mrf_matrix import Attribute, Domain, PrivateForestClassifier, load_model, save_model
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.labels import LabelPlan
from mrf_matrix.planning.auto.pooled_plan import PooledPlan
from mrf_matrix.plotting import EffectDisplay
from mrf_matrix.plotting.models import clearest_codes
from mrf_matrix.posterior.effects import terms_of_tables
from mrf_matrix.reports.model_sections import strength_section
from mrf_matrix.study import effect, explained, importance

SIZES = (4, 3, 2, 4, 3)
N = 900
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, (N, len(SIZES)))
X[:, 3] = np.minimum(X[:, 3], GENERATOR.integers(0, 4, N))  # low codes are usual
RULE = X[:, 0] + 2 * (X[:, 1] > 0) + X[:, 3] > 3
TWO = np.where(GENERATOR.random(N) < 0.9, RULE, ~RULE).astype(int)
FOUR = (2 * (X[:, 0] > 1) + (X[:, 1] > 0)) % 4
EVERY = np.array(list(product(*map(range, SIZES))))
FIXED = {"n_records": N, "noise": "research", "noise_state": 0, "random_state": 0}


def fitted(kind, k, **changes):
    model = kind(Domain.from_sizes(SIZES, n_classes=k), **FIXED | changes)
    return model.fit(X, TWO if k == 2 else FOUR)


TREES = {
    "labels": (LabelTreeClassifier, 2, {"epsilon": 0.07}),
    "labels of several": (LabelTreeClassifier, 4, {"epsilon": 0.1}),
    "counts": (LabelTreeClassifier, 2, {"epsilon": 0.5}),
    "counts of several": (LabelTreeClassifier, 4, {"epsilon": 0.3}),
    "two rounds": (LabelTreeClassifier, 2, {"epsilon": 2}),
    "auto": (PrivateForestClassifier, 2, {"epsilon": 0.1}),
}
POOLS = {
    "tables": (PooledForestClassifier, 2, {"epsilon": 1}),
    "tables of several": (PooledForestClassifier, 4, {"epsilon": 1}),
    "additive": (PooledForestClassifier, 2, {"epsilon": 4, "beside": "additive"}),
    "a pool": (PrivateForestClassifier, 2, {"epsilon": 0.5}),
}


@pytest.fixture(scope="module", params=TREES)
def tree(request):
    kind, k, changes = TREES[request.param]
    model = fitted(kind, k, **changes)
    plan = getattr(model, "forest_plan_", model.plan_)
    assert isinstance(plan, LabelPlan)
    assert (plan.counts is None) == (request.param[:4] in ("labe", "auto"))
    assert (len(plan.rounds) > 1) == (request.param == "two rounds")
    return model


@pytest.fixture(scope="module", params=POOLS)
def pool(request):
    kind, k, changes = POOLS[request.param]
    model = fitted(kind, k, **changes)
    assert isinstance(getattr(model, "forest_plan_", model.plan_), PooledPlan)
    return model


def spread(posterior, margins):
    """Return the shares of all codes: cells by their counts, and within as tables tell."""
    shares = np.ones(len(EVERY))
    for i, size in enumerate(SIZES):
        shares *= margins.get(i, np.full(size, 1 / size))[EVERY[:, i]]
    if posterior.sizes is not None:
        cells = posterior.cells_at(EVERY)
        mass = np.bincount(cells, shares, minlength=len(posterior.sizes))
        shares *= posterior.sizes[cells] / mass[cells]
    return shares / shares.sum()


def average(values, shares, attributes):
    """Return values of all codes averaged over other attributes, weighed by what these have."""
    own = tuple(attributes)
    rest = tuple(i for i in range(len(SIZES)) if i not in own)
    others = shares.reshape(SIZES).sum(axis=own, keepdims=True)
    return (values.reshape(SIZES) * others).sum(axis=rest)


def odds(model, pair):
    shares = model.predict_proba(EVERY)
    return np.log(shares[:, pair[0]]) - np.log(shares[:, pair[1]])


def asked(attributes):
    return [*[one for n in (1, 2) for one in combinations(attributes, n)], tuple(attributes[:3])]


def names(attributes):
    return [f"x{i}" for i in attributes]


def test_of_a_tree_it_is_the_average_of_what_is_predicted(tree):
    posterior, last = tree.posterior_, len(tree.classes_) - 1
    shares = spread(posterior, {})
    cut = posterior.partition.attributes
    assert len(cut) > 1
    for attributes in asked(cut):
        for pair in ((0, last), (1, 0)):
            found = effect(tree, names(attributes), classes=pair)
            expected = average(odds(tree, pair), shares, attributes)
            assert_allclose(found.log_odds, expected, atol=1e-9)
            assert found.names == tuple(names(attributes))
            assert min(found.below.min(), found.above.min()) >= 0
            assert found.half_widths.min() > 0
            assert found.shares.sum() == pytest.approx(1)
    assert_array_equal(effect(tree, names(cut)[0]).half_widths.shape, SIZES[cut[0]])
    wide, narrow = (effect(tree, names(cut)[:1], level=level) for level in (0.99, 0.5))
    assert (wide.half_widths > narrow.half_widths).all()


def test_what_the_tree_does_not_depend_on_is_said(tree):
    cut = tree.posterior_.partition.attributes
    for i in set(range(len(SIZES))) - set(cut):
        flat = odds(tree, (1, 0)).reshape(SIZES)
        assert np.ptp(flat, axis=i).max() < 1e-9, "the message is true"
        with pytest.raises(ValueError, match=rf"do not depend on \['x{i}'\].*Expected.*x{cut[0]}"):
            effect(tree, f"x{i}")
        with pytest.raises(ValueError, match=rf"do not depend on \['x{i}'\]"):
            effect(tree, [f"x{cut[0]}", f"x{i}"])


def test_terms_still_add_up_beside_effects(tree):
    known, added = explained(tree, EVERY)
    assert_allclose(added.sum(axis=1), odds(tree, (len(tree.classes_) - 1, 0)), atol=1e-9)
    assert list(importance(tree)) == [*known[1:]]


def test_of_a_pool_it_is_the_sum_of_both_parts(pool):
    """Tables of these attributes, and the tree beside the class shares averaged over the others."""
    posterior = pool.posterior_
    v, logs, tree = posterior.weights[0], posterior.tables.log_shares, posterior.tree
    found = list(terms_of_tables(posterior, 1, 0))
    margins = {one.attributes[0]: one.shares for one in found if len(one.attributes) == 1}
    assert set(margins) == set(range(len(SIZES)))
    shares = spread(tree, margins)
    of_tree = tree.probabilities(EVERY)
    beyond = v * (np.log(of_tree[:, 1] / of_tree[:, 0]) - (logs[1] - logs[0]))
    singles = {one.attributes[0]: one for one in found if len(one.attributes) == 1}
    for i in range(len(SIZES)):
        shown, expected, own = effect(pool, f"x{i}", classes=(1, 0)), 0.0, singles[i]
        if i in tree.partition.attributes:
            expected = average(beyond, shares, (i,))
        assert_allclose(shown.log_odds, own.log_odds + expected, atol=1e-9)
        assert (shown.half_widths > 1.95 * own.deviations).all()
        assert_allclose(shown.shares, own.shares)
    for attributes in combinations(tree.partition.attributes, 2):
        shown, expected = effect(pool, names(attributes), classes=(1, 0)), 0.0
        within = [one for one in found if set(one.attributes) <= set(attributes)]
        codes = np.zeros((np.prod(shape := shown.log_odds.shape), len(SIZES)), dtype=int)
        codes[:, list(attributes)] = list(np.ndindex(shape))
        expected = sum(one.at(codes) for one in within).reshape(shape)
        expected = expected + average(beyond, shares, attributes)
        assert_allclose(shown.log_odds, expected, atol=1e-9)


def test_of_a_pool_all_that_varies_with_a_code_is_in_its_effect(pool):
    """Its curve is the model's average, but for a number: the tables have no other term of it."""
    found = list(terms_of_tables(pool.posterior_, 1, 0))
    margins = {one.attributes[0]: one.shares for one in found if len(one.attributes) == 1}
    shares = spread(pool.posterior_.tree, margins)
    known, added = explained(pool, EVERY, classes=(1, 0))
    for i in range(len(SIZES)):
        apart = [j for j, name in enumerate(known) if isinstance(name, tuple) and f"x{i}" in name]
        tree = tuple(names(pool.posterior_.tree.partition.attributes))
        if any(known[j] != tree for j in apart):
            continue  # tables of several attributes are terms of their own
        curve = average(added.sum(axis=1), shares, (i,))
        away = effect(pool, f"x{i}", classes=(1, 0)).log_odds - curve
        assert_allclose(away, away[0], atol=1e-9)


def test_a_pair_that_neither_part_has_together_is_said():
    model = fitted(PooledForestClassifier, 2, epsilon=1)
    cut = model.posterior_.tree.partition.attributes
    apart = next(i for i in range(len(SIZES)) if i not in cut)
    known = {name for name in importance(model) if isinstance(name, tuple)}
    pair = (f"x{min(cut[0], apart)}", f"x{max(cut[0], apart)}")
    assert pair not in known
    with pytest.raises(ValueError, match=rf"do not depend on \['x{apart}'\].*, or some of"):
        effect(model, pair)


def test_a_page_has_the_effects_of_the_whole_model(pool):
    """The strip of the attribute that the tables tell most of reaches as far as its effect."""
    pages = strength_section(pool, pool.domain_).pictures[1:]
    single = [name for name in importance(pool) if isinstance(name, str)]
    of_name = {name: effect(pool, name) for name in single}
    assert pages
    for name, strip in zip(single, pages, strict=False):
        shown = of_name[name]
        ends = np.abs([shown.log_odds - shown.below, shown.log_odds + shown.above])
        assert f"{name}<" in strip
        assert f">{ends.max():+.2g}<" in strip


def test_labels_that_are_age_alone_are_drawn():
    """The recommended forest at a small signal: every fit shows what it found of age."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    rng, n = np.random.default_rng(0), 4800
    domain = Domain(
        [
            Attribute("age", edges=[20, 30, 40, 48, 60, 70], outside="open", missing="category"),
            Attribute("region", categories=list("ABCD")),
            Attribute("sex", categories=["F", "M"]),
        ],
        target=Attribute("outcome", categories=["no", "yes"]),
    )
    columns = [rng.uniform(10, 80, n), rng.choice(list("ABCD"), n), rng.choice(["F", "M"], n)]
    records = np.rec.fromarrays(columns, names=list(domain.names))
    said = np.where(columns[0] > 48, "yes", "no")
    for seed in range(8):
        fixed = {"noise": "research", "noise_state": seed, "random_state": seed}
        model = PrivateForestClassifier(domain, epsilon=0.03, n_records=n, **fixed)
        shown = effect(model.fit(records, said), "age")
        assert isinstance(model.forest_plan_, LabelPlan)
        assert shown.in_order == (7,)
        assert np.ptp(shown.log_odds) > 1
        display = EffectDisplay.from_estimator(model, "age")
        line, bars = display.ax_.lines[-1], display.ax_.collections[0].get_segments()
        assert_array_equal(line.get_ydata(), shown.log_odds[:7])
        ends = np.array([bar[:, 1] for bar in bars])
        assert_allclose(
            ends, np.stack([shown.log_odds - shown.below, shown.log_odds + shown.above], 1)
        )
        plt.close("all")


def test_three_attributes_are_no_picture():
    pytest.importorskip("matplotlib.pyplot")
    model = fitted(LabelTreeClassifier, 2, epsilon=0.5)
    three = names(model.posterior_.partition.attributes[:3])
    assert effect(model, three).log_odds.ndim == 3
    with pytest.raises(ValueError, match="effect of one or two of them"):
        EffectDisplay.from_estimator(model, three)


# Effects of tables -------------------------------------------------------------------------------


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
    few = clearest_codes(effect(model, "long"))
    known = [label != "(missing)" for label in few.labels[0]]
    assert few.in_order == (sum(known),)
    assert len(known) < 61
    plt.close("all")
