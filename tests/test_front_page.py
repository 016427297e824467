"""README's table of strategies, and its picture, are what this library finds and certifies.

``python tests/test_front_page.py`` prints the table and draws the picture anew.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mrf_matrix import Attribute, Domain, RandomTrees, load_dataset, path_matrix
from mrf_matrix.plotting import MatrixDisplay
from strategies import examples, select
from strategies.operators import Norm, Operator

README = Path(__file__).resolve().parents[1] / "README.md"
PICTURE = README.parent / "docs" / "_static" / "matrices.png"
ADULT = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
NORMS: tuple[Norm, ...] = ("l1", "l2")
HEAD = (
    "| workload W | rows × cells | bound | Laplace noise: loss, and over the bound "
    "| Gaussian noise: loss, and over the bound |\n|---|---|---|---|---|"
)
CLOSE = 0.02
"""Descents may end a little elsewhere on another processor."""


def leaves_of_car() -> Operator:
    domain = load_dataset("car").domain
    return path_matrix(RandomTrees(n_trees=128, max_depth=4).grow(domain, random_state=0))


WORKLOADS: dict[str, Callable[[], Operator]] = {
    "leaves of 128 random trees over Car": leaves_of_car,
    "64 prefix sums": lambda: examples.prefix_sums(64),
    "all ranges of 64 cells": lambda: examples.all_ranges(64),
    "two-way tables over Adult's sizes": lambda: examples.marginals(ADULT, 2),
    "a census: union of products": examples.census_like,
}


def cells_of(name: str) -> list[str]:
    """Return the cells of one row of the table."""
    workload = WORKLOADS[name]()
    found = [select(workload, norm, random_state=0) for norm in NORMS]
    rows, cells = workload.shape
    shape = f"{rows:,} × {cells:,}" if cells < 10**9 else f"{rows:,} × {cells:.1e}"
    reached = [f"`{one.method}` {one.loss:,.0f} ({one.certified_ratio:.2f} ×)" for one in found]
    return [name, shape, f"{min(one.lower_bound for one in found):,.0f}", *reached]


def numbers(cell: str) -> list[float]:
    """Return the numbers of a cell, without the family's name."""
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,.]*", cell.split("`")[-1])]


def written_rows() -> dict[str, list[str]]:
    _, table = README.read_text("utf-8").split(HEAD)
    lines = [line for line in table.split("\n\n")[0].splitlines() if line]
    return {
        cells[0]: cells for cells in ([*map(str.strip, line[1:-1].split("|"))] for line in lines)
    }


def test_the_table_has_a_row_for_each_workload() -> None:
    assert list(written_rows()) == list(WORKLOADS)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_row_says_what_is_found(name: str) -> None:
    written, found = written_rows()[name], cells_of(name)
    assert written[1] == found[1]
    for told, computed in zip(written[2:], found[2:], strict=True):
        assert numbers(told) == pytest.approx(numbers(computed), rel=CLOSE)
        assert told.split("`")[1:2] == computed.split("`")[1:2]


def leaves_of_days() -> Operator:
    """Return T of the forest on README."""
    outlook = Attribute("outlook", categories=["sunny", "overcast", "rainy"])
    others = [Attribute(name, categories=["no", "yes"]) for name in ("windy", "humid")]
    domain = Domain([outlook, *others])
    return path_matrix(RandomTrees(n_trees=3, max_depth=2).grow(domain, random_state=0))


def picture() -> MatrixDisplay:
    T = leaves_of_days()
    A = select(T, norm="l2", random_state=0)
    drawn = {"T": T, "A": A.matrix, "T A⁺": A.reconstruction(T)}
    sides = {"T": ("", "cell"), "A": ("measurement", "cell"), "T A⁺": ("leaf", "measurement")}
    return MatrixDisplay(drawn, sides).plot()


def test_the_picture_shows_what_readme_says_of_it() -> None:
    shown = picture()
    assert [one.get_title() for one in shown.axes_] == ["T, 18 × 12", "A, 12 × 12", "T A⁺, 18 × 12"]
    assert PICTURE.is_file()
    assert select(leaves_of_days(), norm="l2", random_state=0).certified_ratio < 1 + 1e-6


if __name__ == "__main__":
    picture().figure_.savefig(PICTURE, dpi=90)
    print(HEAD, *("| " + " | ".join(cells_of(name)) + " |" for name in WORKLOADS), sep="\n")
