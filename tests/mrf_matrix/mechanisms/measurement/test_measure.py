"""Measuring: exact answers plus the promised noise, of counts alone, and only what is answered."""

import pickle
import subprocess
import sys
from dataclasses import fields, is_dataclass
from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix import PrivacyLedger, privacy_ledger
from mrf_matrix.mechanisms import (
    NEIGHBORING,
    ZCDP,
    BudgetError,
    CellCounts,
    NoiseProcessError,
    PureDP,
    Release,
    as_budget,
    calibrate,
    count_cells,
    measure,
    reconstruct,
    row_variances,
)
from strategies import evaluate
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    RowKronecker,
    RowScaled,
    RowSpaceError,
    Scaled,
    Sparse,
    Stack,
    memory_cap,
)

SIZES = (3, 4)
SEED = 987654321


def private_counts(n=200, k=2, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, n) for size in SIZES], axis=1)
    return count_cells(codes, rng.integers(0, k, n), SIZES, k)


COUNTS = private_counts()
PATHS = RowKronecker.from_masks(
    [np.repeat(np.eye(3, dtype=bool), 2, axis=0), np.array([[1, 1, 0, 0], [0, 0, 1, 1]] * 3)],
    groups=np.zeros(6, dtype=int),
)
TRUTH = COUNTS.answers(PATHS)
BUDGETS = [PureDP(1), ZCDP(0.5)]
STRATEGIES = {"identity": Identity(12, SIZES), "workload": PATHS}


