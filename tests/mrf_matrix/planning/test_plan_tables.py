"""What a plan shows: tables of all forms, other budgets, and a bound certified another way."""

import json
import re
from importlib.util import find_spec
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import run

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    RandomTrees,
    expected_error,
    load_dataset,
    path_matrix,
    plan,
    tune,
)
from mrf_matrix import PrivateNaiveBayesClassifier as NaiveBayes
from mrf_matrix.cli.compare import strategy_table
from mrf_matrix.compilation import path_matrix_from_codes
from mrf_matrix.estimators import MultinomialForestClassifier, PrivateNaiveBayesClassifier
from mrf_matrix.estimators.private_kinds import PooledForestClassifier
from mrf_matrix.mechanisms import BudgetError
from mrf_matrix.plotting import StrategyBoundDisplay, StrategyErrorDisplay
from mrf_matrix.study import comparison
from mrf_matrix.study.comparison import strategy_rows
from strategies import MemoryCapError, RowSpaceError, select

LIBRARIES = ("pandas", "polars", "pyarrow")
SMALL = Domain.from_sizes([3, 4, 2], n_classes=2)
WIDE = Domain.from_sizes([4] * 12, n_classes=2)
TREES = {"n_trees": 4, "max_depth": 2, "strategy": "identity"}
KINDS = {
    "auto": (SMALL, {}),
    "auto, screened": (WIDE, {"kind": "auto", "n_records": 4000, "epsilon": 0.01}),
    "auto, balanced": (WIDE, {"kind": "auto", "n_records": 100_000}),
    "tables": (SMALL, {}),
    "additive": (WIDE, {}),
    "labels": (SMALL, {}),
    "pool": (SMALL, {}),
    "matrix": (SMALL, TREES),
    "matrix, ensembles": (SMALL, {"kind": "matrix", **TREES, "n_ensembles": 2, "max_features": 2}),
    "matrix, rho": (SMALL, {"kind": "matrix", **TREES, "epsilon": None, "rho": 0.5}),
    "matrix, delta": (SMALL, {"kind": "matrix", **TREES, "delta": 1e-6}),
    "matrix, parties": (SMALL, {"kind": "matrix", **TREES, "parties": 3}),
    "additive, delta": (WIDE, {"kind": "additive", "delta": 1e-6}),
    "auto, delta": (WIDE, {"kind": "auto", "delta": 1e-6}),
    "naive_bayes": (SMALL, {}),
    "batch": (SMALL, TREES),
    "subsample": (SMALL, TREES),
    "two_stage": (SMALL, {}),
}


def planned(name):
    domain, options = KINDS[name]
    known = {"kind": name, "epsilon": 1, "n_records": 2000, "random_state": 0} | options
    return plan(domain, **known)


PLANS = {name: lambda name=name: planned(name) for name in KINDS} | {
    "of a classifier": lambda: MatrixForestClassifier(SMALL, random_state=0, **TREES).plan(),
    "of naive Bayes": lambda: PrivateNaiveBayesClassifier(SMALL).plan(),
    "multinomial": lambda: (
        MultinomialForestClassifier(SMALL, epsilon=1, n_trees=2, max_depth=1)
        .fit(np.zeros((4, 3), dtype=int), np.arange(4) % 2)
        .model_.plan
    ),
}


@pytest.fixture(scope="module", params=PLANS)
def made(request):
    return PLANS[request.param]()


def test_a_plan_is_a_table_whose_shares_are_the_whole(made):
    header, rows = made.cells
    assert header == ("step", made.budget.parameter, "share", "sensitivity", "rms")
    shares = [row[2] for row in rows]
    # each record is in one of two steps, and either spends the whole
    whole = 2.0 if getattr(made, "partition_share", None) else 1.0
    assert sum(shares) == pytest.approx(whole)
    assert sum(row[1] for row in rows) == pytest.approx(whole * float(made.budget.exact))
    for library in filter(find_spec, LIBRARIES):
        assert list(made.to_frame(library).shape) == [len(rows), len(header)]
    text, steps = made.to_latex(), made.announced_steps
    assert text.count(r"$\pm$") == sum(one.rms is not None for one in steps)
    assert text.count(r"\\") == len(steps) + 1


def test_print_folds_to_eight_lines_and_verbose_to_none(made):
    steps = made.announced_steps
    headline, *lines = made.to_text().splitlines()
    assert headline == made.headline
    assert len(lines) == min(len(steps), 8)
    assert len(made.to_text(verbose=True).splitlines()) == 1 + len(steps)
    assert "\n".join(lines) in str(made)
    assert steps[-1].measured in str(made)


def test_the_headline_says_what_for_how_many_at_which_budget_and_relation(made):
    said = made.to_text(verbose=True).splitlines()[0]
    known = made.n_records
    records = "an unknown number of records" if known is None else f"{known:,} records"
    assert said.startswith("Plan of a ")
    assert f" for {records}, at {made.budget.claim(made.delta)}" in said
    assert said.endswith(f"under {made.neighboring} neighbours")


@pytest.mark.parametrize("name", KINDS)
def test_the_headline_has_the_number_of_records_that_was_given(name):
    given = KINDS[name][1].get("n_records", 2000)
    assert f" for {given:,} records, at " in planned(name).headline


@pytest.mark.parametrize(("beside", "words"), [("tables", "tables"), ("additive", "residuals")])
def test_the_headline_of_a_pool_says_what_is_beside_its_tree(beside, words):
    made = PooledForestClassifier(SMALL, beside=beside).plan()
    assert made.headline.startswith(f"Plan of a tree of labels beside {words} for ")


