"""Private measurement: budgets, neighbours, exact noise, releases, and answers from them."""

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, as_budget
from mrf_matrix.mechanisms.budgets.conversion import approximate_epsilon, zcdp_for
from mrf_matrix.mechanisms.budgets.exact_number import BudgetError
from mrf_matrix.mechanisms.budgets.neighboring import (
    NEIGHBORING,
    neighboring_factor,
    squared_factor,
)
from mrf_matrix.mechanisms.counts.counting import count_cells
from mrf_matrix.mechanisms.counts.counts import CellCounts, PrivateDataError
from mrf_matrix.mechanisms.counts.leaf_table import LeafCounts
from mrf_matrix.mechanisms.counts.merging import merge_counts
from mrf_matrix.mechanisms.counts.tally import CellTally
from mrf_matrix.mechanisms.ledger.charge import Charge
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.record import LedgerError
from mrf_matrix.mechanisms.measurement.measure import measure
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, calibrate
from mrf_matrix.mechanisms.measurement.provenance import Provenance
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.measurement.reconstruct import reconstruct
from mrf_matrix.mechanisms.measurement.release import Release
from mrf_matrix.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoiseProcessError,
    NoNoise,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
)
from mrf_matrix.mechanisms.rounding.integer_form import integer_form
from mrf_matrix.mechanisms.rounding.rounding import RoundedStrategy, round_strategy

__all__ = [
    "NEIGHBORING",
    "ZCDP",
    "BudgetError",
    "CellCounts",
    "CellTally",
    "Charge",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "LeafCounts",
    "LedgerError",
    "Mechanism",
    "NoNoise",
    "NoiseLaw",
    "NoiseProcessError",
    "PrivacyLedger",
    "PrivateDataError",
    "Provenance",
    "PureDP",
    "Quorum",
    "Release",
    "RoundedStrategy",
    "SharedDiscreteGaussian",
    "SharedDiscreteLaplace",
    "approximate_epsilon",
    "as_budget",
    "calibrate",
    "count_cells",
    "integer_form",
    "measure",
    "merge_counts",
    "neighboring_factor",
    "reconstruct",
    "round_strategy",
    "squared_factor",
    "zcdp_for",
]
