"""`mrf-matrix plan`: what a design costs in error, from its public domain alone."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from mrf_matrix.base.checks import cut
from mrf_matrix.base.files import content_of
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.cli.errors import spoken, user_errors
from mrf_matrix.cli.kinds import checked_kind, kind_option, model_options
from mrf_matrix.cli.options import (
    FILE,
    budget_options,
    comma_floats,
    delta_option,
    n_blocks_option,
    n_records_option,
    n_trees_option,
    neighboring_option,
    number_text,
    party_options,
    random_state_option,
    result_options,
    splits_option,
    strategy_option,
    time_limit_option,
)
from mrf_matrix.cli.plans.plan_tables import plan_table, size_table
from mrf_matrix.cli.plans.step_plan import show_steps
from mrf_matrix.cli.screen import advise, console, write_results
from mrf_matrix.mechanisms.claim import SHARE_RULES
from mrf_matrix.planning.public_domain import public_domain, public_records

if TYPE_CHECKING:
    from mrf_matrix.domain import Domain
    from mrf_matrix.planning import Plan
    from mrf_matrix.planning.plans.verdict import Verdict


def numbers(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> list[float] | list[int] | None:
    """Read numbers from a text file, separated by white space or commas."""
    if value is None:
        return None
    try:
        words = content_of(value).decode().replace(",", " ").split()
        texts = list(map(number_text, words))
        return list(map(int, texts)) if param.name == "groups" else list(map(float, texts))
    except (OSError, ValueError) as error:
        raise click.BadParameter(
            f"{value}: expected a text file of numbers ({cut(str(error), 200)})"
        ) from error


def shares(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> str | list[float] | None:
    """Parse a rule, or shares separated by commas."""
    if value is None or value in SHARE_RULES:
        return value
    return comma_floats(ctx, param, value)


ALLOCATIONS = (
    "matrix", "per_tree", "disjoint", "uniform_levels", "geometric_levels", "optimal_levels",
    "per_query",
)  # fmt: skip
"""As in `mrf_matrix.planning.plans.kind`, which is not imported for a list of words."""


@click.command(name="plan")
@click.argument("domain")
@click.option("--domain", "domain_file", type=FILE, help="Domain file, where DOMAIN is none.")
@budget_options()
@delta_option()
@kind_option()
@model_options()
@n_records_option()
@n_trees_option("Trees of all ensembles.")
@click.option("--max-depth", default=4, show_default=True, help="Depth of a tree.")
@splits_option(None)
@click.option("--n-ensembles", default=1, show_default=True, help="Ensembles q.")
@click.option("--max-features", type=int, help="Attributes of each ensemble [default: all].")
@n_blocks_option()
@click.option("--queries", type=int, help="Public queries to draw [default: 128].")
@strategy_option("Strategy family, or auto.")
@click.option(
    "--objective",
    type=click.Choice(["total", "max"]),
    default="total",
    show_default=True,
    help="Which error is made small: of all answers, or of the worst answer or group.",
)
@click.option("--weights", callback=numbers, metavar="FILE", help="A weight of each answer.")
@click.option("--groups", callback=numbers, metavar="FILE", help="A group of each answer, for max.")
@click.option(
    "--optimise-for",
    type=click.Choice(["auto", "leaves", "votes"]),
    default="auto",
    show_default=True,
    help="Of matrix: whose errors are made small. auto: of votes under --rho.",
)
@click.option(
    "--target-rms",
    type=click.FloatRange(min=0, min_open=True),
    help="Find the least budget: largest error of an answer. With --rho auto for Gaussian noise.",
)
@click.option(
    "--budget-shares",
    callback=shares,
    metavar="equal|total|max|LIST",
    help="Of the ensembles: equal, least total, least largest error, or numbers.",
)
@click.option(
    "--allocation",
    type=click.Choice(ALLOCATIONS),
    default="matrix",
    show_default=True,
    help="matrix, or a baseline of --kind matrix (subsample: per_query).",
)
@click.option("--voting", type=click.Choice(["hard", "weight"]), help="[default: as the kind]")
@neighboring_option()
@party_options(
    click.option("--parties", type=int, help="Parties who do not trust each other share the noise.")
)
@random_state_option()
@time_limit_option(8.0)
@click.option("--strict", is_flag=True, help="End with an error where noise leaves nothing.")
@result_options("DOMAIN")
@user_errors
def command(
    domain: str,
    domain_file: Path | None,
    output: Path | None,
    as_json: bool,
    no_pictures: bool,
    strict: bool,
    **settings: Any,
) -> None:
    """Plan a release over DOMAIN: a domain file (JSON), or a data set's name.

    No record is read, not even of a data set given by name: only its public domain. A data file may
    stand for DOMAIN beside --domain, as in `mrf-matrix fit`; it is not opened.
    """
    domain = domain if domain_file is None else str(domain_file)
    schema, label = public_domain(domain)
    settings["n_blocks"] = settings["n_blocks"] or "auto"
    settings["n_records"] = settings["n_records"] or public_records(domain)
    file = (output or Path("results") / label) / "plan.json"
    settings["kind"] = checked_kind(settings["kind"])
    if KINDS[settings["kind"]].is_stepwise:
        weighed = show_steps(schema, label, settings, file, as_json=as_json)
    else:
        advise(schema, settings["n_records"])
        weighed = show_plan(schema, label, settings, file, as_json=as_json, drawn=not no_pictures)
    if strict and (refusal := weighed.refusal) is not None:
        raise click.ClickException(f"--strict: {spoken(refusal)}.")


def show_plan(
    schema: "Domain",
    label: str,
    settings: dict[str, Any],
    file: Path,
    *,
    as_json: bool,
    drawn: bool,
) -> "Verdict":
    """Plan, print, and write the record and pictures; return what noise leaves."""
    from mrf_matrix.planning import peak_bytes, plan
    from mrf_matrix.planning.plans.verdict import verdict_of

    asked = {name: one for name, one in settings.items() if name not in ("alpha", "beside")}
    made = cast("Plan", plan(schema, **asked))
    figures = {"domain": label, **made.to_dict(bound=True)}
    weighed = verdict_of(made)
    figures |= {"signal_to_noise": str(weighed), "peak_bytes": peak_bytes(made)}
    record = json.dumps(figures, indent=2)
    if as_json:
        click.echo(record)
    else:
        console().print(plan_table(figures), "", size_table(figures))
        console().print("Nothing was spent and no record read: every figure is public.")
    drawing = partial(pictures, made) if drawn else None
    write_results(record, file, drawing, as_json=as_json)
    return weighed


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
