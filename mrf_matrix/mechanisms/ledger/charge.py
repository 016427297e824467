"""One charge of a ledger, and the account that charges add up to. Both are values."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction

from mrf_matrix.base.checks import BudgetError
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import WORST_FIRST, Spending, new_identity
from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP
from mrf_matrix.mechanisms.budgets.claim import Neighboring
from mrf_matrix.mechanisms.ledger.standing import Standing
from mrf_matrix.mechanisms.measurement.release import Noise
from mrf_matrix.mechanisms.statement import pays, protects

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
        """What was told of purpose, data and model."""
        return {word: told for word in WORDS if (told := getattr(self, word))}

    def __str__(self) -> str:
        note = "" if self.is_private else f" (not private: noise {self.noise!r})"
        return f"{self.number}. {self.budget!r} for {self.what}{note}"


@dataclass(frozen=True)
class Account:
    """Charges and their exact sum; under an (ε, δ) total, where they stand."""

    charges: tuple[Charge, ...] = ()
    spent: Amount | Standing = Fraction(0)

    @property
    def is_private(self) -> bool:
        """Whether noise and budget protect what every charge paid for."""
        return all(charge.is_private for charge in self.charges)

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
        spent = self.spent
        sums: Amount | Standing
        if isinstance(spent, Standing):
            sums = spent.plus(charge.budget)
            amounts: tuple[Amount, ...] = (sums.pure, sums.rho, sums.used)
        else:
            amounts = (sums := spent + charge.amount,)
        if any(isinstance(one, Fraction) and _bits(one) > FINEST_BITS for one in amounts):
            raise BudgetError(
                f"{charge.budget!r} makes a sum with a denominator of more than {FINEST_BITS} "
                f"bits: expected amounts with fewer digits."
            )
        return Account((*self.charges, charge), sums)


def _bits(amount: Fraction) -> int:
    return amount.denominator.bit_length()
