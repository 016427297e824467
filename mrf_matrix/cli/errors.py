"""Bad input ends a command with one line that says what to change, not with a traceback."""

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from mrf_matrix.base import escape_controls
from mrf_matrix.base.kinds import KINDS
from mrf_matrix.cli.screen import NO_COLOR, VOLUME

OURS = tuple(str(Path(__file__).parents[2] / name) for name in ("mrf_matrix", "strategies"))
"""Where code lives whose messages show no private value."""

PRINTED_ERRORS = (ValueError, TypeError, ImportError, RuntimeError)
"""Errors whose text is printed where our own code raised them."""

READERS = ("polars", "narwhals", "pyarrow", "pandas", "sklearn")
"""Packages that read records, and whose words may quote them."""

WARNING = (
    "--debug: what follows may show private values. Keep it off logs, screenshots and bug reports."
)


def user_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors of input, readers and memory into click's, which print as one line.

    Adds the option --debug, which shows the traceback and the values at fault as well. Any other
    error is a bug and propagates.
    """

    @wraps(call)
    def call_guarded(*args: Any, debug: bool, volume: str, no_color: bool, **kwargs: Any) -> Any:
        click.get_current_context().meta.update({VOLUME: volume, NO_COLOR: no_color})
        with one_line_errors(debug):
            return call(*args, **kwargs)

    for option in (
        click.option(
            "--debug",
            is_flag=True,
            help="Show an error's traceback and the values at fault, which may be private.",
        ),
        click.option("--no-color", is_flag=True, help="Print no colours, as NO_COLOR=1 does."),
        click.option("-q", "--quiet", "volume", flag_value="quiet", help="No notes, no progress."),
        click.option("-v", "--verbose", "volume", flag_value="verbose", help="Every step, timed."),
    ):
        call_guarded = option(call_guarded)
    return call_guarded


@contextmanager
def one_line_errors(debug: bool) -> Iterator[None]:
    """Turn an error into one line; with ``debug`` its traceback and values come first."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise  # click knows how; a broken pipe is a reader that has seen enough, as in `... | head`
    except Exception as error:
        line = error_line(error)
        if line is None:
            raise
        if debug:
            print_traceback(error)
        raise click.ClickException(line) from None


def error_line(error: Exception) -> str | None:
    """Return the line printed for an error, without any record's value; None for a bug."""
    kind = type(error).__name__
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, PRINTED_ERRORS) and is_ours(error):
        return to_option_words(" ".join(str(error).split()))
    if isinstance(error, MemoryError):
        return "Out of memory: give fewer trees, less depth, a smaller domain or fewer records."
    if isinstance(error, OverflowError):
        if is_ours(error) and str(error).endswith("."):  # Python's own name nothing
            return to_option_words(" ".join(str(error).split()))
        return "A number is too large: give smaller ones. --debug shows where."
    package = type(error).__module__.partition(".")[0]
    if package in READERS:
        return f"{package} cannot read the data ({kind}). --debug shows its own words."
    if isinstance(error, PRINTED_ERRORS):
        return f"The input cannot be used ({kind}). --debug shows where, and why."
    return None


LESS_MEMORY = (
    'Group codes in the domain file ("groups"), leave attributes out, or of trees give less of '
    "--n-trees and --max-depth."
)
"""Remedy for the memory cap at the command line."""

OPTION_WORDS = {
    "The values at fault are in the error's attribute values, which no message shows.": (
        "--debug shows them."
    ),
    "named in the error's attribute values": "which --debug shows",
    "is in the error's attribute values": "--debug shows",
    "stand in the error's attribute values": "--debug shows",
    "Take fewer or coarser attributes, fewer trees or less depth, or raise the cap with "
    "strategies.operators.memory_cap(bytes).": LESS_MEMORY,
    ", or raise the cap with strategies.operators.memory_cap(bytes)": "",
    "a claim by rho= or delta=,": "a claim by --rho or --delta,",
    "expected epsilon= and delta=0,": "expected --epsilon without --delta,",
    "PrivacyLedger(epsilon=..., delta=...) or PrivacyLedger(rho=...)": (
        "mrf-matrix ledger FILE with --epsilon and --delta, or with --rho"
    ),
    "outside='open'": '"outside": "open"',
    "unknown='other'": '"unknown": "other"',
    "missing='category'": '"missing": "category"',
    ", in file_format=FileFormat(...)": "",
    " in file_format=FileFormat(...)": "",
    ", the other None": "",
    ", or float('inf') for no noise": "",
    "a Method of your own, or one of": "one of",
    "set_params(ledger=PrivacyLedger.open(path))": "--ledger FILE",
    "PrivacyLedger.open(path, epsilon=1)": "mrf-matrix ledger FILE --epsilon 1",
    "n_trees or max_depth": "--n-trees or --max-depth",
    "target_rms:": "--target-rms:",
    "method=": "--strategy ",
    **{f"kind={word!r}": f"--kind {word}" for word in KINDS},
    "expected epsilon= (pure DP, Laplace noise) or rho= (zCDP": (
        "expected --epsilon (pure DP, Laplace noise) or --rho (zCDP"
    ),
    "Frames are matched by column name: rename the columns, or pass a NumPy array, matched by "
    "position.": "Columns are matched by name: rename them.",
    "domain='from_data'": "domain='from_data' in Python",
}
"""Python's words in errors, and what the command line says for them."""


ARGUMENT = re.compile(r"(?<![\w.(\"'-])([a-z][a-z_]*)=(?!'from_data')(?=([\w'\"\[-])?)")
"""An argument of Python in a sentence, and not within a call."""

AMOUNTS = ("epsilon", "rho", "delta")
"""What is an option where a message begins with it, and else a budget."""


def to_option_words(line: str) -> str:
    """Return an error in the words of options and domain files."""
    for python, words in OPTION_WORDS.items():
        line = line.replace(python, words)
    line = re.sub(r"^strict: ", "--strict: ", line)
    return ARGUMENT.sub(_option_name, line)


def _option_name(found: re.Match[str]) -> str:
    """Return an argument of Python as the option of the command that has its name, if any."""
    before = found.string[: found.start()]
    if found[1] in AMOUNTS and not re.fullmatch(r"(\w+=\S+ and )?", before):
        return found[0]  # of a ledger, say
    name = "--" + found[1].replace("_", "-")
    context = click.get_current_context(silent=True)
    params = () if context is None else context.command.params
    known = any(name in one.opts for one in params)
    return name + " " * (found[2] is not None) if known else found[0]


def is_ours(error: BaseException) -> bool:
    """Tell whether our own code raised an error, rather than a library that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and frames[-1].filename.startswith(OURS)


def print_traceback(error: Exception) -> None:
    """Print the traceback and the values at fault, below a warning, to standard error."""
    click.echo(WARNING, err=True)
    told = "".join(traceback.format_exception(error))
    click.echo(escape_controls(told, keep="\n"), file=sys.stderr)
    values = getattr(error, "values", ())
    if isinstance(values, tuple) and values:
        click.echo("Values at fault: " + ", ".join(map(repr, values)), err=True)
