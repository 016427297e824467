"""Random bits for private choices: the system's, or a seeded generator's for studies."""

import os
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.arrays import Longs, Seed, Words
from mrf_matrix.base.checks import check_parent_process

Noise = Literal["exact", "research"]
REMARK = " (research noise, not a release)"
"""What is said of anything that was made with bits of a seed."""


@dataclass(frozen=True, eq=False)
class Bits:
    """A source of uniform 64-bit words."""

    # None for the operating system's randomness, which cannot be seeded
    generator: np.random.Generator | None = None

    @classmethod
    def of(cls, noise: object, noise_state: Seed = None) -> "Bits":
        """Return the source of a noise mode.

        `noise` {"exact", "research"}: "exact": system randomness, in the parent process only.
        "research": seedable. `noise_state`: seed of research noise.

        Raises ValueError if the mode is unknown, or exact noise is given a seed; NoiseProcessError
        for exact noise in a worker process.
        """
        if noise == "research":
            return cls(np.random.default_rng(noise_state))
        if noise != "exact":
            raise ValueError(f"noise={noise!r}: expected 'exact' or 'research'.")
        if noise_state is not None:
            raise ValueError(
                f"noise_state={noise_state!r} with noise='exact': release-grade choices cannot be "
                f"seeded, or whoever holds the seed could undo them. Use noise='research' to study."
            )
        check_parent_process()
        return cls()

    @property
    def noise(self) -> Noise:
        """The kind of noise that is drawn from it."""
        return "exact" if self.generator is None else "research"

    @property
    def remark(self) -> str:
        """What to say of anything made with these bits."""
        return "" if self.generator is None else REMARK

    def words(self, count: int) -> Words:
        """Return uniform words."""
        raw = os.urandom(8 * count) if self.generator is None else self.generator.bytes(8 * count)
        return np.frombuffer(raw, dtype=np.uint64)

    def low(self, count: int, bits: int) -> Longs:
        """Return uniform integers of so many bits (at most 62)."""
        return (self.words(count) >> np.uint64(64 - bits)).astype(np.int64)

    def below(self, limit: Longs) -> Longs:
        """Return one uniform integer in [0, limit) for each limit, exactly: by rejection."""
        result = np.zeros(len(limit), dtype=np.int64)
        pending = np.arange(len(limit))
        while len(pending):
            bound = limit[pending].astype(np.uint64)
            words = self.words(len(pending)) >> np.uint64(1)
            whole = np.uint64(1 << 63) // bound * bound
            accepted = words < whole
            result[pending[accepted]] = (words[accepted] % bound[accepted]).astype(np.int64)
            pending = pending[~accepted]
        return result

    def number(self, bits: int) -> int:
        """Return a uniform whole number of so many bits, however many they are."""
        count = -(-bits // 64)
        return int.from_bytes(self.words(count).tobytes(), "little") >> (64 * count - bits)

    def number_below(self, limit: int) -> int:
        """Return a uniform integer in [0, limit), exactly, however large the limit is."""
        while True:
            number = self.number(limit.bit_length())
            if number < limit:
                return number

    def coins(self, count: int, share: float) -> NDArray[np.bool_]:
        """Return independent coins that are True with probability `share` (to 53 bits)."""
        return np.asarray(self.low(count, 53) < round(share * (1 << 53)))
