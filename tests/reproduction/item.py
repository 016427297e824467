"""One system, table or figure of a paper: what it measures, and the paper's numbers beside it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

PAPERS = {
    "003": "forests_003",
    "000": "multinomial_000_001",
    "001": "multinomial_000_001",
    "002": "rates_002",
    "004": "federated_004",
}
"""The page of each paper."""

Key = tuple[str, str]
"""A row and a column of an item's table."""


class MissingData(Exception):
    """A data set that neither the library nor the folder beside the checkout has."""


@dataclass(frozen=True)
class Run:
    """How much is measured: ``full`` is the paper's own size, the other a minute's check."""

    full: bool
    repeats: int

    @property
    def seeds(self) -> range:
        """One seed a repeat."""
        return range(self.repeats)


@dataclass(frozen=True)
class Figure:
    """A mean over repeats, with its standard error (None where there is one figure only)."""

    row: str
    column: str
    value: float
    error: float | None = None
    repeats: int = 1


def mean_of(row: str, column: str, values: Sequence[float]) -> Figure:
    """Return the mean of repeats, and its standard error."""
    found = np.asarray(values, dtype=float)
    error = float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None
    return Figure(row, column, float(found.mean()), error, len(found))


def row_of_means(row: str, found: Mapping[str, Sequence[float]]) -> list[Figure]:
    """Return the mean of every column's repeats."""
    return [mean_of(row, column, values) for column, values in found.items()]


def by_cell(
    printed: Mapping[str, Sequence[float | None]], columns: Iterable[str]
) -> dict[Key, float]:
    """Return a paper's rows of numbers by row and column; None is not printed."""
    names = list(columns)
    return {
        (row, column): value
        for row, values in printed.items()
        for column, value in zip(names, values, strict=True)
        if value is not None
    }


@dataclass(frozen=True)
class Table:
    """Figures by row and column."""

    figures: tuple[Figure, ...]

    def __getitem__(self, key: Key) -> float:
        return self.figure(*key).value

    def figure(self, row: str, column: str) -> Figure:
        """Return a figure; KeyError where it was not measured."""
        for one in self.figures:
            if (one.row, one.column) == (row, column):
                return one
        raise KeyError((row, column))

    @property
    def rows(self) -> list[str]:
        """Rows in the order of measurement."""
        return list(dict.fromkeys(one.row for one in self.figures))

    @property
    def sets(self) -> list[str]:
        """What stands before the comma in the rows' names, in the order of measurement."""
        return list(dict.fromkeys(row.split(",")[0] for row in self.rows))

    @property
    def columns(self) -> list[str]:
        """Columns in the order of measurement."""
        return list(dict.fromkeys(one.column for one in self.figures))

    def column(self, name: str) -> np.ndarray:
        """Return a column over the rows that have it; KeyError where none has."""
        found = [one.value for one in self.figures if one.column == name]
        if not found:
            raise KeyError(name)
        return np.array(found)

    def row(self, name: str) -> np.ndarray:
        """Return a row over the columns that have it; KeyError where none has."""
        found = [one.value for one in self.figures if one.row == name]
        if not found:
            raise KeyError(name)
        return np.array(found)


Claim = Callable[[Table], bool]
"""Whether a direction holds; KeyError where its figures were not measured."""


@dataclass(frozen=True)
class Item:
    """What one record holds.

    Attributes
    ----------
    name : str
        Of the command line; the paper's three digits first.
    rows : tuple of int
        Which of the 64 it shows.
    measure : callable
        From a part and a `Run` to figures. `MissingData` says what a part lacks.
    parts, quick : tuple of str
        What a full run does one after another, and may resume between; what a quick run does.
    repeats, quick_repeats : int
        Of a full and of a quick run.
    claims : mapping of str to Claim
        The directions that both runs assert.
    paper : mapping of (row, column) to float
        What is printed there.
    privacy : str
        What kind of release the figures are of, or that they are none.
    why : str
        Where ours and the paper's differ, and why.
    finding : str
        Where the paper is wrong, and what here shows it; empty elsewhere.
    beyond : str
        What stands in the table that the paper does not have.
    form : str
        Format of a figure.
    picture : callable, optional
        From a table to a matplotlib figure.
    """

    name: str
    title: str
    rows: tuple[int, ...]
    measure: Callable[[str, Run], list[Figure]]
    privacy: str
    parts: tuple[str, ...] = ("all",)
    quick: tuple[str, ...] = ()
    repeats: int = 5
    quick_repeats: int = 1
    claims: Mapping[str, Claim] = field(default_factory=dict)
    paper: Mapping[Key, float] = field(default_factory=dict)
    why: str = ""
    finding: str = ""
    beyond: str = ""
    form: str = ".3f"
    picture: "Callable[[Table], Picture] | None" = None

    @property
    def page(self) -> str:
        """The page that shows it."""
        return PAPERS[self.name[:3]]

    def run(self, full: bool, repeats: int | None = None) -> Run:
        """Return how much a run measures."""
        return Run(full, repeats or (self.repeats if full else self.quick_repeats))

    def parts_of(self, full: bool) -> tuple[str, ...]:
        """Return the parts of a full or of a quick run."""
        return self.parts if full or not self.quick else self.quick

    def judged(self, table: Table) -> dict[str, bool]:
        """Return which claims hold, of those whose figures were measured."""
        found: dict[str, bool] = {}
        for words, claim in self.claims.items() if table.figures else ():
            try:
                found[words] = bool(claim(table))
            except KeyError:
                continue
        return found
