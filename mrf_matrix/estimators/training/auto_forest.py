"""A forest that is chosen after the measurement: ``max_depth="auto"``.

What is measured, and with it whether there is anything left to choose, is planned without data
(`mrf_matrix.planning.blocks.automatic_tables`). Where cells are measured, depth, voting and
shrinkage are chosen from the release alone (`choose_forest`); where one-way tables are, a tree for
each attribute votes by product, which is naive Bayes. All that can be worked out before the budget
is spent is: `auto_design` either has a design that can be carried through, or refuses.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.choosing.cell_recovery import CellRecovery, blank_release
from mrf_matrix.choosing.choose_forest import MAX_DEPTH, default_contest, splittable_count
from mrf_matrix.choosing.forest_choice import ForestChoice, planned_choice
from mrf_matrix.choosing.forest_contest import ForestContest
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.shared.noise_aware import ReleasedEnsemble
from mrf_matrix.forests import BlockTrees, Forest, RandomTrees
from mrf_matrix.mechanisms import (
    ZCDP,
    CellCounts,
    LeafCounts,
    Mechanism,
    PureDP,
    Release,
    measure,
)
from mrf_matrix.planning.blocks.automatic_tables import Measured, part_of_forest, planned_tables
from mrf_matrix.planning.kinds.words import kind_of
from mrf_matrix.planning.plans.plan import Plan
from mrf_matrix.planning.plans.plan_of import plan_of_part
from mrf_matrix.reports.privacy_report import Measurement, PrivacyReport
from mrf_matrix.voting.leaf_noise import NoisyLeaves, noise_of_release
from strategies.operators import check_allocation

AUTO = "auto"
FIXED = {
    "forest": (None,),
    "n_ensembles": (1,),
    "max_features": (None,),
    "feature_subsets": (None,),
    "budget_shares": (None,),
    "allocation": ("matrix",),
    "strategy": ("auto", "identity"),
}
"""What the other parameters must be, for nothing of theirs is used."""


@dataclass(frozen=True, eq=False)
class AutoDesign:
    """What is measured, and which forests are tried on it: all of it public.

    Attributes
    ----------
    measured : Measured
    mechanism : Mechanism
        The same, calibrated.
    plans : tuple of Plan
        One for each forest: its strategy and expected errors.
    contest : ForestContest or NoisyLeaves
        What scores them; or the leaves of the only one, still without values.
    n_records : int or None
        Where it is public.
    """

    measured: Measured
    mechanism: Mechanism
    plans: tuple[Plan, ...]
    contest: ForestContest | NoisyLeaves
    n_records: int | None

    def measure(self, counts: CellCounts | LeafCounts, noise: str, noise_state: Any) -> Release:
        """Measure the private table, once."""
        return measure(self.mechanism, counts, noise=noise, random_state=noise_state)

    def chosen(
        self, release: Release, order: NDArray[np.intp], coins: np.random.Generator
    ) -> tuple[Plan, ReleasedEnsemble, ForestChoice]:
        """Choose from the release, and train: post-processing.

        Parameters
        ----------
        release : Release
        order : ndarray of shape (k,)
            Class codes in the order of the estimator's `classes_`.
        coins : Generator
            Draws of the choice: public.
        """
        if isinstance(self.contest, NoisyLeaves):
            choice, leaves = self._planned(self.contest, release)
        else:
            choice, leaves = self.contest.held(release, coins, n_records=self.n_records)
        plan = self.plans[choice.best.forest]
        ready = leaves.with_values(leaves.values[:, order], leaves.noise)
        trained = ReleasedEnsemble.of(plan.parts[0], release, ready.values, ready)
        return plan, trained, choice

    def _planned(self, blank: NoisyLeaves, release: Release) -> tuple[ForestChoice, NoisyLeaves]:
        choice = planned_choice(blank.forest, "product", "none", release.noise)
        values = self.plans[0].parts[0].answers(release)
        return choice, blank.with_values(values, blank.noise)


def auto_design(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    *,
    n_trees: int,
    splits: Any,
    class_share: Any,
    neighboring: str,
    strategy: Any,
    n_records: int | None,
) -> AutoDesign:
    """Return what will be measured and tried.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    MemoryCapError
        If something that is needed after the measurement would not fit.
    """
    source = RandomTrees(n_trees, 1, splits)  # refuses wrong parameters, whatever is measured
    measured = planned_tables(
        domain,
        budget,
        neighboring=neighboring,
        n_records=n_records,
        class_share=class_share,
        strategy=strategy,
        n_trees=n_trees * len(_depths(domain)),
    )
    matrix, mechanism = measured.mechanism(domain, budget, neighboring)
    contest: ForestContest | NoisyLeaves
    if measured.are_cells:
        recovery = CellRecovery.of(mechanism, domain.sizes, domain.n_classes)
        forests = _forests(domain, source, structure)
        contest = default_contest(recovery, forests)
    else:
        forests = (BlockTrees(measured.blocks, class_totals=False).grow(domain),)
        contest = _blank_leaves(forests[0], mechanism)
    parts = [part_of_forest(forest, matrix, mechanism) for forest in forests]
    plans = tuple(plan_of_part(kind_of("training"), domain, part, n_records) for part in parts)
    return AutoDesign(measured, mechanism, plans, contest, n_records)


def _forests(
    domain: Domain, source: RandomTrees, structure: np.random.Generator
) -> tuple[Forest, ...]:
    check_allocation("leaves of all cells", (domain.size, 2 * source.n_trees))
    return tuple(
        replace(source, max_depth=depth).grow(domain, structure) for depth in _depths(domain)
    )


def _depths(domain: Domain) -> range:
    deepest = min(splittable_count(domain), MAX_DEPTH)
    return range(min(1, deepest), deepest + 1)


def _blank_leaves(forest: Forest, mechanism: Mechanism) -> NoisyLeaves:
    """Return leaves without values, but with their noise."""
    sizes, classes = forest.domain.sizes, forest.domain.n_classes
    noise = noise_of_release(forest, blank_release(mechanism, sizes, classes))
    return NoisyLeaves(forest, np.zeros((forest.n_leaves, classes)), noise)


def with_choice(
    report: PrivacyReport, choice: ForestChoice, measured: Measured, release: Release
) -> PrivacyReport:
    """Return the report with what was measured, and a note on what was chosen from the release."""
    found = f"depth {choice.depth}, {choice.voting!r} voting and shrinkage {choice.shrinkage!r}"
    if choice.n_draws:
        note = (
            f"{found} were chosen among {len(choice.table)} candidates from this release alone, "
            f"which costs nothing"
        )
    else:
        note = f"{found} were planned without data, for tables of single attributes"
    what = Measurement.of(release, str(measured))
    return replace(report, measurements=(what,), notes=(*report.notes, note))


def check_left_alone(parameters: dict[str, Any]) -> None:
    """Refuse parameters that ``max_depth="auto"`` would not use."""
    for name, allowed in FIXED.items():
        value = parameters[name]
        if not any(
            value is one or (isinstance(value, str | int) and value == one) for one in allowed
        ):
            raise ValueError(
                f"{name}={value!r} with max_depth='auto': expected "
                f"{' or '.join(map(repr, allowed))}, for one forest is chosen, after a "
                f"measurement that is planned for it."
            )
