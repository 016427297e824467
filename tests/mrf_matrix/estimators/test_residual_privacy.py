"""Every step and the whole sequence on all small neighbouring data sets: exact privacy losses."""

from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from types import SimpleNamespace

import numpy as np
import pytest

from mrf_matrix import Domain
from mrf_matrix.base.provenance import NOTHING
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.mechanisms import ZCDP, PureDP, selection
from mrf_matrix.mechanisms.budget import total_budget
from mrf_matrix.mechanisms.measurement.mechanism import SCORE_SENSITIVITY
from mrf_matrix.mechanisms.selection import Rate, probabilities
from mrf_matrix.posterior import SCALES, Link, SumOfEffects, penalties_of_scales
from mrf_matrix.release.curator import Curator, Live
from mrf_matrix.residual import residual_plan
from mrf_matrix.residual.learning import learn_additive
from mrf_matrix.residual.questions import ResidualRecords, StepQuestions


@dataclass(frozen=True)
class Steps:
    """Some steps of a plan, by themselves."""

    domain: Domain
    steps: tuple
    n_records: int | None = None
    delta: float = 0.0

    @property
    def budget(self):
        return total_budget([one.budget for one in self.steps])

    @property
    def neighboring(self):
        return self.steps[0].neighboring


class Twins(Curator):
    """Takes the steps with the outcomes of the first data set, or with the worst ones.

    It asks every question of both, so that what is enumerated are the questions themselves.
    `losses` holds for each step the log of the largest ratio of the outcomes' probabilities
    or, under zCDP, the largest Rényi divergence divided by its order.
    """

    provenance = NOTHING

    def __init__(self, plan, first, second, generator, *, worst=False):
        super().__init__(plan, "research")
        self.both = [EncodedRecords(plan.domain, *one) for one in (first, second)]
        self.stream, self.worst = generator, worst
        self.losses, self.outcome_losses = [], []

    def _take_measurement(self, step, asked, mechanism):
        self._left.popleft()
        counts = [asked.counts(one) for one in self.both]
        first, second = (one.answers(mechanism.rounded.matrix) for one in counts)
        law = mechanism.law
        gap = (first - second).astype(float)
        noise = law.research(first.shape, self.stream)
        if self.worst:  # far out on the side where the first data set is the likelier
            noise = np.where(gap == 0, noise, (np.sign(gap) * 20 * float(law.scale)).astype(int))
        outcome = first + noise
        ratio = law.log_pmf(outcome - first) - law.log_pmf(outcome - second)
        if step.budget.norm == "l1":
            self.losses.append((step, float(np.abs(gap).sum() / law.scale)))
        else:
            self.losses.append((step, float((gap**2).sum() / (2 * float(law.scale) ** 2))))
        self.outcome_losses.append(float(ratio.sum()))
        return SimpleNamespace(values=outcome)

    def _take_choice(self, step, asked):
        self._left.popleft()
        options, laws = asked.options[:, None], []
        for scores in (asked.scores(one) for one in self.both):
            gaps = np.where(options, (scores[asked.options].max() - scores)[:, None], 0)
            laws.append(probabilities(gaps, options, Rate.of(step.choice_rate))[:, 0])
        kept = np.flatnonzero(asked.options)
        ratios = np.log(laws[0][kept] / laws[1][kept])
        if step.budget.norm == "l1":
            self.losses.append((step, float(np.abs(ratios).max())))
        else:
            self.losses.append((step, concentrated(laws[0][kept], laws[1][kept])))
        place = int(kept[np.argmax(ratios)] if self.worst else self.stream.choice(kept))
        self.outcome_losses.append(float(np.log(laws[0][place] / laws[1][place])))
        return (place,)

    def _make_part(self, plan):
        raise AssertionError("an additive model has no parts")

    def within_shares(self):
        """Say whether no step loses more than it was given."""
        return all(loss <= float(step.budget.exact) * (1 + 1e-9) for step, loss in self.losses)

    @property
    def total(self):
        return sum(loss for _, loss in self.losses)


def concentrated(first, second):
    """Return the largest Rényi divergence over its order, of orders 1.01 to 100."""
    orders = np.geomspace(0.01, 99, 40)[:, None] + 1
    sums = (second * (first / second) ** orders).sum(axis=1, keepdims=True)
    return float((np.log(sums) / (orders - 1) / orders).max())


def shares_of(losses):
    """Return the sum of the budgets of the steps that were taken, exactly."""
    return sum((step.budget.exact for step, _ in losses), Fraction(0))


SIZES = (2, 2, 2)
RECORDS = {
    k: [(*cell, label) for cell in product(*map(range, SIZES)) for label in range(k)]
    for k in (2, 3)
}
BUDGETS = [PureDP(3), ZCDP(2)]
CANDIDATES = [(0, 1), (0, 2), (1, 2), (0, 1, 2)]


def data(records):
    table = np.array(records, dtype=np.int32).reshape(-1, len(SIZES) + 1)
    return table[:, :-1], table[:, -1]


