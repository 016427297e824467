"""Signed messages: who says what, to whom, in which round of which session, publicly configured."""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


ROUNDS = ("keys", "shares", "masked", "unmask")
"""The four rounds, in order. In each the server asks and the parties answer."""

SERVER = -1  # the server's number as sender or receiver; parties are 0 to k - 1

PREFIX = b"mrf_matrix.federated/1"
PIECES = 2**20
SHORT = 4096


class ProtocolError(ValueError):
    """A message or a state that the protocol does not allow. Nothing was opened or sent by it."""


class AlteredMessageError(ProtocolError):
    """A message that is not what its sender signed, or that cannot be read."""


class JunkSharesError(AlteredMessageError):
    """A party sealed shares that do not open; `sender` is its number."""

    def __init__(self, sender: int) -> None:
        super().__init__(
            f"a box of shares of party {sender} was altered, or is not theirs. This party sends "
            f"and pays nothing: expected a new session, without party {sender}."
        )
        self.sender = sender


class ReplayedMessageError(ProtocolError):
    """A message of another session, or one that was answered or counted before."""


class OutOfOrderError(ProtocolError):
    """A message of a round that has not begun, or is over."""


class BelowThresholdError(ProtocolError):
    """Too few parties are left: the sum must not be opened, and is not."""


@dataclass(frozen=True)
class Message:
    """One signed message.

    Attributes
    ----------
    session : bytes
        Digest of the public configuration of the sum, 32 bytes.
    round : str
        One of `ROUNDS`.
    sender, receiver : int
        A party's number, or `SERVER`.
    payload : bytes
    signature : bytes
        Ed25519, over all of the above.
    """

    session: bytes
    round: str
    sender: int
    receiver: int
    payload: bytes
    signature: bytes = b""

    def __post_init__(self) -> None:
        kinds = {"session": bytes, "round": str, "sender": int, "receiver": int}
        kinds |= {"payload": bytes, "signature": bytes}
        for name, kind in kinds.items():
            value = getattr(self, name)
            far = isinstance(value, int) and abs(value) >= 2**63
            if type(value) is not kind or far:
                raise AlteredMessageError(
                    f"message: {name} is of type {type(value).__name__}: expected "
                    f"{kind.__name__}, as the protocol has it."
                )

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that are signed."""
        ends = struct.pack("<qq", self.sender, self.receiver)
        return pack([PREFIX, self.session, self.round.encode(), ends, self.payload])

    @property
    def size(self) -> int:
        """Bytes of everything that is sent."""
        return len(self.signed_bytes) + len(self.signature)


def sign(message: Message, identity: "Ed25519PrivateKey") -> Message:
    signature = identity.sign(message.signed_bytes)
    return Message(
        message.session, message.round, message.sender, message.receiver, message.payload, signature
    )


def check_signature(message: Message, public: bytes) -> None:
    """Refuse a message that the holder of a public key did not sign.

    Raises AlteredMessageError.
    """
    # of a large message anew each time: kept answers hold on to what they were given
    fits = _is_signature if len(message.payload) <= SHORT else _is_signature.__wrapped__
    if not fits(public, message.signature, message.signed_bytes):
        raise AlteredMessageError(
            f"message of {name_of(message.sender)} in round {message.round[:20]!r}: its signature "
            f"does not fit, so it was altered or is not theirs. Expected it as it was sent."
        )


@lru_cache(maxsize=4096)
def _is_signature(public: bytes, signature: bytes, signed: bytes) -> bool:
    """Tell whether a signature fits; the parties of one process check the same keys."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


def check_round(message: Message, session: bytes, now: str | None) -> None:
    """Refuse a message of another session or another round.

    `session`: the session's digest; `now`: the round that is on; None after the last.

    Raises ReplayedMessageError, OutOfOrderError.
    """
    who = name_of(message.sender)
    if message.session != session:
        raise ReplayedMessageError(
            f"message of {who} in round {message.round[:20]!r} belongs to another session: "
            f"expected one of this session, whose configuration it signs."
        )
    if message.round == now:
        return
    told = f"message of {who} is of round {message.round[:20]!r}"
    if message.round not in ROUNDS:
        raise OutOfOrderError(f"{told}: expected one of {ROUNDS}.")
    over = now is None or ROUNDS.index(message.round) < ROUNDS.index(now)
    if over:
        raise ReplayedMessageError(f"{told}, which is over: it is late or was sent before.")
    raise OutOfOrderError(f"{told}, which has not begun: expected round {now!r}.")


def name_of(number: int) -> str:
    return "the server" if number == SERVER else f"party {number}"


def pack(parts: Sequence[bytes]) -> bytes:
    """Join byte strings, with their lengths before them."""
    lengths = struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts))
    return b"".join([lengths, *parts])


def unpack(data: bytes, count: int | None = None) -> list[bytes]:
    """Return the byte strings of `pack`, of which there must be ``count`` if it is given.

    Raises AlteredMessageError if the data are not those of `pack`.
    """
    number = int.from_bytes(data[:8], "little") if len(data) >= 8 else -1
    head = 8 * (number + 1)
    if 0 <= number <= PIECES and len(data) >= head and count in (None, number):
        lengths = struct.unpack(f"<{number}Q", data[8:head])
        if sum(lengths) == len(data) - head:
            parts, start = [], head
            for length in lengths:
                parts.append(data[start : start + length])
                start += length
            return parts
    raise AlteredMessageError(f"payload of {len(data)} bytes: expected parts as they were packed.")


