"""Option types that several subcommands share."""

import click


def comma_floats(ctx: click.Context, param: click.Parameter, value: str) -> list[float]:
    """Parse numbers separated by commas."""
    try:
        return [float(piece) for piece in value.split(",")]
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r}: expected numbers separated by commas, for example 0.1,0.5,1,2"
        ) from error
