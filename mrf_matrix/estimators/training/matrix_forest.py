"""DP batch training: Algorithms 1 and 3 as a scikit-learn classifier, and two baselines."""

from collections.abc import Callable
from typing import Self

import numpy as np

from mrf_matrix.base.arrays import Array
from mrf_matrix.base.checks import whole_number
from mrf_matrix.base.shown import shown
from mrf_matrix.estimators.shared.base import FitsFromCounts, sorted_classes
from mrf_matrix.estimators.shared.fixed_claim import keeping, release_note
from mrf_matrix.estimators.shared.given_data import PrivateData, tables_for
from mrf_matrix.estimators.shared.noise_aware import NoiseAwareForest, ReleasedEnsemble
from mrf_matrix.estimators.shared.parameters import (
    EnsembleParameters,
    SeedParameters,
    StrategyParameters,
    parameters,
)
from mrf_matrix.estimators.shared.reports import training_report
from mrf_matrix.estimators.shared.schema import with_provenance
from mrf_matrix.estimators.shared.spending import (
    Bill,
    BudgetParameters,
    NoiseParameters,
    bill_of,
    noise_stream,
)
from mrf_matrix.estimators.training.auto_forest import (
    AUTO,
    auto_design,
    check_left_alone,
    with_choice,
)
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import Release
from mrf_matrix.planning.blocks.automatic_tables import checked_share
from mrf_matrix.planning.kinds.coins import record_coins
from mrf_matrix.planning.kinds.table_source import TableSource
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of
from mrf_matrix.planning.plans.structure import structure_generator
from mrf_matrix.voting.leaf_noise import check_shrinkage
from strategies import Strategy


