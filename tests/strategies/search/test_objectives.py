"""Objectives: the total and the worst error, weights, groups and targets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, sparse

import strategies
from strategies import Problem, SmallestBudget, evaluate, examples, select, smallest_budget
from strategies.operators import (
    AllRanges,
    Array,
    Dense,
    Gram,
    Identity,
    Kronecker,
    Marginals,
    PrefixSums,
    RowKronecker,
    RowScaled,
    Stack,
    as_operator,
)
from strategies.operators.masks.components import mask_rows
from strategies.problem import determining_rows
from strategies.problem.determining_rows import distinct_rows, factor_of_rows
from strategies.problem.problem import Aim, weight_rows

NORM_ORDER = {"l1": 1, "l2": 2}


def brute_force(workload, matrix, norm, objective, weights, groups) -> float:
    size = np.linalg.norm(matrix, NORM_ORDER[norm], axis=0).max() ** 2
    errors = weights * ((workload @ np.linalg.pinv(matrix)) ** 2).sum(axis=1) * size
    if objective == "total":
        return errors.sum()
    return max(errors[groups == label].sum() for label in np.unique(groups))


@st.composite
def questions(draw):
    """Draw a workload with a norm, an objective, weights and groups."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    q, n = draw(st.integers(1, 7)), draw(st.integers(1, 6))
    kind = draw(st.sampled_from(["binary", "integer", "real", "deficient"]))
    if kind == "binary":
        workload = rng.integers(0, 2, (q, n)).astype(float)
    elif kind == "integer":
        workload = rng.integers(-2, 3, (q, n)).astype(float)
    elif kind == "real":
        workload = rng.normal(size=(q, n)) * 10.0 ** rng.integers(-3, 4)
    else:
        workload = np.outer(rng.normal(size=q), rng.normal(size=n))
    workload[rng.integers(q), rng.integers(n)] += 1.0
    if not workload.any():
        workload[0, 0] = 1.0
    weights = draw(st.sampled_from([None, "uniform", "wide"]))
    factors = {"uniform": rng.uniform(0.5, 2, q), "wide": 10.0 ** rng.uniform(-4, 4, q)}
    objective = draw(st.sampled_from(["total", "max", "groups"]))
    groups = rng.integers(-1, 2, q) if objective == "groups" else None
    norm = draw(st.sampled_from(["l1", "l2"]))
    asked = "total" if objective == "total" else "max"
    return workload, norm, asked, factors.get(weights), groups, rng


@given(questions())
def test_a_loss_is_what_it_says_and_never_below_its_bound(question) -> None:
    workload, norm, objective, weights, groups, rng = question
    q, n = workload.shape
    own = np.ones(q) if weights is None else weights
    labels = np.arange(q) if groups is None else groups
    for matrix in (np.eye(n), np.concatenate([np.eye(n), rng.normal(size=(2, n))])):
        found = evaluate(workload, matrix, norm, objective, weights, groups)
        expected = brute_force(workload, matrix, norm, objective, own, labels)
        assert found.loss == pytest.approx(expected, rel=1e-7)
        assert found.lower_bound <= found.loss
        assert found.objective == objective


@given(questions())
def test_what_is_selected_is_no_worse_than_the_identity(question) -> None:
    workload, norm, objective, weights, groups, _ = question
    asked = {"objective": objective, "weights": weights, "groups": groups}
    found = select(workload, norm, random_state=0, time_limit=0.02, **asked)
    identity = evaluate(workload, np.eye(workload.shape[1]), norm, **asked)
    assert found.lower_bound <= found.loss * (1 + 1e-12)
    assert found.loss <= identity.loss * (1 + 1e-9)
    if norm == "l2" and objective == "max":
        assert found.certified_ratio < 1.01


def test_the_max_of_one_group_is_the_total() -> None:
    matrix = np.concatenate([np.eye(5), np.ones((1, 5))])
    total = evaluate(np.tri(5), matrix)
    grouped = evaluate(np.tri(5), matrix, objective="max", groups=np.full(5, 7))
    assert grouped.loss == pytest.approx(total.loss)
    assert grouped.lower_bound == pytest.approx(total.lower_bound, rel=1e-3)


def test_weights_scale_errors_and_not_what_rows_say() -> None:
    weights = np.array([1.0, 4.0, 0.0, 0.25])
    plain = evaluate(np.tri(4), np.eye(4))
    found = evaluate(np.tri(4), np.eye(4), weights=weights)
    assert found.loss == pytest.approx(weights @ plain.row_errors(np.tri(4)))
    np.testing.assert_allclose(found.row_errors(np.tri(4)), plain.row_errors(np.tri(4)))


