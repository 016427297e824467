"""The choice of how far votes are believed: its law by enumeration, and what follows from it."""

from functools import cache, partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from sklearn.metrics import log_loss

from mrf_matrix import (
    Attribute,
    Domain,
    PrivacyLedger,
    PrivateForestClassifier,
)
from mrf_matrix.estimators.private import private_forest, trusted
from mrf_matrix.estimators.private.trusted import chosen_factor, summed_gains
from mrf_matrix.estimators.shared.given_data import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.planning.private import private_plan
from mrf_matrix.planning.private.trust import (
    FACTORS,
    UNITS,
    gain_units,
    planned_trust,
    trust_scores,
)
from mrf_matrix.residual.step import ResidualStep

DOMAIN = Domain.from_sizes([2, 2], n_classes=2)
KINDS = list(product((0, 1), (0, 1), (0, 1)))  # of records: two codes and a label
WHOLE = PureDP(1.5)


class Bold:
    """Log odds of class 1 of each record, times a factor."""

    def probabilities_believed(self, codes, factors):
        odds = 30.0 * codes[:, 0] - 15.0 + codes[:, 1]
        for factor in factors:
            yield 1 / (1 + np.exp(factor * np.stack([odds, -odds], axis=1)))


def step_of(neighboring="add_remove", budget=WHOLE):
    return ResidualStep("choice", "how far", budget, neighboring)


def encoded(rows):
    table = np.array(rows, dtype=np.int32).reshape(-1, 3)
    return EncodedRecords(DOMAIN, table[:, :2], table[:, 2])


@cache
def scores_of(rows, step):
    return trust_scores(summed_gains(Bold(), encoded(rows)), step)


def law(rows, step, *, times=1):
    """Return the probability of every factor, from the definition of the mechanism."""
    scores = scores_of(rows, step).astype(float)
    weights = np.exp(times * float(step.choice_rate) * (scores - scores.max()))
    return weights / weights.sum()


SETS = [rows for n in range(4) for rows in combinations_with_replacement(KINDS, n)]
ADDED = [(rows, (*rows, one)) for rows in SETS for one in KINDS]
REPLACED = [((*rows, a), (*rows, b)) for rows in SETS[:45] for a in KINDS for b in KINDS]
PAIRS = {"add_remove": ADDED, "replace_one": REPLACED}


@pytest.mark.parametrize("neighboring", PAIRS)
def test_every_neighbour_is_within_the_budget(neighboring, largest_loss):
    lawful = partial(law, step=step_of(neighboring))
    assert largest_loss(lawful, PAIRS[neighboring]) <= 1.5 * (1 + 1e-12)


def test_twice_the_rate_exceeds_the_budget(largest_loss):
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss(partial(law, step=step_of(), times=2), ADDED) > 1.5


def test_one_record_moves_a_score_by_one_at_most():
    step = step_of()
    moved = [np.abs(scores_of(a, step) - scores_of(b, step)).max() for a, b in ADDED]
    assert max(moved) == 1


def test_gains_are_whole_and_bounded():
    found = gain_units(np.array([-np.inf, -1e9, -1.0, np.nan, 0.0, 1e-9, 1.999, 1e9, np.inf]))
    assert found.dtype == np.int64
    assert np.abs(found).max() == UNITS
    assert (np.diff(found) >= 0).all()


def test_without_records_factors_near_one_are_likeliest():
    found = law((), step_of())
    assert found.argmax() == 0
    assert FACTORS[0] == 1
    order = np.argsort(np.abs(np.log(FACTORS)), kind="stable")
    assert (np.diff(found[order]) <= 1e-12).all()


def test_the_sampler_has_this_law():
    rows = ((1, 1, 0),) * 3 + ((0, 0, 0),) * 2
    step, draws = step_of(), 600
    bits = Bits(np.random.default_rng(0))
    found = [chosen_factor(step, Bold(), encoded(rows), bits) for _ in range(draws)]
    seen = np.array([found.count(factor) for factor in FACTORS])
    expected, wrong = (draws * law(rows, step, times=times) for times in (1, 3))
    assert ((seen - expected) ** 2 / expected).sum() < 34.5  # chi-square, 13 degrees, 1e-3
    assert ((seen - wrong) ** 2 / wrong).sum() > 34.5


