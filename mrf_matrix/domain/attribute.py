"""One attribute of the public domain: its values, what each means, and their codes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import inf, isnan, nan
from typing import Literal, cast

import numpy as np

from mrf_matrix.base.arrays import AnyInts, Codes
from mrf_matrix.base.checks import DomainError, name_few, name_some, short_repr
from mrf_matrix.base.provenance import DOMAIN, Provenance
from mrf_matrix.domain.attribute_parts import (
    LARGEST_EDGE,
    MAX_SIZE,
    Groups,
    check_name,
    check_one_kind,
    checked_categories,
    checked_edges,
    checked_groups,
    checked_missing_values,
    checked_size,
    day_of,
)
from mrf_matrix.domain.columns import Scalar

READ_OFF = Provenance.from_records("domain")
OTHER, MISSING = "(other)", "(missing)"
MISSING_MARKS = frozenset({"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null", "None"})


@dataclass(frozen=True, init=False, repr=False)
class Attribute:
    """A public attribute: a name and finitely many codes, numbered from 0.

    Give exactly one of ``size``, ``categories``, ``edges`` and ``groups``.

    Parameters
    ----------
    name : str
        Column name, one line without characters that act on a terminal. Frames are matched by it.
    size : int, optional
        The attribute holds the integers ``0 .. size-1``, which are their own codes.
    categories : sequence of str, int, float or bool, optional
        Code ``i`` stands for ``categories[i]``. Texts match by their spelling, without blanks
        around them, else by the number or boolean that they spell, as a CSV file has them:
        ``1``, ``1.0`` and ``"1"`` are the same, and True is not 1.
    edges : sequence of float, or of dates, optional
        Strictly increasing bin edges, outer edges included: ``k + 1`` edges make ``k`` bins
        ``[e_i, e_{i+1})``, of which the last is closed. Dates may be ISO texts.
    groups : mapping of str to list of str, optional
        Groups of codes by their first characters: ``{"diabetes": ["E10-E14"], "heart": ["I2"]}``.
    unknown : {"error", "other"}
        ``"other"`` gives values that are not listed one further code.
    outside : {"error", "open"}
        ``"open"`` adds the bins ``(-inf, e_0)`` (code 0) and ``[e_k, inf)`` (the last code).
    missing : {"error", "category"}
        ``"category"`` gives None, NaN and null one further code, always the last.
    missing_values : sequence of str, int or float, optional
        Values that stand for a missing one, 999 or "unknown" say: they get its code.
    unreadable : {"error", "missing", "other"}
        What becomes of a value that is of no kind expected, "n/k" among numbers say. It refuses
        all records by default, which tells that it is there; or it gets the code of missing values,
        or of values that are not listed.

    Raises
    ------
    DomainError
        If the values are empty, repeated or out of order, a text acts on a terminal, or an option
        does not apply.

    Examples
    --------
    >>> Attribute("safety", categories=["low", "med", "high"]).size
    3
    >>> Attribute("age", edges=[25, 40, 60]).labels
    ('[25, 40)', '[40, 60]')
    >>> Attribute("age", edges=[25, 40, 60], outside="open", missing="category").labels
    ('(-inf, 25)', '[25, 40)', '[40, 60)', '[60, inf)', '(missing)')
    >>> Attribute("admitted", edges=["2019-01-01", "2020-01-01", "2021-01-01"]).labels
    ('[2019-01-01, 2020-01-01)', '[2020-01-01, 2021-01-01]')
    """

    name: str
    categories: Sequence[Scalar] | None
    edges: tuple[int | float | date, ...] | None
    unknown: Literal["error", "other"]
    outside: Literal["error", "open"]
    missing: Literal["error", "category"]
    groups: Groups | None
    missing_values: tuple[Scalar, ...]
    unreadable: Literal["error", "missing", "other"]
    _provenance: Provenance = field(default=DOMAIN, repr=False)

    def __init__(
        self,
        name: str,
        size: int | None = None,
        categories: Iterable[object] | None = None,
        edges: Iterable[object] | None = None,
        *,
        groups: Mapping[str, Sequence[str]] | Sequence[object] | None = None,
        missing_values: Iterable[object] = (),
        unknown: Literal["error", "other"] = "error",
        outside: Literal["error", "open"] = "error",
        missing: Literal["error", "category"] = "error",
        unreadable: Literal["error", "missing", "other"] = "error",
        _provenance: Provenance = DOMAIN,
    ) -> None:
        check_name(name)
        grouped = None if groups is None else checked_groups(name, groups)
        if grouped is not None and categories == tuple(label for label, _ in grouped):
            categories = None  # as `dataclasses.replace` gives both
        check_one_kind(name, size=size, categories=categories, edges=edges, groups=groups)
        for option, got, allowed in (
            ("unknown", unknown, ("error", "other")),
            ("outside", outside, ("error", "open")),
            ("missing", missing, ("error", "category")),
            ("unreadable", unreadable, ("error", "missing", "other")),
        ):
            if got not in allowed:
                raise DomainError(
                    f"Attribute {name!r}: {option}={short_repr(got)}; expected one of {allowed}."
                )
        if edges is None and outside == "open":
            raise DomainError(
                f"Attribute {name!r}: outside='open' is for bin edges; categories take "
                "unknown='other'."
            )
        if edges is not None and unknown == "other":
            raise DomainError(
                f"Attribute {name!r}: unknown='other' is for categories; bin edges take "
                "outside='open'."
            )
        for said, needs, has in (
            ("missing", "missing='category'", missing == "category"),
            ("other", "unknown='other'", unknown == "other"),
        ):
            if unreadable == said and not has:
                raise DomainError(
                    f"Attribute {name!r}: unreadable={said!r} needs a code; add {needs}."
                )
        values: dict[str, object] = {
            "name": name,
            # A plain size is the categories 0 .. size-1, kept as a range.
            "categories": checked_size(name, size) if size is not None else None,
            "edges": None if edges is None else checked_edges(name, edges, outside == "open"),
            "unknown": unknown,
            "outside": outside,
            "missing": missing,
            "groups": grouped,
            "missing_values": checked_missing_values(name, missing_values, missing),
            "unreadable": unreadable,
            "_provenance": _provenance,
        }
        if grouped is not None:
            categories = [label for label, _ in grouped]
        if categories is not None:
            values["categories"] = checked_categories(name, categories)
        for key, value in values.items():
            object.__setattr__(self, key, value)
        check_code_count(self)

    @property
    def provenance(self) -> Provenance:
        """Where it came from: declared by whoever wrote it, or read off records.

        What is derived, by ``dataclasses.replace`` too, keeps it.
        """
        return self._provenance

    @property
    def is_binned(self) -> bool:
        """Whether values are binned by edges."""
        return self.edges is not None

    @property
    def is_date(self) -> bool:
        """Whether the edges are dates."""
        return self.edges is not None and isinstance(self.edges[0], date)

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers that are binned by edges."""
        return self.is_binned and not self.is_date

    @property
    def numeric_edges(self) -> tuple[float, ...]:
        """Edges as numbers; of dates the days since 1970."""
        edges = self.edges or ()
        return tuple(map(day_of, edges)) if self.is_date else cast(tuple[float, ...], edges)

    @property
    def is_ordered(self) -> bool:
        """Whether codes are in order of value: bins, or increasing numbers.

        Those of other and of missing values come last, and count as the largest.
        """
        if self.groups is not None:
            return False
        values = self.categories
        if values is None or isinstance(values, range):
            return True
        if any(isinstance(value, str | bool) for value in values):
            return False
        return all(low < high for low, high in pairwise(cast(Sequence[float], values)))

    @property
    def n_known(self) -> int:
        """Number of codes of listed values or bins, without "other" and "missing"."""
        if self.edges is None:
            return len(cast(Sequence[Scalar], self.categories))
        return len(self.edges) + (1 if self.outside == "open" else -1)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.n_known + (self.unknown == "other") + (self.missing == "category")

    @property
    def other_code(self) -> int | None:
        """Code of values that are not listed, or None."""
        return self.n_known if self.unknown == "other" else None

    @property
    def missing_code(self) -> int | None:
        """Code of missing values, or None."""
        return self.size - 1 if self.missing == "category" else None

    @property
    def bins(self) -> tuple[tuple[float, float], ...]:
        """Lower and upper end of every bin, of dates in days; empty for categories."""
        if self.edges is None:
            return ()
        ends = self.numeric_edges
        if self.outside == "open":
            ends = (-inf, *ends, inf)
        return tuple(pairwise(ends))

    @property
    def labels(self) -> Sequence[Scalar]:
        """The value of each code: a category, or an interval as text."""
        known: Sequence[Scalar]
        if self.edges is None:
            known = cast(Sequence[Scalar], self.categories)
        else:
            texts = [str(edge) if self.is_date else repr(edge) for edge in self.edges]
            known = interval_texts(texts, is_open=self.outside == "open")
        extra = (OTHER,) * (self.unknown == "other") + (MISSING,) * (self.missing == "category")
        return (*known, *extra) if extra else known

    def read_off(self) -> "Attribute":
        """Return the attribute as one that was read off records: nothing over it is private."""
        return replace(self, _provenance=self._provenance | READ_OFF)

    def __repr__(self) -> str:
        """Write the attribute as the call that makes it, long lists shortened."""
        if isinstance(self.categories, range) and self.categories.start == 0:
            what = f"size={len(self.categories)}"
        elif self.groups is not None:
            what = f"groups={{{name_some(label for label, _ in self.groups)}}}"
        elif self.edges is None:
            what = f"categories=[{name_some(cast(Sequence[Scalar], self.categories))}]"
        else:
            what = f"edges=[{name_some(map(str, self.edges) if self.is_date else self.edges)}]"
        names = ("unknown", "outside", "missing", "unreadable")
        options = [(name, getattr(self, name)) for name in names]
        told = "".join(f", {key}={value!r}" for key, value in options if value != "error")
        return f"Attribute({self.name!r}, {what}{told})"


