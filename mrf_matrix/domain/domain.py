"""The public domain: which records can exist, known before any record is seen."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.base.checks import DomainError, name_few, name_some, short_repr, whole_number
from mrf_matrix.base.fields import JsonObject
from mrf_matrix.base.provenance import NOTHING, ChosenTuple, Provenance, join
from mrf_matrix.domain.attribute import MOST_BINS, READ_OFF, Attribute, coarser_attribute
from mrf_matrix.domain.bins import decode_labels, decode_records
from mrf_matrix.domain.columns import Outside, Scalar
from mrf_matrix.domain.encoding import encode_labels, encode_records
from mrf_matrix.domain.from_data import attributes_from_data
from mrf_matrix.domain.serialization import (
    domain_from_dict,
    domain_html,
    domain_text,
    domain_to_dict,
    load_domain,
    save_domain,
)


@dataclass(frozen=True, init=False, repr=False)
class Domain:
    """Public attributes and, optionally, a public target.

    A record is one code per attribute; the cells of the domain are all such tuples, numbered in
    C order (the last attribute fastest).

    Parameters
    ----------
    attributes : sequence of Attribute
        At least one; names differ.
    target : Attribute, optional
        The class attribute.

    Raises
    ------
    DomainError
        If there is no attribute or a name occurs twice.

    Examples
    --------
    >>> domain = Domain(
    ...     [Attribute("age", edges=[25, 40, 60]), Attribute("sex", categories=["F", "M"])],
    ...     target=Attribute("income", categories=["<=50K", ">50K"]),
    ... )
    >>> domain.size
    4
    >>> domain.encode({"sex": ["M", "F"], "age": [59.5, 25]})
    array([[1, 1],
           [0, 0]], dtype=int32)
    """

    attributes: tuple[Attribute, ...]
    target: Attribute | None

    def __init__(self, attributes: Iterable[Attribute], target: Attribute | None = None) -> None:
        listed = checked_attributes(attributes)
        if target is not None and not isinstance(target, Attribute):
            raise DomainError(f"target={short_repr(target)}; expected an Attribute or None.")
        check_distinct([*listed, *([target] if target else [])])
        object.__setattr__(self, "attributes", listed)
        object.__setattr__(self, "target", target)

    @classmethod
    def from_sizes(cls, sizes: Iterable[int], n_classes: int | None = None) -> "Domain":
        """Return a domain of plain integer attributes ``x0, x1, ...``.

        Parameters
        ----------
        sizes : sequence of int
            Number of codes of each attribute.
        n_classes : int, optional
            Number of classes; the target is called ``class``.

        Examples
        --------
        >>> Domain.from_sizes([4, 4, 3], n_classes=2).size
        48
        """
        attributes = [Attribute(f"x{i}", size=size) for i, size in enumerate(sizes)]
        return cls(attributes, None if n_classes is None else Attribute("class", size=n_classes))

    @cached_property
    def provenance(self) -> Provenance:
        """Where it came from: that of its attributes and its target together."""
        known = [*self.attributes, *([self.target] if self.target else [])]
        return join(one.provenance for one in known)

    @property
    def is_read_off(self) -> bool:
        """Whether any of it was read off records: then nothing that rests on it is private."""
        return bool(self.provenance.read_off)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Attribute names, in column order."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def ordered(self) -> tuple[bool, ...]:
        """Whether each attribute's codes are in order of value."""
        return tuple(attribute.is_ordered for attribute in self.attributes)

    @property
    def size(self) -> int:
        """Number of cells, exact however large: the product of the sizes."""
        return math.prod(self.sizes)

    @property
    def n_attributes(self) -> int:
        """Number of attributes, d."""
        return len(self.attributes)

    @property
    def classes(self) -> tuple[Scalar, ...]:
        """Labels of the target's codes."""
        return tuple(self.required_target().labels)

    @property
    def n_classes(self) -> int:
        """Number of classes, k."""
        return self.required_target().size

    def required_target(self) -> Attribute:
        """Return the target; refuse a domain without one."""
        if self.target is None:
            raise DomainError(
                "The domain has no target: no classes. Give it one, an attribute with the classes "
                "as categories; in a domain file under the key target."
            )
        return self.target

    def encode(
        self,
        records: object,
        *,
        extra: Literal["error", "ignore"] = "error",
        outside: Outside = "refuse",
    ) -> Codes:
        """Return the codes of records.

        Parameters
        ----------
        records : frame, mapping, NumPy array or list of rows
            A pandas or polars frame, an Arrow table, a mapping or a structured array is matched
            by column name, in any order; a 2-D array by position.
        extra : {"error", "ignore"}
            What happens to columns that the domain does not name.
        outside : {"refuse", "clip", "missing"}
            What happens to values without a code, in queries say: "clip" gives numbers and dates
            beyond the edges the nearest bin, "missing" gives all the code of missing values where
            there is one. Where neither helps they are refused.

        Returns
        -------
        ndarray of int32 of shape (N, d)
            The largest array made besides is one column.

        Raises
        ------
        DomainError
            If columns are missing, repeated or unwanted, or a value has no code.
        """
        return encode_records(self.attributes, records, extra, outside)

    def within(self, records: object, outside: Outside) -> Any:
        """Return records with every value inside the domain, as `encode` reads them.

        Parameters
        ----------
        records, outside
            As `encode`. With "refuse" nothing is changed, and nothing checked.
        """
        if outside == "refuse":
            return records
        return self.decode(self.encode(records, outside=outside), numeric="midpoint")

    def encode_target(self, labels: object) -> Codes:
        """Return the class codes of labels (array, series or list), shape (N,)."""
        return encode_labels(self.required_target(), labels)

    def decode(
        self,
        codes: ArrayLike,
        *,
        numeric: Literal["interval", "midpoint"] = "interval",
        native: object = None,
    ) -> Any:
        """Return what codes stand for.

        Parameters
        ----------
        codes : array of int of shape (N, d)
            As :meth:`encode` returns them.
        numeric : {"interval", "midpoint"}
            A bin as text, or as a number inside it (an open bin counts as wide as its
            neighbour), so that encoding the numbers gives the codes again.
        native : str or module, optional
            ``"pandas"``, ``"polars"`` or ``"pyarrow"``: return a frame of that library.

        Returns
        -------
        dict of str to ndarray, or a frame
            Missing values are None, or NaN among midpoints.

        Examples
        --------
        >>> domain = Domain([Attribute("age", edges=[25, 40, 60])])
        >>> domain.decode([[1]], numeric="midpoint")
        {'age': array([50.])}
        """
        return decode_records(self.attributes, codes, numeric, native)

    def decode_target(self, labels: ArrayLike) -> Values:
        """Return the class of every class code, shape (N,)."""
        return decode_labels(self.required_target(), labels)

    def select(self, which: Iterable[str | int]) -> "Domain":
        """Return the domain of some attributes, by name or position, in the order given.

        Where a private choice picked them, the domain carries what the choice cost.
        """
        known = which.provenance if isinstance(which, ChosenTuple) else NOTHING
        found = chosen_attributes(self.attributes, which)
        return self.of(replace(one, _provenance=one.provenance | known) for one in found)

    def of(self, attributes: Iterable[Attribute]) -> "Domain":
        """Return the domain of attributes made of these, with its target."""
        return Domain(attributes, self.target)

    def coarser(self, most: int = MOST_BINS) -> "Domain":
        """Return a domain in which neighbouring codes of long ordered attributes are one.

        Bins become wider, and numbers that were listed become bins, so that values between them
        are taken too. The code of missing values stays by itself. Attributes without an order
        stay as they are, and so do those with ``unknown="other"``.

        Parameters
        ----------
        most : int
            Number of bins that an attribute has at most. Each holds as many codes as the next; the
            first may hold fewer: 17 codes are eight pairs after a bin of one.

        Examples
        --------
        >>> Domain([Attribute("age", size=91)]).coarser().attributes[0].labels[:3]
        ('[0, 1)', '[1, 7)', '[7, 13)')
        """
        bins = whole_number("most", most, 2)
        return self.of(coarser_attribute(one, bins) for one in self.attributes)

    @classmethod
    def from_data(
        cls, records: object, labels: object = None, *, max_bins: int = 8, max_categories: int = 64
    ) -> "Domain":
        """Return a domain that fits given records. **Not private**: it warns.

        Text and booleans become the distinct values found. Numbers become at most ``max_bins``
        bins with open ends: one a value where there are few, quantile bins otherwise.

        Parameters
        ----------
        records : frame, mapping or array
            As for :meth:`encode`; columns of an array are called ``x0, x1, ...``.
        labels : array, series or list, optional
            Classes; their distinct values become the categories of a target called ``class``.
        max_bins, max_categories : int
            Most bins of a column of numbers, and distinct values of a column of text.

        Raises
        ------
        DomainError
            If a column has no values, or too many categories.

        Warns
        -----
        PrivacyLeakWarning
            Always: the domain depends on the records.
        """
        attributes, target = attributes_from_data(records, labels, max_bins, max_categories)
        return cls(attributes, target)

    def to_dict(self) -> JsonObject:
        """Return the domain as JSON-ready data."""
        return domain_to_dict(self.attributes, self.target, is_read_off=self.is_read_off)

    @classmethod
    def from_dict(cls, data: object) -> "Domain":
        """Return the domain that :meth:`to_dict` wrote; the data may be untrusted."""
        return cls(*domain_from_dict(data))

    def save(self, path: "str | PathLike[str]") -> None:
        """Write the domain as a JSON file.

        Raises
        ------
        DomainError
            If a private choice picked its attributes: the file could not say what that cost.
        """
        if self.provenance.released:
            raise DomainError(
                "The domain follows from a private choice, whose cost a domain file does not hold: "
                "expected one that is public. Save the model that was fitted over it instead."
            )
        save_domain(self.to_dict(), path)

    @classmethod
    def load(cls, path: "str | PathLike[str]") -> "Domain":
        """Read a domain from a JSON file, which may be untrusted."""
        return cls(*load_domain(path))

    def __repr__(self) -> str:
        return domain_text(self.attributes, self.target, self.size)

    def _repr_html_(self) -> str:
        return domain_html(self.attributes, self.target, self.size)


