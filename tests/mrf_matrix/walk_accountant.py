"""The accountant of the walk: what was really drawn, and what it refutes.

It watches the samplers and knows facts. It never looks at a provenance: that, and every statement
that follows from it, is what it judges.
"""

import json
import re
import zipfile
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mrf_matrix import PrivacyLedger, Provenance, PureDP
from mrf_matrix.base.provenance import Spending
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.mechanisms import (
    CellCounts,
    DiscreteGaussian,
    DiscreteLaplace,
    LeafCounts,
    NoNoise,
    SharedDiscreteLaplace,
)
from mrf_matrix.mechanisms.measurement.measure import ReadyCounts
from mrf_matrix.mechanisms.noise import SampledLaw
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.study import PrivateEvaluation

INFINITE = float("inf")
RELATIONS = ("add_remove", "replace_one")
CLAIM = re.compile(r"(PureDP|ZCDP)\((?:epsilon|rho)=([0-9./e+-]+)\) under (\w+) neighbours")
PRIVATE, PUBLIC = "Private release", "taken as public: "
READ_OFF, UNKNOWN, BY_HAND = "read off records", "of unknown origin", "put in by hand"
SPOILT = {READ_OFF, UNKNOWN, BY_HAND, "seeded", "none", "claimed"}
"""Facts, and kinds of noise, that leave nothing private."""
ONE_CHARGE = Provenance.from_spending(Spending(PureDP(1), "add_remove", "exact"))

REFUSALS = (ValueError, TypeError, AttributeError)


class ClaimsMoreError(Exception):
    """Something claims more than was drawn."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of the records: its loss under each relation, and what noise was really drawn."""

    pure: dict
    rho: dict
    noise: str

    @classmethod
    def of(cls, noise, pure=(INFINITE, INFINITE), rho=None):
        """Take the loss of one record more or less, and of one replaced; ε implies ρ."""
        rho = [one**2 / 2 for one in pure] if rho is None else rho
        return cls(*(dict(zip(RELATIONS, one, strict=True)) for one in (pure, rho)), noise)

    @classmethod
    def of_sums(cls, matrix, law, width, noise):
        """Take the loss of integer answers, by enumeration of neighbours.

        `width`: the scale of Laplace noise, or the variance of Gaussian noise.
        """
        if not width:
            return cls.of("none")
        columns, power = np.rint(matrix.to_dense()).astype(np.int64).T, _power(law)
        one = int((np.abs(columns) ** power).sum(axis=1).max())
        moved = int((np.abs(columns[:, None] - columns) ** power).sum(axis=2).max())
        lost = [step / (power * Fraction(width)) for step in (one, max(2 * one, moved))]
        return cls.of(noise, lost) if power == 1 else cls.of(noise, rho=lost)

    @classmethod
    def of_choices(cls, epsilons, noise):
        """Take the loss of exponential mechanisms, each of which is ε²/8-zCDP."""
        if INFINITE in epsilons:
            return cls.of("none")
        total, squares = sum(epsilons), sum(one**2 for one in epsilons)
        return cls.of(noise, (total, 2 * total), (squares / 8, squares / 2))


def _power(law):
    return 2 if isinstance(law, DiscreteGaussian) else 1


class Watch:
    """Notes every draw of noise at the sampler, with the integers that it was added to."""

    def __init__(self, monkeypatch):
        self.noted, self.choices, self.matrix = [], [], None
        for kind in (CellCounts, LeafCounts, ReadyCounts):
            self._spy(monkeypatch, kind, "answers", self._asked)
        for kind in (SampledLaw, SharedDiscreteLaplace, NoNoise):
            self._spy(monkeypatch, kind, "exact", lambda law, *_: self._drawn(law, "exact"))
        for kind in (DiscreteLaplace, DiscreteGaussian, SharedDiscreteLaplace):
            self._spy(monkeypatch, kind, "research", lambda law, *_: self._drawn(law, "seeded"))
        self._spy(monkeypatch, PrivateMultinomialTrees, "grow", self._grown)

    @staticmethod
    def _spy(monkeypatch, kind, name, note):
        real = getattr(kind, name)

        def watched(self, *args, **keywords):
            note(self, *args, **keywords)
            return real(self, *args, **keywords)

        monkeypatch.setattr(kind, name, watched)

    def _asked(self, counts, matrix):
        self.matrix = matrix

    def _drawn(self, law, noise):
        if self.matrix is not None:  # what is simulated is added to no answers
            self.noted.append((self.matrix, law, law.scale ** _power(law), noise))
        self.matrix = None

    def _grown(self, trees, *args, bits, **keywords):
        chosen = [trees.rates.attribute, trees.rates.cut] * trees.max_depth
        chosen *= 1 if trees.disjoint else trees.n_trees
        self.choices.append(Draw.of_choices(chosen, "seeded" if bits.generator else "exact"))

    def taken(self, parties):
        """Return the draws since the last time; those of parties are shares of one sum."""
        noted, choices = self.noted, self.choices
        self.noted, self.choices = [], []
        if parties and noted:
            matrix, law, width, noise = noted[0]
            whole = sum(one[2] for one in noted) if _power(law) == 2 else width
            noted = [(matrix, law, whole, noise)]
        return {*choices, *(Draw.of_sums(*one) for one in noted)}


