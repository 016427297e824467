"""Plans, ledgers, reports and searches are tables: frames, LaTeX, text, pictures; budgets."""

from importlib.util import find_spec

import numpy as np
import pytest

from mrf_matrix import (
    Domain,
    MatrixForestClassifier,
    PrivacyLedger,
    PureDP,
    expected_error,
    load_model,
    plan,
    tune,
)
from mrf_matrix import PrivateNaiveBayesClassifier as NaiveBayes
from mrf_matrix.estimators import MultinomialForestClassifier, PrivateNaiveBayesClassifier
from mrf_matrix.mechanisms import BudgetError

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


@pytest.fixture(params=PLANS)
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


def test_latex_has_the_noise_behind_a_sign(made):
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


def test_steps_name_their_attributes():
    assert any(one.measured == "counts of x3" for one in planned("additive").announced_steps)


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


def test_a_model_saves_itself(tmp_path):
    model = MatrixForestClassifier(DOMAIN, n_trees=2, max_depth=1, strategy="identity")
    model.fit([[0, 1], [1, 2]], [0, 1]).save(tmp_path / "m.mrf")
    assert load_model(tmp_path / "m.mrf").domain_ == DOMAIN
