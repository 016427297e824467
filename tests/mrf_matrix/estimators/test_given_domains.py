"""Domains as they are given: by the path of a file, read off records, or with long attributes."""

import numpy as np
import pytest

from mrf_matrix import (
    Attribute,
    BatchPredictionClassifier,
    Domain,
    MatrixForestClassifier,
    PrivacyLeakWarning,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    PureDP,
    RandomTrees,
    count_stream,
    from_release,
    load_model,
    measure,
    plan,
    save_model,
    tune,
)
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.forests import BlockTrees, LearnedStructureError
from mrf_matrix.streams import count_leaves, partial_counts
from mrf_matrix.study import evaluate
from strategies.operators import Identity, memory_cap

# Paths, and domains that were read off ------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 2], n_classes=2)
X, Y = np.array([[0, 1], [1, 0], [2, 1], [0, 0]] * 5), np.array([0, 1, 1, 0] * 5)
KINDS = {
    MatrixForestClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    BatchPredictionClassifier: {"n_trees": 2, "max_depth": 1, "strategy": "identity"},
    PosteriorForestClassifier: {},
    PrivateForestClassifier: {},
    PrivateNaiveBayesClassifier: {},
    ResidualForestClassifier: {},
    LabelTreeClassifier: {},
    PooledForestClassifier: {},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_is_as_public_as_its_domain(kind, tmp_path):
    path = str(tmp_path / "domain.json")
    DOMAIN.save(path)
    for given in (path, tmp_path / "domain.json"):
        model = kind(given, **KINDS[kind]).fit(X, Y)
        model.predict(X)
        assert model.domain_ == DOMAIN
        assert model.privacy_report_.noise == "exact"
        assert model.privacy_report_.statement.startswith("Private release")


def test_under_delta_a_path_takes_the_noise_that_its_domain_takes(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    for kind, settings in KINDS.items():
        made = [kind(one, delta=1e-6, **settings) for one in (DOMAIN, tmp_path / "domain.json")]
        first, other = (one._budget for one in made)
        assert first == other, kind


def test_a_federated_plan_is_taken_by_its_domains_path(tmp_path):
    DOMAIN.save(tmp_path / "domain.json")
    settings = {"epsilon": 1, "n_trees": 2, "max_depth": 1, "strategy": "identity"}
    planned = plan(DOMAIN, parties=2, random_state=0, **settings)
    with pytest.raises(ValueError, match="release") as error:  # there is none, and no more is wrong
        MatrixForestClassifier(tmp_path / "domain.json", **settings).fit_release(planned)
    assert "domain of the plan" not in str(error.value)


@pytest.fixture(scope="module")
def read_off():
    with pytest.warns(PrivacyLeakWarning):
        return Domain.from_data(X, Y)


WAYS = {
    "itself": lambda domain, folder: domain,
    "its file": lambda domain, folder: domain.save(folder / "d.json") or folder / "d.json",
    "a part": lambda domain, folder: domain.select([0, 1]),
    "its coarser one": lambda domain, folder: domain.coarser(2),
    "its copy": lambda domain, folder: Domain.from_dict(domain.to_dict()),
    "a model's": lambda domain, folder: PosteriorForestClassifier(domain).fit(X, Y).domain_,
}


@pytest.mark.parametrize(
    ("kind", "way"),
    [*((kind, "itself") for kind in KINDS), *((MatrixForestClassifier, way) for way in WAYS)],
)
def test_a_domain_that_was_read_off_claims_nothing_however_it_is_given(
    kind, way, read_off, tmp_path
):
    given = WAYS[way](read_off, tmp_path)
    model = kind(given, **KINDS[kind]).fit(X, Y)
    model.predict(X)
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")
    assert model.domain_.is_read_off
    with pytest.raises(ValueError, match="no charge would be true"):
        kind(given, ledger=PrivacyLedger(epsilon=9), **KINDS[kind]).fit(X, Y)
    if kind not in (BatchPredictionClassifier, PrivateNaiveBayesClassifier):  # no files of theirs
        with pytest.raises(ValueError, match="allow_nonprivate"):
            save_model(model, tmp_path / "model.mrf")


def written_down(domain):
    """Return the same domain as somebody would write it from public knowledge."""
    return Domain.from_dict(domain.to_dict() | {"is_read_off": False})


def test_a_release_over_another_domain_is_not_private_over_it(read_off):
    public = written_down(read_off)
    counts, forest = count_stream([(X, Y)], public), RandomTrees(2, 1)
    release = measure(Identity(public.size), counts, PureDP(1))
    assert from_release(release, public, forest=forest).privacy_report_.statement.startswith("Priv")
    model = from_release(release, read_off, forest=forest)
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


def test_an_evaluation_of_a_model_over_it_is_not_private(read_off):
    model, ledger = PosteriorForestClassifier(read_off).fit(X, Y), PrivacyLedger(epsilon=1)
    with pytest.raises(ValueError, match="no charge would be true"):
        evaluate(model, X, Y, epsilon=1, ledger=ledger)
    assert not evaluate(model, X, Y, epsilon=1).release.is_private


def test_a_forest_over_it_is_not_taken_as_public(read_off):
    public = written_down(read_off)
    forest = RandomTrees(2, 1).grow(read_off, random_state=0)
    for fit in (
        lambda: MatrixForestClassifier(public, forest=forest).fit(X, Y),
        lambda: from_release(
            measure(Identity(6), count_stream([(X, Y)], public), PureDP(1)), public, forest=forest
        ),
    ):
        with pytest.raises(LearnedStructureError, match="read off records"):
            fit()
    MatrixForestClassifier(read_off, forest=forest).fit(X, Y)


def test_only_a_domain_that_was_read_off_says_so(read_off):
    public = written_down(read_off)
    assert read_off != public
    assert "is_read_off" not in public.to_dict()
    assert not Domain.from_dict(public.to_dict()).is_read_off
    with pytest.raises(ValueError, match="is_read_off is not true or false"):
        Domain.from_dict(public.to_dict() | {"is_read_off": "no"})


def test_counts_and_searches_take_a_path(tmp_path):
    path = tmp_path / "domain.json"
    DOMAIN.save(path)
    assert count_stream([(X, Y)], path).counts.sum() == len(Y)
    found = tune(path, epsilon=1, objective="error",
                 space={"max_depth": [1], "n_trees": [2], "strategy": ["identity"]})  # fmt: skip
    assert found.best.leaves > 0


# Long attributes, whose neighbouring codes are counted as one -------------------------------------


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
