"""Option types that several subcommands share."""

from fractions import Fraction

import click


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
