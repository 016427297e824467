"""Fields of a file's JSON: of the expected keys, type and size, or refused by name."""

from typing import Any

from mrf_matrix.mechanisms.files.container import ContainerError

LONGEST = 5000


def checked_object(data: Any, keys: set[str], where: str) -> dict[str, Any]:
    """Refuse anything but an object with exactly these keys."""
    if not isinstance(data, dict) or set(data) != keys:
        raise ContainerError(f"{where}: expected an object with the keys {sorted(keys)}.")
    return data


def checked_version(data: dict[str, Any], name: str, version: int) -> None:
    """Refuse a file of another format, or of another version of it."""
    if data["format"] != name:
        raise ContainerError(f"format: expected {name!r}.")
    found = data["schema_version"]
    if type(found) is not int or found != version:
        raise ContainerError(
            f"schema_version={str(found)[:20]}: this mrf_matrix reads {version}; a later one may "
            f"read it."
        )


def line_of_text(data: Any, where: str, longest: int = LONGEST) -> str:
    """Return a line of text; control characters could act on the reader's terminal."""
    if not isinstance(data, str) or len(data) > longest or not data.isprintable():
        raise ContainerError(f"{where}: expected a line of at most {longest} characters.")
    return data
