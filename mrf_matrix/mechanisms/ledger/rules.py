"""Rules of a ledger: a refusal says what was asked, what is left, and the remedy."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from fractions import Fraction
from typing import Any

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.checks import BudgetError, check_parent_process, one_word
from mrf_matrix.base.provenance import Provenance, Spending
from mrf_matrix.mechanisms.budget import ZCDP, PureDP, checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import (
    DOWNWARD,
    WORDS,
    Account,
    Charge,
    LedgerTerms,
    amount_text,
    short_text,
)
from mrf_matrix.mechanisms.ledger.filter_state import Amounts, ApproximateDP
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, Noise
from mrf_matrix.mechanisms.statement import PRIVATE_NOISE, Claim, convert_relation

LONGEST_WHAT = 500

INSTEAD_OF_INFINITE = (
    ", use ledger=None for a release without privacy, or a PrivacyLedger(epsilon=float('inf')), "
    "which lists it as not private"
)


def check_no_ledger(ledger: object, reason: str) -> None:
    """Refuse a ledger where no charge would be true.

    Raises ValueError if there is one.
    """
    if ledger is not None:
        raise ValueError(
            f"ledger was given, but {reason}: no charge would be true. Expected ledger=None, "
            f"outside of privacy_ledger."
        )


def check_claims(rests_on: Provenance, *ledgers: object) -> None:
    """Refuse ledgers for a release that could claim nothing, whatever it spends.

    Raises ValueError if it rests on what was read off records, or on what nobody stated the
    provenance of, and there is a ledger.
    """
    doubt = Claim(replace(rests_on, released=frozenset())).doubt
    for ledger in ledgers if doubt else ():
        check_no_ledger(ledger, str(doubt))


def add_charges(
    terms: LedgerTerms, account: Account, own: Spending, rests_on: Provenance
) -> Account:
    """Return an account with the charge of a spending, and of what it rests on.

    What a release rests on is charged too where this ledger has not paid for it, under its own
    identity: a relation that implies the ledger's is converted.

    Raises BudgetError, NoiseProcessError as `next_charge`; ValueError as `check_claims`.
    """
    check_claims(rests_on, terms)
    for one in (*rests_on.spendings, own):
        budget, relation = one.budget, one.neighboring
        if one is not own:
            if one.identity == own.identity or any(each.has_paid(one) for each in account.charges):
                continue
            known = convert_relation(budget, relation, terms.neighboring)
            if known is not None:
                budget, relation = known, terms.neighboring
        charge = next_charge(terms, account, budget, one.what, relation, one.noise)
        words: dict[str, Any] = current_words()
        account = account.with_charge(replace(charge, identity=one.identity, **words))
    return account


def next_charge(
    terms: LedgerTerms,
    account: Account,
    budget: PureDP | ZCDP,
    what: object,
    neighboring: object,
    noise: object,
) -> Charge:
    """Return the charge that comes next on an account, or refuse it.

    Raises BudgetError if it does not fit, or is made under another neighbouring relation;
    NoiseProcessError if its noise is exact and this is a worker process.
    """
    amount = terms.amount_of(budget)
    charge = Charge(
        number=len(account.charges) + 1,
        what=checked_what(what),
        budget=budget,
        amount=amount,
        neighboring=checked_neighboring(neighboring),
        noise=checked_noise(noise, budget),
    )
    if charge.neighboring != terms.neighboring:
        raise BudgetError(
            f"{what} claims privacy under neighboring={neighboring!r}: expected "
            f"{terms.neighboring!r}, the relation of this ledger. Change the estimator's "
            f"neighboring, or charge another ledger."
        )
    if not _fits(terms, account, charge):
        raise BudgetError(_overdraft_message(terms, account, charge))
    if charge.noise in PRIVATE_NOISE:
        check_parent_process()
    return charge


def _fits(terms: LedgerTerms, account: Account, charge: Charge) -> bool:
    if charge.budget.is_infinite and not terms.budget.is_infinite:
        return False
    return terms.fits(account.with_charge(charge))


def _overdraft_message(terms: LedgerTerms, account: Account, charge: Charge) -> str:
    counted = charge.budget if isinstance(terms.budget, ApproximateDP) else terms.budget
    asked = amount_text(charge.amount, type(counted))
    return (
        f"{charge.what} asks for {asked}, but of the ledger's {terms.words}, "
        f"{terms.spent_words(account)} is spent and {terms.remaining_words(account)} remains. "
        f"Nothing was read or spent. Ask for at most what remains"
        + _as_claim(terms, account)
        + INSTEAD_OF_INFINITE * charge.budget.is_infinite
        + "."
    )


def _as_claim(terms: LedgerTerms, account: Account) -> str:
    """Return which (ε, δ) claim of one release fits under an (ε, δ) total, by either law."""
    left = terms.remaining(account)
    if not isinstance(terms.budget, ApproximateDP) or not isinstance(left, Amounts):
        return ""
    delta = float(terms.budget.delta)
    gaussian = Fraction(ZCDP(left.rho).epsilon(delta)) if left.rho else Fraction(0)
    either = min(left.epsilon, gaussian)
    return f": epsilon={short_text(either, DOWNWARD)} with delta={delta!r}" if either else ""


def checked_what(what: object, name: str = "what") -> str:
    if not isinstance(what, str):
        raise TypeError(f"{name}={what!r}: expected a text that says what the charge pays for.")
    if not what.strip() or len(what) > LONGEST_WHAT:
        raise ValueError(
            f"{name} has {len(what)} characters: expected 1 to {LONGEST_WHAT} that say what the "
            f"charge pays for."
        )
    if not is_plain_line(what):  # others could act on the terminal of a reader
        raise ValueError(f"{name}={what[:80]!r}: expected one line of printable characters.")
    return what


def checked_words(words: Mapping[str, object]) -> dict[str, str]:
    strange = [word for word in words if word not in WORDS]
    if strange:
        raise ValueError(f"{strange[0]}: expected {', '.join(WORDS)}.")
    return {word: checked_what(told, word) for word, told in words.items()}


def checked_noise(noise: object, budget: PureDP | ZCDP) -> Noise:
    """Return the noise of a charge: "none" for an infinite budget, whatever was asked."""
    kind = one_word("noise", noise, NOISE_KINDS)
    if not budget.is_infinite and kind == "none":
        raise ValueError(f"noise='none' for {budget!r}: expected an infinite budget without noise.")
    return "none" if budget.is_infinite else kind


_DESCRIPTION: ContextVar[tuple[dict[str, str], list[Charge]] | None] = ContextVar(
    "told", default=None
)


def current_words() -> dict[str, str]:
    told = _DESCRIPTION.get()
    return {} if told is None else told[0]


def record_charge(charge: Charge) -> None:
    told = _DESCRIPTION.get()
    if told is not None:
        told[1].append(charge)


@contextmanager
def describe_charges(**words: str) -> Iterator[list[Charge]]:
    """Say the same words of all charges that this thread makes inside.

    Parameters
    ----------
    **words : str
        ``purpose``, ``data``, ``model``: see `PrivacyLedger.describe`.

    Yields
    ------
    list of Charge
        The charges made so far, in their order.

    Examples
    --------
    >>> from mrf_matrix import PrivacyLedger
    >>> from mrf_matrix.mechanisms import PureDP, describe_charges
    >>> ledger = PrivacyLedger(epsilon=1)
    >>> with describe_charges(purpose="a study") as charges:
    ...     _ = ledger.charge(PureDP(0.5), "counts", neighboring="add_remove")
    >>> charges[0].purpose
    'a study'
    """
    charges: list[Charge] = []
    token = _DESCRIPTION.set((checked_words(words), charges))
    try:
        yield charges
    finally:
        _DESCRIPTION.reset(token)
