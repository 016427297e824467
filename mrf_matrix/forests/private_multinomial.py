"""The multinomial random forest, private: public depth, public candidates, exact choices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs, Seed
from mrf_matrix.base.checks import check_integer
from mrf_matrix.base.provenance import Provenance, spending_of
from mrf_matrix.domain import Domain
from mrf_matrix.domain.columns import plain_array
from mrf_matrix.forests.assembly import Boxes
from mrf_matrix.forests.forest import Forest, forest_from_levels
from mrf_matrix.forests.growth.growth import Criterion, Impurity, check_probability
from mrf_matrix.forests.growth.private import (
    GrowthSizes,
    Level,
    PrivateGrowth,
    PrivateScore,
    Score,
    choices_of,
    chosen_levels,
    joined_levels,
    private_levels,
)
from mrf_matrix.forests.growth.records import Records
from mrf_matrix.mechanisms import ZCDP, BudgetError, PureDP
from mrf_matrix.mechanisms.budget import as_budget, checked_neighboring, claiming_budgets
from mrf_matrix.mechanisms.selection import REMARK, Bits, Noise

Amount = Fraction | float
STEPS = 10**15
"""Rates of zCDP are square roots, rounded down to fractions of it."""


@dataclass(frozen=True)
class ChoiceBudget:
    r"""Rates of the exponential mechanisms of several trees, which compose to one budget.

    A choice of rate η weighs options by scores that one record moves by η in all, so it is η-DP
    and, by its bounded range, η²/8-zCDP (Cesar and Rogers 2021). One record passes one node of
    each of d levels, or is asked for one label, in each of t trees:

    .. math::
        t\,d\,(B_1 + B_2) \le \varepsilon,\quad t B_3 \le \varepsilon
        \qquad\text{or}\qquad
        t\,d\,\frac{B_1^2 + B_2^2}{8} \le \rho,\quad \frac{t B_3^2}{8} \le \rho.

    Replacing a record is two steps: half of every rate, which is a quarter of ρ.
    """

    budget: PureDP | ZCDP
    # attribute, cut, label: B₁, B₂ and B₃
    attribute: Amount
    cut: Amount
    label: Amount

    @classmethod
    def of(
        cls, budget: PureDP | ZCDP, trees: int, depth: int, share: float, neighboring: str
    ) -> "ChoiceBudget":
        """Return the rates of so many trees that see the same records.

        `share`: :math:`B_1/(B_1+B_2)`.

        >>> ChoiceBudget.of(PureDP(1), 5, 4, 0.5, "add_remove").cut
        Fraction(1, 40)
        >>> rates = ChoiceBudget.of(ZCDP(0.02), 5, 4, 0.5, "add_remove")
        >>> round(float(rates.cut), 4), round(float(rates.label), 4)
        (0.0632, 0.1789)
        """
        if budget.is_infinite:
            return cls(budget, *[float("inf")] * 3)
        steps = 2 if neighboring == "replace_one" else 1
        first = Fraction(repr(float(share)))
        if isinstance(budget, PureDP):
            label = budget.exact / (trees * steps)
            level = label / max(1, depth)
        else:
            squares = 8 * budget.exact / (trees * steps**2)
            label = floor_root(squares)
            level = floor_root(squares / (max(1, depth) * (first**2 + (1 - first) ** 2)))
        return cls(budget, level * first, level * (1 - first), label)

    @classmethod
    def from_claim(
        cls,
        epsilon: object,
        delta: object,
        rho: object,
        *,
        trees: int,
        depth: int,
        share: float,
        neighboring: str,
    ) -> "ChoiceBudget":
        """Return the largest rates of choices that make the claim: of ε, of ρ, or of (ε, δ).

        Raises BudgetError, TypeError if there is not exactly one of ε and ρ, or δ does not go with
        it.
        """
        if epsilon is None or rho is not None:
            if delta != 0:
                raise BudgetError(f"delta={delta!r}: expected it beside a finite epsilon only.")
            budgets: tuple[PureDP | ZCDP, ...] = (as_budget(epsilon=epsilon, rho=rho),)
        else:
            budgets = claiming_budgets(epsilon, delta)
        rates = [cls.of(one, trees, depth, share, neighboring) for one in budgets]
        return max(rates, key=lambda one: one.attribute + one.cut)


def floor_root(square: Fraction) -> Fraction:
    return Fraction(isqrt(floor(square * STEPS**2)), STEPS)


Pairs = tuple[Longs, Longs]


@dataclass(frozen=True, eq=False)
class PrivateGrown:
    """A privately grown forest, and the class counts that its structure has not seen.

    Attributes
    ----------
    forest : Forest
        Safe to release: its `provenance` says what it cost, and with which noise.
    leaf_counts : ndarray of int64, shape (o, k)
        Class counts of the estimation points in every leaf. **Not to be released.**
    """

    forest: Forest
    leaf_counts: Longs


@dataclass(frozen=True)
class PrivateMultinomialTrees:
    """Multinomial trees whose structure is ε-differentially private.

    Depth and candidates are public, so nothing but the choices looks at records. A node chooses
    its attribute, then its cut, by exponential mechanisms of B₁ and B₂. Nodes of one level hold
    different records, levels and trees add up (Theorem 2 of Bai et al.): ``B₁ + B₂ = ε/(d t)``.
    Under zCDP their squares add up, see `ChoiceBudget`.

    Parameters
    ----------
    epsilon : int, float, Fraction, or float("inf")
        What the structure spends.
    n_trees : int, default=16
    max_depth : int, default=4
        Public depth d. Nodes are leaves there, or where no cut of the domain is left.
    attribute_share : float, default=0.5
        B₁ / (B₁ + B₂).
    score : {"normalized", "majority"}, default="normalized"
        "normalized": the paper's; "majority": records that the children's majorities label
        right, a score in records, which says far more per budget. See `PrivateScore`.
    criterion : {"gini", "entropy"}, default="gini"
        Impurity of "normalized" scores.
    structure_share : float, default=1.0
        Probability that a record is a structure point of a tree; the others are estimation
        points, by independent coins.
    disjoint : bool, default=False
        Every record belongs to one tree only, by its own coin: then trees compose in parallel
        and each spends all of ε.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        Replacing a record is removing one and adding another: it halves every rate.
    delta : int, float or Fraction, default=0
        (ε, δ)-DP is claimed: by the better of pure choices and those of the ρ that implies it.
    rho : int, float or Fraction, optional
        zCDP budget; then ``epsilon=None``.

    Notes
    -----
    The number of records in a node decides nothing. Line 3 of the paper's Algorithm 1 does count
    estimation points; with it no ε holds, since a node of k points is never split and one of
    k + 1 always is.
    """

    epsilon: Any
    n_trees: int = 16
    max_depth: int = 4
    attribute_share: float = 0.5
    score: Score = "normalized"
    criterion: Criterion = "gini"
    structure_share: float = 1.0
    disjoint: bool = False
    neighboring: str = "add_remove"
    delta: Any = 0
    rho: Any = None

    def __post_init__(self) -> None:
        check_integer("n_trees", self.n_trees, 1)
        check_integer("max_depth", self.max_depth, 0)
        check_probability("attribute_share", self.attribute_share)
        check_probability("structure_share", self.structure_share)
        checked_neighboring(self.neighboring)
        _ = self.growth  # refuses unknown scores, and rates that cannot be drawn at

    @cached_property
    def rates(self) -> ChoiceBudget:
        """The rates of all choices, and the budget they compose to."""
        return ChoiceBudget.from_claim(
            self.epsilon,
            self.delta,
            self.rho,
            trees=1 if self.disjoint else self.n_trees,
            depth=self.max_depth,
            share=self.attribute_share,
            neighboring=self.neighboring,
        )

    def grow(
        self,
        domain: Domain,
        codes: NDArray[Any],
        labels: NDArray[Any],
        *,
        noise: Noise = "exact",
        noise_state: Seed = None,
        bits: Bits | None = None,
    ) -> PrivateGrown:
        """Grow the structure from private records.

        Parameters
        ----------
        domain : Domain
            **Public**, with a target.
        codes : ndarray of int, shape (N, d)
        labels : ndarray of int, shape (N,)
        noise : {"exact", "research"}
            "exact": coins and choices from the system's randomness, exactly; cannot be seeded.
            "research": the same law, seeded by `noise_state`; not a private release.
        noise_state : int, Generator or None
        bits : Bits, optional
            The source itself, instead of the two above.

        Returns
        -------
        PrivateGrown

        Raises
        ------
        ValueError
            If a parameter or record is invalid, or the trees could outgrow the limit on nodes.

        Notes
        -----
        Trees are grown a few at a time, so that memory is that of the records once and of the
        public numbers in `sizes`, never of records times trees.
        """
        self.sizes(domain).check()
        bits = bits or Bits.of(noise, noise_state)
        if len(codes):  # a part of the records may be empty
            Records.of(domain, codes, labels)
        codes, labels = plain_array("codes", codes), plain_array("labels", labels)
        budget = self.rates.budget
        kind = "none" if budget.is_infinite else bits.noise
        spent = spending_of(budget, self.neighboring, kind, "the structure of a forest")
        known = Provenance.from_spending(spent)
        levels, counts = [], []
        for n_trees, structure, estimation in self._points(domain, len(codes), bits):
            grown = private_levels(domain, codes, labels, *structure, n_trees, self.growth, bits)
            part = self._forest(domain, grown, known, bits.noise)
            levels.append(grown)
            counts.append(_leaf_counts(part, codes, labels, *estimation))
        forest = self._forest(domain, joined_levels(levels), known, bits.noise)
        return PrivateGrown(forest, np.concatenate(counts))

    def choices_of(self, forest: Forest) -> tuple[int, ...]:
        """Return a grown forest as whole numbers: the candidate of each node that is split.

        Candidates are the thresholds of all attributes, one attribute after another; nodes stand
        level by level.
        """
        return choices_of(forest.domain.sizes, forest.attribute, forest.pattern)

    def forest_of(
        self, domain: Domain, choices: Sequence[int], provenance: Provenance, noise: str
    ) -> Forest:
        """Return the forest of the whole numbers that `choices_of` gives.

        `provenance`, `noise`: of the choices.

        Raises FieldError if no growing could have chosen them.
        """
        boxes = Boxes.whole(domain.sizes, self.n_trees)
        levels = chosen_levels(domain.sizes, boxes, self.max_depth, choices)
        return self._forest(domain, levels, provenance, noise)

    @property
    def growth(self) -> PrivateGrowth:
        """The public parameters of every node's choices."""
        score = PrivateScore(self.score, Impurity(self.criterion))
        rates = self.rates
        return PrivateGrowth(
            self.max_depth, score, score.rate(rates.attribute), score.rate(rates.cut)
        )

    def sizes(self, domain: Domain) -> GrowthSizes:
        """Return the most that the trees can come to over a domain, whatever the records are."""
        return GrowthSizes(domain, self.n_trees, self.max_depth)

    def _forest(
        self, domain: Domain, levels: Sequence[Level], provenance: Provenance, noise: str
    ) -> Forest:
        attributes, patterns = zip(*levels, strict=True)
        remark = REMARK if noise == "research" else ""
        return forest_from_levels(
            domain,
            attributes,
            patterns,
            provenance=provenance,
            source=f"private multinomial trees{remark}",
        )

    def _points(
        self, domain: Domain, n_records: int, bits: Bits
    ) -> Iterator[tuple[int, Pairs, Pairs]]:
        """Throw every record's coins, some trees at a time.

        Yields the number of trees, and structure and estimation points as (tree, record).
        """
        if self.disjoint:
            tree = bits.uniform_below(np.full(n_records, self.n_trees))
            record = np.argsort(tree, kind="stable")
            yield self.n_trees, *self._coins(tree[record], record, bits)
            return
        step = self.sizes(domain).trees_at_once(n_records)
        for first in range(0, self.n_trees, step):
            count = min(step, self.n_trees - first)
            tree, record = np.divmod(np.arange(count * n_records), max(1, n_records))
            yield count, *self._coins(tree, record, bits)

    def _coins(self, tree: Longs, record: Longs, bits: Bits) -> tuple[Pairs, Pairs]:
        if self.structure_share == 1:
            return (tree, record), (tree[:0], record[:0])
        is_structure = bits.coins(len(tree), self.structure_share)
        structure, estimation = np.flatnonzero(is_structure), np.flatnonzero(~is_structure)
        return (tree[structure], record[structure]), (tree[estimation], record[estimation])


def _leaf_counts(
    forest: Forest, codes: NDArray[Any], labels: NDArray[Any], tree: Longs, record: Longs
) -> Longs:
    """Count the points of each class in every leaf; not to be released."""
    k = forest.domain.n_classes
    node = forest.roots[tree].astype(np.int64)
    for _ in range(forest.max_depth):
        attribute = forest.attribute[node]
        code = codes[record, np.maximum(attribute, 0)]
        branch = forest.branches[forest.pattern[node] + code]
        node = np.where(attribute < 0, node, forest.first_child[node] + branch)
    key = forest.leaf_index[node].astype(np.int64) * k + labels[record]
    return np.bincount(key, minlength=forest.n_leaves * k).reshape(-1, k)
