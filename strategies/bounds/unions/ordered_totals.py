"""The frame of an attribute of many ordered codes, in near-linear time.

Where tables also need its totals, an attribute's best frame is that of the one-attribute optimum
for ``G + ω 11ᵀ``. For prefix sums ``G_ij = v_max(i,j)``, so that ``v + ω`` is of the same form, and
the ordered dual finds weights λ with ``X⁻¹ = Λ^½ K^½ Λ^½``, K of three diagonals. From these

    τ = 1/(1ᵀ X⁻¹ 1),    z = τ X⁻¹ 1,    BᵀB = X - τ 11ᵀ,    tr(G Y) = tr K^(-½) - (zᵀGz + ω)/τ.
"""

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from strategies.bounds.ordered_dual import bands, climb_ordered, root_nodes, steps_within
from strategies.operators import Array
from strategies.operators.ordered.ordered_gram import OrderedGram, ordered_gram
from strategies.problem.table_union import Kind

TOLERANCE = 1e-4
WORK = 0.5  # seconds of the reference machine for one optimum


@dataclass(frozen=True, eq=False)
class OrderedTotals:
    """A kind of ordered rows, to whose Gram a share of totals may be added where one side is even.

    Elsewhere, as for all ranges, the optimum without one is where a search begins.
    """

    kind: Kind
    gram: OrderedGram

    @classmethod
    def of(cls, kind: Kind) -> "OrderedTotals | None":
        """Return the form of a kind, None where it has none."""
        known = ordered_gram(kind.rows)
        if known is None:
            return None
        return cls(kind, OrderedGram(known.low / kind.scale, known.high / kind.scale))

    def tilted(self, tilt: float) -> tuple[OrderedGram, float]:
        """Return ``G + ω 11ᵀ`` and ω, which is 0 where the sum has no order."""
        for even, other in ((self.gram.low, self.gram.high), (self.gram.high, self.gram.low)):
            if np.ptp(even) <= 1e-12 * even[0]:
                moved = other + tilt / even[0]
                pair = (even, moved) if even is self.gram.low else (moved, even)
                return OrderedGram(*pair), tilt
        return self.gram, 0.0

    def optimum(self, tilt: float) -> tuple[Array, Array, float, float]:
        """Return weights, direction, ``q tr(G Y)`` and ``zᵀ G z`` of the optimum with a tilt."""
        gram, tilt = self.tilted(tilt)
        n = gram.n
        dual = climb_ordered(gram, TOLERANCE, steps_within(n, WORK))
        u = np.sqrt(dual.weights)
        diagonal, side = bands(gram, dual.weights)
        shifts, shares = root_nodes(diagonal, side)
        inner = np.zeros(n)
        for shift, share in zip(shifts, shares, strict=True):
            both = np.stack([np.r_[0.0, side], diagonal + shift])
            inner += share * linalg.solveh_banded(both, u, check_finite=False)
        along = diagonal * inner  # K^½ u = K K^(-½) u
        along[:-1] += side * inner[1:]
        along[1:] += side * inner[:-1]
        z = u * along
        tau = 1.0 / float(z.sum())
        z = z * tau
        total = float(z @ self.kind.gram @ z)
        root, largest = dual.root, float(dual.ratios.max())
        residual = max(root - (total + tilt) / tau, 0.0) * (largest - tau)
        return dual.weights, z, residual, total
