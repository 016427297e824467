"""Heart disease (Cleveland) with the cut-offs that the M-RF authors published."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike

import numpy as np
from loaders.sources import source_table

from mrf_matrix.base.arrays import Values
from mrf_matrix.datasets.dataset import Dataset
from mrf_matrix.datasets.tables import is_absent
from mrf_matrix.domain import Attribute, Domain, DomainError

HEART = Domain(
    [
        Attribute("age", edges=[40, 55, 65], outside="open"),
        Attribute("sex", categories=[0, 1]),
        Attribute("cp", categories=[0, 1, 2, 3]),
        Attribute("trestbps", edges=[120, 140], outside="open"),
        Attribute("chol", edges=[200, 240], outside="open"),
        Attribute("fbs", categories=[0, 1]),
        Attribute("restecg", categories=[0, 1, 2]),
        Attribute("thalach", edges=[130, 160], outside="open"),
        Attribute("exang", categories=[0, 1]),
        Attribute("oldpeak", edges=[1, 2], outside="open"),
        Attribute("slope", categories=[0, 1, 2]),
        Attribute("ca", categories=[0, 1, 2, 3]),
        Attribute("thal", categories=[0, 1, 2]),
    ],
    target=Attribute("condition", categories=[0, 1]),
)
"""The authors' schema. They do not say where a value equal to a cut-off goes; here it goes up."""

Spelling = Mapping[str, Mapping[object, int]]
AUTHORS: Spelling = {}
UCI: Spelling = {
    "cp": {1: 0, 2: 1, 3: 2, 4: 3},
    "slope": {1: 0, 2: 1, 3: 2},
    "thal": {3: 0, 6: 1, 7: 2},
}
WORDS: Spelling = {
    "sex": {"female": 0, "male": 1},
    "cp": {"typ_angina": 0, "atyp_angina": 1, "non_anginal": 2, "asympt": 3},
    "fbs": {"f": 0, "t": 1},
    "restecg": {"normal": 0, "st_t_wave_abnormality": 1, "left_vent_hyper": 2},
    "exang": {"no": 0, "yes": 1},
    "slope": {"up": 0, "flat": 1, "down": 2},
    "thal": {"normal": 0, "fixed_defect": 1, "reversable_defect": 2},
}
HEALTHY = (0, "0", "<50", "negative")


def load_heart(source: "str | PathLike[str] | object") -> Dataset:
    """Return Heart as the M-RF paper used it: 297 records, 13 attributes, 2 classes.

    Parameters
    ----------
    source : path, name or frame
        UCI's ``processed.cleveland.data`` with a header row, the 297 records that the authors
        took, ``"openml:heart-c"``, or a frame of one of them. Columns are named as in `HEART`, the
        class ``condition``, ``class``, ``num`` or ``target``.

    Returns
    -------
    Dataset
        Without the records with a missing value; class 1 for any of UCI's classes 1 to 4. UCI's
        codes are counted from 0, as the authors' are, and all columns but the class are numbers.

    Raises
    ------
    DomainError
        If a column is missing, or holds a value that none of the three spellings knows.

    Examples
    --------
    >>> HEART.sizes
    (4, 2, 4, 3, 3, 2, 3, 3, 2, 3, 3, 4, 3)
    """
    table = source_table(source, "condition", ("class", "num", "target"))
    lacking = [one for one in HEART.names if one not in table.columns]
    if lacking:
        raise DomainError(f"Heart lacks the columns {lacking}.", values=list(table.columns))
    kept = ~np.any([is_absent(table.columns[one]) for one in HEART.names], axis=0)
    columns = {one: table.columns[one][kept] for one in HEART.names}
    spelling = _spelling(columns["thal"])
    columns = {one: _numbers(one, values, spelling) for one, values in columns.items()}
    classes = table.columns["condition"][kept].tolist()
    columns["condition"] = np.array([int(one not in HEALTHY) for one in classes])
    return replace(table, label="heart", columns=columns).fit(HEART, None, "error", False)


def _spelling(thal: Values) -> Spelling:
    """Return how a file writes its categories: their codes overlap, but for those of thal."""
    found = set(thal.tolist())
    return WORDS if found & set(WORDS["thal"]) else UCI if found & set(UCI["thal"]) else AUTHORS


def _numbers(name: str, values: Values, spelling: Spelling) -> Values:
    """Return a column in the authors' codes; what is unknown stays, for the domain to refuse."""
    codes = spelling.get(name)
    if codes is None:
        return values.astype(np.float64)
    return np.array([codes.get(value, value) for value in values.tolist()], dtype=object)
