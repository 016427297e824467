"""What a run of the rival benchmark records: figures of every fit, a file that grows, a table."""

import json
import os
from pathlib import Path

import numpy as np
from rich.table import Table

from mrf_matrix.study.calibration import METRICS

DIGITS = 4


def summary(runs: list[dict]) -> dict:
    """Return mean and standard error of the accuracy, and every run's figures.

    The standard error is that of the means of the splits, whose draws share their records; with
    one split only, that of the draws.
    """
    accuracies = [run["accuracy"] for run in runs]
    splits = sorted({run["split"] for run in runs})
    means = [np.mean([r["accuracy"] for r in runs if r["split"] == split]) for split in splits]
    units = means if len(means) > 1 else accuracies
    error = np.std(units, ddof=1) / np.sqrt(len(units)) if len(units) > 1 else float("nan")
    figures = {name: [_short(run[name]) for run in runs] for name in (*METRICS, "seconds")}
    return {
        "mean": round(float(np.mean(accuracies)), DIGITS + 1),
        "se": round(float(error), DIGITS + 1) if np.isfinite(error) else None,
        "split": [run["split"] for run in runs],
    } | figures


def mean_of(found: dict, figure: str) -> float:
    """Return the mean of a figure over one method's runs at one ε; NaN where it has none."""
    known = [one for one in found[figure] if one is not None]
    return float(np.mean(known)) if known else float("nan")


def read(path: Path) -> dict:
    """Return what is recorded, or nothing."""
    return json.loads(path.read_text()) if path.is_file() else {}


def record(path: Path, name: str, method: str, found: dict[str, dict]) -> None:
    """Put one method's summaries on one data set beside what is recorded already, in a line."""
    kept = read(path)
    kept.setdefault(name, {})[method] = found
    sets = (
        f"{json.dumps(one)}: {{\n"
        + ",\n".join(
            f"{json.dumps(key, ensure_ascii=False)}: {json.dumps(value)}"
            for key, value in methods.items()
        )
        + "\n}"
        for one, methods in kept.items()
    )
    waiting = path.with_suffix(".part")
    waiting.write_text("{\n" + ",\n".join(sets) + "\n}\n")
    os.replace(waiting, path)


def table(kept: dict, figure: str = "accuracy") -> Table:
    """Return the recorded figures as a table: a row a method, a column a data set.

    A cell holds the mean at every ε in rising order; methods without privacy have one.
    """
    rows = list(dict.fromkeys(method for found in kept.values() for method in found))
    shown = Table("method", *kept, title=METRICS[figure])
    for method in rows:
        cells = []
        for found in kept.values():
            figures = found.get(method, {})
            means = (mean_of(figures[e], figure) for e in sorted(figures, key=float))
            cells.append(" ".join(f"{one:.3f}".removeprefix("0") for one in means))
        shown.add_row(method, *cells)
    return shown


def _short(figure: float | None) -> float | None:
    return None if figure is None else round(figure, DIGITS)
