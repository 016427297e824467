"""Residual forests: a sequence of tables, each of what earlier ones leave unexplained."""

from dataclasses import dataclass
from typing import ClassVar

from mrf_matrix.planning.kinds.kind import Kind


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
