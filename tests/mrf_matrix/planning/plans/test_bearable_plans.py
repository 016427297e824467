"""Plans of many draws and many rows: figures in bearable time, by count before the work starts."""

import numpy as np
import pytest

from mrf_matrix import Domain, MatrixForestClassifier, load_dataset
from mrf_matrix.cli.plans.plan_tables import plan_table
from mrf_matrix.error import coefficients
from mrf_matrix.mechanisms import CellCounts, measure
from mrf_matrix.planning import plan
from mrf_matrix.planning.plans import part as plan_parts
from strategies.operators import Dense, Identity, Kronecker
from strategies.operators.base import recovery

WIDE = Domain.from_sizes([9, 9, 16, 7, 15, 6, 5, 2, 10, 10, 10, 42, 16, 5], n_classes=2)
"""Too large to enumerate."""
TREES = {"n_trees": 3, "max_depth": 2, "random_state": 1, "time_limit": 0.2, "n_records": 1000}
BY_NORMAL = "by a normal law in place of the noise"


@pytest.fixture
def alone(monkeypatch):
    """Make every factorisation of rows take too long, so that rows answer for themselves."""
    monkeypatch.setattr(recovery, "BEARABLE", -1.0)


def units(matrix, workload):
    return coefficients.answer_coefficients(workload, matrix, np.arange(workload.shape[0]))


def test_units_too_many_are_told_before_any_is_estimated_from(monkeypatch):
    matrix = Kronecker([Identity(4), Dense(np.triu(np.ones((5, 5))))])
    workload = Dense(np.random.default_rng(0).random((3, 20)))
    expected = workload.to_dense() @ np.linalg.pinv(matrix.to_dense())
    np.testing.assert_allclose(coefficients._by_units(workload, matrix), expected, atol=1e-12)
    monkeypatch.setattr(coefficients, "estimate", None)  # called, it would fail
    monkeypatch.setattr(coefficients, "MOST_UNIT_ENTRIES", 20**2 - 1)
    assert coefficients._by_units(workload, matrix) is None
    monkeypatch.setattr(coefficients, "MOST_UNIT_ENTRIES", 20**2)
    with pytest.raises(TypeError):  # negative control: within the limit the work is done
        coefficients._by_units(workload, matrix)


@pytest.mark.slow
def test_marginals_of_many_cells_need_no_units(monkeypatch):
    domain = Domain.from_sizes([12, 12, 12, 12], n_classes=2)
    made = plan(domain, epsilon=1, strategy="marginals", **{**TREES, "max_depth": 4})
    drawn = made.parts[0].n_measurements
    assert drawn**2 > coefficients.MOST_UNIT_ENTRIES
    monkeypatch.setattr(coefficients, "estimate", None)
    assert made.to_dict()["flips_by_normal_law"] is False
    rows = np.arange(0, len(made.row_variances), 97)
    squares = [term.repeats @ term.weights**2 for term in made.parts[0].terms(rows)]
    assert squares == pytest.approx(made.parts[0].row_squares[rows])


def test_a_normal_law_in_place_of_the_noise_is_labelled(monkeypatch):
    made = plan(Domain.from_sizes([3, 4, 2], n_classes=2), epsilon=1, **TREES)
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
    made = plan(WIDE, strategy="common_refinement", epsilon=1, queries=9, **TREES)
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
    made = plan(WIDE, strategy="common_refinement", epsilon=1, queries=9, **TREES)
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


@pytest.mark.slow
def test_shipped_sets_are_planned_where_rows_stand_alone():
    """Thirteen attributes and 128 trees: 32 768 rows that nothing may be factorised for."""
    made = plan(load_dataset("wine").domain, epsilon=1, n_records=178, time_limit=0.2)
    figures = made.to_dict(bound=True)
    assert made.parts[0].stands_alone
    assert figures["rms_per_vote"] == pytest.approx(figures["rms_per_leaf"] * np.sqrt(128))
    assert figures["seconds"] < 60


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1, 20])
def test_whether_a_plan_can_be_computed_does_not_depend_on_the_budget(epsilon):
    domain = Domain.from_sizes([4] * 15, n_classes=2)
    made = plan(domain, epsilon=epsilon, n_trees=4, max_depth=3, random_state=0)
    assert made.rms_per_leaf > 0