def repeated(n=6000, copies=12, noise=0.2):
    """Return records whose attributes repeat one fact of the class."""
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 3, n)
    told = np.where(generator.random(n) < noise, generator.integers(0, 3, n), labels)
    seen = np.where(generator.random((n, copies)) < 0.05, 0, told[:, None])
    return seen, labels


COPIES = Domain.from_sizes([3] * 12, n_classes=3)
PAIRED = Domain.from_sizes([3] * 4, n_classes=3)


def fitted(domain, columns, labels, epsilon=2.0, **changes):
    given = {"noise": "research", "noise_state": 0, "random_state": 0} | changes
    model = PrivateForestClassifier(domain, epsilon=epsilon, n_records=len(labels), **given)
    return model.fit(columns, labels)


@pytest.fixture(scope="module")
def bold():
    return fitted(COPIES, *repeated())


def test_votes_that_repeat_each_other_are_believed_less(bold):
    columns, labels = repeated()
    assert bold.plan_.chosen.measured in ("tables", "pool")
    assert bold.trust_ < 0.7
    own = bold.forest_.predict_proba(columns)
    assert log_loss(labels, bold.predict_proba(columns)) < log_loss(labels, own) - 0.02
    assert f"votes are believed {bold.trust_:.3g} times" in str(bold.privacy_report_)


def test_the_whole_is_spent_exactly(bold):
    plan = bold.plan_
    spent = sum(one.budget.exact for one in plan.choices) + plan.rest.exact
    assert spent + plan.trust.budget.exact == plan.budget.exact == 2
    assert plan.trust.budget.exact == PureDP(2).exact * 3 / 100
    last = bold.privacy_report_.measurements[-1]
    assert last.measured == "how far votes are believed"


@pytest.mark.parametrize("domain", [COPIES, PAIRED])
def test_what_a_record_gains_depends_on_no_other_record(domain):
    columns, labels = repeated(copies=domain.n_attributes)
    model = fitted(domain, columns, labels)
    usual = model.forest_.posterior_
    alone = [
        summed_gains(usual, EncodedRecords(domain, columns[i : i + 1], labels[i : i + 1]))
        for i in range(100)
    ]
    together = summed_gains(usual, EncodedRecords(domain, columns[:100], labels[:100]))
    assert np.array_equal(np.sum(alone, axis=0), together)
    assert together.any()


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_what_is_scored_is_what_is_predicted(epsilon):
    columns, labels = repeated()
    posterior = fitted(COPIES, columns, labels, epsilon=epsilon).forest_.posterior_
    scored = posterior.probabilities_believed(columns[:500], FACTORS.tolist())
    for factor, shares in zip(FACTORS, scored, strict=True):
        predicted = posterior.believed(factor).probabilities(columns[:500])
        assert np.abs(shares - predicted).max() < 0.01
    assert np.array_equal(
        posterior.probabilities(columns), posterior.believed(1.0).probabilities(columns)
    )


def test_margins_and_probabilities_are_those_of_the_believed_posterior(bold):
    columns = repeated(300)[0]
    ours = bold.posterior_.margin_widths
    first, second = np.zeros(300, dtype=int), np.ones(300, dtype=int)
    wide = ours(columns, first, second, 0.9)[0]
    own = bold.forest_.posterior_.margin_widths(columns, first, second, 0.9)[0]
    assert (wide < own).all()
    margins = bold.vote_intervals(columns, level=0.9)[0]
    assert np.allclose(margins, np.diff(np.sort(bold.posterior_.log_odds(columns))[:, -2:])[:, 0])


