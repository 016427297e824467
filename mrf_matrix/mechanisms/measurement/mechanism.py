"""What a budget buys, in public: the noise of a rounded strategy, and the rate of a choice.

*Neighbouring data sets.* Write ``a_i`` for column i of the strategy A, ``Δ`` for its largest column
norm. A record in cell i of class c adds ``a_i`` to column c of the m x k answers ``A D``.

``add_remove``
    Neighbours differ by one record more or less: the answers change by one column of A, by at
    most Δ in either norm.
``replace_one``
    Neighbours differ in one record, which may change cell and class: (i, c) becomes (j, c').
    In the L1 norm the answers change by at most ``|a_i|_1 + |a_j|_1 <= 2Δ``, reached whenever two
    cells (or one cell in two classes) have the largest norm.
    In the L2 norm, with another class, by ``sqrt(|a_i|² + |a_j|²) <= sqrt(2) Δ``. With the same
    class by ``|a_i - a_j| = sqrt(|a_i|² + |a_j|² - 2 a_i·a_j)``: at most ``2Δ``, and at most
    ``sqrt(2) Δ`` again where no entry of A is negative, for then ``a_i·a_j >= 0``.
"""

import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt, sqrt
from typing import Literal

import numpy as np

from mrf_matrix.base.checks import format_number, short_repr
from mrf_matrix.mechanisms.budget import ZCDP, Neighboring, PureDP, checked_neighboring
from mrf_matrix.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
)
from mrf_matrix.mechanisms.rounding import (
    RoundedStrategy,
    exact_column_sum,
    is_nonnegative,
)
from mrf_matrix.mechanisms.shared_noise import SharedDiscreteGaussian, SharedDiscreteLaplace
from strategies.operator_files import encode
from strategies.operators import Operator, check_allocation

PROVED = (DiscreteLaplace, DiscreteGaussian, SharedDiscreteLaplace, SharedDiscreteGaussian, NoNoise)
"""Laws whose privacy is proved, and tested here; not their subclasses, which may do anything."""


@dataclass(frozen=True, eq=False)
class Mechanism:
    """What will be measured and how much noise is added, before any data is seen.

    Planning and measuring both start here, so that the error expected is the error released.

    Attributes
    ----------
    rounded : RoundedStrategy
        The integer strategy, its exact sensitivity and what its answers are recovered with.
    law : NoiseLaw
        Law of each noise draw, in units of the integer answers.
    neighboring : {"add_remove", "replace_one"}
    squared_factor : int
        Square of what the relation multiplies the sensitivity by: 1, 2 or 4.
    method : str
        The strategy's family.
    """

    rounded: RoundedStrategy
    law: NoiseLaw
    budget: PureDP | ZCDP
    neighboring: Neighboring
    squared_factor: int
    method: str

    def __post_init__(self) -> None:
        """Refuse a law that does not follow from strategy, budget and relation.

        The sensitivity is that of the integers themselves, or more. A law proved here has at least
        the scale that it needs; what any other protects is known from its own `calibrated` alone,
        so it must be just that. Of shares of noise, `Release` compares the scale with the quorum.
        """
        rounded, relation = self.rounded, checked_neighboring(self.neighboring)
        checked_budget(self.budget)
        exact = exact_column_sum(rounded.matrix, self.budget.norm)
        if rounded.norm != self.budget.norm or rounded.column_sum < exact:
            raise ValueError(
                f"rounded has a column sum of {rounded.column_sum} in the {rounded.norm!r} norm: "
                f"expected at least {exact}, that of its matrix, in the {self.budget.norm!r} norm "
                f"of {self.budget!r}. Take it from round_strategy(matrix, norm)."
            )
        nonnegative = is_nonnegative(rounded.matrix)
        least = squared_factor(relation, self.budget.norm, nonnegative=nonnegative)
        if self.squared_factor < least:
            raise ValueError(
                f"squared_factor={self.squared_factor}: {relation} neighbours move this strategy's "
                f"answers {least} times as far, in squares. Expected at least that; calibrate(...) "
                f"takes it from neighboring=."
            )
        needed = self.law_for(rounded.column_sum, self.squared_factor, self.budget)
        kind = self.law.guards_as or type(self.law)
        if type(self.law) in PROVED:
            shares = self.law.guards_as is not None
            kept = kind is type(needed) and (shares or self.law.scale >= needed.scale)
        else:
            kept = self.law == needed
        if not kept:
            raise ValueError(
                f"law={self.law}: {self.budget!r} under {self.neighboring} neighbours needs "
                f"{needed}. Expected the mechanism as calibrate(...) returns it: what another law "
                f"protects is not known."
            )

    @property
    def is_proved(self) -> bool:
        """Whether the privacy is proved here; otherwise it is the claim of whoever wrote its parts.

        A law of one's own may draw anything, and a class of operators of one's own may answer
        anything for its sensitivity: see ``calibrate(..., law=)``.
        """
        return type(self.law) in PROVED and is_ours(self.rounded.matrix)

    @property
    def author(self) -> str:
        """Whose claim it is where nothing is proved here."""
        if type(self.law) not in PROVED:
            return self.law.name
        return f"whoever wrote {type(self.rounded.matrix).__name__}"

    def at(self, budget: PureDP | ZCDP) -> "Mechanism":
        """Return the same mechanism, of the same law, calibrated to another budget of its kind."""
        law = self.law_for(self.rounded.column_sum, self.squared_factor, budget)
        return replace(self, budget=budget, law=law)

    def with_factor(self, squared: int) -> "Mechanism":
        """Return the mechanism with the noise for neighbours ``sqrt(squared)`` times as far."""
        law = self.law_for(self.rounded.column_sum, squared, self.budget)
        return replace(self, squared_factor=squared, law=law)

    def law_for(self, column_sum: int, squared: int, budget: PureDP | ZCDP) -> NoiseLaw:
        """Return noise of this mechanism's kind for another sensitivity and budget."""
        return noise_for(
            column_sum, squared, budget, None if type(self.law) in PROVED else type(self.law)
        )

    @property
    def sensitivity(self) -> float:
        """How far one record moves the answers, in the units of the selected strategy.

        The largest column norm, L1 or L2, of what is measured, times the factor of the neighbouring
        relation.
        """
        norm = float(self.rounded.column_sum)
        if self.rounded.norm == "l2":
            norm = sqrt(norm)
        return float(Fraction(norm * sqrt(self.squared_factor)) / self.rounded.scale)

    def check_memory(self, n_classes: int) -> None:
        """Refuse a measurement whose answers would not fit, before anything is spent on it.

        The largest array depends on public numbers alone: a row for each row of the strategy, a
        column for each class.

        Raises
        ------
        MemoryCapError
        """
        check_allocation("answers of the strategy", (self.rounded.matrix.shape[0], n_classes))


