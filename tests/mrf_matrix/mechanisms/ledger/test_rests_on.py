"""A ledger pays for what a release rests on: once each, by what it implies."""

from fractions import Fraction

import pytest

from mrf_matrix import Provenance, PureDP
from mrf_matrix.base.provenance import Spending
from mrf_matrix.mechanisms import ZCDP, BudgetError, PrivacyLedger
from mrf_matrix.mechanisms.statement import composed

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
