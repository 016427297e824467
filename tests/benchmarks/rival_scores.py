"""What a run of the rival benchmark records: accuracies, calibration errors, a file and a table."""

import json
import os
from pathlib import Path

import numpy as np
from rich.table import Table


def summary(runs: list[dict]) -> dict:
    """Return mean and standard error of the accuracy, and every run.

    The standard error is that of the means of the splits, whose draws share their records; with
    one split only, that of the draws.
    """
    accuracies = [run["accuracy"] for run in runs]
    splits = sorted({run["split"] for run in runs})
    means = [np.mean([r["accuracy"] for r in runs if r["split"] == split]) for split in splits]
    units = means if len(means) > 1 else accuracies
    error = np.std(units, ddof=1) / np.sqrt(len(units)) if len(units) > 1 else float("nan")
    return {
        "mean": float(np.mean(accuracies)),
        "se": float(error) if np.isfinite(error) else None,
        "ece": float(np.mean([run["ece"] for run in runs])),
        "runs": accuracies,
        "ece_runs": [run["ece"] for run in runs],
        "splits": [run["split"] for run in runs],
        "seeds": [run["seed"] for run in runs],
    }


def read(path: Path) -> dict:
    """Return what is recorded, or nothing."""
    return json.loads(path.read_text()) if path.is_file() else {}


def record(path: Path, name: str, method: str, found: dict[str, dict]) -> None:
    """Put one method's summaries on one data set beside what is recorded already."""
    kept = read(path)
    kept.setdefault(name, {})[method] = found
    waiting = path.with_suffix(".part")
    waiting.write_text(json.dumps(kept, indent=1))
    os.replace(waiting, path)


def table(kept: dict, figure: str = "mean") -> Table:
    """Return the recorded figures as a table: a row a method, a column a data set.

    A cell holds the figure at every ε in rising order; methods without privacy have one.
    """
    rows = list(dict.fromkeys(method for found in kept.values() for method in found))
    shown = Table("method", *kept, title={"mean": "accuracy", "ece": "calibration error"}[figure])
    for method in rows:
        cells = []
        for found in kept.values():
            figures = found.get(method, {})
            cells.append(" ".join(f"{figures[e][figure]:.3f}"[1:] for e in sorted(figures)))
        shown.add_row(method, *cells)
    return shown