@pytest.mark.parametrize("noise", ["exact", "research"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", STRATEGIES)
def test_release_states_what_it_is(name, budget, noise):
    release = measure(STRATEGIES[name], COUNTS, budget, noise=noise, neighboring="replace_one")
    assert release.answers.dtype == np.int64
    assert release.answers.shape == (STRATEGIES[name].shape[0], 2)
    assert release.sizes == SIZES
    assert release.n_classes == 2
    assert release.is_private == (noise == "exact")
    assert release.budget == budget
    text = repr(release)
    assert repr(budget) in text
    assert "replace_one" in text
    assert ("NOT A PRIVATE RELEASE" in text) == (noise == "research")
    assert ("exact" in text) == (noise == "exact")
    assert ("research" in text) == (noise == "research")


@pytest.mark.parametrize("kind", [PureDP, ZCDP])
@pytest.mark.parametrize("noise", ["exact", "research"])
@pytest.mark.parametrize("name", STRATEGIES)
def test_infinite_budget_equals_the_exact_counts(name, noise, kind):
    release = measure(STRATEGIES[name], COUNTS, kind(inf), noise=noise)
    assert release.noise == "none"
    assert not release.is_private
    assert "NOT A PRIVATE RELEASE: no noise" in repr(release)
    assert release.noise_scale == release.variance == 0
    estimates = reconstruct(release, PATHS)
    assert estimates.dtype == np.float64
    assert np.array_equal(estimates, TRUTH)


def test_noise_of_a_calibrated_mechanism():
    mechanism = calibrate(PATHS, PureDP(0.5), neighboring="replace_one")
    release = measure(mechanism, COUNTS)
    assert release.mechanism is mechanism
    assert mechanism.rounded.column_sum == 1
    assert (release.sensitivity, release.noise_scale) == (2.0, 4)  # replaced: twice the norm
    with pytest.raises(ValueError, match="calibrated to"):
        measure(mechanism, COUNTS, PureDP(1))


def test_calibration():
    def scale(matrix, budget, neighboring):
        return calibrate(matrix, budget, neighboring=neighboring).law.scale

    tall = np.vstack([np.eye(12)] * 4)
    assert scale(tall, PureDP(0.5), "add_remove") == 8
    assert scale(tall, PureDP(0.5), "replace_one") == 16
    assert scale(tall, ZCDP(2), "add_remove") == 1  # σ² = 4 / (2 ρ)
    assert scale(tall, ZCDP(4), "replace_one") == 1  # twice that: no entry is negative
    assert scale(-tall, ZCDP(8), "replace_one") == 1  # four times: entries are negative


@pytest.mark.parametrize("neighboring", NEIGHBORING)
@pytest.mark.parametrize("budget", [PureDP, ZCDP])
def test_noise_grows_with_sensitivity_and_falls_with_budget(budget, neighboring):
    def variance(amount, copies):
        stacked = np.vstack([np.eye(12)] * copies)
        return calibrate(stacked, budget(amount), neighboring=neighboring).law.variance

    for copies in (1, 2, 5):
        falling = [variance(amount, copies) for amount in (0.1, 0.5, 1, 2, 4)]
        assert falling == sorted(falling, reverse=True)
        assert variance(0.5, copies) < variance(0.5, copies + 1)


def test_research_noise_is_reproducible_and_exact_noise_is_not():
    def answers(**options):
        return measure(PATHS, COUNTS, PureDP(0.01), **options).answers

    seeded = [answers(noise="research", random_state=SEED) for _ in range(2)]
    assert np.array_equal(*seeded)
    assert not np.array_equal(seeded[0], answers(noise="research", random_state=1))
    assert not np.array_equal(answers(noise="research"), answers(noise="research"))
    generator = np.random.default_rng(SEED)
    assert np.array_equal(answers(noise="research", random_state=generator), seeded[0])
    np.random.seed(0)  # noqa: NPY002 - the legacy state must not matter either
    first = answers()
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, answers())


def test_noise_is_independent_across_calls_and_classes():
    counts = private_counts(k=3)
    tall = np.vstack([np.eye(12)] * 50)
    releases = [measure(tall, counts, PureDP(1)) for _ in range(2)]
    noise = np.hstack([r.answers - counts.answers(r.matrix) for r in releases])
    correlation = np.corrcoef(noise.T)[np.triu_indices(6, 1)]
    assert np.abs(correlation).max() < 7 / np.sqrt(600)


def members(root):
    """Walk everything reachable from an object, through containers and attributes."""
    seen, queue = set(), [root]
    while queue:
        value = queue.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            queue += [*value, *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            queue += list(value)
        elif isinstance(value, np.ndarray):
            queue += [] if value.base is None else [value.base]
        else:
            queue += list(vars(value).values()) if hasattr(value, "__dict__") else []
            queue += [getattr(value, f.name) for f in fields(value)] if is_dataclass(value) else []


@pytest.mark.parametrize("name", STRATEGIES)
def test_releases_hold_no_seed_and_no_counts(name):
    generator = np.random.default_rng(SEED)
    for state in (SEED, generator):
        release = measure(
            STRATEGIES[name], COUNTS, PureDP(0.01), noise="research", random_state=state
        )
        reconstruct(release, PATHS)
        random = (np.random.Generator, np.random.BitGenerator, np.random.SeedSequence)
        exact = COUNTS.answers(release.matrix)
        for value in members(release):
            assert not isinstance(value, (*random, np.random.RandomState, CellCounts))
            assert not (isinstance(value, int) and value == SEED)
            if isinstance(value, np.ndarray) and value.shape == exact.shape:
                assert not np.array_equal(value, exact)
            assert value is not COUNTS.counts
            assert value is not COUNTS.codes


def test_the_walk_finds_a_planted_seed():
    release = measure(PATHS, COUNTS, PureDP(1), noise="research", random_state=0)
    object.__setattr__(release, "note", {"state": [np.random.default_rng(0)]})
    assert any(isinstance(value, np.random.Generator) for value in members(release))


def test_releases_travel():
    release = measure(PATHS, COUNTS, PureDP(1))
    copied = pickle.loads(pickle.dumps(release))
    assert np.array_equal(copied.answers, release.answers)
    assert repr(copied) == repr(release)


def test_releases_are_frozen():
    release = measure(PATHS, COUNTS, PureDP(1))
    with pytest.raises(AttributeError):
        release.noise = "exact"
    with pytest.raises(ValueError, match="read-only"):
        release.answers[0, 0] = 0


@pytest.mark.parametrize(
    ("answers", "noise", "error"),
    [
        (np.zeros((6, 2)), "exact", TypeError),
        (np.zeros((5, 2), dtype=np.int64), "exact", ValueError),
        (np.zeros(6, dtype=np.int64), "exact", ValueError),
        (np.zeros((6, 2), dtype=np.int64), "secret", ValueError),
    ],
)
def test_impossible_releases(answers, noise, error):
    with pytest.raises(error, match=r"answers|noise"):
        Release(calibrate(PATHS, PureDP(1)), answers, noise, SIZES)


GOOD = {"strategy": PATHS, "counts": COUNTS, "budget": PureDP(1)}
L2 = evaluate(PATHS, PATHS, norm="l2")
BAD = {
    "float budget": ({"budget": 1.0}, TypeError, "PureDP"),
    "no budget": ({"budget": None}, TypeError, "PureDP"),
    "text budget": ({"budget": "1"}, TypeError, "PureDP"),
    "unknown noise": ({"noise": "gaussian"}, ValueError, "exact"),
    "no noise": ({"noise": None}, ValueError, "exact"),
    "array as noise": ({"noise": 3}, ValueError, "exact"),
    "seeded exact noise": ({"random_state": 0}, ValueError, "never seedable"),
    "seeded exact no noise": ({"random_state": 0, "budget": PureDP(inf)}, ValueError, "seedable"),
    "bad seed": (
        {"noise": "research", "random_state": "x"},
        (TypeError, ValueError),
        "random_state",
    ),
    "negative seed": ({"noise": "research", "random_state": -1}, ValueError, "random_state=-1"),
    "unknown neighbours": ({"neighboring": "bounded"}, ValueError, "neighboring"),
    "wrong norm": ({"strategy": L2}, ValueError, "norm='l1'"),
    "raw table": ({"counts": np.ones((12, 2))}, TypeError, "count_cells"),
    "other domain": ({"strategy": np.eye(5)}, ValueError, "expected 12"),
    "zero strategy": ({"strategy": np.zeros((2, 12))}, ValueError, "all zeros"),
    "nan strategy": ({"strategy": np.full((2, 12), nan)}, ValueError, "NaN"),
    "text strategy": ({"strategy": "identity"}, (TypeError, ValueError), "strategy"),
    "complex strategy": ({"strategy": np.eye(12) * 1j}, TypeError, "real"),
    "flat strategy": ({"strategy": np.ones(12)}, ValueError, "dimensions"),
    "empty strategy": ({"strategy": np.ones((0, 12))}, ValueError, "at least one row"),
    "unanswerable": ({"workload": np.eye(12)}, RowSpaceError, "rows 0, 1"),
    "workload of other cells": ({"workload": np.eye(5)}, ValueError, "5 columns"),
    "faint rows": (
        {"strategy": Marginals(SIZES, [(0,), (0, 1)], [1, 1e-14])},
        RowSpaceError,
        "too faint",
    ),
    "tiny budget": ({"budget": PureDP(1e-30)}, ValueError, "larger budget"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_before_anything_is_read(case, monkeypatch):
    change, error, message = BAD[case]

    def must_not_happen(*_):
        raise AssertionError("data was touched")

    monkeypatch.setattr(CellCounts, "answers", must_not_happen)
    with pytest.raises(error, match=message):
        measure(**{**GOOD, **change})


def test_faint_rows_that_are_not_needed():
    faint = Marginals(SIZES, [(0,), (0, 1)], [1, 1e-14])
    totals = RowKronecker.from_masks([np.eye(3, dtype=bool), np.ones((3, 4), dtype=bool)])
    release = measure(faint, COUNTS, PureDP(inf), workload=totals)
    assert np.array_equal(reconstruct(release, totals), COUNTS.answers(totals))
    with pytest.raises(RowSpaceError):
        measure(faint, COUNTS, PureDP(1), workload=PATHS)
    with pytest.raises(RowSpaceError):
        reconstruct(release, PATHS)


@pytest.mark.parametrize("epsilon", [0, -1, nan, "1", None, True])
def test_wrong_epsilon(epsilon):
    with pytest.raises((BudgetError, TypeError)):
        measure(PATHS, COUNTS, as_budget(epsilon=epsilon))


def test_no_record_is_a_data_set():
    """The neighbour of a single record: refusing it would tell the two apart."""
    empty = count_cells(np.zeros((0, 2), dtype=int), np.zeros(0, dtype=int), SIZES, 2)
    assert measure(PATHS, empty, PureDP(1)).answers.shape == (6, 2)
    assert not measure(PATHS, empty, PureDP(inf)).answers.any()


WORKER = """
import multiprocessing, os, sys
import numpy as np
from mrf_matrix.mechanisms import NoiseProcessError, PureDP, count_cells, measure

counts = count_cells(np.array([[0], [1]]), np.array([0, 0]), (2,), 1)

def attempt(noise):
    try:
        return repr(measure(np.eye(2), counts, PureDP(1), noise=noise))
    except NoiseProcessError as error:
        return "refused: " + str(error)

print("parent", attempt("exact"))
with multiprocessing.get_context("fork").Pool(1) as pool:
    print("pool", pool.apply(attempt, ("exact",)))
    print("study", pool.apply(attempt, ("research",)))
sys.stdout.flush()
if os.fork() == 0:
    print("fork", attempt("exact"))
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_exact_noise_is_drawn_in_the_parent_only():
    done = subprocess.run(
        [sys.executable, "-c", WORKER], capture_output=True, text=True, check=True, timeout=120
    )
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert said["parent"].startswith("Release")
    assert said["study"].startswith("Release")
    assert said["pool"].startswith("refused: noise='exact' in a worker process")
    assert said["fork"].startswith("refused")


def test_the_guard_in_this_process(monkeypatch):
    monkeypatch.setattr("multiprocessing.parent_process", lambda: object())
    with pytest.raises(NoiseProcessError, match="n_jobs=1"):
        measure(PATHS, COUNTS, PureDP(1))
    measure(PATHS, COUNTS, PureDP(1), noise="research")


def test_importing_is_light():
    code = "import sys, mrf_matrix.mechanisms, mrf_matrix.planning; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"opendp", "dp_accounting", "sklearn", "cvxpy"})


def test_memory_is_that_of_the_answers():
    """A tall strategy: 300 rows over 3 cells."""
    mechanism = calibrate(np.vstack([np.eye(3)] * 100), PureDP(1))
    with memory_cap(300 * 2 * 8):
        mechanism.check_memory(2)
        with pytest.raises(MemoryCapError, match="answers of the strategy"):
            mechanism.check_memory(3)


# Rows that rounding loses ------------------------------------------------------------------------


TWO_CELLS = count_cells(np.array([[0], [1], [1]]), np.zeros(3, int), (2,), 1)
FAINT = np.diag([1.0, 1e-10])
FORMS = {
    "array": FAINT,
    "sparse": sparse.csr_array(FAINT),
    "Dense": Dense(FAINT),
    "Sparse": Sparse(sparse.csr_array(FAINT)),
    "RowScaled": RowScaled(np.diag(FAINT), Identity(2)),
    "Kronecker": Kronecker([Dense(FAINT)]),
    "Scaled": Scaled(3.0, Dense(FAINT)),
    "Stack": Stack([Dense(FAINT[:1]), Dense(FAINT[1:])]),
}
FAINT_BUDGETS = [PureDP(float("inf")), PureDP(1), ZCDP(Fraction(1, 2))]


@pytest.mark.parametrize("budget", FAINT_BUDGETS, ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_is_rounded_to_zero_is_not_paid_for(form, budget):
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises(RowSpaceError, match="too faint"), privacy_ledger(ledger):
        measure(FORMS[form], TWO_CELLS, budget)
    assert not ledger.charges
    with pytest.raises(RowSpaceError, match="rows 0"):
        calibrate(FORMS[form], budget, workload=[[0.0, 1.0]])
    kept = calibrate(FORMS[form], budget, workload=[[1.0, 0.0]])
    with pytest.raises(RowSpaceError, match="rows 0"):
        row_variances(measure(kept, TWO_CELLS, budget), [[0.0, 1.0]])


def test_a_direction_that_is_rounded_away_is_not_answered():
    release = measure(np.array([[1, 1e-10], [1, -1e-10]]), TWO_CELLS, PureDP(float("inf")))
    np.testing.assert_allclose(reconstruct(release, [[1.0, 0.0]]), [[1.0]], rtol=1e-6)
    for ask in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match="rows 0"):
            ask(release, [[0.0, 1.0]])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("budget", FAINT_BUDGETS, ids=repr)
def test_what_is_measured_is_free_of_scale(scale, budget):
    strategy = np.array([[1.0, 0.5], [0.0, 0.3]])
    one, other = calibrate(strategy, budget), calibrate(scale * strategy, budget)
    both = [row_variances(measure(of, TWO_CELLS, budget), np.eye(2)) for of in (one, other)]
    np.testing.assert_allclose(*both, rtol=1e-6)
    assert other.sensitivity == pytest.approx(scale * one.sensitivity, rel=1e-6)
    exact = measure(scale * strategy, TWO_CELLS, PureDP(float("inf")))
    np.testing.assert_allclose(reconstruct(exact, np.eye(2)), [[1.0], [2.0]], rtol=1e-6)
