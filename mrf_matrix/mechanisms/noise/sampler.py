"""Laws that OpenDP samples exactly: answers in, noisy answers out, in one call."""

from collections.abc import Callable
from typing import ClassVar, Literal

from mrf_matrix.base.arrays import Longs
from mrf_matrix.base.checks import NoiseProcessError as NoiseProcessError
from mrf_matrix.base.checks import check_parent_process
from mrf_matrix.base.steps import tell
from mrf_matrix.mechanisms.noise.law import NoiseLaw, checked_scale

Sampler = Literal["laplace", "gaussian"]
DRAWS = 1 << 16
"""Draws of one call: its integers as Python's take 2 MiB, and progress is told in between."""


class SampledLaw(NoiseLaw):
    """A law with a sampler of OpenDP's.

    OpenDP takes the scale as a double and works with its exact rational value (Canonne, Kamath
    and Steinke, 2020, sections 5.2 and 5.3). Sums saturate at the ends of the 64-bit integers.
    """

    sampler: ClassVar[Sampler]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checked_scale(self.scale))

    def exact(self, answers: Longs) -> Longs:
        """Return the answers plus exact draws, in blocks; refused in a worker process."""
        check_parent_process()
        noised = answers.ravel().copy()
        measurement = _measurement(float(self.scale), self.sampler)
        for start in range(0, noised.size, DRAWS):
            tell("Drawing exact noise", start, noised.size)
            drawn = slice(start, start + DRAWS)
            noised[drawn] = measurement(noised[drawn].tolist())
        return noised.reshape(answers.shape)


def _measurement(scale: float, kind: Sampler) -> Callable[[list[int]], list[int]]:
    # not opendp.prelude: that loads scikit-learn and takes ten times as long
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    make, distance = {
        "laplace": (make_laplace, l1_distance(T="i64")),
        "gaussian": (make_gaussian, l2_distance(T="f64")),
    }[kind]
    sample: Callable[[list[int]], list[int]] = make(integers, distance, scale=scale)
    return sample
