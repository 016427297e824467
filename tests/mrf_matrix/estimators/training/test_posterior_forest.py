"""The posterior forest: conventions, what is claimed and what is paid, and what it is worth."""

from itertools import product
from math import prod, sqrt

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split

from mrf_matrix import Attribute, Domain, PrivacyLedger, load_dataset
from mrf_matrix.estimators import PosteriorForestClassifier, PrivateNaiveBayesClassifier, given_data
from mrf_matrix.kinds import tables as kind
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.planning.plans.block_design import BlockChoice
from mrf_matrix.planning.plans.block_part import block_part, tables_of
from mrf_matrix.posterior import ProductPosterior
from mrf_matrix.posterior import block_effects as main_effects

INFINITE = float("inf")


@pytest.fixture(scope="module")
def car():
    return load_dataset("car")


def research(data, **changes):
    parameters = {"noise": "research", "noise_state": 0, "random_state": 0, "n_records": 1700}
    return PosteriorForestClassifier(data.domain, **(parameters | changes))


# What is measured ----------------------------------------------------------------------------


def a_plan(sizes, k, budget, neighboring="add_remove", n_blocks="auto"):
    return block_part(
        Domain.from_sizes(sizes, n_classes=k),
        budget,
        np.random.default_rng(1),
        BlockChoice(n_blocks),
        n_classes=k,
        n_records=50,
        neighboring=neighboring,
    )


@pytest.mark.parametrize("n_blocks", [1, 2, 3])
@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.5)])
def test_sensitivity_is_exact_by_enumerating_neighbours(n_blocks, budget):
    """Every record that may come (add/remove), every record that may become another."""
    sizes, k = [2, 1, 3, 2], 2
    plan = a_plan(sizes, k, budget, n_blocks=n_blocks)
    matrix = plan.mechanism.rounded.matrix
    order = 1 if isinstance(budget, PureDP) else 2
    records = list(product(*map(range, sizes), range(k)))
    answers = []
    for *codes, label in records:
        counts = count_cells(np.array([codes]), np.array([label]), sizes, k)
        answers.append(counts.answers(matrix).ravel())
    answers = np.array(answers)
    added = (np.abs(answers) ** order).sum(axis=1)
    assert added.min() == added.max() == plan.mechanism.rounded.column_sum
    changed = (np.abs(answers[:, None] - answers) ** order).sum(axis=2).max()
    replacing = a_plan(sizes, k, budget, "replace_one", n_blocks).mechanism
    assert changed == replacing.squared_factor ** (1 / (3 - order)) * added.max()


def test_tables_of_a_release_without_noise_are_the_contingency_tables():
    rng = np.random.default_rng(0)
    domain = Domain(
        [Attribute(str(i), size=n) for i, n in enumerate([3, 2, 1, 4])],
        target=Attribute("y", categories=["pear", "fig", "apple", "never"]),
    )
    codes = rng.integers(0, domain.sizes, size=(80, 4)).astype(np.int32)
    labels = rng.integers(0, 3, size=80)
    for n_blocks in (1, 2, 3):
        plan = block_part(
            domain,
            PureDP(INFINITE),
            np.random.default_rng(n_blocks),
            BlockChoice(n_blocks),
            n_classes=4,
            n_records=80,
            neighboring="add_remove",
        )
        release = measure(plan.mechanism, count_cells(codes, labels, domain.sizes, 4))
        tables, totals = tables_of(plan, release)
        names = np.asarray(domain.classes)[labels]
        for table in tables:
            expected = np.zeros((*table.sizes, 4))
            for code, name in zip(codes, names, strict=True):
                expected[(*code[list(table.attributes)], domain.classes.index(name))] += 1
            np.testing.assert_array_equal(table.values.reshape(expected.shape), expected)
            assert table.variance == 0
        np.testing.assert_array_equal(
            totals.values[0], [(names == c).sum() for c in domain.classes]
        )
        assert sorted(i for t in tables for i in t.attributes) == [0, 1, 3]


