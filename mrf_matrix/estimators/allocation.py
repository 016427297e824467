"""Where the noise of a training release goes: the matrix mechanism and the two baselines.

Each allocation turns private records into noisy leaf values ``C̃`` (o x k) in one measurement:

============  ==========================================  ===========  ==========================
allocation    what is measured                            sensitivity  leaf values
============  ==========================================  ===========  ==========================
"matrix"      the strategy: ``A D + noise``               ‖A‖          ``T A⁺ (A D + noise)``
"per_tree"    every tree's leaves: ``T D + noise``        ‖T‖ = τ      as measured
"disjoint"    every leaf, each record in one tree only    1            as measured
============  ==========================================  ===========  ==========================

"matrix" is Algorithm 1 of Tajima, Wu and Houmansadr (AAAI 2025); the others are the baselines it
is compared with (Jagannathan et al. 2009; Fletcher and Islam 2017). Under zCDP the norms are L2,
so that ``‖T‖₂ = √τ``.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.compilation import path_matrix
from mrf_matrix.estimators.voting import record_blocks
from mrf_matrix.forests import Forest
from mrf_matrix.mechanisms import (
    ZCDP,
    Mechanism,
    PureDP,
    Release,
    calibrate,
    count_cells,
    measure,
    reconstruct,
)
from strategies import Strategy, evaluate, select
from strategies.operators import Identity, RowKronecker

Allocation = Literal["matrix", "per_tree", "disjoint"]
ALLOCATIONS: tuple[str, ...] = get_args(Allocation)
Array = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Training:
    """What a training release needs besides the records: all of it is public.

    Attributes
    ----------
    forest : Forest
        Where the leaves are.
    workload : RowKronecker of shape (o, n)
        Its decision-path matrix T.
    allocation : {"matrix", "per_tree", "disjoint"}
        What is measured.
    strategy : Strategy or None
        The strategy of "matrix"; the baselines measure their answers themselves.
    mechanism : Mechanism
        What is measured, rounded to integers, with its budget and noise.
    """

    forest: Forest
    workload: RowKronecker
    allocation: Allocation
    strategy: Strategy | None
    mechanism: Mechanism

    def release(
        self,
        codes: Codes,
        labels: Codes,
        n_classes: int,
        *,
        structure: np.random.Generator,
        noise: str = "exact",
        noise_state: Any = None,
    ) -> tuple[Release, Array]:
        """Measure the records once; return the release and the leaf values (o, k).

        Parameters
        ----------
        codes : ndarray of shape (N, d)
            Encoded private records.
        labels : ndarray of shape (N,)
            Their class codes.
        n_classes : int
            Number of classes k.
        structure : Generator
            Throws the public coins that give each record its tree ("disjoint").
        noise, noise_state
            See `mrf_matrix.mechanisms.measure`.
        """
        sizes = self.forest.domain.sizes
        if self.allocation == "disjoint":
            codes, sizes = self._one_leaf_each(codes, structure)[:, None], (self.forest.n_leaves,)
        counts = count_cells(codes, labels, sizes, n_classes)
        release = measure(self.mechanism, counts, noise=noise, random_state=noise_state)
        if self.allocation == "matrix":
            return release, reconstruct(release, self.workload)
        return release, release.values

    def _one_leaf_each(self, codes: Codes, structure: np.random.Generator) -> Codes:
        """Route each record through one tree, drawn by its own coin: no record moves another."""
        tree = structure.integers(self.forest.n_trees, size=len(codes))
        leaves = np.empty(len(codes), dtype=np.int32)
        for block in record_blocks(len(codes), self.forest.n_trees):
            routed = self.forest.apply(codes[block])
            leaves[block] = routed[np.arange(len(routed)), tree[block]]
        return leaves


def allocate(
    forest: Forest,
    allocation: Any,
    budget: PureDP | ZCDP,
    *,
    strategy: Any = "auto",
    neighboring: str = "add_remove",
    random_state: Any = None,
    time_limit: float = 8.0,
) -> Training:
    """Choose what a training release measures, without data.

    Parameters
    ----------
    forest : Forest
        The public forest.
    allocation : {"matrix", "per_tree", "disjoint"}
        What to measure; see the table above.
    budget : PureDP or ZCDP
        Pure DP selects in the L1 norm (Laplace noise), zCDP in the L2 norm (Gaussian noise).
    strategy : str, Strategy, Operator, ndarray or scipy sparse, default="auto"
        For "matrix": a family's name, or the strategy itself. The baselines have no choice.
    neighboring : {"add_remove", "replace_one"}, default="add_remove"
        The neighbouring relation.
    random_state, time_limit
        Passed on to `strategies.select`.

    Raises
    ------
    ValueError
        If the allocation is unknown or the strategy was selected for the other norm.
    """
    if allocation not in ALLOCATIONS:
        raise ValueError(
            f"allocation={allocation!r}: expected one of {', '.join(map(repr, ALLOCATIONS))}."
        )
    workload = path_matrix(forest)
    if allocation == "matrix":
        chosen = _chosen(workload, strategy, budget, random_state, time_limit)
        mechanism = calibrate(chosen, budget, neighboring=neighboring, workload=workload)
        return Training(forest, workload, allocation, chosen, mechanism)
    measured = workload if allocation == "per_tree" else Identity(forest.n_leaves)
    mechanism = calibrate(measured, budget, neighboring=neighboring)
    return Training(forest, workload, allocation, None, mechanism)


def _chosen(
    workload: RowKronecker,
    strategy: Any,
    budget: PureDP | ZCDP,
    random_state: Any,
    time_limit: float,
) -> Strategy:
    """Select or evaluate the strategy in the norm that the budget's noise calls for."""
    if isinstance(strategy, str):
        return select(workload, budget.norm, strategy, random_state, time_limit=time_limit)
    if not isinstance(strategy, Strategy):
        return evaluate(workload, strategy, norm=budget.norm)
    if strategy.norm != budget.norm:
        raise ValueError(
            f"strategy was selected for norm={strategy.norm!r}, but {budget!r} calls for "
            f"{budget.norm!r}: select it again with norm={budget.norm!r}."
        )
    return strategy
