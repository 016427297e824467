"""What curators are asked: public values that say how counts or scores follow from private data.

The class of a question is a proof of how far one record moves what it asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from mrf_matrix.base.arrays import Bools, Longs
from mrf_matrix.base.fields import FieldError
from mrf_matrix.mechanisms import CellCounts, LeafCounts
from mrf_matrix.mechanisms.selection.bits import Bits
from mrf_matrix.mechanisms.selection.exponential import Rate, chosen_place
from mrf_matrix.release.transcript import Places


class Data(Protocol):
    """Private data over a domain: records, or tables that were counted."""

    def cells(self, features: Sequence[int]) -> CellCounts | LeafCounts:
        """Return the counts of the cells of some attributes: **private**."""


class Table(Protocol):
    """A question that is measured: exact counts, of which one record moves one in a column."""

    @property
    def kind(self) -> str:
        """Of the steps at which it may be asked."""

    @property
    def n_cells(self) -> int:
        """Cells, of which the step makes its strategy."""

    @property
    def n_columns(self) -> int:
        """Columns of the answers."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Attribute sizes of the counts."""

    def counts(self, data: Any) -> CellCounts | LeafCounts:
        """Return them: **private**."""


class Options(Protocol):
    """A question that is chosen from, by integer scores that one record moves by one at most."""

    @property
    def kind(self) -> str:
        """Of the steps at which it may be asked."""

    def scores(self, data: Any) -> Any:
        """Return what is drawn by: **private**."""

    def draw(self, scores: Any, step: Any, bits: Bits) -> Places:
        """Draw by the mechanism of the kind, exactly."""

    def check(self, chosen: Places) -> None:
        """Refuse what could not have been drawn.

        Raises FieldError.
        """


@dataclass(frozen=True, eq=False)
class Cells:
    """Counts of the cells of some attributes by class: one record is in one of them.

    Attributes
    ----------
    features : tuple of int
        Positions of the attributes.
    sizes : tuple of int
        How many codes they have.
    n_columns : int
        A column a class.
    """

    features: tuple[int, ...]
    sizes: tuple[int, ...]
    n_columns: int
    kind: ClassVar[str] = "strategy"
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    def counts(self, data: Data) -> CellCounts | LeafCounts:
        """Return them: **private**."""
        return data.cells(self.features)


@dataclass(frozen=True, eq=False)
class KeptTable:
    """A table that was counted before, a row a cell: one record is in one of them.

    Attributes
    ----------
    number : int
        Its place among the tables that are asked.
    sizes : tuple of int
        How many codes its attributes have.
    n_columns : int
        A column a class.
    """

    number: int
    sizes: tuple[int, ...]
    n_columns: int
    kind: ClassVar[str] = "strategy"
    n_cells: ClassVar[int] = 0  # the step knows its strategy

    def counts(self, data: Sequence[CellCounts | LeafCounts]) -> CellCounts | LeafCounts:
        """Return them: **private**."""
        return data[self.number]


class KeptVotes(KeptTable):
    """Hard votes, a row a leaf: one record moves votes from class to class, a count in each.

    So they are asked at steps whose noise is made for it, see `mrf_matrix.error.vote_noise`.
    """

    kind: ClassVar[str] = "hard votes"


class FewOptions:
    """A choice among options that are written out, by the exponential mechanism.

    Subclasses have `options`, a mask of those that may be chosen, and `scores`.
    """

    options: Bools

    def draw(self, scores: Longs, step: Any, bits: Bits) -> Places:
        """Draw one; without noise the first of the best."""
        gaps = (scores[self.options].max() - scores)[:, None]
        return (chosen_place(gaps, self.options[:, None], Rate.below(step.choice_rate), bits),)

    def check(self, chosen: Places) -> None:
        """Refuse what was no option."""
        if len(chosen) != 1 or chosen[0] >= len(self.options) or not self.options[chosen[0]]:
            raise FieldError(f"outcomes: {list(chosen)[:5]}: expected one of the options.")
