"""`mrf-matrix compare`: the main job, on one screen, one JSON file and two pictures."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import isnan, prod
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from mrf_matrix import plotting
from mrf_matrix.base.checks import MOST_REPEATS, whole_number
from mrf_matrix.base.files import FileFormat
from mrf_matrix.base.kinds import KINDS, TYPED
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.number_options import comma_floats
from mrf_matrix.cli.screen import (
    console,
    note,
    note_ignored,
    print_and_write,
    progress_bar,
    resume_file,
    table,
)
from mrf_matrix.datasets import Dataset, load_dataset
from mrf_matrix.study import Comparison, Summary, compare
from mrf_matrix.study.calibration import METRICS, PERCENT
from mrf_matrix.study.methods import checked_methods
from mrf_matrix.study.splits import fits_of_split


@click.command(name="compare")
@click.argument("dataset")
@click.option(
    "--domain",
    "domain_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Domain file (JSON) of a CSV or Parquet data set.",
)
@options.n_trees()
@click.option("--max-depth", default=4, help="Depth of a tree.")
@options.splits()
@click.option(
    "--epsilons",
    callback=comma_floats,
    default="0.1,0.5,1,2",
    help="Privacy budgets, separated by commas.",
)
@options.delta()
@click.option(
    "--kind",
    callback=options.comma_words,
    help=f"Kinds, separated by commas: {', '.join(TYPED)}; and baselines by key, of which "
    "uniform_levels, geometric_levels and optimal_levels are known besides. [default: all but "
    "these, additive, labels and pool]",
)
@click.option("--n-splits", default=3, help="Train/test splits; each has its own forest.")
@click.option("--n-draws", default=5, help="Noise draws for each split and ε.")
@options.random_state("Seed of splits, forests and research noise.")
@click.option("--voting", type=click.Choice(["hard", "weight"]), default="hard")
@options.strategy()
@options.neighboring()
@click.option(
    "--noise",
    type=click.Choice(["research", "exact"]),
    default="research",
    help="Seedable research noise, or exact release-grade noise.",
)
@options.time_limit(10.0, "Seconds to search for a strategy, for each forest.")
@click.option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="accuracy",
    help="Figure of the table and of the picture; the JSON file has all of them.",
)
@options.results("DATASET")
@user_errors
@options.file_format()
def command(
    dataset: str,
    domain_file: str | None,
    metric: str,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    file_format: FileFormat,
    **settings: Any,
) -> None:
    """Compare noise allocations on DATASET: a name from `mrf-matrix datasets`, or a file.

    Says first how many fits it will make. Then shows the strategies for the forest with their
    expected errors, which need no data, and the test accuracy of every method at every ε, or
    another --metric, beside forests without privacy.
    """
    for kind in settings["kind"] or ():
        if kind in KINDS and kind not in TYPED:
            raise click.ClickException(f"--kind {kind}: compare(kind={kind!r}) in Python.")
    data = load_dataset(dataset, domain_file, extra="ignore", file_format=file_format)
    note_ignored(dataset, data.domain, file_format)
    ahead = work_estimate(data, settings)
    note(ahead) if as_json else console().print(ahead, "", sep="\n", soft_wrap=True)
    folder = output or Path("results") / data.name
    asked = [settings, data.domain.to_dict(), len(data.y)]
    done: list[Comparison] = []
    whole = resume_file(folder, None, asked, lambda: not done[0].unfinished)
    with progress_bar(quiet=as_json) as progress, whole as file:
        done.append(compare(data, progress=progress, resume=file, **settings))
    study = done[0]
    drawing = None if no_pictures else partial(pictures, study, metric)
    showing = partial(show, study, metric)
    print_and_write(study.to_dict(), showing, folder / "compare.json", drawing, as_json=as_json)


def show(study: Comparison, metric: str) -> None:
    screen = console()
    screen.print(strategy_table(study), "", score_table(study, metric), "")
    for line in notes(study):
        screen.print(line)


def pictures(study: Comparison, metric: str) -> dict[str, Any]:
    """Return a figure against ε and the strategies' errors, by their file names."""
    return {
        f"{metric}.png": plotting.AccuracyDisplay.from_comparison(study, metric),
        "strategies.png": plotting.StrategyErrorDisplay.from_comparison(study),
    }


FITS_A_MINUTE = 550
"""Of the default comparison of car, with its searches: it took 40 to 45 s of one core in November
2026, and other cores are slower."""

SMALL = {"records": 2_000, "cells": 2_000, "trees": 128, "depth": 4}
"""Sizes up to which that holds; car has 1728 records and as many cells."""


