"""Private measurement: budgets, neighbours, exact noise, releases, and answers from them."""

from mrf_matrix.mechanisms.budget import ZCDP, PureDP, as_budget
from mrf_matrix.mechanisms.conversion import approximate_epsilon, zcdp_for
from mrf_matrix.mechanisms.counting import count_cells
from mrf_matrix.mechanisms.counts import CellCounts, PrivateDataError
from mrf_matrix.mechanisms.exact_number import BudgetError
from mrf_matrix.mechanisms.integer_form import integer_form
from mrf_matrix.mechanisms.leaf_table import LeafCounts
from mrf_matrix.mechanisms.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger_charge import Charge
from mrf_matrix.mechanisms.ledger_record import LedgerError
from mrf_matrix.mechanisms.measure import measure
from mrf_matrix.mechanisms.mechanism import Mechanism, calibrate
from mrf_matrix.mechanisms.merging import merge_counts
from mrf_matrix.mechanisms.neighboring import NEIGHBORING, neighboring_factor, squared_factor
from mrf_matrix.mechanisms.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoiseProcessError,
    NoNoise,
    SharedDiscreteGaussian,
    SharedDiscreteLaplace,
)
from mrf_matrix.mechanisms.provenance import Provenance
from mrf_matrix.mechanisms.quorum import Quorum
from mrf_matrix.mechanisms.reconstruct import reconstruct
from mrf_matrix.mechanisms.release import Release
from mrf_matrix.mechanisms.release_claims import ReleaseFileError
from mrf_matrix.mechanisms.rounding import RoundedStrategy, round_strategy
from mrf_matrix.mechanisms.tally import CellTally

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
    "ReleaseFileError",
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
