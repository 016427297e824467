"""`peak_bytes(plan)` against the resident memory of whole fits, each in a process of its own.

Run ``python tests/benchmarks/test_peak_memory.py`` for the table of `SHAPES`, or with the numbers
of some of its lines. Measured is the rise of the resident memory from before the fit, the records
in place, to the end of the first predictions. The search for a strategy, which is over before a
plan is known, is measured with it.
"""

import subprocess
import sys

SHAPES = [  # classifier, attribute sizes, classes, records
    ("PosteriorForestClassifier", [900, 4], 2, 2000),
    ("PosteriorForestClassifier", [200] * 4, 50, 2000),
    ("PosteriorForestClassifier", [2] * 1200, 2, 2000),
    ("PrivateNaiveBayesClassifier", [200_000, 3000], 20, 20_000),
    ("PrivateNaiveBayesClassifier", [2] * 3000, 50, 2000),
    ("LabelTreeClassifier", [4] * 10, 50, 20_000),
    ("LabelTreeClassifier", [10] * 40, 10, 100_000),
    ("ResidualForestClassifier", [300] * 6, 2, 100_000),
    ("ResidualForestClassifier", [60] * 20, 5, 100_000),
    ("ResidualForestClassifier", [900, 4], 2, 20_000),
    ("PooledForestClassifier", [10] * 30, 10, 50_000),
    ("PrivateForestClassifier", [50] * 20, 2, 100_000),
    ("PrivateForestClassifier", [30] * 40, 5, 20_000),
    ("MatrixForestClassifier", [12] * 4, 2, 20_000),
    ("MatrixForestClassifier", [6] * 8, 2, 20_000),
    ("MatrixForestClassifier", [4] * 8, 50, 5000),
]


def taken(name, sizes, n_classes, n_records):
    """Return bytes foretold and held, and seconds foretold and of the processor once planned."""
    import time
    from resource import RUSAGE_SELF, getrusage

    import numpy as np

    import mrf_matrix
    from mrf_matrix import estimators
    from mrf_matrix.estimators import plan_fit
    from mrf_matrix.planning import peak_bytes
    from mrf_matrix.planning.plans.cost import release_seconds

    plans, check = [], plan_fit.check_cost
    plan_fit.check_cost = lambda plan, *more: (
        plans.append((plan, time.process_time())),
        check(plan, *more),
    )
    kind, noise = getattr(estimators, name), {"noise": "research", "noise_state": 0}
    trees = {"n_trees": 64, "time_limit": 1} if name == "MatrixForestClassifier" else {}
    rng = np.random.default_rng(0)

    def fitted(sizes, n_classes, codes, **more):
        domain = mrf_matrix.Domain.from_sizes(sizes, n_classes)
        model = kind(domain, epsilon=1, n_records=len(codes), **noise, **more)
        model.fit(codes, np.arange(len(codes)) % n_classes).predict(codes[:128])
        return model

    few = {"n_trees": 2, "max_depth": 1, "strategy": "identity"} if trees else {}
    fitted([2, 2], 2, np.zeros((9, 2), dtype=int), **few)  # whatever is loaded or cached once
    codes = np.empty((n_records, len(sizes)), dtype=np.int32)
    for place, size in enumerate(sizes):
        codes[:, place] = rng.integers(size, size=n_records, dtype=np.int32)
    plans.clear()
    before = getrusage(RUSAGE_SELF).ru_maxrss
    model = fitted(sizes, n_classes, codes, **trees)
    held, (plan, started) = 1024 * (getrusage(RUSAGE_SELF).ru_maxrss - before), plans[0]
    seconds = time.process_time() - started
    if name == "PooledForestClassifier":  # the first check seen here is that of a part
        plan = model.plan_
    return peak_bytes(plan), held, release_seconds(plan), seconds


def in_its_own_process(shape):
    """Return what `taken` returns."""
    words = [sys.executable, __file__, "--one", repr(shape)]
    return eval(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def test_peak_memory(benchmark):
    """Of two shapes; the table is printed by running the file."""

    def ratios():
        found = map(in_its_own_process, (SHAPES[1], SHAPES[7]))
        return [foretold / held for foretold, held, *_ in found]

    assert all(1 / 3 < one < 3 for one in benchmark.pedantic(ratios, rounds=1))


def main(places):
    print(
        "| classifier | sizes, classes, records | MiB foretold | held | seconds foretold | taken |"
    )
    for shape in [SHAPES[int(place)] for place in places] or SHAPES:
        name, sizes, *rest = shape
        short = str(sizes) if len(sizes) < 4 else f"[{sizes[0]}] * {len(sizes)}"
        foretold, held, expected, seconds = in_its_own_process(shape)
        print(
            f"| {name} | {short}, {rest[0]}, {rest[1]} | {foretold / 2**20:.0f} | "
            f"{held / 2**20:.0f} | {expected:.1f} | {seconds:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(taken(*eval(sys.argv[2])))
    else:
        main(sys.argv[1:])
