"""`--kind` of every command: its words, what each of them takes, and the classifier it means."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import mrf_matrix
from mrf_matrix import streams
from mrf_matrix.base.file_format import FileFormat
from mrf_matrix.base.kinds import KINDS, TYPED, kind_asked_by
from mrf_matrix.cli.options import Decorator, refuse_given, together, was_given
from mrf_matrix.datasets import load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.mechanisms.claim import claiming_budgets

COMMON = ("epsilon", "delta", "rho", "neighboring", "n_records")
"""Options that all classifiers take."""

OPTIONS = tuple(dict.fromkeys(name for one in KINDS.values() for name in one.options))
"""Options that not every kind takes."""


def kind_option(
    auto: str = KINDS["auto"].about, words: Sequence[str] = TYPED, default: str = "auto"
) -> Decorator:
    """Add --kind; `auto`: what that word means here."""
    told = " ".join(f"{word}: {auto if word == 'auto' else KINDS[word].about}." for word in words)
    asks = " An option of one kind only asks for that kind." * (default == "auto")
    return click.option(
        "--kind", type=click.Choice(words), default=default, show_default=True, help=told + asks
    )


def model_options() -> Decorator:
    """Add options of single kinds that are not about trees or blocks."""
    return together(
        click.option(
            "--beside",
            type=click.Choice(["tables", "additive"]),
            default="tables",
            show_default=True,
            help="What is beside the tree of pool.",
        ),
        click.option(
            "--alpha",
            type=float,
            default=1.0,
            show_default=True,
            help="Records that naive_bayes adds to every count.",
        ),
    )


def checked_kind(named: str, among: Sequence[str] = OPTIONS) -> str:
    """Return the kind: that of the options that were given, where none was named.

    Refuses options that will not be used, before anything is read or spent. `among`: those that
    belong to a kind.
    """
    given = [name for name in among if was_given(name)]
    if not was_given("kind"):
        asked = kind_asked_by(given)
        named = named if asked == "auto" else asked
    refuse_given([name for name in given if name not in KINDS[named].options], f"--kind {named}")
    return named


def classifier(settings: Mapping[str, Any], ledger: object = None) -> Any:
    """Return the classifier of the options, without a domain yet."""
    import mrf_matrix.estimators as estimators

    kind = KINDS[settings["kind"]]
    names = (*COMMON, *kind.options)
    given = {name: settings[name] for name in names if name in settings}
    if "n_blocks" in given and given["n_blocks"] is None:
        given["n_blocks"] = "auto"
    return getattr(estimators, kind.estimator)(ledger=ledger, **given)


def check_is_model(kind: str) -> None:
    """Refuse a kind of which no file holds a model."""
    if KINDS[kind].answers_queries:
        raise click.ClickException(
            f"--kind {kind}: it answers queries from the records, which no model file holds. "
            f"Expected another kind, or {KINDS[kind].estimator} in Python."
        )


def holds_records(settings: Mapping[str, Any]) -> bool:
    """Tell whether a kind asked for by name needs every record by itself."""
    kind, beside = settings["kind"], settings["beside"]
    return KINDS[beside if kind == "pool" else kind].holds_records


def budget_before(
    model: Any, settings: Mapping[str, Any], domain: "Domain | None"
) -> "mrf_matrix.PureDP | mrf_matrix.ZCDP | None":
    """Return what a fit will ask of a ledger, if that is known before the records are read.

    Where laws of noise are compared, most classifiers do so, and check, before they read.
    """
    budgets = claiming_budgets(model.epsilon, model.delta, model.rho)
    if len(budgets) == 1 or settings["kind"] == "matrix":
        return budgets[-1]
    if domain is None or not holds_records(settings):
        return None
    budget: mrf_matrix.PureDP | mrf_matrix.ZCDP = model.set_params(domain=domain).plan().budget
    return budget


def records_of(
    data: str, domain: "Domain", file_format: "FileFormat"
) -> tuple[dict[str, Any], Any]:
    """Return the columns and the classes of all records of a file, or of a folder of them."""
    import numpy as np

    files = streams.data_files(Path(data))
    read = partial(load_dataset, domain=domain, extra="ignore", file_format=file_format)
    parts = [read(str(file)) for file in files]
    columns = {
        name: np.concatenate([part.columns[name] for part in parts]) for name in domain.names
    }
    return columns, np.concatenate([part.y for part in parts])
