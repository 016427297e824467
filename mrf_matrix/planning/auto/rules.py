r"""The kind of forest for a claim: one table of rules over public numbers, read from the top.

The *signal* is :math:`N\varepsilon`: how far all N records move the log probability of a choice.
It is half of that under replace-one neighbours, and :math:`N\sqrt{8\rho}/0.4` under zCDP, which is
nearly Nε again where ρ implies (ε, 10⁻⁶).

Each row was set on public sets, by fits of its kind and of the runner-up at the same claim. Its
worth is the mean lead in points of accuracy, with the standard error over sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, prod
from typing import Any, Literal

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.labels.plan import MOST_ENTRIES, MOST_RECORDS, label_refusal
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.measurement.mechanism import (
    choice_epsilon,
    choice_signal,
    squared_factor,
)
from mrf_matrix.mechanisms.selection import LARGEST_RATE
from mrf_matrix.planning.auto.choices import (
    AMPLE,
    GATED_FROM,
    GATED_RECORDS,
    GATED_SIGNAL,
    KEPT,
    LEAST_OF_CLASS,
    LEAST_SIGNAL,
    ONE_IN,
    Screening,
    even_records,
    plan_screening,
)
from mrf_matrix.planning.plans.block_design import MOST_CELLS, choose_blocks
from mrf_matrix.residual.sequence import most_codes
from mrf_matrix.residual.step import ASSUMED_RECORDS, RESIDUAL_SIGNAL, Budget, residual_signal

Measured = Literal["tables", "additive", "labels", "pool", "additive pool"]
"""What is measured: tables at once, tables of residuals, a tree of labels, or such a tree beside
either."""

OF_RESIDUALS: tuple[Measured, ...] = ("additive", "additive pool")
"""Kinds that need every record by itself."""

POOLS: tuple[Measured, ...] = ("pool", "additive pool")

FORESTS: dict[Measured, str] = {
    "labels": "tree of labels",
    "pool": "tree beside tables",
    "additive pool": "tree beside residuals",
    "additive": "residual forest",
    "tables": "posterior forest",
}

NOISES = {"l1": "Laplace", "l2": "Gaussian"}

# Signals up to which rows hold, by the norm of the noise -----------------------------------------

LABELS_OF_TWO = {"l1": 200, "l2": 300}
LABELS_OF_SEVERAL, LABELS_A_CLASS = (300, 500), 100
LABELS_AN_ATTRIBUTE = 50
LABELS_OF_MANY = 1500
POOL_OF_TWO = {"l1": 3000, "l2": 1500}
LATE_POOL_OF_TWO = {"l1": 6000, "l2": 5000}
POOL_OF_SEVERAL = {"l1": 6000, "l2": 2000}

MANY = 10
"""Attributes from which several classes have labels for longer, and then pools."""

A_RECORD, A_RECORD_OF_GAUSS, FEW_RECORDS = 2, 3, 500
"""Signal a record above which noise hardly blurs what is measured. There labels of many attributes
end, as do pools of two classes and fewer records than the last; from the second on all pools under
Gaussian noise."""

WIDE, LEAST_BESIDE_WIDE = 0.35, 500
"""Part of the attributes in one table from which it sees what sums of single attributes do not, and
the `residual_signal` from which residuals are measured even so."""

UNDER_ZCDP = 0.4
"""Part of a signal under zCDP that counts as all of it: tables have the smaller noise there for the
same rate of choices."""


@dataclass(frozen=True)
class Facts:
    """The public numbers that rules ask for."""

    domain: Domain
    budget: Budget  # of the noise of tables
    choosing: Budget  # the law of the same claim whose choices have the largest rate
    n_records: int | None
    neighboring: str
    # whether the records themselves, and tables of whatever attributes, will be there
    records: bool = True
    tables: bool = True
    trees: bool = True  # whether trees of labels are considered
    # of the budget, but for the width of tables: to see which rows are near
    times: Fraction = Fraction(1)

    @property
    def two(self) -> bool:
        return self.domain.n_classes == 2

    @property
    def many(self) -> bool:
        return self.domain.n_attributes >= MANY

    @property
    def signal(self) -> float:
        """N ε, or what counts as much."""
        found = choice_signal(self.budget, self.n_records or ASSUMED_RECORDS, self.neighboring)
        part = 1 if isinstance(self.budget, PureDP) else UNDER_ZCDP
        return float(self.times) * found / part

    @property
    def signal_formula(self) -> str:
        """How `signal` follows from N, the number of records, and the budget."""
        formula = "N·ε" if isinstance(self.budget, PureDP) else f"N·√(8ρ)/{UNDER_ZCDP:g}"
        return formula if self.neighboring == "add_remove" else f"{formula}/2"

    def in_words(self, counted: str = "records") -> str:
        """Return the numbers that decide; `counted`: what their number of records counts."""
        records = f"an unknown number of {counted}"
        if self.n_records is not None:
            records = f"{self.n_records:,} {counted}"
            if not self.budget.is_infinite:
                records += f" (signal {self.signal_formula} = {signal_text(self.signal)})"
        return (
            f"{self.domain.n_classes} classes, {self.domain.n_attributes} attributes, {records} "
            f"and {NOISES[self.budget.norm]} noise of tables"
        )

    @property
    def one_table(self) -> bool:
        """Whether the tables would be one, of all attributes."""
        return self._holds(sum(size > 1 for size in self.domain.sizes))

    @property
    def has_trees(self) -> bool:
        """Whether a tree of labels suits the domain, and can be drawn of so many records."""
        if not (self.trees and self.tables) or self.budget.is_infinite or self.n_records is None:
            return False
        most = min(MOST_RECORDS, MOST_ENTRIES // self.domain.n_classes)
        return self.n_records <= most and label_refusal(self.domain) is None

    @property
    def suits_residuals(self) -> bool:
        """Whether records outweigh the noise of residuals, and no table would see more."""
        domain, budget, known = self.domain, self.budget, self.n_records
        d, k = domain.n_attributes, domain.n_classes
        if known is None or not self.records or not (self.two or budget.norm == "l2"):
            return False
        if max(domain.sizes) > most_codes(k):
            return False
        if not budget.is_infinite and choice_epsilon(budget) >= LARGEST_RATE:
            return False
        signal = float(self.times) * residual_signal(known, budget, d, k)
        if signal < RESIDUAL_SIGNAL[budget.norm]:
            return False
        wide = int(WIDE * sum(size > 1 for size in domain.sizes)) + 1
        return signal >= LEAST_BESIDE_WIDE or not self._holds(wide)

    @cached_property
    def screening(self) -> Screening | None:
        """The choices of attributes that would come first; None where all are kept.

        Where all may be kept and Gaussian noise is at hand, all are: a choice under zCDP has a
        small rate, and tables of all attributes cost no more than a root of each.
        """
        if not self.tables:
            return None
        budget = self.choosing if self.choosing.is_infinite else self.choosing * self.times
        known, relation = self.n_records, self.neighboring
        found = plan_screening(self.domain, budget, n_records=known, neighboring=relation)
        laws = self.budget.norm, self.choosing.norm
        if found is None or (found.enough is not None and "l2" in laws):
            return None
        return found

    @property
    def asks(self) -> bool:
        """Whether attributes would be chosen, and then whether these are enough."""
        return self.screening is not None and self.screening.enough is not None

    def _holds(self, count: int) -> bool:
        """Tell whether one table of a posterior forest would hold so many attributes."""
        sizes = tuple(self.domain.sizes)
        if count > 1 and prod(sorted(size for size in sizes if size > 1)[:count]) > MOST_CELLS:
            return False
        known, relation = self.n_records or ASSUMED_RECORDS, self.neighboring
        return _widest(sizes, self.domain.n_classes, self.budget, known, relation) >= count


def signal_text(signal: float) -> str:
    return f"{signal:,.0f}" if signal >= 10 else f"{signal:.2g}"


@lru_cache(maxsize=32)
def _widest(
    sizes: tuple[int, ...], n_classes: int, budget: Budget, n_records: int, neighboring: str
) -> int:
    """Return how many attributes the widest table of a posterior forest holds."""
    factor = squared_factor(neighboring, budget.norm, nonnegative=True)
    structure = np.random.default_rng(0)
    design = choose_blocks(sizes, n_classes, budget, n_records, structure, squared_factor=factor)
    return max(map(len, design.blocks))


# The table ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    name: str  # the kind of forest
    # of all attributes; for "tables" after a last question additive where that suits
    measured: Measured
    # when it holds, in words
    classes: str
    attributes: str
    signal: str
    where: str
    worth: str  # its lead over the runner-up, and on how many sets it was set
    holds: Callable[[Facts], bool]  # whether it holds, where no row above does
    screened: bool = False  # whether attributes are chosen first

    @property
    def condition(self) -> str:
        """When it holds, in a line."""
        words = {"classes": "{} classes", "attributes": "{} attributes", "signal": "signal {}"}
        told = [
            form.format(getattr(self, name)) for name, form in words.items() if getattr(self, name)
        ]
        return "; ".join((*told, *([self.where] if self.where else [])))

    def to_dict(self) -> dict[str, str]:
        """Return the row as plain values, ready for JSON."""
        words = ("classes", "attributes", "signal", "where", "worth")
        return {"forest": self.name, **{name: getattr(self, name) for name in words}}


def labels_up_to(facts: Facts) -> float:
    """Return the signal up to which a tree of labels is taken."""
    d, k = facts.domain.n_attributes, facts.domain.n_classes
    if facts.two:
        most = LABELS_AN_ATTRIBUTE * d if facts.one_table else inf
        return min(LABELS_OF_TWO[facts.budget.norm], most)
    least, most = LABELS_OF_SEVERAL
    found = min(max(least, LABELS_A_CLASS * k), most, LABELS_AN_ATTRIBUTE * d)
    if not facts.many:
        return found
    return max(found, min(LABELS_OF_MANY, A_RECORD * (facts.n_records or 0)))


def _is_labelled(facts: Facts) -> bool:
    return facts.signal <= labels_up_to(facts) and facts.has_trees


def _is_pooled(facts: Facts, most: dict[str, int]) -> bool:
    known, norm = facts.n_records or 0, facts.budget.norm
    few = facts.two and known < FEW_RECORDS
    a_record = A_RECORD if few else {"l1": inf, "l2": A_RECORD_OF_GAUSS}[norm]
    return facts.signal <= min(most[norm], a_record * known) and facts.has_trees


def _norm_limits(most: dict[str, int]) -> str:
    return f"up to {most['l1']} (Gaussian: {most['l2']})"


A_RECORD_WORDS = (
    f"at most {A_RECORD} a record of fewer than {FEW_RECORDS} records "
    f"(Gaussian: {A_RECORD_OF_GAUSS} of any)"
)
AGAINST_NO_TREE = "against kinds without a tree"
AGAINST_TABLES = "against a posterior forest"

RULES: tuple[Rule, ...] = (
    Rule(
        FORESTS["labels"], "labels", "two", "", _norm_limits(LABELS_OF_TWO),
        f"at most {LABELS_AN_ATTRIBUTE} an attribute where one table would hold all",
        f"+2.8 to +8.8 ± 1, 19 sets, {AGAINST_NO_TREE}",
        lambda facts: facts.two and _is_labelled(facts),
    ),
    Rule(
        FORESTS["labels"], "labels", "several", f"fewer than {MANY}",
        f"up to {LABELS_A_CLASS} a class, {LABELS_OF_SEVERAL[0]} to {LABELS_OF_SEVERAL[1]}",
        f"at most {LABELS_AN_ATTRIBUTE} an attribute",
        f"+1.7 to +11.8 ± 1, 8 sets, {AGAINST_NO_TREE}",
        lambda facts: not facts.two and not facts.many and _is_labelled(facts),
    ),
    Rule(
        FORESTS["labels"], "labels", "several", f"{MANY} or more", f"up to {LABELS_OF_MANY}",
        f"beyond {LABELS_OF_SEVERAL[0]} to {LABELS_OF_SEVERAL[1]} at most {A_RECORD} a record",
        f"+3.9 to +5.5, 28 sets, {AGAINST_NO_TREE}",
        lambda facts: not facts.two and facts.many and _is_labelled(facts),
    ),
    Rule(
        FORESTS["tables"], "tables", "", "", "", "one table would hold all attributes",
        "+4 to +25, MONK's problems and a chessboard, against a tree beside it",
        lambda facts: facts.one_table,
    ),
    Rule(
        FORESTS["pool"], "pool", "two", "", _norm_limits(POOL_OF_TWO), A_RECORD_WORDS,
        f"+.2 to +2.1 ± .7, 38 sets, {AGAINST_TABLES}; +2 against screening",
        lambda facts: facts.two and _is_pooled(facts, POOL_OF_TWO),
    ),
    Rule(
        FORESTS["additive pool"], "additive pool", "two", "", _norm_limits(LATE_POOL_OF_TWO),
        f"the row of residual forests would hold; {A_RECORD_WORDS}",
        "+.3 ± .5 to +2.6 ± 1.0, 14 sets, against residuals or screening",
        lambda facts: facts.two and facts.suits_residuals and _is_pooled(facts, LATE_POOL_OF_TWO),
    ),
    Rule(
        FORESTS["pool"], "pool", "two", "", _norm_limits(LATE_POOL_OF_TWO),
        f"no last question would be asked of screened attributes; {A_RECORD_WORDS}",
        f"+2.5 to -.1, 7 sets, {AGAINST_TABLES}",
        lambda facts: facts.two and not facts.asks and _is_pooled(facts, LATE_POOL_OF_TWO),
    ),
    Rule(
        FORESTS["pool"], "pool", "several", f"{MANY} or more", _norm_limits(POOL_OF_SEVERAL),
        f"Gaussian: at most {A_RECORD_OF_GAUSS} a record",
        f"+.5 to +1.7, 28 sets, {AGAINST_TABLES}",
        lambda facts: not facts.two and facts.many and _is_pooled(facts, POOL_OF_SEVERAL),
    ),
    Rule(
        "few screened attributes, else all", "tables", "two", "4 or more",
        f"from {GATED_FROM}, and {GATED_SIGNAL} an attribute, up to {2 * AMPLE**2} d²",
        f"Laplace noise, {GATED_RECORDS} records; a last choice, whether few are enough",
        f"-.5 to +.9, single sets -6 to +10, 14 sets, {AGAINST_TABLES}",
        lambda facts: facts.asks, screened=True,
    ),
    Rule(
        FORESTS["additive"], "additive", "two (Gaussian: any)", "",
        f"from {RESIDUAL_SIGNAL['l1']} (Gaussian: {RESIDUAL_SIGNAL['l2']}) an attribute",
        f"no table would hold over {WIDE:g} of the attributes, or from {LEAST_BESIDE_WIDE}",
        f"+1.7 to +2.9, 12 sets of two classes; +1.5 ± .7, several; {AGAINST_TABLES}",
        lambda facts: facts.suits_residuals,
    ),
    Rule(
        "few screened attributes", "tables", "", "4 or more (8 of several classes)",
        f"from {LEAST_SIGNAL}, and {LEAST_OF_CLASS} a class",
        f"{KEPT:g} √signal attributes are much fewer than there are",
        f"+1.1 to +3.6, single sets -3 to +18, 14 sets, {AGAINST_TABLES}",
        lambda facts: facts.screening is not None, screened=True,
    ),
    Rule(
        FORESTS["tables"], "tables", "", "", "", "no row above holds",
        "0, the others are measured against it",
        lambda facts: True,
    ),
)  # fmt: skip
"""First come, first served. An attribute's signal is that of `residual_signal`."""