class MechanismView:
    """What is known of anything that a mechanism is behind: an expectation, or a release."""

    mechanism: Mechanism

    @property
    def budget(self) -> PureDP | ZCDP:
        return self.mechanism.budget

    @property
    def neighboring(self) -> str:
        return self.mechanism.neighboring

    @property
    def sensitivity(self) -> float:
        """How far one record moves what is measured, in units of the selected strategy.

        The largest column norm, L1 for Laplace and L2 for Gaussian noise, times the relation's
        factor.
        """
        return self.mechanism.sensitivity

    @property
    def law(self) -> NoiseLaw:
        """Law of each noise draw, in units of the integer answers."""
        return self.mechanism.law

    @property
    def noise_scale(self) -> Fraction:
        """Scale of the noise: t of discrete Laplace, σ of discrete Gaussian, 0 for none."""
        return self.law.scale


def noise_for(
    column_sum: int, squared: int, budget: PureDP | ZCDP, law: type[NoiseLaw] | None = None
) -> NoiseLaw:
    """Return the noise that the answers of an integer matrix need.

    `column_sum`: largest column sum of absolute entries for `PureDP`, of squared entries for
    `ZCDP`; `squared`: square of the neighbouring relation's factor; `law`: by default the proved
    one of the budget's kind.

    Raises TypeError, ValueError if the law is none, is for budgets of the other kind, or states no
    scale.
    """
    standard = DiscreteLaplace if isinstance(budget, PureDP) else DiscreteGaussian
    kind = standard if law is None else _checked_law(law, budget)
    if budget.is_infinite:
        return NoNoise()
    try:
        return kind.calibrated(column_sum, squared, budget.exact)
    except ValueError as error:
        amount = short_repr(format_number(budget.exact)).strip("'")
        raise ValueError(f"{budget.parameter}={amount}: {error}") from error


def _checked_law(law: object, budget: PureDP | ZCDP) -> type[NoiseLaw]:
    if not (isinstance(law, type) and issubclass(law, NoiseLaw)):
        raise TypeError(
            f"law={law!r}: expected a class, a subclass of NoiseLaw that states its own scale: its "
            f"`calibrated` is called with the sensitivity and the budget."
        )
    kind = getattr(law, "budget_kind", None)
    if kind is None or not isinstance(budget, kind):
        stated = "no budget" if kind is None else kind.__name__
        raise ValueError(
            f"law={law.__name__} is for {stated}: expected budget_kind = {type(budget).__name__}, "
            f"for {budget!r}."
        )
    return law


def checked_budget(budget: object) -> PureDP | ZCDP:
    if isinstance(budget, PureDP | ZCDP):
        return budget
    raise TypeError(
        f"budget={budget!r} is of type {type(budget).__name__}: expected PureDP(epsilon) or "
        f"ZCDP(rho), or as_budget(epsilon=...)."
    )


