"""`mrf-matrix tune`: choose a design without data, and print what makes it."""

import json
from pathlib import Path
from typing import Any

import click

from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import exact_number
from mrf_matrix.cli.plan import write
from mrf_matrix.cli.plan_tables import search_table
from mrf_matrix.cli.screen import console, progress_bar
from mrf_matrix.planning.public_domain import public_domain, public_records


def comma_values(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
    """Parse values separated by commas: numbers where they are numbers."""
    if value is None:
        return None
    return [int(piece) if piece.strip().isdigit() else piece.strip() for piece in value.split(",")]


@click.command(name="tune")
@click.argument("domain")
@click.option("--epsilon", callback=exact_number, help="Pure-DP budget [default: 1].")
@click.option("--rho", callback=exact_number, help="zCDP budget, instead of --epsilon.")
@click.option("--records", type=int, help="Public number of records [default: as published].")
@click.option(
    "--mode",
    type=click.Choice(["training", "prediction", "subsample"]),
    default="training",
    show_default=True,
)
@click.option(
    "--objective",
    type=click.Choice(["accuracy", "flip", "error", "bound"]),
    default="accuracy",
    show_default=True,
    help="Expected accuracy under a public prior, flip probability, error, or bias bound.",
)
@click.option("--depths", callback=comma_values, help="Depths to try, separated by commas.")
@click.option("--trees", callback=comma_values, help="Numbers of trees to try.")
@click.option("--splits", callback=comma_values, help="Kinds of splits to try.")
@click.option("--strategies", callback=comma_values, help="Strategy families to try.")
@click.option("--voting", callback=comma_values, help="Voting rules to try.")
@click.option("--ensembles", callback=comma_values, help="Numbers of ensembles to try.")
@click.option("--features", callback=comma_values, help="Attributes of an ensemble to try.")
@click.option(
    "--neighboring",
    type=click.Choice(["add_remove", "replace_one"]),
    default="add_remove",
    show_default=True,
)
@click.option("--seed", default=0, show_default=True, help="Seed of the public structure.")
@click.option("--time-limit", default=1.0, show_default=True, help="Seconds for each strategy.")
@click.option("--max-seconds", type=float, help="Begin no further design after this time.")
@click.option(
    "--max-release-seconds", type=float, help="Refuse designs whose release would take longer."
)
@click.option("--max-bytes", type=int, help="Refuse designs with a larger array.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option(
    "--resume", type=click.Path(dir_okay=False, path_type=Path), help="File of finished trials."
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the JSON file and the picture [default: results/DOMAIN].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON instead of a table.")
@click.option("--no-pictures", is_flag=True, help="Draw no picture.")
@user_errors
def command(
    domain: str,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    **settings: Any,
) -> None:
    """Search designs over DOMAIN: a domain file (JSON), or a data set's name. No data is read."""
    from mrf_matrix.planning import default_space, tune

    schema, label = public_domain(domain)
    epsilon = 1 if settings["epsilon"] is None and settings["rho"] is None else settings["epsilon"]
    space = default_space(schema, settings["mode"]) | {
        name: settings[option]
        for name, option in (
            ("max_depth", "depths"),
            ("n_trees", "trees"),
            ("splits", "splits"),
            ("strategy", "strategies"),
            ("voting", "voting"),
            ("n_ensembles", "ensembles"),
            ("max_features", "features"),
        )
        if settings[option] is not None
    }
    with progress_bar(quiet=as_json) as progress:
        found = tune(
            schema,
            epsilon=epsilon,
            rho=settings["rho"],
            n_records=settings["records"] or public_records(domain),
            mode=settings["mode"],
            neighboring=settings["neighboring"],
            objective=settings["objective"],
            space=space,
            time_limit=settings["time_limit"],
            max_seconds=settings["max_seconds"],
            max_release_seconds=settings["max_release_seconds"],
            max_bytes=settings["max_bytes"],
            n_jobs=settings["jobs"],
            resume=settings["resume"],
            progress=progress,
            random_state=settings["seed"],
        )
    record = json.dumps({"domain": label, **found.to_dict()}, indent=2, default=str)
    if as_json:
        click.echo(record)
    else:
        console().print(search_table(found, label))
        console().print("Best: " + ", ".join(f"{k}={v!r}" for k, v in found.best_params.items()))
        console().print("Nothing was spent and no record read: every figure is public.")
    folder = output or Path("results") / label
    files = [write(record, folder, "tune.json"), *([] if no_pictures else draw(found, folder))]
    console(stderr=as_json).print(
        "Written: " + ", ".join(str(file) for file in files), soft_wrap=True
    )


def draw(found: Any, folder: Path) -> list[Path]:
    """Draw the Pareto front; without matplotlib, say so."""
    from mrf_matrix.plotting import ParetoDisplay

    try:
        picture = ParetoDisplay.from_tuning(found)
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    picture.figure_.savefig(folder / "designs.png", dpi=150)
    return [folder / "designs.png"]
