"""Blocks of tables: how they are chosen without records, and plans of them."""

from fractions import Fraction
from itertools import product
from math import prod, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrf_matrix import Attribute, Domain, PrivateForestClassifier, plan
from mrf_matrix.estimators import PosteriorForestClassifier
from mrf_matrix.mechanisms import ZCDP, PureDP, count_cells, measure
from mrf_matrix.mechanisms.budget import claiming_budgets
from mrf_matrix.planning import TargetPrior, peak_bytes
from mrf_matrix.planning.auto import plan_after_imbalance
from mrf_matrix.planning.auto.plan import plan_of_tables
from mrf_matrix.planning.plans.block_design import (
    FEW_CELLS,
    MOST_CELLS,
    TELLING_NOISE,
    TELLING_RECORDS,
    TOTALS_SHARE,
    BlockChoice,
    choose_blocks,
    row_weights,
    variances,
)
from mrf_matrix.planning.plans.block_part import (
    block_part,
    blocks_budget,
    blocks_of_kept,
    tables_of,
)
from mrf_matrix.planning.search.expected_accuracy import (
    MOST_RECORDS,
    SimulatedData,
    posterior_probabilities,
)
from mrf_matrix.posterior import product_fit as main_effects
from strategies.operators import memory_cap

CAR = [4, 4, 4, 3, 3, 3]


def chosen(sizes, budget, n_records=1000, seed=0, n_classes=2, **settings):
    return choose_blocks(
        sizes, n_classes, budget, n_records, np.random.default_rng(seed), **settings
    )


@pytest.mark.parametrize("neighboring", ["add_remove", "replace_one"])
@pytest.mark.parametrize("budget", [PureDP(Fraction(1, 10)), PureDP(1), ZCDP(0.05), ZCDP(0.5)])
@pytest.mark.parametrize("n_blocks", [1, 3, 6, "auto"])
def test_variances_are_those_of_the_calibrated_mechanism(neighboring, budget, n_blocks):
    plan = block_part(
        Domain.from_sizes(CAR, n_classes=4),
        budget,
        np.random.default_rng(0),
        BlockChoice(n_blocks),
        n_classes=4,
        n_records=2000,
        neighboring=neighboring,
    )
    mechanism = plan.mechanism
    leaf, total = (weight * float(mechanism.rounded.scale) for weight in plan.weights)
    # Discrete Laplace noise has a variance below the continuous one by at most 1/6 of its unit.
    rounding = 0.01 * plan.design.noise_variance + 0.2 / leaf**2
    assert mechanism.law.variance / leaf**2 == pytest.approx(
        plan.design.noise_variance, abs=rounding
    )
    doubled = 4 if isinstance(budget, PureDP) else 2  # no entry of a path matrix is negative
    factor = doubled if neighboring == "replace_one" else 1
    t = len(plan.design.blocks)
    of_leaf, of_total = (factor * v for v in variances(budget, t))
    assert plan.design.noise_variance == pytest.approx(of_leaf)
    assert mechanism.law.variance / total**2 == pytest.approx(of_total, rel=0.03)


def test_weights_give_the_class_totals_their_share():
    for t in (1, 2, 7, 100):
        leaf, total = row_weights(PureDP(1), t)
        assert total / (total + t * leaf) == pytest.approx(TOTALS_SHARE, rel=0.1)
        leaf, total = row_weights(ZCDP(1), t)
        assert total**2 / (total**2 + t * leaf**2) == pytest.approx(TOTALS_SHARE, rel=0.05)


def test_an_infinite_budget_has_no_noise():
    assert variances(PureDP(float("inf")), 3) == (0, 0)
    assert chosen(CAR, PureDP(float("inf"))).noise_variance == 0


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    k=st.integers(1, 6),
    n_records=st.sampled_from([0, 1, 50, 1000, 10**6]),
    rho=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_more_budget_is_never_worth_less(sizes, k, n_records, rho, seed):
    if max(sizes) == 1:
        sizes = [*sizes, 2]
    values = []
    for amount in (1e-3, 0.1, 1, 10, 1e6):
        design = chosen(
            sizes, ZCDP(amount) if rho else PureDP(amount), n_records, seed, n_classes=k
        )
        values.append(design.value)
        seen = [i for block in design.blocks for i in block]
        assert len(seen) == len(set(seen))
        assert all(sizes[i] > 1 for i in seen)
        cells = max(prod(sizes[i] for i in block) for block in design.blocks)
        whole = len(design.blocks) == 1 and len(seen) == sum(n > 1 for n in sizes)
        told = (n_records or 0) / (k * cells * TELLING_RECORDS) if whole else 0
        telling = design.noise_variance < max(TELLING_NOISE, told) ** 2
        assert cells <= (MOST_CELLS if telling else FEW_CELLS)
    assert 0.5 <= min(values) <= max(values) <= 1
    assert (np.diff(values) > -0.002).all()  # designs closer than 1e-4 count as equal


