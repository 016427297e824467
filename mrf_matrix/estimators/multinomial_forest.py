"""The multinomial random forest as a classifier: public, or ε-differentially private.

Its leaves are counted with noise of their own, or by the matrix mechanism.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import one_word, short_repr, structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.base import commit_on_success
from mrf_matrix.estimators.forest_classifier import LearnedForestClassifier, source_of
from mrf_matrix.estimators.parameters import (
    GivenStrategy,
    RandomState,
    Records,
    ReleaseParameters,
    parameters,
)
from mrf_matrix.estimators.plan_fit import SPENT, FailedFit, FitsByPlan, Stream
from mrf_matrix.estimators.record_source import EncodedRecords
from mrf_matrix.forests import Forest, MultinomialTrees, PrivateMultinomialTrees
from mrf_matrix.forests.growth.growth import Partition
from mrf_matrix.forests.growth.level import LABEL_SCORES, label_rate
from mrf_matrix.forests.growth.private import SCORES
from mrf_matrix.kinds.model import Kind, Model
from mrf_matrix.kinds.multinomial import (
    MULTINOMIAL,
    MultinomialPlan,
    Structures,
    check_growth_memory,
)
from mrf_matrix.kinds.two_stage import TWO_STAGE, check_given_strategy
from mrf_matrix.mechanisms import ZCDP, BudgetError
from mrf_matrix.mechanisms.ledger.payers import BudgetRequest, budget_request, noise_stream, pay
from mrf_matrix.mechanisms.ledger.rules import check_no_ledger
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.two_stage_plan import TwoStagePlan, two_stage_plan
from mrf_matrix.release.curator import Live
from strategies import Strategy

INFINITY = float("inf")


@parameters
class MultinomialForestClassifier(ReleaseParameters, LearnedForestClassifier):
    """Multinomial random forest (Bai et al., 2022), with or without privacy.

    *Without* (``epsilon=None``): Algorithm 1. A node draws its attribute from
    ``softmax(B₁ Î/2)`` and its cut from ``softmax(B₂ Î⁽ʲ⁾/2)`` on structure points; leaf labels
    come from ``softmax(B₃ P/2)`` on estimation points; trees vote.

    *With* (``epsilon`` or ``rho`` given): Theorem 2, made to hold. Depth and candidates are
    public, no count stops a node, every leaf chooses among every public class, and all choices are
    sampled exactly. Each tree spends ε/t: ``B₁ + B₂ = ε/(d t)`` on a level, ``B₃ = ε/t`` on the
    leaves of the other records, since structure and estimation points are disjoint.

    Parameters
    ----------
    domain : Domain, "from_data" or None
        The public schema; required with a budget. None: the records are public, and every
        distinct value is a code.
    b1, b2 : float
        Sharpness of the two structure choices, default 10; with a budget they follow from it.
    b3 : float
        Sharpness of the label choice, default infinity (the majority); as above.
    partition_rate : float
        Structure points per estimation point.
    min_points : int
        Minimum leaf size k, default 5. A count of records: refused with a budget.
    max_depth : int
        Splits on a path; no limit by default, 10 with a budget.
    nominal : "text" or sequence of (str or int)
        Attributes without an order, cut as "this code or not"; "text": those of texts. Private
        growth takes all attributes as ordered.
    epsilon : float, int or Fraction
        Pure-DP budget of the whole fit. ``float("inf")``: the same procedure without noise.
    rho : float, int or Fraction
        zCDP budget of the whole fit, instead of ``epsilon``: squares of choices add up.
    delta : float
        With ``epsilon``: (ε, δ)-DP is claimed, by the better of pure choices and those of the
        largest zCDP budget that implies it, whose squares add up over levels and trees; see
        `mrf_matrix.forests.private_multinomial.ChoiceBudget`.
    structure_score : {"normalized", "majority"}
        Score of private structure choices, see `PrivateMultinomialTrees`.
    label_score : {"share", "count"}
        Score of private labels: the paper's class shares, or class counts, which say more.
    disjoint : bool
        With a budget: every record belongs to one tree only, so each tree spends all of it.
    ledger : PrivacyLedger
        Charged once by every private `fit`, after all checks and before the structure is grown;
        refused without a budget, for then nothing is protected and nothing can be charged.
    n_jobs : int
        Threads for growing without privacy.
    random_state : int, RandomState or None
        Seed of growing without privacy.

    Attributes
    ----------
    model_ : Model
        What was released, and what follows; only with a budget.
    privacy_report_ : PrivacyReport
        What is claimed, and how the choices compose to it; only with a budget.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = MultinomialForestClassifier(random_state=0).fit(X, y)
    >>> bool(forest.score(X, y) > 0.9)
    True
    """

    b1: float | None = None
    b2: float | None = None
    b3: float | None = None
    partition_rate: float = 1.0
    min_points: int | None = None
    structure_score: str = "normalized"
    label_score: str = "share"
    disjoint: bool = False

    @commit_on_success
    def fit(self, X: Records, y: ArrayLike | None = None) -> Self:
        """Grow the forest and label its leaves; with a budget, spend it.

        Raises
        ------
        ValueError
            If a parameter or record is invalid, or a budget comes with ``min_points``, ``b1``,
            ``b2``, ``b3`` or without a domain, or the ledger cannot pay (a `BudgetError`). Nothing
            is spent then.
        """
        if self.epsilon is None and self.rho is None:
            check_no_ledger(self.ledger, "epsilon=None grows without privacy")
            if self.delta != 0:
                raise BudgetError(
                    f"delta={short_repr(self.delta)} with epsilon=None, which claims nothing: "
                    f"expected delta=0, or a finite epsilon."
                )
            return super().fit(X, y)
        check_private_parameters(self)
        structure_generator(self.random_state)  # refused even where not in use
        trees = self._private_trees()
        bill = budget_request(self, trees.rates.budget)
        bill.check()
        if self.domain is None:
            raise ValueError(
                "domain=None with a budget: private growth needs a public domain. "
                "Pass a Domain or the path of a domain file."
            )
        codes, labels = self._encode_training(X, y)
        check_growth_memory(trees, self.domain_)
        label_rate(trees.rates.label, self.label_score)  # type: ignore[arg-type]
        delta = float(self.delta) if isinstance(trees.rates.budget, ZCDP) else 0.0
        plan = MultinomialPlan(self.domain_, trees, self.label_score, delta)
        curator = Live(
            plan, EncodedRecords(self.domain_, codes, labels), partial(pay, bill), self.noise,
            noise_stream(self.noise, bill.noise_state), provenance=bill.provenance,
        )  # fmt: skip
        self.model_ = Model(MULTINOMIAL, *curator.learn(MULTINOMIAL))
        self._keep(self.model_.posterior.forest, self.model_.posterior.labels)
        return self

    def _source(self, nominal: Sequence[str | int]) -> MultinomialTrees:
        return source_of(
            self,
            MultinomialTrees,
            nominal=nominal,
            min_points=5 if self.min_points is None else self.min_points,
            b1=10.0 if self.b1 is None else self.b1,
            b2=10.0 if self.b2 is None else self.b2,
        )

    def _label_sharpness(self) -> float:
        return INFINITY if self.b3 is None else self.b3

    def _private_trees(self) -> PrivateMultinomialTrees:
        return source_of(
            self,
            PrivateMultinomialTrees,
            max_depth=10 if self.max_depth is None else self.max_depth,
            score=self.structure_score,
            structure_share=Partition(self.partition_rate).share,
        )


def check_private_parameters(estimator: MultinomialForestClassifier) -> None:
    """Refuse what does not go with ε: count-based stopping, sharpness given twice, odd scores."""
    one_word("label_score", estimator.label_score, LABEL_SCORES)
    check_structure_score(estimator.structure_score)
    if estimator.min_points is not None:
        raise ValueError(
            f"min_points={short_repr(estimator.min_points)} with a budget: "
            f"whether a node has more than k estimation points is private, and a stopping rule "
            f"that reads it reveals it: a record more turns a leaf into a split with certainty, "
            f"so no ε holds (Algorithm 1's line 3 breaks Theorem 2). Leave min_points=None and "
            f"bound the trees by the public max_depth, or use epsilon=None on public records."
        )
    given = [name for name in ("b1", "b2", "b3") if getattr(estimator, name) is not None]
    if given:
        raise BudgetError(
            f"{', '.join(given)} with a budget, which fixes them (B₁ + B₂ = ε/(d t), B₃ = ε/t). "
            f"Give epsilon alone, or epsilon=None on public records."
        )


def check_structure_score(score: object) -> None:
    """Refuse an unknown score of private structure choices, by the classifiers' name for it."""
    if score not in SCORES:
        raise ValueError(
            f"structure_score={short_repr(score)}: expected one of {', '.join(map(repr, SCORES))}."
        )