def sorted_classes(domain: Domain) -> tuple[Values, NDArray[np.intp]]:
    """Return the domain's classes as scikit-learn wants them, sorted, and their codes' order."""
    classes, order = np.unique(np.asarray(domain.classes), return_index=True)
    return classes, order


def checked_attributes(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    if isinstance(attributes, Attribute | str) or not isinstance(attributes, Iterable):
        raise DomainError(f"attributes={short_repr(attributes)}; expected a list of Attribute.")
    listed = tuple(attributes)
    if not listed:
        raise DomainError("attributes is empty; a domain needs at least one attribute.")
    for item in listed:
        if not isinstance(item, Attribute):
            raise DomainError(
                f"attributes holds {short_repr(item)} of type {type(item).__name__}; expected "
                "Attribute, e.g. Attribute('age', edges=[25, 40, 60])."
            )
    return listed


def check_distinct(attributes: Sequence[Attribute]) -> None:
    counts = Counter(attribute.name for attribute in attributes)
    repeated = [name for name, count in counts.items() if count > 1]
    if repeated:
        raise DomainError(
            f"Attribute names occur more than once: {name_few(repeated)}; rename them."
        )


def chosen_attributes(
    attributes: Sequence[Attribute], which: Iterable[str | int]
) -> list[Attribute]:
    """Return some attributes, by name or position, in the order asked for."""
    by_name = {attribute.name: attribute for attribute in attributes}
    chosen = []
    for key in which:
        if isinstance(key, str) and key in by_name:
            chosen.append(by_name[key])
        elif (
            isinstance(key, int | np.integer)
            and not isinstance(key, bool)
            and -len(by_name) <= key < len(by_name)
        ):
            chosen.append(attributes[key])
        else:
            raise DomainError(
                f"No attribute {short_repr(key)}; the domain has {name_some(by_name)}."
            )
    return chosen


# Domains as they are given -----------------------------------------------------------------------


DomainOrPath = Domain | str | PathLike[str] | None  # a domain, its file, or "from_data"


def will_be_read_off(domain: object) -> bool:
    """Whether `fit` is to take the domain from the records: it was given as `"from_data"`."""
    return isinstance(domain, str) and not domain.endswith(".json")


def domain_provenance(domain: object) -> Provenance:
    """Return the provenance of a domain as it was given: itself, its file, or ``"from_data"``."""
    if will_be_read_off(domain):
        return READ_OFF
    found = as_domain(domain)
    return found.provenance if isinstance(found, Domain) else NOTHING


def as_domain(domain: object) -> object:
    """Return the domain of a domain file where a path is given; anything else as it is.

    A text is a path if it ends in ``.json``.
    """
    if isinstance(domain, PathLike) or (isinstance(domain, str) and domain.endswith(".json")):
        return Domain.load(domain)
    return domain


def required_domain(domain: object) -> Domain:
    """Return a public domain with classes, or refuse.

    Raises ValueError if there is none, or it names no target classes; TypeError if it is something
    else.
    """
    if domain is None:
        raise ValueError(
            "domain=None: a private forest needs a public domain (attributes, their codes, the "
            "classes). Pass a Domain or the path of a domain file, or 'from_data' for non-private "
            "work on public records."
        )
    domain = as_domain(domain)
    if not isinstance(domain, Domain):
        what = short_repr(domain) if isinstance(domain, str) else f"of type {type(domain).__name__}"
        raise TypeError(
            f"domain={what}: expected a Domain or the path of a domain file (.json); only fit "
            "takes 'from_data' too."
        )
    if domain.target is None:
        raise ValueError(
            "domain has no target: the classes are public and must be named. Give its target an "
            "attribute with the classes as categories."
        )
    return domain
