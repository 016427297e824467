"""The program `mrf-matrix`, called in this process."""

from collections.abc import Iterator
from importlib.metadata import entry_points

import click
from click.testing import CliRunner, Result

(_door,) = entry_points(group="console_scripts", name="mrf-matrix")
PROGRAM = _door.load()


def run(*words: object, **options: object) -> Result:
    """Return what a call with some words printed, and its exit code."""
    return CliRunner().invoke(PROGRAM, [str(one) for one in words], **options)


def told(done: Result) -> str:
    """Return all that was printed, on one line."""
    return " ".join(done.output.split())


def commands(
    group: click.Group = PROGRAM, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command