@pytest.mark.parametrize("budget", [PureDP(1), ZCDP(0.1)])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
def test_errors_of_leaves_are_those_of_the_report(car, budget, neighboring):
    name = "epsilon" if isinstance(budget, PureDP) else "rho"
    model = research(car, **({"epsilon": None} | {name: budget.exact}), neighboring=neighboring)
    model.fit(car.X, car.y)
    rms = model.privacy_report_.expected_rms_per_leaf
    leaf = model.measurement_.weights[0] * float(model.release_.scale)
    law = model.measurement_.mechanism.law
    draws = law.research((2000, 40), np.random.default_rng(0)) / leaf
    assert sqrt((draws**2).mean()) == pytest.approx(rms, rel=0.03)
    tables, totals = tables_of(model.measurement_, model.release_)
    errors = []
    for table in (*tables, totals):
        true = np.zeros((table.n_cells, 4))
        cells = table.cells(car.codes) if table.sizes else np.zeros(len(car.y), int)
        np.add.at(true, (cells, car.labels), 1)
        errors += [((table.values - true) ** 2 / table.variance).ravel()]
        if table.sizes:
            assert sqrt(table.variance) == pytest.approx(rms)
    assert 0.5 < np.concatenate(errors).mean() < 2


def test_replacing_a_record_doubles_the_noise():
    one, two = (
        a_plan([4, 4, 3], 3, PureDP(1), relation, 2).mechanism.law.variance
        for relation in ("add_remove", "replace_one")
    )
    assert two == pytest.approx(4 * one, rel=0.01)


# Privacy -------------------------------------------------------------------------------------


def test_what_cannot_be_predicted_from_is_refused_before_it_is_paid():
    ledger = PrivacyLedger(epsilon=10**7)
    domain = Domain.from_sizes([6000, 2], n_classes=5)
    model = PosteriorForestClassifier(domain, n_blocks=2, ledger=ledger)
    with pytest.raises(ValueError, match="covariance"):
        model.fit(np.zeros((3, 2), int), [0, 1, 2])
    many = PosteriorForestClassifier(
        Domain.from_sizes([2] * 13, n_classes=200), epsilon=1e6, n_blocks=1, ledger=ledger
    )
    with pytest.raises(ValueError, match="components"):
        many.fit(np.zeros((3, 13), int), [0, 1, 2])
    wrong = PosteriorForestClassifier(Domain.from_sizes([2, 2], n_classes=2), ledger=ledger)
    for X, y in (([[0, 2]], [0]), ([[0, 1]], [2]), (np.zeros((0, 2), int), [])):
        with pytest.raises(ValueError, match=r"not in the categories|no records"):
            wrong.fit(X, y)
    assert not ledger.charges


def failing(*_, **__):
    raise np.linalg.LinAlgError("no posterior")


@pytest.mark.parametrize("name", ["product_posterior", "tables_of"])
def test_a_release_that_was_paid_for_is_kept_whatever_fails_after_it(car, monkeypatch, name):
    """A refit that fails leaves nothing of the fit before, and says how to go on."""
    ledger = PrivacyLedger(epsilon=4)
    model = PosteriorForestClassifier(car.domain, n_blocks=2, ledger=ledger, random_state=0)
    before = model.fit(car.X, car.y).release_
    model.set_params(n_blocks=3)
    monkeypatch.setattr(kind, name, failing)
    with pytest.raises(np.linalg.LinAlgError) as caught:
        model.fit(car.X, car.y)
    assert any("go_on" in note for note in caught.value.__notes__)
    monkeypatch.undo()
    assert len(ledger.charges) == 2
    assert model.release_ is not before
    assert not hasattr(model, "posterior_")
    assert not hasattr(model, "privacy_report_")
    with pytest.raises(NotFittedError):
        model.predict(car.X)
    release = model.release_
    assert model.go_on(car.X, car.y).release_ is release
    assert len(ledger.charges) == 2
    assert len(model.design_.blocks) == 3


def test_a_measurement_that_fails_leaves_the_fit_before_whole(car, monkeypatch):
    model = research(car).fit(car.X, car.y)
    before = model.release_, model.predict_proba(car.X)
    monkeypatch.setattr(given_data, "count_cells", failing)
    with pytest.raises(np.linalg.LinAlgError):
        model.fit(car.X, car.y)
    monkeypatch.undo()
    assert model.release_ is before[0]
    np.testing.assert_array_equal(model.predict_proba(car.X), before[1])


def test_counting_that_fails_costs_nothing(car, monkeypatch):
    ledger = PrivacyLedger(epsilon=4)
    monkeypatch.setattr(given_data, "count_cells", failing)
    with pytest.raises(np.linalg.LinAlgError):
        PosteriorForestClassifier(car.domain, ledger=ledger).fit(car.X, car.y)
    assert not ledger.charges


