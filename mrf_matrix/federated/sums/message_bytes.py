"""How much is sent in each round, known before."""

from dataclasses import dataclass

from mrf_matrix.federated.sums.masks import SHARE_BYTES
from mrf_matrix.federated.sums.messages import PREFIX, ROUNDS

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
    others = _by_party(parties - 1, BOX)
    payloads = {
        "keys": (KEYS, WORD),
        "shares": (others, _by_party(parties, 3 * WORD + KEYS + SIGNATURE)),
        "masked": (WORD * length, others),
        "unmask": (_by_party(parties, SHARE_BYTES), 2 * WORD + WORD * parties),
    }
    return tuple(
        RoundBytes(name, *(_envelope(name) + payload for payload in payloads[name]))
        for name in ROUNDS
    )


def _by_party(count: int, each: int) -> int:
    """Bytes of one part for each of some parties, with their numbers."""
    return WORD * (count + 2) + WORD * count + each * count


def _envelope(name: str) -> int:
    """Bytes of a message without its payload."""
    return 6 * WORD + len(PREFIX) + 32 + len(name) + 2 * WORD + SIGNATURE
