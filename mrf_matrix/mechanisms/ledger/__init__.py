"""One ledger of every charge."""

from mrf_matrix.mechanisms.ledger.charge import Charge
from mrf_matrix.mechanisms.ledger.ledger import PrivacyLedger
from mrf_matrix.mechanisms.ledger.record import LedgerError

__all__ = [
    "Charge",
    "LedgerError",
    "PrivacyLedger",
]
