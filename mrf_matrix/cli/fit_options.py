"""Which options of `mrf-matrix fit` go together: strange ones are refused, never ignored."""

from typing import Any

import click

OF_MATRIX = (
    "n_trees",
    "max_depth",
    "class_share",
    "splits",
    "n_ensembles",
    "max_features",
    "strategy",
    "voting",
    "shrinkage",
    "time_limit",
)
OF_POSTERIOR = ("n_blocks",)
"""Options of one method only."""

CHOSEN_BY_AUTO = ("n_ensembles", "max_features", "voting", "shrinkage", "time_limit")
"""Options that a forest of automatic depth has no use for."""

OF_AUTO = ("class_share",)
"""Options that a forest of fixed depth has no use for."""

OF_RECORDS = ("n_records",)
"""Options that neither random trees of fixed depth have a use for."""


def method_of(settings: dict[str, Any]) -> str:
    """Return the method: that of the options that were given, where none was named."""
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    if context.get_parameter_source("method") is default:
        for method, options in (("matrix", OF_MATRIX), ("posterior", OF_POSTERIOR)):
            if any(context.get_parameter_source(name) is not default for name in options):
                return method
    return str(settings["method"])


def check_options(method: str, depth: int | str) -> None:
    """Refuse options that will not be used, before anything is read or spent."""
    strange = {"auto": OF_MATRIX + OF_POSTERIOR, "posterior": OF_MATRIX, "matrix": OF_POSTERIOR}
    _refuse(strange[method], f"--method {method}")
    _refuse(CHOSEN_BY_AUTO if depth == "auto" else OF_AUTO, f"--max-depth {depth}")
    if method == "matrix" and depth != "auto":
        _refuse(OF_RECORDS, f"--max-depth {depth}")


def _refuse(strange: tuple[str, ...], of: str) -> None:
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    given = [name for name in strange if context.get_parameter_source(name) is not default]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.ClickException(f"{options}: no option of {of}. Leave it out.")
