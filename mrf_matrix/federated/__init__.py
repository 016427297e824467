"""Parties that do not trust each other: shares of noise, secure sums, and the release of both.

Each party adds a share of the noise to its own exact answers and sends the sum under masks; the
server opens nothing but the total, which is a `Release` like any other. See docs/federated.md.
"""

from mrf_matrix.federated.contribution import CapacityError, Contribution, contribution
from mrf_matrix.federated.network import Network
from mrf_matrix.federated.opening import release_of, session_of
from mrf_matrix.federated.shares.coarse import CoarseStrategyError
from mrf_matrix.federated.shares.design import FederatedDesign, federate
from mrf_matrix.federated.sums.message_bytes import RoundBytes, message_bytes
from mrf_matrix.federated.sums.messages import (
    AlteredMessageError,
    BelowThresholdError,
    Message,
    OutOfOrderError,
    ProtocolError,
    ReplayedMessageError,
)
from mrf_matrix.federated.sums.session import Session

__all__ = [
    "AlteredMessageError",
    "BelowThresholdError",
    "CapacityError",
    "CoarseStrategyError",
    "Contribution",
    "FederatedDesign",
    "Message",
    "Network",
    "OutOfOrderError",
    "ProtocolError",
    "ReplayedMessageError",
    "RoundBytes",
    "Session",
    "contribution",
    "federate",
    "message_bytes",
    "release_of",
    "session_of",
]
