"""Keys, masks and sealed boxes, and secrets shared so that a threshold of shares recovers them.

*Secrets shared so that a threshold of shares recovers them, and fewer say nothing.* Shamir (1979):
the secret is the value at 0 of a polynomial of degree ``threshold - 1`` over the integers mod a
prime; share i is its value at ``i + 1``.

*Keys, masks and sealed boxes, from `cryptography`'s primitives.* A mask is ChaCha20's key stream
read as integers mod 2**64: to whoever lacks the seed, a masked vector is uniform. Two parties agree
on a seed by X25519; one adds the mask and the other takes it off, so that masks of pairs vanish
from the sum.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from mrf_matrix.base.arrays import Words
from mrf_matrix.federated.sums.messages import SHARE_BYTES, AlteredMessageError, name_of

PRIME = 2**521 - 1  # a Mersenne prime: any secret of 64 bytes is below it

UNREDUCED = 32  # steps between two reductions mod the prime

SECRET_BYTES = 32


def split_secret(
    secret: bytes, holders: Sequence[int], threshold: int, random_bytes: Callable[[int], bytes]
) -> dict[int, bytes]:
    """Return a share of a secret for each holder.

    `secret`: 32 bytes; `holders`: distinct numbers from 0 on; `threshold`: how many shares recover
    the secret; `random_bytes`: returns so many random bytes; 16 more than the prime has make each
    coefficient uniform up to 2**-128.

    >>> import os
    >>> shares = split_secret(bytes(range(32)), range(5), 3, os.urandom)
    >>> recover({i: shares[i] for i in (0, 2, 4)}) == bytes(range(32))
    True
    """
    if len(secret) != SECRET_BYTES or not 1 <= threshold <= len(holders):
        raise ValueError(
            f"secret of {len(secret)} bytes, threshold={threshold}: expected {SECRET_BYTES} bytes "
            f"and a threshold from 1 to {len(holders)}, the number of holders."
        )
    wide = SHARE_BYTES + 16
    drawn = random_bytes(wide * (threshold - 1))
    coefficients = [
        int.from_bytes(drawn[wide * i : wide * (i + 1)], "little") % PRIME
        for i in range(threshold - 1)
    ]
    polynomial = [*coefficients, int.from_bytes(secret, "little")]
    return {holder: _value(polynomial, holder + 1) for holder in holders}


def _value(polynomial: Sequence[int], point: int) -> bytes:
    """Return the value of a polynomial, highest coefficient first, by Horner's rule."""
    value = 0
    for start in range(0, len(polynomial), UNREDUCED):  # points are short, so values grow slowly
        for coefficient in polynomial[start : start + UNREDUCED]:
            value = value * point + coefficient
        value %= PRIME
    return value.to_bytes(SHARE_BYTES, "little")


def weights(holders: Sequence[int]) -> dict[int, int]:
    """Return Lagrange's weights at 0: the secret is ``Σ weight_i share_i`` mod the prime."""
    points = [holder + 1 for holder in holders]
    result = {}
    for holder, point in zip(holders, points, strict=True):
        above = below = 1
        for other in points:
            if other != point:
                above = above * other % PRIME
                below = below * (other - point) % PRIME
        result[holder] = above * pow(below, -1, PRIME) % PRIME
    return result


def recover(shares: Mapping[int, bytes], known: Mapping[int, int] | None = None) -> bytes | None:
    """Return the secret of exactly a threshold of shares; None where they fit no secret.

    `shares`: holder to share; `known`: `weights` of the same holders, where many secrets have the
    same.
    """
    factors = weights(list(shares)) if known is None else known
    secret = sum(factors[i] * int.from_bytes(share, "little") for i, share in shares.items())
    value = secret % PRIME
    return value.to_bytes(SECRET_BYTES, "little") if value < 1 << 8 * SECRET_BYTES else None


try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "secure sums need the package cryptography: expected pip install 'mrf-matrix[federated]'."
    ) from error


SEED_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16


def stream(seed: bytes, count: int) -> Words:
    """Return ChaCha20's key stream of a 32-byte seed as integers mod 2**64, shape (count,)."""
    encryptor = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(_zeros(8 * count)), dtype="<u8")


@lru_cache(maxsize=2)
def _zeros(count: int) -> bytes:
    return bytes(count)


def random_bytes(seed: bytes, count: int) -> bytes:
    return stream(seed, -(-count // 8)).tobytes()[:count]


def derive_key(secret: bytes, session: bytes, purpose: bytes) -> bytes:
    return HKDF(hashes.SHA256(), SEED_BYTES, salt=session, info=purpose).derive(secret)


def private_key(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


def public_key(secret: bytes) -> bytes:
    return private_key(secret).public_key().public_bytes_raw()


def shared_key(private: X25519PrivateKey, public: bytes, session: bytes, purpose: bytes) -> bytes:
    """Return what two parties derive alike, each from its private and the other's public key.

    Raises AlteredMessageError if the public key is of low order, so that nothing secret would come
    out.
    """
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise AlteredMessageError(
            "a public key gives no shared secret: expected an X25519 key of 32 bytes."
        ) from None
    return derive_key(shared, session, purpose)


def is_public_key(public: bytes) -> bool:
    """Tell whether bytes are a public key that gives shared secrets."""
    try:
        shared_key(private_key(bytes(SEED_BYTES - 1) + b"\1"), public, b"", b"")
    except AlteredMessageError:
        return False
    return True


def commitment(seed: bytes) -> bytes:
    """Return the digest that a seed is held against once it is recovered."""
    return hashlib.sha256(b"self mask" + seed).digest()


def add_pair_mask(
    total: Words, private: X25519PrivateKey, public: bytes, ends: tuple[int, int], session: bytes
) -> None:
    """Add to a vector, in place, what ``ends[0]`` adds for its pair with ``ends[1]``.

    The other end adds the opposite.

    `private`: of one end. `public`: of the other. `ends`: the party that adds it, and the other.
    Whose key is the private one does not matter.
    """
    mask = stream(shared_key(private, public, session, b"pair mask"), len(total))
    if ends[0] < ends[1]:
        total += mask
    else:
        total -= mask


def box_key(private: X25519PrivateKey, public: bytes, session: bytes) -> bytes:
    """Return the key of what two parties send each other, once each in a session."""
    return shared_key(private, public, session, b"box")


def sealed_size(content: int) -> int:
    return content + TAG_BYTES


def seal(key: bytes, content: bytes, sender: int) -> bytes:
    """Encrypt and authenticate one content of a sender: its number is the nonce."""
    return ChaCha20Poly1305(key).encrypt(sender.to_bytes(NONCE_BYTES, "little"), content, None)


def open_box(key: bytes, box: bytes, sender: int) -> bytes:
    """Return the content of a box.

    Raises AlteredMessageError if it was altered or is not from that sender.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(sender.to_bytes(NONCE_BYTES, "little"), box, None)
    except InvalidTag:
        raise AlteredMessageError(
            f"the share from {name_of(sender)} was altered on its way: expected it as it was "
            f"sealed. Nothing was sent in answer."
        ) from None
