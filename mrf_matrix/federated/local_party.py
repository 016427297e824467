"""A party on its own machine: its records, what it keeps between messages, and its answers."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from mrf_matrix.base.arrays import Longs
from mrf_matrix.federated.noisy_answers import (
    checked_answers,
    contribution,
    excess_session,
    revealed_sum,
)
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums.messages import (
    Message,
    ReplayedMessageError,
    Session,
    unpack,
    unpack_numbers,
)
from mrf_matrix.federated.sums.party import (
    PartyState,
    check_request,
    opened_shares,
    packed_state,
    party_step,
    unpacked_state,
    with_values,
)
from mrf_matrix.mechanisms import CellCounts, LeafCounts, PrivacyLedger

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, eq=False, repr=False)
class LocalParty:
    """What one party has on its own machine, and never sends."""

    number: int  # its place among the identities of the session
    identity: "Ed25519PrivateKey"
    counts: CellCounts | LeafCounts  # of its records
    # best one of a file, `PrivacyLedger.open`: it is charged before the masked vector leaves
    ledger: PrivacyLedger | None = None


@dataclass(frozen=True, repr=False)
class PartyRecord:
    """What a party keeps between two messages, as bytes: **private**, on its own machine only."""

    # state, excess: `packed_state` of the sum of answers, and of that of noise that is taken off
    state: bytes = b""
    excess: bytes = b""
    layers: bytes = b""  # noise that may be taken off; gone once it was given
    # who is in the sum of answers, as the party was told before it helped to open it: only they may
    # take noise off, and as much as goes with their number
    survivors: bytes = b""


def party_answer(
    design: FederatedDesign,
    session: Session,
    local: LocalParty,
    kept: PartyRecord,
    request: Message,
    generator: np.random.Generator | None = None,
) -> tuple[PartyRecord, Message]:
    """Answer the server's next message, of the sum of answers or of that of excess noise.

    With a generator the noise is research noise, for studies.

    Raises ProtocolError by what is wrong with the message, see `party_step`. Nothing is sent;
    BudgetError, CapacityError as `contribution`: nothing is sent.
    """
    if request.session == session.digest:
        state = _state(session, local, kept.state)
        check_request(state, request)
        if request.round == "masked":
            opened_shares(state, request.payload)
            made = contribution(
                design,
                local.counts,
                ledger=local.ledger,
                what=session.label,
                identity=session.identity_of_charge,
                noise="exact" if generator is None else "research",
                generator=generator,
            )
            state = with_values(state, made.values)
            kept = replace(kept, layers=made.layers.tobytes())
        state, reply = party_step(state, request)
        if request.round == "unmask":
            kept = replace(kept, survivors=unpack(request.payload, 1)[0])
        return replace(kept, state=packed_state(state)), reply
    if not kept.survivors:
        raise ReplayedMessageError(
            "a message of another session: expected one of the session that all agreed on."
        )
    survivors = unpack_numbers(kept.survivors)
    state = _state(excess_session(session, survivors), local, kept.excess)
    check_request(state, request)
    if request.round == "masked":
        layers: Longs = np.frombuffer(kept.layers, np.int64).reshape(-1, design.length)
        state = with_values(state, revealed_sum(design, layers, len(survivors)))
        kept = replace(kept, layers=b"")
    state, reply = party_step(state, request)
    return replace(kept, excess=packed_state(state)), reply


def check_before_charge(
    design: FederatedDesign,
    session: Session,
    local: LocalParty,
    kept: PartyRecord,
    request: Message,
) -> None:
    """Refuse what `party_answer` would refuse of a request for the masked vector.

    Raises ProtocolError; CapacityError as `contribution`.
    """
    state = _state(session, local, kept.state)
    check_request(state, request)
    opened_shares(state, request.payload)
    checked_answers(design, local.counts)


def _state(session: Session, local: LocalParty, packed: bytes) -> PartyState:
    if not packed:
        return PartyState(session, local.number, local.identity)
    return unpacked_state(packed, session, local.number, local.identity)
