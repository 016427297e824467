"""Run a rival under the interpreter that has it: ``python rival_worker.py IN.npz OUT.npz METHOD``.

IN holds ``codes``, ``labels``, ``train``, ``test``, ``sizes``, ``ordered``, ``n_classes``,
``epsilons`` and ``seeds`` (one fit for each); OUT gets ``shares``, (fits, test records, classes),
and ``seconds``, (fits,), of processor time in fit and predict. Needs NumPy and the rival only.
Ranges, norms and classes are given wherever a rival takes them, so that it reads none off the
records.
"""

import sys
import time
import warnings

import numpy as np

DELTA = 1e-6
TINY_DELTA = 1e-12
"""As pure as explainable boosting can be: it adds Gaussian noise, and asks for a positive δ."""


def bounds(task):
    """Return the least and the largest code of every attribute."""
    high = task["sizes"].astype(float) - 1
    return np.zeros_like(high), high


def classes(task):
    """Return the class codes."""
    return np.arange(int(task["n_classes"]))


def diffprivlib_forest(task, width, epsilon, seed):
    """Ten trees."""
    from diffprivlib.models import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=10,
        epsilon=epsilon,
        bounds=bounds(task),
        classes=classes(task),
        shuffle=True,
        random_state=seed,
    )


def diffprivlib_tree(task, width, epsilon, seed):
    """One tree of its usual depth."""
    from diffprivlib.models import DecisionTreeClassifier

    return DecisionTreeClassifier(
        epsilon=epsilon, bounds=bounds(task), classes=classes(task), random_state=seed
    )


def diffprivlib_bayes(task, width, epsilon, seed):
    """Normal laws of the codes within classes."""
    from diffprivlib.models import GaussianNB

    return GaussianNB(epsilon=epsilon, bounds=bounds(task), random_state=seed)


def diffprivlib_logistic(task, width, epsilon, seed):
    """Over one feature a code; a record has at most one of each attribute's."""
    from diffprivlib.models import LogisticRegression

    norm = float(np.sqrt(len(task["sizes"])))
    return LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)


def explainable_boosting(task, width, epsilon, seed, delta=DELTA):
    """DP-EBM at (epsilon, delta), codes taken for names."""
    from interpret.privacy import DPExplainableBoostingClassifier

    return DPExplainableBoostingClassifier(
        feature_types=["nominal"] * width,
        epsilon=epsilon,
        delta=delta,
        n_jobs=1,
        random_state=seed,
    )


def purest_boosting(task, width, epsilon, seed):
    """DP-EBM at the least δ that its calibration resolves."""
    return explainable_boosting(task, width, epsilon, seed, TINY_DELTA)


class SyntheticForest:
    """scikit-learn's random forest over as many synthetic records as there were true ones."""

    def __init__(self, epsilon, seed):
        self.epsilon, self.seed = epsilon, seed

    def fit(self, X, y):
        import pandas as pd
        from sklearn.ensemble import RandomForestClassifier
        from snsynth import Synthesizer

        np.random.seed(self.seed)  # noqa: NPY002 -- the synthesizers draw from this one
        names = [f"x{i}" for i in range(X.shape[1])] + ["y"]
        frame = pd.DataFrame(np.column_stack([X, y]).astype(int), columns=names).astype(str)
        maker = Synthesizer.create("mst", epsilon=self.epsilon, delta=DELTA)
        made = maker.fit_sample(frame, categorical_columns=names, preprocessor_eps=0.0)
        made = made.astype(int).to_numpy()
        model = RandomForestClassifier(n_estimators=128, random_state=self.seed)
        self.model = model.fit(made[:, :-1], made[:, -1])
        self.classes_ = self.model.classes_
        return self

    def predict_proba(self, X):
        return self.model.predict_proba(X)


def spanning_tree(task, width, epsilon, seed):
    """MST at (epsilon, 1e-6); categories are those of the records."""
    return SyntheticForest(epsilon, seed)


METHODS = {
    "diffprivlib forest": diffprivlib_forest,
    "diffprivlib tree": diffprivlib_tree,
    "diffprivlib naive Bayes": diffprivlib_bayes,
    "diffprivlib logistic regression": diffprivlib_logistic,
    "DP-EBM": explainable_boosting,
    "DP-EBM, one-hot": explainable_boosting,
    "DP-EBM, δ = 1e-12": purest_boosting,
    "MST + forest": spanning_tree,
}
ONE_HOT = ("DP-EBM, one-hot", "diffprivlib logistic regression")


def features(task, method):
    """Return what the method sees: the codes, or one 0/1 column a code (one for two codes)."""
    codes = task["codes"].astype(float)
    if method not in ONE_HOT:
        return codes
    columns = [
        codes[:, [i]] == np.arange(size)[1 if size == 2 else 0 :]
        for i, size in enumerate(task["sizes"])
    ]
    return np.concatenate(columns, axis=1).astype(float)


def runs_of(task, method):
    """Fit once for each budget and seed; return the shares of every test record, and seconds."""
    X, y, train, test = features(task, method), task["labels"], task["train"], task["test"]
    shares = np.zeros((len(task["seeds"]), len(test), int(task["n_classes"])))
    seconds = np.zeros(len(task["seeds"]))
    for i, (epsilon, seed) in enumerate(zip(task["epsilons"], task["seeds"])):  # noqa: B905
        model = METHODS[method](task, X.shape[1], float(epsilon), int(seed))
        begun = time.process_time()
        model.fit(X[train], y[train])
        found = model.predict_proba(X[test])
        seconds[i] = time.process_time() - begun
        shares[i][:, np.asarray(model.classes_, dtype=int)] = found
    return shares, seconds


if __name__ == "__main__":
    given, wanted, method = sys.argv[1:]
    warnings.simplefilter("ignore")
    with np.load(given) as arrays:
        read = dict(arrays)
    shares, seconds = runs_of(read, method)
    np.savez(wanted, shares=shares, seconds=seconds)