def check_code_count(attribute: Attribute) -> None:
    """Refuse more codes than int32 holds, and labels that would be ambiguous."""
    if attribute.size > MAX_SIZE:
        raise DomainError(
            f"Attribute {attribute.name!r}: {attribute.size} codes; expected at most {MAX_SIZE}. "
            "Use coarser bins or fewer categories."
        )
    if isinstance(attribute.categories, tuple):
        taken = {OTHER, MISSING} & {
            value for value in attribute.categories if isinstance(value, str)
        }
        if taken and attribute.size > attribute.n_known:
            raise DomainError(
                f"Attribute {attribute.name!r}: {name_few(taken)} is the label of the further "
                "code; rename that category."
            )


def interval_texts(edges: Sequence[str], *, is_open: bool) -> tuple[str, ...]:
    """Write bins between edges as ``[low, high)``; the last is closed unless it is unbounded."""
    ends = ["-inf", *edges, "inf"] if is_open else list(edges)
    texts = [f"[{low}, {high})" for low, high in pairwise(ends)]
    if is_open:
        return (f"({texts[0][1:]}", *texts[1:])
    return (*texts[:-1], f"{texts[-1][:-1]}]")


def is_missing(value: object) -> bool:
    """Whether an object stands for a missing value: None, NaN, NaT, or pandas' NA."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    if isinstance(value, Decimal):
        return value.is_nan()
    return type(value).__name__ in ("NAType", "NaTType") or (
        isinstance(value, float | np.floating | np.datetime64 | np.timedelta64)
        and bool(value != value)
    )


def parsed_number(text: str) -> int | float | None:
    """Return a text as a number, a whole one where it is; None if it is none, or not a number.

    >>> parsed_number("7.0"), parsed_number(" 1e3 "), parsed_number("seven")
    (7, 1000, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return None if isnan(number) else int(number) if number.is_integer() else number


def number_of(value: object) -> int | float | None:
    """Return the number that a value is, or spells; None of booleans and of what is none.

    What no float holds is infinite, as its text is.
    """
    if isinstance(value, str):
        return parsed_number(value)
    if isinstance(value, int | Fraction) and not -LARGEST_EDGE <= value <= LARGEST_EDGE:
        return inf if value > 0 else -inf
    if isinstance(value, Decimal | Fraction):
        value = nan if is_missing(value) else float(value)
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(
        value, int | float | np.number
    ):
        return None
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.floating) and value.dtype.itemsize != 8:
        number = float(str(value))  # the decimals that a short one prints as
    if not isinstance(number, int | float) or isnan(number):
        return None
    return int(number) if isinstance(number, float) and number.is_integer() else number


