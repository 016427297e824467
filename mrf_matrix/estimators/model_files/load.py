"""Read a model file from anyone: checked before it is believed, never executed."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.base import sorted_classes
from mrf_matrix.estimators.model_files.errors import ModelFileError
from mrf_matrix.estimators.model_files.forest_arrays import FOREST_ARRAYS, checked_forest
from mrf_matrix.estimators.model_files.released_forest import (
    ReleasedEnsemble,
    ReleasedForestClassifier,
)
from mrf_matrix.estimators.model_files.report import report_of
from mrf_matrix.estimators.model_files.save import (
    FLOATS,
    FORMAT,
    INTEGERS,
    SCHEMA_VERSION,
)
from mrf_matrix.estimators.voting import check_voting
from mrf_matrix.mechanisms.files import (
    MAX_BYTES,
    Container,
    checked_object,
    checked_version,
    line_of_text,
    one_line,
)

KEYS = {"format", "schema_version", "voting", "domain", "ensembles", "report"}
ENSEMBLE_KEYS = {"features", "source", "shapes"}
MAX_ENSEMBLES = 1000
MAX_VIEWS = 10**7
"""Most ensembles times attributes: the work of telling which sees what."""

LARGEST_VALUE = 1e100
"""Leaf values are counts plus noise of a 64-bit range; sums of these stay finite."""


def load_model(
    path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES
) -> ReleasedForestClassifier:
    """Return the forest of a model file, ready to predict.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and trees, values and texts are checked before they are used. What its report *claims*
    is the writer's word.

    Parameters
    ----------
    path : str or path
        A file of `save_model`.
    max_bytes : int, default=128 MiB
        Most bytes of the arrays, unpacked; checking takes some ten times as much memory.

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, of a later version, or too large.
    FileNotFoundError
        If there is no such file.
    """
    where = fspath(path)
    try:
        with Path(path).open("rb") as file:
            return _model(Container(file, "model", max_bytes))
    except ModelFileError as error:
        raise ModelFileError(f"{where}: {error}") from error
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error


def _model(container: Container) -> ReleasedForestClassifier:
    data = checked_object(container.data, KEYS, "model.json")
    checked_version(data, FORMAT, SCHEMA_VERSION)
    domain = Domain.from_dict(data["domain"])
    if domain.target is None:
        raise ModelFileError("domain: expected a target with the classes.")
    described = data["ensembles"]
    if not isinstance(described, list) or not 1 <= len(described) <= MAX_ENSEMBLES:
        raise ModelFileError(f"ensembles: expected a list of 1 to {MAX_ENSEMBLES}.")
    if len(described) * domain.n_attributes > MAX_VIEWS:
        raise ModelFileError(
            f"{len(described)} ensembles over {domain.n_attributes} attributes: expected a product "
            f"of at most {MAX_VIEWS}."
        )
    ensembles = tuple(
        _ensemble(container, number, item, domain) for number, item in enumerate(described)
    )
    expected = {
        f"ensemble_{number}/{name}"
        for number in range(len(described))
        for name in (*FOREST_ARRAYS, "leaf_values")
    }
    if container.names != expected:
        raise ModelFileError("it has members that are no arrays of its ensembles.")
    classes, _ = sorted_classes(domain)  # as many as leaf values have columns, so not endless
    if len(classes) != domain.n_classes:
        raise ModelFileError("domain: two classes of the target are the same.")
    return ReleasedForestClassifier(
        ensembles, domain, classes, report_of(data["report"]), check_voting(data["voting"])
    )


def _ensemble(container: Container, number: int, data: Any, domain: Domain) -> ReleasedEnsemble:
    where = f"ensemble {number}"
    described = checked_object(data, ENSEMBLE_KEYS, where)
    shapes = checked_object(described["shapes"], {*FOREST_ARRAYS, "leaf_values"}, where)
    features = _features(described["features"], domain, where)
    part = domain if features == tuple(range(domain.n_attributes)) else domain.select(features)
    arrays = {
        name: container.array(
            f"ensemble_{number}/{name}", INTEGERS, _shape(shapes[name], 1, f"{where}: {name}")
        )
        for name in FOREST_ARRAYS
    }
    shape = _shape(shapes["leaf_values"], 2, f"{where}: leaf_values")
    values = container.array(f"ensemble_{number}/leaf_values", FLOATS, shape)
    leaves = int(np.count_nonzero(arrays["attribute"] < 0))
    if shape != (leaves, domain.n_classes):
        raise ModelFileError(
            f"{where}: leaf_values of shape {shape}; expected ({leaves}, {domain.n_classes}), "
            f"leaves by classes."
        )
    if not bool(np.all(np.abs(values) <= LARGEST_VALUE)):  # false for NaN too
        raise ModelFileError(f"{where}: leaf_values: expected finite numbers up to 1e100.")
    forest = checked_forest(
        part, arrays, line_of_text(described["source"], f"{where}: source", 1000)
    )
    return ReleasedEnsemble(features, forest, _native(values))


def _native(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def _features(data: Any, domain: Domain, where: str) -> tuple[int, ...]:
    if (
        not isinstance(data, list)
        or not data
        or any(type(i) is not int or not 0 <= i < domain.n_attributes for i in data)
        or len(set(data)) < len(data)
    ):
        raise ModelFileError(
            f"{where}: features: expected distinct positions 0 to {domain.n_attributes - 1}."
        )
    return tuple(data)


def _shape(data: Any, dimensions: int, where: str) -> tuple[int, ...]:
    if (
        not isinstance(data, list)
        or len(data) != dimensions
        or any(type(n) is not int or not 0 < n < 2**31 for n in data)
    ):
        raise ModelFileError(f"{where}: expected a shape of {dimensions} positive integers.")
    return tuple(data)
