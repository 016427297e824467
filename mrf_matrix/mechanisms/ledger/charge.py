"""Charges of a ledger: how they count against what it was opened for, and how they are shown."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, cast

from mrf_matrix.base.checks import BudgetError, format_number
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import WORST_FIRST, Spending, new_identity
from mrf_matrix.mechanisms.budget import UPWARD, ZCDP, Neighboring, PureDP, as_budget
from mrf_matrix.mechanisms.ledger.filter_state import (
    Amounts,
    ApproximateDP,
    FilterState,
    opening_state,
)
from mrf_matrix.mechanisms.measurement.mechanism import checked_budget
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.mechanisms.statement import ledger_statement, pays, protects

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

FINEST_BITS = 4096
"""Denominators of sums may grow this long: exact sums stay fast, whatever is charged."""

Amount = Fraction | float


WORDS = ("purpose", "data", "model")
"""What may be said of a charge besides what it paid for; published with the ledger."""


@dataclass(frozen=True)
class Charge:
    """What was spent once, on what, and when.

    Attributes
    ----------
    number : int
        1 for the ledger's first charge.
    what : str
        What was paid for. It is published with the ledger, so it names nothing private.
    budget : PureDP or ZCDP
        The budget as it was asked.
    amount : Fraction or float
        The same in the unit of the ledger (ε, or ρ; under an (ε, δ) total its own), exact;
        infinite where nothing is protected.
    neighboring : {"add_remove", "replace_one"}
        The neighbouring relation of the claim.
    noise : {"exact", "shares", "research", "none"}
        As it was drawn.
    when : datetime
        In UTC, to the second.
    purpose, data, model : str
        What the release is for, the name of the records, and the hash of the model's file, where
        they were told. Charges that differ in these only are equal.
    identity : str
        32 digits that what was paid for carries in its provenance, so that nothing that rests on
        it is added again.
    """

    number: int
    what: str
    budget: PureDP | ZCDP
    amount: Amount
    neighboring: Neighboring
    noise: Noise
    when: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    purpose: str = field(default="", compare=False)
    data: str = field(default="", compare=False)
    model: str = field(default="", compare=False)
    identity: str = field(default_factory=new_identity, compare=False)

    @property
    def is_private(self) -> bool:
        """Whether noise and budget protect what it paid for."""
        return protects(self.noise, self.budget)

    def has_paid(self, spending: Spending) -> bool:
        """Tell whether it is the charge of a spending, and of no less, by what it implies."""
        if self.identity != spending.identity:
            return False
        if WORST_FIRST.index(spending.noise) < WORST_FIRST.index(self.noise):
            return False
        return pays(self.budget, self.neighboring, spending.budget, spending.neighboring)

    def to_dict(self) -> JsonObject:
        """Return the charge as plain values, ready for JSON; fractions as exact text."""
        return {
            "number": self.number,
            "what": self.what,
            "budget": self.budget.to_dict(),
            "amount": str(self.amount),
            "noise": self.noise,
            "is_private": self.is_private,
            "when": self.when.isoformat(),
            "identity": self.identity,
            **self.words,
        }

    @property
    def words(self) -> dict[str, str]:
        """Purpose, data and model, as far as they were given."""
        return {word: told for word in WORDS if (told := getattr(self, word))}

    def __str__(self) -> str:
        note = "" if self.is_private else f" (not private: noise {self.noise!r})"
        return f"{self.number}. {self.budget!r} for {self.what}{note}"


@dataclass(frozen=True)
class Account:
    """Charges and their exact sum; under an (ε, δ) total, where they stand."""

    charges: tuple[Charge, ...] = ()
    spent: Amount | FilterState = Fraction(0)

    @property
    def is_private(self) -> bool:
        return all(charge.is_private for charge in self.charges)

    def with_words(self, number: int, words: dict[str, str]) -> "Account":
        """Return the account with words for one charge; a word that it has already stays."""
        if not 1 <= number <= len(self.charges):
            raise ValueError(f"number={number}: expected that of a charge, 1 for the first.")
        charge = self.charges[number - 1]
        changed = [word for word in words if charge.words.get(word, words[word]) != words[word]]
        if changed:
            raise ValueError(f"charge {number} says its {changed[0]} already, and keeps it.")
        made = replace(charge, **words)  # type: ignore[arg-type]
        charges = (*self.charges[: number - 1], made, *self.charges[number:])
        return replace(self, charges=charges)

    def with_charge(self, charge: Charge) -> "Account":
        spent = self.spent
        sums: Amount | FilterState
        if isinstance(spent, FilterState):
            sums = spent.with_charge(charge.budget)
            amounts: tuple[Amount, ...] = (sums.pure, sums.rho, sums.used)
        else:
            amounts = (sums := spent + charge.amount,)
        exact = [one for one in amounts if isinstance(one, Fraction)]
        if any(one.denominator.bit_length() > FINEST_BITS for one in exact):
            raise BudgetError(
                f"{charge.budget!r} makes a sum with a denominator of more than {FINEST_BITS} "
                f"bits: expected amounts with fewer digits."
            )
        return Account((*self.charges, charge), sums)


Total = PureDP | ZCDP | ApproximateDP
DOWNWARD = Context(prec=6, rounding=ROUND_FLOOR)


@dataclass(frozen=True)
class LedgerTerms:
    """What a ledger was opened for: its total budget and its neighbouring relation."""

    budget: Total
    neighboring: Neighboring

    @property
    def opening_account(self) -> Account:
        total = self.budget
        return (
            Account(spent=opening_state(total)) if isinstance(total, ApproximateDP) else Account()
        )

    def amount_of(self, budget: object) -> Amount:
        """Return a charge's amount as this ledger counts it: under (ε, δ) as it was asked.

        Raises BudgetError if a zCDP charge is put to a pure-DP ledger; TypeError if it is no
        budget.
        """
        if isinstance(self.budget, ApproximateDP) and isinstance(budget, PureDP | ZCDP):
            return budget.amount
        return amount_in(type(cast("PureDP | ZCDP", self.budget)), budget)

    def fits(self, account: Account) -> bool:
        if isinstance(account.spent, FilterState):
            return account.spent.fits
        return account.spent <= cast("PureDP | ZCDP", self.budget).amount

    def remaining(self, account: Account) -> Amount | Amounts:
        """Return what is left, exact; infinite where the budget is.

        Under (ε, δ): the largest ε, and the largest ρ, that one more charge may have.
        """
        if isinstance(account.spent, FilterState):
            return account.spent.remaining
        total = cast("PureDP | ZCDP", self.budget)
        return float("inf") if total.is_infinite else total.amount - account.spent

    def shares(self, account: Account) -> list[Amount]:
        """Return each charge's share of a finite total."""
        if isinstance(account.spent, FilterState):
            return [*account.spent.shares([charge.budget for charge in account.charges])]
        whole = cast("PureDP | ZCDP", self.budget).exact
        return [charge.amount / whole for charge in account.charges]

    @property
    def words(self) -> str:
        """The total, for people: ``epsilon=1``, ``(epsilon=3, delta=1e-06)``."""
        total = self.budget
        if isinstance(total, ApproximateDP):
            return str(total)
        return amount_text(total.amount, type(total))

    def spent_words(self, account: Account) -> str:
        """Return what is spent, for people; under (ε, δ) of both kinds, upward to six digits."""
        if not isinstance(account.spent, FilterState):
            return amount_text(account.spent, type(cast("PureDP | ZCDP", self.budget)))
        spent = account.spent.amounts
        of_kinds = {"epsilon": spent.epsilon, "rho": spent.rho}
        found = [f"{kind}={short_text(sum_, UPWARD)}" for kind, sum_ in of_kinds.items() if sum_]
        return " and ".join(found) or "nothing"

    def remaining_words(self, account: Account) -> str:
        """Return what is left, for people; under (ε, δ) of either kind, downward to six digits."""
        left = self.remaining(account)
        if not isinstance(left, Amounts):
            return amount_text(left, type(cast("PureDP | ZCDP", self.budget)))
        if not left.epsilon and not left.rho:
            return "nothing"
        return (
            f"epsilon={short_text(left.epsilon, DOWNWARD)} or rho={short_text(left.rho, DOWNWARD)}"
        )


