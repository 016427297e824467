"""The ledger: exact sums, refusals before anything is spent, and one identity everywhere."""

import copy
import json
import pickle
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from itertools import permutations
from math import exp, inf, log, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import clone

from mrf_matrix import Provenance, privacy_ledger
from mrf_matrix.mechanisms import (
    ZCDP,
    ApproximateDP,
    BudgetError,
    LedgerError,
    PrivacyLedger,
    PureDP,
)
from mrf_matrix.plotting import BudgetDisplay
from mrf_matrix.reports import ledger_report

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


@pytest.mark.parametrize(
    ("terms", "whole"),
    [
        ({"epsilon": 1}, PureDP(1)),
        ({"epsilon": 3, "delta": 1e-6}, ZCDP.for_approximate_dp(3, 1e-6)),
    ],
    ids=["pure", "approximate"],
)
def test_threads_never_overdraw(terms, whole):
    ledger, refused = PrivacyLedger(**terms), []

    def spend():
        for _ in range(20):
            try:
                pay(ledger, whole * Fraction(1, 100))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.charges), len(refused)) == (100, 60)
    with pytest.raises(BudgetError, match="remains"):
        pay(ledger, type(whole)(Fraction(1, 10**30)))
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
    return Provenance.spent(budget, neighboring, "splits")


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


# Ledgers of (ε, δ) --------------------------------------------------------------------------------

DELTA = 1e-6
LEAST = Fraction(1, 10**30)
TOTALS = st.sampled_from([(3, DELTA), (0.5, 1e-9), (10, 1e-5), (1, 0.01)])
PURE = st.fractions(Fraction(1, 1000), 2, max_denominator=1000).map(PureDP)
GAUSSIAN = st.fractions(Fraction(1, 10**5), Fraction(1, 5), max_denominator=10**5).map(ZCDP)
CHARGES = st.lists(st.one_of(PURE, GAUSSIAN), max_size=8)


def approximate_pay(ledger, budget):
    return ledger.charge(budget, "a release", neighboring="add_remove")


def fits(ledger, budget):
    try:
        ledger.check(budget, "a release", neighboring="add_remove")
    except BudgetError:
        return False
    return True


def approximate_charged(total, budgets):
    """Return a ledger of what fits of the charges, in their order."""
    ledger = PrivacyLedger(epsilon=total[0], delta=total[1])
    for budget in budgets:
        if fits(ledger, budget):
            approximate_pay(ledger, budget)
    return ledger


def converted(rho, delta):
    """Return the least ε of Proposition 12 of Canonne, Kamath and Steinke, by a search of its own.

    >>> converted(0, 1e-6)
    0.0
    """
    if rho == 0 or delta**2 >= 1 - exp(-rho):
        return 0.0

    def epsilon(x):
        order = 1 + exp(x)
        return order * rho + log1p(-1 / order) - log(delta * order) / (order - 1)

    grid = np.linspace(-8, 12, 400)
    best = grid[int(np.argmin([epsilon(x) for x in grid]))]
    return minimize_scalar(epsilon, bounds=(best - 0.1, best + 0.1), method="bounded").fun


def composed(budgets, delta):
    """Return the ε of known charges: pure ones as they are, or all of them as ρ."""
    pure = [float(one.exact) for one in budgets if isinstance(one, PureDP)]
    rho = sum(float(one.exact) for one in budgets if isinstance(one, ZCDP))
    as_rho = rho + sum(one**2 / 2 for one in pure)
    return min(sum(pure) + converted(rho, delta), converted(as_rho, delta))


# -- what fits --------------------------------------------------------------------------------


@given(total=TOTALS, budgets=CHARGES)
def test_what_is_accepted_composes_to_the_total_at_most(total, budgets):
    ledger = approximate_charged(total, budgets)
    kept = [charge.budget for charge in ledger.charges]
    assert composed(kept, total[1]) <= total[0] * (1 + 1e-12)
    assert sum(ledger.shares) <= 1
    assert ledger.spent.epsilon == sum(one.exact for one in kept if isinstance(one, PureDP))
    assert ledger.spent.rho == sum(one.exact for one in kept if isinstance(one, ZCDP))
    assert ledger.spent_epsilon(total[1]) <= total[0] * (1 + 1e-12)


