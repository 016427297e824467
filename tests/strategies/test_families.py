"""Families × laws: what every family promises on every kind of workload, by public names alone."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from strategies import Family, Strategy, evaluate, select
from strategies.operators import Grouping, Identity, Product, RowKronecker, Sparse, memory_cap
from tests.strategies.workloads import (
    NORMS,
    PREFIX,
    RANGES,
    WORKLOADS,
    definition,
    paths,
    prediction,
    trees,
)

FAMILIES: dict[str, Family] = {name: getattr(strategies, name)() for name in strategies.families()}
BRIEF = {"random_state": 0, "time_limit": 0.01}


def found(name: str, workload: object, norm: str = "l1", **options: object) -> Strategy | None:
    """Return what a family finds, None where it cannot serve and says so by name."""
    try:
        return select(workload, norm, method=name, **(BRIEF | options))
    except ValueError as refusal:
        if f"method={name!r} cannot serve" not in str(refusal):
            raise
        return None


# Laws -----------------------------------------------------------------------------------------


AGAIN = ("prefix sums", "marginals", "trees", "prediction", "both ways", "low rank")
"""Workloads of which a family is asked twice: each family serves one of them."""


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("kind", WORKLOADS)
def test_what_a_family_finds_is_what_it_says(kind: str, name: str) -> None:
    """Loss and sensitivity of the definition, above the bound, the same again; its name noted."""
    workload = WORKLOADS[kind]()
    rows = workload.to_dense()
    for norm in NORMS:
        one = found(name, workload, norm)
        assert one is not None or name != "identity"
        if one is None:
            continue
        assert norm in FAMILIES[name].norms
        assert (one.method, one.norm) == (name, norm)
        assert [candidate.family for candidate in one.candidates] == [name]
        matrix = one.matrix.to_dense()
        assert one.loss == pytest.approx(definition(rows, matrix, norm), rel=1e-6)
        columns = np.linalg.norm(matrix, ord=1 if norm == "l1" else 2, axis=0)
        assert one.sensitivity == pytest.approx(columns.max(), rel=1e-9)
        assert one.row_errors(workload).sum() == pytest.approx(one.loss, rel=1e-6)
        assert 0 < one.lower_bound <= one.loss * (1 + 1e-9)
        if kind in AGAIN and (norm == "l1" or "l1" not in FAMILIES[name].norms):
            again = found(name, workload, norm)
            assert again is not None
            assert np.array_equal(again.matrix.to_dense(), matrix)


NEVER_ABOVE_THE_IDENTITY = ("identity", "p_identity", "ordered_cells", "marginals", "boxes")


@pytest.mark.parametrize("name", NEVER_ABOVE_THE_IDENTITY)
@given(
    q=st.integers(1, 6), n=st.integers(2, 7), rank=st.integers(1, 4), seed=st.integers(0, 2**32 - 1)
)
def test_some_are_never_above_the_identity(name: str, q: int, n: int, rank: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = random.integers(-2, 3, (q, rank)) @ random.integers(-2, 3, (rank, n))
    one = found(name, rows.astype(float)) if rows.any() else None
    if one is not None:
        assert one.lower_bound * (1 - 1e-9) <= one.loss <= np.sum(rows**2) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["p_identity", "free_entries", "marginals", "row_space"])
def test_a_longer_search_is_not_worse(name: str) -> None:
    workload = WORKLOADS["paths"]() if name == "marginals" else prediction((3, 3, 4), 60, 5, 1)
    losses = [found(name, workload, time_limit=limit).loss for limit in (0.02, 0.3)]
    assert losses[1] <= losses[0] * (1 + 1e-6)


# What each must reach -------------------------------------------------------------------------

THREE_SIGNS = np.array([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1]])
SHALLOW = trees((2,) * 60, 40, 2, 0)
REACHED: dict[tuple[str, str, str], tuple[Callable[[], object], float]] = {
    ("p_identity", "l1", "prefix sums"): (lambda: PREFIX(64), 907),
    ("p_identity", "l1", "ranges"): (lambda: RANGES(64), 32_090),
    ("p_identity", "l1", "prediction"): (lambda: prediction((3, 4, 3), 90, 5, 3), 4_090),
    ("row_space", "l1", "rank 2"): (
        lambda: np.random.default_rng(5).random((4, 2)) @ np.random.default_rng(6).random((2, 60)),
        4.0,
    ),
    ("free_entries", "l1", "ranges"): (lambda: RANGES(12), 364.0 * (1 + 1e-6)),
    ("workload_itself", "l1", "rows asked 8, 1 and 27 times"): (
        lambda: np.repeat(THREE_SIGNS, [8, 1, 27], axis=0), 6.0**3 * (1 + 1e-6),
    ),
    ("workload_itself", "l2", "rows asked 16, 1 and 81 times"): (
        lambda: np.repeat(THREE_SIGNS, [16, 1, 81], axis=0), 14.0**2 * (1 + 1e-6),
    ),
    ("common_refinement", "l1", "shallow trees over 2^60 cells"): (lambda: SHALLOW, 115_200),
    ("common_refinement", "l2", "shallow trees over 2^60 cells"): (lambda: SHALLOW, 4_241),
    ("marginals", "l1", "trees over 10^7 cells"): (
        lambda: trees((5, 2, 4, 5, 5, 2, 3, 5, 2, 5, 3, 4, 3), 48, 2, 0), 7.46e5,
    ),
    ("product_marginals", "l1", "both ways"): (WORKLOADS["both ways"], 110.6),
    ("weighted_kronecker", "l2", "both ways"): (WORKLOADS["both ways"], 85.1),
}  # fmt: skip
"""Losses to reach in a second: those of descents that go down, of closed forms where known."""


@pytest.mark.parametrize(("name", "norm", "kind"), REACHED)
def test_what_it_reaches(name: str, norm: str, kind: str) -> None:
    make, most = REACHED[name, norm, kind]
    one = found(name, make(), norm, time_limit=1.0)
    assert one is not None
    assert one.loss <= most


# The cells, and the workload's own rows -------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_merged_cells_cost_less(norm: str) -> None:
    workload = np.array([[1.0, 1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 1.0]])
    one = select(workload, norm, method="identity")
    assert isinstance(one.matrix, Grouping)
    assert one.matrix.shape == (2, 4)
    assert (one.sensitivity, one.loss) == (1.0, 1.0 + 4.0 + 1.0)
    assert evaluate(workload, np.eye(4), norm).loss == 3.0 + 4.0 + 1.0
    assert one.row_errors(workload) == pytest.approx([5.0, 1.0])
    assert isinstance(select(np.tri(5), norm, method="identity").matrix, Identity)


def test_cells_of_huge_domains() -> None:
    one = select(RowKronecker.from_masks([np.eye(2, dtype=bool)] * 90), method="identity")
    assert one.matrix.shape == (2**90, 2**90)
    assert one.matrix.sizes == (2,) * 90
    assert one.loss == 2.0


def test_own_rows_stand_once_and_none_are_zeros() -> None:
    rows = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1.0, 2.0, -0.0], [0.0, 0.0, 5.0]])
    for form in (rows, Sparse(rows)):
        one = select(form, method="workload_itself")
        assert one.matrix.shape == (2, 3)
        assert 33.0 <= one.loss < 33.1  # 2 rows at weight 1/2, one at 1/5: no cell is in both


@given(seed=st.integers(0, 2**32 - 1), norm=st.sampled_from(NORMS))
def test_weights_of_own_rows_are_not_above_the_law_of_their_numbers(seed: int, norm: str) -> None:
    random = np.random.default_rng(seed)
    rows, counts = random.normal(size=(4, 6)), random.integers(1, 9, size=4)
    workload = np.repeat(rows, counts, axis=0)
    law = counts[:, None] ** (1 / 3 if norm == "l1" else 1 / 4) * rows
    one = select(workload, norm, method="workload_itself")
    assert one.loss <= evaluate(workload, law, norm).loss * (1 + 1e-9)


def test_own_rows_of_domains_too_large_to_enumerate() -> None:
    once = paths((2,) * 8 + (1,) * 4, 12, 2)
    doubled = once.take_rows(np.r_[np.arange(12), [0, 0]])
    small = select(doubled, method="workload_itself")
    with memory_cap(2**13):
        large = select(doubled, method="workload_itself", time_limit=1.0)
        assert large.loss >= small.loss * (1 - 1e-9)
        votes = Product(Sparse(np.ones((1, 14))), doubled)
        assert select(votes, method="workload_itself").loss > 0


# Trees refined together -----------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from(NORMS), st.sampled_from([0.0, 0.2]))
def test_refined_trees_answer_as_their_matrix_says(seed: int, norm: str, dropped: float) -> None:
    """Trees that lack leaves are no partitions, and stay alone."""
    workload = trees((2,) * 11, 3, 2, seed, dropped)
    one = found("common_refinement", workload, norm)
    assert one is not None
    merged, place = np.unique(workload.to_dense(), axis=1, return_index=True)
    columns = one.matrix.to_dense()
    assert one.loss == pytest.approx(definition(workload.to_dense(), columns, norm), rel=1e-6)
    assert len(place) == merged.shape[1]


@pytest.mark.parametrize("norm", NORMS)
def test_boxes_of_one_partition_weigh_alike(norm: str) -> None:
    matrix = found("common_refinement", SHALLOW, norm).matrix
    groups = matrix.inner.groups
    weights = np.array([np.unique(matrix.weights[groups == g]).item() for g in np.unique(groups)])
    assert matrix.sensitivity(norm) == pytest.approx(np.linalg.norm(weights, int(norm[1])))


@pytest.mark.parametrize(
    "workload",
    [
        trees((2, 3, 2, 2), 3, 2, 0),  # few cells: the Identity
        RowKronecker.from_masks(trees((2,) * 14, 3, 2, 0).all_masks()),  # of no trees
        np.eye(3),
    ],
)
def test_what_is_no_forest_is_not_refined(workload: object) -> None:
    assert found("common_refinement", workload) is None


# Polishing ------------------------------------------------------------------------------------


def test_free_entries_improve_on_what_others_found() -> None:
    for start in (strategies.wavelet(), strategies.tree(branching=2, weighted=False)):
        both = select(PREFIX(12), method=(start, "free_entries"), random_state=0, time_limit=0.3)
        losses = {one.family: one.loss for one in both.candidates}
        assert losses["free_entries"] < 0.95 * losses[start.name]


def test_without_work_a_start_stays_what_it_is() -> None:
    both = select(np.tri(5), method=("tree", "free_entries"), random_state=0, time_limit=1e-9)
    assert {one.family: one.loss for one in both.candidates}["tree"] == both.loss
