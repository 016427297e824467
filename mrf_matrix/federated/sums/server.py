"""The server of a secure sum: it counts answers in, asks on, and opens nothing but the sum."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs
from mrf_matrix.federated.sums import masks
from mrf_matrix.federated.sums.messages import (
    ROUNDS,
    SERVER,
    SHARE_BYTES,
    AlteredMessageError,
    BelowThresholdError,
    Message,
    ProtocolError,
    ReplayedMessageError,
    Session,
    check_round,
    check_signature,
    name_of,
    pack,
    pack_by_party,
    pack_numbers,
    sign,
    unpack,
    unpack_by_party,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SPENT = (
    "Nothing was opened. Parties that had sent masked vectors are charged all the same, for their "
    "noise is used up."
)


BOTH = 2 * SHARE_BYTES
"""Bytes of a party's two shares for another: of its self mask, and of its pair masks."""

MOST_SUBSETS = 5000
"""Sets of holders of which one is looked for whose shares fit what was committed to."""


@dataclass(frozen=True, eq=False, repr=False)
class ServerState:
    """What the server knows between two messages."""

    session: Session
    identity: "Ed25519PrivateKey"
    now: str | None = None  # the round whose answers are counted in
    asked: tuple[int, ...] = ()  # who was asked in it
    # payloads of the round, by sender; of masked vectors only that they came
    answers: Mapping[int, bytes] = field(default_factory=dict)
    # signed messages of round "keys", by sender
    keys: Mapping[int, Message] = field(default_factory=dict)
    sharing: tuple[int, ...] = ()  # who sent shares, so whose pair masks may be in others' vectors
    survivors: tuple[int, ...] = ()  # whose masked vectors came
    # sum of masked vectors so far, mod 2**64
    total: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def __repr__(self) -> str:
        return f"ServerState(round {self.now!r}, {len(self.answers)} of {len(self.asked)} answers)"


def server_receive(state: ServerState, message: Message) -> ServerState:
    """Count one party's answer in.

    Raises AlteredMessageError, ReplayedMessageError, OutOfOrderError by what is wrong with it. The
    state stays as it was.
    """
    check_round(message, state.session.digest, state.now)
    if message.receiver != SERVER or message.sender not in state.asked:
        raise AlteredMessageError(
            f"message of {name_of(message.sender)}, who was not asked in round {state.now!r}."
        )
    check_signature(message, state.session.identity(message.sender))
    if message.sender in state.answers:
        raise ReplayedMessageError(
            f"a second message of {name_of(message.sender)} in round {state.now!r}: expected one."
        )
    if state.now == "masked":
        if len(message.payload) != 8 * state.session.length:
            raise AlteredMessageError(
                f"vector of {name_of(message.sender)}: expected {state.session.length} integers."
            )
        total = state.total + np.frombuffer(message.payload, dtype="<u8")
        return replace(state, total=total, answers={**state.answers, message.sender: b""})
    _check_payload(state, message)
    keys = state.keys if state.now != "keys" else {**state.keys, message.sender: message}
    answers = {**state.answers, message.sender: message.payload}
    return replace(state, answers=answers, keys=keys)


def _check_payload(state: ServerState, message: Message) -> None:
    """Refuse signed content that could not be used later: its sender counts as vanished.

    Raises AlteredMessageError.
    """
    sender, payload = message.sender, message.payload
    if state.now == "keys":
        mask, channel, committed = unpack(payload, 3)
        good = all(map(masks.is_public_key, (mask, channel))) and len(committed) == 32
    elif state.now == "shares":
        boxes = unpack_by_party(payload)
        sizes = {len(box) for box in boxes.values()}
        good = set(boxes) == {*state.asked} - {sender} and sizes <= {masks.sealed_size(BOTH)}
    else:
        given = unpack_by_party(payload)
        sizes = {len(share) for share in given.values()}
        good = set(state.sharing) <= set(given) and sizes <= {SHARE_BYTES}
    if not good:
        raise AlteredMessageError(
            f"message of {name_of(sender)} in round {state.now!r}: its content is not that of the "
            f"protocol. Whoever sent it counts as vanished."
        )


