"""Read a model file from anyone: checked before it is believed, never executed."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mrf_matrix.domain import Domain
from mrf_matrix.estimators.released.released_forest import ReleasedForestClassifier
from mrf_matrix.estimators.released.released_posterior import ReleasedPosteriorForestClassifier
from mrf_matrix.estimators.released.released_private import ReleasedPrivateForestClassifier
from mrf_matrix.estimators.released.released_residual import ReleasedResidualForestClassifier
from mrf_matrix.estimators.shared.base import sorted_classes
from mrf_matrix.estimators.shared.noise_aware import ReleasedEnsemble
from mrf_matrix.files.container import MAX_BYTES, Container, one_line
from mrf_matrix.files.fields import checked_object, checked_version, line_of_text
from mrf_matrix.files.models.errors import ModelFileError
from mrf_matrix.files.models.forest_arrays import FOREST_ARRAYS, checked_forest
from mrf_matrix.files.models.posterior_file import POSTERIOR_FORMAT, posterior_of
from mrf_matrix.files.models.private_file import PRIVATE_FORMAT, private_of
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_consistent
from mrf_matrix.files.models.residual_file import RESIDUAL_FORMAT, residual_of
from mrf_matrix.files.models.save import FLOATS, FORMAT, INTEGERS, SCHEMA_VERSION
from mrf_matrix.forests import Forest
from mrf_matrix.voting.leaf_noise import LeafNoise, check_shrinkage
from mrf_matrix.voting.voting import check_noise_aware_voting

FIRST_KEYS = {"format", "schema_version", "voting", "domain", "ensembles", "report"}
KEYS = FIRST_KEYS | {"shrinkage"}
FIRST_ENSEMBLE_KEYS = {"features", "source", "shapes"}
ENSEMBLE_KEYS = FIRST_ENSEMBLE_KEYS | {"vote_share"}
"""Files of schema version 1 know nothing of their noise."""
MAX_ENSEMBLES = 1000
MAX_VIEWS = 10**7
"""Most ensembles times attributes: the work of telling which sees what."""

LARGEST_VALUE = 1e100
"""Leaf values are counts plus noise of a 64-bit range; sums of these stay finite."""


def load_model(
    path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES
) -> (
    ReleasedForestClassifier
    | ReleasedPosteriorForestClassifier
    | ReleasedResidualForestClassifier
    | ReleasedPrivateForestClassifier
):
    """Return the forest of a model file, ready to predict.

    The file may come from anyone: nothing in it is executed, sizes are checked before memory is
    taken, and trees, values and texts are checked before they are used. The report must agree with
    all that the file holds; that noise was drawn remains the writer's word.

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
            container = Container(file, "model", max_bytes)
            if container.data.get("format") == POSTERIOR_FORMAT:
                return posterior_of(container)
            if container.data.get("format") == RESIDUAL_FORMAT:
                return residual_of(container)
            if container.data.get("format") == PRIVATE_FORMAT:
                return private_of(container)
            return _model(container)
    except ModelFileError as error:
        raise ModelFileError(f"{where}: {error}") from error
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error


def _model(container: Container) -> ReleasedForestClassifier:
    given = container.data
    first = isinstance(given, dict) and given.get("schema_version") == 1
    data = checked_object(given, FIRST_KEYS if first else KEYS, "model.json")
    checked_version(data, FORMAT, 1 if first else SCHEMA_VERSION)
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
        _ensemble(container, number, item, domain, first=first)
        for number, item in enumerate(described)
    )
    expected = {
        f"ensemble_{number}/{name}"
        for number, one in enumerate(ensembles)
        for name in _arrays(known_noise=one.noise is not None)
    }
    if container.names != expected:
        raise ModelFileError("it has members that are no arrays of its ensembles.")
    report = report_of(data["report"])
    check_consistent(report, [(one.forest, one.leaf_noise) for one in ensembles])
    classes, _ = sorted_classes(domain)  # as many as leaf values have columns, so not endless
    if len(classes) != domain.n_classes:
        raise ModelFileError("domain: two classes of the target are the same.")
    return ReleasedForestClassifier(
        ensembles,
        domain,
        classes,
        report,
        voting=check_noise_aware_voting(data["voting"]),
        shrinkage=check_shrinkage(data.get("shrinkage", "none")),
    )


def _arrays(*, known_noise: bool) -> tuple[str, ...]:
    return (*FOREST_ARRAYS, "leaf_values", *(["node_variances"] if known_noise else []))


def _ensemble(
    container: Container, number: int, data: object, domain: Domain, *, first: bool
) -> ReleasedEnsemble:
    where = f"ensemble {number}"
    described = checked_object(data, FIRST_ENSEMBLE_KEYS if first else ENSEMBLE_KEYS, where)
    vote_share = described.get("vote_share")
    names = _arrays(known_noise=vote_share is not None)
    shapes = checked_object(described["shapes"], set(names), where)
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
    noise = None
    if vote_share is not None:
        shape = _shape(shapes["node_variances"], 1, f"{where}: node_variances")
        variances = container.array(f"ensemble_{number}/node_variances", FLOATS, shape)
        noise = _noise(forest, variances, vote_share, where)
    return ReleasedEnsemble(features, forest, _native(values), noise)


def _noise(forest: Forest, variances: NDArray[Any], share: Any, where: str) -> LeafNoise:
    if variances.shape != (forest.n_nodes,):
        raise ModelFileError(
            f"{where}: node_variances of shape {variances.shape}; expected ({forest.n_nodes},)."
        )
    if not bool(np.all((variances >= 0) & (variances <= LARGEST_VALUE))):  # false for NaN too
        raise ModelFileError(f"{where}: node_variances: expected numbers from 0 to 1e100.")
    if type(share) not in (int, float) or not 0 < share <= 1:
        raise ModelFileError(f"{where}: vote_share: expected a number above 0, at most 1.")
    return LeafNoise(_native(variances), float(share))


def _native(values: NDArray[Any]) -> NDArray[np.float64]:
    return values.astype(np.float64)


def _features(data: object, domain: Domain, where: str) -> tuple[int, ...]:
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


def _shape(data: object, dimensions: int, where: str) -> tuple[int, ...]:
    if (
        not isinstance(data, list)
        or len(data) != dimensions
        or any(type(n) is not int or not 0 < n < 2**31 for n in data)
    ):
        raise ModelFileError(f"{where}: expected a shape of {dimensions} positive integers.")
    return tuple(data)
