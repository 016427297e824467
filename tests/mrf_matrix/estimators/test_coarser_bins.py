"""The private forest counts neighbouring codes of long ordered attributes as one."""

import numpy as np
import pytest

from mrf_matrix import (
    Attribute,
    Domain,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateForestClassifier,
    load_model,
    save_model,
)
from mrf_matrix.forests import BlockTrees
from mrf_matrix.streams import count_leaves, partial_counts
from mrf_matrix.study import effect
from strategies.operators import memory_cap

N = 600
FINE = Domain(
    [
        Attribute("age", size=101, missing="category"),
        Attribute("pay", edges=[5 * i for i in range(60)], outside="open"),
        Attribute("town", categories=[f"t{i:02}" for i in range(20)]),
        Attribute("sex", categories=["f", "m"]),
    ],
    Attribute("class", categories=["no", "yes"]),
)
SIZES = (15 + 1, 16, 20, 2)
CASES = {  # epsilon, whether the number of records is public
    "tables": (1.0, False),
    "labels": (0.1, True),
    "pool": (1.0, True),
}


def people(n=N):
    """Records by name, some of unknown age; the class follows age and pay."""
    random = np.random.default_rng(0)
    age, pay = random.integers(0, 101, n), random.uniform(-20, 320, n)
    X = {
        "age": [None if one % 10 == 3 else int(one) for one in age],
        "pay": pay,
        "town": [f"t{i:02}" for i in random.integers(0, 20, n)],
        "sex": random.choice(["f", "m"], n),
    }
    y = np.where(age / 100 + pay / 300 + random.normal(0, 0.2, n) > 1, "yes", "no")
    return X, y


def forest(domain, case, **changes):
    epsilon, is_public = CASES[case]
    given = {"epsilon": epsilon, "n_records": N if is_public else None, "noise": "research"}
    return PrivateForestClassifier(
        domain, **given | {"noise_state": 0, "random_state": 0} | changes
    )


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return request.param


def test_a_long_domain_is_measured_as_its_bins_are(case):
    X, y = people()
    fine, coarse = (forest(one, case).fit(X, y) for one in (FINE, FINE.coarser()))
    assert fine.domain_ == fine.forest_plan_.domain == fine.plan_.domain == FINE.coarser()
    assert fine.domain_.sizes == SIZES
    np.testing.assert_array_equal(fine.predict_proba(X), coarse.predict_proba(X))
    assert fine.domain is FINE


def test_counts_and_batches_over_the_long_domain_give_the_same(case):
    X, y = people()
    usual = forest(FINE, case).fit(X, y).predict_proba(X)
    counted = forest(FINE, case).fit_counts(partial_counts(X, y, FINE))
    halves = [
        ({name: column[half] for name, column in X.items()}, y[half])
        for half in (slice(N // 2), slice(N // 2, None))
    ]
    read = forest(FINE, case).fit_stream(halves)
    for other in (counted, read):
        np.testing.assert_allclose(other.predict_proba(X), usual, rtol=1e-9)


def test_plan_and_report_name_what_is_coarser(case):
    X, y = people()
    model = forest(FINE, case)
    said = "Neighbouring codes of 'age', 'pay' are counted as one, in at most 16 bins."
    assert said in str(model.plan())
    assert any(said in note for note in model.fit(X, y).privacy_report_.notes)
    assert model.plan_.coarser == ("age", "pay")
    assert "Neighbouring" not in str(forest(FINE.coarser(), case).plan())


def test_a_file_holds_the_bins(case, tmp_path):
    X, y = people()
    model = forest(FINE, case, noise="exact", noise_state=None).fit(X, y)
    save_model(model, tmp_path / "one.mrf")
    loaded = load_model(tmp_path / "one.mrf")
    assert loaded.domain_.sizes == SIZES
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_effects_are_shown_by_bins():
    X, y = people()
    model = forest(FINE, "tables").fit(X, y)
    assert effect(model, "pay").log_odds.shape == (16,)


def test_counts_of_leaves_over_the_long_domain_are_refused_before_the_charge():
    X, y = people()
    leaves = count_leaves([(X, y)], BlockTrees([(0,), (1,)]).grow(FINE))
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(TypeError, match="neighbouring codes are counted as one"):
        forest(FINE, "tables", ledger=ledger).fit_counts(leaves)
    assert ledger.spent == 0


def test_values_outside_of_the_long_domain_are_refused_before_the_charge():
    X, y = people()
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match="age"):
        forest(FINE, "tables", ledger=ledger).fit(X | {"age": [101] * N}, y)
    assert ledger.spent == 0


def test_covariances_of_all_codes_are_never_made(case):
    """Those of 3000 codes and two classes take 144 MB each."""
    domain = Domain([Attribute("x", size=3000), *FINE.attributes[1:]], FINE.target)
    X, y = people()
    X["x"] = np.random.default_rng(1).integers(0, 3000, N)
    del X["age"]
    with memory_cap(40_000_000):
        assert forest(domain, case).fit(X, y).predict_proba(X).shape == (N, 2)


@pytest.mark.parametrize("epsilon", [1, 4])
def test_what_follows_a_choice_has_the_same_bins(epsilon):
    """Of how rare the rarer class is."""
    X, y = people(4000)
    given = {"epsilon": epsilon, "n_records": 4000}
    model = forest(FINE, "pool", **given).fit(X, y)
    assert model.plan_.announced is not None
    assert model.plan_.coarser == ("age", "pay")
    coarse = forest(FINE.coarser(), "pool", **given).fit(X, y)
    counted = forest(FINE, "pool", **given).fit_counts(partial_counts(X, y, FINE))
    for other in (coarse, counted):
        np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_a_domain_read_off_long_records_says_so():
    codes = np.arange(600).reshape(-1, 1) % 100
    model = PrivateForestClassifier("from_data", epsilon=1, noise="research", noise_state=0)
    with pytest.warns(PrivacyLeakWarning):
        model.fit(codes, codes[:, 0] > 50)
    assert "read off" in model.privacy_report_.statement
