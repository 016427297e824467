"""Every rival and every candidate on the same splits: accuracy, probabilities, time.

``python tests/benchmarks/test_rivals.py`` measures what is not yet in `rivals.json` beside this
file, then prints the tables of docs/private/accuracy.md, with more figures, and draws its picture.
Rivals are installed when they are first asked for, each in an environment of its own
(`rival_environments`).

Options: ``--fresh`` does so for KEEL's sets, on which nothing was chosen, in `fresh.json`;
``--show`` measures nothing; ``--only METHOD`` (repeated) and names of data sets restrict
what is measured; ``--again`` measures it though it is recorded; ``--ours`` leaves rivals out;
``--splits`` and ``--draws`` say how often (docs/posterior.md: 5 and 6); ``--records FILE`` keeps
another file; ``--picture FILE`` draws there. One data set under pytest: ``pytest
tests/benchmarks/test_rivals.py -k car --benchmark-only -s``.
"""

import argparse
from pathlib import Path

import pytest
from rich.console import Console
from rival_data import NAMES, RivalData
from rival_environments import python_for
from rival_methods import FOREIGN, OURS, WITHOUT_PRIVACY
from rival_private import PICTURE, draw, private_tables
from rival_runs import measured, measured_elsewhere
from rival_scores import mean_of, read, record, table
from rival_sets import ALL, BINARY, FRESH, MST_SETS, load_set
from rival_speed import speed_table, timed
from rival_tables import averages, comparison, defeats

RECORDS = Path(__file__).with_name("rivals.json")
FRESH_RECORDS = Path(__file__).with_name("fresh.json")
BAND = 0.05
"""By how much a figure may miss what holds on average, at these few splits and draws."""
CLEAR = 0.02
"""By how much the methods that learn well at ε = 1 are ahead of the majority class there."""


def suits(method: str, data: RivalData) -> bool:
    """Tell whether a method is measured on the data.

    Explainable boosting takes two classes; one-hot codes must differ; the paper's forests have
    settings for `NAMES`; synthetic data cost minutes, and are made of some.
    """
    if method.endswith("one-hot") and max(data.domain.sizes) == 2:
        return False
    if method.startswith("M-RF") or "N not public" in method:
        return data.name in NAMES
    if method.startswith("MST"):
        return data.name in MST_SETS
    return not method.startswith("DP-EBM") or data.domain.n_classes == 2


def study(
    name: str, path: Path | None = None, only=None, runs=(3, 1), *, again=False, install=False
) -> dict[str, dict]:
    """Measure every method on a data set; record each as soon as it is known."""
    data, splits, draws = load_set(name), *runs
    kept = {} if path is None or again else read(path).get(name, {})
    found: dict[str, dict] = {}
    for method in (*WITHOUT_PRIVACY, *OURS, *FOREIGN):
        if (only and method not in only) or method in kept or not suits(method, data):
            continue
        if method in FOREIGN:
            python = python_for(method, make=install)
            if python is None:
                continue
            once = 1 if method.startswith("MST") else splits
            found[method] = measured_elsewhere(data, method, python, once, draws)
        else:
            factory = {**WITHOUT_PRIVACY, **OURS}[method]
            found[method] = measured(data, factory, splits, draws, method in OURS)
        if path is not None:
            record(path, name, method, found[method])
            print(f"{name}: {method}", flush=True)
    return found


def check(found: dict[str, dict]) -> None:
    """Fail where a budget of 1 teaches no more than the majority class, or more of it harms."""
    prior = mean_of(found["majority class"]["inf"], "accuracy")
    assert mean_of(found["ExtraTrees, no privacy"]["inf"], "accuracy") > prior
    for method, figures in found.items():
        if "1" not in figures:
            continue
        learns = method.startswith("posterior forest") or method == "private naive Bayes"
        low, middle, high = (mean_of(figures[e], "accuracy") for e in ("0.1", "1", "2"))
        assert middle > prior + (CLEAR if learns else -BAND), method
        assert high > low - BAND, method


def show(kept: dict) -> None:
    """Print accuracies and calibration errors of all methods, and what docs say of the ten sets."""
    for figure in ("accuracy", "calibration"):
        Console(width=200).print(table(kept, figure))
    for part in (comparison, averages, defeats):
        print(part(kept), end="\n\n")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("at_hand")
def test_rivals(benchmark, name):
    found = benchmark.pedantic(study, args=(name,), rounds=1)
    show({name: found})
    check(found)


def main() -> None:
    """Measure what is missing, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--only", action="append")
    parser.add_argument("--ours", action="store_true")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    asked = parser.parse_args()
    records = asked.records or (FRESH_RECORDS if asked.fresh else RECORDS)
    only = asked.only or ([*WITHOUT_PRIVACY, *OURS] if asked.ours else None)
    if not asked.show:
        for name in asked.names or (FRESH if asked.fresh else ALL):
            runs = (asked.splits, asked.draws)
            study(name, records, only, runs, again=asked.again, install=True)
        if not asked.fresh:
            timed(records, only, again=asked.again)
    kept = read(records)
    if asked.fresh:
        print(private_tables(kept))
        return
    show({name: found for name, found in kept.items() if name in NAMES})
    print(private_tables(kept), speed_table(kept), sep="\n\n")
    draw({name: kept[name] for name in BINARY if name in kept}, asked.picture)


if __name__ == "__main__":
    main()
