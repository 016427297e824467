"""The rival benchmark's own parts: calibration error, splits, codes, and a file that grows."""

import numpy as np
import pytest
from rival_data import NAMES, load, split
from rival_methods import DELTA, OURS, design
from rival_scores import read, summary, table
from rival_tables import averages, comparison, defeats
from test_rivals import check, study

from mrf_matrix import ZCDP, Domain


def test_summary_counts_splits_not_draws():
    runs = [
        {"split": s, "seed": 1000 * s + d, "accuracy": 0.5 + 0.1 * s, "ece": 0.0}
        for s in range(2)
        for d in range(3)
    ]
    found = summary(runs)
    assert found["mean"] == pytest.approx(0.55)
    assert found["se"] == pytest.approx(0.05)
    assert summary(runs[:1])["se"] is None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("at_hand")
def test_codes_lie_in_the_domain_and_splits_part_the_records(name):
    data = load(name)
    assert (data.codes.max(axis=0) < data.domain.sizes).all()
    assert data.ordered.shape == (data.domain.n_attributes,)
    train, test = split(data, 3)
    assert len(test) == len(data.labels) // 5
    np.testing.assert_array_equal(np.sort(np.r_[train, test]), np.arange(len(data.labels)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("at_hand")
def test_no_tree_of_theirs_is_a_table_of_cells(name):
    """A tree that fixes all it sees only looks cells up: a handicap to the paper's method."""
    domain = load(name).domain
    asked = design(domain, 0)
    assert asked["max_depth"] < (asked["max_features"] or domain.n_attributes)


@pytest.mark.parametrize("method", [name for name in OURS if name.startswith("posterior")])
def test_posterior_forests_are_pluggable(method):
    """The factory's contract: a seed settles everything, and an ε is an ε, or an ε at `DELTA`."""
    domain = Domain.from_sizes([3, 2, 4], n_classes=2)
    rng = np.random.default_rng(0)
    codes = rng.integers(0, domain.sizes, size=(300, 3))
    labels = (codes[:, 0] == 0).astype(int)
    first, again = (
        OURS[method](domain, 1.0, 300, 1000).fit(codes, labels).predict_proba(codes)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, again)
    assert first.shape == (300, 2)
    other = OURS[method](domain, 1.0, 300, 1001).fit(codes, labels).predict_proba(codes)
    assert not np.array_equal(first, other)  # negative control: another seed, other noise
    model = OURS[method](domain, 1.0, 300, 1000)
    if model.rho is not None:
        assert model.epsilon is None
        assert ZCDP(model.rho).epsilon(DELTA) == pytest.approx(1.0, rel=1e-2)
    else:
        assert model.epsilon == 1.0
    assert model.n_records == (None if "not public" in method else 300)


@pytest.mark.usefixtures("shared_dir")
def test_a9a_sets_one_feature_for_each_known_attribute():
    data = load("a9a")
    assert data.codes.shape[1] == 123
    assert data.codes.sum(axis=1).max() == 14


def test_a_study_adds_to_its_file(tmp_path):
    path = tmp_path / "rivals.json"
    for method in ("majority class", "private naive Bayes"):
        study("iris", path, [method], runs=(1, 1))
    kept = read(path)
    assert set(kept["iris"]["private naive Bayes"]) == {"0.1", "0.5", "1", "2"}
    assert kept["iris"]["majority class"]["inf"]["seeds"] == [0]
    assert table(kept).row_count == table(kept, "ece").row_count == 2


def recorded(majority, **means):
    """Return one data set's record: a method's mean accuracies at the four budgets."""
    found = {"majority class": {"inf": {"mean": majority}}}
    found["ExtraTrees, no privacy"] = {"inf": {"mean": 0.99}}
    for method, figures in means.items():
        by_budget = zip(("0.1", "0.5", "1", "2"), figures, strict=True)
        name = method.replace("_", " ").replace("MRF", "M-RF")
        found[name] = {e: {"mean": mean, "se": 0.01, "ece": 0.1} for e, mean in by_budget}
    return found


def test_tables_and_averages_show_the_better_variant_and_where_we_lose():
    ours, ahead = (0.5, 0.6, 0.7, 0.8), (0.4, 0.7, 0.6, 0.7)
    rivals = {"MRF_training": (0.1,) * 4, "MRF_prediction": ahead, "diffprivlib": (0.2,) * 4}
    found = recorded(0.55, posterior_forest=ours, private_naive_Bayes=(0.3,) * 4, **rivals)
    kept = {"car": found, "iris": found, "heart": {}}
    assert comparison(kept).splitlines()[2] == (
        "| Car (.550) | **.500 .600 .700 .800** | 0.010 | .400 .700 .600 .700 "
        "| .200 .200 .200 .200 | .300 .300 .300 .300 |  |  |"
    )
    assert "best pure-DP rival of each set and ε .400 .700 .600 .700" in averages(kept)
    assert averages(kept).startswith("Averages over 2 sets:")
    assert defeats({"car": found}).splitlines() == [
        "Car, ε = 0.5: M-RF is ahead by 10.0 points (± 1.0)",
        "Car, ε = 0.1: the majority class is ahead by 5.0 points (± 1.0)",
    ]


@pytest.mark.parametrize("figures", [(0.5, 0.6, 0.7, 0.8), (0.9, 0.8, 0.8, 0.8)])
def test_a_method_that_learns_nothing_fails_the_check(figures):
    """Negative controls: no better than the majority class at ε = 1, or worse for more budget."""
    check(recorded(0.7, posterior_forest=(0.71, 0.75, 0.78, 0.8), diffprivlib=(0.66,) * 4))
    with pytest.raises(AssertionError, match="posterior"):
        check(recorded(0.7, posterior_forest=figures))
