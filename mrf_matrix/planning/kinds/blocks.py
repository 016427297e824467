"""Tables measured themselves: disjoint blocks and class totals, or residuals in a sequence."""

from dataclasses import dataclass
from typing import ClassVar

from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.planning.kinds.kind import Codes, Kind
from strategies.operators import Operator


@dataclass(frozen=True)
class Blocks(Kind):
    """Blocks chosen without data, labelled by the posterior of their effects."""

    name: ClassVar[str] = "posterior"
    votings: ClassVar[tuple[str, ...]] = ("posterior",)
    imagined_votings: ClassVar[tuple[str, ...]] = ("posterior",)
    releases_leaves: ClassVar[bool] = True
    votes_add: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = False
    grows_trees: ClassVar[bool] = False
    chooses_blocks: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("n_blocks", "blocks", "n_records")
    measured: ClassVar[str] = "every leaf of every tree"

    def workload(self, ensemble: Ensemble, queries: Codes) -> Operator:
        """Return T: one row a leaf, the class totals last."""
        return path_matrix(ensemble.forest)


@dataclass(frozen=True)
class NaiveBayes(Blocks):
    """A block for each attribute, and class totals of the same weight: trees vote by product."""

    name: ClassVar[str] = "naive_bayes"
    votings: ClassVar[tuple[str, ...]] = ("product",)
    imagined_votings: ClassVar[tuple[str, ...]] = ()
    chooses_blocks: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("n_records",)


@dataclass(frozen=True)
class Residual(Kind):
    """Steps of which all shares are fixed before data, see `mrf_matrix.residual.ResidualPlan`."""

    name: ClassVar[str] = "residual"
    votings: ClassVar[tuple[str, ...]] = ("posterior",)
    imagined_votings: ClassVar[tuple[str, ...]] = votings
    votes_add: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = False
    grows_trees: ClassVar[bool] = False
    is_sequence: ClassVar[bool] = True
    measured: ClassVar[str] = "tables of counts and residuals, one after another"
    parameters: ClassVar[tuple[str, ...]] = ("n_records", "delta")
