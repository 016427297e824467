"""A plan's certified bound beside one found from its workloads by another route.

The oracle is plain NumPy and knows nothing of strategies: for any distribution y over the cells
``(||W diag(√y)||_*)²`` is below every loss, and the best y gives the least L2 loss, which a
strategy beside it reaches. It is turned into records by the noise constant: ``2/ε²`` or ``1/2ρ``,
times the squared factor of the neighbouring relation. Budgets are small, so that noise of integers
has it.
"""

import json
import re
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run

from mrf_matrix import Domain, RandomTrees, load_dataset, path_matrix
from mrf_matrix.cli.compare import strategy_table
from mrf_matrix.compilation import path_matrix_from_codes
from mrf_matrix.planning import plan
from mrf_matrix.study import comparison
from mrf_matrix.study.comparison import strategy_rows
from strategies import MemoryCapError, RowSpaceError, select

DOMAIN = Domain.from_sizes([3, 2, 4], n_classes=3)
SMALL = {"n_trees": 4, "max_depth": 2, "random_state": 0, "time_limit": 0.1}
CELLS = np.stack(np.unravel_index(np.arange(24), (3, 2, 4)), axis=1)
QUERIES = CELLS[[0, 0, 0, 5, 7, 7, 11, 13, 17, 19, 23]]


def least_l2_loss(workload):
    """Return a lower and an upper bound on the least L2 loss of any strategy."""
    W = np.unique(np.asarray(workload, dtype=float), axis=1)  # equal cells are one
    W = W[:, W.any(axis=0)]
    y = np.full(W.shape[1], 1 / W.shape[1])
    for _ in range(3000):
        _, values, right = np.linalg.svd(W * np.sqrt(y), full_matrices=False)
        columns = np.sqrt(values)[:, None] * right / np.sqrt(y)  # of M^(-1/4) F, squared: q
        q = (columns**2).sum(axis=0)
        lower, upper = values.sum() ** 2, q.max() * values.sum()
        if upper <= lower * (1 + 1e-4):
            break
        y = y * q
        y /= y.sum()
        y = np.maximum(y, 1e-14)
    return lower, upper


def constant(budget, neighboring="add_remove"):
    """Return the noise variance of a strategy of sensitivity one."""
    ((kind, amount),) = budget.items()
    replaced = neighboring == "replace_one"
    if kind == "epsilon":
        return 2 / amount**2 * (4 if replaced else 1)
    return 1 / (2 * amount) * (2 if replaced else 1)  # no entry is negative


def weighted(made, part):
    """Return a part's workload as an array, rows as often as they are asked."""
    rows = part.workload.to_dense()
    if made.kind.name == "matrix":
        return rows
    return rows * np.sqrt(made.multiplicity)[:, None]


def expected_bounds(made, constants):
    """Return the least and the largest that the certified total may be."""
    both = np.array([least_l2_loss(weighted(made, part)) for part in made.parts])
    lower, upper = made.n_classes * (np.asarray(constants)[:, None] * both).sum(axis=0)
    return lower * (1 - 2e-3), upper * (1 + 1e-3)


@pytest.mark.parametrize("budget", [{"epsilon": 0.02}, {"rho": 0.001}], ids=str)
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_the_certified_total_is_that_of_the_workload(kind, budget):
    asked = {} if kind == "matrix" else {"queries": QUERIES}
    made = plan(DOMAIN, kind, **budget, **asked, **SMALL)
    low, high = expected_bounds(made, [constant(budget)])
    assert low <= made.lower_bound <= high
    assert made.total >= made.lower_bound
    assert made.certified_ratio == pytest.approx(made.total / made.lower_bound)
    record = json.loads(json.dumps(made.to_dict(bound=True)))
    assert low <= record["lower_bound"] <= high
    assert made.total / high <= record["certified_ratio"] <= made.total / low