def test_records_and_batches_choose_alike(bold):
    columns, labels = repeated()
    model = PrivateForestClassifier(
        COPIES, epsilon=2.0, n_records=len(labels), noise="research", noise_state=0, random_state=0
    ).fit_stream([np.column_stack([columns, labels])])
    assert model.trust_ == bold.trust_
    assert np.array_equal(model.predict_proba(columns), bold.predict_proba(columns))


def test_classes_are_those_of_the_posterior_whatever_their_names(monkeypatch):
    columns, labels = repeated(n=3000)
    named = np.array(["m", "z", "a"])[labels]
    domain = Domain(COPIES.attributes, Attribute("class", categories=("m", "z", "a")))
    model = fitted(domain, columns, named)
    posterior = model.forest_.posterior_
    own = np.searchsorted(model.classes_, named)[:, None]
    logs = [
        np.log(np.take_along_axis(one, own, 1))
        for one in posterior.probabilities_believed(columns, FACTORS.tolist())
    ]
    expected = [int(gain_units(one - logs[0]).sum()) for one in logs]
    encoded_records = EncodedRecords(domain, columns.astype(np.int32), labels.astype(np.int32))
    assert summed_gains(posterior, encoded_records).tolist() == expected
    monkeypatch.setattr(trusted, "AT_ONCE", 1000)
    assert summed_gains(posterior, encoded_records).tolist() == expected


def test_a_choice_that_fails_leaves_what_was_measured(monkeypatch):
    def fails(*_):
        raise MemoryError("no room")

    columns, labels = repeated()
    model = PrivateForestClassifier(
        COPIES, epsilon=2.0, n_records=len(labels), noise="research", noise_state=0, random_state=0
    )
    monkeypatch.setattr(private_forest, "chosen_factor", fails)
    with pytest.raises(MemoryError) as error:
        model.fit(columns, labels)
    assert any("budget is spent" in note for note in error.value.__notes__)
    assert not hasattr(model, "posterior_")
    assert model.forest_.predict(columns).shape == labels.shape
    assert model.forest_.privacy_report_.budget == "PureDP(epsilon=2)"


def test_it_is_charged_once_with_the_rest():
    columns, labels = repeated()
    ledger = PrivacyLedger(epsilon=2)
    model = fitted(COPIES, columns, labels, ledger=ledger)
    assert model.trust_ is not None
    assert [one.budget for one in ledger.charges] == [PureDP(2)]
    with pytest.raises(BudgetError):
        model.fit(columns, labels)


@pytest.mark.parametrize(
    ("k", "n_records", "budget", "changes", "made"),
    [
        (3, 5000, PureDP(1), {}, True),
        (3, 2499, PureDP(1), {}, False),
        (3, 2500, PureDP(1), {}, True),
        (3, 4999, PureDP(1), {"neighboring": "replace_one"}, False),
        (3, 5000, PureDP(1), {"neighboring": "replace_one"}, True),
        (3, None, PureDP(1), {}, False),
        (3, 5000, PureDP(1), {"records": False}, False),
        (3, 5000, PureDP(float("inf")), {}, False),
        (2, 100_000, PureDP(1), {}, False),  # residuals have a choice of their own
        (2, 3000, PureDP(1), {}, False),
    ],
)
def test_where_it_is_made(k, n_records, budget, changes, made):
    domain = Domain.from_sizes([4] * 10, n_classes=k)
    plan = private_plan(domain, [budget], n_records=n_records, **changes)
    assert (plan.trust is not None) == made
    assert ("how far its votes are believed" in plan.reason) == made


def test_under_zcdp_it_is_made_from_fewer_records():
    """A part of the budget costs a root there: ε of the choice is sqrt(8 ρ · 3/100) at least."""
    pure, gaussian = (
        [planned_trust(3, budget, n_records=n, neighboring="add_remove") for n in (1500, 3000)]
        for budget in (PureDP(1), ZCDP(0.015))
    )
    assert [one is not None for one in pure] == [False, True]
    assert [one is not None for one in gaussian] == [True, True]
    assert float(gaussian[0].choice_epsilon) == pytest.approx((8 * 0.015 * 0.03) ** 0.5)
