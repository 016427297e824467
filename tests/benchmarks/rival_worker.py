"""Run a rival under the interpreter that has it: ``python rival_worker.py IN.npz OUT.npz METHOD``.

IN holds ``codes``, ``labels``, ``train``, ``test``, ``sizes``, ``ordered``, ``n_classes``,
``epsilons`` and ``seeds`` (one fit for each); OUT gets ``shares``, (fits, test records, classes).
Needs NumPy and the rival only.
"""

import sys
import warnings

import numpy as np


def diffprivlib_forest(task, epsilon, seed):
    """Ten trees; bounds and classes are given, so that none are taken from the records."""
    from diffprivlib.models import RandomForestClassifier

    high = task["sizes"].astype(float) - 1
    return RandomForestClassifier(
        n_estimators=10,
        epsilon=epsilon,
        bounds=(np.zeros_like(high), high),
        classes=np.arange(int(task["n_classes"])),
        shuffle=True,
        random_state=seed,
    )


def explainable_boosting(task, epsilon, seed):
    """DP-EBM at (epsilon, 1e-6): ordered codes as numbers with public bounds, others by name."""
    from interpret.privacy import DPExplainableBoostingClassifier

    kinds = ["continuous" if flag else "nominal" for flag in task["ordered"]]
    bounds = {i: (0.0, float(s) - 1) for i, s in enumerate(task["sizes"]) if task["ordered"][i]}
    return DPExplainableBoostingClassifier(
        feature_types=kinds,
        epsilon=epsilon,
        delta=1e-6,
        privacy_bounds=bounds,
        n_jobs=1,
        random_state=seed,
    )


METHODS = {"diffprivlib": diffprivlib_forest, "DP-EBM": explainable_boosting}


def shares_of(task, make):
    """Fit once for each budget and seed; return the shares of every test record."""
    train, test = task["train"], task["test"]
    X, y = task["codes"].astype(float), task["labels"]
    found = np.zeros((len(task["seeds"]), len(test), int(task["n_classes"])))
    for i, (epsilon, seed) in enumerate(zip(task["epsilons"], task["seeds"])):  # noqa: B905
        model = make(task, float(epsilon), int(seed)).fit(X[train], y[train])
        found[i][:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X[test])
    return found


if __name__ == "__main__":
    given, wanted, method = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given) as arrays:
        read = dict(arrays)
    np.savez(wanted, shares=shares_of(read, METHODS[method]))