@pytest.mark.parametrize("budget", [{"epsilon": 0.02}, {"rho": 0.001}], ids=str)
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample"])
def test_ensembles_add_up(kind, budget):
    asked = {} if kind == "matrix" else {"queries": QUERIES}
    made = plan(
        DOMAIN, kind, **budget, **asked, **SMALL,
        n_ensembles=2, feature_subsets=[[0, 1], [1, 2]], budget_shares=[3, 1],
    )  # fmt: skip
    ((kind, amount),) = budget.items()
    shares = [constant({kind: amount * share}) for share in (0.75, 0.25)]
    low, high = expected_bounds(made, shares)
    assert low <= made.lower_bound <= high
    assert made.total / high <= made.certified_ratio <= made.total / low


def test_the_neighbouring_factor_and_hard_votes_are_in_the_bound():
    for budget in ({"epsilon": 0.02}, {"rho": 0.001}):
        made = plan(DOMAIN, **budget, **SMALL, neighboring="replace_one", strategy="identity")
        low, high = expected_bounds(made, [constant(budget, "replace_one")])
        assert low <= made.lower_bound <= high
    made = plan(DOMAIN, "subsample", epsilon=0.02, voting="hard", queries=QUERIES, **SMALL)
    low, high = expected_bounds(made, [4 * constant({"epsilon": 0.02})])
    assert low <= made.lower_bound <= high


def test_the_oracle_knows_optima_on_paper():
    """Negative control: it is not what the library says, and it is not loose."""
    cycle = np.array([np.roll([1, 1, 1] + [0] * 9, shift) for shift in range(12)])
    optimum = np.abs(1 + 2 * np.cos(2 * np.pi * np.arange(12) / 12)).sum() ** 2 / 12
    assert least_l2_loss(cycle) == pytest.approx((optimum, optimum), rel=1e-4)
    rng = np.random.default_rng(0)
    for _ in range(5):
        W = rng.integers(0, 2, size=(6, 5)) + np.eye(6, 5)
        lower, upper = least_l2_loss(W)
        assert lower <= upper <= lower * 1.001
        A = rng.normal(size=(7, 5))
        loss = (A**2).sum(axis=0).max() * np.linalg.norm(W @ np.linalg.pinv(A)) ** 2
        assert loss >= lower


def test_the_command_prints_the_same_bound(tmp_path):
    arguments = ["plan", "monks_1", "--epsilon", "0.02", "--n-trees", "2", "--max-depth", "1",
                 "--strategy", "identity", "--random-state", "0",
                 "--no-pictures", "--output", tmp_path]  # fmt: skip
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    made = plan(load_dataset("monks_1").domain, epsilon=0.02, n_trees=2, max_depth=1,
                strategy="identity", random_state=0)  # fmt: skip
    low, high = expected_bounds(made, [constant({"epsilon": 0.02})])
    assert low <= record["lower_bound"] <= high
    printed = re.search(r"within ([\d.]+) times", run(*arguments).stdout)
    assert made.total / high * 0.99 <= float(printed[1]) <= made.total / low * 1.01


def test_the_picture_draws_the_same_bound():
    plt = pytest.importorskip("matplotlib.pyplot")
    from mrf_matrix.plotting import StrategyBoundDisplay

    plt.switch_backend("agg")
    for budget in ({"epsilon": 0.02}, {"rho": 0.001}):
        made = plan(DOMAIN, **budget, **SMALL)
        low, high = least_l2_loss(made.parts[0].workload.to_dense())
        ax = StrategyBoundDisplay.from_plan(made).ax_
        (line,) = [one for one in ax.get_lines() if one.get_linestyle() == "--"]
        assert low * (1 - 2e-3) <= line.get_xdata()[0] <= high
        (text,) = [one.get_text() for one in ax.texts if "certified" in one.get_text()]
        assert float(text.split()[-1]) == pytest.approx(low, rel=0.006)  # three digits
        ratios = [float(one.get_text().split("(")[1].split()[0]) for one in ax.texts
                  if "×" in one.get_text()]  # fmt: skip
        assert ratios[0] == pytest.approx(made.strategy.loss / low, rel=0.01)
        assert all(first <= second for first, second in pairwise(ratios))
        plt.close("all")


