"""Keys, masks and sealed boxes, from `cryptography`'s primitives.

A mask is ChaCha20's key stream read as integers mod 2**64: to whoever lacks the seed, a masked
vector is uniform. Two parties agree on a seed by X25519; one adds the mask and the other takes it
off, so that masks of pairs vanish from the sum.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.federated.messages import AlteredMessageError, name_of, pack_numbers

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

Words = NDArray[np.uint64]

SEED_BYTES = 32
FIXED_NONCE = bytes(12)
"""Each key is derived for one use, so its nonce may be fixed."""


def stream(seed: bytes, count: int) -> Words:
    """Return ChaCha20's key stream of a 32-byte seed as integers mod 2**64, shape (count,)."""
    encryptor = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * count)), dtype="<u8")


def random_bytes(seed: bytes, count: int) -> bytes:
    """Return bytes of the key stream of a seed."""
    return stream(seed, -(-count // 8)).tobytes()[:count]


def derived(secret: bytes, session: bytes, purpose: bytes) -> bytes:
    """Return a key for one purpose in one session, by HKDF with SHA-256."""
    return HKDF(hashes.SHA256(), SEED_BYTES, salt=session, info=purpose).derive(secret)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of 32 private bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agreed(private: bytes, public: bytes, session: bytes, purpose: bytes) -> bytes:
    """Return what two parties derive alike, each from its private and the other's public key.

    Raises
    ------
    AlteredMessageError
        If the public key is of low order, so that nothing secret would come out.
    """
    mine = X25519PrivateKey.from_private_bytes(private)
    try:
        shared = mine.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise AlteredMessageError(
            "a public key gives no shared secret: expected an X25519 key of 32 bytes."
        ) from None
    return derived(shared, session, purpose)


def commitment(seed: bytes) -> bytes:
    """Return the digest that a seed is held against once it is recovered."""
    return hashlib.sha256(b"self mask" + seed).digest()


def pair_mask(
    private: bytes, public: bytes, ends: tuple[int, int], session: bytes, n: int
) -> Words:
    """Return what party ``ends[0]`` adds for its pair with ``ends[1]``: opposite for the two.

    Parameters
    ----------
    private : bytes
        Of one end.
    public : bytes
        Of the other.
    ends : tuple of int
        The party that adds it, and the other. Whose key is the private one does not matter.
    session : bytes
    n : int
        Length of the vector.
    """
    mask = stream(agreed(private, public, session, b"pair mask"), n)
    return mask if ends[0] < ends[1] else np.uint64(0) - mask


def box_key(private: bytes, public: bytes, session: bytes, ends: tuple[int, int]) -> bytes:
    """Return the key of what the first end sends to the second, once in a session."""
    return agreed(private, public, session, b"box" + pack_numbers(ends))


def seal(key: bytes, content: bytes) -> bytes:
    """Encrypt and authenticate once with a key."""
    return ChaCha20Poly1305(key).encrypt(FIXED_NONCE, content, None)


def opened(key: bytes, box: bytes, sender: int) -> bytes:
    """Return the content of a box.

    Raises
    ------
    AlteredMessageError
        If it was altered or is not from that sender.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(FIXED_NONCE, box, None)
    except InvalidTag:
        raise AlteredMessageError(
            f"the share from {name_of(sender)} was altered on its way: expected it as it was "
            f"sealed. Nothing was sent in answer."
        ) from None
