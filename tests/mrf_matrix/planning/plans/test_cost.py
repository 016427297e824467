"""What a fit takes is known of every kind of plan, and asked before anything is paid."""

import json
import re
import tracemalloc

import numpy as np
import pytest
from command_line import run

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PrivateForestClassifier,
    PrivateNaiveBayesClassifier,
    plan,
)
from mrf_matrix.cli.plan import plan_table
from mrf_matrix.estimators import (
    LabelTreeClassifier,
    MultinomialMatrixForestClassifier,
    PooledForestClassifier,
    PosteriorForestClassifier,
    ResidualForestClassifier,
)
from mrf_matrix.mechanisms import CellCounts, measure
from mrf_matrix.mechanisms.measurement import least_squares
from mrf_matrix.planning import peak_bytes
from mrf_matrix.planning.plans import cost
from mrf_matrix.planning.plans import part as plan_parts
from mrf_matrix.planning.plans.cost import (
    GAUSSIAN_DRAW,
    LAPLACE_DRAW,
    START,
    column_entries,
    release_seconds,
)
from strategies.operators import (
    Dense,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    Product,
    Scaled,
    Stack,
    memory_cap,
)
from strategies.operators.base import recovery

TREES = {"n_trees": 16, "max_depth": 4, "strategy": "identity", "time_limit": 1e-6}
MODES = {
    MatrixForestClassifier: ("matrix", TREES),
    PosteriorForestClassifier: ("tables", {}),
    PrivateNaiveBayesClassifier: ("naive_bayes", {}),
}
SHAPES = {  # sizes, classes, records: some megabytes each
    MatrixForestClassifier: ((6, 6, 6, 6, 3), 20, 2000),
    PosteriorForestClassifier: ((150, 4), 2, 2000),
    PrivateNaiveBayesClassifier: ((9000, 40), 10, 2000),
    LabelTreeClassifier: ((5,) * 8, 10, 2000),
    PooledForestClassifier: ((5,) * 8, 10, 2000),
    PrivateForestClassifier: ((7,) * 12, 2, 30_000),
    ResidualForestClassifier: ((90,) * 4, 2, 20_000),
}


def classifier(kind, domain, n_records, **more):
    trees = TREES if kind is MatrixForestClassifier else {}
    seed = {} if kind is PrivateNaiveBayesClassifier else {"random_state": 0}
    return kind(domain, epsilon=1, n_records=n_records, **trees, **seed, **more)


def planned(kind, sizes, n_classes, n_records):
    """Return the plan of the forest that a classifier fits."""
    domain = Domain.from_sizes(sizes, n_classes)
    if kind in MODES:
        word, trees = MODES[kind]
        return plan(domain, word, epsilon=1, n_records=n_records, random_state=0, **trees)
    model = classifier(kind, domain, n_records)
    made = model.plan()
    return made.forest if kind is PrivateForestClassifier else made


def records(sizes, n_classes, n):
    generator = np.random.default_rng(0)
    codes = np.stack([generator.integers(size, size=n) for size in sizes], axis=1)
    return codes, generator.integers(n_classes, size=n)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
def test_a_fit_holds_what_was_foretold(kind):
    sizes, k, n = SHAPES[kind]
    foretold = peak_bytes(planned(kind, sizes, k, n))
    assert foretold > 2 * 2**20, "too small to be told from what is held whatever the plan"
    data, few = records(sizes, k, n), records((2, 2), 2, 9)
    noise = {"noise": "research", "noise_state": 0}
    classifier(kind, Domain.from_sizes((2, 2), 2), 9, **noise).fit(*few).predict(few[0])
    model = classifier(kind, Domain.from_sizes(sizes, k), n, **noise)
    tracemalloc.start()
    model.fit(*data).predict(data[0][:50])
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert foretold / 3 < held < 2 * foretold


