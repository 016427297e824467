"""A party on its own machine: its rounds of a secure sum, what it keeps between them, its answers.

A round of the sum is (state, message) -> (state, message), after Bonawitz, Ivanov, Kreuter,
Marcedone, McMahan, Patel, Ramage, Segal and Seth (2017), against a server that follows the
protocol. All secrets are drawn when the state is made, so that a step has no other input than its
arguments.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs
from mrf_matrix.federated.noisy_answers import (
    checked_answers,
    contribution,
    excess_session,
    revealed_sum,
)
from mrf_matrix.federated.shares.design import FederatedDesign
from mrf_matrix.federated.sums import masks
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    SERVER,
    SHARE_BYTES,
    AlteredMessageError,
    BelowThresholdError,
    JunkSharesError,
    Message,
    ProtocolError,
    ReplayedMessageError,
    Session,
    check_round,
    check_signature,
    pack,
    pack_by_party,
    sign,
    unpack,
    unpack_by_party,
    unpack_numbers,
)
from mrf_matrix.mechanisms import CellCounts, LeafCounts, PrivacyLedger
from strategies.operators.base.arrays import plain_array

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ORDER = (*ROUNDS, None)
"""Rounds, and what a party expects after the last."""


@dataclass(frozen=True)
class Secrets:
    """What a party must never send whole: all 32 bytes long."""

    mask: bytes = field(default_factory=lambda: os.urandom(masks.SEED_BYTES))
    channel: bytes = field(default_factory=lambda: os.urandom(masks.SEED_BYTES))
    self_mask: bytes = field(default_factory=lambda: os.urandom(masks.SEED_BYTES))
    sharing: bytes = field(default_factory=lambda: os.urandom(masks.SEED_BYTES))

    def __repr__(self) -> str:
        return "Secrets(private)"


@dataclass(frozen=True, eq=False, repr=False)
class PartyState:
    """What one party knows between two messages. It is private; its repr shows none of it."""

    session: Session
    number: int
    identity: "Ed25519PrivateKey"
    secrets: Secrets = field(default_factory=Secrets)
    now: str | None = ROUNDS[0]  # the round that is expected next; None after the last
    # (session.length,): what is added to the sum, mod 2**64, its noise in it; see `with_values`
    values: NDArray[np.uint64] | None = None
    # of the other parties: number to (public key of masks, key of sealed boxes)
    keys: Mapping[int, tuple[bytes, bytes]] = field(default_factory=dict)
    received: Mapping[int, bytes] = field(default_factory=dict)  # sealed shares, by who sent them

    def __post_init__(self) -> None:
        if self.identity.public_key().public_bytes_raw() != self.session.identity(self.number):
            raise ProtocolError(
                f"identity: its public key is not that of party {self.number} in the public "
                f"configuration."
            )

    def __repr__(self) -> str:
        return f"PartyState(party {self.number}, next round {self.now!r}, private)"


def with_values(state: PartyState, values: Longs) -> PartyState:
    """Return the state with the noisy integers that will be added to the sum.

    Raises ProtocolError if they have another shape or type than announced, or were supplied before.
    """
    array = plain_array("values", values)
    if array.shape != (state.session.length,) or array.dtype != np.int64:
        raise ProtocolError(
            f"values of shape {array.shape}, type {array.dtype}: expected "
            f"({state.session.length},) of int64, the length that the session announced."
        )
    if state.values is not None:
        raise ProtocolError("values were supplied before: expected once a session.")
    return replace(state, values=array.astype(np.uint64))


def party_step(state: PartyState, message: Message) -> tuple[PartyState, Message]:
    """Answer the server's message of the next round.

    `message`: from the server, to this party.

    Raises AlteredMessageError, ReplayedMessageError or OutOfOrderError by what is wrong with the
    message. The state stays as it was, and nothing is sent; BelowThresholdError if too few parties
    are left: no answer is given.
    """
    check_request(state, message)
    answer = {"keys": _keys, "shares": _shares, "masked": _masked_vector, "unmask": _unmask}
    after, payload = answer[message.round](state, message.payload)
    done = replace(after, now=ORDER[ORDER.index(message.round) + 1])
    reply = Message(state.session.digest, message.round, state.number, SERVER, payload)
    return done, sign(reply, state.identity)


def check_request(state: PartyState, message: Message) -> None:
    """Refuse a message that is not the server's next one to this party."""
    check_round(message, state.session.digest, state.now)
    check_signature(message, state.session.server)
    if message.sender != SERVER or message.receiver != state.number:
        raise AlteredMessageError(
            f"message for party {message.receiver}: expected one from the server for party "
            f"{state.number}."
        )


