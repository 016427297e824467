"""Bad input ends a command with one line that says what to change, not with a traceback."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click


def user_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the library's input errors into click's, which print as one line."""

    @wraps(call)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except BrokenPipeError:  # the reader has seen enough, as in `... | head`: click knows how
            raise
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise click.ClickException(str(error)) from error

    return guarded
