"""`mrf-matrix plan`: what a design costs in error, from its public domain alone."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import (
    budget_options,
    mode_option,
    n_records_option,
    n_trees_option,
    neighboring_option,
    party_options,
    random_state_option,
    result_options,
    splits_option,
    strategy_option,
    time_limit_option,
)
from mrf_matrix.cli.plan_tables import plan_table, size_table
from mrf_matrix.cli.screen import console, write_results
from mrf_matrix.planning.public_domain import public_domain, public_records

if TYPE_CHECKING:
    from mrf_matrix.planning import Plan


ALLOCATIONS = (
    "matrix", "per_tree", "disjoint", "uniform_levels", "geometric_levels", "optimal_levels",
    "per_query",
)  # fmt: skip
"""As in `mrf_matrix.planning.kinds`, which is not imported for a list of words."""


@click.command(name="plan")
@click.argument("domain")
@budget_options()
@mode_option("What is released.")
@n_records_option()
@n_trees_option("Trees of all ensembles.")
@click.option("--max-depth", default=4, show_default=True, help="Depth of a tree.")
@splits_option(None)
@click.option("--n-ensembles", default=1, show_default=True, help="Ensembles q.")
@click.option("--max-features", type=int, help="Attributes of each ensemble [default: all].")
@click.option(
    "--n-blocks", type=click.IntRange(min=1), help="Blocks of posterior. [default: chosen]"
)
@click.option("--queries", type=int, help="Public queries to draw [default: 128].")
@strategy_option("Strategy family, or auto.")
@click.option(
    "--allocation",
    type=click.Choice(ALLOCATIONS),
    default="matrix",
    show_default=True,
    help="matrix, or a baseline of training (subsample: per_query).",
)
@click.option("--voting", type=click.Choice(["hard", "weight"]), help="[default: as the mode]")
@neighboring_option()
@party_options(
    click.option("--parties", type=int, help="Parties who do not trust each other share the noise.")
)
@random_state_option()
@time_limit_option(8.0)
@result_options("DOMAIN")
@user_errors
def command(
    domain: str,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    **settings: Any,
) -> None:
    """Plan a release over DOMAIN: a domain file (JSON), or a data set's name.

    No record is read, not even of a data set given by name: only its public domain.
    """
    from mrf_matrix.planning import plan

    schema, label = public_domain(domain)
    settings["n_blocks"] = settings["n_blocks"] or "auto"
    settings["n_records"] = settings["n_records"] or public_records(domain)
    made = plan(schema, settings.pop("mode"), **settings)
    figures = {"domain": label, **made.to_dict(bound=True)}
    record = json.dumps(figures, indent=2)
    if as_json:
        click.echo(record)
    else:
        console().print(plan_table(figures), "", size_table(figures))
        console().print("Nothing was spent and no record read: every figure is public.")
    folder = output or Path("results") / label
    drawing = None if no_pictures else partial(pictures, made)
    write_results(record, folder / "plan.json", drawing, as_json=as_json)


def pictures(made: "Plan") -> dict[str, Any]:
    """Return error against ε, leaves, strategies and sensitivity, by their file names."""
    from mrf_matrix.plotting import (
        CellSensitivityDisplay,
        ErrorCurveDisplay,
        LeafErrorDisplay,
        StrategyBoundDisplay,
    )

    wanted: dict[str, Any] = {"error.png": ErrorCurveDisplay}
    if all(part.strategy is not None for part in made.parts):
        wanted["strategies.png"] = StrategyBoundDisplay
    if made.releases_leaves:
        wanted["leaves.png"] = LeafErrorDisplay
    if max(part.mechanism.rounded.matrix.shape[1] for part in made.parts) <= 100_000:
        wanted["sensitivity.png"] = CellSensitivityDisplay
    return {name: kind.from_plan(made) for name, kind in wanted.items()}
