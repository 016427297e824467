"""The smooth-sensitivity forest of Fletcher and Islam (2017), for comparison."""

from fractions import Fraction
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from rivals.smooth_sensitivity import draw_smooth_labels

from mrf_matrix.base.arrays import Codes, Longs, Seed
from mrf_matrix.base.checks import short_repr, structure_generator
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.base.work import Choice, enter_draw
from mrf_matrix.estimators.base import commit_on_success
from mrf_matrix.estimators.forest_classifier import PublicParameters, TreesClassifier
from mrf_matrix.estimators.parameters import Amount, Records, parameters
from mrf_matrix.forests import Forest, RandomTrees
from mrf_matrix.forests.growth.level import label_rate, private_labels
from mrf_matrix.mechanisms import BudgetError, PrivacyLedger, PureDP
from mrf_matrix.mechanisms.budget import checked_neighboring
from mrf_matrix.mechanisms.ledger.payers import budget_request, pay
from mrf_matrix.mechanisms.ledger.rules import check_no_ledger
from mrf_matrix.mechanisms.selection import Bits
from mrf_matrix.mechanisms.statement import Claim
from mrf_matrix.planning.plans.baselines import leaves_in_trees
from strategies.operators import check_allocation


@parameters
class SmoothSensitivityForestClassifier(PublicParameters, TreesClassifier):
    """Random structure, each record in one tree, one private label a leaf.

    ``label_rule="smooth"`` draws labels as published. **That is not ε-DP** (see
    `rivals.smooth_sensitivity`): use it to compare with the literature, never
    to release. ``label_rule="count"`` keeps everything else and draws labels by the exponential
    mechanism on class counts, exactly: that is ε-DP.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema. Required.
    epsilon : float, int or Fraction
        Pure-DP budget of the leaf labels.
    delta : 0
        Refused else: a record is asked for one label, so there is no sum of choices that δ
        would make smaller, and the published labels have no δ that anyone has proved.
    n_trees : int
        Random trees.
    max_depth : int
        Default: half the number of attributes, rounded up.
    splits : {"multiway", "binary"}
        See `RandomTrees`.
    label_rule : {"smooth", "count"}
        How leaves draw their labels, see above.
    neighboring : {"add_remove", "replace_one"}
        The neighbouring relation of the claim.
    noise : {"exact", "research"}
        Of "count", and of the coins that give each record its tree; see `mrf_matrix.mechanisms`.
    noise_state : int or Generator
        Seed of research noise.
    ledger : PrivacyLedger
        With "count" only: charged once by every `fit`, after all checks and before any record is
        counted. Refused with "smooth", which is private at no ε that could be charged.

    Attributes
    ----------
    statement_ : str
        What is claimed of the fitted forest, or that nothing is.
    """

    epsilon: Amount = 1.0
    delta: Amount = 0
    n_trees: int = 10
    max_depth: int | None = None
    splits: Literal["multiway", "binary"] = "multiway"
    label_rule: str = "smooth"
    neighboring: str = "add_remove"
    noise: str = "exact"
    noise_state: Seed = None
    ledger: PrivacyLedger | None = None

    @commit_on_success
    def fit(self, X: Records, y: ArrayLike | None = None) -> Self:
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
        if isinstance(self.delta, bool) or self.delta != 0:
            raise BudgetError(
                f"delta={short_repr(self.delta)}: expected 0. label_rule='count' makes one choice "
                f"a record, which pure epsilon serves best and which is (epsilon, delta)-DP too; "
                f"label_rule='smooth' is private at no delta that is proved."
            )
        budget = PureDP(self.epsilon)
        if self.label_rule == "smooth":
            check_no_ledger(
                self.ledger,
                "label_rule='smooth' is not private at the epsilon it is published with",
            )
        bill = budget_request(self, budget)
        bill.check()
        bits = Bits.of(self.noise, bill.noise_state)
        if self.neighboring == "replace_one" and not budget.is_infinite:
            budget = budget * Fraction(1, 2)
        codes, labels = self._encode_training(X, y)
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
        with pay(bill):
            drawn = self._labels(forest, codes, labels, budget, bits)
        self._keep(forest, drawn)
        known = bill.provenance | forest.provenance
        self.statement_ = self._statement(known)
        return self

    def _labels(
        self, forest: Forest, codes: Codes, labels: Codes, budget: PureDP, bits: Bits
    ) -> Longs:
        """Draw the label of every leaf, by the records of its own tree."""
        k = forest.domain.n_classes
        tree = bits.uniform_below(np.full(len(codes), self.n_trees))
        leaf = leaves_in_trees(forest, codes, tree).astype(np.int64)
        counts = np.bincount(leaf * k + labels, minlength=forest.n_leaves * k).reshape(-1, k)
        if self.label_rule == "count":
            return private_labels(counts, budget.epsilon, "count", bits)
        draw = enter_draw(Choice)
        stream = np.random.default_rng(bits.generator)
        drawn = draw.outcome = draw_smooth_labels(counts, float(budget.epsilon), stream)
        return drawn

    def _statement(self, released: Provenance) -> str:
        if self.label_rule == "smooth":
            return (
                f"NOT PRIVATE at the {PureDP(self.epsilon)} it is published with: the "
                f"exponential mechanism's sensitivity depends on the records."
            )
        return Claim(released, ("exponential mechanism",)).statement