def test_laplace_and_gaussian_noise_together_stay_below_by_their_exact_law():
    from dp_accounting import dp_event
    from dp_accounting.pld import PLDAccountant

    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    accountant = PLDAccountant(value_discretization_interval=1e-3)
    for budget in (PureDP(1), ZCDP.for_approximate_dp(1, DELTA), PureDP(0.5)):
        approximate_pay(ledger, budget)
        scale = float(budget.exact)
        accountant.compose(
            dp_event.LaplaceDpEvent(1 / scale)
            if isinstance(budget, PureDP)
            else dp_event.GaussianDpEvent((2 * scale) ** -0.5)
        )
    while fits(ledger, ZCDP(0.005)):
        approximate_pay(ledger, ZCDP(0.005))
        accountant.compose(dp_event.GaussianDpEvent(0.01**-0.5))
    assert 1.5 < accountant.get_epsilon(DELTA) <= 3


@given(total=TOTALS, budgets=CHARGES)
def test_what_remains_fits_to_the_last_fraction_and_no_more(total, budgets):
    for kind in (PureDP, ZCDP):
        ledger = approximate_charged(total, budgets)
        left = getattr(ledger.remaining, kind.parameter)
        assert not fits(ledger, kind(left + max(left, Fraction(1, 10**6)) * Fraction(1, 10**25)))
        if left:
            assert fits(ledger, kind(left))
            approximate_pay(ledger, kind(left))
            # a root is rounded downward, so that a crumb may be left of it
            assert getattr(ledger.remaining, kind.parameter) <= Fraction(1, 10**12)


@pytest.mark.parametrize("budget", [PureDP(3), ZCDP.for_approximate_dp(3, DELTA)])
def test_the_whole_of_an_empty_ledger_fits_by_either_law_and_then_nothing_does(budget):
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    approximate_pay(ledger, budget)
    assert (ledger.remaining.epsilon, ledger.remaining.rho) == (0, 0)
    assert not fits(ledger, PureDP(LEAST))
    assert not fits(ledger, ZCDP(LEAST))
    assert "nothing remains" in ledger.statement
    assert sum(ledger.shares) == 1


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_of_the_whole_use_it_up(parts):
    for whole in (PureDP(3), ZCDP.for_approximate_dp(3, DELTA)):
        ledger = approximate_charged((3, DELTA), whole.split(parts))
        assert len(ledger.charges) == parts
        assert not fits(ledger, type(whole)(LEAST))


def test_a_gaussian_release_takes_exactly_what_pure_ones_before_it_leave():
    ledger = approximate_charged(
        (3, DELTA), [PureDP(1), PureDP(1), ZCDP.for_approximate_dp(1, DELTA)]
    )
    assert len(ledger.charges) == 3
    assert ledger.shares[:2] == [Fraction(1, 3)] * 2
    assert sum(ledger.shares) == 1
    assert (ledger.remaining.epsilon, ledger.remaining.rho) == (0, 0)


def test_many_small_pure_charges_fit_beyond_their_sum():
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    while fits(ledger, PureDP(0.05)):
        approximate_pay(ledger, PureDP(0.05))
    assert ledger.spent.epsilon > 7
    assert ledger.spent_epsilon(DELTA) <= 3


# -- order ------------------------------------------------------------------------------------