def same_measurement(one: Mechanism, other: Mechanism) -> bool:
    """Say whether two mechanisms measure the same integers for the same budget."""
    if one is other or (one.budget, one.neighboring) != (other.budget, other.neighboring):
        return one is other
    (tree, arrays), (second, found) = (encode(each.rounded.matrix, "") for each in (one, other))
    same = tree == second and one.rounded.scale == other.rounded.scale
    return same and all(np.array_equal(values, found[name]) for name, values in arrays.items())


def is_ours(operator: Operator) -> bool:
    """Tell whether a strategy and all that it is made of are of `strategies`' own classes.

    A stranger's class may answer anything where it is asked for its sensitivity or its columns.
    """
    kind, home = type(operator), sys.modules.get(type(operator).__module__)
    is_known = kind.__module__.startswith("strategies.") and vars(home).get(kind.__name__) is kind
    if not is_known or any(callable(getattr(kind, name, None)) for name in vars(operator)):
        return False  # another's class, or a method that was put over ours
    held = (
        part
        for value in vars(operator).values()
        for part in (value if isinstance(value, list | tuple) else (value,))
        if isinstance(part, Operator) and part is not operator
    )
    return all(map(is_ours, held))


# Private choices ---------------------------------------------------------------------------------


LARGEST_FLOAT = 10**300  # of exact numbers that are given, which may be larger


def choice_epsilon(budget: PureDP | ZCDP) -> float:
    """Return the pure ε that a choice of this budget would have.

    >>> choice_epsilon(ZCDP(2))
    4.0
    """
    if budget.is_infinite:
        return float("inf")
    amount = float(budget.exact)
    return amount if budget.parameter == "epsilon" else sqrt(8 * amount)


def exact_choice_epsilon(budget: PureDP | ZCDP) -> Fraction | float:
    """Return the pure ε of a choice: under zCDP the largest simple fraction with ``ε²/8 <= ρ``.

    The exponential mechanism of ε has a range of log probability ratios of at most ε, and so
    is ``ε²/8``-zCDP (Cesar and Rogers, 2021).
    """
    if budget.is_infinite:
        return float("inf")
    if isinstance(budget, PureDP):
        return budget.exact
    return Fraction(isqrt(int(8 * budget.exact * 4**40)), 2**40)


SCORE_SENSITIVITY = 1
"""How far one record more or less moves a score of a choice, at most."""


def choice_rate(budget: PureDP | ZCDP, neighboring: str, *, is_monotone: bool) -> Fraction | float:
    """Return by what the log probability of a choice falls for every unit of score.

    Scores move by Δ at most, `SCORE_SENSITIVITY`. The rate is ``ε / 2Δ``, and ``ε / Δ`` for
    monotone scores: one record more raises all of them by 0 to Δ, so their differences move by at
    most Δ, not 2Δ. A record in another's place moves monotone scores by Δ either way, others by 2Δ.
    """
    moved = SCORE_SENSITIVITY * round(neighboring_factor(neighboring))
    return exact_choice_epsilon(budget) / (moved if is_monotone else 2 * moved)


def choice_signal(budget: PureDP | ZCDP, n_records: int, neighboring: str) -> float:
    """Return by how much all records move the log probability of an option by monotone scores.

    It is N ε under add/remove neighbours, and half of that under replace-one; 10^300 at most.
    """
    rate = choice_rate(budget, neighboring, is_monotone=True)
    if budget.is_infinite:
        return float("inf")
    return float(min(Fraction(rate) * n_records, Fraction(LARGEST_FLOAT)))


def squared_factor(neighboring: object, norm: Literal["l1", "l2"], *, nonnegative: bool) -> int:
    """Return the *square* of what the relation multiplies the sensitivity by: 1, 2 or 4.

    Parameters
    ----------
    neighboring : {"add_remove", "replace_one"}
    norm : {"l1", "l2"}
    nonnegative : bool
        Whether no entry of the strategy is negative, as far as is known.

    Examples
    --------
    >>> squared_factor("replace_one", "l1", nonnegative=True)
    4
    >>> squared_factor("replace_one", "l2", nonnegative=True)
    2
    """
    if checked_neighboring(neighboring) == "add_remove":
        return 1
    return 2 if norm == "l2" and nonnegative else 4


def neighboring_factor(neighboring: object, norm: Literal["l1", "l2"] = "l1") -> float:
    """Return what the relation multiplies the sensitivity by, for any strategy: 1 or 2.

    In the L2 norm and for a strategy without negative entries, sqrt(2) suffices under
    "replace_one": see `squared_factor`.
    """
    return sqrt(squared_factor(neighboring, norm, nonnegative=False))
