"""The portfolio: the best of its families, reproducible, checked, within its limits."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strategies
from strategies import Family, Problem, Progress, RowSpaceError, Search, evaluate, examples, select
from strategies.operators import (
    Dense,
    Identity,
    Kronecker,
    MemoryCapError,
    Operator,
    RowKronecker,
    as_operator,
)
from tests.strategies.workloads import NORMS, WORKLOADS, paths, trees


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_best_of_its_families(name: str, norm: str) -> None:
    workload = WORKLOADS[name]()
    strategy = select(workload, norm, random_state=0, time_limit=0.05)
    assert strategy.norm == norm
    assert strategy.loss == min(candidate.loss for candidate in strategy.candidates)
    assert strategy.method == strategy.candidates[0].family
    assert {candidate.family for candidate in strategy.candidates} <= set(strategies.families())
    assert strategy.lower_bound <= strategy.loss
    again = evaluate(workload, strategy.matrix, norm)
    assert again.loss == pytest.approx(strategy.loss, rel=1e-9)
    explicit = evaluate(workload, strategy.matrix.to_dense(), norm)
    assert explicit.loss == pytest.approx(strategy.loss, rel=1e-6)


def test_names() -> None:
    names = strategies.families()
    assert {"identity", "workload_itself", "tree", "wavelet"} <= set(names)
    lines = repr(names).splitlines()
    for line, (name, purpose) in zip(lines, names.items(), strict=True):
        assert line.startswith(name)
        assert line.endswith(purpose)
        assert 20 < len(purpose) <= 100
        assert purpose.endswith(".")


def test_a_family_of_ones_own() -> None:
    """Ten lines that add a family: what a user writes, without touching the library."""

    def pairs(problem: Problem, search: Search) -> Operator:
        g = problem.merged_workload.shape[1]
        return as_operator(np.vstack([np.eye(g), np.kron(np.eye(g // 2), [[1.0, 1.0]])]))

    mine = Family("pairs", "merged", BOTH, lambda problem: True, pairs)
    workload = np.kron(np.eye(4), [[1.0, 1.0], [1.0, 0.0]])
    alone = select(workload, method=mine)
    assert (alone.method, alone.matrix.shape) == ("pairs", (12, 8))
    assert alone.loss == pytest.approx(evaluate(workload, alone.matrix).loss)
    beside = select(workload, method=("identity", mine), random_state=0)
    assert {one.family for one in beside.candidates} == {"identity", "pairs"}
    assert beside.loss == min(alone.loss, select(workload, method="identity").loss)


def test_a_family_says_what_it_is_worth() -> None:
    """Families of "auto" say so themselves; the work goes by their shares, to one alone all."""
    auto = {one.family for one in select(np.tri(6), time_limit=0.1, random_state=0).candidates}
    assert "identity" in auto
    assert not {"tree", "levels", "wavelet"} & auto  # which are never the best
    work: dict[str, float] = {}

    def spends(problem: Problem, search: Search) -> Operator:
        work[str(len(work))] = search.work
        return Identity(problem.merging.n_groups)

    most, least = (family_that(spends, name, share=share) for name, share in (("a", 6), ("b", 2)))
    select(np.tri(4), method=(most, least), time_limit=2.0)
    select(np.tri(4), method=least, time_limit=2.0)
    assert list(work.values()) == [1.5, 0.5, 2.0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "auto"}, "name='auto'"),
        ({"space": "cells"}, "space='cells'"),
        ({"norms": frozenset({"l3"})}, "norms="),
        ({"share": -1.0}, "share=-1.0"),
        ({"share": float("nan")}, "share=nan"),
    ],
)
def test_families_that_make_no_sense(changed: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(GOOD, **changed)


def test_seeds_decide_and_clocks_do_not() -> None:
    workload = paths((4, 3, 3), 20, 3)
    first = select(workload, random_state=5, time_limit=0.1)
    second = select(workload, random_state=np.random.default_rng(5), time_limit=0.1)
    assert first.loss == second.loss
    assert np.array_equal(first.matrix.to_dense(), second.matrix.to_dense())


TWO_CELLS = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 2.0]])
BOTH = frozenset({"l1", "l2"})


def family_that(
    search: Callable[[Problem, Search], Operator], name: str = "test", **options: object
) -> Family:
    return Family(name, "merged", BOTH, lambda problem: True, search, **options)


def run(*families: Family, **options: object) -> strategies.Strategy:
    return select(TWO_CELLS, method=families, random_state=0, **options)


def wrong_space(problem: Problem, search: Search) -> Operator:
    return Dense(np.array([[1.0, 0.0]]))


def too_large(problem: Problem, search: Search) -> Operator:
    raise MemoryCapError("needs a moon")


GOOD = family_that(lambda problem, search: Identity(2), "good")


def test_a_family_that_misses_the_row_space_never_wins() -> None:
    strategy = run(family_that(wrong_space), GOOD)
    failed = strategy.candidates[-1]
    assert failed.loss == float("inf")
    assert "row space" in failed.note
    with pytest.raises(RowSpaceError):
        run(family_that(wrong_space))


def test_a_search_that_ends_at_the_identity_says_so() -> None:
    found = select(np.eye(6), method=strategies.p_identity(p=1), random_state=0)
    assert "ended at the Identity" in found.candidates[0].note
    assert "ended at the Identity" in str(found)
    assert "ended at" not in str(select(np.eye(6), method="identity"))


def test_a_family_that_needs_too_much_is_noted() -> None:
    strategy = run(family_that(too_large), GOOD)
    assert strategy.candidates[-1].note == "needs a moon"
    with pytest.raises(MemoryCapError, match="test: needs a moon; again: needs a moon"):
        run(family_that(too_large), family_that(too_large, "again"))


def test_polishers_run_last_and_from_the_best() -> None:
    seen: list[tuple[Operator, ...]] = []

    def polish(problem: Problem, search: Search) -> Operator:
        seen.append(search.starts)
        return Identity(2)

    worse = family_that(lambda problem, search: Dense(np.tri(2)), "worse")
    strategy = run(family_that(polish, polishes=True), worse, GOOD)
    assert len(strategy.candidates) == 3
    ((best, second),) = seen
    assert isinstance(best, Identity)
    assert second.shape == (2, 2)
    run(family_that(polish, polishes=True))
    assert seen[1] == ()


def test_what_is_left_decides_whether_a_family_starts() -> None:
    """Two that take six tenths of the limit at least: the second is left out, and it is said."""
    dear, again = (
        family_that(lambda problem, search: Identity(2), name, least=lambda problem: 0.6)
        for name in ("dear", "again")
    )
    last = replace(GOOD, name="last")
    notes = [one.note for one in run(GOOD, dear, again, last, time_limit=1.0).candidates]
    assert sum("more than is left" in note for note in notes) == 1
    both = run(dear, again, time_limit=2.0).candidates
    assert len(both) == 2
    assert not any("more than is left" in one.note for one in both)


def test_searches_leave_what_they_do_not_need() -> None:
    """A share is an allowance: a family was once left out where others' shares were all of it."""
    for price, notes in [(0.9, 0), (1.1, 1)]:
        priced = family_that(lambda problem, search: Identity(2), least=lambda _, s=price: s)
        found = run(GOOD, priced, time_limit=1.0)
        assert sum("more than is left" in one.note for one in found.candidates) == notes


