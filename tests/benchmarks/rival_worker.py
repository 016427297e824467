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
    """DP-EBM at (epsilon, 1e-6), codes taken for names."""
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        feature_types=["nominal"] * features(task, "DP-EBM").shape[1],
        epsilon=epsilon,
        delta=1e-6,
        n_jobs=1,
        random_state=seed,
    )


def one_hot_boosting(task, epsilon, seed):
    """DP-EBM over one feature a code, which its few splits a round serve better."""
    width = features(task, "DP-EBM, one-hot").shape[1]
    return explainable_boosting(task, epsilon, seed).set_params(feature_types=["nominal"] * width)


METHODS = {
    "diffprivlib": diffprivlib_forest,
    "DP-EBM": explainable_boosting,
    "DP-EBM, one-hot": one_hot_boosting,
}


def features(task, method):
    """Return what the method sees: the codes, or one 0/1 column a code (one for two codes)."""
    codes = task["codes"].astype(float)
    if method != "DP-EBM, one-hot":
        return codes
    columns = [
        codes[:, [i]] == np.arange(size)[1 if size == 2 else 0 :]
        for i, size in enumerate(task["sizes"])
    ]
    return np.concatenate(columns, axis=1).astype(float)


def shares_of(task, method):
    """Fit once for each budget and seed; return the shares of every test record."""
    X, y, train, test = features(task, method), task["labels"], task["train"], task["test"]
    found = np.zeros((len(task["seeds"]), len(test), int(task["n_classes"])))
    for i, (epsilon, seed) in enumerate(zip(task["epsilons"], task["seeds"])):  # noqa: B905
        model = METHODS[method](task, float(epsilon), int(seed)).fit(X[train], y[train])
        found[i][:, np.asarray(model.classes_, dtype=int)] = model.predict_proba(X[test])
    return found


if __name__ == "__main__":
    given, wanted, method = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given) as arrays:
        read = dict(arrays)
    np.savez(wanted, shares=shares_of(read, method))
