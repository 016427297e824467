"""`mrf-matrix federate`: several parties, their noise in shares and their sums under masks."""

import json
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

import mrf_matrix
from mrf_matrix import federated, mechanisms, planning, study
from mrf_matrix.base.files import FileFormat
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.paid_release import Rescue, check_output, rescue_on_error
from mrf_matrix.cli.screen import console, note_ignored, progress_bar, table
from mrf_matrix.datasets import Dataset, load_dataset
from mrf_matrix.domain import Domain
from mrf_matrix.estimators.forest_classifier import text_attributes
from mrf_matrix.planning.plans.build import check_cells

TREE_OPTIONS = ("n_trees", "max_depth", "splits", "strategy", "time_limit")
"""Options that tables of blocks have no use for."""

SIMULATED = (
    "Simulated in one process, which sees every party's records: the release is private, the "
    "rehearsal is not. Deploy as docs/federated/deploying.md says."
)


@click.group(name="federate")
def command() -> None:
    """Several parties: noise in shares, sums under masks."""


@command.command(name="simulate")
@click.argument("data")
@options.domain("Domain file (JSON) of a CSV or Parquet file.")
@click.option("--by", required=True, help="Attribute whose every category is a party's records.")
@click.option("--vanish", default=0, help="Parties that do vanish, at random.")
@options.parties()
@options.kind(words=("matrix", "tables", "naive_bayes"), default="matrix")
@options.budget()
@options.delta()
@options.n_trees()
@click.option("--max-depth", default=3, help="Depth of a tree.")
@options.splits()
@options.strategy()
@options.neighboring()
@options.random_state("Seed of forest and drop-outs; noise has none.")
@options.time_limit(4.0, "Seconds to search for a strategy.")
@click.option("--output", type=options.NEW, help="Release file to write.")
@options.overwrite("a release")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@user_errors
@options.file_format()
def simulate(
    data: str,
    domain_file: Path | None,
    target: str | None,
    by: str,
    file_format: FileFormat,
    output: Path | None,
    overwrite: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Rehearse a federation on DATA, split among parties by an attribute, in this process.

    DATA is a CSV or Parquet file with its --domain file, or a name from `mrf-matrix datasets`. The
    attribute's public categories are the parties, also those without a record. Everything of the
    protocol is played: keys, shares, masks, drop-outs. The noise is exact.
    """
    if output is not None:
        check_output(output, overwrite=overwrite, reads=(data, domain_file))
    records = read_records(data, domain_file, target, file_format)
    if output is not None:
        options.check_is_public(records.domain, output)
    parts, names = split_parties(records, by)
    made = plan_federation(records.domain, len(parts), settings)
    network = network_with_dropouts(len(parts), settings)
    rescue = Rescue("release", output, None, overwrite=overwrite)
    rescue.output = output or Path("federation.release")
    with rescue_on_error(rescue):
        found = federated.run_federation(
            made.designs[0], parts, network=network, domain=records.domain
        )
        rescue.unwritten = partial(mrf_matrix.save_release, found.release)
        if output is not None:
            rescue.write(rescue.unwritten)
            rescue.settle()
        show(report_figures(made, found), names, by, output, as_json=as_json)


def read_records(
    data: str, domain_file: Path | None, target: str | None, file_format: FileFormat
) -> Dataset:
    domain = options.domain_with_target(domain_file, target)
    records = load_dataset(data, domain, extra="ignore", file_format=file_format)
    note_ignored(data, records.domain, file_format)
    return records


def show(
    report: dict[str, Any], names: list[str], by: str, output: Path | None, *, as_json: bool
) -> None:
    if as_json:
        click.echo(json.dumps(report | {"parties": names}, indent=2))
        return
    screen = console()
    screen.print(report.pop("claim"))
    rows = ((name.replace("_", " "), str(figure)) for name, figure in report.items())
    screen.print(table(f"{len(names)} parties by {by}", "what", "figure", rows=rows))
    screen.print(SIMULATED)
    if output is not None:
        screen.print(f"Written: {output}", soft_wrap=True)


def attribute_index(records: Dataset, by: str) -> int:
    names = records.domain.names
    if by not in names:
        raise click.ClickException(f"--by {by}: expected an attribute, one of {names}.")
    return names.index(by)


def split_parties(records: Dataset, by: str) -> "tuple[list[mechanisms.CellCounts], list[str]]":
    domain, place = records.domain, attribute_index(records, by)
    codes, labels = domain.encode(records.X), domain.encode_target(records.y)
    parts = [
        mechanisms.count_cells(codes[mine], labels[mine], domain.sizes, domain.n_classes)
        for mine in (codes[:, place] == party for party in range(domain.sizes[place]))
    ]
    return parts, [f"{by}={label}" for label in domain.attributes[place].labels]


def plan_federation(
    domain: Domain, parties: int, settings: dict[str, Any]
) -> "planning.FederatedPlan":
    asked = {name: value for name, value in settings.items() if name != "vanish"}
    if asked["kind"] != "matrix":
        options.refuse_options(TREE_OPTIONS, f"--kind {asked['kind']}")
        asked = {name: value for name, value in asked.items() if name not in TREE_OPTIONS}
    else:
        remedy = "Give --kind tables, which measures tables of few attributes."
        check_cells(domain.n_attributes, prod(domain.sizes), remedy)
    made = mrf_matrix.plan(domain, parties=parties, **asked)
    return cast("planning.FederatedPlan", made)


def network_with_dropouts(parties: int, settings: dict[str, Any]) -> "federated.Network":
    if not 0 <= settings["vanish"] <= parties:
        raise click.ClickException(f"--vanish {settings['vanish']}: expected 0 to {parties}.")
    generator = np.random.default_rng(settings["random_state"])
    gone = generator.choice(parties, settings["vanish"], replace=False).tolist()
    return federated.Network(dict.fromkeys(gone, "masked"))


def report_figures(made: "planning.FederatedPlan", found: "federated.Federation") -> dict[str, Any]:
    (design,) = made.designs
    said = made.budget.claim(made.delta)
    return {
        "claim": found.release.statement.replace(repr(made.budget), said),
        "strategy": made.parts[0].method,
        "loss_of_coarse_integers": round(design.ratio, 4),
        "contributors": len(found.contributors),
        "excess_noise_taken_off_of": len(found.revealing),
        "expected_rms_error_of_a_leaf": round(made.measured([found.release]).rms_per_leaf, 4),
        "bytes_sent_by_a_party": sum(found.bytes_up.values()),
        "bytes_sent_to_a_party": sum(found.bytes_down.values()),
        "seconds": round(found.seconds, 3),
    }


@command.command(name="forests")
@click.argument("data")
@options.domain("Domain file (JSON) of a CSV or Parquet file.")
@click.option("--by", help="Attribute whose every category is a party's records; else chunks.")
@click.option("--clients", default=10, help="Parties that chunks are dealt to.")
@click.option("--chunks", type=int, help="Chunks a class: few, and parties see few classes.")
@options.n_trees()
@click.option("--max-depth", type=int, help="Depth of a tree; no limit by default.")
@click.option("--n-splits", default=5, help="Splits into training and test.")
@options.random_state("Seed of splits, parties and trees.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
@user_errors
@options.file_format()
def forests(
    data: str,
    domain_file: Path | None,
    target: str | None,
    by: str | None,
    file_format: FileFormat,
    clients: int,
    chunks: int | None,
    n_trees: int,
    max_depth: int | None,
    n_splits: int,
    random_state: int,
    as_json: bool,
) -> None:
    """Compare published forests of several parties on DATA: NOT private, no noise anywhere.

    Trees grown by all parties in turn, each party's own trees side by side, and one forest of all
    records, on the same stratified 80:20 splits.
    """
    if by is not None:
        options.refuse_options(("clients", "chunks"), "--by, whose categories are the parties")
    records = read_records(data, domain_file, target, file_format)
    owner = None if by is None else records.codes[:, attribute_index(records, by)]
    model = mrf_matrix.FederatedForestClassifier(
        Domain.from_sizes(records.domain.sizes, records.domain.n_classes),
        n_clients=clients,
        chunks=chunks,
        n_trees=n_trees,
        max_depth=max_depth,
        nominal=text_attributes(records.domain),
    )
    with progress_bar(quiet=as_json) as report:
        scores = study.compare_systems(
            records.codes,
            records.labels,
            model,
            clients=owner,
            n_splits=n_splits,
            random_state=random_state,
            progress=report,
        )
    if as_json:
        systems = [{"system": one.system, "accuracies": one.accuracies} for one in scores]
        click.echo(json.dumps({"claim": model.statement_, "systems": systems}, indent=2))
        return
    rows = ((one.system, f"{one.mean:.3f}", f"{one.deviation:.3f}") for one in scores)
    title = f"{records.name}: {n_splits} splits"
    console().print(table(title, "system", "accuracy", "deviation", rows=rows))
    console().print(model.statement_)
