"""A party's state as bytes, for whatever keeps it between two messages: on its own machine only."""

from dataclasses import astuple
from typing import TYPE_CHECKING

from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    ProtocolError,
    pack,
    pack_by_party,
    unpack,
    unpack_by_party,
)
from mrf_matrix.federated.sums.party import PartyState, Secrets
from mrf_matrix.federated.sums.session import Session

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ORDER = (*ROUNDS, None)


def packed_state(state: PartyState) -> bytes:
    """Return a state as bytes, without its identity. They hold secrets: never send them.

    Raises ProtocolError if values were supplied and not yet sent: they are kept nowhere.
    """
    if state.values is not None:
        raise ProtocolError("values were supplied and not yet sent: expected a state without them.")
    return pack(
        [
            state.session.digest,
            bytes([ORDER.index(state.now)]),
            pack(astuple(state.secrets)),
            pack_by_party({number: pack(keys) for number, keys in state.keys.items()}),
            pack_by_party(state.received),
        ]
    )


def unpacked_state(
    data: bytes, session: Session, number: int, identity: "Ed25519PrivateKey"
) -> PartyState:
    """Return the state of `packed_state`.

    Raises ProtocolError if it is of another session, or damaged.
    """
    digest, place, secrets, keys, received = unpack(data, 5)
    if digest != session.digest:
        raise ProtocolError("the state that was kept is of another session.")
    return PartyState(
        session,
        number,
        identity,
        Secrets(*unpack(secrets, 4)),
        ORDER[place[0]],
        keys={other: _pair(both) for other, both in unpack_by_party(keys).items()},
        received=unpack_by_party(received),
    )


def _pair(data: bytes) -> tuple[bytes, bytes]:
    first, second = unpack(data, 2)
    return first, second
