"""Parties that do not trust each other: shares of noise, secure sums, and the release of both.

Each party adds a share of the noise to its own exact answers and sends the sum under masks; the
server opens nothing but the total, which is a `Release` like any other. See docs/federated.md.
"""

from typing import TYPE_CHECKING

from mrf_matrix.base.front_door import front_door

if TYPE_CHECKING:
    from mrf_matrix.federated.noisy_answers import CapacityError as CapacityError
    from mrf_matrix.federated.noisy_answers import Contribution as Contribution
    from mrf_matrix.federated.noisy_answers import contribution as contribution
    from mrf_matrix.federated.noisy_answers import release_of as release_of
    from mrf_matrix.federated.noisy_answers import session_of as session_of
    from mrf_matrix.federated.runner import Federation as Federation
    from mrf_matrix.federated.runner import Network as Network
    from mrf_matrix.federated.runner import run_federation as run_federation
    from mrf_matrix.federated.shares.design import FederatedDesign as FederatedDesign
    from mrf_matrix.federated.shares.design import federate as federate
    from mrf_matrix.federated.shares.noise import CoarseStrategyError as CoarseStrategyError
    from mrf_matrix.federated.sums.messages import AlteredMessageError as AlteredMessageError
    from mrf_matrix.federated.sums.messages import BelowThresholdError as BelowThresholdError
    from mrf_matrix.federated.sums.messages import Message as Message
    from mrf_matrix.federated.sums.messages import OutOfOrderError as OutOfOrderError
    from mrf_matrix.federated.sums.messages import ProtocolError as ProtocolError
    from mrf_matrix.federated.sums.messages import ReplayedMessageError as ReplayedMessageError
    from mrf_matrix.federated.sums.messages import RoundBytes as RoundBytes
    from mrf_matrix.federated.sums.messages import Session as Session
    from mrf_matrix.federated.sums.messages import message_bytes as message_bytes

__getattr__, __dir__, __all__ = front_door(__name__)
