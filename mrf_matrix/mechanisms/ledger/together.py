"""Charges on several ledgers at once: on all of them, or on none."""

from collections.abc import Sequence
from dataclasses import replace

from mrf_matrix.base.held_signals import held_signals
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending
from mrf_matrix.mechanisms.ledger.charge import Account, Charge
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.listening import charged, words_told
from mrf_matrix.mechanisms.ledger.rules import charges_due


def charge_together(
    ledgers: Sequence[PrivacyLedger], own: Spending, *, rests_on: Provenance = NOTHING
) -> None:
    """Charge one spending to each of several ledgers, or to none of them.

    All are asked while all are locked, in the order of their identities, so that two calls over
    the same ledgers never wait for each other. Where one cannot be written after another was, the
    other's charge is taken back. A ledger that is named twice pays twice.

    Parameters
    ----------
    ledgers : sequence of PrivacyLedger
    own : Spending
        What each is charged.
    rests_on : Provenance, optional
        See `PrivacyLedger.charge`.

    Raises
    ------
    BudgetError, NoiseProcessError, ValueError, LedgerError
        As `PrivacyLedger.charge`; nothing is charged then.
    """
    times: dict[str, int] = {}
    known: dict[str, PrivacyLedger] = {}
    for ledger in ledgers:
        times[ledger.identity] = times.get(ledger.identity, 0) + 1
        known[ledger.identity] = ledger
    waiting = [(known[name], times[name]) for name in sorted(known)]
    made: list[tuple[PrivacyLedger, list[Charge]]] = []
    with held_signals():
        try:
            _charge_rest(waiting, own, rests_on, made)
        except BaseException:
            for ledger, charges in made:
                _take_back(ledger, charges)
            raise
    for _, charges in made:
        charged(charges[-1])


def _charge_rest(
    waiting: Sequence[tuple[PrivacyLedger, int]],
    own: Spending,
    rests_on: Provenance,
    made: list[tuple[PrivacyLedger, list[Charge]]],
) -> None:
    """Charge the first ledger while it is locked, after all others were."""
    if not waiting:
        return
    (ledger, times), *others = waiting
    charges: list[Charge] = []

    def paid(account: Account) -> Account:
        for _ in range(times):
            for charge in charges_due(ledger._terms, account, own, rests_on):
                told = replace(charge, **words_told())  # type: ignore[arg-type]
                account = account.plus(told)
                charges.append(told)
        _charge_rest(others, own, rests_on, made)
        return account

    ledger._store.update(paid)
    made.append((ledger, charges))


def _take_back(ledger: PrivacyLedger, gone: Sequence[Charge]) -> None:
    """Remove charges for which nothing was drawn; others that came meanwhile stay, in order."""
    taken = {(one.number, one.identity) for one in gone}

    def rest(account: Account) -> Account:
        kept = [one for one in account.charges if (one.number, one.identity) not in taken]
        found = ledger._terms.opening
        for number, one in enumerate(kept, 1):
            found = found.plus(replace(one, number=number))
        return found

    ledger._store.update(rest)