@pytest.mark.parametrize(("epsilon", "whole"), [(0.5, False), (1, True), (2, True)])
def test_one_table_of_all_attributes_is_taken_where_its_cells_tell(epsilon, whole):
    blocks = chosen([2] * 12, PureDP(epsilon), 4800).blocks
    assert (sorted(blocks[0]) == list(range(12))) == whole


@pytest.mark.parametrize(("sizes", "n_records"), [([2] * 24, 50_000), ([2] * 14, 5000)])
def test_several_tables_and_tables_of_some_attributes_stay_small(sizes, n_records):
    """However many records there are: where noise is not small, only one table of all is large."""
    design = chosen(sizes, PureDP(1), n_records)
    assert design.noise_variance > TELLING_NOISE**2
    assert max(prod(sizes[i] for i in block) for block in design.blocks) <= FEW_CELLS


def test_a_given_number_of_blocks_uses_every_attribute():
    for count in (1, 2, 6):
        blocks = chosen(CAR, PureDP(1), n_blocks=count).blocks
        assert len(blocks) == count
        assert sorted(i for block in blocks for i in block) == list(range(6))


def test_what_has_no_design_is_refused():
    with pytest.raises(ValueError, match="single code"):
        chosen([1, 1], PureDP(1))
    with pytest.raises(ValueError, match="n_blocks=1: blocks would have more than 2048 cells"):
        chosen([4] * 10, PureDP(0.1), n_blocks=1)
    with pytest.raises(ValueError, match="n_blocks=3: expected at most 2"):
        chosen([4, 1, 3], PureDP(1), n_blocks=3)
    with pytest.raises(ValueError, match="n_blocks=0"):
        chosen(CAR, PureDP(1), n_blocks=0)
    with pytest.raises(ValueError, match="has 9000 codes: effects of so many would not fit"):
        chosen([9000], PureDP(0.1))
    assert len(chosen([1000], PureDP(0.1)).blocks) == 1, "one attribute is never split"


# The law of a plan of blocks ---------------------------------------------------------------------


CLAIM = (1, 1e-6, None)


@pytest.mark.parametrize("n_attributes", [2, 5, 9, 10, 11, 12, 30])
def test_naive_bayes_takes_the_smaller_noise(n_attributes):
    domain = Domain.from_sizes([3] * n_attributes, n_classes=2)
    pure, gaussian = claiming_budgets(*CLAIM)
    found = blocks_budget(CLAIM, domain, None, None, "add_remove")
    trees = n_attributes + 1  # and that of the class totals, all of equal weight
    laplace = 2 * trees**2 <= trees / (2 * float(gaussian.exact))
    assert found == (pure if laplace else gaussian)
    assert laplace == (n_attributes < 10), "both laws are taken here"


def test_without_delta_or_a_domain_nothing_is_compared():
    domain = Domain.from_sizes([3, 3], n_classes=2)
    assert blocks_budget((1, 0, None), domain, None, None, "add_remove").parameter == "epsilon"
    assert blocks_budget((None, 0, 1), domain, None, None, "add_remove").parameter == "rho"
    assert blocks_budget(CLAIM, "from_data", BlockChoice(), None, "add_remove").parameter == "rho"


@pytest.mark.parametrize(("sizes", "parameter"), [((3, 3, 2), "epsilon"), ((4,) * 40, "rho")])
def test_plans_and_classifiers_take_the_same_law(sizes, parameter):
    domain = Domain.from_sizes(sizes, n_classes=2)
    asked = {"epsilon": 1, "delta": 1e-6, "n_records": 5000}
    planned = plan(domain, "tables", **asked, random_state=0)
    assert planned.budget.parameter == parameter
    assert PosteriorForestClassifier(domain, **asked, random_state=0)._budget == planned.budget
    assert planned.at(epsilon=2, delta=1e-6).budget.parameter == parameter


# Plans of posterior forests -----------------------------------------------------------------------


SIZES = [3, 2, 4, 2]


def a_plan(domain=None, **changes):
    given = {"epsilon": 1, "n_records": 400, "random_state": 0} | changes
    return plan(domain or Domain.from_sizes(SIZES, n_classes=3), "tables", **given)


