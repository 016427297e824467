"""Write a fitted forest: what prediction needs, and what was claimed. Nothing else."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mrf_matrix.base.arrays import Values
from mrf_matrix.base.fields import FieldError, JsonObject
from mrf_matrix.files.container import ContainerError, ModelFileError, write_container
from mrf_matrix.files.models.model_file import LargeModelError, model_content
from mrf_matrix.forests.nodes import ARRAYS as FOREST_ARRAYS
from mrf_matrix.reports.privacy_report import PrivacyReport
from strategies.operator_files import OperatorFileError

FORMAT = "mrf_matrix.model"
SCHEMA_VERSION = 3
INTEGERS, FLOATS = "<i4", "<f8"
IMPLIED = (
    "the file holds leaf values and the variances of their noise, which follow from the release: "
    "the strategy was too large for it"
)
ARRAYS = (*FOREST_ARRAYS, "leaf_values", "node_variances")


def save_model(model: Any, path: "str | PathLike[str]", *, allow_nonprivate: bool = False) -> None:
    """Write a fitted forest to a file that `load_model` reads.

    The file is a zip of JSON and ``.npy`` arrays: the domain, a plan, and the transcript of its
    release, from which all else follows; of a matrix forest trees, noisy leaf values, the variances
    of their noise, voting and privacy report. It holds no record, no raw count and no seed.

    Parameters
    ----------
    model : PrivateForestClassifier, or one of a matrix, two-stage, posterior, residual or pooled \
forest, of labels, of naive Bayes, or a multinomial forest with ``epsilon``
        Fitted, or from a file.
    path : str or path
        By custom it ends in ``.mrf``. An old file is replaced, whole or not at all.
    allow_nonprivate : bool, default=False
        Write a model of which nothing is claimed all the same: without noise its leaf values are
        counts of records, and research noise can be subtracted by whoever knows its seed.

    Raises
    ------
    ModelFileError
        If no privacy is claimed of the model and that was not allowed.
    ValueError
        If a parameter that its claim rests on was changed after `fit`.
    TypeError
        If it is no fitted classifier of this kind.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from mrf_matrix import load_dataset
    >>> from mrf_matrix.estimators.training.matrix_forest import MatrixForestClassifier
    >>> from mrf_matrix.estimators.released.load import load_model
    >>> from mrf_matrix.files.models.save import save_model
    >>> monks = load_dataset("monks_1")
    >>> forest = MatrixForestClassifier(monks.domain, n_trees=4, max_depth=2, strategy="identity")
    >>> with TemporaryDirectory() as folder:
    ...     save_model(forest.fit(monks.X, monks.y), folder + "/monks.mrf")
    ...     loaded = load_model(folder + "/monks.mrf")
    >>> bool((loaded.predict(monks.X) == forest.predict(monks.X)).all())
    True
    """
    if not hasattr(type(model), "_model"):
        raise TypeError(
            f"model is a {type(model).__name__}: expected a fitted PrivateForestClassifier, "
            f"MatrixForestClassifier, PosteriorForestClassifier, ResidualForestClassifier, "
            f"PooledForestClassifier, LabelTreeClassifier, PrivateNaiveBayesClassifier or private "
            f"MultinomialForestClassifier, those whose model files are known."
        )
    if not hasattr(model, "privacy_report_"):
        raise TypeError("model is not fitted: expected model.fit(X, y) before it is saved.")
    if model.privacy_report_.noise == "shares":
        raise ModelFileError(
            "model is made from noise that several parties shared, a claim that model files do not "
            "hold: expected save_release(release, path), and from_release(...) after loading it."
        )
    doubt = None if allow_nonprivate else doubt_of(model)
    if doubt is not None:
        raise ModelFileError(
            f"model claims no privacy. {doubt.rstrip('.')}. Expected a fit with exact noise "
            f"and a finite budget over a public domain, or allow_nonprivate=True."
        )
    try:
        write_container(Path(path), "model", *_content(model))
    except (ContainerError, FieldError, OperatorFileError) as error:
        raise ModelFileError(str(error)) from error


def _content(model: Any) -> tuple[JsonObject, dict[str, Values]]:
    """Return the JSON and the arrays of a model; of one that is too large, what it implies."""
    learned, report = model._model, model.privacy_report_
    try:
        if learned is not None:
            return model_content(learned)
    except (LargeModelError, OperatorFileError):
        if not hasattr(model, "ensembles_"):
            raise
        report = report.with_note(IMPLIED)
    return _implied(model, report)


def _implied(model: Any, report: PrivacyReport) -> tuple[JsonObject, dict[str, Values]]:
    """Return leaf values of a forest, and the variances of their noise."""
    voting, shrinkage = model.voting_and_shrinkage()
    arrays: dict[str, Values] = {}
    described: list[JsonObject] = []
    for number, one in enumerate(model.ensembles_):
        mine: dict[str, Values] = {
            name: np.asarray(getattr(one.forest, name), dtype=INTEGERS) for name in FOREST_ARRAYS
        }
        mine["leaf_values"] = np.asarray(one.leaf_values, dtype=FLOATS)
        noise = one.leaves.noise
        mine["node_variances"] = np.asarray(noise.node_variances, dtype=FLOATS)
        shapes = {name: list(array.shape) for name, array in mine.items()}
        arrays |= {f"ensemble_{number}/{name}": array for name, array in mine.items()}
        described.append(
            {
                "features": list(one.features),
                "source": one.forest.source,
                "shapes": shapes,
                "vote_share": noise.vote_share,
            }
        )
    content: JsonObject = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "voting": voting,
        "shrinkage": shrinkage,
        "domain": model.domain_.to_dict(),
        "ensembles": described,
        "report": report.to_dict(),
    }
    return content, arrays


def doubt_of(model: Any) -> str | None:
    """Return why nothing is claimed of a fitted model; None where something is."""
    report = model.privacy_report_
    return None if report.is_private else str(report.statement)
