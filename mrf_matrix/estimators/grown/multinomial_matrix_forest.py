"""Multinomial structure grown privately, leaf counts by the matrix mechanism."""

from typing import Any, ClassVar

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import structure_generator
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.grown.multinomial_forest import check_structure_score
from mrf_matrix.estimators.grown.tree_sources import source_of
from mrf_matrix.estimators.shared.parameters import GivenStrategy, RandomState, parameters
from mrf_matrix.estimators.shared.plan_fit import SPENT, FailedFit, FitsByPlan, Stream
from mrf_matrix.estimators.shared.spending import Bill
from mrf_matrix.forests import Forest, PrivateMultinomialTrees
from mrf_matrix.kinds.model import Kind
from mrf_matrix.kinds.multinomial import Structures, check_growth_memory
from mrf_matrix.kinds.two_stage import TWO_STAGE, check_given_strategy
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.private.two_stage_plan import TwoStagePlan, two_stage_plan
from strategies import Strategy


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
            measuring=self._measuring(budget),
            random_state=self.random_state,
            voting=self.voting,
            delta=float(self.delta),
        )

    def _asked(self, given: Any, plan: TwoStagePlan) -> Any:
        """Return the records, once all that can be known of stage 2 is checked: **private**."""
        check_growth_memory(plan.trees, plan.domain)
        check_given_strategy(plan)
        given.check_records(type(self).__name__)
        return given.tables([])

    def _streams(self, bill: Bill) -> tuple[Stream, Stream]:
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
        values: Array = self._model.posterior.leaf_values
        return values
