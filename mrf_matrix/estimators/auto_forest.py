"""A forest that is chosen after its cells were measured: ``max_depth="auto"``.

The cells of the domain are measured once, with a small share of the budget on the class totals,
which leaves are shrunk toward where cells drown in noise. Depth, voting and shrinkage are then
chosen from the release alone, by `choose_forest`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import path_matrix
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.allocation import TrainedEnsemble, Training
from mrf_matrix.estimators.answering import Answering
from mrf_matrix.estimators.choose_forest import MAX_DEPTH, choose_forest, splittable_count
from mrf_matrix.estimators.coupled_bootstrap import cell_recovery
from mrf_matrix.estimators.forest_choice import ForestChoice
from mrf_matrix.estimators.privacy_report import PrivacyReport
from mrf_matrix.forests import Forest, RandomTrees
from mrf_matrix.mechanisms import ZCDP, Mechanism, PureDP, calibrate, count_cells
from mrf_matrix.planning.ensembles import Ensemble
from strategies import evaluate
from strategies.operators import Identity, Marginals, Operator, check_allocation

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
    domain : Domain
    matrix : Operator of shape (m, n)
        Cells, and class totals where they have a share.
    mechanism : Mechanism
        The same, calibrated.
    forests : tuple of Forest
        One for each depth.
    """

    domain: Domain
    matrix: Operator
    mechanism: Mechanism
    forests: tuple[Forest, ...]

    def train(
        self,
        codes: NDArray[np.int32],
        labels: NDArray[np.int32],
        order: NDArray[np.intp],
        *,
        noise: str,
        noise_state: Any,
        random_state: np.random.Generator,
    ) -> tuple[Training, TrainedEnsemble, ForestChoice]:
        """Measure the records once, and choose from the release.

        Parameters
        ----------
        codes, labels : ndarray of shape (N, d), (N,)
            The private records.
        order : ndarray of shape (k,)
            Class codes in the order of the estimator's `classes_`.
        noise, noise_state
            See `measure`.
        random_state : Generator
            Draws of the choice.
        """
        counts = count_cells(codes, labels, self.domain.sizes, self.domain.n_classes)
        measured = Answering(self.mechanism.rounded.matrix, None, self.mechanism)
        release, _ = measured.release(counts, noise=noise, noise_state=noise_state)
        choice = choose_forest(release, self.domain, self.forests, random_state=random_state)
        workload = path_matrix(choice.forest)
        strategy = evaluate(workload, self.matrix, norm=self.mechanism.budget.norm)
        answering = Answering(workload, strategy, self.mechanism)
        whole = Ensemble(tuple(range(self.domain.n_attributes)), choice.forest)
        training = Training(whole, "matrix", answering)
        values = answering.answers(release)[:, order]
        return training, training.trained(release, values), choice


def auto_design(
    domain: Domain,
    budget: PureDP | ZCDP,
    structure: np.random.Generator,
    *,
    n_trees: int,
    splits: Any,
    class_share: Any,
    neighboring: str,
) -> AutoDesign:
    """Return what will be measured and tried.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    MemoryCapError
        If the domain's cells cannot be enumerated.
    """
    matrix = cells_with_totals(domain, class_share)
    mechanism = calibrate(matrix, budget, neighboring=neighboring)
    cell_recovery(mechanism, domain.sizes)  # refuses now what could not be scored later
    check_allocation("leaves of all cells", (domain.size, 2 * n_trees))
    deepest = max(1, min(splittable_count(domain), MAX_DEPTH))
    forests = tuple(
        RandomTrees(n_trees, depth, splits).grow(domain, structure)
        for depth in range(min(1, splittable_count(domain)), deepest + 1)
    )
    return AutoDesign(domain, matrix, mechanism, forests)


def cells_with_totals(domain: Domain, class_share: Any) -> Operator:
    """Return the strategy of all cells and, in a share of the budget, the class totals."""
    number = isinstance(class_share, int | float | np.integer | np.floating)
    if isinstance(class_share, bool) or not number or not 0 <= class_share < 1:
        raise ValueError(
            f"class_share={class_share!r}: expected a share of the budget, from 0 to below 1."
        )
    check_allocation("cells of the domain", (domain.size, domain.n_classes))
    if class_share == 0:
        return Identity(domain.size, domain.sizes)
    everything = tuple(range(domain.n_attributes))
    share = float(class_share)
    return Marginals(domain.sizes, [(), everything], [share, 1 - share])


def with_choice(report: PrivacyReport, choice: ForestChoice) -> PrivacyReport:
    """Return the report with a note on what was chosen from the release."""
    note = (
        f"depth {choice.depth}, {choice.voting!r} voting and shrinkage {choice.shrinkage!r} were "
        f"chosen among {len(choice.table)} candidates from this release alone, which costs nothing"
    )
    return replace(report, notes=(*report.notes, note))


def check_left_alone(parameters: dict[str, Any]) -> None:
    """Refuse parameters that ``max_depth="auto"`` would not use."""
    for name, allowed in FIXED.items():
        value = parameters[name]
        if not any(
            value is one or (isinstance(value, str | int) and value == one) for one in allowed
        ):
            raise ValueError(
                f"{name}={value!r} with max_depth='auto': expected "
                f"{' or '.join(map(repr, allowed))}, for the cells of the whole domain are "
                f"measured once and one forest is chosen."
            )