@given(total=TOTALS, budgets=st.lists(st.one_of(PURE, GAUSSIAN), max_size=3))
def test_pure_charges_first_fit_where_last_and_order_is_else_no_matter(total, budgets):
    accepted = [
        order
        for order in permutations(budgets)
        if len(approximate_charged(total, order).charges) == len(order)
    ]
    if any(isinstance(order[0], ZCDP) for order in accepted if order):
        first = sorted(budgets, key=lambda one: isinstance(one, ZCDP))
        assert len(approximate_charged(total, first).charges) == len(budgets)
    for order in accepted:
        at = next((n for n, one in enumerate(order) if isinstance(one, ZCDP)), len(order))
        other = [*reversed(order[:at]), *order[at : at + 1], *reversed(order[at + 1 :])]
        assert len(approximate_charged(total, other).charges) == len(budgets)


def mechanism(losses, chances):
    """Return probabilities under two neighbours, of outcomes of given losses and of a rest."""
    under = np.append(chances, 1 - sum(chances))
    beside = np.array(chances) * np.exp(-np.array(losses))
    return under, np.append(beside, 1 - beside.sum())


def is_zcdp(pair, rho):
    orders = 1 + np.geomspace(1e-3, 1e3, 4000)[:, None]
    for p, q in (pair, pair[::-1]):
        divergences = logsumexp(orders * np.log(p) + (1 - orders) * np.log(q), axis=1)
        if (divergences > ((orders - 1) * rho * orders)[:, 0]).any():
            return False
    return True


def test_answers_cannot_be_used_to_choose_between_two_bounds():
    """After one release 2 more of ε compose to (3, δ), or all its ρ; a choice by answers does not.

    An analyst who asks a pure 2 where the first answer was telling, and ρ elsewhere, gets 1.6 δ.
    """
    first, whole = (ZCDP.for_approximate_dp(epsilon, DELTA) for epsilon in (1, 3))
    rest = whole - first
    assert composed([first, PureDP(2)], DELTA) <= 3
    assert composed([first, rest], DELTA) <= 3
    one = mechanism([1.0466, 0.4104], [1.952e-5, 0.19233])
    two = mechanism([2.7084], [4.12e-5])
    assert is_zcdp(one, float(first.exact))
    assert is_zcdp(two, float(rest.exact))
    truth = np.array([exp(2), 1]) / (1 + exp(2))
    pairs = [(one[0][0] * truth, one[1][0] * truth[::-1])]
    pairs += [(one[0][n] * two[0], one[1][n] * two[1]) for n in (1, 2)]
    lost = sum(np.maximum(p - exp(3) * q, 0).sum() for p, q in pairs)
    assert lost > 1.6 * DELTA
    ledger = approximate_charged((3, DELTA), [first])
    assert fits(ledger, rest)
    assert not fits(ledger, PureDP(2))


# -- terms and refusals -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"rho": 1, "delta": DELTA}, "delta beside epsilon only"),
        ({"delta": DELTA}, "delta beside epsilon only"),
        ({"budget": PureDP(1), "delta": DELTA}, "alone"),
        ({"epsilon": inf, "delta": DELTA}, "claims nothing"),
        ({"epsilon": 1, "delta": 1}, "delta is out of its range"),
        ({"epsilon": 1, "delta": -0.1}, "delta=-0.1"),
        ({"epsilon": 0, "delta": DELTA}, "epsilon=0"),
        ({"epsilon": Fraction(1, 10**150), "delta": DELTA}, "1e-140"),
    ],
)
def test_terms_that_cannot_be_are_refused(terms, message):
    with pytest.raises(BudgetError, match=message):
        PrivacyLedger(**terms)


def test_terms_are_taken_as_written_and_delta_0_is_pure():
    assert PrivacyLedger(epsilon=3, delta=DELTA).budget == ApproximateDP(3, Fraction(1, 10**6))
    assert PrivacyLedger(ApproximateDP(3, DELTA)).budget == ApproximateDP(3, DELTA)
    assert PrivacyLedger(epsilon=3, delta=0).budget == PureDP(3)


