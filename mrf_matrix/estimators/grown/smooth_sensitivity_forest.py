"""The smooth-sensitivity forest of Fletcher and Islam (2017), for comparison."""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from mrf_matrix.estimators.grown.grown_forest import GrownForestClassifier
from mrf_matrix.estimators.shared.fixed_claim import ClaimAttribute
from mrf_matrix.estimators.shared.spending import bill_of, check_no_ledger
from mrf_matrix.forests import GrownTrees, RandomTrees
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.growth.private.labels import label_rate, private_labels
from mrf_matrix.forests.learned.smooth_sensitivity import draw_smooth_labels
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.mechanisms.budgets.neighboring import checked_neighboring
from mrf_matrix.planning.kinds.coins import leaves_in_trees
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.reports.choice_report import claim
from strategies.operators import check_allocation


class SmoothSensitivityForestClassifier(GrownForestClassifier):
    """Random structure, each record in one tree, one private label a leaf.

    ``label_rule="smooth"`` draws labels as published. **That is not ε-DP** (see
    `mrf_matrix.forests.learned.smooth_sensitivity`): use it to compare with the literature, never
    to release. ``label_rule="count"`` keeps everything else and draws labels by the exponential
    mechanism on class counts, exactly: that is ε-DP.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema. Required.
    epsilon : float, int or Fraction, default=1.0
    n_trees : int, default=10
    max_depth : int, optional
        Default: half the number of attributes, rounded up.
    splits : {"multiway", "binary"}, default="multiway"
    label_rule : {"smooth", "count"}, default="smooth"
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
    noise : {"exact", "research"}, default="exact"
        Of "count", and of the coins that give each record its tree.
    noise_state : int or Generator, optional
    ledger : PrivacyLedger, optional
        With "count" only: charged once by every `fit`, after all checks and before any record is
        counted. Refused with "smooth", which is private at no ε that could be charged.
    random_state : int, RandomState or None
        Seed of the public structure.

    Attributes
    ----------
    statement_ : str
        What is claimed of the fitted forest, or that nothing is.
    domain_, classes_, forest_, leaf_labels_
        See `GrownForestClassifier`.
    """

    _claim_rests_on = ("label_rule",)
    statement_: Any = ClaimAttribute()

    def __init__(
        self,
        domain: Any = None,
        *,
        epsilon: Any = 1.0,
        n_trees: int = 10,
        max_depth: int | None = None,
        splits: Any = "multiway",
        label_rule: str = "smooth",
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.splits = splits
        self.label_rule = label_rule
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.ledger = ledger
        self.random_state = random_state

    def _trees(self, nominal: Any) -> GrownTrees:
        raise TypeError("the smooth-sensitivity forest draws its structure without records")

    def fit(self, X: Any, y: Any) -> Self:
        """Draw the structure, give each record its tree, and label the leaves.

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, or the ledger cannot pay (a
            `BudgetError`) or has nothing to charge; nothing is spent then.
        """
        if self.label_rule not in ("smooth", "count"):
            raise ValueError(f"label_rule={self.label_rule!r}: expected 'smooth' or 'count'.")
        if self.domain is None:
            raise ValueError("domain=None: expected a public Domain with a target.")
        checked_neighboring(self.neighboring)
        budget = PureDP(self.epsilon)
        if self.label_rule == "smooth":
            check_no_ledger(
                self.ledger,
                "label_rule='smooth' is not private at the epsilon it is published with",
            )
        bill = bill_of(self, budget)
        bill.check()
        bits = Bits.of(self.noise, bill.noise_state)
        if self.neighboring == "replace_one" and not budget.is_infinite:
            budget = budget * Fraction(1, 2)
        codes, labels, _ = self._encode_training(X, y)
        generator = structure_generator(self.random_state)
        depth = self.max_depth
        if depth is None:
            depth = -(-self.domain_.n_attributes // 2)
        trees = RandomTrees(self.n_trees, depth, self.splits)
        forest = trees.grow(self.domain_, generator)
        k = self.domain_.n_classes
        check_allocation("class counts of all leaves", (forest.n_leaves, k), 48)
        if self.label_rule == "count":
            label_rate(budget.epsilon, "count")
        bill.charge()
        tree = bits.below(np.full(len(codes), self.n_trees))
        leaf = leaves_in_trees(forest, codes, tree).astype(np.int64)
        counts = np.bincount(leaf * k + labels, minlength=forest.n_leaves * k).reshape(-1, k)
        if self.label_rule == "count":
            drawn = private_labels(counts, budget.epsilon, "count", bits)
        else:
            seed = None if bits.generator is None else bits.generator
            drawn = draw_smooth_labels(counts, float(budget.epsilon), np.random.default_rng(seed))
        self._keep(forest, drawn, generator)
        self.statement_ = self._statement()
        return self

    def _statement(self) -> str:
        if self.label_rule == "smooth":
            return (
                f"NOT PRIVATE at the {PureDP(self.epsilon)} it is published with: the "
                f"exponential mechanism's sensitivity depends on the records."
            )
        return claim(PureDP(self.epsilon), self.neighboring, self.noise, self.domain)
