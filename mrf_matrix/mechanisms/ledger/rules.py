"""What a ledger accepts: each rule refuses with what was asked, what is left, and the remedy."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from mrf_matrix.base import is_plain_line
from mrf_matrix.base.checks import BudgetError, check_parent_process, one_word
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import Neighboring, as_budget, checked_neighboring
from mrf_matrix.mechanisms.ledger.charge import WORDS, Account, Amount, Charge, amount_text
from mrf_matrix.mechanisms.measurement.mechanism import checked_budget
from mrf_matrix.mechanisms.measurement.release import NOISE_KINDS, PRIVATE_NOISE, Noise

LONGEST_WHAT = 500

INSTEAD_OF_INFINITE = (
    ", use ledger=None for a release without privacy, or a PrivacyLedger(epsilon=float('inf')), "
    "which lists it as not private"
)


@dataclass(frozen=True)
class Terms:
    """What a ledger was opened for: its total budget and its neighbouring relation."""

    budget: PureDP | ZCDP
    neighboring: Neighboring

    @property
    def unit(self) -> type[PureDP] | type[ZCDP]:
        """The kind of budget that amounts are counted in."""
        return type(self.budget)


def next_charge(
    terms: Terms,
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
    amount = amount_in(terms.unit, budget)
    charge = Charge(
        number=len(account.charges) + 1,
        what=checked_what(what),
        budget=budget,
        amount=amount,
        neighboring=checked_neighboring(neighboring),
        noise=checked_kind(noise, budget),
    )
    if charge.neighboring != terms.neighboring:
        raise BudgetError(
            f"{what} claims privacy under neighboring={neighboring!r}: expected "
            f"{terms.neighboring!r}, the relation of this ledger. Change the estimator's "
            f"neighboring, or charge another ledger."
        )
    if amount > account.left(terms.budget):
        raise BudgetError(_overdraws(terms, account, charge))
    if charge.noise in PRIVATE_NOISE:
        check_parent_process()
    return charge


def _overdraws(terms: Terms, account: Account, charge: Charge) -> str:
    asked, total, spent, left = (
        amount_text(amount, terms.unit)
        for amount in (
            charge.amount,
            terms.budget.amount,
            account.spent,
            account.left(terms.budget),
        )
    )
    return (
        f"{charge.what} asks for {asked}, but of the ledger's {total}, {spent} is spent and "
        f"{left} remains. Nothing was read or spent. Ask for at most what remains"
        + INSTEAD_OF_INFINITE * charge.budget.is_infinite
        + "."
    )


def total_of(budget: object, epsilon: object, rho: object) -> PureDP | ZCDP:
    """Return the total budget, given exactly once."""
    if budget is None:
        return as_budget(epsilon=epsilon, rho=rho)
    if epsilon is not None or rho is not None:
        raise BudgetError(
            f"budget={budget!r} with epsilon={epsilon!r} and rho={rho!r}: expected exactly one of "
            f"the three."
        )
    return checked_budget(budget)


def amount_in(unit: type[PureDP] | type[ZCDP], budget: object) -> Amount:
    """Return a charge's amount in the unit of a ledger.

    ε-DP implies ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4); zCDP implies no pure DP.

    Raises BudgetError if a zCDP charge is put to a pure-DP ledger; TypeError if it is no budget.
    """
    if not isinstance(budget, PureDP | ZCDP):
        raise TypeError(
            f"budget={budget!r} is of type {type(budget).__name__}: expected PureDP(epsilon) or "
            f"ZCDP(rho)."
        )
    if isinstance(budget, unit):
        return budget.amount
    if isinstance(budget, PureDP):
        return budget.to_zcdp().amount
    raise BudgetError(
        f"{budget!r} was put to a ledger of pure DP, which zCDP does not imply: expected "
        f"PureDP(epsilon), or a ledger PrivacyLedger(rho=...), which takes both."
    )


def checked_what(what: object) -> str:
    """Return a description of what is paid for, or refuse."""
    if not isinstance(what, str):
        raise TypeError(f"what={what!r}: expected a text that says what the charge pays for.")
    if not what.strip() or len(what) > LONGEST_WHAT:
        raise ValueError(
            f"what has {len(what)} characters: expected 1 to {LONGEST_WHAT} that say what the "
            f"charge pays for."
        )
    if not is_plain_line(what):  # others could act on the terminal of a reader
        raise ValueError(f"what={what[:80]!r}: expected one line of printable characters.")
    return what


def checked_words(words: Mapping[str, object]) -> dict[str, str]:
    """Return what is told of a charge's purpose, data and model, or refuse."""
    strange = [word for word in words if word not in WORDS]
    if strange:
        raise ValueError(f"{strange[0]}: expected {', '.join(WORDS)}.")
    return {word: checked_what(told) for word, told in words.items()}


def checked_kind(noise: object, budget: PureDP | ZCDP) -> Noise:
    """Return the noise of a charge: "none" for an infinite budget, whatever was asked."""
    kind = one_word("noise", noise, NOISE_KINDS)
    if not budget.is_infinite and kind == "none":
        raise ValueError(f"noise='none' for {budget!r}: expected an infinite budget without noise.")
    return "none" if budget.is_infinite else kind


def epsilon_of(account: Account, delta: float) -> float:
    """Return an ε for which everything charged is (ε, δ)-DP together.

    The charges' ρ add up (ε²/2 of a pure charge), and the sum is converted as `ZCDP.epsilon`
    does it. Charges that are all pure also add up as they are; the smaller figure is returned.

    >>> epsilon_of(Account(), 1e-6)
    0.0
    """
    ZCDP(1).epsilon(delta)  # refuses a delta that is none, whatever was charged
    budgets = [charge.budget for charge in account.charges]
    if not budgets:
        return 0.0
    if any(budget.is_infinite for budget in budgets):
        return float("inf")
    rho = sum((Fraction(amount_in(ZCDP, budget)) for budget in budgets), Fraction(0))
    best = ZCDP(rho).epsilon(delta)
    if all(isinstance(budget, PureDP) for budget in budgets):
        return min(best, float(sum(budget.exact for budget in budgets)))
    return best
