"""Pictures of the records, as small SVG files."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl
from catalogue import BY_NAME
from record import Record

from mrf_matrix.plotting.style import GREY, load_pyplot

# Texts stay texts, and neither dates nor random names change a file that says the same.
PLAIN = {"svg.fonttype": "none", "svg.hashsalt": "reproduction"}


def draw(records: Iterable[Record], folder: Path) -> None:
    """Draw the picture of each record whose item has one."""
    plt = load_pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    for record in records:
        picture = BY_NAME[record.item].picture if record.item in BY_NAME else None
        if picture is None or not record.parts:
            continue
        with mpl.rc_context(PLAIN), suppress(KeyError):  # of parts that are not measured
            figure = picture(record.table)
            figure.supxlabel(record.words["privacy"], fontsize=7, color=GREY)
            figure.savefig(folder / f"{record.item}.svg", metadata={"Date": None})
        plt.close("all")
