"""Multinomial structure grown privately, leaf counts by the matrix mechanism."""

from math import inf
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from mrf_matrix.base.arrays import Array, Seed
from mrf_matrix.base.checks import one_word, structure_generator
from mrf_matrix.base.kept import begun
from mrf_matrix.base.provenance import parts_of
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.grown.multinomial_forest import (
    check_growth_memory,
    check_structure_score,
)
from mrf_matrix.estimators.grown.stage_two_checks import check_given_strategy
from mrf_matrix.estimators.grown.tree_sources import source_of
from mrf_matrix.estimators.shared.base import BaseForestClassifier
from mrf_matrix.estimators.shared.fixed_claim import ClaimAttribute, keeping, release_note
from mrf_matrix.estimators.shared.given_data import (
    EncodedRecords,
    check_before_release,
    encode,
    resolve_domain,
)
from mrf_matrix.estimators.shared.parameters import (
    Amount,
    DomainParameters,
    GivenStrategy,
    Records,
    SeedParameters,
    parameters,
)
from mrf_matrix.estimators.shared.spending import Bill, NoiseParameters, bill_of, paid
from mrf_matrix.forests import PrivateMultinomialTrees
from mrf_matrix.forests.learned.two_stage_plan import TwoStagePlan
from mrf_matrix.forests.sources.ensembles import Ensemble, public_queries
from mrf_matrix.mechanisms.budgets.claim import claimed_budget
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan_of import PublicForests
from mrf_matrix.reports.choice_report import TwoStageReport, two_stage_report
from mrf_matrix.voting.voting import VOTINGS, forest_votes, leaf_votes

FITTED = (
    "leaf_plan_", "strategy_", "release_", "leaf_values_", "privacy_report_", "domain_", "classes_"
)  # fmt: skip
"""What a fit leaves besides the structure."""


@parameters
class MultinomialMatrixForestClassifier(
    SeedParameters, NoiseParameters, DomainParameters, BaseForestClassifier
):
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
        See `TwoStagePlan`.
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

    Attributes
    ----------
    plan_ : TwoStagePlan
        The shares, decided before any record is read.
    leaf_plan_ : Plan
        Stage 2, planned against the forest that stage 1 released.
    privacy_report_ : TwoStageReport
    forest_ : Forest
        The structure, grown privately. Kept where stage 2 fails, for it was paid for.
    strategy_, release_, leaf_values_
        See `MatrixForestClassifier`.
    """

    _claim_rests_on = ("parts", "structure_share", "disjoint")
    _learned = "leaf_values_"
    privacy_report_ = ClaimAttribute[TwoStageReport]()  # type: ignore[assignment]

    epsilon: Amount = 1.0
    delta: Amount = 0
    parts: str = "coins"
    structure_share: float = 0.3
    n_trees: int = 8
    max_depth: int = 4
    structure_score: str = "majority"
    disjoint: bool = True
    strategy: GivenStrategy | list[GivenStrategy] = "auto"
    voting: str = "hard"
    time_limit: float = 8.0

    def fit(self, X: Records, y: ArrayLike | None = None) -> Self:
        """Grow the structure privately, select a strategy for it, and measure the leaf counts.

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
        kind = kind_of("training", voting=one_word("voting", self.voting, VOTINGS))
        check_structure_score(self.structure_score)
        structure = structure_generator(self.random_state)
        plan = TwoStagePlan.of(
            claimed_budget(self.epsilon, self.delta), self.parts, self.structure_share
        )
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
        with paid(bill):
            seen, measured = plan.assign(len(codes), bits)
            draw = begun()
            forest = trees.grow(domain, codes[seen], labels[seen], bits=bits).forest
            draw.outcome = forest
        whole = Ensemble(tuple(range(domain.n_attributes)), forest)
        with keeping(self, FITTED, self._structure_note(plan, bill), plan_=plan, forest_=forest):
            leaves = PublicForests(kind, domain, (whole,), structure).plan(
                measuring, public_queries(domain, None), n_classes=domain.n_classes
            )
            check_before_release(leaves, inf)  # half is paid: however long it takes
            (part,) = leaves.parts
            records = EncodedRecords(domain, codes[measured], labels[measured])
            table = kind.table(whole, records, structure)
            with parts_of(bill.spending):
                release = part.release(table, noise=self.noise, noise_state=count_noise)
            self.leaf_plan_, self.strategy_ = leaves, part.strategy
        with keeping(self, (), release_note("forest_"), release_=release):
            self.domain_, (self.classes_, order) = domain, sorted_classes(domain)
            self.privacy_report_ = two_stage_report(plan, trees, release, float(self.delta))
            self.leaf_values_ = part.answers(release)[:, order]
        return self

    def _votes(self, X: Records) -> Array:
        codes = self._codes(X)
        votes_of_leaf = leaf_votes(self.leaf_values_, one_word("voting", self.voting, VOTINGS))
        return forest_votes(self.forest_, codes, votes_of_leaf)

    def _structure_note(self, plan: TwoStagePlan, bill: Bill) -> str:
        """Return how to go on from a structure whose leaves could not be measured."""
        charged = f", but the ledger was charged {plan.total} for both stages before the first"
        return (
            f"Stage 1 was run: {plan.structure} was spent on the structure, which is not lost: it "
            f"is forest_ of this estimator. Stage 2 released nothing"
            f"{'' if bill.ledger is None else charged}. "
            f"Go on with MatrixForestClassifier(domain, epsilon=..., forest=forest_), whose "
            f"epsilon adds to what was spent. Fitting again would pay for another structure."
        )

    def _structure(self, plan: TwoStagePlan) -> PrivateMultinomialTrees:
        return source_of(
            self,
            PrivateMultinomialTrees,
            **{"epsilon": None, "delta": 0, plan.structure.parameter: plan.structure.amount},
            score=self.structure_score,
            structure_share=1.0,
        )

    def _noise_states(self, seed: Seed) -> tuple[Seed, Seed]:
        """Return independent seeds of both stages for research noise; the seed itself for exact."""
        if self.noise != "research":
            return seed, seed
        first, second = np.random.default_rng(seed).spawn(2)
        return first, second