def pack_numbers(numbers: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


def unpack_numbers(data: bytes) -> list[int]:
    """Return the numbers of parties, which must be distinct and in order."""
    if len(data) % 8:
        raise AlteredMessageError(f"{len(data)} bytes: expected whole numbers of 8 bytes.")
    numbers = [number for (number,) in struct.iter_unpack("<q", data)]
    if sorted(set(numbers)) != numbers:
        raise AlteredMessageError("numbers of parties: expected each once, in order.")
    return numbers


def pack_by_party(content: Mapping[int, bytes]) -> bytes:
    numbers = sorted(content)
    return pack([pack_numbers(numbers), *(content[number] for number in numbers)])


def unpack_by_party(data: bytes) -> dict[int, bytes]:
    """Return what `pack_by_party` packed.

    Raises AlteredMessageError if there are not as many byte strings as numbers.
    """
    parts = unpack(data)
    parties, content = unpack_numbers(parts[0]) if parts else [], parts[1:]
    if not parts or len(parties) != len(content):
        raise AlteredMessageError("a payload by party: expected one part for each number.")
    return dict(zip(parties, content, strict=True))


KEY_BYTES = 32


@dataclass(frozen=True)
class Session:
    """What all agree on before a sum: who takes part, how many must stay, what is summed.

    Attributes
    ----------
    label : str
        A name that is used once: what is summed, and when.
    members : tuple of int
        Numbers of the parties, in order.
    identities : tuple of bytes
        Ed25519 public key of each member, 32 bytes.
    server : bytes
        Ed25519 public key of the server.
    threshold : int
        Least number of members whose vectors may be opened, also of shares that recover a seed.
    length : int
        Integers in each vector.
    design : bytes
        Digest of what the integers are: strategy, noise, domain. Empty for a sum by itself.

    Raises
    ------
    ProtocolError
        If members repeat, a key has no 32 bytes, or the threshold lies outside 1 to the number of
        members.
    """

    label: str
    members: tuple[int, ...]
    identities: tuple[bytes, ...]
    server: bytes
    threshold: int
    length: int
    design: bytes = b""

    def __post_init__(self) -> None:
        if sorted(set(self.members)) != list(self.members) or min(self.members, default=-1) < 0:
            raise ProtocolError("members: expected distinct numbers from 0 on, in order.")
        if len(self.identities) != len(self.members):
            raise ProtocolError(
                f"identities: got {len(self.identities)} keys for {len(self.members)} members, "
                f"expected one each."
            )
        if any(len(key) != KEY_BYTES for key in (*self.identities, self.server)):
            raise ProtocolError(f"identities, server: expected public keys of {KEY_BYTES} bytes.")
        if not 1 <= self.threshold <= len(self.members):
            raise ProtocolError(
                f"threshold={self.threshold}: expected 1 to {len(self.members)}, the members."
            )
        if self.length < 1:
            raise ProtocolError(f"length={self.length}: expected at least one integer to sum.")

    @property
    def identity_of_charge(self) -> str:
        """32 digits by which all charges for this sum, and what is released, know each other."""
        return self.digest.hex()[:32]

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the configuration: a message of any other is refused."""
        plain = {
            "label": self.label,
            "members": self.members,
            "identities": [key.hex() for key in self.identities],
            "server": self.server.hex(),
            "threshold": self.threshold,
            "length": self.length,
            "design": self.design.hex(),
        }
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()

    def identity(self, number: int) -> bytes:
        """Return the public key of a member, or of the server.

        Raises
        ------
        ProtocolError
            If the number is nobody's.
        """
        if number == SERVER:
            return self.server
        if number not in self._identities:
            raise ProtocolError(f"party {number} is no member of this session.")
        return self._identities[number]

    @cached_property
    def _identities(self) -> dict[int, bytes]:
        return dict(zip(self.members, self.identities, strict=True))


# Their sizes --------------------------------------------------------------------------------------

SHARE_BYTES = 66  # a share of a secret, of integers mod a prime of 521 bits
WORD = 8
KEYS = 4 * WORD + 3 * 32
"""Two public keys and a commitment, packed."""
SIGNATURE = 64
BOX = 2 * SHARE_BYTES + 16
"""Two shares and the authentication of their box."""


@dataclass(frozen=True)
class RoundBytes:
    """Bytes of one round's messages, for one party, if nobody has vanished.

    Attributes
    ----------
    round : str
    to_server, to_party : int
    """

    round: str
    to_server: int
    to_party: int


def message_bytes(parties: int, length: int) -> tuple[RoundBytes, ...]:
    """Return what one party sends and receives in each of the four rounds.

    Parameters
    ----------
    parties : int
    length : int
        Integers in a vector, of 8 bytes.

    Examples
    --------
    >>> sum(one.to_server for one in message_bytes(100, 100_000))
    825346
    """
    others = _packed_size(parties - 1, BOX)
    payloads = {
        "keys": (KEYS, WORD),
        "shares": (others, _packed_size(parties, 3 * WORD + KEYS + SIGNATURE)),
        "masked": (WORD * length, others),
        "unmask": (_packed_size(parties, SHARE_BYTES), 2 * WORD + WORD * parties),
    }
    return tuple(
        RoundBytes(name, *(_envelope_size(name) + payload for payload in payloads[name]))
        for name in ROUNDS
    )


def _packed_size(count: int, each: int) -> int:
    return WORD * (count + 2) + WORD * count + each * count


def _envelope_size(name: str) -> int:
    return 6 * WORD + len(PREFIX) + 32 + len(name) + 2 * WORD + SIGNATURE