# Edges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1e4, 1e6, INFINITE])
@pytest.mark.parametrize(
    ("sizes", "k"), [([3], 2), ([2, 1, 3], 1), ([1, 5], 3), ([2] * 6, 2), ([4, 3, 2], 5)]
)
def test_every_budget_gives_probabilities(sizes, k, epsilon):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, sizes, size=(60, len(sizes))), rng.integers(0, max(k - 1, 1), size=60)
    most = sum(size > 1 for size in sizes)
    for settings in ({"n_blocks": most}, {"n_records": 1}, {"n_blocks": 1, "n_records": 10**7}):
        model = PosteriorForestClassifier(
            Domain.from_sizes(sizes, n_classes=k), epsilon=epsilon, random_state=0, **settings
        )
        shares = model.fit(X, y).predict_proba(X)
        assert shares.shape == (60, k)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        np.testing.assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def test_a_small_zcdp_budget(car):
    model = research(car, epsilon=None, rho=1e-4).fit(car.X, car.y)
    assert "ZCDP" in model.privacy_report_.budget
    assert np.isfinite(model.predict_proba(car.X)).all()


def test_intervals_and_abstention(car):
    model = research(car, epsilon=1.0).fit(car.X, car.y)
    margins, widths, above = model.vote_intervals(car.X)
    np.testing.assert_array_equal(above, widths)
    narrow = model.vote_intervals(car.X, level=0.5)[1]
    assert (narrow < widths).all()
    labels = model.predict_or_abstain(car.X)
    np.testing.assert_array_equal(labels.mask, margins <= widths)
    np.testing.assert_array_equal(labels.data, model.predict(car.X))
    assert 0 < labels.mask.mean() < 1
    sure = ~labels.mask
    assert (labels.data == car.y)[sure].mean() > (labels.data == car.y).mean()
    for level in (0, 1, float("nan")):
        with pytest.raises(ValueError, match="level"):
            model.vote_intervals(car.X, level=level)
    alone = PosteriorForestClassifier(Domain.from_sizes([2, 2], n_classes=1))
    with pytest.raises(ValueError, match="one class"):
        alone.fit([[0, 1]], [0]).vote_intervals([[0, 1]])


def test_a_margin_is_computed_once(car, monkeypatch):
    model = research(car, epsilon=0.3).fit(car.X, car.y)
    codes = car.codes.astype(np.int32)
    odds, shares = model.posterior_.log_odds(codes), model.posterior_.probabilities(codes)
    first, second = np.argsort(-shares, axis=1, kind="stable")[:, :2].T
    variances = model.posterior_.margin_variances(codes, first, second)
    by_odds = np.argsort(-odds, axis=1, kind="stable")[:, :2].T
    differ = (np.sort([first, second], axis=0) != np.sort(by_odds, axis=0)).any(axis=0)
    assert differ.any()  # both ways are taken
    asked = {"log_odds": [], "margin_variances": []}
    for name in asked:
        right = getattr(ProductPosterior, name)

        def counted(self, codes, *classes, right=right, name=name):
            asked[name].append(len(codes))
            return right(self, codes, *classes)

        monkeypatch.setattr(ProductPosterior, name, counted)
    margins, widths, _ = model.vote_intervals(car.X, level=0.9)
    assert asked == {"log_odds": [len(codes)], "margin_variances": [len(codes), differ.sum()]}
    rows = np.arange(len(codes))
    ahead = odds[rows, first] - odds[rows, second]
    np.testing.assert_allclose(margins, np.maximum(ahead, 0))
    np.testing.assert_allclose(widths, norm.ppf(0.95) * np.sqrt(variances) + np.maximum(-ahead, 0))


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0])
def test_labels_that_averaging_reversed_have_no_margin_and_are_withheld(car, epsilon):
    """Intervals hold those of the log odds, and zero whenever they do or lie below it."""
    model = research(car, epsilon=epsilon).fit(car.X, car.y)
    codes = car.codes.astype(np.int32)
    odds, shares = model.posterior_.log_odds(codes), model.posterior_.probabilities(codes)
    first, second = np.argsort(-shares, axis=1, kind="stable")[:, :2].T
    ahead = odds[np.arange(len(codes)), first] - odds[np.arange(len(codes)), second]
    errors = np.sqrt(model.posterior_.margin_variances(codes, first, second))
    reversed_ = ahead < 0
    assert 0 < reversed_.sum() < len(codes) / 10
    assert (ahead + norm.ppf(0.505) * errors < 0).any()  # at the first level, wholly below zero
    for level in (0.01, 0.5, 0.95):
        half = norm.ppf(0.5 + level / 2) * errors
        margins, widths, above = model.vote_intervals(car.X, level)
        assert margins.min() == 0
        assert (margins - widths <= ahead - half + 1e-12).all()
        assert (margins + above >= ahead + half - 1e-12).all()
        np.testing.assert_allclose(widths[~reversed_], half[~reversed_])
        withheld = model.predict_or_abstain(car.X, level).mask
        np.testing.assert_array_equal(withheld, ahead <= half)
        assert withheld[reversed_].all()


