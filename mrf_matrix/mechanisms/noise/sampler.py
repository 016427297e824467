"""Exact samplers, from OpenDP: answers in, noisy answers out, in one call."""

from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.parent_process import check_parent_process
from mrf_matrix.base.steps import tell

Integers = NDArray[np.int64]
DRAWS = 1 << 16
"""Draws of one call: its integers as Python's take 2 MiB, and progress is told in between."""


def noisy(answers: Integers, scale: Fraction, kind: Literal["laplace", "gaussian"]) -> Integers:
    """Return integers plus independent discrete noise, sampled exactly by OpenDP, in blocks.

    OpenDP takes the scale as a double and works with its exact rational value (Canonne, Kamath
    and Steinke, 2020, sections 5.2 and 5.3). Sums saturate at the ends of the 64-bit integers.

    Raises
    ------
    NoiseProcessError
        In a worker process.
    """
    check_parent_process()
    noised = answers.ravel().copy()
    measurement = _measurement(float(scale), kind)
    for start in range(0, noised.size, DRAWS):
        tell("Drawing exact noise", start, noised.size)
        drawn = slice(start, start + DRAWS)
        noised[drawn] = measurement(noised[drawn].tolist())
    return noised.reshape(answers.shape)


def _measurement(scale: float, kind: Literal["laplace", "gaussian"]) -> Any:
    # not opendp.prelude: that loads scikit-learn and takes ten times as long
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    if kind == "laplace":
        return make_laplace(integers, l1_distance(T="i64"), scale=scale)
    return make_gaussian(integers, l2_distance(T="f64"), scale=scale)