def row_for(facts: Facts) -> int:
    return next(row for row, rule in enumerate(RULES) if rule.holds(facts))


FARTHEST, STEP = 64, Fraction(5, 4)
"""Of the budget, how far rows are looked for, and by which factor at a time."""


def neighbour(facts: Facts, *, above: bool) -> tuple[float, str] | None:
    """Return the signal at which another kind begins, and its name; None where none is near.

    All else stays as it is, the width of tables too.
    """
    if facts.budget.is_infinite or facts.n_records is None:
        return None
    here, step = _kind_at(facts), STEP if above else 1 / STEP
    inside = outside = facts
    while _kind_at(outside) == here:
        if not 1 / FARTHEST < outside.times < FARTHEST:
            return None
        inside, outside = outside, replace(outside, times=outside.times * step)
    for _ in range(12):
        middle = replace(facts, times=(inside.times + outside.times) / 2)
        if _kind_at(middle) == here:
            inside = middle
        else:
            outside = middle
    return outside.signal, _kind_at(outside)


def _kind_at(facts: Facts) -> str:
    return RULES[row_for(facts)].name


def budget_of_tables(
    domain: Domain, budgets: Sequence[Budget], n_records: int | None, neighboring: str
) -> Budget:
    r"""Return the law, of those that make a claim, by whose noise tables are measured.

    Of t tables Laplace noise has the variance :math:`2t^2/\varepsilon^2`, Gaussian noise
    :math:`t/2\rho`, times the factor of the relation. The smaller is taken, of one table for each
    attribute: under (ε, 10⁻⁶) Gaussian noise from seven to thirteen attributes on, as ε is .05 to
    4. One table of all attributes has Laplace noise.
    """
    if len(budgets) == 1:
        return budgets[0]
    laplace, gaussian = sorted(budgets, key=lambda one: one.norm)
    if Facts(domain, laplace, laplace, n_records, neighboring).one_table:
        return laplace
    t = sum(size > 1 for size in domain.sizes)
    of_laplace = _factor(neighboring, laplace) * 2 * t**2 / laplace.exact**2
    of_gauss = _factor(neighboring, gaussian) * t / (2 * gaussian.exact)
    return gaussian if of_gauss < of_laplace else laplace


def _factor(neighboring: str, budget: Budget) -> int:
    return squared_factor(neighboring, budget.norm, nonnegative=True)


UNEVEN_BESIDE_TREES = 12
"""Up to one in so many have the rarer class where a tree stays beside tables. On 25 public sets of
8 to 30 % that was 1 to 5 points ahead of tables planned for fewer records; these rank better where
a class is rarer."""


def records_after(plan: Any, level: int) -> int:
    """Return for how many records of even classes a plan goes on, once a share is chosen.

    `plan`: the one that announced the choice, of a public number of records; `level`: chosen.
    """
    known = plan.n_records or 0
    stays = plan.measured in POOLS and ONE_IN[level] <= UNEVEN_BESIDE_TREES
    return known if stays else even_records(known, level)
