"""Multinomial structure grown privately, leaf counts by the matrix mechanism."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mrf_matrix.estimators.grown.growth_memory import check_growth_memory
from mrf_matrix.estimators.grown.kept_structure import keeping_structure
from mrf_matrix.estimators.grown.multinomial_forest import check_structure_score
from mrf_matrix.estimators.grown.stage_two_checks import check_given_strategy
from mrf_matrix.estimators.shared.base import ForestClassifier, sorted_classes
from mrf_matrix.estimators.shared.given_data import EncodedRecords
from mrf_matrix.estimators.shared.kept_release import keeping
from mrf_matrix.estimators.shared.schema import (
    encode,
    encode_queries,
    resolve_domain,
    with_provenance,
)
from mrf_matrix.estimators.shared.spending import bill_of
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.growth.private.bits import Bits
from mrf_matrix.forests.learned.two_stage_plan import TwoStagePlan
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.mechanisms import PureDP
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan_of import PublicForests
from mrf_matrix.planning.plans.queries import public_queries
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.reports.choice_report import two_stage_report
from mrf_matrix.voting.voting import check_voting, forest_votes, leaf_votes

FITTED = (
    "leaf_plan_", "strategy_", "release_", "leaf_values_", "privacy_report_", "domain_", "classes_"
)  # fmt: skip
"""What a fit leaves besides the structure."""


class MultinomialMatrixForestClassifier(ForestClassifier):
    """Forest whose structure is learned privately and whose leaf counts are measured as a whole.

    Stage 1 grows multinomial trees by exponential mechanisms (`PrivateMultinomialTrees`). Stage 2
    takes their decision-path matrix T as the workload, selects a strategy A, and measures the
    other records once: leaf values are ``T A⁺ (A D + noise)``. The structure is an output of a
    private stage, so selecting a strategy for it is post-processing.

    Parameters
    ----------
    domain : Domain or "from_data"
        The public schema, with the target's classes. Required.
    epsilon : float, int or Fraction, default=1.0
        Pure-DP budget of both stages together.
    parts : {"coins", "all"}, default="coins"
        See `TwoStagePlan`.
    structure_share : float, default=0.3
        The budget split: share of the records ("coins") or of ε ("all") for the structure.
    n_trees : int, default=8
    max_depth : int, default=4
    structure_score : {"majority", "normalized"}, default="majority"
        See `PrivateMultinomialTrees`.
    disjoint : bool, default=True
        Every structure record grows one tree only, so each tree spends all of stage 1's ε.
    strategy, voting, neighboring, noise, noise_state, time_limit, ledger, random_state
        See `MatrixForestClassifier`. The ledger is charged for both stages at once.

    Attributes
    ----------
    plan_ : TwoStagePlan
        The shares, decided before any record is read.
    leaf_plan_ : Plan
        Stage 2, planned against the forest that stage 1 released.
    privacy_report_ : TwoStageReport
    forest_ : Forest
        The structure, grown privately. Kept where stage 2 fails, for it was paid for.
    strategy_, release_, leaf_values_, domain_, classes_
        See `MatrixForestClassifier`.
    """

    _claim_rests_on = ("parts", "structure_share", "disjoint")

    def __init__(
        self,
        domain: Any = None,
        *,
        epsilon: Any = 1.0,
        parts: str = "coins",
        structure_share: float = 0.3,
        n_trees: int = 8,
        max_depth: int = 4,
        structure_score: str = "majority",
        disjoint: bool = True,
        strategy: Any = "auto",
        voting: str = "hard",
        neighboring: str = "add_remove",
        noise: str = "exact",
        noise_state: Any = None,
        time_limit: float = 8.0,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.parts = parts
        self.structure_share = structure_share
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.structure_score = structure_score
        self.disjoint = disjoint
        self.strategy = strategy
        self.voting = voting
        self.neighboring = neighboring
        self.noise = noise
        self.noise_state = noise_state
        self.time_limit = time_limit
        self.ledger = ledger
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow the structure privately, select a strategy for it, and measure the leaf counts.

        Parameters
        ----------
        X : frame or array of shape (N, d)
            Private records, in the domain's terms.
        y : array of shape (N,)

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the domain or a record is invalid, the trees could outgrow the memory
            cap, a given strategy would not serve every structure, or the ledger cannot pay (a
            `BudgetError`); nothing is spent then.

        Notes
        -----
        Whether a strategy can be found for the leaves is known only once there is a structure. If
        stage 2 fails, the structure is kept as ``forest_``, and the error notes what was spent
        and how to go on from it.
        """
        kind = kind_of("training", voting=check_voting(self.voting))
        check_structure_score(self.structure_score)
        structure = structure_generator(self.random_state)
        plan = TwoStagePlan.of(PureDP(self.epsilon), self.parts, self.structure_share)
        measuring = self._measuring(plan.counts)
        measuring.check()
        trees = self._structure(plan)
        bill = bill_of(self, plan.total)
        bill.check()
        structure_noise, count_noise = self._noise_states(bill.noise_state)
        bits = Bits.of(self.noise, structure_noise)
        domain, X, y = resolve_domain(self, self.domain, X, y)
        check_growth_memory(trees, domain)
        check_given_strategy(self.strategy, domain, trees.max_depth, plan.counts, self.neighboring)
        codes, labels = encode(domain, X, y)
        bill.charge()
        seen, measured = plan.assign(len(codes), bits)
        forest = trees.grow(domain, codes[seen], labels[seen], bits=bits).forest
        whole = Ensemble(tuple(range(domain.n_attributes)), forest)
        with keeping_structure(self, plan, forest, FITTED):
            leaves = PublicForests(kind, domain, (whole,), structure).plan(
                measuring, public_queries(domain, None), n_classes=domain.n_classes
            )
            leaves.check_memory()
            (part,) = leaves.parts
            records = EncodedRecords(domain, codes[measured], labels[measured])
            table = kind.table(whole, records, structure)
            release = part.release(table, noise=self.noise, noise_state=count_noise)
            release = with_provenance(release, self.domain)
            self.leaf_plan_, self.strategy_ = leaves, part.strategy
        with keeping(self, "release_", release, (), forest="forest_"):
            self.domain_, (self.classes_, order) = domain, sorted_classes(domain)
            self.privacy_report_ = two_stage_report(plan, trees, release, self.domain)
            self.leaf_values_ = part.answers(release)[:, order]
        return self

    def _votes(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "leaf_values_")
        codes = encode_queries(self, self.domain_, X)
        votes_of_leaf = leaf_votes(self.leaf_values_, check_voting(self.voting))
        return forest_votes(self.forest_, codes, votes_of_leaf)

    def _structure(self, plan: TwoStagePlan) -> PrivateMultinomialTrees:
        return PrivateMultinomialTrees(
            epsilon=plan.structure.epsilon,
            n_trees=self.n_trees,
            max_depth=self.max_depth,
            score=self.structure_score,  # type: ignore[arg-type]
            disjoint=self.disjoint,
            neighboring=self.neighboring,
        )

    def _noise_states(self, seed: Any) -> tuple[Any, Any]:
        """Return independent seeds of both stages for research noise; the seed itself for exact."""
        if self.noise != "research":
            return seed, seed
        first, second = np.random.default_rng(seed).spawn(2)
        return first, second
