"""`mrf-matrix tune`: choose a design without data, and print what makes it."""

import shlex
from functools import partial
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from mrf_matrix import plotting
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import to_option_words, user_errors
from mrf_matrix.cli.screen import advise, console, print_and_write, progress_bar, resume_file, table
from mrf_matrix.datasets.registry import public_domain, public_records
from mrf_matrix.domain import Domain
from mrf_matrix.planning import Tuning, tune
from mrf_matrix.planning.search.objectives import OBJECTIVES
from mrf_matrix.planning.search.tuning import default_spaces, is_too_long

SHOWN = 12  # designs of a search that a table shows


def comma_values(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[int | str] | None:
    if value is None:
        return None
    return [int(piece) if piece.strip().isdigit() else piece.strip() for piece in value.split(",")]


TREE_OPTIONS = (
    "max_depth",
    "n_trees",
    "splits",
    "strategy",
    "voting",
    "n_ensembles",
    "max_features",
)
BLOCK_OPTIONS = ("n_blocks",)
"""Options of a space: parameters that they give values of."""


def spaces(schema: Domain, settings: dict[str, Any]) -> list[dict[str, list[Any]]] | None:
    """Return the default spaces with what the options say of their parameters.

    Where the options are all of one kind, "auto" means that kind; None where there are none, and
    `tune` chooses the kinds.
    """
    trees, blocks = (
        {name: settings[name] for name in names if settings[name] is not None}
        for names in (TREE_OPTIONS, BLOCK_OPTIONS)
    )
    kind = settings["kind"]
    if kind != "auto" or not (trees and blocks):
        kind = options.checked_kind(kind, TREE_OPTIONS + BLOCK_OPTIONS)
        if kind == "auto":
            return None
    return [
        {"kind": [kind], **space, **(blocks if "n_blocks" in space else trees)}
        for space in default_spaces(schema, kind)
    ]


@click.command(name="tune")
@click.argument("domain")
@options.budget()
@options.delta()
@options.n_records()
@options.kind("tables, matrix and, where it suits, additive, or that of the options given")
@click.option(
    "--objective",
    type=click.Choice(list(OBJECTIVES)),
    default="accuracy",
    help="A planning score (expected accuracy under a public prior), flip probability, error, "
    "or bias bound.",
)
@click.option("--max-depth", callback=comma_values, help="Depths to try, separated by commas.")
@click.option("--n-trees", callback=comma_values, help="Numbers of trees to try.")
@click.option("--splits", callback=comma_values, help="Kinds of splits to try.")
@click.option("--strategy", callback=comma_values, help="Strategy families to try.")
@click.option("--voting", callback=comma_values, help="Voting rules to try.")
@click.option("--n-ensembles", callback=comma_values, help="Numbers of ensembles to try.")
@click.option("--max-features", callback=comma_values, help="Attributes of an ensemble to try.")
@click.option(
    "--n-blocks", callback=comma_values, help="Numbers of blocks of tables to try, or auto."
)
@options.neighboring(None)
@options.random_state()
@options.time_limit(1.0)
@click.option("--search-all", is_flag=True, help="Seek a strategy for every design, slowly.")
@click.option(
    "--max-seconds",
    type=float,
    default=45.0,
    help="Begin no further design after this time, and give up one that takes twice as long; the "
    "same command goes on where it stopped.",
)
@click.option(
    "--max-release-seconds", type=float, help="Refuse designs whose release would take longer."
)
@click.option("--max-bytes", type=int, help="Refuse designs that need more memory.")
@click.option("--n-jobs", type=int, default=1, help="Processes.")
@click.option("--resume", type=options.NEW, help="File of finished trials.")
@options.results("DOMAIN", table="a table", record_and="the picture", picture="picture")
@user_errors
def command(
    domain: str, output: Path | None, as_json: bool, no_pictures: bool, **settings: Any
) -> None:
    """Search designs over DOMAIN: a domain file (JSON), or a data set's name. No data is read."""
    schema, label = public_domain(domain)
    space = spaces(schema, settings)
    folder = output or Path("results") / label
    asked = [{**settings}, schema.to_dict()]
    done: list[Tuning] = []
    whole = resume_file(folder, settings.pop("resume"), asked, lambda: not done[0].stopped)
    settings["n_records"] = settings["n_records"] or public_records(domain)
    advise(schema, settings["n_records"])
    for name in TREE_OPTIONS + BLOCK_OPTIONS:
        del settings[name]  # they are in the space
    with progress_bar(quiet=as_json) as progress, whole as file:
        found = tune(schema, space=space, resume=file, progress=progress, **settings)
        done.append(found)
    figures = {"domain": label, **found.to_dict()}
    showing = partial(show, found, label, domain)
    drawing = None if no_pictures else partial(pictures, found)
    file = folder / "tune.json"
    print_and_write(figures, showing, file, drawing, as_json=as_json, default=str)


def show(found: Tuning, label: str, domain: str) -> None:
    """Print the designs, the best one, and the command that trains it.

    `domain`: as it was given to `mrf-matrix tune`.
    """
    screen = console()
    screen.print(search_table(found, label))
    best = ", ".join(f"{name}={value!r}" for name, value in found.best_params.items())
    screen.print(f"Best: kind {found.kind}, {best}")
    for trial in filter(is_too_long, found.trials):
        screen.print(f"Residual forest: {to_option_words(trial.note)}.")
    if line := fit_command(found, domain):
        screen.print("Train it with:")
        screen.print(f"  {line}", soft_wrap=True)
    screen.print("Nothing was spent and no record read: every figure is public.")


def pictures(found: Tuning) -> dict[str, Any]:
    several = len(found.trials) > 1  # one design is no picture
    return {"designs.png": plotting.ParetoDisplay.from_tuning(found)} if several else {}


def fit_command(found: Tuning, domain: str) -> str | None:
    """Return the command that trains the best design; None where `fit` has no such kind."""
    if KINDS[found.kind].answers_queries:
        return None
    known = Path(domain).suffix == ""
    words = ["mrf-matrix", "fit", *([domain] if known else ["RECORDS.csv", "--domain", domain])]
    words += ["--kind", found.kind]
    for name in (*options.COMMON, *KINDS[found.kind].options):
        value = found.best_params.get(name)
        usual = value in (None, "auto") or (name == "delta" and not value)
        if not usual:  # else it is chosen where nothing is said
            words += ["--" + name.replace("_", "-"), str(value)]
    return shlex.join([*words, "--output", "model.mrf"])


def search_table(tuning: Tuning, label: str) -> Table:
    rows = tuning.rows()
    names, same = _columns([trial.design for trial in tuning.trials])
    cells = []
    for row in rows[:SHOWN]:
        vote = "" if isnan(row["rms_per_vote"]) else f"{row['rms_per_vote']:.4g}"
        value = f"{row['value']:.4g}" if isfinite(row["value"]) else "refused"
        value = "not tried" if row["stopped"] else value
        design = (str(row.get(name, "")) for name in names)
        cells.append((*design, value, vote, f"{row['measurements']}"))
    title = f"Designs for {label}, best first, before any data"
    header = (*names, "objective", "rms/vote", "draws")
    caption = (
        f"objective: {tuning.objective.replace('_', ' ')}, smaller is better; {len(rows)} designs "
        f"in all{same}. draws: noisy measurements per class. Products have no rms."
    )
    return table(title, *header, rows=cells, words=len(names), caption=caption)


def _columns(designs: list[dict[str, Any]]) -> tuple[list[str], str]:
    values: dict[str, list[str]] = {}
    for design in designs:
        for name, value in design.items():
            values.setdefault(name, []).append(str(value))
    differ = [name for name, found in values.items() if len(set(found)) > 1]
    shared = [f"{name}={found[0]}" for name, found in values.items() if name not in differ]
    return differ, f", where they apply with {', '.join(shared)}" if shared else ""
