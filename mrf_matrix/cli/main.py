"""The command `mrf-matrix`: each subcommand parses, calls and prints; no mathematics here."""

import sys
from importlib import import_module
from io import TextIOWrapper

import click

from mrf_matrix.base import escaped

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
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a subcommand; what its errors quote from files cannot act on the terminal.

        Letters that a screen of another encoding lacks are written as escapes: no command fails
        for them.
        """
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error).update(message=escaped(error.message, keep="\n"))
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands with their one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mrf-matrix")
def main() -> None:
    """Allocate noise in private forests: compare strategies, plan, release."""