@pytest.mark.parametrize("kind", SHAPES)
def test_more_codes_classes_and_records_take_no_less(kind):
    sizes, k, n = SHAPES[kind]
    least = peak_bytes(planned(kind, sizes, k, n))
    wider = tuple(2 * size for size in sizes)
    assert peak_bytes(planned(kind, wider, k, n)) > least
    assert peak_bytes(planned(kind, sizes, k, 3 * n)) > least
    if kind not in (LabelTreeClassifier, PooledForestClassifier, PrivateForestClassifier):
        assert peak_bytes(planned(kind, sizes, 2 * k, n)) > least  # others plan other trees for it


@pytest.mark.parametrize("kind", SHAPES)
def test_what_would_not_fit_or_end_is_refused_before_the_charge(kind, monkeypatch):
    sizes, k, n = SHAPES[kind]
    domain, ledger = Domain.from_sizes(sizes, k), PrivacyLedger(epsilon=1)
    model = classifier(kind, domain, n, ledger=ledger)
    needed = peak_bytes(planned(kind, sizes, k, n))
    with memory_cap(needed - 1), pytest.raises(MemoryCapError, match=r"(?s)memory cap.*fewer"):
        model.fit(*records(sizes, k, 20))
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    told = r"once it is paid for.*fewer trees or less depth"
    with memory_cap(needed * 5 // 4), pytest.raises(MemoryCapError, match=told):
        model.fit(*records(sizes, k, 20))
    assert not ledger.charges


def test_more_time_is_allowed_by_who_asks_for_it(monkeypatch):
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    domain = Domain.from_sizes((3, 3), 2)
    model = MatrixForestClassifier(domain, **TREES)
    with pytest.raises(MemoryCapError, match="allow it with time_limit=") as refused:
        model.fit(*records((3, 3), 2, 20))
    told = re.search(r"time_limit=(\d+)\.$", str(refused.value))
    model.set_params(time_limit=float(told[1])).fit(*records((3, 3), 2, 20))


def test_what_is_half_paid_is_not_refused_for_its_time(monkeypatch):
    """The trees of two stages are chosen by then: nothing but memory may stop their leaves."""
    monkeypatch.setattr(cost, "LONGEST", 1e-9)
    model = MultinomialMatrixForestClassifier(Domain.from_sizes((3, 3), 2), **TREES)
    assert model.fit(*records((3, 3), 2, 20)).leaf_values_.shape[1] == 2


def test_both_parts_of_a_pool_are_held_at_once():
    sizes, k, n = SHAPES[PooledForestClassifier]
    of = planned(PooledForestClassifier, sizes, k, n)
    ledger = PrivacyLedger(epsilon=1)
    model = classifier(PooledForestClassifier, of.domain, n, ledger=ledger)
    whole, parts = peak_bytes(of), [peak_bytes(one) for one in (of.tree, of.tables)]
    assert whole == sum(parts)
    assert whole > max(parts)
    with memory_cap(whole - 1), pytest.raises(MemoryCapError, match="memory cap"):
        model.fit(*records(sizes, k, 20))
    assert not ledger.charges


def test_what_is_no_plan_is_refused():
    for asked in (peak_bytes, cost.release_seconds):
        with pytest.raises(TypeError, match="expected a plan"):
            asked("tables")


@pytest.mark.parametrize("kind", ["tables", "additive", "auto"])
def test_the_command_line_tells_the_memory(kind, tmp_path):
    file = tmp_path / "domain.json"
    Domain.from_sizes([4] * 5, n_classes=2).save(file)
    asked = ["plan", str(file), "--kind", kind, "--n-records", "3000", "--output", str(tmp_path)]
    asked += ["--random-state", "0", "--no-pictures"]
    said = run(*asked).output
    assert "at the peak of a fit" in " ".join(said.split())
    figures = json.loads(run(*asked, "--json").stdout)
    assert figures["peak_bytes"] > 1000


# The time of a release ---------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([3, 4, 2, 3], n_classes=3)
SMALL = {"n_trees": 6, "max_depth": 2, "random_state": 0, "strategy": "identity"}
CELLS = 12


MATRICES = {
    "identity": Identity(CELLS),
    "marginals": Marginals((3, 4), [(0,), (1,), ()], [1, 2, 3]),
    "stack": Stack([Identity(CELLS), Marginals((3, 4), [(0,), ()], [1, 1])]),
    "scaled": Scaled(2.0, Identity(CELLS)),
    "grouped": Product(Dense(np.ones((5, 3))), Grouping(np.arange(CELLS) % 3)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_column_entries_are_those_of_the_dense_twin(name):
    matrix = MATRICES[name]
    expected = np.count_nonzero(matrix.to_dense()) / CELLS
    assert column_entries(matrix) == pytest.approx(expected)


def test_draws_and_records_take_time():
    made = plan(DOMAIN, epsilon=1, n_records=100, **SMALL)
    silent = made.at(epsilon=float("inf"))
    draws = made.parts[0].n_measurements * made.n_classes
    assert release_seconds(made) - release_seconds(silent) == pytest.approx(LAPLACE_DRAW * draws)
    normal = plan(DOMAIN, rho=1, n_records=100, **SMALL)
    gained = release_seconds(normal) - release_seconds(normal.at(rho=float("inf")))
    assert gained == pytest.approx(GAUSSIAN_DRAW * draws)
    assert release_seconds(silent) > START
    few = plan(DOMAIN, epsilon=1, n_records=10, **SMALL)
    assert release_seconds(few) < release_seconds(made)


@pytest.mark.parametrize("method", ["workload_itself", "common_refinement"])
def test_linear_algebra_takes_time_where_no_rule_spares_it(method):
    wide = Domain.from_sizes([9] * 9, n_classes=2)
    times = [
        release_seconds(
            plan(wide, epsilon=1, n_trees=trees, max_depth=1, random_state=0, strategy=method)
        )
        for trees in (2, 8)
    ]
    assert START < times[0] < times[1]


def test_the_posterior_takes_the_time_of_its_blocks_and_classes():
    """It is solved block by block and class by class."""

    def seconds(k, *blocks):
        domain = Domain.from_sizes([3] * 4, n_classes=k)
        made = plan(domain, "tables", epsilon=float("inf"), blocks=blocks)
        return release_seconds(made) - START

    for k in (2, 1000):
        assert seconds(k, [0, 1], [2, 3]) == pytest.approx(2 * seconds(k, [0, 1]), rel=0.02)
    few, some, many = (seconds(k, [0, 1]) for k in (2, 1000, 1998))
    assert some > 3 * few
    assert many - some == pytest.approx(some - few, rel=0.02)


# Many draws, many rows ---------------------------------------------------------------------------


WIDE = Domain.from_sizes([9, 9, 16, 7, 15, 6, 5, 2, 10, 10, 10, 42, 16, 5], n_classes=2)
"""Too large to enumerate."""
FEW_TREES = {"n_trees": 3, "max_depth": 2, "random_state": 1, "time_limit": 0.2, "n_records": 1000}
BY_NORMAL = "by a normal law in place of the noise"


@pytest.fixture
def alone(monkeypatch):
    """Make every factorisation of rows take too long, so that rows answer for themselves."""
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)


def test_units_too_many_are_told_before_any_is_estimated_from(monkeypatch):
    matrix = Kronecker([Identity(4), Dense(np.triu(np.ones((5, 5))))])
    workload = Dense(np.random.default_rng(0).random((3, 20)))
    expected = workload.to_dense() @ np.linalg.pinv(matrix.to_dense())
    np.testing.assert_allclose(
        least_squares._unit_coefficients(workload, matrix), expected, atol=1e-12
    )
    monkeypatch.setattr(least_squares, "estimate", None)  # called, it would fail
    monkeypatch.setattr(least_squares, "MOST_UNIT_ENTRIES", 20**2 - 1)
    assert least_squares._unit_coefficients(workload, matrix) is None
    monkeypatch.setattr(least_squares, "MOST_UNIT_ENTRIES", 20**2)
    with pytest.raises(TypeError):  # negative control: within the limit the work is done
        least_squares._unit_coefficients(workload, matrix)


@pytest.mark.slow
def test_marginals_of_many_cells_need_no_units(monkeypatch):
    domain = Domain.from_sizes([12, 12, 12, 12], n_classes=2)
    made = plan(domain, epsilon=1, strategy="marginals", **{**FEW_TREES, "max_depth": 4})
    drawn = made.parts[0].n_measurements
    assert drawn**2 > least_squares.MOST_UNIT_ENTRIES
    monkeypatch.setattr(least_squares, "estimate", None)
    assert made.to_dict()["flips_by_normal_law"] is False
    rows = np.arange(0, len(made.row_variances), 97)
    squares = [term.repeats @ term.weights**2 for term in made.parts[0].terms(rows)]
    assert squares == pytest.approx(made.parts[0].row_squares[rows])


def test_a_normal_law_in_place_of_the_noise_is_labelled(monkeypatch):
    made = plan(Domain.from_sizes([3, 4, 2], n_classes=2), epsilon=1, **FEW_TREES)
    exact = made.to_dict()
    assert exact["flips_by_normal_law"] is False
    assert BY_NORMAL not in _words(exact)
    monkeypatch.setattr(plan_parts, "answer_coefficients", lambda *given: None)
    if made.parts[0].stands_alone:
        pytest.fail("expected a strategy whose answers share draws")
    figures = made.to_dict()
    assert figures["flips_by_normal_law"] is True
    assert BY_NORMAL in _words(figures)


def _words(figures):
    table = plan_table({"domain": "test", **figures})
    return " ".join(str(cell) for column in table.columns for cell in column.cells)


def test_rows_that_answer_for_themselves_have_votes_of_their_own_draws(alone):
    made = plan(WIDE, strategy="common_refinement", epsilon=1, queries=9, **FEW_TREES)
    part = made.parts[0]
    assert part.stands_alone
    counts = CellCounts(
        np.zeros((1, len(WIDE.sizes)), np.int32), np.zeros((1, 4000), np.int64), WIDE.sizes
    )
    release = measure(part.mechanism, counts, noise="research", random_state=3)
    votes = part.answers(release)[part.ensemble.leaves_reached(made.queries)].sum(axis=1)
    assert votes.var(axis=1) == pytest.approx(made.vote_variances, rel=0.1)
    between = votes[:, ::2] - votes[:, 1::2]
    margin = float(np.ceil(made.rms_per_vote))
    seen = (between > margin).mean(axis=1) + 0.5 * (between == margin).mean(axis=1)
    assert made.flip_probabilities(margin, of="vote") == pytest.approx(seen, abs=0.03)
    assert made.to_dict()["flips_by_normal_law"] is False


def test_rows_solved_with_together_do_not_stand_alone():
    made = plan(WIDE, strategy="common_refinement", epsilon=1, queries=9, **FEW_TREES)
    part = made.parts[0]
    assert not part.stands_alone  # negative control: least squares lowers their errors
    own = part.row_variances[part.ensemble.leaves_reached(made.queries)].sum(axis=1)
    assert (np.abs(made.vote_variances / own - 1) > 0.01).all()


def test_a_fit_knows_the_votes_that_its_plan_promised(alone):
    codes = np.random.default_rng(0).integers(0, 2, (40, len(WIDE.sizes))).astype(np.int32)
    model = MatrixForestClassifier(
        WIDE, epsilon=1, strategy="common_refinement", noise="research", noise_state=0,
        n_trees=3, max_depth=2, random_state=1, voting="weight",
    ).fit(codes, codes[:, 0])  # fmt: skip
    part = model.plan_.parts[0]
    assert part.stands_alone
    promised = part.row_variances[part.ensemble.leaves_reached(codes[:5])].sum(axis=1)
    assert model.expected_vote_error(codes[:5]) ** 2 == pytest.approx(promised)
    assert (model.vote_intervals(codes[:5])[1] > 1.9 * np.sqrt(2 * promised)).all()