@parameters
class MultinomialMatrixForestClassifier(FitsByPlan):
    """Forest whose structure is learned privately and whose leaf counts are measured as a whole.

    Stage 1 grows multinomial trees by exponential mechanisms (`PrivateMultinomialTrees`). Stage 2
    takes their decision-path matrix T as the workload, selects a strategy A, and measures the
    other records once: leaf values are ``T A⁺ (A D + noise)``. The structure is an output of a
    private stage, so selecting a strategy for it is post-processing.

    Parameters
    ----------
    epsilon : float, int or Fraction
        Pure-DP budget of both stages together.
    delta : float
        (ε, δ)-DP is claimed: the structure's choices and Gaussian noise on the leaves share the
        largest zCDP budget that implies it.
    parts : {"coins", "all"}
        "coins": each record belongs to one stage, by its own coin, so that both may spend the whole
        budget. "all": both stages see all records, and their budgets add.
    structure_share : float
        The budget split: share of the records ("coins") or of ε ("all") for the structure.
    n_trees, max_depth : int
        Of the structure, see `PrivateMultinomialTrees`.
    structure_score : {"majority", "normalized"}
        See `PrivateMultinomialTrees`.
    disjoint : bool
        Every structure record grows one tree only, so each tree spends all of stage 1's ε.
    strategy, voting, time_limit
        See `MatrixForestClassifier`.
    ledger : PrivacyLedger
        Charged for both stages at once.
    random_state : int, RandomState or None
        Seed of the public structure.

    Attributes
    ----------
    plan_ : TwoStagePlan
        The shares, decided before any record is read.
    leaf_plan_ : Plan
        Stage 2, planned against the forest that stage 1 released.
    forest_ : Forest
        The structure, grown privately. Kept where stage 2 fails, for it was paid for.
    strategy_, release_, leaf_values_
        See `MatrixForestClassifier`.

    Notes
    -----
    Whether a strategy can be found for the leaves is known only once there is a structure. If stage
    2 fails, `go_on` takes it again at no charge where both stages see all records. Where records
    were dealt by coins it refuses, for coins thrown anew would show some records to both stages:
    then ``forest_`` is what is left, for another forest of leaf counts that adds its own budget.
    """

    _kind: ClassVar[Kind] = TWO_STAGE
    _spent = (
        f"{SPENT} The structure, where it was chosen, is forest_ of this estimator: "
        f"MatrixForestClassifier(domain, epsilon=..., forest=forest_) goes on from it, whose "
        f"epsilon adds to what was spent."
    )

    parts: str = "coins"
    structure_share: float = 0.3
    n_trees: int = 8
    max_depth: int = 4
    structure_score: str = "majority"
    disjoint: bool = True
    strategy: GivenStrategy | list[GivenStrategy] = "auto"
    voting: str = "hard"
    time_limit: float = 8.0
    random_state: RandomState = None

    def _plan(self, domain: Domain) -> TwoStagePlan:
        check_structure_score(self.structure_score)
        structure_generator(self.random_state)  # refused before the structure is paid for
        budget = self._budget  # of which the trees get their share
        trees = source_of(
            self, PrivateMultinomialTrees, epsilon=1, delta=0, rho=None,
            score=self.structure_score, structure_share=1.0,
        )  # fmt: skip
        return two_stage_plan(
            domain,
            budget,
            trees,
            parts=self.parts,
            structure_share=self.structure_share,
            measuring=self._measurement_spec(budget),
            random_state=self.random_state,
            voting=self.voting,
            delta=float(self.delta),
        )

    def _plan_data(self, given: Any, plan: TwoStagePlan) -> Any:
        """Return the records, once all that can be known of stage 2 is checked: **private**."""
        check_growth_memory(plan.trees, plan.domain)
        check_given_strategy(plan)
        given.check_records(type(self).__name__)
        return given.tables([])

    def _streams(self, bill: BudgetRequest) -> tuple[Stream, Stream]:
        """Return independent streams of both stages for research noise."""
        if bill.noise != "research":
            return None, None
        choosing, noise = np.random.default_rng(bill.noise_state).spawn(2)
        return noise, choosing

    @property
    def forest_(self) -> Forest:
        """The structure; of a fit that failed after it, what it chose."""
        failed: FailedFit | None = vars(self).get("failed_")
        if failed is None:
            forest: Forest = self._model.posterior.forest
            return forest
        told = failed.transcript
        if not told.choices:
            raise AttributeError("forest_: the fit failed before a structure was chosen.")
        asked = Structures(failed.plan.trees, failed.plan.domain)
        return asked.forest(told.choices[0], told.provenance, told.noise)

    @property
    def leaf_plan_(self) -> Plan:
        """Stage 2, planned against the forest that stage 1 released."""
        plan: Plan = self._model.plan.followed
        return plan

    @property
    def strategy_(self) -> Strategy | None:
        """The strategy of the leaves."""
        return self.leaf_plan_.strategy

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the leaves, in the order of `classes_`."""
        return self._model.sort_columns(self._model.posterior.leaf_values)
