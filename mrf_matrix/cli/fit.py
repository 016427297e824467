"""`mrf-matrix fit`: one private release from a file of records, as a model file."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

import mrf_matrix
from mrf_matrix import files, mechanisms, planning
from mrf_matrix.base.files import FileFormat, hash_of
from mrf_matrix.base.work import progress_listener
from mrf_matrix.cli import options
from mrf_matrix.cli.errors import user_errors
from mrf_matrix.cli.paid_release import Rescue, check_output, rescue_on_error
from mrf_matrix.cli.screen import advise, console, note, note_ignored, progress_bar
from mrf_matrix.datasets import load_dataset
from mrf_matrix.datasets.files import is_data_file
from mrf_matrix.datasets.registry import public_records
from mrf_matrix.domain import Domain

DOMAIN_FILE = """\b
A domain file says which records exist at all, and is public:
{
  "attributes": [
    {"name": "age", "edges": [0, 25, 40, 60], "outside": "open"},
    {"name": "sex", "categories": ["F", "M"], "unknown": "other"}
  ],
  "target": {"name": "income", "categories": ["<=50K", ">50K"]}
}
See docs/domain.md for all of it.
"""


@click.command(name="fit", epilog=DOMAIN_FILE)
@click.argument("data")
@options.domain()
@options.budget(
    "Pure-DP budget: 1, 0.5, 1/3. [default: 1]", "zCDP budget instead, with Gaussian noise."
)
@options.delta()
@options.kind()
@options.model()
@click.option(
    "--n-records",
    type=click.IntRange(min=1),
    help="Public number of records, against which noise is weighed [default: as published, of a "
    "data set by name].",
)
@options.n_blocks()
@options.n_trees()
@click.option("--max-depth", type=int, default=4, help="Depth of a tree.")
@options.splits()
@click.option(
    "--n-ensembles",
    type=click.IntRange(1, 1000),  # what a model file holds
    default=1,
    help="Ensembles, each with its share.",
)
@click.option("--max-features", type=int, help="Attributes that each ensemble draws.")
@options.strategy()
@click.option("--voting", type=click.Choice(options.VOTINGS), default="hard")
@click.option(
    "--shrinkage",
    type=click.Choice(options.SHRINKAGES),
    default="none",
    help="Leaves shrunk toward their ancestors before they vote: as far as votes of all trees "
    "need, or each leaf on its own.",
)
@options.neighboring()
@click.option("--random-state", type=int, help="Seed of the forest's structure; noise has none.")
@options.time_limit(8.0, "Seconds to search for a strategy.")
@options.ledger("Ledger to charge, from `mrf-matrix ledger`.")
@click.option(
    "--output", type=options.NEW, required=True, help="Model file to write, for example model.mrf."
)
@options.overwrite("a model")
@click.option(
    "--strict",
    is_flag=True,
    help="Refuse, before anything is spent, a fit whose noise leaves nothing of --n-records.",
)
@click.option("--purpose", help="What the release is for, said in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print the privacy report as JSON.")
@user_errors
@options.file_format()
def command(
    data: str,
    domain_file: Path | None,
    target: str | None,
    ledger_file: Path | None,
    output: Path,
    overwrite: bool,
    strict: bool,
    purpose: str | None,
    as_json: bool,
    file_format: FileFormat,
    **settings: Any,
) -> None:
    """Train a private forest on DATA and write it to a model file.

    DATA is a CSV or Parquet file, or a folder of them, with its --domain file; or a name from
    `mrf-matrix datasets`. Files are read in batches, and counted as they pass: memory does not
    grow with them. Where a public --n-records says that they fit in memory, --kind auto may
    choose kinds that need them there; --kind additive, and pool --beside additive, hold all
    records. The noise is exact and cannot be seeded. Everything is checked before budget is spent.
    Neither the number of records nor the accuracy on them is printed, for both are private; the
    progress bar alone counts records, on a terminal, and leaves nothing behind.
    """
    if not Path(data).exists():  # a file or folder may have the name of a set
        settings["n_records"] = settings["n_records"] or public_records(data)
    settings["kind"] = options.checked_kind(settings["kind"])
    options.check_is_model(settings["kind"])
    check_output(
        output,
        overwrite=overwrite,
        loses=", and what it released cannot be released again without budget",
        reads=(data, domain_file, ledger_file),
    )
    domain = options.domain_with_target(domain_file, target)
    options.check_is_public(domain, output)
    ledger = None if ledger_file is None else mrf_matrix.PrivacyLedger.open(ledger_file)
    model = options.make_classifier(settings, ledger)
    if (
        ledger is not None
        and (asked := options.ledger_request(model, settings, domain)) is not None
    ):
        # refused before the records are so much as read
        ledger.check(asked, f"fit of {output.name}", neighboring=model.neighboring)
    words = {"data": Path(data).name} | ({} if purpose is None else {"purpose": purpose})
    weighed_by = planning.weigh_signals(
        settings["n_records"], strict=strict, check=files.check_fits_a_file
    )
    described = mechanisms.describe_charges(**words)
    rescue = Rescue("model", output, ledger_file, overwrite=overwrite)
    with rescue_on_error(rescue), weighed_by as verdicts, described as charges:
        held = options.holds_records(settings)
        fit_file(model, data, domain, file_format, quiet=as_json, held=held)
        try:
            rescue.write(lambda path: mrf_matrix.save_model(model, path))
        finally:
            if ledger is not None and rescue.place is not None:
                name_model(ledger, charges[-1].number, rescue.place)
        rescue.settle()
        show(model, output, ledger, str(verdicts[0]) if verdicts else None, as_json=as_json)


def name_model(ledger: "mrf_matrix.PrivacyLedger", number: int, place: Path) -> None:
    try:
        ledger.describe(number, model=hash_of(place))
    except (OSError, ValueError) as error:  # the model is paid for, and there
        note(f"The ledger does not say which model file the charge is of: {error}")


def show(
    model: Any,
    output: Path,
    ledger: "mrf_matrix.PrivacyLedger | None",
    weighed: str | None,
    *,
    as_json: bool,
) -> None:
    if as_json:
        written = {
            "model": str(output),
            "report": model.privacy_report_.to_dict(),
            "signal_to_noise": weighed,
        }
        click.echo(json.dumps(written | {"ledger": ledger and ledger.to_dict()}, indent=2))
        return
    screen = console()
    screen.print(model.privacy_report_)
    if ledger is not None:
        screen.print(ledger)
    if weighed is not None:
        plan = getattr(model, "plan_", None)
        first = bool(getattr(plan, "choices", ())) and type(plan).__name__ == "AutoPlan"
        of_which = " of the plan before its choices" if first else ""
        screen.print(f"Signal and noise{of_which}: {weighed}.")
    screen.print(f"Written: {output}", soft_wrap=True)


def fit_file(
    model: Any,
    data: str,
    domain: Domain | None,
    file_format: FileFormat,
    *,
    quiet: bool,
    held: bool = False,
) -> None:
    """Fit a classifier from a file, a folder of files, or a data set by name.

    `held`: whether the classifier needs all records in memory.
    """
    with progress_bar(quiet=quiet) as report, progress_listener(report):
        if domain is not None and (Path(data).is_dir() or is_data_file(data)):
            counted = partial(report, "Records counted")
            note_ignored(data, domain, file_format)
            bins = isinstance(model, mrf_matrix.PrivateForestClassifier)
            known = model.get_params(deep=False).get("n_records")
            advise(domain.coarser() if bins else domain, known)
            model.set_params(domain=domain)
            if held:
                model.fit(*options.read_records(data, domain, file_format))
            else:
                model.fit_stream(data, extra="ignore", progress=counted, file_format=file_format)
        else:
            records = load_dataset(data, domain, extra="ignore", file_format=file_format)
            model.set_params(domain=records.domain).fit(records.X, records.y)