@dataclass(frozen=True, eq=False)
class Held:
    """A value, and the accountant's own record of what it rests on.

    `structure`, `space`: of a model, the facts of its forest and of its domain; `parts`: of a
    domain, those of its two attributes and its target.
    """

    value: object
    facts: frozenset
    structure: frozenset = frozenset()
    space: frozenset = frozenset()
    parts: tuple = ()


def of_parts(domain, parts):
    """Return a domain of these facts of its attributes and its target."""
    return Held(domain, frozenset().union(*parts), parts=tuple(parts))


def spoilt(facts):
    """Return why nothing that rests on these facts is private."""
    return {one.noise if isinstance(one, Draw) else one for one in facts} & SPOILT


def refuted(said, facts, is_private=False):
    """Return why a statement claims more than the facts allow, or None."""
    draws = [one for one in facts if isinstance(one, Draw)]
    if (is_private or said.startswith((PRIVATE, "Private: "))) and spoilt(facts):
        return f"{said} But it rests on what is {spoilt(facts)}."
    if said.startswith("Nothing was released"):
        return f"{said} But there were {len(draws)} draws." if draws else None
    for kind, amount, relation in CLAIM.findall(said):
        lost = sum((one.rho if kind == "ZCDP" else one.pure)[relation] for one in draws)
        if lost > Fraction(amount):
            return f"{said} But the draws lost {lost}."
    public = {one for one in facts if isinstance(one, str) and one.startswith(PUBLIC)}
    listed = said.rpartition(PUBLIC)[2]
    if said.startswith(PRIVATE) and not all(one.removeprefix(PUBLIC) in listed for one in public):
        return f"{said} But it rests on what was {public}."
    return None


def sayings(value):
    """Give all that a value says of itself: statements, with whether it calls itself private."""
    value = getattr(value, "privacy_report_", value)
    if isinstance(value, PrivateEvaluation):
        yield value.claim.statement, value.to_dict()["is_private"]
    elif hasattr(value, "statement"):
        yield value.statement, value.is_private
    else:  # what would be claimed of it, and of exact noise on it
        for known in (value.provenance, value.provenance | ONE_CHARGE):
            yield Claim(known, ("noise",)).statement, False


def judge(statements, facts):
    """Refute statements, each with whether whoever makes it calls itself private."""
    for said, is_private in statements:
        if (told := refuted(said, facts, is_private)) is not None:
            raise ClaimsMoreError(told)


class Accountant:
    """Follows what goes into calls, and what two ledgers were charged for."""

    def __init__(self, watch):
        self.watch = watch
        self.ledgers = [
            Held(PrivacyLedger(epsilon=10**6), set()),
            Held(PrivacyLedger(rho=10**6, neighboring="replace_one"), set()),
        ]
        watch.taken(parties=False)

    def does(self, make, *parts, says=(), payers=(), parties=False, **known):
        """Call, and return what comes of it with the facts of all that went into it."""
        try:
            value = make()
        except REFUSALS:
            value = None
        drawn = self.watch.taken(parties)
        facts = frozenset().union(says, drawn, *(one.facts for one in parts if one is not None))
        for number in payers if drawn or value is not None else ():
            self.ledgers[number].facts.update(facts)
        return None if value is None else Held(value, facts, **known)

    def paying(self, number):
        """Return a ledger, or none."""
        return (None, ()) if number is None else (self.ledgers[number].value, (number,))

    def judge_ledgers(self):
        """Refute a ledger, or its record, that was charged less than what it paid for has lost."""
        for ledger in self.ledgers:
            shown = PrivacyLedger.from_dict(json.loads(ledger.value.to_json()))
            for one in (ledger.value, shown):
                unit = f"{type(one.budget).__name__}({one.budget.parameter}={one.spent})"
                for said in (one.statement, f"{unit} under {one.neighboring} neighbours"):
                    judge([(said, one.is_private)], ledger.facts)


def check_file(path, facts, allowed):
    """Refute a file that calls itself private where it is not, and one that was not allowed."""
    with zipfile.ZipFile(path) as file:
        (name,) = [one for one in file.namelist() if one.endswith(".json")]
        data = json.loads(file.read(name))
    said = data.get("report", data)
    if spoilt(facts) and (said.get("is_private") or not allowed):
        raise ClaimsMoreError(f"A file was written of what is {spoilt(facts)}.")
