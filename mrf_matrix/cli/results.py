"""What a subcommand leaves in a folder: its record, its pictures, and a line that names them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mrf_matrix.base import whole_file
from mrf_matrix.cli.screen import console

Pictures = Callable[[], Mapping[str, Any]]
"""Makes the displays by their file names; raises ImportError without matplotlib."""


def write_results(record: str, file: Path, pictures: Pictures | None, *, as_json: bool) -> None:
    """Write the record, draw the pictures beside it, and say what was written.

    Parameters
    ----------
    record
        The record as JSON.
    file
        File of the record; its folder is made.
    pictures
        What makes the pictures; None draws none.
    as_json
        Whether standard output carries the record already, and nothing else may go there.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(file) as whole:
        whole.write(f"{record}\n".encode())
    files = [file, *([] if pictures is None else draw(pictures, file.parent))]
    console(stderr=as_json).print(
        "Written: " + ", ".join(map(str, files)), markup=False, soft_wrap=True
    )


def draw(pictures: Pictures, folder: Path) -> list[Path]:
    """Draw pictures into the folder; without matplotlib, say so."""
    try:
        drawn = pictures()
    except ImportError as missing:
        console(stderr=True).print(f"No pictures: {missing}")
        return []
    for name, picture in drawn.items():
        with whole_file(folder / name) as whole:
            picture.figure_.savefig(whole, dpi=150, format=Path(name).suffix[1:])
    return [folder / name for name in drawn]