def test_without_noise_a_class_that_none_has_is_never_predicted():
    domain = Domain.from_sizes([3, 2], n_classes=3)
    X = np.array(list(product(range(3), range(2))) * 20)
    model = PosteriorForestClassifier(domain, epsilon=INFINITE).fit(X, 2 * (X[:, 0] > 0))
    np.testing.assert_array_equal(model.predict(X), 2 * (X[:, 0] > 0))
    assert model.predict_proba(X)[:, 1].max() < 0.01


# What it is worth ----------------------------------------------------------------------------


def mean_scores(data, make, seeds):
    domain = Domain.from_sizes(data.domain.sizes, n_classes=data.domain.n_classes)
    scores, majorities = [], []
    for seed in range(seeds):
        train, test, y, test_y = train_test_split(
            data.codes, data.labels, test_size=0.3, random_state=seed
        )
        model = make(domain, len(train), seed).fit(train, y)
        scores.append(model.score(test, test_y))
        majorities.append((test_y == np.bincount(y).argmax()).mean())
    return np.mean(scores), np.mean(majorities)


def ours(epsilon):
    return lambda domain, n, seed: PosteriorForestClassifier(
        domain,
        epsilon=epsilon,
        n_records=n,
        noise="research",
        noise_state=seed,
        random_state=seed,
    )


def naive_bayes(domain, n, seed):
    return PrivateNaiveBayesClassifier(domain, epsilon=1.0, noise="research", noise_state=seed)


@pytest.mark.slow
def test_it_beats_private_naive_bayes_and_the_majority():
    gains = []
    for name in ("car", "tic_tac_toe", "monks_3"):
        data = load_dataset(name)
        score, majority = mean_scores(data, ours(1.0), 5)
        assert score > majority + 0.02, name
        gains.append(score - mean_scores(data, naive_bayes, 5)[0])
    assert np.mean(gains) > 0, gains


def test_skewed_attributes_are_no_worse_than_naive_bayes():
    """Classes that differ in how skewed their attributes are: .66 without normalised shares."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=1000)
    rare = rng.choice(3, p=[0.9, 0.05, 0.05], size=(1000, 6))
    X = np.where((y == 0)[:, None], rare, rng.integers(3, size=(1000, 6)))
    for epsilon in (1.0, INFINITE):
        model = PosteriorForestClassifier(
            Domain.from_sizes([3] * 6, n_classes=2),
            epsilon=epsilon,
            noise="research",
            noise_state=0,
            random_state=0,
        )
        assert model.fit(X, y).score(X, y) > 0.9


@pytest.mark.slow
def test_little_budget_costs_no_more_than_a_point_of_the_majority():
    """Of 20 splits: .011 above, with a standard error of .006."""
    score, majority = mean_scores(load_dataset("car"), ours(0.1), 20)
    assert score > majority - 0.01


def lost_to_the_majority(epsilon, seeds):
    """Return what each release loses in accuracy where attributes tell nothing of the class."""
    domain, share, lost = Domain.from_sizes([4] * 6, n_classes=2), 0.6, []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(4, size=(2000, 6)), (rng.random(2000) < share).astype(int)
        model = ours(epsilon)(domain, len(X), seed).fit(X, y)
        lost.append((2 * share - 1) * (model.predict(X) == 0).mean())
    return np.array(lost)


@pytest.mark.slow
def test_where_nothing_tells_shrinkage_keeps_closer_to_the_majority(monkeypatch):
    """It loses .021, with a standard error of .003; with all attributes trusted .034."""
    shrunk = lost_to_the_majority(0.3, 15)
    assert shrunk.mean() < 0.03

    def trusting(models, fits, before):
        return [np.full(len(relevance), main_effects.LARGEST_RELEVANCE) for relevance in before]

    monkeypatch.setattr(main_effects, "_relevances", trusting)
    more = lost_to_the_majority(0.3, 15) - shrunk
    assert more.mean() > 3 * more.std(ddof=1) / np.sqrt(len(more))
    assert more.mean() > 0.005


def test_domains_too_large_to_enumerate_halfway():
    """Thirteen attributes of four codes: their weighted paths once ran out of memory."""
    wine = load_dataset("wine")
    assert prod(wine.domain.sizes) > 10**7
    model = research(wine, epsilon=2.0, n_records=178).fit(wine.X, wine.y)
    assert model.score(wine.X, wine.y) > 0.6