def plan_of(budget, neighboring, k=2):
    """A plan with passes and choices, whatever the number of records."""
    domain = Domain.from_sizes(SIZES, n_classes=k)
    found = residual_plan(
        domain, budget, np.random.default_rng(0), n_records=3000, neighboring=neighboring
    )
    assert found.pairs is not None
    return found


def neighbours(neighboring, generator, count, k=2):
    """Pairs of neighbouring data sets: every record to add or remove, beside others drawn."""
    records = RECORDS[k]
    others = list(combinations_with_replacement(records, 2))
    for _ in range(count):
        rest = list(others[generator.integers(len(others))]) * int(generator.integers(0, 3))
        record, other = (records[i] for i in generator.permutation(len(records))[:2])
        if neighboring == "replace_one":
            yield [*rest, record], [*rest, other]
        else:
            yield from [(rest, [*rest, record]), ([*rest, record], rest)]


def twins(pair, plan, seed, *, worst):
    found = Twins(plan, *map(data, pair), np.random.default_rng(seed), worst=worst)
    learn_additive(plan, StepQuestions(plan, found))
    return found


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("k", RECORDS)
def test_no_path_of_releases_loses_more_than_was_announced(k, budget, neighboring, worst):
    plan = plan_of(budget, neighboring, k)
    generator = np.random.default_rng(1)
    for seed, pair in enumerate(neighbours(neighboring, generator, 2, k)):
        found = twins(pair, plan, seed, worst=worst)
        assert len(found.losses) == len(plan.steps)
        assert shares_of(found.losses) == budget.exact
        assert found.within_shares()
        assert found.total <= float(budget.exact) * (1 + 1e-9)
        if isinstance(budget, PureDP):
            assert abs(sum(found.outcome_losses)) <= float(budget.exact) * (1 + 1e-9)


@pytest.mark.parametrize("k", RECORDS)
def test_steps_spend_what_they_may(k):
    """A bound that is never reached would be noise for nothing: some pair comes close."""
    plan = plan_of(PureDP(3), "replace_one", k)
    pair = ([(0, 0, 0, 0)], [(1, 1, 1, 1)])
    largest = max(twins(pair, plan, seed, worst=True).total for seed in range(8))
    assert largest > 0.6 * 3


@pytest.mark.parametrize("broken", ["records count twice", "relation"])
def test_a_broken_bound_is_noticed(broken, monkeypatch):
    """Negative controls: residuals summed twice, and noise for the other relation's neighbours."""
    honest = ResidualRecords.table

    def doubled(self, step, attributes):
        codes = np.repeat(self._columns, 2, axis=1)
        twice = ResidualRecords(codes.T, np.repeat(self._labels, 2), self._sizes)
        twice._scores = np.repeat(self._scores, 2, axis=0)
        return honest(twice, step, attributes)

    if broken == "relation":
        pairs = neighbours("replace_one", np.random.default_rng(1), 3)
    else:
        pairs = neighbours("add_remove", np.random.default_rng(1), 3)
        monkeypatch.setattr(ResidualRecords, "table", doubled)
    plan = plan_of(PureDP(3), "add_remove")
    found = [twins(pair, plan, seed, worst=True) for seed, pair in enumerate(pairs)]
    assert not any(one.within_shares() for one in found)
    assert any(one.total > 3 for one in found)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_residuals_of_classes_that_take_the_noise_of_one_are_noticed(budget, monkeypatch):
    """Negative control: without the weights of a joint norm, a record moves the table further.

    Its numbers are then at most one in size each, and no more than that is what each column of
    the table by itself would need.
    """
    monkeypatch.setattr(Link, "_weights", lambda self, shares: np.ones(shares.shape[1]))
    monkeypatch.setattr(Link, "_cap", lambda self, sizes: sizes)
    plan = plan_of(budget, "add_remove", 3)
    pairs = list(neighbours("add_remove", np.random.default_rng(1), 3, 3))
    found = [twins(pair, plan, seed, worst=True) for seed, pair in enumerate(pairs)]
    assert not all(one.within_shares() for one in found)
    if budget.norm == "l1":
        assert max(one.total for one in found) > 1.2 * budget.exact


def scored_twins(generator, n_records, k=2):
    """Records and the same without the last, at scores that earlier releases may have given."""
    codes = generator.integers(0, 2, size=(n_records, 3))
    labels = generator.integers(0, k, size=n_records)
    effects = generator.normal(0, 2, size=(8, 1 if k == 2 else k))
    found = []
    for end in (n_records, n_records - 1):
        records = ResidualRecords(codes[:end], labels[:end], SIZES, k)
        records.add((0, 1, 2), effects)
        found.append(records)
    return found


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("k", "norm"), [(2, "l1"), (3, "l1"), (3, "l2"), (9, "l2")])
def test_one_record_moves_a_score_by_one_at_most(seed, k, norm):
    generator = np.random.default_rng(seed)
    penalties = generator.uniform(0, 3, len(CANDIDATES))
    both = scored_twins(generator, int(generator.integers(1, 30)), k)
    scores = [records.scores(CANDIDATES, penalties, norm) for records in both]
    assert np.abs(scores[0] - scores[1]).max() <= SCORE_SENSITIVITY


