"""Answers of other tools: usable as a release is, and never private by our word."""

import numpy as np
import pytest
from scipy import io, sparse

import strategies
from mrf_matrix import (
    ZCDP,
    Domain,
    PureDP,
    RandomTrees,
    expected_error,
    from_release,
    load_dataset,
    measure,
    path_matrix,
    reconstruct,
    save_release,
)
from mrf_matrix.files import ReleaseFileError
from mrf_matrix.mechanisms import NEIGHBORING, claimed_release, count_cells, row_variances
from mrf_matrix.reconstruction import combine
from strategies.operators import Identity

RANDOM = np.random.default_rng(0)
MATRICES = {
    "prefix sums": np.tri(6),
    "reals": RANDOM.normal(size=(9, 6)),
    "large": 1e6 * RANDOM.normal(size=(7, 6)),
    "tiny": 1e-6 * np.tri(6),
    "sparse": sparse.csr_array(np.eye(6)[:4]),
    "few rows": RANDOM.normal(size=(3, 6)),
}
BUDGETS = [PureDP(0.5), PureDP(40), ZCDP(0.1), PureDP(float("inf"))]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("name", MATRICES)
def test_least_squares_and_its_errors_are_those_of_numpy(name, budget):
    given = MATRICES[name]
    A = given.toarray() if sparse.issparse(given) else given
    y = A @ RANDOM.integers(0, 1000, size=(6, 2)) + np.abs(A).max() * RANDOM.normal(
        size=(len(A), 2)
    )
    taken = claimed_release(given, y, budget)
    W = RANDOM.normal(size=(4, len(A))) @ A
    back = W @ np.linalg.pinv(A)
    np.testing.assert_allclose(reconstruct(taken, W), back @ y, rtol=1e-5, atol=1e-6 * abs(y).max())
    scale = 0.0
    if not budget.is_infinite:
        norm = (
            np.abs(A).sum(axis=0).max() if budget.norm == "l1" else np.linalg.norm(A, axis=0).max()
        )
        amount = float(budget.amount)
        scale = 2 * norm**2 / amount**2 if budget.norm == "l1" else norm**2 / (2 * amount)
    expected = scale * (back**2).sum(axis=1)
    np.testing.assert_allclose(row_variances(taken, W), expected, rtol=1e-4)


@pytest.mark.parametrize("relation", NEIGHBORING)
def test_our_own_answers_come_back_as_the_claim_of_another(relation):
    counts = count_cells(np.array([[0], [2], [2]]), np.array([0, 1, 1]), sizes=(3,), n_classes=2)
    A, W = np.tri(3), np.eye(3)
    own = measure(A, counts, PureDP(1), neighboring=relation)
    taken = claimed_release(A, own.values, PureDP(1), neighboring=relation)
    np.testing.assert_allclose(reconstruct(taken, W), reconstruct(own, W), atol=1e-6)
    # continuous noise has a little more variance than what was drawn of integers
    np.testing.assert_allclose(row_variances(taken, W), row_variances(own, W), rtol=0.01)
    assert own.is_private
    assert not taken.is_private


def test_it_is_never_private_and_says_who_made_it():
    taken = claimed_release(np.tri(3), [1.0, 2.5, 4.0], PureDP(1), made_by="HDMM 1.0")
    assert taken.noise == "claimed"
    assert not taken.claim.is_private
    for text in (str(taken), repr(taken), taken._repr_html_(), taken.statement):
        assert "HDMM 1.0" in text
        assert "unverified" in text
        assert "Private release" not in text
    assert taken.measured is None
    assert "HDMM 1.0" in repr(combine(taken, np.eye(3)))
    exact = claimed_release(np.tri(3), [1, 2, 4], PureDP(float("inf")))
    assert exact.statement.startswith("NOT A PRIVATE RELEASE")


def test_it_is_not_written_as_a_release_of_ours(tmp_path):
    domain = Domain.from_sizes([3], n_classes=1)
    taken = claimed_release(np.eye(3), [1.0, 2.0, 3.0], PureDP(1), domain=domain)
    with pytest.raises((ReleaseFileError, ValueError), match="Laplace noise"):
        save_release(taken, tmp_path / "a.release", domain)


