"""The ledger: exact sums, refusals before anything is spent, and one identity everywhere."""

import copy
import json
import pickle
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from io import StringIO
from math import inf, log
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mrf_matrix import Provenance
from mrf_matrix.base.provenance import Spending
from mrf_matrix.mechanisms import (
    ZCDP,
    BudgetError,
    PrivacyLedger,
    PureDP,
)
from mrf_matrix.mechanisms.statement import composed

AMOUNTS = st.fractions(min_value=Fraction(1, 10**6), max_value=3, max_denominator=10**6)
BUDGETS = st.one_of(AMOUNTS.map(PureDP), AMOUNTS.map(ZCDP))


def pay(ledger, budget, what="a release", neighboring="add_remove", **kind):
    return ledger.charge(budget, what, neighboring=neighboring, **kind)


@given(total=AMOUNTS, budgets=st.lists(BUDGETS, max_size=12))
def test_sums_are_exact_and_never_exceed_the_total(total, budgets):
    ledger, expected = PrivacyLedger(rho=total), Fraction(0)
    for budget in budgets:
        rho = budget.rho if isinstance(budget, ZCDP) else budget.epsilon**2 / 2
        if expected + rho <= total:
            expected += rho
            assert pay(ledger, budget).amount == rho
        else:
            with pytest.raises(BudgetError):
                pay(ledger, budget)
        assert ledger.spent == expected
        assert ledger.remaining == total - expected
    assert ledger.spent == sum((charge.amount for charge in ledger.charges), Fraction(0))
    assert PrivacyLedger.from_dict(json.loads(ledger.to_json())).charges == ledger.charges


@given(total=AMOUNTS, parts=st.integers(1, 50))
def test_equal_parts_use_up_the_total_to_the_last_fraction(total, parts):
    ledger = PrivacyLedger(PureDP(total))
    for share in PureDP(total).split(parts):
        pay(ledger, share)
    assert ledger.remaining == 0
    with pytest.raises(BudgetError, match="remains"):
        pay(ledger, PureDP(Fraction(1, 10**30)))
    assert len(ledger.charges) == parts


def test_ten_tenths_are_one_where_floats_differ():
    assert reduce(add, [0.1] * 10) != 1.0  # `sum` compensates, from Python 3.12 on
    ledger = PrivacyLedger(epsilon=1)
    for _ in range(10):
        pay(ledger, PureDP(0.1))
    assert (ledger.spent, ledger.remaining) == (1, 0)
    assert isinstance(ledger.remaining, Fraction)


@pytest.mark.parametrize(
    ("ledger", "refused", "message"),
    [
        (
            {"epsilon": 1},
            (PureDP(2), "two forests", "add_remove"),
            "two forests asks for epsilon=2",
        ),
        ({"epsilon": 1}, (ZCDP(0.1), "x", "add_remove"), "does not imply"),
        ({"rho": 0.5}, (PureDP(1.01), "x", "add_remove"), "rho=0.51005"),
        ({"epsilon": 1}, (PureDP(0.1), "x", "replace_one"), "relation of this ledger"),
        ({"epsilon": 1}, (PureDP(inf), "x", "add_remove"), "ledger=None"),
        ({"epsilon": 1}, (PureDP(0.1), "x", "sideways"), "sideways"),
        ({"epsilon": 1}, (PureDP(0.1), "  ", "add_remove"), "what"),
        ({"epsilon": 1}, (PureDP(0.1), "a\x1b[2J", "add_remove"), "printable"),
        ({"epsilon": 1}, (PureDP(0.1), "x" * 501, "add_remove"), "501"),
    ],
)
def test_refusals_name_the_figures_and_change_nothing(ledger, refused, message):
    opened = PrivacyLedger(**ledger)
    for call in (opened.check, opened.charge):
        with pytest.raises(ValueError, match=message):
            call(refused[0], refused[1], neighboring=refused[2])
    assert opened.charges == ()
    assert opened.remaining == opened.budget.amount


def test_the_refusal_of_an_overdraft_says_what_is_spent_and_left():
    ledger = PrivacyLedger(epsilon=1)
    pay(ledger, PureDP(0.7))
    with pytest.raises(BudgetError) as error:
        pay(ledger, PureDP(0.4), "forest B")
    for figure in ("forest B", "epsilon=0.4", "epsilon=0.7", "epsilon=0.3", "epsilon=1"):
        assert figure in str(error.value)


@pytest.mark.parametrize("wrong", [1.0, None, "0.1", Fraction(1, 2)])
def test_only_budgets_are_charged(wrong):
    with pytest.raises(TypeError, match="PureDP"):
        pay(PrivacyLedger(epsilon=1), wrong)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"epsilon": 1, "rho": 1},
        {"budget": PureDP(1), "epsilon": 1},
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": 1, "neighboring": "both"},
    ],
)
def test_a_ledger_has_one_positive_total_and_one_relation(arguments):
    with pytest.raises(ValueError, match="expected"):
        PrivacyLedger(**arguments)