def test_a_row_of_weight_zero_needs_no_answer() -> None:
    workload = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    for asked in ("total", "max"):
        found = evaluate(workload, [[1.0, 1.0, 0.0]], "l2", asked, weights=[1.0, 0.0])
        assert found.loss == pytest.approx(1.0)


def test_repeated_rows_do_not_change_the_worst_error() -> None:
    once = select(np.tri(6), "l2", objective="max", random_state=0)
    often = select(np.repeat(np.tri(6), [1, 5, 1, 1, 9, 1], axis=0), "l2", objective="max")
    assert once.loss == pytest.approx(often.loss, rel=1e-3)


LAPLACE_TARGETS = [(examples.prefix_sums(64), 15.4), (examples.binary_tree(64), 15.4)]


@pytest.mark.slow
@pytest.mark.parametrize(("workload", "target"), LAPLACE_TARGETS)
def test_the_worst_row_under_laplace_noise(workload, target: float) -> None:
    found = select(workload, "l1", objective="max", random_state=0, time_limit=1.0)
    assert found.loss <= target
    assert found.loss < 0.8 * select(workload, "l1", "identity", objective="max").loss


def test_marginals_serve_the_worst_row_beyond_enumeration() -> None:
    """A domain of 10^40 cells: the worst table of ResidualPlanner's problem, and its bound."""
    workload = examples.marginals((10,) * 40, 1)
    found = select(workload, "l2", "marginals", objective="max", random_state=0)
    errors = found.row_errors(workload)
    assert found.loss == pytest.approx(errors.max())
    assert found.loss == pytest.approx(1 + 39 * 0.9, rel=1e-4)  # the tables alone, all alike
    small = select(examples.marginals((10,) * 6, 1), "l2", "marginals", objective="max")
    assert small.loss == pytest.approx(1 + 5 * 0.9, rel=1e-4)
    assert 1.0 <= small.lower_bound <= small.loss


def test_tables_too_many_to_list_have_the_errors_of_their_rows(monkeypatch) -> None:
    workload = examples.marginals((3, 4, 5), 2)
    matrix = Marginals((3, 4, 5), [(0, 1), (1, 2), (0, 1, 2)], [0.2, 0.3, 0.5])
    listed = evaluate(workload, matrix, objective="max")
    monkeypatch.setattr("strategies.operators.tables.marginals.MOST_PARTS", 0)
    hidden = evaluate(workload, matrix, objective="max")
    assert hidden.loss == pytest.approx(listed.loss)


def test_families_of_the_total_start_from_structured_rows() -> None:
    masks = [np.repeat(np.eye(3, dtype=bool), 16, axis=0), np.tile(np.tri(16, dtype=bool), (3, 1))]
    workload = RowKronecker.from_masks(masks)
    groups = np.arange(48) // 16
    found = select(workload, "l1", objective="max", groups=groups, random_state=0, time_limit=0.5)
    identity = evaluate(workload, np.eye(48), objective="max", groups=groups)
    assert found.loss < identity.loss
    errors = found.row_errors(as_operator(workload))
    assert found.loss == pytest.approx(np.bincount(groups, errors).max())


STRUCTURED = {
    "product": Kronecker([PrefixSums(4), AllRanges(3)]),
    "union": Stack(
        [Kronecker([PrefixSums(4), Identity(3)]), Kronecker([Dense(np.ones((1, 4))), AllRanges(3)])]
    ),
    "tables": Marginals((3, 2, 4), [(0, 1), (2,)], [1.0, 2.0]),
    "ordered": AllRanges(8),
}


@pytest.mark.parametrize(("norm", "asked"), [("l1", "weights"), ("l2", "rows"), ("l2", "groups")])
@pytest.mark.parametrize("name", STRUCTURED)
def test_families_of_structures_serve_the_worst_row(name: str, norm: str, asked: str) -> None:
    workload = STRUCTURED[name]
    rng, q = np.random.default_rng(0), workload.shape[0]
    weights = rng.uniform(0.5, 2.0, q) if asked == "weights" else None
    groups = rng.integers(0, 3, q) if asked == "groups" else None
    given = {"weights": weights, "groups": groups}
    found = select(workload, norm, objective="max", random_state=0, time_limit=0.03, **given)
    each = np.ones(q) if weights is None else weights
    labels = np.arange(q) if groups is None else groups
    dense = workload.to_dense(), found.matrix.to_dense()
    assert found.loss == pytest.approx(brute_force(*dense, norm, "max", each, labels))
    assert found.lower_bound <= found.loss
    assert all(np.isfinite(one.loss) for one in found.candidates)


# The smallest budget ------------------------------------------------------------------------------


