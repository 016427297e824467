"""The tree of labels: conventions, what is claimed and paid, and what it says."""

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mrf_matrix import Attribute, Domain, PrivacyLeakWarning, PrivacyLedger
from mrf_matrix.estimators import LabelTreeClassifier, PooledForestClassifier
from mrf_matrix.mechanisms import CellCounts
from mrf_matrix.study import effect, explained, importance
from strategies.operators import MemoryCapError

INFINITE = float("inf")
SIZES = (4, 3, 5, 2)
DOMAIN = Domain.from_sizes(SIZES, n_classes=2)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(0, SIZES, size=(300, 4))
Y = (X[:, 0] > 1).astype(int)


def has_counts(signal):
    """Whether cells have counts where the records times the budget are so many."""
    asked = LabelTreeClassifier(DOMAIN, epsilon=Fraction(signal, len(X)), n_records=len(X))
    return asked.plan().counts is not None


FIRST = bisect_left(range(1, 1000), True, key=has_counts) + 1
BELOW, ABOVE = (Fraction(FIRST + change, len(X)) for change in (-1, 1))
"""Budgets whose cells have no counts, and whose have."""


def tree(domain=DOMAIN, **changes):
    parameters = {"n_records": 300, "random_state": 0, "noise": "research", "noise_state": 0}
    return LabelTreeClassifier(domain, **parameters | changes)


def most_right(cuts, x, y, depth):
    """Return on how many records the best of all trees is right, by brute force."""
    if depth == 0:
        return np.bincount(y, minlength=2).max()
    sides = [cut.upper[x[:, cut.attribute]] for cut in cuts]
    return max(
        sum(most_right(cuts, x[part], y[part], depth - 1) for part in (side, ~side))
        for side in sides
    )


ANY_CODES = Domain(
    [Attribute("colour", categories=["a", "b", "c", "d"]), Attribute("size", size=3)],
    target=Attribute("y", size=3),
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("domain", [DOMAIN, ANY_CODES], ids=["ordered", "mixed"])
def test_without_noise_no_tree_is_right_on_more_records(domain, seed):
    generator = np.random.default_rng(seed)
    x = generator.integers(0, domain.sizes, size=(120, domain.n_attributes))
    y = (x[:, 0] + x[:, 1] + generator.integers(0, 3, size=120)) % domain.n_classes
    codes = x if domain is DOMAIN else x.astype(object)
    if domain is not DOMAIN:
        codes[:, 0] = [["a", "b", "c", "d"][code] for code in x[:, 0]]
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=seed, n_records=120)
    with_noise = LabelTreeClassifier(
        domain, epsilon=0.01, random_state=seed, n_records=120, noise="research", noise_state=seed
    )
    right = [round(one.fit(codes, y).score(codes, y) * 120) for one in (model, with_noise)]
    depth = model.plan_.rounds[0].depth
    best = most_right(model.plan_.cuts, x, y, depth)
    assert model.plan_.depth > depth, "below the best of its cells there are more"
    assert right[0] >= best
    assert right[1] < best, "there are trees that are worse"
    assert set(model.tree_.cuts) <= set(model.plan_.cuts)
    assert model.privacy_report_.statement.startswith("NOT A PRIVATE RELEASE")


def test_intervals_are_as_wide_as_labels_are_worth():
    few, many = (tree(epsilon=e).fit(X, Y) for e in (0.01, BELOW))
    assert many.tree_.counts is None
    assert few.predict_or_abstain(X, level=0.9).mask.all()
    margins, below, above = many.vote_intervals(X, level=0.9)
    assert np.ptp(margins) == np.ptp(below) == np.ptp(above) == 0
    assert margins[0] > few.vote_intervals(X)[0][0] > 0
    _, *wider = many.vote_intervals(X, level=0.95)
    assert below[0] < wider[0][0]
    assert above[0] < wider[1][0]


"""And in how many steps they are spent."""