def server_next(state: ServerState) -> tuple[ServerState, dict[int, Message]]:
    """Close the round, and return what is asked of each party that is left in the next.

    Called first on a fresh state, then once a round when answers are in or time is up. After the
    last round there is nothing to ask: see `opened_sum`.

    Raises BelowThresholdError if fewer answered than the threshold: the session is over, and
    nothing was opened.
    """
    order = (None, *ROUNDS)
    place = order.index(state.now)
    if state.now == ROUNDS[-1]:
        raise ProtocolError("the last round is on: expected opened_sum(state).")
    following = ROUNDS[place]
    left = tuple(sorted(state.answers)) if state.now else state.session.members
    check_enough(state, left)
    payloads = {
        "keys": lambda: dict.fromkeys(left, pack([])),
        "shares": lambda: dict.fromkeys(left, _all_keys(state)),
        "masked": lambda: _shares_for(state, left),
        "unmask": lambda: dict.fromkeys(left, pack([pack_numbers(left)])),
    }[following]()
    after = replace(
        state,
        now=following,
        asked=left,
        answers={},
        sharing=left if following == "masked" else state.sharing,
        survivors=left if following == "unmask" else state.survivors,
        total=np.zeros(state.session.length, np.uint64) if following == "masked" else state.total,
    )
    digest = state.session.digest
    return after, {
        number: sign(Message(digest, following, SERVER, number, payload), state.identity)
        for number, payload in payloads.items()
    }


def check_enough(state: ServerState, left: Sequence[int]) -> None:
    if len(left) < state.session.threshold:
        raise BelowThresholdError(
            f"{len(left)} parties answered in round {state.now!r}: expected at least "
            f"{state.session.threshold}. {SPENT}"
        )


def _all_keys(state: ServerState) -> bytes:
    """Return everyone's keys with their signatures, for all to check."""
    return pack_by_party(
        {number: pack([one.payload, one.signature]) for number, one in state.keys.items()}
    )


def _shares_for(state: ServerState, left: Sequence[int]) -> dict[int, bytes]:
    """Hand each party the boxes that the others sealed for it."""
    boxes: dict[int, dict[int, bytes]] = {number: {} for number in left}
    for sender in left:
        for receiver, box in unpack_by_party(state.answers[sender]).items():
            if receiver in boxes:
                boxes[receiver][sender] = box
    return {number: pack_by_party(parts) for number, parts in boxes.items()}


def opened_sum(state: ServerState) -> Longs:
    """Return the sum of the survivors' vectors, centred to signed 64-bit integers.

    Self masks of those whose vector came are taken off, and the pair masks that those who vanished
    left behind. Nobody's two secrets are ever both recovered: a party gives a share of one.

    Of shape (session.length,). Raises BelowThresholdError if too few gave shares;
    AlteredMessageError if shares do not fit what was committed to.
    """
    if state.now != ROUNDS[-1]:
        raise ProtocolError(f"round {state.now!r} is on: expected the last, 'unmask'.")
    check_enough(state, tuple(state.answers))
    given = {holder: unpack_by_party(state.answers[holder]) for holder in sorted(state.answers)}
    total, used = state.total.copy(), tuple(given)[: state.session.threshold]
    for owner in state.sharing:
        used, secret = _recover_secret(state, owner, given, used)
        total -= _mask_of(state, owner, secret)
    return total.astype(np.int64)


def _recover_secret(
    state: ServerState, owner: int, given: Mapping[int, Mapping[int, bytes]], used: tuple[int, ...]
) -> tuple[tuple[int, ...], bytes]:
    """Return holders whose shares recover the secret that an owner committed to, and the secret.

    `given`: the shares of each holder; `used`: the holders whose shares fitted before.
    """
    mask_key, _, committed = unpack(state.keys[owner].payload, 3)
    stays = owner in state.survivors
    known, proof = (committed, masks.commitment) if stays else (mask_key, masks.public_key)
    others = islice(combinations(given, state.session.threshold), MOST_SUBSETS)
    for holders in chain([used], others):  # some may have sent shares of nothing
        shares = {holder: given[holder][owner] for holder in holders}
        secret = masks.recover(shares, masks.weights(holders))
        if secret is not None and proof(secret) == known:
            return holders, secret
    raise AlteredMessageError(
        f"no {state.session.threshold} shares of {name_of(owner)} recover what it committed to: "
        f"too many were altered. Nothing was opened."
    )


def _mask_of(state: ServerState, owner: int, secret: bytes) -> NDArray[np.uint64]:
    """Return what an owner's secret takes off the sum."""
    session = state.session
    if owner in state.survivors:
        return masks.stream(secret, session.length)
    total, private = np.zeros(session.length, dtype=np.uint64), masks.private_key(secret)
    for other in state.survivors:
        public = unpack(state.keys[other].payload, 3)[0]
        masks.add_pair_mask(total, private, public, (other, owner), session.digest)
    return total
