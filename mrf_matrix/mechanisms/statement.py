"""What may be claimed of a value: the one place where a claim of privacy is composed.

A claim follows from provenance and from the laws of what was drawn. Statements, pages, ledgers and
files ask it; none of them forms a claim of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    JsonObject,
    fraction_of,
    line_of_text,
    list_of,
    object_of,
    one_line,
)
from mrf_matrix.base.provenance import WORST_FIRST, Provenance, Spending
from mrf_matrix.mechanisms.budget import NEIGHBORING, ZCDP, PureDP

Budget = PureDP | ZCDP

CLAIM, DENIAL = "Private release", "NOT A PRIVATE RELEASE"
"""How every statement begins that claims privacy, and every one that claims none."""

PRIVATE_NOISE = ("exact", "shares")
"""Noise that protects: drawn exactly by one party, or by several, a share each."""

MOST_LAWS = 3
"""Different laws that a statement writes out; of more it names the kinds."""

TWO_STEPS = {PureDP: 2, ZCDP: 4}
"""What a budget under add/remove neighbours costs a record that is replaced: ε twice, ρ by 2²."""

SPENDING_KEYS = ("budget", "neighboring", "noise", "what", "condition", "identity")
ORIGINS = ("declared", "read_off", "unknown")
MOST_SPENDINGS = 1000


def protects(noise: str, budget: Budget) -> bool:
    """Tell whether noise of a kind and a budget makes a release private."""
    return noise in PRIVATE_NOISE and not budget.is_infinite


def convert_relation(budget: Budget, neighboring: str, wanted: str) -> Budget | None:
    """Return what a budget under one relation implies under another; None where it implies none.

    To replace a record is to remove one and add another. Under replace-one neighbours nothing is
    said of how many records there are, so nothing follows under add/remove.

    >>> convert_relation(PureDP(1), "add_remove", "replace_one")
    PureDP(epsilon=2)
    """
    if neighboring == wanted:
        return budget
    return budget * TWO_STEPS[type(budget)] if neighboring == "add_remove" else None


def convert_kind(budget: Budget, kind: type[Budget]) -> Budget | None:
    """Return what a budget implies of another kind: ε makes ρ = ε²/2, and ρ makes no pure ε."""
    if isinstance(budget, kind):
        return budget
    return budget.to_zcdp() if isinstance(budget, PureDP) else None


def pays(paid: Budget, under: str, needed: Budget, needed_under: str) -> bool:
    """Tell whether a charge implies what was spent: under its own relation, of the spent kind.

    >>> pays(PureDP(1), "add_remove", ZCDP(0.5), "add_remove")
    True
    >>> pays(ZCDP(1), "add_remove", PureDP(1), "add_remove")
    False
    """
    known = convert_relation(needed, needed_under, under)
    worth = convert_kind(paid, type(needed))
    return known is not None and worth is not None and known.amount <= worth.amount


def compose_budgets(spendings: Sequence[Spending]) -> tuple[Budget, str]:
    """Return budget and relation of several charges together, by implication where they differ.

    Raises ValueError if there is none.
    """
    relations = {one.neighboring for one in spendings}
    if not relations:
        raise ValueError("spendings is empty: expected at least one.")
    wanted = relations.pop() if len(relations) == 1 else "replace_one"
    kind = ZCDP if any(isinstance(one.budget, ZCDP) for one in spendings) else PureDP
    total: Budget | None = None
    for one in spendings:
        known = convert_relation(one.budget, one.neighboring, wanted)
        amount = None if known is None else convert_kind(known, kind)
        if amount is None:
            raise ValueError(f"{one.budget!r} under {one.neighboring} neighbours does not add up.")
        total = amount if total is None else total + amount  # type: ignore[operator]
    assert total is not None
    return total, wanted


@dataclass(frozen=True)
class Claim:
    """What is claimed of a release, or of all that a fit released."""

    provenance: Provenance  # what it rests on, its own charge among it
    laws: tuple[str, ...] = ()  # of each draw of its own, in words
    delta: float = 0.0  # of an (ε, δ) claim; 0 for none
    asked: str = "add_remove"  # the relation that was asked for, before anything is spent under it

    @property
    def spendings(self) -> tuple[Spending, ...]:
        return self.provenance.spendings

    @property
    def budget(self) -> Budget | None:
        """What is spent in all; None before anything is."""
        return compose_budgets(self.spendings)[0] if self.spendings else None

    @property
    def neighboring(self) -> str:
        """The relation that it holds under."""
        return compose_budgets(self.spendings)[1] if self.spendings else self.asked

    @property
    def noise(self) -> str:
        """The noise that decides what may be claimed: the worst of all."""
        drawn = [one.noise for one in self.spendings]
        return min(drawn, key=WORST_FIRST.index) if drawn else "none"

    @property
    def is_private(self) -> bool:
        """Whether it is a private release: exact noise, finite budgets, nothing read off."""
        return self.doubt is None and bool(self.laws) and self.noise in PRIVATE_NOISE

    @property
    def doubt(self) -> str | None:
        """Why nothing can be claimed, whatever the noise; None where something can."""
        if self.provenance.read_off:
            what = _list_names(self.provenance.read_off)
            return f"{what} {_past_tense(what)} read off the records, whatever the noise"
        if self.provenance.unknown:
            what = _list_names(self.provenance.unknown)
            return (
                f"where {what} came from is not stated. State it where it is made, with "
                f"provenance=Provenance.public(...) or Provenance.spent(...)"
            )
        if any(one.noise == "none" or one.budget.is_infinite for one in self.spendings):
            before = [one.what for one in self.spendings if one.budget.is_infinite]
            whose = f", for {before[0]}" if len(self.spendings) > 1 and before else ""
            return f"no noise was added (infinite budget{whose})"
        return None

    @property
    def statement(self) -> str:
        if not self.spendings and self.provenance.read_off | self.provenance.unknown == frozenset():
            return "Nothing was released yet: no budget is spent."
        if self.doubt is not None:
            return f"{DENIAL}: {self.doubt}."
        budget = self.budget
        assert budget is not None
        if not self.laws:
            return f"Nothing was released, but {budget!r} is spent: its batch failed."
        in_all = " in all" if len(self.laws) > 1 or len(self.spendings) > 1 else ""
        said = f"{budget.claim(self.delta)} under {self.neighboring} neighbours{in_all}"
        noise, earlier = self._noise_words, self._earlier_words
        if self.noise == "research":
            return (
                f"{DENIAL}: {noise} from a seedable generator (research noise), with the error of "
                f"{said}{earlier}."
            )
        if self.noise == "claimed":
            claimed = [one.condition for one in self.spendings if one.noise == "claimed"]
            authors = "; ".join(_distinct_texts(claimed))
            return f"Claim by {authors}, unverified: {said}, {noise}{earlier}{self._public_words}."
        conditions = ", ".join([noise, *_distinct_texts(one.condition for one in self.spendings)])
        exact = conditions if len(self.laws) > 1 else f"exact {conditions}"
        return f"{CLAIM}: {said}, {exact}{earlier}{self._public_words}."

    @property
    def _noise_words(self) -> str:
        """Return how many releases there were, and the laws of their noise."""
        distinct = _distinct_texts(self.laws)
        if len(distinct) > MOST_LAWS:
            distinct = sorted({law.split(" of ")[0] for law in distinct})
        if len(self.laws) == 1:
            return self.laws[0]
        exact = "exact " if self.noise in PRIVATE_NOISE else ""
        return f"{len(self.laws)} releases with {exact}{'; '.join(distinct)}"

    @property
    def _earlier_words(self) -> str:
        """Return which charges of another fit it rests on."""
        others = self.spendings if len(self.spendings) > 1 else ()
        told = [f"{one.budget!r} for {one.what}" for one in others[: MOST_LAWS + 1]]
        more = f" and {len(others) - len(told)} more" if len(others) > len(told) else ""
        return f"; it adds up {', '.join(told)}{more}" if told else ""

    @property
    def _public_words(self) -> str:
        declared = sorted(self.provenance.declared)
        return f"; taken as public: {', '.join(declared)}" if declared else ""

    def check_covers(self, budget: Budget, neighboring: str, noise: str) -> None:
        """Refuse a claim that is less than one of its own releases costs.

        Raises ValueError if no charge covers it.
        """
        if not any(one.covers(budget, neighboring, noise) for one in self.spendings):
            raise ValueError(
                f"provenance: no charge in it covers {budget!r} under {neighboring} neighbours "
                f"with {noise!r} noise, which was released."
            )


def ledger_statement(private: Sequence[bool], spent: str) -> str:
    """Return what a ledger claims; `private`: whether each charge paid for a private release."""
    if all(private):
        return f"Private: {spent}"
    return (
        f"NOT PRIVATE: {len(private) - sum(private)} of {len(private)} charges paid for no private "
        f"release (research noise or none). {spent}"
    )


def budget_of(data: object) -> PureDP | ZCDP:
    """Return the exact budget of ``{"epsilon": "1/2"}`` or ``{"rho": "inf"}``, as files hold it.

    Raises FieldError if it is of another form.
    """
    for kind in (PureDP, ZCDP):
        if isinstance(data, dict) and list(data) == [kind.parameter]:
            text = data[kind.parameter]
            return kind(float("inf") if text == "inf" else fraction_of(text, kind.parameter))
    raise FieldError('budget: expected {"epsilon": "1/2"} or {"rho": "1/2"}.')


def provenance_to_dict(provenance: Provenance) -> JsonObject:
    found: JsonObject = {name: sorted(getattr(provenance, name)) for name in ORIGINS}
    found["released"] = [
        {name: getattr(one, name) for name in SPENDING_KEYS} | {"budget": one.budget.to_dict()}
        for one in provenance.spendings
    ]
    return found


def provenance_of(data: object, where: str = "provenance") -> Provenance:
    """Return the provenance that `provenance_to_dict` wrote; the data may be untrusted.

    Raises FieldError if it is of another form.
    """
    found = object_of(data, where, (*ORIGINS, "released"))
    origins = {
        name: frozenset(
            line_of_text(one, f"{where}: {name}", 500)
            for one in list_of(found[name], f"{where}: {name}", 100)
        )
        for name in ORIGINS
    }
    listed = list_of(found["released"], f"{where}: released", MOST_SPENDINGS)
    spendings = [_spending_of(one, f"{where}: released") for one in listed]
    if len({one.identity for one in spendings}) < len(spendings):
        raise FieldError(f"{where}: released: expected each charge once.")
    return Provenance(**origins, released=frozenset(spendings))


def _spending_of(data: object, where: str) -> Spending:
    found = object_of(data, where, SPENDING_KEYS)
    budget = budget_of(found["budget"])
    noise = one_word(f"{where}: noise", found["noise"], WORST_FIRST)
    if budget.is_infinite != (noise == "none"):
        raise FieldError(f"{where}: expected noise 'none' with an infinite budget, and only there.")
    identity = line_of_text(found["identity"], f"{where}: identity", 32)
    if len(identity) != 32 or not set(identity) <= set("0123456789abcdef"):
        raise FieldError(f"{where}: identity: expected 32 hexadecimal digits.")
    return Spending(
        budget,
        one_word(f"{where}: neighboring", found["neighboring"], NEIGHBORING),
        noise,
        line_of_text(found["what"], f"{where}: what", 500),
        line_of_text(found["condition"], f"{where}: condition", 1000),
        identity,
    )


def _past_tense(listed: str) -> str:
    return "were" if " and " in listed else "was"


def _list_names(names: Iterable[str]) -> str:
    return " and ".join(f"the {name}" for name in sorted(names))


def _distinct_texts(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]


def check_covered(claim: Claim, budget: PureDP | ZCDP, neighboring: str, noise: str) -> None:
    """Refuse the claim of a file that is less than what it holds has cost."""
    try:
        claim.check_covers(budget, neighboring, noise)
    except ValueError as error:
        raise FieldError(
            f"{one_line(error)} The file claims more privacy than its noise gives."
        ) from error
