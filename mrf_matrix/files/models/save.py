"""Write a fitted forest: what prediction needs, and what was claimed. Nothing else."""

from os import PathLike
from pathlib import Path
from typing import Any

from mrf_matrix.base.fields import FieldError
from mrf_matrix.files.container import ContainerError, ModelFileError, write_container
from mrf_matrix.files.models.model_file import model_content
from mrf_matrix.kinds.model import Model
from strategies.operator_files import OperatorFileError


def save_model(model: Any, path: "str | PathLike[str]", *, allow_nonprivate: bool = False) -> None:
    """Write a fitted forest to a file that `load_model` reads.

    The file is a zip of JSON and ``.npy`` arrays: the domain, a plan, and the transcript of its
    release, from which all else follows. It holds no record, no raw count and no seed.

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
        If no privacy is claimed of the model and that was not allowed, or its release was measured
        otherwise than its strategy is by now.
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
    learned = getattr(model, "model_", None)
    if not isinstance(learned, Model):
        raise TypeError(
            f"model is a {type(model).__name__} that is not fitted, or of no kind that files hold: "
            f"expected a fitted PrivateForestClassifier, MatrixForestClassifier, "
            f"PosteriorForestClassifier, ResidualForestClassifier, PooledForestClassifier, "
            f"LabelTreeClassifier, PrivateNaiveBayesClassifier or private "
            f"MultinomialForestClassifier."
        )
    if learned.report.noise == "shares":
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
        write_container(Path(path), "model", *model_content(learned))
    except (ContainerError, FieldError, OperatorFileError) as error:
        raise ModelFileError(str(error)) from error


def doubt_of(model: Any) -> str | None:
    """Return why nothing is claimed of a fitted model; None where something is."""
    report = model.privacy_report_
    return None if report.is_private else str(report.statement)