def work_estimate(data: Dataset, settings: Mapping[str, Any]) -> str:
    """Say in one line what a comparison will fit, and about how long that takes."""
    methods = checked_methods(settings["kind"])
    budgets, splits, draws = (settings[name] for name in ("epsilons", "n_splits", "n_draws"))
    for name in ("n_splits", "n_draws"):
        whole_number(name, settings[name], most=MOST_REPEATS)
    fits = splits * fits_of_split(methods, len(budgets), draws)
    private = sum(method.spends for method in methods)
    counted = (
        f"Methods: {private} private, {len(methods) - private} other",
        f"budgets: {len(budgets)}",
        f"splits: {splits}",
        f"noise draws: {draws}",
    )
    return (
        f"{data.name}: {len(data.y):,} records of {len(data.domain.names)} attributes. "
        f"{'; '.join(counted)}. {fits:,} fits; {duration_text(fits, data, settings)}."
    )


def duration_text(fits: int, data: Dataset, settings: Mapping[str, Any]) -> str:
    """Say how long so many fits take where all is small; a lower limit elsewhere."""
    sizes = {
        "records": len(data.y),
        "cells": prod(data.domain.sizes),
        "trees": settings["n_trees"],
        "depth": settings["max_depth"],
    }
    small = all(size <= SMALL[name] for name, size in sizes.items())
    minutes = round(fits / FITS_A_MINUTE)
    if not small or settings["noise"] == "exact":
        least = "a minute" if minutes <= 1 else f"{minutes} minutes"
        return f"it may take much more than {least}"
    if 2 * fits < FITS_A_MINUTE:
        return "less than a minute on one core"
    return f"about {'a minute' if minutes <= 1 else f'{minutes} minutes'} on one core"


def strategy_table(study: Comparison) -> Table:
    """List the strategies of the first forest with their expected errors."""
    made = table(
        "Strategies before any data, with the rms error per leaf (in records) at each ε",
        "strategy",
        "‖A‖",
        "loss",
        "/ bound",
        *(f"ε={epsilon:g}" for epsilon in study.epsilons),
    )
    served = [row for row in study.strategies if row.note is None]
    for row in served:
        made.add_row(
            row.name,
            figure_text(row.sensitivity),
            f"{row.loss:.4g}",
            figure_text(row.certified_ratio),
            *(figure_text(row.rms_per_leaf[epsilon]) for epsilon in study.epsilons),
            style="bold" if row.is_selected else None,
        )
    bound = max(row.lower_bound for row in served)
    made.caption = (
        f"loss = ‖A‖² ‖W A⁺‖²_F, as measured: ‖W‖² × leaves. No strategy has a loss below "
        f"{bound:,.0f} (certified lower bound)."
    )
    if left_out := [row.name for row in study.strategies if row.note is not None]:
        made.caption += f"\nNot for these leaves (compare.json says why): {'; '.join(left_out)}."
    return made


def score_table(study: Comparison, metric: str = "accuracy") -> Table:
    settings = study.settings
    unit = " in %" if metric in PERCENT else ""
    promise = f"; (ε, δ = {settings['delta']:g})-DP" if settings["delta"] else ""
    title = (
        f"Test {METRICS[metric]} on {study.dataset}{unit}, mean ± standard error; "
        f"{settings['n_splits']} splits, {settings['n_draws']} noise draws{promise}"
    )
    rows = (
        (
            method.label,
            settings["noise"] if method.spends else "none",
            *(mean_and_error(point, metric) for point in study.summaries_of(method, metric)),
        )
        for method in study.methods
    )
    budgets = (f"ε={epsilon:g}" for epsilon in study.epsilons)
    return table(title, "method", "noise", *budgets, rows=rows, words=2)


def figure_text(value: float) -> str:
    """Write three significant digits, without an exponent below a million."""
    return f"{value:,.0f}" if 100 <= value < 1e6 else f"{value:.3g}"


def mean_and_error(point: Summary, metric: str) -> str:
    """Write a mean with its standard error where there is one; nothing where no fit has it."""
    if point.mean is None:
        return ""
    factor, digits = (100, 1) if metric in PERCENT else (1, 3)
    error = factor * point.standard_error
    return f"{factor * point.mean:.{digits}f}" + ("" if isnan(error) else f" ±{error:.{digits}f}")


def notes(study: Comparison) -> Iterator[str]:
    """Say what is private, what is research noise, and what is noise-free."""
    settings = study.settings
    if study.unfinished:
        yield f"UNFINISHED: {study.unfinished} fits are not done; means are of those that are."
    yield (
        "Noise 'none': no privacy, for comparison. 'exact': drawn exactly. 'research': "
        "seedable noise for studies, not a release."
    )
    yield (
        f"Neighbouring relation: {settings['neighboring']}. Every fit spends its own ε; the "
        f"domain, the forests and the strategies are public."
    )
    if settings["noise"] == "research":
        yield "No fit above claims privacy; --noise exact makes release-grade ones."
    else:
        yield "Every fit with exact noise above claims its own ε."