def test_trees_over_many_cells_have_the_price_of_their_rows() -> None:
    """Their evaluation goes through inner products of rows; it once had the price of the cells."""
    workload = trees((9,) * 6, 6, 2, 0)
    methods = ("identity", "common_refinement")
    assert select(workload, method=methods, random_state=0, time_limit=1.0).method == methods[1]


def test_forests_of_many_rows_over_many_cells_are_measured_by_components() -> None:
    """Paths of categories: nothing is descended on, and the closed form is far below the rows."""
    workload = trees((10, 2, 8, 8, 8, 8, 10), 64, 3, 0)
    found = select(workload, "l2", random_state=0)
    assert found.loss <= select(workload, "l2", method="residual_marginals").loss * (1 + 1e-9)
    assert found.certified_ratio < 1.2


def test_the_default_limit_is_what_the_families_ask_for() -> None:
    def limit_of(workload: object, *seconds: float) -> float:
        """The limit that families find which ask for some seconds to be good."""
        seen: list[float] = []

        def search(problem: Problem, search: Search) -> Operator:
            seen.append(search.limit)
            return Identity(problem.workload.shape[1])

        families = [
            replace(family_that(search, str(i), good=lambda problem, s=s: s), space="domain")
            for i, s in enumerate(seconds)
        ]
        select(workload, method=families)
        return min(seen)

    product = Kronecker([examples.prefix_sums(4)] * 2)
    usual, most = limit_of(np.tri(3), 0.0), limit_of(np.tri(3), 1e9, 9.0)
    assert usual < limit_of(np.tri(3), 0.0, 9.0) == 9.0 < most
    assert limit_of(product, 9.0) == 9.0
    assert limit_of(product, 0.0) == usual
    factors = [examples.prefix_sums(16), examples.all_ranges(16), Identity(2)]
    assert limit_of(Kronecker(factors), 0.0) == 2 * usual  # what each would get alone
    assert limit_of(Kronecker(factors[:1] * 2), 0.0) == usual


def test_over_many_cells_p_identity_gives_way_to_what_is_far_better() -> None:
    random = np.random.default_rng(0)
    problem = Problem.of((random.random((20, 1001)) < 0.5) * random.normal(size=1001))
    known = Search(best=0.4 * problem.merged_total, work=1e9)
    assert isinstance(strategies.p_identity().search(problem, known), Identity)


def test_time_stops_a_portfolio_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter(range(0, 100_000, 1000))
    monkeypatch.setattr("time.thread_time", lambda: float(next(clock)))
    three = [replace(GOOD, name=name) for name in "abc"]
    strategy = run(*three)
    assert strategy.truncated
    assert len(strategy.candidates) == 1
    monkeypatch.undo()
    assert not run(*three).truncated