def test_a_domain_too_large_to_enumerate_has_the_optimum_on_paper():
    """All values of nine attributes: σ of ``9^4.5`` once and ``9^4`` 72 times, over 9^9 cells."""
    paths = np.full((81, 9), -1)
    paths[np.arange(81), np.arange(81) // 9] = np.arange(81) % 9
    T = path_matrix_from_codes(paths, [9] * 9)
    optimum = (9**4.5 + 72 * 9**4) ** 2 / 9**9
    for norm in ("l1", "l2"):
        found = select(T, norm, method="workload_itself")
        assert optimum * 0.98 <= found.lower_bound <= optimum * (1 + 1e-9)


def test_the_study_tabulates_and_draws_the_same_bound():
    plt = pytest.importorskip("matplotlib.pyplot")
    from mrf_matrix.plotting import StrategyErrorDisplay

    forest = RandomTrees(n_trees=4, max_depth=2).grow(DOMAIN, random_state=0)
    T = path_matrix(forest)
    low, high = least_l2_loss(T.to_dense())
    selected = select(T, time_limit=0.1, random_state=0)
    rows = strategy_rows(forest, selected, (0.5,), "add_remove")
    for row in rows:
        assert low * (1 - 2e-3) <= row.lower_bound <= high
        assert row.certified_ratio == pytest.approx(row.loss / low, rel=3e-3)
    study = SimpleNamespace(strategies=rows, epsilons=(0.5,), dataset="small", settings={})
    caption = str(strategy_table(study).caption)
    assert float(re.search(r"below ([\d,]+)", caption)[1].replace(",", "")) == round(low)
    plt.switch_backend("agg")
    ax = StrategyErrorDisplay.from_comparison(study).ax_
    (line,) = [one for one in ax.get_lines() if one.get_linestyle() == "--"]
    assert low * (1 - 2e-3) <= line.get_xdata()[0] <= high
    (text,) = [one.get_text() for one in ax.texts if "certified" in one.get_text()]
    assert float(text.split()[-1]) == pytest.approx(low, rel=0.006)
    plt.close("all")


# Families that cannot serve ----------------------------------------------------------------------


FOREST = RandomTrees(4, 2).grow(Domain.from_sizes([3, 3, 2]), 0)
SELECTED = select(path_matrix(FOREST), method="workload_itself")


def refusing(error):
    def refuse(workload, method, norm):
        if method == "identity":
            raise error
        return select(workload, norm, method=method)

    return refuse


@pytest.mark.parametrize("kind", [MemoryCapError, RowSpaceError])
def test_a_refusal_is_a_row_that_says_why(kind, monkeypatch):
    monkeypatch.setattr(comparison, "select", refusing(kind("too many\n  cells")))
    rows = strategy_rows(FOREST, SELECTED, [1.0, 2.0], "add_remove")
    (refused,) = [row for row in rows if row.note is not None]
    assert refused.note == "too many cells"
    assert refused.name.startswith("identity")
    assert np.isnan(refused.loss)
    assert json.loads(json.dumps(refused.to_dict()))["loss"] is None
    assert len(rows) == 6
    table = strategy_table(SimpleNamespace(strategies=rows, epsilons=(1.0, 2.0)))
    assert table.row_count == 5
    assert "too many cells" not in str(table.caption)
    assert refused.name in str(table.caption)
    assert [row.name for row in rows if row.is_selected] == ["selected: workload_itself"]


@pytest.mark.parametrize("bug", [ValueError("x"), TypeError("x"), KeyError("x")])
def test_a_bug_surfaces(bug, monkeypatch):
    monkeypatch.setattr(comparison, "select", refusing(bug))
    with pytest.raises(type(bug)):
        strategy_rows(FOREST, SELECTED, [1.0], "add_remove")
