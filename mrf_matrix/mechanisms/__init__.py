"""Private measurement: budgets, neighbours, exact noise, releases, and answers from them."""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.base.checks import BudgetError as BudgetError
    from mrf_matrix.base.checks import PrivateDataError as PrivateDataError
    from mrf_matrix.mechanisms.budget import NEIGHBORING as NEIGHBORING
    from mrf_matrix.mechanisms.budget import ZCDP as ZCDP
    from mrf_matrix.mechanisms.budget import PureDP as PureDP
    from mrf_matrix.mechanisms.budget import as_budget as as_budget
    from mrf_matrix.mechanisms.budget import budget_shares as budget_shares
    from mrf_matrix.mechanisms.counts import CellCounts as CellCounts
    from mrf_matrix.mechanisms.counts import count_cells as count_cells
    from mrf_matrix.mechanisms.counts import merge_counts as merge_counts
    from mrf_matrix.mechanisms.ledger.charge import Charge as Charge
    from mrf_matrix.mechanisms.ledger.file import LedgerError as LedgerError
    from mrf_matrix.mechanisms.ledger.filter_state import ApproximateDP as ApproximateDP
    from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger as PrivacyLedger
    from mrf_matrix.mechanisms.ledger.payers import BudgetWarning as BudgetWarning
    from mrf_matrix.mechanisms.ledger.payers import privacy_ledger as privacy_ledger
    from mrf_matrix.mechanisms.ledger.rules import describe_charges as describe_charges
    from mrf_matrix.mechanisms.measurement.claimed import claimed_release as claimed_release
    from mrf_matrix.mechanisms.measurement.measure import calibrate as calibrate
    from mrf_matrix.mechanisms.measurement.measure import measure as measure
    from mrf_matrix.mechanisms.measurement.measure import reconstruct as reconstruct
    from mrf_matrix.mechanisms.measurement.measure import row_variances as row_variances
    from mrf_matrix.mechanisms.measurement.mechanism import Mechanism as Mechanism
    from mrf_matrix.mechanisms.measurement.mechanism import neighboring_factor as neighboring_factor
    from mrf_matrix.mechanisms.measurement.mechanism import squared_factor as squared_factor
    from mrf_matrix.mechanisms.measurement.release import MeasurementRecord as MeasurementRecord
    from mrf_matrix.mechanisms.measurement.release import Release as Release
    from mrf_matrix.mechanisms.noise import DiscreteGaussian as DiscreteGaussian
    from mrf_matrix.mechanisms.noise import DiscreteLaplace as DiscreteLaplace
    from mrf_matrix.mechanisms.noise import NoiseLaw as NoiseLaw
    from mrf_matrix.mechanisms.noise import NoiseProcessError as NoiseProcessError
    from mrf_matrix.mechanisms.noise import NoNoise as NoNoise
    from mrf_matrix.mechanisms.rounding import RoundedStrategy as RoundedStrategy
    from mrf_matrix.mechanisms.rounding import integer_form as integer_form
    from mrf_matrix.mechanisms.rounding import round_strategy as round_strategy
    from mrf_matrix.mechanisms.shared_noise import Quorum as Quorum
    from mrf_matrix.mechanisms.shared_noise import SharedDiscreteGaussian as SharedDiscreteGaussian
    from mrf_matrix.mechanisms.shared_noise import SharedDiscreteLaplace as SharedDiscreteLaplace
    from mrf_matrix.mechanisms.tally import CellTally as CellTally
    from mrf_matrix.mechanisms.tally import LeafCounts as LeafCounts

__getattr__, __dir__, __all__ = front_door(__name__)