def test_a_refusal_says_what_is_left_and_a_claim_that_fits_by_either_law():
    ledger = approximate_charged((3, DELTA), [PureDP(1), ZCDP.for_approximate_dp(1, DELTA)])
    with pytest.raises(BudgetError) as error:
        ledger.charge(PureDP(2), "more", neighboring="add_remove")
    text = str(error.value)
    for words in ("(epsilon=3, delta=1e-06)", "epsilon=1 and rho=0.024356 is spent", "remains"):
        assert words in text
    claim = float(text.split("Ask for at most what remains: epsilon=")[1].split(" ")[0])
    assert claim > 0.7
    assert fits(ledger, PureDP(claim))
    assert fits(ledger, ZCDP.for_approximate_dp(claim, DELTA))
    assert len(ledger.charges) == 2


def test_infinite_charges_and_another_relation_are_refused():
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    for budget in (PureDP(inf), ZCDP(inf)):
        with pytest.raises(BudgetError, match="ledger=None"):
            approximate_pay(ledger, budget)
    with pytest.raises(BudgetError, match="relation of this ledger"):
        ledger.charge(PureDP(0.1), "x", neighboring="replace_one")
    with pytest.raises(TypeError, match="PureDP"):
        approximate_pay(ledger, ApproximateDP(1, DELTA))


def test_a_pure_ledger_names_the_ledgers_that_take_gaussian_noise():
    with pytest.raises(BudgetError, match=r"PrivacyLedger\(epsilon=..., delta=...\)"):
        approximate_pay(PrivacyLedger(epsilon=3), ZCDP(0.01))


# -- one identity, files, threads, processes --------------------------------------------------


def test_copies_are_the_ledger_and_a_default_ledger_may_have_delta():
    with privacy_ledger(epsilon=3, delta=DELTA) as ledger:
        assert clone(ledger) is ledger
        assert pickle.loads(pickle.dumps(ledger)) is ledger
        assert ledger.budget == ApproximateDP(3, DELTA)


@given(total=TOTALS, budgets=CHARGES)
def test_a_record_says_the_same(total, budgets):
    ledger = approximate_charged(total, budgets)
    record = json.loads(ledger.to_json())
    read = PrivacyLedger.from_dict(record)
    assert read.to_dict() == record
    assert (read.account, read.remaining) == (ledger.account, ledger.remaining)


def test_pure_and_rho_ledgers_are_written_as_before():
    for terms in ({"epsilon": 1}, {"rho": 1}):
        record = PrivacyLedger(**terms).to_dict()
        assert record["schema_version"] == 4
        assert "filter" not in record


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("filter", "rho"), "1", "does not imply"),
        (("filter", "order"), "1", "does not imply"),
        (("filter", "after"), "1", "does not imply|not one of these charges|not the one that"),
        (("budget", "epsilon"), "2", "not one of these charges|does not imply"),
        (("budget", "delta"), "1/10000000", "does not imply"),
        (("spent", "rho"), "1/1000", "does not agree"),
        (("spent",), "1", "does not agree"),
        (("schema_version",), 4, "filter"),
        (("budget",), {"epsilon": "3"}, "delta"),
        (("charges", 1, "budget"), {"rho": "1"}, "more than"),
        (("charges", 1, "amount"), "1", "does not agree"),
    ],
)
def test_a_changed_record_is_refused(place, value, message):
    record = approximate_charged((3, DELTA), [PureDP(2), ZCDP(0.01)]).to_dict()
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger.from_dict(record)


def test_it_is_shown_in_text_tables_and_pictures():
    ledger = approximate_charged((3, DELTA), [PureDP(1), ZCDP(0.02)])
    said = "epsilon=1 and rho=0.02 is spent of (epsilon=3, delta=1e-06) (add_remove neighbours)"
    for text in (str(ledger), ledger._repr_html_(), ledger_report(ledger).statement):
        assert said in text
    assert "ApproximateDP(epsilon=3, delta=1e-06), spent epsilon=1 and rho=0.02" in repr(ledger)
    assert "Nothing is spent of (epsilon=3" in str(PrivacyLedger(epsilon=3, delta=DELTA))
    assert "share of (ε = 3, δ = 1e-06)" in BudgetDisplay.from_ledger(ledger).ax_.get_xlabel()
