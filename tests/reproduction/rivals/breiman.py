"""The two variants that stand between Breiman's random forest and the multinomial one."""

from dataclasses import dataclass
from typing import Literal

from mrf_matrix.base.checks import short_repr
from mrf_matrix.forests.grown_trees import BreimanTrees
from mrf_matrix.forests.growth.growth import (
    GREEDY,
    AllAttributes,
    AttributeRule,
    Bootstrap,
    CutRule,
    Growth,
    Impurity,
    Partition,
    Points,
    RandomAttributes,
    Softmax,
    Stopping,
)

Variant = Literal["", "SE", "M"]


@dataclass(frozen=True)
class BreimanVariants(BreimanTrees):
    """Breiman's random forest, or a variant of it.

    Parameters
    ----------
    n_trees, criterion, min_points, max_depth, nominal, max_features
        See `BreimanTrees`.
    variant : {"", "SE", "M"}, default=""
        "SE": structure and estimation points instead of a bootstrap ("Breiman+SE").
        "M": the two softmax rules over all attributes instead of the best cut ("Breiman+M").
    b1, b2 : float, default=10
        Sharpness of the two softmax rules, for "M".

    References
    ----------
    Breiman: Random forests. Machine Learning 45 (2001); Bai et al. (2022), section 5.1.
    """

    variant: Variant = ""
    b1: float = 10.0
    b2: float = 10.0

    def __post_init__(self) -> None:
        if self.variant not in ("", "SE", "M"):
            raise ValueError(f"variant={short_repr(self.variant)}: expected '', 'SE' or 'M'.")
        super().__post_init__()

    @property
    def growth(self) -> Growth:
        """How this forest grows."""
        points: Points = Partition() if self.variant == "SE" else Bootstrap()
        attributes: AttributeRule = RandomAttributes(self.max_features)
        cut: CutRule = GREEDY
        if self.variant == "M":
            attributes, cut = AllAttributes(), Softmax(self.b1, self.b2)
        rule: Literal["node", "sides"] = "node" if self.variant == "SE" else "sides"
        return Growth(
            points=points,
            attributes=attributes,
            cut=cut,
            stopping=Stopping(self.min_points, rule, self.max_depth),
            impurity=Impurity(self.criterion),
            source=f"Breiman{'+' if self.variant else ''}{self.variant} trees",
        )