@pytest.mark.parametrize("total", [1, 0.5, Fraction(1, 3), Decimal("0.25")])
def test_totals_are_taken_as_written(total):
    assert PrivacyLedger(epsilon=total).budget == PureDP(total)
    assert PrivacyLedger(ZCDP(total)).remaining == ZCDP(total).amount


def test_a_zcdp_ledger_takes_pure_charges_by_half_their_square():
    ledger = PrivacyLedger(rho=0.5)
    assert pay(ledger, PureDP(1)).amount == Fraction(1, 2)
    assert ledger.remaining == 0


def test_what_it_paid_for_and_when():
    before = datetime.now(UTC) - timedelta(seconds=1)
    charge = pay(PrivacyLedger(epsilon=1), PureDP(0.25), "leaf counts of 16 trees")
    assert (charge.number, charge.what, charge.budget) == (
        1,
        "leaf counts of 16 trees",
        PureDP(0.25),
    )
    assert before <= charge.when <= datetime.now(UTC)
    assert "leaf counts of 16 trees" in str(charge)


def test_releases_without_privacy_are_listed_as_such():
    ledger = PrivacyLedger(epsilon=inf)
    pay(ledger, PureDP(1))
    assert ledger.is_private
    assert ledger.remaining == inf
    assert pay(ledger, PureDP(inf)).noise == "none"
    assert not ledger.is_private
    assert ledger.spent == inf
    assert ledger.spent_epsilon(1e-6) == inf
    assert ledger.statement.startswith("NOT PRIVATE: 1 of 2")


def test_research_noise_is_charged_and_listed_as_not_private():
    ledger = PrivacyLedger(epsilon=1)
    assert not pay(ledger, PureDP(0.5), noise="research").is_private
    assert ledger.remaining == Fraction(1, 2)
    assert "not private" in str(ledger)
    with pytest.raises(ValueError, match="noise"):
        pay(ledger, PureDP(0.1), noise="loud")
    with pytest.raises(ValueError, match="infinite"):
        pay(ledger, PureDP(0.1), noise="none")


def test_sums_with_endless_denominators_are_refused():
    ledger = PrivacyLedger(epsilon=1)
    with pytest.raises(BudgetError, match="digits"):
        pay(ledger, PureDP(Fraction(1, 2**5000)))
    assert ledger.charges == ()


# -- (ε, δ) ---------------------------------------------------------------------------------------


def test_epsilon_of_gaussian_charges_is_that_of_their_sum():
    ledger = PrivacyLedger(rho=1)
    for _ in range(2):
        pay(ledger, ZCDP(0.125))
    assert ledger.spent_epsilon(1e-6) == ZCDP(0.25).epsilon(1e-6)
    closed_form = 0.25 + 2 * (0.25 * log(1e6)) ** 0.5
    assert ledger.spent_epsilon(1e-6) < closed_form


def test_epsilon_of_both_kinds_is_the_smaller_of_two_compositions():
    ledger = PrivacyLedger(rho=1)
    pay(ledger, ZCDP(0.125))
    pay(ledger, PureDP(0.5))
    assert ledger.spent_epsilon(1e-6) == 0.5 + ZCDP(0.125).epsilon(1e-6)
    assert ledger.spent_epsilon(1e-6) < ZCDP(0.25).epsilon(1e-6)
    many = PrivacyLedger(rho=1)
    for budget in (ZCDP(0.125), *[PureDP(0.05)] * 100):
        pay(many, budget)
    assert many.spent_epsilon(1e-6) == ZCDP(0.25).epsilon(1e-6)


def test_epsilon_of_pure_charges_is_never_above_their_sum_and_gains_from_many():
    few, many = PrivacyLedger(epsilon=10), PrivacyLedger(epsilon=10)
    pay(few, PureDP(1))
    assert few.spent_epsilon(1e-6) == 1.0
    for _ in range(500):
        pay(many, PureDP(0.02))
    assert many.spent == 10
    assert many.spent_epsilon(1e-6) < 3


def test_nothing_spent_is_epsilon_zero_and_delta_is_checked():
    assert PrivacyLedger(rho=1).spent_epsilon(1e-6) == 0.0
    for delta in (0, 1, -1, 2.0):
        with pytest.raises(BudgetError, match="delta"):
            PrivacyLedger(rho=1).spent_epsilon(delta)


# -- one identity ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "twice",
    [copy.copy, copy.deepcopy, clone, lambda ledger: pickle.loads(pickle.dumps(ledger))],
    ids=["copy", "deepcopy", "clone", "pickle"],
)
def test_copies_in_this_process_are_the_ledger_itself(twice):
    ledger = PrivacyLedger(epsilon=1)
    pay(ledger, PureDP(0.5))
    assert twice(ledger) is ledger


