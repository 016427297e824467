"""The twelve features of a pixel that segmentation by forests goes by (Bai et al., 2022)."""

import numpy as np
from numpy.typing import NDArray
from scenes.texture import co_occurrence_features, local_binary_patterns

from mrf_matrix.base.arrays import Array
from mrf_matrix.domain.columns import plain_array

FEATURES = (
    "red",
    "green",
    "blue",
    "local_binary_pattern",
    "angular_second_moment",
    "contrast",
    "correlation",
    "entropy",
    "homogeneity",
    "mean",
    "variance",
    "standard_deviation",
)


def pixel_features(image: NDArray[np.uint8]) -> Array:
    """Return `FEATURES` of every pixel, row by row.

    `image`: (n, m, 3), red, green and blue; the features are (n m, 12).
    Raises ValueError if it is no such image.

    >>> pixel_features(np.zeros((4, 5, 3), dtype=np.uint8)).shape
    (20, 12)
    """
    given = plain_array("image", image)
    if given.ndim != 3 or given.shape[2] != 3 or given.dtype != np.uint8 or not given.size:
        raise ValueError(
            f"image has shape {given.shape} and type {given.dtype}: expected (rows, columns, 3) of "
            f"uint8."
        )
    grey = np.rint(given @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    patterns = local_binary_patterns(grey)[..., None]
    table = np.concatenate([given, patterns, co_occurrence_features(grey)], axis=-1)
    return table.reshape(-1, len(FEATURES)).astype(np.float64)
