"""`mrf-matrix plan`: which kind of forest `fit` would take by itself, why, and each step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from mrf_matrix.cli.kinds import classifier
from mrf_matrix.cli.plans.plan_tables import memory_text
from mrf_matrix.cli.screen import VOLUME, advise, console, said, table, write_results
from mrf_matrix.planning import PrivatePlan, peak_bytes
from mrf_matrix.planning.plans.verdict import verdict_of
from mrf_matrix.release.step_table import folded

if TYPE_CHECKING:
    from mrf_matrix.domain import Domain
    from mrf_matrix.planning.plans.verdict import Verdict

EVEN = (
    "The first choice says how rare the rarer class is. The steps after it are those of even "
    "classes; of uneven ones others share the same rest."
)


def show_steps(
    schema: "Domain", label: str, settings: Mapping[str, Any], file: Path, *, as_json: bool
) -> "Verdict":
    """Plan the forest, print, and write the record; return what noise leaves."""
    is_auto = settings["kind"] == "auto"
    advise(schema.coarser() if is_auto else schema, settings["n_records"])
    made = classifier(settings).set_params(domain=schema).plan()
    verdict = verdict_of(made)
    figures = {
        "domain": label,
        **made.to_dict(),
        "steps": [one.to_dict(made.budget) for one in made.announced_steps],
        "signal_to_noise": str(verdict),
        "peak_bytes": peak_bytes(made.forest if is_auto else made),
    }
    record = json.dumps(figures, indent=2)
    if as_json:
        click.echo(record)
    else:
        screen = console()
        if is_auto:
            screen.print(kind_table(figures), figures["reason"], "", sep="\n")
        screen.print(share_table(figures))
        if isinstance(made, PrivatePlan) and made.balance is not None:
            screen.print(EVEN)
        screen.print(f"Signal and noise: {verdict}.")
        screen.print(f"Memory: {memory_text(figures)}.")
        screen.print("Nothing was spent and no record read: every figure is public.")
    write_results(record, file, None, as_json=as_json)
    return verdict


def kind_table(figures: Mapping[str, Any]) -> Table:
    """Show the kind that is taken between those of less and of more signal."""
    made = table(f"Kinds of forest for {figures['domain']}, before any data", "kind", "signal", "")
    below, above = figures["below"], figures["above"]
    if below is not None:
        made.add_row(below["forest"], f"up to {below['up_to']:,.0f}", "")
    signal = figures["signal"]
    made.add_row(figures["forest"], "" if signal is None else f"{signal:,.0f}", "taken")
    if above is not None:
        made.add_row(above["forest"], f"from {above['from']:,.0f}", "")
    made.columns[0].no_wrap, made.columns[0].overflow = False, "fold"
    return made


def share_table(figures: Mapping[str, Any]) -> Table:
    """List every step with its share of the budget."""
    title = f"Steps and their shares of {figures['claim']}"
    made = table(title, "step", "share", "sensitivity", "rms", words=1)
    steps = figures["steps"]
    first, rest, last = (steps, [], []) if said(VOLUME) == "verbose" else folded(steps)
    rows = [(step["measured"], f"{step['share']:.2%}", *_noise_of(step)) for step in first]
    if rest:
        share = sum(step["share"] for step in rest)
        rows.append((f"{len(rest)} more: mrf-matrix plan -v", f"{share:.2%}", "", ""))
    rows += [(step["measured"], f"{step['share']:.2%}", *_noise_of(step)) for step in last]
    for row in rows:
        made.add_row(*row)
    made.columns[0].no_wrap, made.columns[0].overflow = False, "fold"
    return made


def _noise_of(step: Mapping[str, Any]) -> tuple[str, str]:
    """Return sensitivity and noise in words; what a choice decides has neither."""
    if step["sensitivity"] is None:
        return "", "as chosen"
    rms = "a choice" if step["is_choice"] else f"{step['rms']:.4g} records"
    return f"{step['sensitivity']:.4g}", rms
