"""How the tables of a posterior forest will be answered: weighted rows, each its own answer."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.error.noise_sums import NoiseTerm
from mrf_matrix.forests.sources.block_trees import Block
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.planning.blocks.block_measurement import BlockMeasurement, PlannedMeasurement
from mrf_matrix.planning.plans.planned_answers import PlannedAnswers
from strategies.operators import Operator

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PlannedBlocks(PlannedAnswers):
    """The only part of a plan in mode "posterior".

    Leaves are measured themselves, those of the class totals with a weight of their own.

    Attributes
    ----------
    blocks : tuple of tuple of int
        Positions of every block's attributes, in the order of the trees.
    weights : tuple of int
        Of a block's leaves and of the class totals.
    """

    blocks: tuple[Block, ...]
    weights: tuple[int, int]

    @staticmethod
    def of(measured: PlannedMeasurement, ensemble: Ensemble, workload: Operator) -> "PlannedBlocks":
        """Return what a plan of the measurement says of its answers."""
        return PlannedBlocks(
            ensemble, workload, None, measured.mechanism, measured.blocks, measured.weights
        )

    @property
    def measurement(self) -> BlockMeasurement:
        """What the classifier measures."""
        return BlockMeasurement(self.blocks, self.ensemble.forest, self.weights, self.mechanism)

    @property
    def sensitivity(self) -> float:
        """Of the tables, whose leaves have weight one: in units of records."""
        return super().sensitivity / self.weights[0]

    @property
    def noise_scale(self) -> float:
        """Scale of each draw of a block's leaf, in units of records."""
        return super().noise_scale / self.weights[0]

    @cached_property
    def row_factors(self) -> Array:
        """What a noise draw is divided by to be in records, shape (o,)."""
        factors = np.full(self.workload.shape[0], float(self.weights[0]))
        factors[-1] = self.weights[1]
        return factors * float(self.mechanism.rounded.scale)

    @cached_property
    def row_squares(self) -> Array:
        """Error of every leaf for noise of variance one, shape (o,)."""
        return np.asarray(1 / self.row_factors**2)

    def terms(
        self, rows: NDArray[np.intp], workload: Operator | None = None
    ) -> list[NoiseTerm] | None:
        """Return the weighted noise draw of each leaf; None for other answers."""
        if workload is not None:
            return None
        law = self.mechanism.law
        return [NoiseTerm.of(np.array([1 / factor]), law) for factor in self.row_factors[rows]]
