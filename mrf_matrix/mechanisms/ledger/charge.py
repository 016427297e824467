"""One charge of a ledger, and the account that charges add up to. Both are values."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

from mrf_matrix.base.checks import BudgetError, readable
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import Neighboring
from mrf_matrix.mechanisms.measurement.release import PRIVATE_NOISE, Noise

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
        The same in the unit of the ledger (ε, or ρ), exact; infinite where nothing is protected.
    neighboring : {"add_remove", "replace_one"}
        The neighbouring relation of the claim.
    noise : {"exact", "shares", "research", "none"}
        Only "exact" noise and "shares" make a private release.
    when : datetime
        In UTC, to the second.
    purpose, data, model : str
        What the release is for, the name of the records, and the hash of the model's file, where
        they were told. Charges that differ in these only are equal.
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

    @property
    def is_private(self) -> bool:
        """Whether it paid for a private release: exact noise of a finite budget."""
        return self.noise in PRIVATE_NOISE and not self.budget.is_infinite

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
            **self.words,
        }

    @property
    def words(self) -> dict[str, str]:
        """What was told of purpose, data and model."""
        return {word: told for word in WORDS if (told := getattr(self, word))}

    def __str__(self) -> str:
        note = "" if self.is_private else f" (not private: noise {self.noise!r})"
        return f"{self.number}. {self.budget!r} for {self.what}{note}"


@dataclass(frozen=True)
class Account:
    """Charges and their exact sum."""

    charges: tuple[Charge, ...] = ()
    spent: Amount = Fraction(0)

    @property
    def is_private(self) -> bool:
        """Whether every charge paid for a private release."""
        return all(charge.is_private for charge in self.charges)

    def left(self, total: PureDP | ZCDP) -> Amount:
        """Return what is left of a total budget, exact; infinite where the budget is."""
        return float("inf") if total.is_infinite else total.amount - self.spent

    def told(self, number: int, words: dict[str, str]) -> "Account":
        """Return the account with words for one charge; no word that was told is changed."""
        if not 1 <= number <= len(self.charges):
            raise ValueError(f"number={number}: expected that of a charge, 1 for the first.")
        charge = self.charges[number - 1]
        changed = [word for word in words if charge.words.get(word, words[word]) != words[word]]
        if changed:
            raise ValueError(f"charge {number} says its {changed[0]} already, and keeps it.")
        made = replace(charge, **words)  # type: ignore[arg-type]
        charges = (*self.charges[: number - 1], made, *self.charges[number:])
        return replace(self, charges=charges)

    def plus(self, charge: Charge) -> "Account":
        """Return the account with one more charge."""
        total = self.spent + charge.amount
        if isinstance(total, Fraction) and total.denominator.bit_length() > FINEST_BITS:
            raise BudgetError(
                f"{charge.budget!r} makes a sum with a denominator of more than {FINEST_BITS} "
                f"bits: expected amounts with fewer digits."
            )
        return Account((*self.charges, charge), total)


def amount_text(amount: Amount, unit: type[PureDP] | type[ZCDP]) -> str:
    """Write an amount with its unit, for people: ``epsilon=0.1``."""
    return f"{unit.parameter}={readable(amount)}"
