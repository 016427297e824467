"""Measuring: exact answers plus the promised noise, of counts alone, and only what is answered."""

import pickle
import subprocess
import sys
from dataclasses import fields, is_dataclass, replace
from datetime import date
from fractions import Fraction
from html.parser import HTMLParser
from importlib.metadata import version
from math import inf, nan

import numpy as np
import pytest
from scipy import sparse

from mrf_matrix import Attribute, Domain, PrivacyLedger, privacy_ledger
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    NoiseProcessError,
    PureDP,
    Release,
    calibrate,
    count_cells,
    measure,
    reconstruct,
    row_variances,
)
from strategies import evaluate
from strategies.operators import (
    Dense,
    Gram,
    Grouping,
    Identity,
    Kronecker,
    Marginals,
    MemoryCapError,
    Product,
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


# What a release says ------------------------------------------------------------------------------

RELEASE_SIZES = (2, 3)
RNG = np.random.default_rng(11)
RELEASE_PATHS = RowKronecker.from_masks([RNG.random((7, 2)) < 0.7, RNG.random((7, 3)) < 0.7])
GROUPS = Grouping([0, 1, 0, 2, 3, 2], RELEASE_SIZES)
RELEASE_STRATEGIES = {
    "identity": Identity(6, RELEASE_SIZES),
    "dense": Dense(RNG.normal(size=(8, 6))),
    "deficient reals": Dense(RNG.normal(size=(8, 3)) @ RNG.integers(-2, 3, (3, 6))),
    "marginals": Marginals(RELEASE_SIZES, [(0,), (1,)], [0.3, 0.7]),
    "lifted": Product(Dense(RNG.normal(size=(5, 4))), GROUPS),
    "kronecker": Kronecker([Dense(RNG.random((3, 2))), Dense(RNG.random((4, 3)))]),
    "stack": Stack([Scaled(0.4, Identity(6, RELEASE_SIZES)), Scaled(0.6, RELEASE_PATHS)]),
}
DOMAIN = Domain(
    [Attribute("a<b>", size=2), Attribute("c", size=3)], Attribute("y & z", categories=["n", "p"])
)


def counts(sizes=RELEASE_SIZES, n=200):
    codes = np.stack([RNG.integers(0, size, n) for size in sizes], axis=1)
    return count_cells(codes, RNG.integers(0, 2, n), sizes, 2)


def released(strategy=RELEASE_PATHS, budget=None, **options):
    options = {"noise": "research", "random_state": 0, **options}
    return measure(strategy, counts(), budget or PureDP(1), **options)


def test_without_noise_there_is_no_error_but_still_a_row_space():
    release = measure(RELEASE_STRATEGIES["marginals"], counts(), PureDP(inf))
    assert not row_variances(release, [[1, 1, 1, 0, 0, 0]]).any()
    with pytest.raises(RowSpaceError):
        row_variances(release, np.eye(6))


def test_rows_are_named_where_the_domain_is_out_of_reach():
    sizes = (4,) * 40
    data = counts(sizes)
    inside = RowKronecker.from_masks([np.eye(4)] + [np.ones((4, 4))] * 39)
    outside = RowKronecker.from_masks([np.ones((2, 4)), np.eye(4)[:2]] + [np.ones((2, 4))] * 38)
    workload = Stack([inside, outside])
    for strategy in (Marginals(sizes, [(0,)], [1]), inside):
        release = measure(strategy, data, PureDP(1), noise="research", random_state=0)
        assert reconstruct(release, inside).shape == (4, 2)
        for question in (reconstruct, row_variances):
            with pytest.raises(RowSpaceError, match=r"rows 4, 5\)"):
                question(release, workload)


def test_a_faint_row_outside_is_named_beside_large_ones():
    strategy = RELEASE_STRATEGIES["lifted"]
    workload = np.ones((4, strategy.shape[0])) @ strategy.to_dense()
    workload[2] = 1e-8 * np.linalg.svd(strategy.to_dense())[2][-1]
    for question in (reconstruct, row_variances):
        with pytest.raises(RowSpaceError, match=r"1 of the workload's 4 rows \(rows 2\)"):
            question(released(strategy), workload)


def wide_paths(number, depth, seed=0):
    """Return paths over 123 attributes of two codes, each of which fixes some of them."""
    generator = np.random.default_rng(seed)
    masks = np.ones((123, number, 2), dtype=bool)
    for row in range(number):
        chosen = generator.choice(123, depth, replace=False)
        masks[chosen, row, generator.integers(0, 2, depth)] = False
    return RowKronecker.from_masks(list(masks))


@pytest.mark.parametrize("depth", [3, 12])
def test_marginals_totals_and_paths_over_123_attributes(depth):
    """Measured together, asked together: 2**123 cells, 311 rows."""
    sizes = (2,) * 123
    codes = (RNG.random((300, 123)) < 0.3).astype(int)
    labels = RNG.integers(0, 2, 300)
    data = count_cells(codes, labels, sizes, 2)
    one_way = Marginals(sizes, [(i,) for i in range(123)], [1] * 123)
    total = RowKronecker.from_masks([np.ones((1, 2))] * 123)
    paths = wide_paths(64, depth)
    strategy, asked = Stack([one_way, total, paths]), Stack([paths, total, one_way])
    counted = np.stack(
        [asked.columns(codes[labels == label]).sum(axis=1) for label in (0, 1)], axis=1
    )
    plain = measure(strategy, data, PureDP(inf))
    assert np.array_equal(reconstruct(plain, asked), counted)
    noisy = measure(strategy, data, ZCDP(0.5), noise="research", random_state=0)
    draws = noisy.law.research((311, 2 * 1000), np.random.default_rng(1))
    many = replace(noisy, answers=np.tile(plain.answers, 1000) + draws)
    errors = ((reconstruct(many, asked) - np.tile(counted, 1000)) ** 2).mean(axis=1)
    assert errors == pytest.approx(row_variances(noisy, asked), rel=0.2)
    assert row_variances(noisy, total) == pytest.approx([noisy.variance / (1 + 123 / 2)])
    with pytest.raises(RowSpaceError, match=r"rows 64, 65"):
        reconstruct(noisy, Stack([paths, wide_paths(2, depth, seed=1)]))


def test_questions_that_are_none_are_refused():
    with pytest.raises(TypeError, match="Gram"):
        row_variances(released(), Gram(np.eye(6)))
    for question in (reconstruct, row_variances):
        with pytest.raises(ValueError, match="columns"):
            question(released(), np.eye(5))


def test_a_record_says_program_day_and_sampler():
    today = released().measured
    assert today.version == version("mrf-matrix")
    assert today.sampler == f"numpy {np.__version__}"
    assert released(noise="exact", random_state=None).measured.sampler.startswith("opendp ")
    assert released(budget=PureDP(inf)).measured.sampler == "nothing"
    assert type(today.measured_on) is date


@pytest.mark.parametrize("bad", [{"version": ""}, {"sampler": "x\x1b"}, {"version": "x" * 999}])
def test_a_record_holds_lines_only(bad):
    with pytest.raises(ValueError, match="line"):
        replace(released().measured, **bad)
    with pytest.raises(TypeError, match="date"):
        replace(released().measured, measured_on="2026-11-21")


def test_a_sampler_draws_its_own_kind_of_noise_only():
    kinds = {"exact": "opendp 0.16.0", "research": "NumPy 2.3", "none": "nothing"}
    known = released().measured
    for noise in kinds:
        for kind, sampler in kinds.items():
            named = replace(known, sampler=sampler)
            if noise == kind:
                named.check_noise(noise)
            else:
                with pytest.raises(ValueError, match=f"noise='{noise}': expected '"):
                    named.check_noise(noise)
    replace(known, sampler="numpyro 1").check_noise("exact")  # unknown: the writer's word
    with pytest.raises(ValueError, match="noise by 'numpy 2', which draws 'research' noise"):
        replace(released(noise="exact", random_state=None),
                measured=replace(known, sampler="numpy 2"))  # fmt: skip


def test_a_domain_must_be_the_one_that_was_measured():
    assert replace(released(), domain=DOMAIN).domain is DOMAIN
    assert replace(released(), domain=Domain.from_sizes(RELEASE_SIZES)).domain.target is None
    with pytest.raises(ValueError, match="attributes of sizes"):
        replace(released(), domain=Domain.from_sizes([3, 2]))
    with pytest.raises(ValueError, match="3 classes: expected 2"):
        replace(released(), domain=Domain.from_sizes(RELEASE_SIZES, 3))


class Table(HTMLParser):
    """Collects tags and text."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("scope")))

    def handle_data(self, data):
        self.texts.append(data)


def test_text_and_table_show_the_same_and_escape_it():
    release = replace(released(budget=ZCDP(0.25)), domain=DOMAIN)
    text, html = str(release), release._repr_html_()
    table = Table()
    table.feed(html)
    kinds = {tag for tag, _ in table.tags}
    assert kinds == {"table", "caption", "tbody", "tr", "th", "td"}
    assert ("th", "row") in table.tags
    assert ("th", None) not in table.tags
    assert table.texts[0] == release.statement == text.splitlines()[0]
    for shown in ("NOT A PRIVATE RELEASE", "ZCDP(rho=0.25)", "add_remove", "L2", "given"):
        assert shown in text
        assert shown in html
    assert "a<b>, c" in table.texts
    assert "y & z" in table.texts
    assert str(release.measured) in table.texts
    assert "a<b>" not in html


def test_huge_and_long_domains_print_shortly():
    sizes = (4,) * 40
    release = measure(Marginals(sizes, [(0,)], [1]), counts(sizes), PureDP(inf))
    assert "about 2^80 cells" in str(release)
    assert "4, 4 and 28 more" in str(release)
    assert "unknown" in str(replace(release, measured=None))
    assert "Release(4 x 2 answers" in repr(release)
