"""Tables measured themselves, disjoint blocks and class totals; and kinds planned as steps."""

from dataclasses import dataclass
from typing import ClassVar

from mrf_matrix.compilation import path_matrix
from mrf_matrix.forests.sources.ensembles import Ensemble
from mrf_matrix.planning.kinds.kind import Codes, Kind
from mrf_matrix.voting.voting import VOTINGS
from strategies.operators import Operator


@dataclass(frozen=True)
class Blocks(Kind):
    """Blocks chosen without data, labelled by the posterior of their effects."""

    name: ClassVar[str] = "tables"
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
class Auto(Kind):
    """Steps whose shares are fixed before data: the claim and public numbers say all of them."""

    name: ClassVar[str] = "auto"
    votings: ClassVar[tuple[str, ...]] = ("posterior",)
    imagined_votings: ClassVar[tuple[str, ...]] = ()
    votes_add: ClassVar[bool] = False
    chooses_strategies: ClassVar[bool] = False
    grows_trees: ClassVar[bool] = False
    is_sequence: ClassVar[bool] = True
    measured: ClassVar[str] = "tables of counts and residuals, one after another"
    parameters: ClassVar[tuple[str, ...]] = ("n_records", "delta")


@dataclass(frozen=True)
class Additive(Auto):
    """Tables of residuals, see `mrf_matrix.residual.ResidualPlan`."""

    name: ClassVar[str] = "additive"
    imagined_votings: ClassVar[tuple[str, ...]] = ("posterior",)


@dataclass(frozen=True)
class Labels(Auto):
    """A tree with the labels of its cells, see `mrf_matrix.labels.LabelPlan`."""

    name: ClassVar[str] = "labels"


@dataclass(frozen=True)
class Pool(Auto):
    """Such a tree beside tables, see `mrf_matrix.planning.private.pooled_plan`."""

    name: ClassVar[str] = "pool"


@dataclass(frozen=True)
class TwoStage(Auto):
    """Trees that are chosen, and a strategy for their leaves, which is planned after them."""

    name: ClassVar[str] = "two_stage"
    votings: ClassVar[tuple[str, ...]] = VOTINGS
    n_trees: ClassVar[int] = 8
    parameters: ClassVar[tuple[str, ...]] = ("n_trees", "max_depth", "strategy", "time_limit")
