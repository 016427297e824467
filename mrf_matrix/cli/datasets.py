"""`mrf-matrix datasets`: what `load_dataset` knows by name."""

import json

import click

from mrf_matrix.cli.screen import console, table
from mrf_matrix.datasets import list_datasets


@click.command(name="datasets")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(as_json: bool) -> None:
    """List the data sets known by name, with source and licence."""
    rows = list_datasets()
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    listing = table("Data sets", "name", "records", "attributes", "classes", "cells")
    for row in rows:
        listing.add_row(
            row.name,
            str(row.n_records),
            str(row.n_attributes),
            str(row.n_classes),
            f"{row.n_cells:,}" if row.n_cells < 10**9 else f"{row.n_cells:.2g}",
        )
    console().print(listing)
    for row in rows:
        console().print(f"{row.name}: {row.source}; {row.licence}")
