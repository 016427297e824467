"""The choice of how rare the rarer class is: its law by enumeration, and what follows from it."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from mrf_matrix import Domain, PrivateForestClassifier
from mrf_matrix.estimators.given_data import EncodedRecords
from mrf_matrix.kinds import private as kind
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.claim import claiming_budgets
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.planning import private_plan
from mrf_matrix.planning.private import planned_for, records_after
from mrf_matrix.planning.private.choices import ONE_IN, Rarity, balance_scores, even_records
from mrf_matrix.planning.private.forest_plan import PooledPlan
from mrf_matrix.residual.step import ResidualStep

MOST = 9
TOTALS = [(a, b) for a in range(MOST) for b in range(MOST)]
ADDED = [((a, b), one) for a, b in TOTALS for one in ((a + 1, b), (a, b + 1))]
REPLACED = [((a, b + 1), (a + 1, b)) for a, b in TOTALS]
PAIRS = {"add_remove": ADDED, "replace_one": REPLACED}


WHOLE = PureDP(1.5)


def step_of(neighboring="add_remove", budget=WHOLE):
    return ResidualStep("choice", "how rare", budget, neighboring)


def law(totals, step, *, times=1):
    """Return the probability of every level, from the definition of the mechanism."""
    scores = [-(abs(a * min(totals) - sum(totals)) // a) for a in ONE_IN]
    weights = np.exp(times * float(step.choice_rate) * np.array(scores, dtype=float))
    return weights / weights.sum()


@pytest.mark.parametrize("neighboring", PAIRS)
def test_every_neighbour_is_within_the_budget(neighboring, largest_loss):
    lawful = partial(law, step=step_of(neighboring))
    assert largest_loss(lawful, PAIRS[neighboring]) <= 1.5 * (1 + 1e-12)


def test_twice_the_rate_exceeds_the_budget(largest_loss):
    """The negative control: the enumeration finds a rate that is too large."""
    assert largest_loss(partial(law, step=step_of(), times=2), ADDED) > 1.5


@pytest.mark.parametrize("neighboring", PAIRS)
def test_one_record_moves_a_score_by_one_at_most(neighboring):
    for one, other in PAIRS[neighboring]:
        moved = balance_scores(min(one), sum(one)) - balance_scores(min(other), sum(other))
        assert np.abs(moved).max() <= 1


def chosen_balance(step, data, bits):
    """Return the level that is chosen."""
    return Rarity().draw(Rarity().scores(data), step, bits)[0]


def encoded(totals):
    labels = np.repeat([0, 1], totals).astype(np.int32)
    codes = np.zeros((len(labels), 2), dtype=np.int32)
    return EncodedRecords(Domain.from_sizes([2, 2], n_classes=2), codes, labels)


def test_the_sampler_has_this_law():
    step, data, bits, draws = step_of(), encoded((3, 14)), Bits(np.random.default_rng(0)), 1500
    found = [chosen_balance(step, data, bits) for _ in range(draws)]
    seen = np.bincount(found, minlength=len(ONE_IN))
    expected, wrong = (draws * law((3, 14), step, times=times) for times in (1, 2))
    assert ((seen - expected) ** 2 / expected).sum() < 26.1  # chi-square, 8 degrees, 1e-3
    assert ((seen - wrong) ** 2 / wrong).sum() > 26.1


@pytest.mark.parametrize("one_in", ONE_IN)
def test_with_little_noise_the_nearest_level_is_chosen(one_in):
    totals = (5000 // one_in, 5000 - 5000 // one_in)
    for data in (encoded(totals), encoded(totals[::-1])):
        level = chosen_balance(step_of(), data, Bits(np.random.default_rng(0)))
        assert ONE_IN[level] == one_in


def test_rarer_classes_tell_less():
    found = [even_records(10_000, level) for level in range(len(ONE_IN))]
    assert found[0] == 10_000
    assert np.diff(found).max() <= 0
    assert found[-1] >= 1


DOMAIN = Domain.from_sizes([4] * 12, n_classes=2)


@pytest.mark.parametrize("budget", [PureDP(1), PureDP(Fraction(1, 3))])
def test_what_follows_spends_what_the_choice_leaves(budget):
    announced = private_plan(DOMAIN, [budget], n_records=20_000)
    assert announced.balance is not None
    for even in (100, 1000, 10_000):
        follows = planned_for(announced, even)
        spent = sum((step.budget.exact for step in follows.choices), follows.rest.exact)
        assert spent == follows.budget.exact == budget.exact
        assert follows.choices[0] == announced.balance
        assert follows.n_records == 20_000


def test_a_rare_class_changes_how_much_is_measured_and_not_which_kind():
    many_codes = Domain.from_sizes([16] * 12, n_classes=2)
    announced = private_plan(many_codes, [PureDP(4)], n_records=3500)
    follows = planned_for(announced, 465)
    assert announced.name == follows.name == "residual forest"
    assert planned_for(announced, 350).measured != "additive"  # a signal of 117


def test_what_is_not_screened_before_the_question_is_not_after_it():
    many, laws = Domain.from_sizes([3] * 14, n_classes=2), claiming_budgets(1, 1e-6)
    for domain, n_records, screened in ((many, 6200, True), (DOMAIN, 6200, False)):
        announced = private_plan(domain, laws[:1], n_records=n_records)
        assert announced.balance is not None
        follows = planned_for(announced, n_records)
        assert (announced.screening is not None, follows.screening is not None) == (screened,) * 2
        assert planned_for(announced, n_records // 10).screening is None
    assert private_plan(many, laws, n_records=6200, delta=1e-6).screening is None


def rare_records(n=8000, share=0.05):
    generator = np.random.default_rng(3)
    codes = generator.integers(0, 4, (n, 12))
    return codes, (generator.random(n) < share * 2 * codes[:, 0] / 3).astype(int)


def test_the_names_of_the_classes_decide_nothing():
    codes, labels = rare_records()
    plans = [
        PrivateForestClassifier(
            DOMAIN, n_records=len(labels), noise="research", noise_state=0, random_state=0
        )
        .fit(codes, named)
        .plan_
        for named in (labels, 1 - labels)
    ]
    assert plans[0] == plans[1]
    assert plans[0].even_records < len(labels) / 2


@pytest.mark.parametrize(
    ("sizes", "k", "n_records", "budget"),
    [
        ([4] * 12, 3, 10_000, PureDP(1)),  # several classes
        ([4] * 12, 2, None, PureDP(1)),  # no public number
        ([4] * 12, 2, 10_000, PureDP(0.04)),  # too little to tell
        ([4] * 3, 2, 10_000, PureDP(1)),  # nothing to plan
        ([4] * 12, 2, 10_000, PureDP(float("inf"))),
        ([4] * 12, 2, 10_000, ZCDP(1)),
    ],
)
def test_where_it_would_tell_nothing_it_is_not_made(sizes, k, n_records, budget):
    domain = Domain.from_sizes(sizes, n_classes=k)
    assert private_plan(domain, [budget], n_records=n_records).balance is None


@pytest.mark.parametrize(("level", "one_in"), [*enumerate(ONE_IN)][2:])
def test_noise_leaves_as_much_of_log_odds_as_of_those_of_even_classes(level, one_in):
    rare, n = 10**6 / one_in, even_records(10**6, level)
    left = rare**-2 + (10**6 - rare) ** -2
    assert (n / 2) ** -2 * 2 == pytest.approx(left, rel=1e-3)


@pytest.mark.parametrize(("level", "one_in"), [*enumerate(ONE_IN)])
def test_a_tree_stays_beside_tables_unless_a_class_is_rarer_than_one_in_twelve(level, one_in):
    pool = private_plan(DOMAIN, [PureDP(0.2)], n_records=8000)
    residuals = private_plan(DOMAIN, [PureDP(1)], n_records=8000)
    assert pool.name == "tree beside tables"
    assert residuals.measured == "additive"
    assert records_after(residuals, level) == even_records(8000, level)
    stays = records_after(pool, level) == 8000
    assert stays == (one_in <= 12)
    follows = planned_for(pool, records_after(pool, level))
    assert (follows.name == pool.name) == stays


@pytest.mark.parametrize(("share", "measured"), [(0.1, "pool"), (0.02, "tables")])
def test_a_forest_has_the_tree_that_its_plan_says(share, measured):
    codes, labels = rare_records(share=share)
    model = PrivateForestClassifier(
        DOMAIN, epsilon=0.25, n_records=len(labels), noise="research", noise_state=0, random_state=0
    ).fit(codes, labels)
    assert model.plan_.announced.measured == "pool"
    assert model.plan_.measured == measured
    assert isinstance(model.forest_plan_, PooledPlan) == (measured == "pool")
    assert model.plan_.is_rare == (measured == "tables")
    assert model.plan_.choices == (model.plan_.announced.balance,)


@pytest.mark.parametrize("reads", [False, True])
def test_what_follows_the_choice_follows_from_it_alone(reads, monkeypatch):
    """Of any records, else budgets would not add up; the control plans by the records."""
    monkeypatch.setattr(Rarity, "draw", lambda self, scores, step, bits: (5,))
    plans = []
    for share in (0.05, 0.3):
        codes, labels = rare_records(share=share)
        if reads:
            seen = partial(max, int(labels.sum()))  # in place of the level that was chosen
            monkeypatch.setattr(kind, "records_after", lambda plan, level, f=seen: f(1))
        model = PrivateForestClassifier(
            DOMAIN, n_records=len(labels), noise="research", noise_state=0, random_state=0
        ).fit(codes, labels)
        plans.append((model.plan_, repr(model.forest_plan_)))
    assert (plans[0] == plans[1]) != reads