@pytest.mark.parametrize(
    ("budget", "noise"),
    [
        ({"epsilon": 0.1}, None),
        ({"epsilon": None, "rho": 0.01}, None),
        ({"epsilon": 8}, "discrete Laplace noise of scale 0.5"),
        ({"epsilon": None, "rho": 8}, "discrete Gaussian noise of scale 0.5"),
    ],
    ids=str,
)
def test_the_report_names_one_exponential_mechanism_and_the_noise_of_counts(budget, noise):
    model = tree(noise="exact", noise_state=None, **budget).fit(X, Y)
    report, plan = model.privacy_report_, model.plan_
    laws = [] if noise is None else [str(plan.counts.law)]
    assert all(one.startswith(noise) for one in laws)
    assert report.statement.startswith("Private release: ")
    assert f"{plan.budget!r} under add_remove" in report.statement
    made, counts = (
        [one for one in report.measurements if one.is_choice == chosen] for chosen in (True, False)
    )
    rates = [float(one.step.choice_rate) for one in plan.rounds]
    assert [one.law for one in made] == [f"exponential mechanism of rate {r:.6g}" for r in rates]
    assert all((one.n_answers, one.sensitivity) == (1, 1) for one in made)
    assert f"a tree of {1 << plan.rounds[0].depth} cells" in made[0].measured
    assert all("below each of them a tree of 4 cells" in one.measured for one in made[1:])
    assert [one.budget for one in report.measurements] == [repr(one.budget) for one in plan.steps]
    notes = " ".join(report.notes)
    assert "tree and labels are one choice in each round" in notes
    assert ("its labels and counts is released" in notes) == bool(counts)
    assert [one.law for one in counts] == laws
    assert [one.n_answers for one in counts] == [2 * plan.n_cells] * len(laws)
    for one in counts:
        assert (one.sensitivity, one.is_choice) == (1, False)
        assert f"class counts of {plan.n_cells} cells" in one.measured