@parameters
class MatrixForestClassifier(
    SeedParameters,
    NoiseParameters,
    StrategyParameters,
    EnsembleParameters,
    BudgetParameters,
    FitsFromCounts,
    NoiseAwareForest,
):
    """Random forest whose leaf values are released once by the matrix mechanism.

    The forest's structure is drawn from the public domain alone. Its decision-path matrix ``T``
    is the workload; a strategy ``A`` is selected without data, the private records are measured
    once, and the leaf values are ``C̃ = T A⁺ (A D + noise)`` (Algorithm 1 of Tajima, Wu and
    Houmansadr, AAAI 2025). Prediction is post-processing: it costs no budget, however often.

    Parameters
    ----------
    max_depth : int or "auto"
        Depth of the random trees. With "auto" cells are measured, and depth, voting and shrinkage
        are chosen from the release alone, see `choose_forest`; or, where the plan expects more of
        them, tables of single attributes, one tree each.
    allocation : {"matrix", "per_tree", "disjoint"}
        "matrix": this library's mechanism; "per_tree": Laplace (Gaussian) noise on each tree's
        leaves; "disjoint": each record trains one tree only, drawn by its own coin.
    voting : {"hard", "weight", "product", "shares", "posterior"}
        "hard": every tree votes for its leaf's largest class. "weight": trees add leaf values.
        The others know the noise or multiply, see `mrf_matrix.voting.ensemble_votes`.
        Changing it after `fit` costs nothing. Not used with ``max_depth="auto"``.
    shrinkage : {"none", "votes", "leaves"}
        Shrinks leaves toward their ancestors before they vote, see `shrink_leaves`: as far as
        votes of all trees need, or each leaf on its own. Not used with ``max_depth="auto"``.
    class_share : float
        Share of the budget that ``max_depth="auto"`` spends on the class totals.
    n_records : int
        The number of records, where it is public: ``max_depth="auto"`` weighs noise against it,
        and divides its scores by it. Never read off the records.
    random_state : int, RandomState or None
        Seed of the public structure. The coins of "disjoint" follow it with research noise only;
        a private release throws fresh ones.

    Attributes
    ----------
    plan_ : Plan
        What was measured, decided without data: the plan that `plan` gives for the same arguments.
    ensembles_ : tuple of ReleasedEnsemble
        Attributes, forest, strategy, release and leaf values of each ensemble: all that was
        learned from the records.
    forest_, strategy_, release_, leaf_values_, leaf_variances_
        Those of the only ensemble, where there is one.
    choice_, chosen_depth_ : ForestChoice, int
        What ``max_depth="auto"`` chose, and by which scores.

    Notes
    -----
    The expected squared error of the leaf values is ``c(ε) ‖A‖₁² ‖T A⁺‖²_F`` per class, with c
    the variance of the discrete noise at unit scale (about ``2/ε²``); see `expected_error`.
    With q ensembles each has its share of the budget, ε/q unless told otherwise, and the claims
    add up to ε (sequential composition). Fitting twice spends the budget twice.

    Examples
    --------
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
    >>> car = load_dataset("car")
    >>> forest = MatrixForestClassifier(
    ...     car.domain, epsilon=1.0, n_trees=16, max_depth=3, strategy="identity", random_state=0
    ... )
    >>> forest.fit(car.X, car.y).predict(car.X).shape
    (1728,)
    >>> forest.privacy_report_.noise
    'exact'
    """

    allocation: str = "matrix"
    voting: str = "hard"
    shrinkage: str = "none"
    class_share: float = 0.1
    n_records: int | None = None

    def _fit(self, bring: Callable[[], PrivateData]) -> Self:
        kind = kind_of("training", self.allocation, self.voting)
        check_shrinkage(self.shrinkage)
        checked_share(self.class_share)
        records = None if self.n_records is None else whole_number("n_records", self.n_records)
        measuring = self._measuring(self._budget)
        measuring.check()
        bill = bill_of(self, self._budget)
        bill.check()
        data = bring()
        if kind.is_disjoint:
            data.check_records(f"{type(self).__name__} with allocation='disjoint'")
        structure = structure_generator(self.random_state)
        if isinstance(self.max_depth, str):
            return self._fit_auto(bill, data, structure, records)
        for left in ("choice_", "_release_"):
            self.__dict__.pop(left, None)
        plan = plan_of(
            kind, data.domain, self._design(), measuring, structure, n_records=records,
            use="study" if bill.budget.is_infinite else "release",
        )  # fmt: skip
        tables = tables_for(plan, data)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        self._release(plan, tables, structure, stream)
        return self

    def _fit_auto(
        self, bill: Bill, data: PrivateData, structure: np.random.Generator, records: int | None
    ) -> Self:
        if self.max_depth != AUTO:
            raise ValueError(f"max_depth={shown(self.max_depth)}: expected an integer or 'auto'.")
        check_left_alone(self.get_params(deep=False))
        domain = data.domain
        design = auto_design(
            domain,
            bill.budget,
            structure,
            n_trees=whole_number("n_trees", self.n_trees),
            splits=self.splits,
            class_share=self.class_share,
            neighboring=self.neighboring,
            strategy=self.strategy,
            n_records=records,
        )
        design.mechanism.check_memory(domain.n_classes)
        everything = tuple(range(domain.n_attributes))
        tables = data.tables([everything])
        tables.check(design.mechanism.rounded.matrix)
        counts = tables.cells(everything)
        stream = noise_stream(self.noise, bill.noise_state)
        bill.charge()
        release = with_provenance(design.measure(counts, self.noise, stream), self.domain)
        earlier = ("ensembles_", "choice_", "privacy_report_")
        with keeping(self, earlier, release_note("RandomTrees(128, 1)"), _release_=release):
            self.domain_, (self.classes_, order) = domain, sorted_classes(domain)
            self.plan_, trained, self.choice_ = design.chosen(release, order, structure)
            report = training_report(self.plan_.kind, self.plan_.parts, [release])
            self.privacy_report_ = with_choice(report, self.choice_, design.measured, release)
            self.ensembles_ = (trained,)
        del self.__dict__["_release_"]
        return self

    def _release(
        self,
        plan: Plan,
        tables: TableSource,
        structure: np.random.Generator,
        noise_state: np.random.Generator | None,
    ) -> None:
        """Measure the records with every ensemble's share of the budget; keep what comes out."""
        domain = plan.domain
        self.plan_, self.domain_ = plan, domain
        self.classes_, order = sorted_classes(domain)
        ensembles = []
        seeds = structure.integers(2**63, size=len(plan.parts))  # whatever the records
        for part, seed in zip(plan.parts, seeds, strict=True):
            coins = record_coins(self.noise, part.mechanism.budget, seed)
            table = plan.kind.table(part.ensemble, tables, coins)
            release = part.release(table, noise=self.noise, noise_state=noise_state)
            release = with_provenance(release, self.domain)
            ensembles.append(ReleasedEnsemble.of(part, release, part.answers(release)[:, order]))
        self.ensembles_ = tuple(ensembles)
        releases = [one.release for one in ensembles]
        self.privacy_report_ = training_report(plan.kind, plan.parts, releases)

    @property
    def chosen_depth_(self) -> int:
        """Depth that ``max_depth="auto"`` chose."""
        if not hasattr(self, "choice_"):
            raise AttributeError("chosen_depth_: nothing was chosen. Fit with max_depth='auto'.")
        return self.choice_.depth

    @property
    def forest_(self) -> Forest:
        """Structure of the only ensemble's forest."""
        return self._only("forest_").forest

    @property
    def strategy_(self) -> Strategy | None:
        """Strategy of the only ensemble; None for the baselines."""
        return self._only("strategy_").strategy

    @property
    def release_(self) -> Release:
        """Noisy measurement of the only ensemble: at hand as soon as it was made."""
        kept: Release | None = vars(self).get("_release_")
        return self._only("release_").release if kept is None else kept

    @property
    def leaf_values_(self) -> Array:
        """Noisy class counts of the only ensemble's leaves, shape (o, k)."""
        return self._only("leaf_values_").leaf_values

    @property
    def leaf_variances_(self) -> Array:
        """Noise variance of the only ensemble's leaf values, known without data, shape (o,)."""
        return self._only("leaf_variances_").leaf_variances

    def _only(self, name: str) -> ReleasedEnsemble:
        ensembles: tuple[ReleasedEnsemble, ...] = getattr(self, "ensembles_", ())
        if len(ensembles) != 1:
            raise AttributeError(
                f"{type(self).__name__} has no {name}: it is not fitted, or has several "
                f"ensembles. Look at each of ensembles_."
            )
        return ensembles[0]
