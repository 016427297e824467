"""The command `mrf-matrix`: each subcommand parses, calls and prints; no mathematics here."""

import codecs
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from mrf_matrix.base import escape_controls
from mrf_matrix.base.checks import shorten
from mrf_matrix.cli.number_options import use_plain_numbers

JSON_ESCAPES = "mrf_matrix.json"
"""The rule of characters that an encoding lacks: they are written as JSON writes them."""


def accept_any_encoding() -> None:
    r"""Let standard output and error take every character, whatever their encoding.

    What the encoding lacks is written as ``\u03b5``: readable, and the same value in JSON.
    """
    codecs.register_error(JSON_ESCAPES, json_escapes)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=JSON_ESCAPES)


def json_escapes(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that could not be encoded, as JSON writes them, and where they end."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def encodable_text(text: str) -> str:
    """Return a text as standard error can print it."""
    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    return text.encode(encoding, JSON_ESCAPES).decode(encoding)


@contextmanager
def escape_errors() -> Iterator[None]:
    """Let what errors quote from files and arguments be short, and not act on the terminal."""
    try:
        yield
    except click.ClickException as error:
        vars(error).update(
            message=encodable_text(shorten(escape_controls(error.message, keep="\n")))
        )
        raise


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


HOMES = {"ledger": ("report", "show_ledger"), "datasets": ("domain", "show_datasets")}
"""File and function of subcommands that are not ``command`` in a file of their own name."""


class LazyGroup(click.Group):
    """A group that imports a subcommand's module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        home, name = HOMES.get(cmd_name, (cmd_name, "command"))
        command: click.Command = getattr(import_module(f"mrf_matrix.cli.{home}"), name)
        return use_plain_numbers(command)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, whose output takes every character."""
        accept_any_encoding()
        return super().main(*args, **kwargs)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the program's own options."""
        with escape_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        with escape_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands with their one line each, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(package_name="mrf-matrix")
def main() -> None:
    """Allocate noise in private forests: compare strategies, plan, release."""
