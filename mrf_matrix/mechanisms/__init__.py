"""Private measurement: budgets, neighbours, exact noise, releases, and answers from them."""

from mrf_matrix.mechanisms.budgets.budget import ZCDP, PureDP, as_budget
from mrf_matrix.mechanisms.budgets.exact_number import BudgetError
from mrf_matrix.mechanisms.budgets.neighboring import (
    NEIGHBORING,
    neighboring_factor,
    squared_factor,
)
from mrf_matrix.mechanisms.counts.counting import count_cells
from mrf_matrix.mechanisms.counts.counts import CellCounts, PrivateDataError
from mrf_matrix.mechanisms.ledger.charge import Charge
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.record import LedgerError
from mrf_matrix.mechanisms.measurement.measure import measure
from mrf_matrix.mechanisms.measurement.mechanism import Mechanism, calibrate
from mrf_matrix.mechanisms.measurement.provenance import Provenance
from mrf_matrix.mechanisms.measurement.quorum import Quorum
from mrf_matrix.mechanisms.measurement.reconstruct import reconstruct, row_variances
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
    "Charge",
    "DiscreteGaussian",
    "DiscreteLaplace",
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
    "as_budget",
    "calibrate",
    "count_cells",
    "integer_form",
    "measure",
    "neighboring_factor",
    "reconstruct",
    "round_strategy",
    "row_variances",
    "squared_factor",
]
