"""`mrf-matrix compare`: the main job, on one screen, one JSON file and two pictures."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrf_matrix.base.kinds import KINDS, TYPED
from mrf_matrix.cli.compare_tables import notes, score_table, strategy_table, work_ahead
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.options import (
    comma_floats,
    comma_words,
    delta_option,
    file_format_options,
    n_trees_option,
    neighboring_option,
    random_state_option,
    result_options,
    splits_option,
    strategy_option,
    time_limit_option,
)
from mrf_matrix.cli.screen import (
    console,
    note,
    note_ignored,
    progress_bar,
    resumable,
    write_results,
)

if TYPE_CHECKING:
    from mrf_matrix.base.file_format import FileFormat
    from mrf_matrix.study import Comparison

METRICS = ("accuracy", "balanced_accuracy", "auc", "log_loss", "brier", "calibration")
"""As in `mrf_matrix.study.calibration`, which is not imported for a list of words."""


@click.command(name="compare")
@click.argument("dataset")
@click.option(
    "--domain",
    "domain_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Domain file (JSON) of a CSV or Parquet data set.",
)
@n_trees_option()
@click.option("--max-depth", default=4, show_default=True, help="Depth of a tree.")
@splits_option()
@click.option(
    "--epsilons",
    callback=comma_floats,
    default="0.1,0.5,1,2",
    show_default=True,
    help="Privacy budgets, separated by commas.",
)
@delta_option()
@click.option(
    "--kind",
    callback=comma_words,
    help=f"Kinds, separated by commas: {', '.join(TYPED)}; and baselines by key, of which "
    "uniform_levels, geometric_levels and optimal_levels are known besides. [default: all but "
    "these, additive, labels and pool]",
)
@click.option(
    "--n-splits", default=3, show_default=True, help="Train/test splits; each has its own forest."
)
@click.option("--n-draws", default=5, show_default=True, help="Noise draws for each split and ε.")
@random_state_option("Seed of splits, forests and research noise.")
@click.option("--voting", type=click.Choice(["hard", "weight"]), default="hard", show_default=True)
@strategy_option()
@neighboring_option()
@click.option(
    "--noise",
    type=click.Choice(["research", "exact"]),
    default="research",
    show_default=True,
    help="Seedable research noise, or exact release-grade noise.",
)
@time_limit_option(10.0, "Seconds to search for a strategy, for each forest.")
@click.option(
    "--metric",
    type=click.Choice(METRICS),
    default="accuracy",
    show_default=True,
    help="Figure of the table and of the picture; the JSON file has all of them.",
)
@result_options("DATASET")
@user_errors
@file_format_options()
def command(
    dataset: str,
    domain_file: str | None,
    metric: str,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    file_format: "FileFormat",
    **settings: Any,
) -> None:
    """Compare noise allocations on DATASET: a name from `mrf-matrix datasets`, or a file.

    Says first how many fits it will make. Then shows the strategies for the forest with their
    expected errors, which need no data, and the test accuracy of every method at every ε, or
    another --metric, beside forests without privacy.
    """
    from mrf_matrix.datasets import load_dataset
    from mrf_matrix.study import compare

    for kind in settings["kind"] or ():
        if kind in KINDS and kind not in TYPED:
            raise click.ClickException(f"--kind {kind}: compare(kind={kind!r}) in Python.")
    data = load_dataset(dataset, domain_file, extra="ignore", file_format=file_format)
    note_ignored(dataset, data.domain, file_format)
    ahead = work_ahead(data, settings)
    note(ahead) if as_json else console().print(ahead, "", sep="\n", soft_wrap=True)
    folder = output or Path("results") / data.name
    asked = [settings, data.domain.to_dict(), len(data.y)]
    done: list[Comparison] = []
    whole = resumable(folder, None, asked, lambda: not done[0].unfinished)
    with progress_bar(quiet=as_json) as progress, whole as file:
        done.append(compare(data, progress=progress, resume=file, **settings))
    study = done[0]
    record = json.dumps(study.to_dict(), indent=2)
    if as_json:
        click.echo(record)
    else:
        show(study, metric)
    drawing = None if no_pictures else partial(pictures, study, metric)
    write_results(record, folder / "compare.json", drawing, as_json=as_json)


def show(study: "Comparison", metric: str) -> None:
    """Print the tables and say which figures are private, research or noise-free."""
    screen = console()
    screen.print(strategy_table(study), "", score_table(study, metric), "")
    for line in notes(study):
        screen.print(line)


def pictures(study: "Comparison", metric: str) -> dict[str, Any]:
    """Return a figure against ε and the strategies' errors, by their file names."""
    from mrf_matrix.plotting import AccuracyDisplay, StrategyErrorDisplay

    return {
        f"{metric}.png": AccuracyDisplay.from_comparison(study, metric),
        "strategies.png": StrategyErrorDisplay.from_comparison(study),
    }
