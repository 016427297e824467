"""A ledger of (ε, δ): both laws, never above the total, whatever is asked after what."""

import json
import pickle
import threading
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product
from math import exp, inf, log, log1p

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from joblib import Parallel, delayed
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.base import clone

from mrf_matrix import privacy_ledger
from mrf_matrix.mechanisms import (
    ZCDP,
    ApproximateDP,
    BudgetError,
    LedgerError,
    PrivacyLedger,
    PureDP,
)
from mrf_matrix.mechanisms.ledger.standing import (
    PrivacyFilter,
    opening,
    privacy_filter,
    root_below,
    standing_of,
)

DELTA = 1e-6
LEAST = Fraction(1, 10**30)
TOTALS = st.sampled_from([(3, DELTA), (0.5, 1e-9), (10, 1e-5), (1, 0.01)])
PURE = st.fractions(Fraction(1, 1000), 2, max_denominator=1000).map(PureDP)
GAUSSIAN = st.fractions(Fraction(1, 10**5), Fraction(1, 5), max_denominator=10**5).map(ZCDP)
CHARGES = st.lists(st.one_of(PURE, GAUSSIAN), max_size=8)


def pay(ledger, budget):
    return ledger.charge(budget, "a release", neighboring="add_remove")


def fits(ledger, budget):
    try:
        ledger.check(budget, "a release", neighboring="add_remove")
    except BudgetError:
        return False
    return True


def charged(total, budgets):
    """Return a ledger of what fits of the charges, in their order."""
    ledger = PrivacyLedger(epsilon=total[0], delta=total[1])
    for budget in budgets:
        if fits(ledger, budget):
            pay(ledger, budget)
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
    ledger = charged(total, budgets)
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
        pay(ledger, budget)
        scale = float(budget.exact)
        accountant.compose(
            dp_event.LaplaceDpEvent(1 / scale)
            if isinstance(budget, PureDP)
            else dp_event.GaussianDpEvent((2 * scale) ** -0.5)
        )
    while fits(ledger, ZCDP(0.005)):
        pay(ledger, ZCDP(0.005))
        accountant.compose(dp_event.GaussianDpEvent(0.01**-0.5))
    assert 1.5 < accountant.get_epsilon(DELTA) <= 3


@given(total=TOTALS, budgets=CHARGES)
def test_what_remains_fits_to_the_last_fraction_and_no_more(total, budgets):
    for kind in (PureDP, ZCDP):
        ledger = charged(total, budgets)
        left = getattr(ledger.remaining, kind.parameter)
        assert not fits(ledger, kind(left + max(left, Fraction(1, 10**6)) * Fraction(1, 10**25)))
        if left:
            assert fits(ledger, kind(left))
            pay(ledger, kind(left))
            # a root is rounded downward, so that a crumb may be left of it
            assert getattr(ledger.remaining, kind.parameter) <= Fraction(1, 10**12)


@pytest.mark.parametrize("budget", [PureDP(3), ZCDP.for_approximate_dp(3, DELTA)])
def test_the_whole_of_an_empty_ledger_fits_by_either_law_and_then_nothing_does(budget):
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    pay(ledger, budget)
    assert (ledger.remaining.epsilon, ledger.remaining.rho) == (0, 0)
    assert not fits(ledger, PureDP(LEAST))
    assert not fits(ledger, ZCDP(LEAST))
    assert "nothing remains" in ledger.statement
    assert sum(ledger.shares) == 1


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_of_the_whole_use_it_up(parts):
    for whole in (PureDP(3), ZCDP.for_approximate_dp(3, DELTA)):
        ledger = charged((3, DELTA), whole.split(parts))
        assert len(ledger.charges) == parts
        assert not fits(ledger, type(whole)(LEAST))


def test_a_gaussian_release_takes_exactly_what_pure_ones_before_it_leave():
    ledger = charged((3, DELTA), [PureDP(1), PureDP(1), ZCDP.for_approximate_dp(1, DELTA)])
    assert len(ledger.charges) == 3
    assert (ledger.remaining.epsilon, ledger.remaining.rho) == (0, 0)


def test_many_small_pure_charges_fit_beyond_their_sum():
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    while fits(ledger, PureDP(0.05)):
        pay(ledger, PureDP(0.05))
    assert ledger.spent.epsilon > 7
    assert ledger.spent_epsilon(DELTA) <= 3


