"""Read a model file from anyone: checked before it is believed, never executed."""

from os import PathLike, fspath

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.checks import one_word
from mrf_matrix.base.fields import (
    FieldError,
    line_of_text,
    list_of,
    number_of,
    object_of,
    one_line,
    versioned_of,
    whole_numbers,
)
from mrf_matrix.base.files import opened_regular
from mrf_matrix.base.provenance import Provenance
from mrf_matrix.domain import Domain
from mrf_matrix.domain.domain import sorted_classes
from mrf_matrix.estimators.released.released_forest import ReleasedForestClassifier
from mrf_matrix.estimators.shared.model_face import ReleasedClassifier
from mrf_matrix.files.container import MAX_BYTES, Container, ModelFileError, bytes_at_most
from mrf_matrix.files.models.model_file import FORMAT as LEARNED_FORMAT
from mrf_matrix.files.models.model_file import model_of
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_consistent
from mrf_matrix.files.models.save import ARRAYS, FLOATS, FORMAT, INTEGERS, SCHEMA_VERSION
from mrf_matrix.forests.arrays import checked_forest
from mrf_matrix.forests.nodes import ARRAYS as FOREST_ARRAYS
from mrf_matrix.kinds.matrix import MATRIX
from mrf_matrix.voting.ensemble import ReleasedEnsemble
from mrf_matrix.voting.leaf_noise import LeafNoise
from mrf_matrix.voting.voting import NOISE_AWARE_VOTINGS, SHRINKAGES

KEYS = {"format", "schema_version", "voting", "shrinkage", "domain", "ensembles", "report"}
ENSEMBLE_KEYS = {"features", "source", "shapes", "vote_share"}
MAX_ENSEMBLES = 1000
LEAST_SHARE = 1e-12
MAX_VIEWS = 10**7
"""Most ensembles times attributes: the work of telling which sees what."""

LARGEST_VALUE = 1e100
"""Leaf values are counts plus noise of a 64-bit range; sums of these stay finite."""


ReleasedModel = ReleasedForestClassifier | ReleasedClassifier


def load_model(path: "str | PathLike[str]", *, max_bytes: int = MAX_BYTES) -> ReleasedModel:
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
        with opened_regular(path, bytes_at_most(max_bytes)) as file:
            container = Container(file, "model", max_bytes)
            kind = container.data.get("format") if isinstance(container.data, dict) else None
            return _learned(container) if kind == LEARNED_FORMAT else _model(container)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error


def _learned(container: Container) -> ReleasedModel:
    model = model_of(container)
    if model.kind is MATRIX:
        return ReleasedForestClassifier.of(model)
    return ReleasedClassifier(model)


def _model(container: Container) -> ReleasedForestClassifier:
    data = versioned_of(container.data, "model.json", FORMAT, SCHEMA_VERSION, KEYS)
    domain = Domain.from_dict(data["domain"])
    if domain.target is None:
        raise FieldError("domain: expected a target with the classes.")
    described = list_of(data["ensembles"], "ensembles", MAX_ENSEMBLES, least=1)
    if len(described) * domain.n_attributes > MAX_VIEWS:
        raise FieldError(
            f"{len(described)} ensembles over {domain.n_attributes} attributes: expected a product "
            f"of at most {MAX_VIEWS}."
        )
    report = report_of(data["report"])
    ensembles = tuple(
        _ensemble(container, number, item, domain, report.provenance)
        for number, item in enumerate(described)
    )
    expected = {f"ensemble_{number}/{name}" for number in range(len(ensembles)) for name in ARRAYS}
    if container.names != expected:
        raise FieldError("it has members that are no arrays of its ensembles.")
    check_consistent(report, [(one.forest, one.leaves.noise) for one in ensembles])
    classes, _ = sorted_classes(domain)  # as many as leaf values have columns, so not endless
    if len(classes) != domain.n_classes:
        raise FieldError("domain: two classes of the target are the same.")
    return ReleasedForestClassifier(
        ensembles,
        domain,
        classes,
        report,
        voting=one_word("voting", data["voting"], NOISE_AWARE_VOTINGS),
        shrinkage=one_word("shrinkage", data["shrinkage"], SHRINKAGES),
    )


def _ensemble(
    container: Container, number: int, item: object, domain: Domain, provenance: Provenance
) -> ReleasedEnsemble:
    where = f"ensemble {number}"
    data = object_of(item, where, ENSEMBLE_KEYS)
    shapes = object_of(data["shapes"], where, ARRAYS)
    last = domain.n_attributes - 1
    features = whole_numbers(data["features"], f"{where}: features", most=last)
    if not features or len(set(features)) < len(features):
        raise FieldError(f"{where}: features: expected distinct positions 0 to {last}.")

    def array(name: str, dtype: str, dimensions: int) -> Values:
        shape = whole_numbers(shapes[name], f"{where}: {name}", least=1, length=dimensions)
        return container.array(f"ensemble_{number}/{name}", dtype, shape)

    trees = {name: array(name, INTEGERS, 1) for name in FOREST_ARRAYS}
    values = array("leaf_values", FLOATS, 2)
    shape = (int(np.count_nonzero(trees["attribute"] < 0)), domain.n_classes)
    if values.shape != shape:
        raise FieldError(
            f"{where}: leaf_values of shape {values.shape}; expected {shape}, leaves by classes."
        )
    _check_range(values, -LARGEST_VALUE, f"{where}: leaf_values")
    part = domain if features == tuple(range(domain.n_attributes)) else domain.select(features)
    source = line_of_text(data["source"], f"{where}: source", 1000)
    forest = checked_forest(part, trees, source, provenance)
    variances = array("node_variances", FLOATS, 1)
    if variances.shape != (forest.n_nodes,):
        raise FieldError(
            f"{where}: node_variances of shape {variances.shape}; expected ({forest.n_nodes},)."
        )
    _check_range(variances, 0.0, f"{where}: node_variances")
    share = number_of(data["vote_share"], f"{where}: vote_share", least=LEAST_SHARE, most=1.0)
    noise = LeafNoise(variances.astype(np.float64), share)
    return ReleasedEnsemble(features, forest, values.astype(np.float64), noise)


def _check_range(values: Values, least: float, where: str) -> None:
    if not bool(np.all((values >= least) & (values <= LARGEST_VALUE))):  # false for NaN too
        raise FieldError(f"{where}: expected finite numbers from {least:g} to {LARGEST_VALUE:g}.")