def total_of(
    budget: object, epsilon: object = None, rho: object = None, delta: object = None
) -> Total:
    """Return the total budget, given exactly once.

    Raises BudgetError if it is not, or δ is given without ε.
    """
    if budget is not None:
        if (epsilon, rho, delta) != (None, None, None):
            raise BudgetError(
                f"budget={budget!r} with epsilon={epsilon!r}, rho={rho!r} and delta={delta!r}: "
                f"expected budget, epsilon (with delta, if any), or rho alone."
            )
        return budget if isinstance(budget, ApproximateDP) else checked_budget(budget)
    if delta is None or delta == 0:
        return as_budget(epsilon=epsilon, rho=rho)
    if epsilon is None or rho is not None:
        raise BudgetError(
            f"delta={delta!r} with epsilon={epsilon!r} and rho={rho!r}: expected delta beside "
            f"epsilon only. A ledger of rho says what was spent at any delta: spent_epsilon(delta)."
        )
    return ApproximateDP(epsilon, delta)  # type: ignore[arg-type]


def amount_in(unit: type[PureDP] | type[ZCDP], budget: object) -> Amount:
    """Return a charge's amount in a unit, ε or ρ.

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
        "a claim by rho= or delta=, whose noise is Gaussian, was put to a ledger of pure DP, which "
        "that does not imply: expected epsilon= and delta=0, or a ledger that takes both: "
        "PrivacyLedger(epsilon=..., delta=...) or PrivacyLedger(rho=...)."
    )


def amount_text(amount: Amount, unit: type[PureDP] | type[ZCDP]) -> str:
    return f"{unit.parameter}={format_number(amount)}"


def short_text(amount: Fraction, rounding: Context) -> str:
    """Write an exact number with at most six digits, rounded by a context where it has more.

    >>> short_text(Fraction(1, 2), UPWARD), short_text(Fraction(2, 3), DOWNWARD)
    ('0.5', '0.666666')
    """
    found = rounding.divide(Decimal(amount.numerator), Decimal(amount.denominator))
    return format_number(Fraction(found))


HEADER = ("#", "what it paid for", "asked", "spent", "noise", "when (UTC)")


def statement(terms: LedgerTerms, account: Account) -> str:
    """Return one sentence on what everything charged claims together.

    >>> statement(LedgerTerms(PureDP(1), "add_remove"), Account())
    'Nothing is spent of epsilon=1 (add_remove neighbours); epsilon=1 remains.'

    Under an (ε, δ) total the largest charge of either kind that would fit:

    >>> terms = LedgerTerms(ApproximateDP(3, 1e-6), "add_remove")
    >>> print(statement(terms, terms.opening_account)[-34:])
    epsilon=3 or rho=0.185069 remains.
    """
    of = f"{terms.words} ({terms.neighboring} neighbours)"
    left = terms.remaining_words(account)
    if not account.charges:
        return f"Nothing is spent of {of}; {left} remains."
    spent = f"{terms.spent_words(account)} is spent of {of}; {left} remains."
    return ledger_statement([charge.is_private for charge in account.charges], spent)


def rows_of(account: Account) -> list[tuple[str, ...]]:
    return [_row(charge) for charge in account.charges]


def _row(charge: Charge) -> tuple[str, ...]:
    asked = amount_text(charge.budget.amount, type(charge.budget))
    return (
        str(charge.number),
        "; ".join([charge.what, *_words(charge)]),
        asked,
        format_number(charge.amount),
        charge.noise if charge.is_private else f"{charge.noise} (not private)",
        charge.when.strftime("%Y-%m-%d %H:%M"),
    )


def _words(charge: Charge) -> list[str]:
    """Return the words of a charge; of a hash its first 12 digits."""
    words = charge.words
    return [
        told if word == "purpose" else f"{word} {told[:12] if word == 'model' else told}"
        for word, told in words.items()
    ]


def as_table(terms: LedgerTerms, account: Account) -> "Table | Text":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not account.charges:
        return Text(statement(terms, account))
    table = Table(
        title="Privacy ledger",
        title_justify="left",
        title_style="bold",
        caption=Text(statement(terms, account)),
        caption_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
    )
    for name in HEADER:
        is_number = name in ("#", "asked", "spent")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows_of(account):
        table.add_row(*map(Text, row))  # Text: a description is no markup
    return table