def test_progress() -> None:
    events: list[Progress] = []
    strategy = select(np.tri(6), time_limit=0.2, progress=events.append)
    assert [event.step for event in events] == list(range(len(events)))
    assert {event.steps for event in events} == {len(strategy.candidates)}
    assert events[0].best == float("inf")
    assert events[-1].best >= strategy.loss
    select(np.tri(3), method="identity", progress=True)
    with pytest.raises(TypeError, match="progress='loud'"):
        select(np.tri(3), progress="loud")


def test_memory_limit() -> None:
    workload = paths((4,) * 6, 30, 0)
    strategy = select(workload, time_limit=0.1, memory_limit=2**16, random_state=0)
    assert strategy.lower_bound <= strategy.loss
    assert "p_identity" not in {candidate.family for candidate in strategy.candidates}


REFUSED: dict[str, tuple[dict[str, object], type[Exception], str]] = {
    "method": ({"method": "magic"}, ValueError, "expected 'auto' or one of .*identity"),
    "near a name": ({"method": "p_identit"}, ValueError, "Did you mean 'p_identity'"),
    "a matrix": ({"method": np.eye(3)}, TypeError, "strategies.evaluate"),
    "a known name": ({"method": replace(strategies.identity())}, ValueError, "a name of its own"),
    "no family": ({"method": 3}, TypeError, "method=3: expected 'auto', the name of a family"),
    "no families": ({"method": ()}, ValueError, "at least one family"),
    "twice": ({"method": ("identity", "identity")}, ValueError, "each name once"),
    "auto in it": ({"method": ("identity", "auto")}, ValueError, "method='auto'"),
    "norm": ({"norm": "l3"}, ValueError, "norm='l3'"),
    "no time": ({"time_limit": 0}, ValueError, "time_limit=0"),
    "negative time": ({"time_limit": -1.0}, ValueError, "positive number"),
    "NaN time": ({"time_limit": float("nan")}, ValueError, "positive number"),
    "text time": ({"time_limit": "8"}, ValueError, "positive number"),
    "memory": ({"memory_limit": -5}, ValueError, "n_bytes=-5"),
    "negative seed": ({"random_state": -1}, ValueError, "random_state=-1"),
    "seed": ({"random_state": "x"}, TypeError, "random_state='x'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_arguments(name: str) -> None:
    arguments, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        select(np.eye(2), **arguments)


def test_progress_is_imported_only_when_shown() -> None:
    code = (
        "import sys, numpy, strategies; strategies.select(numpy.tri(3), time_limit=0.1);"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('rich', 'sklearn', 'cvxpy', 'matplotlib', 'mrf_matrix')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "laplace", "gaussian"),
    [
        (examples.prefix_sums(64), 907.0, 282.3),
        (examples.all_ranges(64), 32_090.0, 11_025.0),
        (examples.binary_tree(64), 448.0, 250.9),
    ],
    ids=["prefix sums", "all ranges", "binary tree"],
)
def test_the_literature(workload: Operator, laplace: float, gaussian: float) -> None:
    assert select(workload, random_state=0).loss <= laplace * (1 + 1e-9)
    optimum = select(workload, "l2", random_state=0)
    assert optimum.loss <= gaussian
    assert optimum.certified_ratio <= 1.001


@pytest.mark.slow
@pytest.mark.parametrize("ensemble", ["_e0", "_e1"])
def test_published_paths(shared_dir: Path, ensemble: str) -> None:
    """Never above the best published template on Heart's ensembles, and certified for "l2"."""
    table = json.loads((shared_dir / "workloads" / "reference.json").read_text())["heart"]
    (entry,) = [e for e in table["ensemble_workloads"] if e["suffix"] == ensemble]
    with np.load(shared_dir / "workloads" / "heart_seed0.npz") as data:
        sizes = data[f"domain{ensemble}"]
        rows, records = data[f"paths{ensemble}"], data[f"Q{ensemble}"]
    masks = [(codes[:, None] == np.arange(n)) for codes, n in zip(rows.T, sizes, strict=True)]
    free = [(codes == -1)[:, None] for codes in rows.T]
    forest = RowKronecker.from_masks([a | b for a, b in zip(masks, free, strict=True)])
    tests = [(codes[:, None] == np.arange(n)) for codes, n in zip(records.T, sizes, strict=True)]
    incidence = RowKronecker.from_masks(tests).row_gram(forest)
    for kind, workload in (("training", forest), ("prediction", Dense(incidence) @ forest)):
        assert evaluate(workload, Identity(forest.shape[1])).loss == pytest.approx(
            entry[kind]["identity"], rel=1e-6
        )
        best = entry[kind]["best_of_all_templates"]
        assert select(workload, random_state=0, time_limit=1.0).loss <= best * (1 + 1e-9)
        assert select(workload, "l2", random_state=0).certified_ratio <= 1.001
