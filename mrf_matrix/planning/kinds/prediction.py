"""Batch prediction: noisy votes of a batch of queries, over cells (Algorithm 2)."""

from dataclasses import dataclass
from typing import ClassVar

from mrf_matrix.compilation import prediction_workload, query_matrix
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.planning.kinds.kind import OF_TREES, Codes, Kind
from strategies.operators import Operator


@dataclass(frozen=True)
class Prediction(Kind):
    """A strategy for the weight votes of the queries, ``Q Tᵀ T``."""

    name: ClassVar[str] = "prediction"
    votings: ClassVar[tuple[str, ...]] = ("weight",)
    imagined_votings: ClassVar[tuple[str, ...]] = ("weight",)
    answers_queries: ClassVar[bool] = True
    time_limit: ClassVar[float] = 1.0
    parameters: ClassVar[tuple[str, ...]] = tuple(
        name for name in OF_TREES if name not in ("allocation", "voting")
    )

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return the votes of the queries."""
        return self.vote_workload(ensemble, queries)

    def vote_workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return ``Q Tᵀ T``: the sums of the leaves that the queries reach."""
        forest = ensemble.forest
        return prediction_workload(forest, query_matrix(ensemble.view(queries), forest.domain))
