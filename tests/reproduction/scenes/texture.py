"""Texture around every pixel of a grey image: Haralick's features, and local binary patterns."""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from mrf_matrix.base.arrays import Array, Longs

LEVELS = 32  # grey levels of co-occurrences

WINDOW = 11  # rows and columns of the window around a pixel

DIRECTIONS = ((0, 1), (1, 1), (1, 0), (1, -1))  # from the first pixel of a pair to the second

RADIUS, POINTS = 24, 192
CHUNK = 1 << 22
"""Pairs sorted at once: 32 MB."""


def co_occurrence_features(grey: NDArray[np.uint8]) -> Array:
    r"""Return eight features of the co-occurrence matrix around every pixel (Haralick, 1973).

    With :math:`p_{ij}` the share of neighbouring pairs of levels i and j, in either order, in the
    window: angular second moment :math:`\sum p^2`, contrast :math:`\sum p (i-j)^2`, correlation,
    entropy :math:`-\sum p \ln p`, homogeneity :math:`\sum p / (1 + (i-j)^2)`, and the mean,
    variance and standard deviation of i; averaged over four directions.

    `grey`: (n, m).

    The features are (n, m, 8).
    """
    reach = WINDOW // 2
    levels = np.pad(grey.astype(np.int64) * LEVELS // 256, reach, mode="symmetric")
    return np.asarray(np.mean([_of_direction(levels, step) for step in DIRECTIONS], axis=0))


def _of_direction(levels: Longs, step: tuple[int, int]) -> Array:
    first, second = _pairs(levels, step)
    height, width = WINDOW - step[0], WINDOW - abs(step[1])

    def average(values: Array) -> Array:
        windows = np.lib.stride_tricks.sliding_window_view(values, (height, 1))
        summed = windows.sum(axis=(2, 3))
        sliding = np.lib.stride_tricks.sliding_window_view(summed, (1, width))
        return np.asarray(sliding.sum(axis=(2, 3)) / (height * width))

    i, j = first.astype(np.float64), second.astype(np.float64)
    mean = average((i + j) / 2)
    variance = np.maximum(average((i**2 + j**2) / 2) - mean**2, 0)
    product = average(i * j) - mean**2
    correlation = np.where(variance > 0, product / np.where(variance > 0, variance, 1.0), 1.0)
    moment, entropy = _moment_and_entropy(first, second, (height, width))
    return np.stack(
        [
            moment,
            average((i - j) ** 2),
            correlation,
            entropy,
            average(1 / (1 + (i - j) ** 2)),
            mean,
            variance,
            np.sqrt(variance),
        ],
        axis=-1,
    )


def _pairs(levels: Longs, step: tuple[int, int]) -> tuple[Longs, Longs]:
    """Return the levels of both pixels of every pair."""
    down, across = step
    rows, columns = levels.shape[0] - down, levels.shape[1] - abs(across)
    left = max(0, -across)
    first = levels[:rows, left : left + columns]
    second = levels[down:, left + across : left + across + columns]
    return first, second


def _moment_and_entropy(
    first: Longs, second: Longs, window: tuple[int, int]
) -> tuple[Array, Array]:
    """Return ``Σ p²`` and ``-Σ p ln p``: pairs of each window are sorted, and their runs counted.

    A pair of different levels stands for two entries of half its share.
    """
    codes = LEVELS * np.minimum(first, second) + np.maximum(first, second)
    windows = np.lib.stride_tricks.sliding_window_view(codes, window)
    rows, columns = windows.shape[:2]
    pairs = window[0] * window[1]
    moment, entropy = np.empty((rows, columns)), np.empty((rows, columns))
    step = max(1, CHUNK // (columns * pairs))
    for begin in range(0, rows, step):
        part = slice(begin, begin + step)
        sorted_codes = np.sort(windows[part].reshape(-1, pairs).astype(np.int16), axis=1)
        starts = np.flatnonzero(np.diff(sorted_codes, axis=1, prepend=-1))
        count = np.diff(np.append(starts, sorted_codes.size)).astype(np.float64) / pairs
        code = sorted_codes.ravel()[starts]
        split = np.where(code // LEVELS == code % LEVELS, 1.0, 2.0)
        owner = np.flatnonzero(np.diff(starts // pairs, prepend=-1))
        squares = np.add.reduceat(count**2 / split, owner)
        logs = np.add.reduceat(count * np.log(count / split), owner)
        moment[part] = squares.reshape(-1, columns)
        entropy[part] = -logs.reshape(-1, columns)
    return moment, entropy


def local_binary_patterns(grey: NDArray[np.uint8]) -> Array:
    """Return the uniform local binary pattern of radius 24, scaled to 0..255 (Ojala et al., 2002).

    Of 192 places on a circle around the pixel, how many are at least as bright; 193 where bright
    and dark change more than twice along the circle.

    `grey`: (n, m).

    The patterns are (n, m).
    """
    values = grey.astype(np.float32)
    angles = 2 * np.pi * np.arange(POINTS) / POINTS
    count = np.zeros(values.shape, dtype=np.int64)
    changes = np.zeros(values.shape, dtype=np.int64)
    first = previous = None
    for angle in angles:
        away = (RADIUS * np.sin(angle), -RADIUS * np.cos(angle))
        bright = ndimage.shift(values, away, order=1, mode="nearest") >= values
        count += bright
        if previous is None:
            first = bright
        else:
            changes += bright != previous
        previous = bright
    changes += previous != first
    pattern = np.where(changes <= 2, count, POINTS + 1).astype(np.float64)
    spread = pattern.max() - pattern.min()
    return np.asarray((pattern - pattern.min()) * (255 / spread if spread else 0.0))
