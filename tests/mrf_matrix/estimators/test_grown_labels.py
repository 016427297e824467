"""Trees of labels in two rounds, as they are used: effects, files, beside tables, and planned."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix import Domain, PrivacyLeakWarning, PrivateForestClassifier, load_model, save_model
from mrf_matrix.estimators import LabelTreeClassifier, PooledForestClassifier
from mrf_matrix.forests.learned import label_tree
from mrf_matrix.planning.private.pooled_plan import CLEAR_OF_SEVERAL
from mrf_matrix.study import effect, explained, importance

D, K, N = 11, 6, 900
DOMAIN = Domain.from_sizes([4] * D, n_classes=K)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, 4, (N, D))
Y = (X[:, 0] + 2 * (X[:, 1] > 1) + (X[:, 2] > 2)) % K
FIXED = {"n_records": N, "noise": "research", "noise_state": 0, "random_state": 0}


def grown(**changes):
    return LabelTreeClassifier(DOMAIN, **FIXED | {"epsilon": 1} | changes).fit(X, Y)


def pooled(**changes):
    return PooledForestClassifier(DOMAIN, **FIXED | {"epsilon": 2} | changes).fit(X, Y)


def test_it_knows_more_classes_than_a_first_round_has_cells_for():
    model = grown()
    assert [one.depth for one in model.plan_.rounds] == [3, 2]
    assert model.score(X, Y) > 0.75
    flat = grown(epsilon=0.04)
    assert [one.depth for one in flat.plan_.rounds] == [3]
    assert flat.score(X, Y) < model.score(X, Y) - 0.1
    few = Domain.from_sizes([4] * 7, n_classes=K)
    deepest = LabelTreeClassifier(few, **FIXED | {"epsilon": 0.4}).fit(X[:, :7], Y)
    assert [one.depth for one in deepest.plan_.rounds] == [4]
    assert deepest.score(X[:, :7], Y) > flat.score(X, Y)


@pytest.mark.parametrize("made", [grown, pooled])
def test_what_a_tree_without_a_table_adds_is_told_all_the_same(made, monkeypatch):
    model = made()
    names = [name for name in importance(model) if isinstance(name, tuple)]
    monkeypatch.setattr(label_tree, "MOST_PLACES", 0)
    other = made()
    assert other.tree_.table is None
    assert set(importance(other)) == set(importance(model))
    assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
    (known, expected), (told, found) = explained(model, X), explained(other, X)
    assert told == known
    assert_allclose(found, expected, atol=1e-9)
    deepest = max(names, key=len)
    for asked in (deepest[:2], deepest[-1:], deepest):
        assert_allclose(effect(other, asked).log_odds, effect(model, asked).log_odds, atol=1e-9)
    # without a table shares are those of cells; codes that no record can have do not count twice
    assert importance(other)[deepest] == pytest.approx(importance(model)[deepest], rel=0.05)


@pytest.mark.parametrize("made", [grown, pooled])
@pytest.mark.parametrize("changes", [{}, {"neighboring": "replace_one", "epsilon": 2}], ids=str)
def test_files_say_the_same(tmp_path, made, changes):
    model = made(**changes | {"noise": "exact", "noise_state": None})
    save_model(model, tmp_path / "model.mrf")
    loaded = load_model(tmp_path / "model.mrf")
    assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.privacy_report_ == model.privacy_report_
    assert loaded.export_text() == model.export_text()


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_pools_of_several_classes_share_by_their_own_signal():
    model = pooled(n_records=2000)
    tree, tables = (one.budget.exact for one in model.plan_.steps)
    assert 2 * CLEAR_OF_SEVERAL == 2 * 2000
    assert tree == tables == 1
    more = PooledForestClassifier(DOMAIN, epsilon=2, n_records=5000).plan()
    assert more.tree.spent.exact == pytest.approx(2 * CLEAR_OF_SEVERAL / 10_000)
    read_off = PooledForestClassifier("from_data", **FIXED | {"epsilon": 2, "n_records": 2000})
    with pytest.warns(PrivacyLeakWarning):
        read_off.fit(X, Y)
    assert read_off.plan_.tree.spent.exact == 1


@pytest.mark.parametrize(
    ("n_records", "epsilon", "name"), [(N, 1, "tree of labels"), (N, 1.8, "tree beside tables")]
)
def test_the_private_forest_takes_them(n_records, epsilon, name):
    model = PrivateForestClassifier(
        DOMAIN, n_records=n_records, epsilon=epsilon, noise="exact", random_state=0
    )
    assert model.plan().name == name
    assert model.fit(X, Y).score(X, Y) > 0.6
    assert model.privacy_report_.statement.startswith("Private release")