def test_a_forest_is_had_of_it():
    car = load_dataset("car")
    counts = count_cells(car.codes, car.labels, car.domain.sizes, 4)
    forest = RandomTrees(8, 2).grow(car.domain, random_state=0)
    T = path_matrix(forest)
    A = strategies.select(T, method="identity")
    own = measure(A, counts, PureDP(1), noise="research", random_state=0)
    taken = claimed_release(A, own.values, PureDP(1), domain=car.domain, made_by="a study")
    model = from_release(taken, forest=forest, voting="hard")
    same = from_release(own, car.domain, forest=forest, voting="hard")
    assert (model.predict(car.X) == same.predict(car.X)).all()
    statement = model.privacy_report_.statement
    assert "a study" in statement
    assert "Private release" not in statement
    known = expected_error(A, T, epsilon=1).row_variances
    np.testing.assert_allclose(row_variances(taken, T), known, rtol=0.1)  # of integers: 8 % less


ENDINGS = ["A.npz", "A.npy", "A.mtx", "A.csv"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_other_tools_are_read_and_ours_are_written(tmp_path, ending):
    A, y = np.tri(4), np.array([[1.5, 0.0], [2.0, -1.0], [7.25, 3.0], [8.0, 3.5]])
    strategies.save(A, tmp_path / ending)
    strategies.save(y, tmp_path / ending.replace("A", "y"))
    taken = claimed_release(tmp_path / ending, str(tmp_path / ending.replace("A", "y")), PureDP(1))
    np.testing.assert_allclose(taken.values, y, atol=1e-7)
    np.testing.assert_array_equal(np.asarray(strategies.load(tmp_path / ending)), A)


def test_files_as_other_tools_write_them(tmp_path):
    y = [1.5, 2.0, 7.25]
    np.savetxt(tmp_path / "y.csv", [y], delimiter=",")  # in one line
    np.savez(tmp_path / "A.npz", A=np.eye(3))
    io.mmwrite(tmp_path / "y.mtx", np.array([y]).T)
    for name in ("y.csv", "y.mtx"):
        taken = claimed_release(tmp_path / "A.npz", tmp_path / name, PureDP(1))
        np.testing.assert_allclose(taken.values.ravel(), y, atol=1e-7)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"answers": [1.0, 2.0]}, ValueError, "row for each row"),
        ({"answers": [1.0, np.nan, 2.0]}, ValueError, "finite"),
        ({"answers": ["a", "b", "c"]}, TypeError, "real numbers"),
        ({"answers": np.zeros((3, 0))}, ValueError, "row for each row"),
        ({"matrix": np.zeros((3, 3))}, ValueError, "all zeros"),
        ({"budget": 1.0}, TypeError, "budget"),
        ({"neighboring": "next"}, ValueError, "neighboring"),
        ({"domain": Domain.from_sizes([2, 2])}, ValueError, "sizes"),
        ({"made_by": "two\nlines"}, ValueError, "one line"),
        ({"matrix": "nowhere.npz"}, FileNotFoundError, "no file"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(changes, error, said):
    given = {"matrix": np.eye(3), "answers": [1.0, 2.0, 3.0], "budget": PureDP(1)} | changes
    with pytest.raises(error, match=said):
        claimed_release(given.pop("matrix"), given.pop("answers"), given.pop("budget"), **given)


def test_answers_of_any_size_fit_the_lattice():
    for largest in (0.0, 1e-9, 1.0, 1e9, 1e15):
        taken = claimed_release(Identity(2), [largest, -largest], PureDP(1))
        np.testing.assert_allclose(taken.values.ravel(), [largest, -largest], rtol=1e-9, atol=1e-8)
    with pytest.raises((OverflowError, ValueError)):
        claimed_release(Identity(2), [1e300, 0.0], PureDP(1))


def test_a_matrix_of_reals_is_not_called_one_of_integers():
    taken = claimed_release(0.5 * np.eye(3), np.ones(3), PureDP(1))
    assert "strategy               from elsewhere, 3 rows over 3 cells" in str(taken)
