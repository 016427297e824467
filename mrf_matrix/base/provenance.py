"""The provenance of a value: declared public, read off records, or released. It travels with it.

Whatever a claim of privacy rests on carries its provenance: attributes and domains, counts,
forests, plans, releases. A derived value has the join of all its sources' provenances, which no
argument raises. One module composes claims from it, `mrf_matrix.mechanisms.statement`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, Self
from uuid import uuid4

from mrf_matrix.base.checks import is_plain_line, one_word, short_repr

WORST_FIRST = ("none", "research", "claimed", "shares", "exact")
"""Kinds of noise, by what they protect. "claimed" is that of a law that its author vouches for."""

RELATIONS = ("add_remove", "replace_one")

LONGEST_WORD, LONGEST_NAME = 200, 500


def new_identity() -> str:
    """Return 32 hexadecimal digits that tell one spending from all others."""
    return uuid4().hex


@dataclass(frozen=True)
class Spending:
    """One charge and what it paid for: a measurement, or a fit with all its choices.

    Attributes
    ----------
    budget : PureDP or ZCDP
        Of the whole charge.
    neighboring : {"add_remove", "replace_one"}
    noise : {"exact", "shares", "claimed", "research", "none"}
        As it was drawn.
    what : str
        What was paid for.
    condition : str
        On whom the claim rests, where noise was shared among parties or is its author's claim.
    identity : str
        Tells the charge from all others: no ledger, and no sum, adds it twice.
    """

    budget: Any
    neighboring: str
    noise: str
    what: str = "a measurement"
    condition: str = ""
    identity: str = field(default_factory=new_identity)

    def __post_init__(self) -> None:
        if not hasattr(self.budget, "is_infinite"):
            raise TypeError(f"budget={short_repr(self.budget)}: expected PureDP(...) or ZCDP(...).")
        one_word("neighboring", self.neighboring, RELATIONS)
        one_word("noise", self.noise, WORST_FIRST)

    def covers(self, budget: Any, neighboring: str, noise: str) -> bool:
        """Tell whether a release of this budget, relation and noise is a part of it."""
        return (
            type(budget) is type(self.budget)
            and budget <= self.budget
            and neighboring == self.neighboring
            and WORST_FIRST.index(noise) >= WORST_FIRST.index(self.noise)
        )

    def merge(self, other: "Spending") -> "Spending":
        """Return the worse of two accounts of one charge, part by part."""
        noise = min(self.noise, other.noise, key=WORST_FIRST.index)
        told = dict.fromkeys(filter(None, (self.condition, other.condition)))
        return replace(
            max(self, other, key=lambda one: one.budget),
            noise=noise,
            condition=" and ".join(sorted(told)),
        )


def _quote(what: str, word: str) -> str:
    if not isinstance(word, str) or len(word) > LONGEST_WORD or not is_plain_line(word):
        raise ValueError(
            f"word has {len(str(word))} characters: expected one line of at most {LONGEST_WORD} "
            f"that says why, or none."
        )
    return f'{what} ("{word}", in the caller\'s words)' if word else what


def _check_names(name: str, named: object) -> None:
    """Refuse names of parts that are none: they stand in statements."""
    if not isinstance(named, frozenset) or not all(
        isinstance(one, str) and one.strip() and len(one) <= LONGEST_NAME and is_plain_line(one)
        for one in named
    ):
        raise ValueError(
            f"{name}: expected a frozenset of names such as 'forest', each one line of 1 to "
            f"{LONGEST_NAME} characters."
        )


@dataclass(frozen=True)
class Provenance:
    """The origins of a value; ``a | b`` are those of a value made from two.

    Attributes
    ----------
    declared : frozenset of str
        What a caller declared to be public, such as ``"domain"``, by name. It is taken as public.
    read_off : frozenset of str
        What was read off records without any protection. Nothing that rests on it is private.
    unknown : frozenset of str
        What nobody stated the provenance of. Nothing is claimed of what rests on it.
    released : frozenset of Spending
        Charges for releases of records that it depends on.

    Examples
    --------
    >>> both = Provenance.public("domain") | Provenance.from_records("structure")
    >>> sorted(both.declared), sorted(both.read_off)
    (['domain'], ['structure'])
    """

    declared: frozenset[str] = frozenset()
    read_off: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    released: frozenset[Spending] = frozenset()

    def __post_init__(self) -> None:
        for name in ("declared", "read_off", "unknown"):
            _check_names(name, getattr(self, name))
        if not isinstance(self.released, frozenset) or not all(
            isinstance(one, Spending) for one in self.released
        ):
            raise ValueError("released: expected a frozenset of Spending, from Provenance.spent.")

    @classmethod
    def public(cls, what: str = "forest", word: str = "") -> Self:
        """Return the provenance of a value declared public; `word`: why, quoted in claims."""
        return cls(declared=frozenset({_quote(what, word)}))

    @classmethod
    def from_records(cls, what: str) -> Self:
        """Return the provenance of a value read off records without protection."""
        return cls(read_off=frozenset({what}))

    @classmethod
    def unstated(cls, what: str) -> Self:
        """Return the provenance of a value of unknown origin."""
        return cls(unknown=frozenset({what}))

    @classmethod
    def spent(
        cls, budget: Any, neighboring: str = "add_remove", what: str = "forest", word: str = ""
    ) -> Self:
        """Return the provenance of a value that a caller says was released elsewhere.

        Its budget is added to every claim that rests on it. That the noise was drawn is the
        caller's word, so such a claim is unverified.
        """
        noise = "none" if getattr(budget, "is_infinite", False) else "claimed"
        one = Spending(budget, neighboring, noise, what, _quote(f"whoever made the {what}", word))
        return cls(released=frozenset({one}))

    @classmethod
    def from_spending(cls, spending: Spending) -> Self:
        """Return the provenance of what a charge paid for."""
        return cls(released=frozenset({spending}))

    def __or__(self, other: "Provenance") -> "Provenance":
        return Provenance(
            self.declared | other.declared,
            self.read_off | other.read_off,
            self.unknown | other.unknown,
            _merge_accounts([*self.released, *other.released]),
        )

    @property
    def spendings(self) -> tuple[Spending, ...]:
        """The charges in a fixed order."""
        return tuple(sorted(self.released, key=lambda one: (one.what, one.identity)))


NOTHING = Provenance()
"""The provenance of a value that rests on nothing but public code."""

DOMAIN = Provenance.public("domain")
FOREST = Provenance.public("forest")
STRATEGY = Provenance.public("strategy")


def join(parts: Iterable[Provenance]) -> Provenance:
    return reduce(or_, parts, NOTHING)


def _merge_accounts(spendings: Iterable[Spending]) -> frozenset[Spending]:
    """Return one account for each charge: the worse, part by part, where several differ."""
    found: dict[tuple[str, type], Spending] = {}
    for one in spendings:
        key = one.identity, type(one.budget)
        found[key] = found[key].merge(one) if key in found else one
    return frozenset(found.values())


class ChosenTuple(tuple[Any, ...]):
    """A tuple that records chose, privately: attributes or blocks, and what the choice cost.

    It is a tuple in every other way; copies, pickles and clones of what holds it keep it.

    >>> kept = ChosenTuple((2, 5), Provenance.public("attributes"))
    >>> kept == (2, 5), sorted(provenance_of([kept], "blocks").declared)
    (True, ['attributes', 'blocks'])
    """

    provenance: Provenance

    def __new__(cls, values: Iterable[Any], provenance: Provenance) -> Self:
        """Return the values as a tuple of this provenance, and so are lists and tuples in it."""
        whole = (cls(one, provenance) if isinstance(one, list | tuple) else one for one in values)
        made = super().__new__(cls, whole)
        made.provenance = provenance
        return made

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return type(self)(found, self.provenance) if isinstance(index, slice) else found

    def __getnewargs__(self) -> tuple[tuple[Any, ...], Provenance]:
        return tuple(self), self.provenance


def provenance_of(value: object, what: str) -> Provenance:
    """Return the provenance of a value that a caller gave by hand: declared public, by its name.

    A private choice is no declaration: it carries its cost, and so does a list that holds one.
    """
    if isinstance(value, ChosenTuple):
        return value.provenance
    known = Provenance.public(what)
    if isinstance(value, list | tuple):
        return join([known, *(provenance_of(one, what) for one in value)])
    return known


_WITHIN: ContextVar[Spending | None] = ContextVar("spending", default=None)
"""The charge whose parts are being released here."""


def current_spending() -> Spending | None:
    """Return the charge whose parts are being released here, if there is one."""
    return _WITHIN.get()


def current_choice_provenance() -> Provenance:
    """Return the provenance of private choices within the charge that is being released here."""
    whole = _WITHIN.get()
    return NOTHING if whole is None else Provenance.from_spending(whole)


@contextmanager
def parts_of(spending: Spending) -> Iterator[None]:
    """Let everything that is drawn inside be a part of one charge: it claims the whole."""
    token = _WITHIN.set(spending)
    try:
        yield
    finally:
        _WITHIN.reset(token)


def spending_of(
    budget: Any, neighboring: str, noise: str, what: str, condition: str = ""
) -> Spending:
    """Return the charge that a release belongs to: the one around it, or one of its own."""
    own, whole = Spending(budget, neighboring, noise, what, condition), _WITHIN.get()
    return own if whole is None else part_of_charge(own, whole)


def part_of_charge(own: Spending, whole: Spending) -> Spending:
    """Return the whole charge that a release is a part of, or its own where it cannot be one."""
    if type(whole.budget) is not type(own.budget) or whole.neighboring != own.neighboring:
        return own
    if not own.budget <= whole.budget:
        return own
    return whole.merge(replace(own, identity=whole.identity, budget=whole.budget))
