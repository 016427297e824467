"""Every rival and every candidate on the same splits: accuracy and calibration, in the same run.

Run one data set with ``pytest tests/benchmarks/test_rivals.py -k car --benchmark-only -s``, or all
of it with ``python tests/benchmarks/test_rivals.py [--only METHOD ...] [DATASET ...]``, which
prints the tables of docs/posterior.md. Two environment variables: `RIVALS_JSON`, the file that
figures are written to (and added to, when it is there; then the tables show all that it holds, and
``--show`` prints them without measuring), and `RIVALS_PYTHON`, an interpreter that has diffprivlib
0.6.6 and interpret-core (which need scikit-learn 1.5); without it both are left out.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console
from rival_data import NAMES, RivalData, load
from rival_methods import FOREIGN, OURS, WITHOUT_PRIVACY
from rival_runs import measured, measured_elsewhere
from rival_scores import read, record, table
from rival_tables import averages, comparison, defeats


class Runs(NamedTuple):
    """How often a data set is measured: splits, and noise draws of each split."""

    splits: int = 5
    draws: int = 2
    posterior_draws: int = 6


RUNS = {
    "nursery": Runs(3, 1, 4),
    "mushroom": Runs(3, 1, 4),
    "chess_krvskp": Runs(3, 2, 4),
    "adult": Runs(2, 1, 3),
    "a9a": Runs(2, 1, 2),
}
"""The larger sets; the others have the default. Posterior forests get more draws than the rest:
their figures are the ones that are claimed."""
BAND = 0.05
"""By how much a figure may miss what holds on average, at these few splits and draws."""
CLEAR = 0.02
"""By how much the methods that learn well at ε = 1 are ahead of the majority class there."""


def runs_of(name: str, method: str) -> tuple[int, int]:
    """Return splits and draws of a method on a data set."""
    asked = RUNS.get(name, Runs())
    ours = method.startswith("posterior forest")
    return asked.splits, asked.posterior_draws if ours else asked.draws


def suits(method: str, data: RivalData) -> bool:
    """Tell whether a rival takes the data: DP-EBM takes two classes; one-hot codes must differ."""
    if method.endswith("one-hot") and max(data.domain.sizes) == 2:
        return False
    return not method.startswith("DP-EBM") or data.domain.n_classes == 2


def study(name: str, path: Path | None = None, only=None, runs=None) -> dict[str, dict]:
    """Measure every method on a data set; record each as soon as it is known."""
    data = load(name)
    python = os.environ.get("RIVALS_PYTHON")
    found: dict[str, dict] = {}
    for method in (*WITHOUT_PRIVACY, *OURS, *FOREIGN):
        if (only and method not in only) or not suits(method, data):
            continue
        splits, draws = runs or runs_of(name, method)
        if method in FOREIGN:
            if not python:
                continue
            found[method] = measured_elsewhere(data, method, python, splits, draws)
        else:
            factory = {**WITHOUT_PRIVACY, **OURS}[method]
            found[method] = measured(data, factory, splits, draws, method in OURS)
        if path is not None:
            record(path, name, method, found[method])
    return found


def _path() -> Path | None:
    return Path(os.environ["RIVALS_JSON"]) if "RIVALS_JSON" in os.environ else None


def check(found: dict[str, dict]) -> None:
    """Fail where a budget of 1 teaches no more than the majority class, or more of it harms."""
    prior = found["majority class"]["inf"]["mean"]
    assert found["ExtraTrees, no privacy"]["inf"]["mean"] > prior
    for method, figures in found.items():
        if "1" not in figures:
            continue
        learns = method.startswith("posterior forest") or method == "private naive Bayes"
        assert figures["1"]["mean"] > prior + (CLEAR if learns else -BAND), method
        assert figures["2"]["mean"] > figures["0.1"]["mean"] - BAND, method


def show(kept: dict) -> None:
    """Print accuracies and calibration errors of all methods, and what the docs say of them."""
    for figure in ("mean", "ece"):
        Console(width=200).print(table(kept, figure))
    for part in (comparison, averages, defeats):
        print(part(kept), end="\n\n")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("at_hand")
def test_rivals(benchmark, name):
    found = benchmark.pedantic(study, args=(name, _path()), rounds=1)
    show({name: found})
    check(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--only", action="append")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    asked = parser.parse_args()
    names = [] if asked.show else asked.names or NAMES
    found = {name: study(name, _path(), asked.only) for name in names}
    show(read(path) if (path := _path()) else found)


if __name__ == "__main__":
    main()