QUICK = {"random_state": 0, "time_limit": 0.3}


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_targets_hold_at_the_budget_and_not_below(norm: str) -> None:
    targets = np.linspace(1.0, 3.0, 16)
    found = smallest_budget(np.tri(16), targets, norm, **QUICK)
    errors = found.strategy.row_errors(np.tri(16))
    variances = 2 * errors / found.amount**2 if norm == "l1" else errors / (2 * found.amount)
    assert (np.sqrt(variances) / targets).max() == pytest.approx(1.0, rel=1e-9)
    assert 0 < found.bound <= found.amount


def test_the_gaussian_budget_is_the_conic_one() -> None:
    """Targets 1 to 3 on 16 prefix sums: 1.22842 by the conic program with the targets in it."""
    found = smallest_budget(np.tri(16), np.linspace(1.0, 3.0, 16), "l2", **QUICK)
    cp = pytest.importorskip("cvxpy")
    block, level = cp.Variable((32, 32), PSD=True), cp.Variable()
    diagonal, squares = cp.diag(block), np.linspace(1.0, 3.0, 16) ** 2
    constraints = [
        block[:16, 16:] == np.tri(16),
        diagonal[:16] <= level * squares,
        diagonal[16:] <= level,
    ]
    cp.Problem(cp.Minimize(level), constraints).solve(solver=cp.CLARABEL)
    assert found.amount == pytest.approx(float(level.value) ** 2 / 2, rel=1e-3)
    assert found.bound <= float(level.value) ** 2 / 2 * (1 + 1e-5)


def test_targets_scale_the_budget() -> None:
    one = smallest_budget(np.eye(4), 1.0, **QUICK)
    ten = smallest_budget(np.eye(4), 10.0, **QUICK)
    assert isinstance(one, SmallestBudget)
    assert one.parameter == "epsilon"
    assert one.amount == pytest.approx(np.sqrt(2.0))
    assert one.amount / ten.amount == pytest.approx(10.0)


def test_a_row_without_a_target_costs_nothing() -> None:
    found = smallest_budget(np.eye(3), [1.0, np.inf, np.inf], **QUICK)
    assert found.amount == pytest.approx(np.sqrt(2.0))
    single = evaluate(np.eye(3)[:1], np.eye(3), objective="max")
    assert found.amount == pytest.approx(np.sqrt(2 * single.loss))


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([1.0, 2.0], "2 entries"),
        ([1.0, 0.0, 1.0], "expected positive"),
        ([1.0, -1.0, 1.0], "expected positive"),
        (np.full(3, np.inf), "at least one of them finite"),
        ([1.0, np.nan, 1.0], "targets contains NaN"),
    ],
)
def test_nonsense_is_refused_by_name(targets, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        smallest_budget(np.eye(3), targets)


# What an objective says of rows -------------------------------------------------------------------


NONSENSE = [
    ({"objective": "mean"}, "objective='mean'"),
    ({"objective": "max", "weights": [1.0, -1.0, 1.0]}, "negative"),
    ({"objective": "total", "weights": [1.0, float("nan"), 1.0]}, "weights contains NaN"),
    ({"objective": "total", "weights": [1.0, float("inf"), 1.0]}, "weights contains NaN"),
    ({"objective": "total", "weights": [0.0, 0.0, 0.0]}, "weights are all zero"),
    ({"objective": "total", "weights": [1.0, 1.0]}, "2 entries: expected one for each of the 3"),
    ({"objective": "total", "weights": 2.0}, "weights has 0 dimensions"),
    ({"objective": "max", "groups": [0, 1]}, "groups has shape"),
    ({"objective": "total", "groups": [0, 1, 1]}, "groups given with objective='total'"),
]


@pytest.mark.parametrize(("given", "said"), NONSENSE)
@pytest.mark.parametrize("ask", ["select", "evaluate"])
def test_objectives_that_make_no_sense_are_refused(given: dict, said: str, ask: str) -> None:
    matrix = {} if ask == "select" else {"matrix": np.eye(3)}
    with pytest.raises(ValueError, match=said):
        getattr(strategies, ask)(np.tri(3), **matrix, **given)


def test_labels_that_are_no_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="groups has dtype"):
        strategies.evaluate(np.tri(3), np.eye(3), objective="max", groups=["a", "b", "b"])


@pytest.mark.parametrize("given", [{"objective": "max"}, {"weights": np.ones(4)}])
def test_a_gram_has_no_rows(given: dict) -> None:
    with pytest.raises(ValueError, match="workload is a Gram"):
        strategies.evaluate(Gram(examples.all_ranges(4).gram_dense()), np.eye(4), **given)


