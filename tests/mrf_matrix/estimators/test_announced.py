"""What a private forest would spend, known before any data: all of it, and what a fit takes."""

import json

import numpy as np
import pytest

from mrf_matrix import Domain, PrivateForestClassifier

CASES = {  # sizes, k, n, what is claimed: every kind, with the choices around it
    "table": ([3] * 6, 2, 432, {"epsilon": 0.9}),
    "tables": ([4] * 6, 4, 1728, {"epsilon": 1}),
    "tables, n unknown": ([4] * 6, 4, None, {"epsilon": 1}),
    "trusted tables": ([4] * 7, 4, 400_000, {"epsilon": 0.5, "delta": 1e-6}),
    "residuals": ([4] * 10, 2, 100_000, {"epsilon": 1}),
    "Gaussian residuals": ([5] * 8, 2, 20_000, {"epsilon": 1, "delta": 1e-6}),
    "labels": ([4] * 12, 2, 200, {"epsilon": 0.5}),
    "pool": ([4] * 16, 2, 2000, {"rho": 0.03}),
    "additive pool": ([4] * 20, 2, 8000, {"epsilon": 0.5, "neighboring": "add_remove"}),
    "screening": ([4] * 12, 2, 4000, {"epsilon": 0.01}),
    "gated screening": ([4] * 40, 2, 20_000, {"epsilon": 1, "neighboring": "replace_one"}),
    "no noise": ([3] * 4, 2, 100, {"epsilon": float("inf")}),
}


def unfitted(case, **changes):
    sizes, k, n, claim = CASES[case]
    public = Domain.from_sizes(sizes, n_classes=k)
    return PrivateForestClassifier(public, n_records=n, random_state=0, **claim, **changes)


@pytest.mark.parametrize("case", CASES)
def test_the_steps_add_up_to_the_whole_budget(case):
    plan = unfitted(case).plan()
    steps = plan.announced_steps
    if case != "no noise":
        assert sum(one.budget.exact for one in steps) == plan.budget.exact
        assert sum(one.share(plan.budget) for one in steps) == pytest.approx(1)
    if plan.balance is not None:
        assert steps[0].measured == plan.balance.measured
    record = [one.to_dict(plan.budget) for one in steps]
    assert json.loads(json.dumps(record)) == record
    assert plan.to_dict()["rule"]["worth"] == plan.rule.worth


@pytest.mark.parametrize(
    "case", ["table", "tables", "residuals", "labels", "pool", "additive pool"]
)
def test_a_fit_of_even_classes_takes_the_announced_steps(case):
    model = unfitted(case, noise="research", noise_state=0)
    rng = np.random.default_rng(0)
    n = model.n_records
    codes = np.stack([rng.integers(0, size, n) for size in model.domain.sizes], axis=1)
    labels = rng.permutation(np.arange(n) % model.domain.n_classes)
    steps = model.plan().announced_steps
    made = model.fit(codes, labels).privacy_report_.measurements
    assert [one.measured for one in made] == [one.measured for one in steps]
    assert [one.budget for one in made] == [repr(one.budget) for one in steps]
    assert [one.sensitivity for one in made] == pytest.approx([one.sensitivity for one in steps])


def test_without_a_domain_it_is_refused():
    with pytest.raises(ValueError, match="domain"):
        PrivateForestClassifier(epsilon=1).plan()
