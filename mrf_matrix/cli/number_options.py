"""Options that are numbers: what may be typed, and what is refused as a slip of the pen.

Nothing here loads NumPy: ``mrf-matrix --help`` imports it.
"""

import re
from fractions import Fraction
from typing import Any

import click

from mrf_matrix.base.checks import short_repr

WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
NUMBER = re.compile(r"[+-]?([0-9]{1,400}\.?[0-9]{0,400}|\.[0-9]{1,400})([eE][+-]?[0-9]{1,4})?")
LARGEST = 10**15


class PlainNumber(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A number of another type, whose text is checked before it is read.

    Python reads ``1_0`` as ten, digits of every script, ``nan`` and ``inf``, and numbers of any
    length: as an option each is a slip.
    """

    def __init__(self, kind: "click.ParamType[Any]") -> None:
        self.kind, self.name = kind, kind.name
        self.is_whole = isinstance(kind, click.types.IntParamType)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or say what was expected."""
        if isinstance(value, str):
            if not (WHOLE if self.is_whole else NUMBER).fullmatch(value.strip()):
                what = "whole number such as 10" if self.is_whole else "finite number such as 0.5"
                self.fail(f"{short_repr(value)}: expected a {what}.", param, ctx)
            if not abs(float(value)) <= LARGEST:
                self.fail(f"{short_repr(value)}: expected at most 10^15 in size.", param, ctx)
        return self.kind.convert(value, param, ctx)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["kind"], name)  # ends of a range, for the help


def use_plain_numbers(command: click.Command) -> click.Command:
    """Let every option of a command and its subcommands that is a number be a `PlainNumber`."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType | click.types.FloatParamType):
            parameter.type = PlainNumber(parameter.type)
    for inner in getattr(command, "commands", {}).values():
        use_plain_numbers(inner)
    return command


def number_text(text: str) -> str:
    """Return the text of a plain, finite number.

    Raises ValueError if it is none.
    """
    if NUMBER.fullmatch(text.strip()) is None:
        raise ValueError(f"{short_repr(text)} is no plain number")
    return text


def comma_floats(ctx: click.Context, param: click.Parameter, value: str) -> list[float]:
    try:
        return [float(number_text(piece)) for piece in value.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r}: expected numbers separated by commas, for example 0.1,0.5,1,2"
        ) from error


def exact_number(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Fraction | float | str | None:
    """Parse a positive budget as it is written: 1, 0.5, 1/3; "auto" where targets decide it."""
    if value is None:
        return None
    if value == "auto" and "target_rms" in {option.name for option in ctx.command.params}:
        return value
    try:
        parts = [number_text(part) for part in value.split("/")]
        number = Fraction(value) if len(parts) > 1 else float(parts[0])
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(
            f"{short_repr(value)}: expected a finite number such as 1, 0.5 or 1/3"
        ) from error
    if not 0 < number < float("inf"):
        raise click.BadParameter(f"{short_repr(value)}: expected a positive, finite number")
    return number
