"""`mrf-matrix plan`: what a design costs in error, from its public domain alone."""

import json
from pathlib import Path
from typing import Any

import click

from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import exact_number
from mrf_matrix.cli.plan_tables import plan_table, size_table
from mrf_matrix.cli.screen import console
from mrf_matrix.planning.public_domain import public_domain, public_records


@click.command(name="plan")
@click.argument("domain")
@click.option("--epsilon", callback=exact_number, help="Pure-DP budget [default: 1].")
@click.option("--rho", callback=exact_number, help="zCDP budget, instead of --epsilon.")
@click.option(
    "--mode",
    type=click.Choice(["training", "prediction", "subsample"]),
    default="training",
    show_default=True,
    help="What is released.",
)
@click.option("--records", type=int, help="Public number of records [default: as published].")
@click.option("--trees", default=128, show_default=True, help="Trees of all ensembles.")
@click.option("--depth", default=4, show_default=True, help="Depth of a tree.")
@click.option(
    "--splits", type=click.Choice(["multiway", "binary"]), default="multiway", show_default=True
)
@click.option("--ensembles", default=1, show_default=True, help="Ensembles q.")
@click.option("--features", type=int, help="Attributes of each ensemble [default: all].")
@click.option("--queries", type=int, help="Public queries to draw [default: 128].")
@click.option("--strategy", default="auto", show_default=True, help="Strategy family, or auto.")
@click.option("--voting", type=click.Choice(["hard", "weight"]), help="[default: as the mode]")
@click.option(
    "--neighboring",
    type=click.Choice(["add_remove", "replace_one"]),
    default="add_remove",
    show_default=True,
    help="Neighbouring relation.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the public structure.")
@click.option("--time-limit", default=8.0, show_default=True, help="Seconds for each strategy.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the JSON file and pictures [default: results/DOMAIN].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON instead of tables.")
@click.option("--no-pictures", is_flag=True, help="Draw no pictures.")
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
    epsilon = 1 if settings["epsilon"] is None and settings["rho"] is None else settings["epsilon"]
    made = plan(
        schema,
        settings["mode"],
        epsilon=epsilon,
        rho=settings["rho"],
        neighboring=settings["neighboring"],
        n_trees=settings["trees"],
        max_depth=settings["depth"],
        splits=settings["splits"],
        n_ensembles=settings["ensembles"],
        max_features=settings["features"],
        strategy=settings["strategy"],
        voting=settings["voting"],
        queries=settings["queries"],
        n_records=settings["records"] or public_records(domain),
        time_limit=settings["time_limit"],
        random_state=settings["seed"],
    )
    figures = {"domain": label, **made.to_dict(bound=True)}
    record = json.dumps(figures, indent=2)
    if as_json:
        click.echo(record)
    else:
        console().print(plan_table(figures), "", size_table(figures))
        console().print("Nothing was spent and no record read: every figure is public.")
    folder = output or Path("results") / label
    files = [write(record, folder, "plan.json"), *([] if no_pictures else draw(made, folder))]
    console(stderr=as_json).print(
        "Written: " + ", ".join(str(file) for file in files), soft_wrap=True
    )


def write(record: str, folder: Path, name: str) -> Path:
    """Write a record into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(record + "\n", encoding="utf-8")
    return file


def draw(made: Any, folder: Path) -> list[Path]:
    """Draw error against ε, leaves, strategies and sensitivity; without matplotlib, say so."""
    from mrf_matrix.plotting import (
        CellSensitivityDisplay,
        ErrorCurveDisplay,
        LeafErrorDisplay,
        StrategyBoundDisplay,
    )

    wanted: dict[str, Any] = {
        "error.png": ErrorCurveDisplay,
        "strategies.png": StrategyBoundDisplay,
    }
    if made.mode == "training":
        wanted["leaves.png"] = LeafErrorDisplay
    if max(part.mechanism.rounded.matrix.shape[1] for part in made.parts) <= 100_000:
        wanted["sensitivity.png"] = CellSensitivityDisplay
    try:
        pictures = {name: kind.from_plan(made) for name, kind in wanted.items()}
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    for name, picture in pictures.items():
        picture.figure_.savefig(folder / name, dpi=150)
    return [folder / name for name in pictures]
