"""The command that trains what a search chose."""

import shlex
from pathlib import Path
from typing import Any

OPTIONS = {
    "epsilon": "--epsilon",
    "rho": "--rho",
    "neighboring": "--neighboring",
    "n_records": "--records",
    "n_blocks": "--blocks",
    "n_trees": "--trees",
    "max_depth": "--depth",
    "splits": "--splits",
    "strategy": "--strategy",
    "voting": "--voting",
    "n_ensembles": "--ensembles",
    "max_features": "--max-features",
    "random_state": "--seed",
    "time_limit": "--time-limit",
}
"""Parameters of classifiers, and the options of `mrf-matrix fit` that set them."""


def fit_line(found: Any, domain: str) -> str | None:
    """Return the command that trains the best design; None where `fit` has no such mode.

    Parameters
    ----------
    found : Tuning
    domain : str
        A domain file, or the name of a data set, as it was given to `mrf-matrix tune`.
    """
    if found.mode not in ("training", "posterior"):
        return None
    known = Path(domain).suffix == ""
    words = ["mrf-matrix", "fit", *([domain] if known else ["RECORDS.csv", "--domain", domain])]
    if found.mode == "posterior":
        words += ["--method", "posterior"]
    for name, option in OPTIONS.items():
        value = found.best_params.get(name)
        if value not in (None, "auto"):  # what is chosen where nothing is said
            words += [option, str(value)]
    return shlex.join([*words, "--output", "model.mrf"])