def test_a_plan_is_drawn(made):
    pytest.importorskip("matplotlib").use("Agg")
    ax, steps = made.plot().ax_, made.announced_steps
    if hasattr(made, "row_rms"):  # answers by ensemble
        drawn = [len(line.get_xdata()) - 1 for line in ax.lines]  # steps have one end more
        assert drawn == [len(part.answer_variances) for part in made.parts]
    else:
        assert len(ax.patches) == min(len(steps), 24)
    assert made.plot(ax).ax_ is ax


def test_a_number_is_a_budget_of_the_plan_s_own_kind(made):
    twice = made.at(2.0)
    assert type(twice) is type(made)
    assert made.at(2.0).budget == twice.budget
    if made.delta:
        assert twice.delta == made.delta
        assert twice.budget == made.at(epsilon=2.0, delta=made.delta).budget
    else:
        assert twice.budget == made.budget.of(2)
        assert twice.budget == made.at(**{made.budget.parameter: 2.0}).budget
    whole = 2 if getattr(twice, "partition_share", None) else 1
    spent = sum(one.budget.exact for one in twice.announced_steps)
    assert spent == whole * twice.budget.exact
    assert [one.error for one in made.at(1.0).announced_steps] or made.delta


@pytest.mark.parametrize("name", sorted(set(KINDS) - {"auto", "auto, screened", "auto, balanced"}))
def test_steps_keep_their_shares_and_more_budget_is_less_noise(name):
    made = planned(name)
    if not made.delta:
        double = made.budget * 2
        twice = made.at(float(double.amount))
        for one, other in zip(made.announced_steps, twice.announced_steps, strict=True):
            assert other.share(twice.budget) == one.share(made.budget)
            assert other.rms is None or other.rms < one.rms
    again = made.at(1.0) if made.delta or made.budget.parameter == "epsilon" else made.at(0.5)
    assert again.cells == made.cells


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ((1.0, {"epsilon": 1}), "one claim"),
        ((1.0, {"rho": 1}), "one claim"),
        ((1.0, {"delta": 1e-6}), "one claim"),
        ((None, {}), "no budget"),
        ((-1.0, {}), "positive"),
    ],
)
@pytest.mark.parametrize("name", ["matrix", "labels"])
def test_a_claim_is_said_once(name, claim, said):
    amount, named = claim
    with pytest.raises(BudgetError, match=said):
        planned(name).at(amount, **named)


@pytest.mark.parametrize("name", ["matrix", "labels", "pool", "additive", "two_stage"])
def test_another_law_is_another_plan(name):
    with pytest.raises(BudgetError, match="kind of PureDP"):
        planned(name).at(rho=1)


# Other tables -------------------------------------------------------------------------------------


DOMAIN = Domain.from_sizes([2, 3], n_classes=2)


def tables():
    ledger = PrivacyLedger(epsilon=1)
    ledger.charge(PureDP(0.5), "50% & more", neighboring="add_remove")
    yield ledger
    yield NaiveBayes(DOMAIN).fit([[0, 1]], [0]).privacy_report_
    yield tune(DOMAIN, epsilon=1, n_records=50, objective="error",
               space={"max_depth": [1], "n_trees": [2], "strategy": ["identity"]})  # fmt: skip


def test_every_table_is_latex_and_a_frame():
    for table in tables():
        header, rows = table.cells
        text = table.to_latex()
        assert text.count(r"\\") == len(rows) + 1
        assert text.count("&") - text.count(r"\&") == (len(rows) + 1) * (len(header) - 1)
        for library in filter(find_spec, LIBRARIES):
            assert list(table.to_frame(library).shape) == [len(rows), len(header)]
    assert r"50\% \& more" in next(tables()).to_latex()


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_errors_at_several_budgets_are_those_at_each(kind):
    budgets = [0.5, 1.0, 2.0]
    found = expected_error(np.eye(4), np.tri(4), epsilon=kind(budgets), delta=0)
    each = [expected_error(np.eye(4), np.tri(4), epsilon=one) for one in budgets]
    assert [one.total for one in found] == [one.total for one in each]
    with pytest.raises(ValueError, match="empty"):
        expected_error(np.eye(4), np.tri(4), epsilon=[])


# Certificates -------------------------------------------------------------------------------------


CERTIFIED = Domain.from_sizes([3, 2, 4], n_classes=3)
BRIEF = {"n_trees": 4, "max_depth": 2, "random_state": 0, "time_limit": 0.1}
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
    made = plan(CERTIFIED, kind, **budget, **asked, **BRIEF)
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
        CERTIFIED, kind, **budget, **asked, **BRIEF,
        n_ensembles=2, feature_subsets=[[0, 1], [1, 2]], budget_shares=[3, 1],
    )  # fmt: skip
    ((kind, amount),) = budget.items()
    shares = [constant({kind: amount * share}) for share in (0.75, 0.25)]
    low, high = expected_bounds(made, shares)
    assert low <= made.lower_bound <= high
    assert made.total / high <= made.certified_ratio <= made.total / low


def test_the_neighbouring_factor_and_hard_votes_are_in_the_bound():
    for budget in ({"epsilon": 0.02}, {"rho": 0.001}):
        made = plan(CERTIFIED, **budget, **BRIEF, neighboring="replace_one", strategy="identity")
        low, high = expected_bounds(made, [constant(budget, "replace_one")])
        assert low <= made.lower_bound <= high
    made = plan(CERTIFIED, "subsample", epsilon=0.02, voting="hard", queries=QUERIES, **BRIEF)
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
    plt.switch_backend("agg")
    for budget in ({"epsilon": 0.02}, {"rho": 0.001}):
        made = plan(CERTIFIED, **budget, **BRIEF)
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
    forest = RandomTrees(n_trees=4, max_depth=2).grow(CERTIFIED, random_state=0)
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