def listed_categories(attribute: Attribute) -> Sequence[object]:
    """Return categories that are written out, which sizes and groups are not."""
    known = attribute.categories
    return known if isinstance(known, tuple) and attribute.groups is None else ()


def missing_marks(attribute: Attribute) -> tuple[frozenset[str], frozenset[float]]:
    """Return an attribute's marks of missing values as texts, and as the numbers they spell."""
    numbers = map(number_of, attribute.missing_values)
    texts = {one.strip() for one in attribute.missing_values if isinstance(one, str)}
    return MISSING_MARKS | texts, frozenset(one for one in numbers if one is not None)


MOST_BINS = 16
"""Bins of an ordered attribute in private forests. On public sets of numbers in a hundred codes,
8 to 24 bins were one to three points of accuracy ahead of all codes at ε = 1 and 4."""

Numbers = Sequence[int | float]


def coarser_attribute(attribute: Attribute, most: int) -> Attribute:
    """Return an attribute of at most so many bins of equally many neighbouring codes.

    The first one may have fewer. The last one holds both its ends.

    `most`: bins, beside the code of missing values, which stays.

    It is the attribute itself where codes are few or have no order, or values that are not listed
    have a code of their own.
    """
    if attribute.n_known <= most or not attribute.is_ordered or attribute.unknown == "other":
        return attribute
    width = -(-attribute.n_known // most)
    later = range((attribute.n_known - 1) % width + 1, attribute.n_known, width)  # first codes
    if attribute.edges is None:
        values = cast(Numbers, attribute.categories)
        return Attribute(
            attribute.name,
            edges=[values[0], *(values[code] for code in later), values[-1]],
            missing=attribute.missing,
            missing_values=attribute.missing_values,
            _provenance=attribute.provenance,
        )
    edges = attribute.edges
    if attribute.outside == "open":  # whose first bin ends at the first edge
        return replace(attribute, edges=tuple(edges[code - 1] for code in later))
    return replace(attribute, edges=(edges[0], *(edges[code] for code in later), edges[-1]))


def coarser_codes(
    attributes: Sequence[Attribute], coarser: Sequence[Attribute], codes: AnyInts
) -> Codes:
    """Return the codes over coarser attributes of records that are codes already, shape (N, d)."""
    found = codes.astype(np.int32)
    for i, (fine, coarse) in enumerate(zip(attributes, coarser, strict=True)):
        if fine != coarse:
            width = -(-fine.n_known // coarse.n_known)  # the least that makes so few bins
            from_last = (fine.n_known - 1 - found[:, i]) // width  # -1 of missing values
            found[:, i] = coarse.n_known - 1 - from_last
    return found