# -- order ------------------------------------------------------------------------------------


@given(total=TOTALS, budgets=st.lists(st.one_of(PURE, GAUSSIAN), max_size=3))
def test_pure_charges_first_fit_where_last_and_order_is_else_no_matter(total, budgets):
    accepted = [
        order for order in permutations(budgets) if len(charged(total, order).charges) == len(order)
    ]
    if any(isinstance(order[0], ZCDP) for order in accepted if order):
        first = sorted(budgets, key=lambda one: isinstance(one, ZCDP))
        assert len(charged(total, first).charges) == len(budgets)
    for order in accepted:
        at = next((n for n, one in enumerate(order) if isinstance(one, ZCDP)), len(order))
        other = [*reversed(order[:at]), *order[at : at + 1], *reversed(order[at + 1 :])]
        assert len(charged(total, other).charges) == len(budgets)


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
    ledger = charged((3, DELTA), [first])
    assert fits(ledger, rest)
    assert not fits(ledger, PureDP(2))


# -- filters ----------------------------------------------------------------------------------


EPSILONS = ["1e-140", "1e-6", "1/10", "1", "50", "1e6", "1e9"]
DELTAS = ["1e-300", "1e-9", "1e-3", "1/2", "0.999"]
ENDS = list(product(EPSILONS[::6], DELTAS[::4]))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [*((e, "1e-9") for e in EPSILONS), *(("1", d) for d in DELTAS), *ENDS]
)
def test_every_total_has_a_filter_that_takes_what_converts_to_it(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    found = privacy_filter(epsilon, delta, Fraction(0))
    assert found.rho == ZCDP.for_approximate_dp(epsilon, delta).rho
    assert found.implies(epsilon, delta)


def test_a_filter_that_lets_more_pass_implies_nothing():
    epsilon, delta = Fraction(3), Fraction(1, 10**6)
    found = privacy_filter(epsilon, delta, Fraction(0))
    for more in (
        PrivacyFilter(found.after, found.order, found.rho * (1 + Fraction(1, 10**6))),
        PrivacyFilter(Fraction(1), found.order, found.rho),
        PrivacyFilter(Fraction(-1), found.order, found.rho),
        PrivacyFilter(found.after, found.order * 2, found.rho),
        PrivacyFilter(found.after, Fraction(1, 2), found.rho),
        PrivacyFilter(found.after, Fraction(1), found.rho),
    ):
        assert not more.implies(epsilon, delta)
    assert not found.implies(epsilon, delta / 2)


@given(st.fractions(Fraction(1, 10**40), 10**40))
def test_roots_are_rounded_downward(number):
    root = root_below(number)
    assert root**2 <= number < (root * (1 + Fraction(1, 10**25))) ** 2


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
    ledger = charged((3, DELTA), [PureDP(1), ZCDP.for_approximate_dp(1, DELTA)])
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
            pay(ledger, budget)
    with pytest.raises(BudgetError, match="relation of this ledger"):
        ledger.charge(PureDP(0.1), "x", neighboring="replace_one")
    with pytest.raises(TypeError, match="PureDP"):
        pay(ledger, ApproximateDP(1, DELTA))


def test_a_pure_ledger_names_the_ledgers_that_take_gaussian_noise():
    with pytest.raises(BudgetError, match=r"PrivacyLedger\(epsilon=..., delta=...\)"):
        pay(PrivacyLedger(epsilon=3), ZCDP(0.01))


# -- one identity, files, threads, processes --------------------------------------------------


def test_copies_are_the_ledger_and_a_default_ledger_may_have_delta():
    with privacy_ledger(epsilon=3, delta=DELTA) as ledger:
        assert clone(ledger) is ledger
        assert pickle.loads(pickle.dumps(ledger)) is ledger
        assert ledger.budget == ApproximateDP(3, DELTA)


@given(total=TOTALS, budgets=CHARGES)
def test_a_record_says_the_same(total, budgets):
    ledger = charged(total, budgets)
    record = json.loads(ledger.to_json())
    read = PrivacyLedger.from_dict(record)
    assert read.to_dict() == record
    assert (read.account, read.remaining) == (ledger.account, ledger.remaining)


def test_a_file_is_continued_under_the_filter_that_it_says(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    ledger = PrivacyLedger.open(path, epsilon=3, delta=DELTA)
    for budget in (PureDP(2), ZCDP(0.01)):
        pay(ledger, budget)
    record = json.loads(path.read_text())
    assert record["schema_version"] == 5
    assert record["budget"] == {"epsilon": "3", "delta": "1/1000000"}
    assert record["filter"]["after"] == "2"
    assert PrivacyLedger.from_dict(record).to_dict() == record == ledger.to_dict()

    # another version of what converts would find other digits: the file's hold
    def other_digits(*of):
        found = privacy_filter(*of)
        return replace(found, order=found.order * Fraction(999, 1000), rho=found.rho / 2)

    monkeypatch.setattr("mrf_matrix.mechanisms.ledger.standing.privacy_filter", other_digits)
    again = PrivacyLedger.open(path, epsilon=3, delta=DELTA)
    pay(again, ZCDP(ledger.remaining.rho))
    assert ledger.remaining.rho == 0
    assert pickle.loads(pickle.dumps(ledger)).account == again.account
    for other in ({"epsilon": 3}, {"epsilon": 3, "delta": 1e-7}, {"rho": 1}):
        with pytest.raises(BudgetError, match="keeps its terms"):
            PrivacyLedger.open(path, **other)


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
    record = charged((3, DELTA), [PureDP(2), ZCDP(0.01)]).to_dict()
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(LedgerError, match=message):
        PrivacyLedger.from_dict(record)


def test_threads_never_overdraw():
    ledger = PrivacyLedger(epsilon=3, delta=DELTA)
    whole, refused = ZCDP.for_approximate_dp(3, DELTA), []

    def spend():
        for _ in range(10):
            try:
                pay(ledger, whole * Fraction(1, 50))
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(ledger.charges), len(refused), ledger.remaining.rho) == (50, 30, 0)


def spender():
    """Return a local function, sent by value: workers cannot import a test module by name."""

    def spend(ledger, rho):
        try:
            ledger.charge(ZCDP(rho), "in a worker", neighboring="add_remove", noise="research")
        except BudgetError as error:
            return str(error)
        return "charged"

    return spend


def test_processes_never_overdraw_a_file(tmp_path):
    ledger = PrivacyLedger.open(tmp_path / "ledger.json", epsilon=3, delta=DELTA)
    part = ZCDP.for_approximate_dp(3, DELTA).exact / 5
    texts = Parallel(n_jobs=2)(delayed(spender())(ledger, part) for _ in range(8))
    assert texts.count("charged") == 5
    assert all("remains" in text for text in texts if text != "charged")
    assert ledger.remaining.rho == 0


def test_it_is_shown_in_text_tables_and_pictures():
    from mrf_matrix.plotting import BudgetDisplay
    from mrf_matrix.reports import ledger_report

    ledger = charged((3, DELTA), [PureDP(1), ZCDP(0.02)])
    said = "epsilon=1 and rho=0.02 is spent of (epsilon=3, delta=1e-06) (add_remove neighbours)"
    for text in (str(ledger), ledger._repr_html_(), ledger_report(ledger).statement):
        assert said in text
    assert "ApproximateDP(epsilon=3, delta=1e-06), spent epsilon=1 and rho=0.02" in repr(ledger)
    assert "Nothing is spent of (epsilon=3" in str(PrivacyLedger(epsilon=3, delta=DELTA))
    assert "share of (ε = 3, δ = 1e-06)" in BudgetDisplay.from_ledger(ledger).ax_.get_xlabel()


def test_an_order_that_was_picked_afterwards_is_refused():
    """The filter that lets most pass, given the charges, is not the one that was fixed."""
    total = ApproximateDP(1, 1e-5)
    own = opening(total).filter
    budgets = [PureDP(Fraction(1, 2)), ZCDP(Fraction(1, 1000))]
    assert standing_of(total, own, budgets).filter == own
    rounded = replace(own, order=own.order * Fraction(1001, 1000), rho=own.rho * Fraction(99, 100))
    assert standing_of(total, rounded, budgets).filter == rounded, "as another version may round"
    picked = replace(own, order=own.order * 2, rho=own.rho / 2)
    assert picked.implies(total.epsilon, total.delta)
    with pytest.raises(BudgetError, match="not the one that a ledger of this total has"):
        standing_of(total, picked, budgets)