def sum_of(generator, k):
    """Effects that earlier releases may have given."""
    columns = 1 if k == 2 else k
    effects = tuple(generator.normal(0, 2, size=(2, columns)) for _ in SIZES)
    return SumOfEffects(effects, *generator.normal(size=(3, columns)), np.ones(columns))


@pytest.mark.parametrize(("k", "norm"), [(2, "l1"), (3, "l1"), (3, "l2"), (9, "l2")])
def test_one_record_moves_a_balance_by_one_at_most(k, norm):
    """And by no less somewhere: half the noise would be too little."""
    largest = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        penalties = generator.uniform(0, 3, len(SCALES))
        both = scored_twins(generator, int(generator.integers(1, 30)), k)
        effects = sum_of(generator, k)
        scores = [records.balances(effects, penalties, norm) for records in both]
        largest = max(largest, np.abs(scores[0] - scores[1]).max())
    assert largest == SCORE_SENSITIVITY


def losses_of_scales(budget, k, neighboring="add_remove"):
    """By how much of its share the choice of a scale tells neighbours apart, for many of them."""
    plan = plan_of(budget, neighboring, k)
    step = plan.first.scale
    for seed in range(30):
        generator = np.random.default_rng(seed)
        records = [RECORDS[k][i] for i in generator.integers(0, len(RECORDS[k]), 6)]
        others = [] if neighboring == "add_remove" else [RECORDS[k][generator.integers(16)]]
        pair = data(records), data([*records[:-1], *others])
        found = Twins(Steps(plan.domain, (step,)), *pair, generator)
        StepQuestions(plan, found).scale(step, sum_of(generator, k))
        [(_, loss)] = found.losses
        yield loss / float(step.budget.exact)


@pytest.mark.parametrize("k", RECORDS)
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_scale_spends_its_share_where_a_record_is_replaced(budget, k):
    assert 0 < max(losses_of_scales(budget, k, "replace_one")) <= 1 + 1e-9


@pytest.mark.parametrize("k", RECORDS)
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_a_scale_spends_its_share_and_one_that_sees_records_twice_more(budget, k, monkeypatch):
    """With a negative control: balances of which a record moves two."""
    largest = max(losses_of_scales(budget, k))
    assert 0.5 < largest <= 1 + 1e-9 if budget.norm == "l1" else 0 < largest <= 1
    honest = ResidualRecords.balances
    monkeypatch.setattr(ResidualRecords, "balances", lambda self, *given: 2 * honest(self, *given))
    assert max(losses_of_scales(budget, k)) > 1.2 * largest
    if budget.norm == "l1":
        assert max(losses_of_scales(budget, k)) > 1


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_choices_are_drawn_by_the_law_that_is_claimed(budget, monkeypatch):
    """What is handed to the exact sampler: gaps to the best score left, at the announced rate."""
    drawn = []

    def first_option(gaps, options, rate, bits):
        drawn.append((gaps[:, 0].copy(), options[:, 0].copy(), rate, bits))
        return np.array([np.flatnonzero(options[:, 0])[0]])

    monkeypatch.setattr(selection, "select", first_option)
    plan = plan_of(budget, "add_remove")
    codes, labels = data(RECORDS[2])
    records, penalties = EncodedRecords(plan.domain, codes, labels), np.zeros(len(CANDIDATES))
    steps = Steps(plan.domain, (*plan.pairs.choices, plan.first.scale))
    asked = StepQuestions(plan, Live(steps, records, nullcontext, "exact"))
    found = asked.choose(plan.pairs.choices, CANDIDATES, penalties)
    effects, scale = sum_of(np.random.default_rng(4), 2), plan.first.scale
    assert asked.scale(scale, effects) == SCALES[0]
    gaps, options, rate, _ = drawn.pop()
    alone = ResidualRecords(codes, labels, SIZES)
    balances = alone.balances(effects, penalties_of_scales(float(scale.choice_rate)), budget.norm)
    assert options.all()
    assert np.array_equal(gaps, balances.max() - balances)
    assert 0.999 * scale.choice_rate < rate.value <= scale.choice_rate
    count = len(plan.pairs.choices)
    scores = np.append(alone.scores(CANDIDATES, penalties, budget.norm), [0] * count)
    assert found == [*CANDIDATES, *[None] * count][:count]
    for number, (step, (gaps, options, rate, bits)) in enumerate(
        zip(plan.pairs.choices, drawn, strict=True)
    ):
        assert options.tolist() == [i >= number for i in range(len(scores))]
        assert np.array_equal(gaps[options], scores[options].max() - scores[options])
        assert 0.999 * step.choice_rate < rate.value <= step.choice_rate
        assert bits.generator is None  # the system's randomness
