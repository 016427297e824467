"""What every path source offers: public parameters, and `grow`."""

from typing import Protocol, runtime_checkable

import numpy as np

from mrf_matrix.domain import Domain
from mrf_matrix.forests.forest import Forest

RandomState = int | np.random.Generator | None


@runtime_checkable
class PathSource(Protocol):
    """Anything that grows a forest over a public domain, from no data.

    A path source is a frozen dataclass of parameters; growing changes nothing in it, and the
    same parameters, domain and integer `random_state` give the same forest in every process.
    """

    def grow(self, domain: Domain, random_state: RandomState = None) -> Forest:
        """Return a forest over the domain."""
        ...
