"""Which options of `mrf-matrix fit` go together: strange ones are refused, never ignored."""

import click

OF_MATRIX = (
    "n_trees",
    "max_depth",
    "splits",
    "n_ensembles",
    "max_features",
    "strategy",
    "voting",
    "shrinkage",
    "time_limit",
)
OF_POSTERIOR = ("n_blocks", "n_records")
"""Options of one method only."""


def check_options(method: str) -> None:
    """Refuse options that will not be used, before anything is read or spent."""
    strange = OF_MATRIX if method == "posterior" else OF_POSTERIOR
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    given = [name for name in strange if context.get_parameter_source(name) is not default]
    if given:
        options = ", ".join("--" + name.replace("_", "-") for name in given)
        raise click.ClickException(f"{options}: no option of --method {method}. Leave it out.")