@pytest.mark.parametrize(
    ("given", "sums"),
    [
        (("total", None), [[0, 1, 2, 3]]),
        (("max", None), [[0], [1], [2], [3]]),
        (("max", [7, -1, 7, 7]), [[1], [0, 2, 3]]),
    ],
)
def test_an_objective_knows_its_sums(given: tuple, sums: list[list[int]]) -> None:
    aim = Aim.of(as_operator(np.tri(4)), *given)
    assert aim.n_groups(4) == len(sums)
    assert aim.most_rows(4) == max(map(len, sums))
    errors = np.array([4.0, 1.0, 2.0, 3.0])
    assert aim.value(errors) == max(errors[rows].sum() for rows in sums)


def test_weights_of_tables_stay_weights_of_tables() -> None:
    workload = examples.marginals((2, 3, 4), 2)
    cells = workload.rows
    found = weight_rows(workload, np.repeat([4.0, 9.0, 0.25], cells))
    assert isinstance(found, Marginals)
    assert found.weights == (2.0, 3.0, 0.5)


def test_other_weights_keep_the_rows_of_masks() -> None:
    workload = examples.marginals((2, 3), 1)
    weights = np.arange(1.0, 6.0)
    found = weight_rows(workload, weights)
    assert isinstance(found, RowScaled)
    assert mask_rows(found) is not None
    expected = np.sqrt(weights)[:, None] * workload.to_dense()
    np.testing.assert_allclose(found.to_dense(), expected)


def test_weights_of_one_change_nothing() -> None:
    workload = as_operator(np.tri(3))
    assert weight_rows(workload, np.ones(3)) is workload


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_distinct_rows_have_the_errors_of_all(form) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (5, 4)).astype(float)
    rows = table[rng.integers(0, 5, 30)]
    rows[[3, 8]] = 0.0
    groups = rng.integers(-2, 3, 30)
    for labels in (None, groups):
        aim = Aim.of(as_operator(rows), "max", labels)
        found = distinct_rows(as_operator(form(rows)), aim.groups)
        assert found.value((found.rows**2).sum(axis=1)) == pytest.approx(
            aim.value((rows**2).sum(axis=1))
        )
        np.testing.assert_allclose(found.coordinates @ found.factor, found.rows, atol=1e-12)
        assert (found.origin >= 0).tolist() == rows.any(axis=1).tolist()
        assert len(found.rows) < len(rows)


def test_a_problem_summed_is_one_of_total_error() -> None:
    problem = Problem.of(np.tri(4), "l1", "max", groups=[0, 0, 1, 1])
    assert not problem.is_total
    total = problem.as_total([1.0, 2.0, 3.0, 4.0])
    assert total.is_total
    assert total.merged_total == pytest.approx(1 * 1 + 2 * 2 + 3 * 3 + 4 * 4)


RNG = np.random.default_rng(5)
BITS = RNG.integers(0, 2, (12, 30)).astype(float)
FAINT = np.diag([1.0, 1e-3, 1e-8, 1e-12])
WELL = {
    "prefix sums": np.tri(20),
    "wide": BITS,
    "tall": BITS.T,
    "of low rank": BITS.T @ BITS,
    "repeated rows": np.repeat(BITS, 2, axis=0),
    "one row": np.ones((1, 4)),
    "huge": 1e9 * BITS,
}
ILL = {"faint": FAINT, "Hilbert": linalg.hilbert(8), "faint and wide": FAINT @ BITS[:4]}


@pytest.mark.parametrize("name", WELL | ILL)
def test_laws(name: str) -> None:
    rows = (WELL | ILL)[name]
    factor = factor_of_rows(rows)
    largest = np.linalg.norm(rows, 2)
    assert len(factor) == np.linalg.matrix_rank(rows)
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, atol=1e-12 * largest**2)
    inner = factor @ factor.T
    assert np.abs(inner - np.diag(np.diag(inner))).max() <= 1e-12 * largest**2
    assert (np.diff(np.diag(inner)) <= 1e-12 * largest**2).all()
    inside = np.linalg.lstsq(factor.T, rows.T, rcond=1e-15)[0]
    assert np.linalg.norm(rows - inside.T @ factor) <= 1e-12 * largest


@pytest.mark.parametrize("name", WELL | ILL)
def test_singular_values_are_taken_only_where_the_gram_would_lose_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Array] = []
    known = determining_rows.singular_values

    def counted(matrix: Array) -> tuple[Array, Array]:
        asked.append(matrix)
        return known(matrix)

    monkeypatch.setattr(determining_rows, "singular_values", counted)
    factor_of_rows((WELL | ILL)[name])
    assert len(asked) == (name in ILL)


def test_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        factor_of_rows(np.array([[1.0, np.inf]]))
