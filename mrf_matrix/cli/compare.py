"""`mrf-matrix compare`: the main job, on one screen, one JSON file and two pictures."""

import json
from pathlib import Path
from typing import Any

import click

from mrf_matrix.cli.compare_tables import accuracy_table, notes, strategy_table
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import comma_floats
from mrf_matrix.cli.screen import console, progress_bar


@click.command(name="compare")
@click.argument("dataset")
@click.option(
    "--domain",
    "domain_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Domain file (JSON) of a CSV or Parquet data set.",
)
@click.option("--trees", default=128, show_default=True, help="Trees in the forest.")
@click.option("--depth", default=4, show_default=True, help="Depth of a tree.")
@click.option(
    "--splits",
    type=click.Choice(["multiway", "binary"]),
    default="multiway",
    show_default=True,
    help="Kind of split.",
)
@click.option(
    "--epsilons",
    callback=comma_floats,
    default="0.1,0.5,1,2",
    show_default=True,
    help="Privacy budgets, separated by commas.",
)
@click.option(
    "--repeats", default=3, show_default=True, help="Train/test splits; each has its own forest."
)
@click.option("--draws", default=5, show_default=True, help="Noise draws for each split and ε.")
@click.option(
    "--seed", default=0, show_default=True, help="Seed of splits, forests and research noise."
)
@click.option("--voting", type=click.Choice(["hard", "weight"]), default="hard", show_default=True)
@click.option(
    "--strategy",
    default="auto",
    show_default=True,
    help="Strategy family, or auto for the best of all.",
)
@click.option(
    "--neighboring",
    type=click.Choice(["add_remove", "replace_one"]),
    default="add_remove",
    show_default=True,
    help="Neighbouring relation.",
)
@click.option(
    "--noise",
    type=click.Choice(["research", "exact"]),
    default="research",
    show_default=True,
    help="Seedable research noise, or exact release-grade noise.",
)
@click.option(
    "--time-limit",
    default=10.0,
    show_default=True,
    help="Seconds to search for a strategy, for each forest.",
)
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder for the JSON file and pictures [default: results/DATASET].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the JSON instead of tables.")
@click.option("--no-pictures", is_flag=True, help="Draw no pictures.")
@user_errors
def command(
    dataset: str,
    domain_file: str | None,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    **settings: Any,
) -> None:
    """Compare noise allocations on DATASET: a name from `mrf-matrix datasets`, or a file.

    Shows the strategies for the forest with their expected errors, which need no data, then the
    test accuracy of every method at every ε beside forests without privacy.
    """
    from mrf_matrix.datasets import load_dataset
    from mrf_matrix.estimators import compare

    data = load_dataset(dataset) if domain_file is None else load_dataset(dataset, domain_file)
    with progress_bar(quiet=as_json) as progress:
        study = compare(
            data,
            n_trees=settings["trees"],
            max_depth=settings["depth"],
            splits=settings["splits"],
            epsilons=settings["epsilons"],
            n_splits=settings["repeats"],
            n_draws=settings["draws"],
            voting=settings["voting"],
            strategy=settings["strategy"],
            neighboring=settings["neighboring"],
            noise=settings["noise"],
            time_limit=settings["time_limit"],
            random_state=settings["seed"],
            progress=progress,
        )
    record = json.dumps(study.to_dict(), indent=2)
    if as_json:
        click.echo(record)
    else:
        show(study)
    folder = output or Path("results") / data.name
    files = [write_json(record, folder), *([] if no_pictures else draw(study, folder))]
    console(stderr=as_json).print(
        "Written: " + ", ".join(str(file) for file in files), soft_wrap=True
    )


def show(study: Any) -> None:
    """Print the tables and say which figures are private, research or noise-free."""
    screen = console()
    screen.print(strategy_table(study), "", accuracy_table(study), "")
    for note in notes(study):
        screen.print(note)


def write_json(record: str, folder: Path) -> Path:
    """Write the study's record into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "compare.json"
    file.write_text(record + "\n", encoding="utf-8")
    return file


def draw(study: Any, folder: Path) -> list[Path]:
    """Draw accuracy against ε and the strategies' errors; without matplotlib, say so."""
    from mrf_matrix.plotting import AccuracyDisplay, StrategyErrorDisplay

    try:
        pictures: dict[str, Any] = {
            "accuracy.png": AccuracyDisplay.from_comparison(study),
            "strategies.png": StrategyErrorDisplay.from_comparison(study),
        }
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    for name, picture in pictures.items():
        picture.figure_.savefig(folder / name, dpi=150)
    return [folder / name for name in pictures]
