"""Read a model file from anyone: checked before it is believed, never executed.

Trees take bounded work before they are believed to be trees: `Forest` checks that arrays are trees
in time and memory that are modest for any honest arrays. Dishonest ones can claim overlapping
children, or branch tables that add up to far more than the file: those are refused here first.
"""

from collections.abc import Mapping
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
from mrf_matrix.estimators.shared.noise_aware import ReleasedEnsemble
from mrf_matrix.files.container import MAX_BYTES, Container, ModelFileError, bytes_at_most
from mrf_matrix.files.models.model_file import FORMAT as LEARNED_FORMAT
from mrf_matrix.files.models.model_file import model_of
from mrf_matrix.files.models.report import report_of
from mrf_matrix.files.models.report_claims import check_consistent
from mrf_matrix.files.models.save import ARRAYS, FLOATS, FORMAT, INTEGERS, SCHEMA_VERSION
from mrf_matrix.forests import Forest
from mrf_matrix.forests.nodes import ARRAYS as FOREST_ARRAYS
from mrf_matrix.forests.nodes import Nodes, concatenated_ranges, rising_windows
from mrf_matrix.forests.partition import check_parentage, check_shapes
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


MAX_DEPTH = 1000
MAX_TABLE_ENTRIES = 2**24
"""Most entries of branch tables that are not runs, each distinct table once."""


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
            if kind == LEARNED_FORMAT:
                return ReleasedClassifier(model_of(container))
            return _model(container)
    except (ValueError, TypeError, KeyError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"{where}: {one_line(error)}") from error


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


def checked_forest(
    domain: Domain, arrays: Mapping[str, Values], source: str, provenance: Provenance
) -> Forest:
    """Return the forest of arrays from a file.

    `domain`: over the attributes that the forest sees; `arrays`: the five arrays of a `Forest`;
    `source`: the forest's source, in words; `provenance`: of all that the file holds.

    Raises FieldError, ForestError if the arrays are no trees over the domain, deeper than 1000
    splits, or would take much more memory to check than they take themselves.
    """
    nodes = Nodes(domain, *(np.asarray(arrays[name]).astype(np.int32) for name in FOREST_ARRAYS))
    if max(domain.sizes) > len(nodes.branches):
        raise FieldError("branches is shorter than the codes of an attribute.")
    check_shapes(nodes)
    _check_tables(nodes)
    children, n_nodes, n_trees = int(nodes.n_children.sum()), nodes.n_nodes, nodes.n_trees
    if children != n_nodes - n_trees:
        raise FieldError(
            f"{children} children for {n_nodes} nodes and {n_trees} roots: expected every node to "
            f"be a root or the child of one node."
        )
    check_parentage(nodes)
    _check_depth(nodes)
    # Whether some leaf is reached by no cell makes no difference to what is predicted.
    kept = {name: getattr(nodes, name) for name in FOREST_ARRAYS}
    return Forest(domain, **kept, provenance=provenance, source=source, allow_empty=True)


def _check_tables(nodes: Nodes) -> None:
    """Bound the entries that `count_children` reads: all distinct tables that are no runs."""
    width, pattern = np.asarray(nodes.domain.sizes, dtype=np.int64), nodes.pattern
    length = np.where(nodes.attribute < 0, width.max(), width[nodes.attribute])
    end = np.minimum(pattern + length, len(nodes.branches))  # beyond: refused by count_children
    other = ~rising_windows(nodes.branches, pattern, end)
    tables = np.unique(np.stack([pattern[other].astype(np.int64), length[other]]), axis=1)
    if int(tables[1].sum()) > MAX_TABLE_ENTRIES:
        raise FieldError(
            f"its branch tables have {int(tables[1].sum())} entries: expected at most "
            f"{MAX_TABLE_ENTRIES}."
        )


def _check_depth(nodes: Nodes) -> None:
    level, n_children = nodes.roots.astype(np.int64), nodes.n_children
    for _ in range(MAX_DEPTH + 1):
        inner = level[n_children[level] > 0]
        if not len(inner):
            return
        level = concatenated_ranges(nodes.first_child[inner], n_children[inner])
    raise FieldError(f"its trees are deeper than {MAX_DEPTH} splits, or run in circles.")
