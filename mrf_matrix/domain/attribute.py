"""One attribute of the public domain: what values it may take, and their codes."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

from mrf_matrix.domain.attribute_checks import (
    Scalar,
    check_name,
    check_one_kind,
    checked_categories,
    checked_edges,
    checked_size,
)
from mrf_matrix.domain.errors import DomainError, name_few, name_some

OTHER, MISSING = "(other)", "(missing)"
MAX_SIZE = 2**31 - 1  # codes are int32


@dataclass(frozen=True, init=False, repr=False)
class Attribute:
    """A public attribute: a name and finitely many codes, numbered from 0.

    Give exactly one of ``size``, ``categories`` and ``edges``.

    Parameters
    ----------
    name : str
        Column name, one line without characters that act on a terminal. Frames are matched by it.
    size : int, optional
        The attribute holds the integers ``0 .. size-1``, which are their own codes.
    categories : sequence of str, int, float or bool, optional
        Code ``i`` stands for ``categories[i]``. Numbers match by value (``1`` and ``1.0`` are
        the same), strings and booleans only match strings and booleans.
    edges : sequence of float, optional
        Strictly increasing bin edges, outer edges included: ``k + 1`` edges make ``k`` bins
        ``[e_i, e_{i+1})``, of which the last is closed.
    unknown : {"error", "other"}
        ``"other"`` gives values that are not listed one further code.
    outside : {"error", "open"}
        ``"open"`` adds the bins ``(-inf, e_0)`` (code 0) and ``[e_k, inf)`` (the last code).
    missing : {"error", "category"}
        ``"category"`` gives None, NaN and null one further code, always the last.

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
    """

    name: str
    categories: Sequence[Scalar] | None
    edges: tuple[int | float, ...] | None
    unknown: Literal["error", "other"]
    outside: Literal["error", "open"]
    missing: Literal["error", "category"]

    def __init__(
        self,
        name: str,
        size: int | None = None,
        categories: Iterable[object] | None = None,
        edges: Iterable[object] | None = None,
        *,
        unknown: Literal["error", "other"] = "error",
        outside: Literal["error", "open"] = "error",
        missing: Literal["error", "category"] = "error",
    ) -> None:
        check_name(name)
        check_one_kind(name, size=size, categories=categories, edges=edges)
        for option, got, allowed in (
            ("unknown", unknown, ("error", "other")),
            ("outside", outside, ("error", "open")),
            ("missing", missing, ("error", "category")),
        ):
            if got not in allowed:
                raise DomainError(
                    f"Attribute {name!r}: {option}={got!r}; expected one of {allowed}."
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
        values: dict[str, object] = {
            "name": name,
            # A plain size is the categories 0 .. size-1, kept as a range.
            "categories": checked_size(name, size) if size is not None else None,
            "edges": None if edges is None else checked_edges(name, edges, outside == "open"),
            "unknown": unknown,
            "outside": outside,
            "missing": missing,
        }
        if categories is not None:
            values["categories"] = checked_categories(name, categories)
        for field, value in values.items():
            object.__setattr__(self, field, value)
        check_code_count(self)

    @property
    def is_numeric(self) -> bool:
        """Whether values are binned by edges."""
        return self.edges is not None

    @property
    def is_ordered(self) -> bool:
        """Whether every code's neighbours are next in value: bins, or increasing numbers."""
        if self.size != self.n_known:
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
        """Lower and upper end of every bin; empty for categories."""
        if self.edges is None:
            return ()
        ends: tuple[float, ...] = self.edges
        if self.outside == "open":
            ends = (-math.inf, *ends, math.inf)
        return tuple(pairwise(ends))

    @property
    def labels(self) -> Sequence[Scalar]:
        """What each code stands for: a category, or an interval as text."""
        known: Sequence[Scalar]
        if self.edges is None:
            known = cast(Sequence[Scalar], self.categories)
        else:
            known = interval_texts(self.bins)
        extra = (OTHER,) * (self.unknown == "other") + (MISSING,) * (self.missing == "category")
        return (*known, *extra) if extra else known

    def __repr__(self) -> str:
        """Write the attribute as the call that makes it, long lists shortened."""
        if isinstance(self.categories, range) and self.categories.start == 0:
            what = f"size={len(self.categories)}"
        elif self.edges is None:
            what = f"categories=[{name_some(cast(Sequence[Scalar], self.categories))}]"
        else:
            what = f"edges=[{name_some(self.edges)}]"
        options = [("unknown", self.unknown), ("outside", self.outside), ("missing", self.missing)]
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


def interval_texts(bins: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    """Write bins as ``[low, high)``; the last is closed unless it is unbounded."""
    texts = []
    for i, (low, high) in enumerate(bins):
        closed = i == len(bins) - 1 and high != math.inf
        left = "(" if low == -math.inf else "["
        texts.append(f"{left}{low!r}, {high!r}{']' if closed else ')'}")
    return tuple(texts)
