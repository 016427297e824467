"""Adult (Kohavi, 1996): 14 attributes over a public domain, and the 123 binary columns of a9a."""

from dataclasses import replace
from os import PathLike, fspath
from pathlib import Path

import numpy as np
from loaders.sources import source_table

from mrf_matrix.base.arrays import Codes, Values
from mrf_matrix.datasets.dataset import Dataset, dataset_of_columns
from mrf_matrix.domain import Attribute, Domain, DomainError

# fmt: off
CATEGORIES = {
    "workclass": "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov "
        "Without-pay Never-worked",
    "education": "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th "
        "12th Masters 1st-4th 10th Doctorate 5th-6th Preschool",
    "marital_status": "Married-civ-spouse Divorced Never-married Separated Widowed "
        "Married-spouse-absent Married-AF-spouse",
    "occupation": "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty "
        "Handlers-cleaners Machine-op-inspct Adm-clerical Farming-fishing Transport-moving "
        "Priv-house-serv Protective-serv Armed-Forces",
    "relationship": "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    "race": "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    "sex": "Female Male",
    "native_country": "United-States Cambodia England Puerto-Rico Canada Germany "
        "Outlying-US(Guam-USVI-etc) India Japan Greece South China Cuba Iran Honduras Philippines "
        "Italy Poland Jamaica Vietnam Mexico Portugal Ireland France Dominican-Republic Laos "
        "Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
        "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
# fmt: on
UNTOLD = ("workclass", "occupation", "native_country")
"""Attributes with missing values: a code of their own, the last; none of a9a's columns."""


def binned(name: str, *edges: int) -> Attribute:
    """Return an attribute of integers, cut below each edge, with open ends."""
    return Attribute(name, edges=edges, outside="open")


def listed(name: str) -> Attribute:
    """Return an attribute of the categories of a name."""
    return Attribute(
        name, categories=CATEGORIES[name].split(), missing="category" if name in UNTOLD else "error"
    )


ADULT = Domain(
    [
        binned("age", 26, 33, 41, 50),
        listed("workclass"),
        binned("fnlwgt", 106648, 158662, 196338, 259873),
        listed("education"),
        binned("education_num", 9, 10, 11, 13),
        listed("marital_status"),
        listed("occupation"),
        listed("relationship"),
        listed("race"),
        listed("sex"),
        binned("capital_gain", 1),
        binned("capital_loss", 1),
        binned("hours_per_week", 35, 40, 41, 48),
        listed("native_country"),
    ],
    target=Attribute("class", categories=["<=50K", ">50K"]),
)
"""Adult's attributes, cut where a9a cuts them (Platt, 1998): known from its publication."""

COLUMNS = [
    (i, code)
    for i, one in enumerate(ADULT.attributes)
    for code in range(one.size - (one.name in UNTOLD))
]
"""The attribute and the code that each of a9a's 123 columns stands for, in its order."""

A9A = Domain(
    [
        Attribute(f"{ADULT.attributes[i].name}={ADULT.attributes[i].labels[code]}", size=2)
        for i, code in COLUMNS
    ],
    target=ADULT.required_target(),
)
"""The 123 binary columns of LIBSVM's a9a."""

Source = str | PathLike[str] | object


def load_adult(source: Source) -> Dataset:
    """Return Adult's records with all 14 attributes, over the domain `ADULT`.

    Parameters
    ----------
    source : path, name or frame
        A CSV file with a header row, such as ``adult.data`` (32 561 records to train on) or
        ``adult.test`` (16 281) with one; ``"openml:adult@2"`` (both); or a frame. Names may be
        written with ``-`` for ``_``, the class ``class`` or ``income``, with a dot at its end.

    Raises
    ------
    DomainError
        If a column is missing or holds a value that the domain does not know.

    Examples
    --------
    >>> ADULT.sizes
    (5, 9, 5, 16, 5, 7, 15, 6, 5, 2, 2, 2, 5, 42)
    """
    table = source_table(source, "class", ("income",))
    columns = dict(table.columns)
    columns["class"] = np.array([str(one).strip().rstrip(".") for one in columns["class"]], object)
    for one in set(UNTOLD) & set(columns):
        columns[one] = _told(columns[one])
    return replace(table, label="adult", columns=columns).fit(ADULT, None, "error", False)


def load_a9a(source: Source) -> Dataset:
    """Return Adult as 123 binary columns, LIBSVM's a9a.

    Parameters
    ----------
    source : path, name or frame
        LIBSVM's own file, ``a9a`` (32 561 records to train on) or ``a9a.t`` (16 281), or what
        :func:`load_adult` takes, of which the columns are made.

    Raises
    ------
    DomainError
        As :func:`load_adult`, or if a value of LIBSVM's file is not 1.

    Examples
    --------
    >>> len(A9A.names), A9A.names[122]
    (123, 'native_country=Holand-Netherlands')
    """
    name = fspath(source) if isinstance(source, PathLike) else source
    if isinstance(name, str) and Path(name).name in ("a9a", "a9a.t"):
        ones, y = _libsvm(Path(name))
        return _binary(ones, y, f"File {Path(name).name}", "not stated")
    adult = load_adult(source)
    ones = np.stack([adult.codes[:, i] == code for i, code in COLUMNS], axis=1)
    return _binary(ones.astype(np.int32), adult.y, adult.source, adult.licence)


def _binary(ones: Codes, y: Values, source: str, licence: str) -> Dataset:
    columns = dict(zip(A9A.names, ones.T, strict=True))
    return dataset_of_columns("a9a", A9A, columns, y, source, licence)


def _libsvm(path: Path) -> tuple[Codes, Values]:
    """Read LIBSVM's format."""
    from sklearn.datasets import load_svmlight_file

    found, sides = load_svmlight_file(str(path), n_features=len(A9A.names), zero_based=False)
    if not (found.data == 1).all():
        raise DomainError(f"{path.name} holds other values than 1; expected those of a9a.")
    y = np.where(sides > 0, ">50K", "<=50K").astype(object)
    return found.toarray().astype(np.int32), y


def _told(values: Values) -> Values:
    """Return texts, None where a question mark stands or nothing."""
    told = [one if isinstance(one, str) and one.strip() != "?" else None for one in values.tolist()]
    return np.array(told, dtype=object)
