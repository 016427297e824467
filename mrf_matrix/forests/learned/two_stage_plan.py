"""How one budget pays for a structure and for leaf counts."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.base.shown import shown
from mrf_matrix.forests.growth.parameters import check_probability
from mrf_matrix.mechanisms import ZCDP, PureDP
from mrf_matrix.mechanisms.selection.bits import Bits

Parts = Literal["coins", "all"]


@dataclass(frozen=True)
class TwoStagePlan:
    """One plan for structure and leaf counts: who sees which records, and what each spends.

    >>> TwoStagePlan.of(PureDP(1), "all", 0.25)
    TwoStagePlan(PureDP(epsilon=1) = PureDP(epsilon=0.25) structure + PureDP(epsilon=0.75) counts)
    """

    # total, structure, counts: the budget, and what the two stages spend
    total: PureDP | ZCDP
    structure: PureDP | ZCDP
    counts: PureDP | ZCDP
    # "coins": each record belongs to one stage, by its own coin, so the stages compose in parallel:
    # both may spend the total. "all": both see all records, and their budgets add.
    parts: Parts
    # probability that a record goes to the structure ("coins"), or the structure's share of the
    # budget ("all")
    structure_share: float

    @classmethod
    def of(cls, total: PureDP | ZCDP, parts: object, structure_share: float) -> "TwoStagePlan":
        """Divide a budget.

        Raises ValueError if `parts` is unknown or the share is not strictly between 0 and 1.
        """
        if parts not in ("coins", "all"):
            raise ValueError(f"parts={shown(parts)}: expected 'coins' or 'all'.")
        check_probability("structure_share", structure_share)
        if structure_share in (0, 1):
            raise ValueError(
                f"structure_share={structure_share}: expected more than 0 and less than 1; both "
                f"stages need records and budget."
            )
        if parts == "coins":
            return cls(total, total, total, parts, structure_share)
        share = Fraction(repr(float(structure_share)))
        structure, counts = total.split([share, 1 - share])
        return cls(total, structure, counts, parts, structure_share)

    def assign(self, n_records: int, bits: Bits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which records each stage sees."""
        if self.parts == "all":
            everyone = np.arange(n_records)
            return everyone, everyone
        heads = bits.coins(n_records, self.structure_share)
        return np.flatnonzero(heads), np.flatnonzero(~heads)

    def __repr__(self) -> str:
        sign = "+" if self.parts == "all" else "and, on other records,"
        return (
            f"TwoStagePlan({self.total} = {self.structure} structure {sign} {self.counts} counts)"
        )
