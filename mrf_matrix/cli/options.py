"""Option types that several subcommands share."""

from fractions import Fraction

import click

VOTINGS = ("hard", "weight", "product", "shares", "posterior")
SHRINKAGES = ("none", "votes", "leaves")
"""As in `mrf_matrix.estimators`, which is not imported for a list of words."""


def comma_floats(ctx: click.Context, param: click.Parameter, value: str) -> list[float]:
    """Parse numbers separated by commas."""
    try:
        return [float(piece) for piece in value.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r}: expected numbers separated by commas, for example 0.1,0.5,1,2"
        ) from error


def exact_number(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> Fraction | float | None:
    """Parse a positive budget as it is written: 1, 0.5, 1/3."""
    if value is None:
        return None
    try:
        number = Fraction(value) if "/" in value else float(value)
    except (ValueError, ZeroDivisionError) as error:
        raise click.BadParameter(f"{value!r}: expected a number such as 1, 0.5 or 1/3") from error
    if not 0 < number < float("inf"):
        raise click.BadParameter(f"{value!r}: expected a positive, finite number")
    return number


def depth_or_auto(ctx: click.Context, param: click.Parameter, value: str) -> int | str:
    """Parse a depth: a whole number, or "auto"."""
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: expected a whole number, or auto") from error
