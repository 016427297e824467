"""Secrets shared so that a threshold of shares recovers them, and fewer say nothing.

Shamir (1979): the secret is the value at 0 of a polynomial of degree ``threshold - 1`` over the
integers mod a prime; share i is its value at ``i + 1``.
"""

from collections.abc import Callable, Mapping, Sequence

PRIME = 2**521 - 1  # a Mersenne prime: any secret of 64 bytes is below it

UNREDUCED = 32  # steps between two reductions mod the prime

SHARE_BYTES = 66
SECRET_BYTES = 32


def split(
    secret: bytes, holders: Sequence[int], threshold: int, random_bytes: Callable[[int], bytes]
) -> dict[int, bytes]:
    """Return a share of a secret for each holder.

    `secret`: 32 bytes; `holders`: distinct numbers from 0 on; `threshold`: how many shares recover
    the secret; `random_bytes`: returns so many random bytes; 16 more than the prime has make each
    coefficient uniform up to 2**-128.

    >>> import os
    >>> shares = split(bytes(range(32)), range(5), 3, os.urandom)
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
