"""Tables of several kinds measured together, such as marginals and residual marginals.

Each kind is diagonal on the components, ``AᵀA = Σ_U λ_U E_U``, and so are all together: their
eigenvalues add, and ``A⁺ y = Σ_U E_U (Σ_k A_kᵀ y_k) / λ_U``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.operators.base.arrays import Array, Bools, Numbers
from strategies.operators.base.operator import Operator
from strategies.operators.masks.residuals import Residuals
from strategies.operators.stack import Stack
from strategies.operators.tables.product_tables import ProductTables


@dataclass(frozen=True, eq=False, repr=False, init=False)
class JointTables(ProductTables, Stack):
    """A `Stack` of tables over the same attributes, solved with together at any size.

    Parameters
    ----------
    blocks : sequence of Marginals or ResidualMarginals
    """

    blocks: tuple[ProductTables, ...]

    def __init__(self, blocks: Sequence[Operator]) -> None:
        Stack.__init__(self, blocks)
        tables = tuple(block for block in blocks if isinstance(block, ProductTables))
        if len(tables) < len(blocks) or self.sizes is None:
            raise ValueError(
                f"blocks={list(blocks)!r}: expected marginals and residual marginals, all over the "
                f"same attributes."
            )
        sets = tuple(chosen for block in tables for chosen in block.attribute_sets)
        weights = tuple(weight for block in tables for weight in block.weights)
        object.__setattr__(self, "attribute_sets", sets)
        object.__setattr__(self, "weights", weights)

    def rounded(self, scale: int) -> "JointTables":
        """Return the tables with integer weights ``round(scale * θ)``."""
        return JointTables([block.rounded(scale) for block in self.blocks])

    def eigenvalues(self, sets: Bools) -> Array:
        """Return ``λ_U / n`` for attribute sets (u, d): the sum over the blocks."""
        return np.asarray(sum(block.eigenvalues(sets) for block in self.blocks))

    def residuals(self, answers: Numbers) -> Residuals:
        """Return the components of ``n A⁺ @ answers``, each as a table over its own attributes."""
        sums: Residuals = {}
        for block, part in zip(self.blocks, self.split(self.checked_answers(answers)), strict=True):
            own = block.residuals(part)
            values = block.eigenvalues(np.array(list(own), dtype=bool).reshape(len(own), -1))
            for (key, table), value in zip(own.items(), values, strict=True):
                sums[key] = sums.get(key, 0.0) + value * table
        whole = self.eigenvalues(np.array(list(sums), dtype=bool).reshape(len(sums), -1))
        return {key: sums[key] / value for key, value in zip(sums, whole, strict=True)}
