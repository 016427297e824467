"""Charges on several ledgers at once: on all of them, or on none."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.base.kept import held_signals
from mrf_matrix.base.provenance import NOTHING, Provenance, Spending
from mrf_matrix.mechanisms.ledger.charge import Account
from mrf_matrix.mechanisms.ledger.file import LedgerError
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.listening import charged, words_told
from mrf_matrix.mechanisms.ledger.rules import charges_due
from mrf_matrix.mechanisms.ledger.store import Put


def charge_together(
    ledgers: Sequence[PrivacyLedger],
    own: Spending,
    *,
    rests_on: Provenance = NOTHING,
) -> None:
    """Charge one spending to each of several ledgers, or to none of them.

    All are locked, in the order of their identities, so that two calls over the same ledgers never
    wait for each other; then all are asked; then all are written. Where one cannot be written,
    those before it are put back as they were, while nobody else can have charged them. A ledger
    that is named twice pays twice, for each name stands for records of its own.

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
    known = {ledger.identity: ledger for ledger in ledgers}
    times = [ledger.identity for ledger in ledgers]
    with held_signals(), ExitStack() as locks:
        puts = {name: locks.enter_context(known[name]._store.locked()) for name in sorted(known)}
        before = {name: known[name]._store.read() for name in puts}
        after = dict(before)
        for name in times:
            after[name] = _charged(known[name], after[name], own, rests_on)
        _put_all(puts, before, after)
    for name in times:
        charged(next(one for one in after[name].charges[::-1] if one.identity == own.identity))


def refusing(
    ledgers: Mapping[int, PrivacyLedger], own: Spending, *, rests_on: Provenance = NOTHING
) -> dict[int, ValueError]:
    """Return why ledgers would refuse a spending, by their numbers, where each pays in turn.

    Nothing is spent. A ledger that is named twice may pay once, and refuse then.
    """
    accounts: dict[str, Account] = {}
    found: dict[int, ValueError] = {}
    for number, ledger in ledgers.items():
        try:
            ledger._store.check()
            account = accounts.get(ledger.identity) or ledger._store.read()
            accounts[ledger.identity] = _charged(ledger, account, own, rests_on)
        except (BudgetError, LedgerError) as error:
            found[number] = error
    return found


def _charged(
    ledger: PrivacyLedger, account: Account, own: Spending, rests_on: Provenance
) -> Account:
    """Return the account of a ledger after one more charge, or refuse."""
    for charge in charges_due(ledger._terms, account, own, rests_on):
        account = account.plus(replace(charge, **words_told()))  # type: ignore[arg-type]
    return account


def _put_all(
    puts: Mapping[str, Put], before: Mapping[str, Account], after: Mapping[str, Account]
) -> None:
    """Write all accounts, or leave all as they were."""
    written: list[str] = []
    try:
        for name, put in puts.items():
            written.append(name)
            put(after[name])
    except BaseException as error:
        for name in written:
            try:
                puts[name](before[name])
            except Exception as again:  # each is tried by itself
                error.add_note(
                    f"The charge of ledger {name} may stand, though nothing was drawn for it: it "
                    f"could not be written back ({again})."
                )
        raise