def test_copies_inside_other_objects_are_the_ledger_itself():
    ledger = PrivacyLedger(epsilon=1)
    assert copy.deepcopy({"a": [ledger]})["a"][0] is ledger


def test_threads_never_overdraw():
    ledger, refused = PrivacyLedger(epsilon=1), []

    def spend():
        for _ in range(20):
            try:
                pay(ledger, PureDP(Fraction(1, 100)))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.spent, len(ledger.charges), len(refused)) == (1, 100, 60)
    assert [charge.number for charge in ledger.charges] == list(range(1, 101))


# -- for people -----------------------------------------------------------------------------------


def test_text_html_and_rich_show_every_charge_and_no_markup_runs():
    from rich.console import Console

    ledger = PrivacyLedger(rho=1)
    pay(ledger, ZCDP(0.25), "<b>[red]forest[/red]</b>")
    console = Console(width=100, file=StringIO())
    console.print(ledger)
    drawn = console.file.getvalue()
    for text in (str(ledger), drawn):
        assert "[red]forest[/red]" in text
        assert "rho=0.25" in text
        assert "rho=0.75" in text
    assert "&lt;b&gt;" in ledger._repr_html_()
    assert "<b>[red]" not in ledger._repr_html_()
    assert "1 charge," in repr(ledger)
    assert "Nothing is spent" in str(PrivacyLedger(epsilon=1))


# What a release rests on -------------------------------------------------------------------------


OWN, TWO = PureDP(1), PureDP(2)


def earlier(budget=TWO, neighboring="add_remove"):
    """Return the provenance of what one earlier charge paid for."""
    return Provenance.of_spending(Spending(budget, neighboring, "exact", "splits"))


def spent(ledger):
    return [charge.budget for charge in ledger.charges]


def charged(ledger, rests_on, **said):
    asked = {"neighboring": ledger.neighboring, "rests_on": rests_on} | said
    return ledger.charge(OWN, "leaves", **asked)


def test_what_it_did_not_pay_for_is_charged_too_and_once():
    ledger, splits = PrivacyLedger(epsilon=9), earlier()
    charged(ledger, splits)
    assert spent(ledger) == [PureDP(2), OWN]
    charged(ledger, splits)
    assert spent(ledger) == [PureDP(2), OWN, OWN]
    charged(ledger, splits | earlier())  # like it, and another charge
    assert spent(ledger) == [PureDP(2), OWN, OWN, PureDP(2), OWN]


def test_what_does_not_fit_together_charges_nothing():
    ledger = PrivacyLedger(epsilon=2.5)
    with pytest.raises(BudgetError):
        charged(ledger, earlier())
    assert not ledger.charges
    charged(ledger, Provenance.public("forest"))
    assert spent(ledger) == [OWN]


def test_a_smaller_charge_of_the_same_identity_has_not_paid():
    ledger, splits = PrivacyLedger(epsilon=9), earlier()
    (one,) = splits.spendings
    ledger.charge(PureDP(1), "splits", neighboring="add_remove", identity=one.identity)
    charged(ledger, splits)
    assert spent(ledger) == [PureDP(1), PureDP(2), OWN]


def test_replacing_a_record_is_removing_one_and_adding_one():
    ledger = PrivacyLedger(epsilon=9, neighboring="replace_one")
    splits = earlier()
    charged(ledger, splits), charged(ledger, splits)
    assert spent(ledger) == [PureDP(4), OWN, OWN], "converted, and once"
    with pytest.raises(BudgetError, match="relation of this ledger"):
        charged(PrivacyLedger(epsilon=9), earlier(neighboring="replace_one"))


@pytest.mark.parametrize("origin", [Provenance.from_records, Provenance.unstated])
def test_nothing_true_could_be_charged_for_what_nothing_is_claimed_of(origin):
    ledger = PrivacyLedger(epsilon=9)
    with pytest.raises(ValueError, match="no charge would be true"):
        charged(ledger, origin("forest"))
    assert not ledger.charges


def test_charges_compose_by_implication_and_no_further():
    def whole(*parts):
        return composed([one for part in parts for one in part.spendings])

    assert whole(earlier(), earlier()) == (PureDP(4), "add_remove")
    assert whole(earlier(), earlier(neighboring="replace_one")) == (PureDP(6), "replace_one")
    assert whole(earlier(), earlier(ZCDP(1))) == (ZCDP(3), "add_remove")
    once = Fraction(1, 2) + 4 * 1  # ε=1 of one replaced, and ρ=1 of one more or less
    assert whole(earlier(PureDP(1), "replace_one"), earlier(ZCDP(1))) == (
        ZCDP(once),
        "replace_one",
    )