@pytest.mark.parametrize(
    ("sizes", "changes", "message"),
    [
        ((1,), {}, "no attribute that can be cut"),
        ((1, 1, 1), {}, "no attribute that can be cut"),
        ((3, 2), {"epsilon": 1e9}, "too large"),
        ((3, 2), {"n_records": 0.5}, "n_records"),
        ((3, 2), {"neighboring": "any"}, "neighboring"),
        ((3, 2), {"random_state": -1}, "random_state"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_spent(sizes, changes, message):
    ledger = PrivacyLedger(epsilon=10**10)
    changes = {"n_classes": 2, "n_records": 50} | changes
    domain = Domain.from_sizes(sizes, n_classes=changes.pop("n_classes"))
    model = LabelTreeClassifier(domain, ledger=ledger, **changes)
    with pytest.raises(ValueError, match=message):
        model.fit(np.zeros((5, len(sizes)), dtype=int), np.zeros(5, dtype=int))
    assert ledger.spent == 0


@pytest.mark.parametrize("sizes", [(6,), (6, 1), (1, 1, 6)], ids=str)
def test_one_attribute_that_can_be_cut_is_enough(sizes):
    x = np.stack([GENERATOR.integers(0, size, size=200) for size in sizes], axis=1)
    place = sizes.index(6)
    y = np.isin(x[:, place], [0, 3, 4]).astype(int)
    model = tree(Domain.from_sizes(sizes, n_classes=2), epsilon=INFINITE).fit(x, y)
    assert model.score(x, y) == 1
    assert model.tree_.attributes == (place,)


def large_counts(ahead, behind=0):
    """Return counts of cells that nobody could hold as records, and their domain."""
    domain = Domain.from_sizes([2, 2], n_classes=2)
    codes = np.array([[0, 0], [1, 1]])
    counts = np.array([[ahead, behind], [behind, ahead]])
    return domain, CellCounts(codes, counts, (2, 2), domain)


@pytest.mark.parametrize(
    ("ahead", "error", "message"),
    [
        (2**34, MemoryCapError, "weights of up to so many records"),
        (2**51, MemoryCapError, "weights of up to so many records"),
        (2**52, OverflowError, "more than can be summed exactly"),
        (2**62, OverflowError, "more than can be summed exactly"),  # their sum wraps 64 bits
    ],
)
def test_counts_of_which_no_weights_fit_are_refused_before_anything_is_spent(ahead, error, message):
    """Counts of cells may be large where they were made elsewhere: nothing wraps."""
    domain, counts = large_counts(ahead)
    ledger = PrivacyLedger(epsilon=1)
    model = LabelTreeClassifier(domain, epsilon=0.5, ledger=ledger)
    with pytest.raises(error, match=message) as caught:
        model.fit_counts(counts)
    assert str(ahead) not in str(caught.value)
    assert ledger.spent == 0
    assert not hasattr(model, "tree_")


def test_without_noise_no_weights_are_written_out():
    domain, counts = large_counts(2**50, 2**50 - 1)
    model = LabelTreeClassifier(domain, epsilon=INFINITE, random_state=0).fit_counts(counts)
    assert model.predict(np.array([[0, 0], [1, 1]])).tolist() == [0, 1]


@pytest.mark.parametrize("epsilon", [0.01, 1000])
def test_large_counts_say_their_labels(epsilon):
    """Weights become less steep long before numbers are too large for memory."""
    domain, counts = large_counts(2**15, 2**14)
    model = LabelTreeClassifier(domain, epsilon=epsilon, noise="research", noise_state=0)
    codes = np.array([[0, 0], [1, 1]])
    assert model.fit_counts(counts).predict(codes).tolist() == [0, 1]


@pytest.mark.parametrize("changes", [{"rho": 1e-25}, {"epsilon": Fraction(1, 10**400)}], ids=str)
def test_a_budget_that_buys_nothing_labels_at_random(changes):
    ones = np.ones(300, dtype=int)
    shares = []
    for parameters in (changes, {"epsilon": 0.5}):
        models = [tree(noise_state=seed, **parameters).fit(X, ones) for seed in range(10)]
        said = [model.predict(X).mean() for model in models]
        shares.append(np.mean(said))
    assert 0.35 < shares[0] < 0.65  # of fair coins
    assert shares[1] > 0.9, "what a budget that buys something says"
    model = tree(**changes).fit(X, Y)
    assert model.predict_proba(X).max() == pytest.approx(0.5)
    for k in range(2, 9):
        model = tree(Domain.from_sizes(SIZES, n_classes=k), **changes).fit(X, Y)
        assert model.posterior_.labels.tolist() == model.tree_.labels.tolist()
        said = model.tree_.labels[model.tree_.cells(X)].tolist()
        assert model.predict(X).tolist() == model.predict_or_abstain(X).data.tolist() == said
        assert model.vote_intervals(X)[0].min() >= 0


# Trees in two rounds -----------------------------------------------------------------------------


D, K, N = 11, 6, 900
WIDE = Domain.from_sizes([4] * D, n_classes=K)
WIDE_X = GENERATOR.integers(0, 4, (N, D))
WIDE_Y = (WIDE_X[:, 0] + 2 * (WIDE_X[:, 1] > 1) + (WIDE_X[:, 2] > 2)) % K
FIXED = {"n_records": N, "noise": "research", "noise_state": 0, "random_state": 0}


def grown(**changes):
    return LabelTreeClassifier(WIDE, **FIXED | {"epsilon": 1} | changes).fit(WIDE_X, WIDE_Y)


def pooled(**changes):
    return PooledForestClassifier(WIDE, **FIXED | {"epsilon": 2} | changes).fit(WIDE_X, WIDE_Y)


def test_it_knows_more_classes_than_a_first_round_has_cells_for():
    model = grown()
    assert [one.depth for one in model.plan_.rounds] == [3, 2]
    assert model.score(WIDE_X, WIDE_Y) > 0.75
    flat = grown(epsilon=0.04)
    assert [one.depth for one in flat.plan_.rounds] == [3]
    assert flat.score(WIDE_X, WIDE_Y) < model.score(WIDE_X, WIDE_Y) - 0.1
    forgets = [
        "first tree are forgotten" in str(one.privacy_report_.notes) for one in (model, flat)
    ]
    assert forgets == [True, False]
    few = Domain.from_sizes([4] * 7, n_classes=K)
    deepest = LabelTreeClassifier(few, **FIXED | {"epsilon": 0.4}).fit(WIDE_X[:, :7], WIDE_Y)
    assert [one.depth for one in deepest.plan_.rounds] == [4]
    assert deepest.score(WIDE_X[:, :7], WIDE_Y) > flat.score(WIDE_X, WIDE_Y)


@pytest.mark.parametrize("made", [grown, pooled])
def test_what_a_tree_without_a_table_adds_is_told_all_the_same(made, monkeypatch):
    model = made()
    names = [name for name in importance(model) if isinstance(name, tuple)]
    monkeypatch.setattr("mrf_matrix.forests.label_tree.MOST_PLACES", 0)
    other = made()
    assert other.tree_.table is None
    assert set(importance(other)) == set(importance(model))
    assert np.array_equal(other.predict_proba(WIDE_X), model.predict_proba(WIDE_X))
    (known, expected), (told, found) = explained(model, WIDE_X), explained(other, WIDE_X)
    assert told == known
    assert_allclose(found, expected, atol=1e-9)
    deepest = max(names, key=len)
    for asked in (deepest[:2], deepest[-1:], deepest):
        assert_allclose(effect(other, asked).log_odds, effect(model, asked).log_odds, atol=1e-9)
    # without a table shares are those of cells; codes that no record can have do not count twice
    assert importance(other)[deepest] == pytest.approx(importance(model)[deepest], rel=0.05)


@pytest.mark.filterwarnings("ignore::mrf_matrix.PrivacyLeakWarning")
def test_pools_of_several_classes_share_by_their_own_signal():
    model = pooled(n_records=2000)
    tree, tables = (one.budget.exact for one in model.plan_.steps)
    assert tree == tables == 1
    more = PooledForestClassifier(WIDE, epsilon=2, n_records=5000).plan()
    assert more.tree.spent.exact == Fraction(2, 5), "where more is legible the tree needs less"
    read_off = PooledForestClassifier("from_data", **FIXED | {"epsilon": 2, "n_records": 2000})
    with pytest.warns(PrivacyLeakWarning):
        read_off.fit(WIDE_X, WIDE_Y)
    assert read_off.plan_.tree.spent.exact == 1
