"""The command `mrf-matrix`: each subcommand parses, calls and prints; no mathematics here."""

from importlib import import_module
from typing import Any

import click

from mrf_matrix.cli.plain_numbers import read_plainly
from mrf_matrix.cli.plain_speech import plain_errors, speak_any_encoding

COMMANDS = {
    "domain": "Write, check and show the public domain: which records can exist at all.",
    "compare": "Compare noise allocations on a data set, beside forests without privacy.",
    "plan": "Plan a release from its public domain: expected error, sizes, flips; reads no data.",
    "tune": "Choose depth, trees, splits, strategy and voting without data.",
    "fit": "Train a private forest on a file of records and write a model file.",
    "predict": "Predict the classes of a file of records from a model file.",
    "evaluate": "Evaluate a model on private test records: noisy counts, figures with intervals.",
    "report": "Report what a model released, on one page for whoever answers for it.",
    "federate": "Rehearse a release by several parties: noise in shares, sums under masks.",
    "ledger": "Start or show a privacy ledger that several releases share.",
    "datasets": "List the data sets known by name.",
}


ROOMS = {
    "domain": "domains.commands",
    "plan": "plans.plan",
    "tune": "plans.tune",
    "report": "pages.report",
}
"""Files of subcommands that are not called as they are."""


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand by its name."""
        if cmd_name not in COMMANDS:
            return None
        home = ROOMS.get(cmd_name, cmd_name)
        command: click.Command = import_module(f"mrf_matrix.cli.{home}").command
        return read_plainly(command)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, whose output takes every character."""
        speak_any_encoding()
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the program's own options."""
        with plain_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand."""
        with plain_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands with their one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mrf-matrix")
def main() -> None:
    """Allocate noise in private forests: compare strategies, plan, release."""