def _keys(state: PartyState, payload: bytes) -> tuple[PartyState, bytes]:
    unpack(payload, 0)
    secrets = state.secrets
    publics = [masks.public_key(secrets.mask), masks.public_key(secrets.channel)]
    return state, pack([*publics, masks.commitment(secrets.self_mask)])


def _shares(state: PartyState, payload: bytes) -> tuple[PartyState, bytes]:
    """Check all keys, and seal a share of both secrets for every other party."""
    publics = {}
    for number, piece in unpack_by_party(payload).items():
        content, signature = unpack(piece, 2)
        signed = Message(state.session.digest, "keys", number, SERVER, content, signature)
        check_signature(signed, state.session.identity(number))
        mask, channel, _ = unpack(content, 3)
        publics[number] = (mask, channel)
    _check_enough(state, list(publics))
    both = _split_secrets(state, sorted(publics))
    private, digest = masks.private_key(state.secrets.channel), state.session.digest
    keys = {
        other: (mask, masks.box_key(private, channel, digest))
        for other, (mask, channel) in publics.items()
        if other != state.number
    }
    sealed = {other: masks.seal(key, both[other], state.number) for other, (_, key) in keys.items()}
    after = replace(state, keys=keys, received={state.number: both[state.number]})
    return after, pack_by_party(sealed)


def _split_secrets(state: PartyState, holders: Sequence[int]) -> dict[int, bytes]:
    """Return each holder's two shares: of the self mask's seed, then of the pair masks' key."""
    halves = []
    for name, secret in (("self", state.secrets.self_mask), ("pair", state.secrets.mask)):
        seed = masks.derive_key(state.secrets.sharing, state.session.digest, name.encode())
        source = partial(masks.random_bytes, seed)
        halves.append(masks.split_secret(secret, holders, state.session.threshold, source))
    return {holder: halves[0][holder] + halves[1][holder] for holder in holders}


def _masked_vector(state: PartyState, payload: bytes) -> tuple[PartyState, bytes]:
    """Open the shares that came, and send the vector under all masks."""
    if state.values is None:
        raise ProtocolError("no values were supplied: expected supplied(state, values) before.")
    received = opened_shares(state, payload)
    total = state.values + masks.stream(state.secrets.self_mask, state.session.length)
    private = masks.private_key(state.secrets.mask)
    for other in sorted(set(received) - {state.number}):
        ends = (state.number, other)
        public, _ = state.keys[other]
        masks.add_pair_mask(total, private, public, ends, state.session.digest)
    return replace(state, received=received, values=None), total.astype("<u8").tobytes()


def opened_shares(state: PartyState, payload: bytes) -> dict[int, bytes]:
    """Return the shares that others sealed for this party, and its own, by who sent them.

    Asked before a party is charged: nobody pays for a sum that could not be opened.

    Raises JunkSharesError if some do not open.
    """
    received = dict(state.received)
    for sender, box in unpack_by_party(payload).items():
        if sender not in state.keys:
            raise AlteredMessageError(f"a share from party {sender}, whose keys did not come.")
        try:
            received[sender] = masks.open_box(state.keys[sender][1], box, sender)
        except AlteredMessageError:
            raise JunkSharesError(sender) from None
    _check_enough(state, list(received))
    return received


def _unmask(state: PartyState, payload: bytes) -> tuple[PartyState, bytes]:
    """Give one share of each party: of its self mask if its vector came, else of its pair key."""
    (numbers,) = unpack(payload, 1)
    survivors = unpack_numbers(numbers)
    if not set(survivors) <= set(state.received):
        raise AlteredMessageError(
            "survivors: some never sent shares. Expected parties whose shares came."
        )
    _check_enough(state, survivors)
    first, second = slice(0, SHARE_BYTES), slice(SHARE_BYTES, None)
    given = {
        other: both[first if other in survivors else second]
        for other, both in state.received.items()
    }
    return replace(state, received={}), pack_by_party(given)


def _check_enough(state: PartyState, members: list[int]) -> None:
    if state.number not in members:
        raise AlteredMessageError(f"party {state.number} is not among those who are left.")
    if len(members) < state.session.threshold:
        raise BelowThresholdError(
            f"{len(members)} parties are left: expected at least {state.session.threshold}, or "
            f"the noise of those who are left does not protect. Nothing more is sent."
        )


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
        keys={
            other: (mask, box)
            for other, both in unpack_by_party(keys).items()
            for mask, box in [unpack(both, 2)]
        },
        received=unpack_by_party(received),
    )


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
