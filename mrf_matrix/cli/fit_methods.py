"""The classifiers that `mrf-matrix fit` trains, by name, with the options that each takes."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrf_matrix.cli.options import Decorator, refuse_given, together, was_given

if TYPE_CHECKING:
    from mrf_matrix.base.file_format import FileFormat
    from mrf_matrix.domain import Domain
    from mrf_matrix.mechanisms import ZCDP, PureDP

METHODS: dict[str, tuple[str, ...]] = {
    "auto": (),
    "matrix": (
        "n_trees", "max_depth", "splits", "n_ensembles", "max_features", "strategy", "voting",
        "shrinkage", "time_limit",
    ),
    "posterior": ("n_blocks",),
    "residual": (),
    "labels": (),
    "pooled": ("beside",),
    "naive_bayes": ("alpha",),
}  # fmt: skip
"""Every method with the options that are of it alone; the keys are those of `compare`."""

COMMON = ("epsilon", "delta", "rho", "neighboring", "n_records", "random_state")
"""Options that classifiers take."""

NOT_TAKEN = {"naive_bayes": ("random_state",)}
"""Those that some take not: nothing of it is drawn."""

ABOUT = (
    "auto: the kind that a table of rules names by public numbers; records "
    "are kept in memory where it needs them. matrix: random trees over a strategy for all of "
    "them. posterior: tables of few blocks of attributes, chosen without data, labelled by "
    "their posterior under the known noise. residual: tables measured one after another, each "
    "on what is unexplained; records are kept in memory. labels: one small tree with its "
    "labels, for little data. pooled: such a tree --beside tables or residuals. naive_bayes: "
    "counts of single attributes. An option of one method only asks for that method."
)


def methods_options() -> Decorator:
    """Add --method, and the options of single methods that are not about trees or blocks."""
    return together(
        click.option(
            "--method",
            type=click.Choice(tuple(METHODS)),
            default="auto",
            show_default=True,
            help=ABOUT,
        ),
        click.option(
            "--beside",
            type=click.Choice(["tables", "residuals"]),
            default="tables",
            show_default=True,
            help="What is beside the tree of pooled.",
        ),
        click.option(
            "--alpha",
            type=float,
            default=1.0,
            show_default=True,
            help="Records that naive_bayes adds to every count.",
        ),
    )


def method_of(named: str) -> str:
    """Return the method: that of the options that were given, where none was named."""
    if was_given("method"):
        return named
    return next((one for one, own in METHODS.items() if any(map(was_given, own))), named)


def check_options(method: str) -> None:
    """Refuse options that will not be used, before anything is read or spent."""
    strange = [name for one, own in METHODS.items() if one != method for name in own]
    refuse_given([*strange, *NOT_TAKEN.get(method, ())], f"--method {method}")


def classifier(settings: Mapping[str, Any], ledger: object) -> Any:
    """Return the classifier of the options, without a domain yet."""
    import mrf_matrix.estimators as estimators

    kinds = {
        "auto": "PrivateForestClassifier",
        "matrix": "MatrixForestClassifier",
        "posterior": "PosteriorForestClassifier",
        "residual": "ResidualForestClassifier",
        "labels": "LabelTreeClassifier",
        "pooled": "PooledForestClassifier",
        "naive_bayes": "PrivateNaiveBayesClassifier",
    }
    method = settings["method"]
    names = [name for name in COMMON if name not in NOT_TAKEN.get(method, ())]
    given = {name: settings[name] for name in (*names, *METHODS[method])}
    if "n_blocks" in given and given["n_blocks"] is None:
        given["n_blocks"] = "auto"
    return getattr(estimators, kinds[method])(ledger=ledger, **given)


def holds_records(settings: Mapping[str, Any]) -> bool:
    """Tell whether a method asked for by name needs every record by itself."""
    asked = settings["method"], settings["beside"]
    return asked == ("pooled", "residuals") or asked[0] == "residual"


def budget_before(
    model: Any, settings: Mapping[str, Any], domain: "Domain | None"
) -> "PureDP | ZCDP | None":
    """Return what a fit will ask of a ledger, if that is known before the records are read.

    Where laws of noise are compared, most classifiers do so, and check, before they read.
    """
    from mrf_matrix.mechanisms.budgets.claim import claiming_budgets

    budgets = claiming_budgets(model.epsilon, model.delta, model.rho)
    if len(budgets) == 1 or settings["method"] == "matrix":
        return budgets[-1]
    if domain is None or not holds_records(settings):
        return None
    budget: PureDP | ZCDP = model.set_params(domain=domain).plan().budget
    return budget


def records_of(
    data: str, domain: "Domain", file_format: "FileFormat"
) -> tuple[dict[str, Any], Any]:
    """Return the columns and the classes of all records of a file, or of a folder of them."""
    import numpy as np

    from mrf_matrix.datasets import load_dataset
    from mrf_matrix.streams.files import data_files

    files = data_files(Path(data))
    read = partial(load_dataset, domain=domain, extra="ignore", file_format=file_format)
    parts = [read(str(file)) for file in files]
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in domain.names
    }
    return columns, np.concatenate([part.y for part in parts])