@pytest.mark.parametrize("changes", [{}, {"epsilon": None, "rho": 0.1}, {"n_blocks": 4}])
def test_expected_errors_are_those_of_simulated_releases(changes):
    made = a_plan(n_classes=3, **changes)
    part, runs = made.parts[0], 1000
    codes = np.random.default_rng(1).integers(0, SIZES, size=(50, 4)).astype(np.int32)
    leaves = made.forest.apply(codes)
    truth = np.bincount(leaves.ravel(), minlength=made.forest.n_leaves)
    columns = count_cells(codes, np.zeros(50, int), made.domain.sizes, 3)
    rng, squares = np.random.default_rng(0), np.zeros(len(made.row_variances))
    for _ in range(runs):
        release = measure(part.mechanism, columns, noise="research", random_state=rng)
        tables, totals = tables_of(part, release)
        values = np.concatenate([*(table.values for table in tables), totals.values])
        values[:, 0] -= truth
        squares += (values**2).sum(axis=1)
    found = squares / (3 * runs)
    assert found[:-1].mean() == pytest.approx(made.row_variances[:-1].mean(), rel=0.03)
    assert found[-1] == pytest.approx(made.row_variances[-1], rel=0.12)  # one draw a class and run
    assert made.total == pytest.approx(3 * made.row_variances.sum())


# -- searches -------------------------------------------------------------------------------------


def test_imagined_labels_are_those_of_the_classifier():
    domain = Domain.from_sizes(SIZES, n_classes=3)
    made = a_plan(domain, epsilon=float("inf"))
    imagined = SimulatedData(domain, 3, 400, TargetPrior(), n_targets=3, n_queries=20)
    found = posterior_probabilities(made, imagined, np.random.default_rng(0))
    for law, shares in enumerate(found):
        mine = imagined.owner == law
        model = PosteriorForestClassifier(
            domain, epsilon=float("inf"), blocks=made.parts[0].blocks
        ).fit(imagined.codes[mine], imagined.labels[mine])
        asked = imagined.queries.reshape(3, 20, -1)[law]
        np.testing.assert_allclose(shares, model.predict_proba(asked), atol=1e-9)


# Made-up records ---------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 5, 2], n_classes=3)


@pytest.mark.parametrize("n_records", [300, 100_000])
def test_every_law_has_the_public_number_of_records(n_records):
    imagined = SimulatedData(DOMAIN, 3, n_records, TargetPrior(), n_targets=6, n_queries=10)
    assert len(imagined.codes) <= MOST_RECORDS
    counts = imagined.counts(imagined.codes, DOMAIN.sizes).counts
    totals = counts.sum(axis=0).reshape(6, 3).sum(axis=1)
    assert totals == pytest.approx(n_records, rel=0.01)
    assert (imagined.labels >= 0).all()
    assert (imagined.labels < 3).all()


def test_queries_get_the_votes_of_their_own_law():
    imagined = SimulatedData(DOMAIN, 3, 10, TargetPrior(), n_targets=2, n_queries=3)
    answers = np.arange(2 * 3 * 2 * 3, dtype=float).reshape(6, 6)
    own = imagined.own_columns(answers)
    assert own.shape == (2, 3, 3)
    assert (own[0] == answers[:3, :3]).all()
    assert (own[1] == answers[3:, 3:]).all()


def test_blocks_of_a_rare_class_that_do_not_fit_become_single_attributes():
    """Designs of a rarer class may be larger than those that were checked before the charge."""
    domain = Domain.from_sizes([4] * 60, 2)
    announced = PrivateForestClassifier(domain, epsilon=1, n_records=200_000).plan()
    rare, everything = plan_after_imbalance(announced, 4000), tuple(range(60))

    def blocks():
        return blocks_of_kept(
            domain, rare.rest, everything, np.random.default_rng(0), planned_records=4000,
            n_records=200_000, neighboring="add_remove",
        )  # fmt: skip

    alone = [(i,) for i in everything]
    with memory_cap(peak_bytes(plan_of_tables(rare, rare.rest, alone))):
        assert blocks() == alone
    assert max(map(len, blocks())) > 1


# What is measured ---------------------------------------------------------------------------------


def research(data, **changes):
    parameters = {"noise": "research", "noise_state": 0, "random_state": 0, "n_records": 1700}
    return PosteriorForestClassifier(data.domain, **(parameters | changes))


def ours(epsilon):
    return lambda domain, n, seed: PosteriorForestClassifier(
        domain,
        epsilon=epsilon,
        n_records=n,
        noise="research",
        noise_state=seed,
        random_state=seed,
    )


def a_part(sizes, k, budget, neighboring="add_remove", n_blocks="auto"):
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
    plan = a_part(sizes, k, budget, n_blocks=n_blocks)
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
    replacing = a_part(sizes, k, budget, "replace_one", n_blocks).mechanism
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
            PureDP(float("inf")),
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
        a_part([4, 4, 3], 3, PureDP(1), relation, 2).mechanism.law.variance
        for relation in ("add_remove", "replace_one")
    )
    assert two == pytest.approx(4 * one, rel=0.01)


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
