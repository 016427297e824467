"""The public configuration of one secure sum, and the digest that every message carries."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

from mrf_matrix.federated.sums.messages import SERVER, ProtocolError

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
        if number not in self._by_number:
            raise ProtocolError(f"party {number} is no member of this session.")
        return self._by_number[number]

    @cached_property
    def _by_number(self) -> dict[int, bytes]:
        return dict(zip(self.members, self.identities, strict=True))
