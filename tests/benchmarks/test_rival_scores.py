"""The rival benchmark's own parts: calibration error, splits, codes, and a file that grows."""

import json
from pathlib import Path

import numpy as np
import pytest
import rival_environments
from rival_data import NAMES, load, split
from rival_methods import DELTA, FOREIGN, OURS, design
from rival_private import BEST_PURE, EBM, mean_over, private_tables
from rival_runs import score
from rival_scores import mean_of, read, summary, table
from rival_sets import BINARY
from rival_tables import averages, comparison, defeats, majority, shown
from test_rivals import check, study

from mrf_matrix import Domain
from mrf_matrix.study.calibration import METRICS

RECORDS = Path(__file__).with_name("rivals.json")
README = Path(__file__).resolve().parents[2] / "README.md"
README_ROWS = {
    "private forest": ("private forest",),
    "posterior forest": ("posterior forest",),
    "the best pure-DP rival of each set and ε, known afterwards": BEST_PURE,
    "private naive Bayes": ("private naive Bayes",),
    "diffprivlib's logistic regression": ("diffprivlib logistic regression",),
    "diffprivlib's random forest": ("diffprivlib forest",),
    "private forest at (ε, 10⁻⁶)": ("private forest, δ",),
    "DP-EBM (interpret) at (ε, 10⁻⁶)": EBM,
}
FIGURES = dict.fromkeys(METRICS, 0.25) | {"auc": None}


def test_summary_counts_splits_not_draws():
    runs = [
        FIGURES | {"split": s, "seconds": 1.0, "accuracy": 0.5 + 0.1 * s}
        for s in range(2)
        for _ in range(3)
    ]
    found = summary(runs)
    assert found["mean"] == pytest.approx(0.55)
    assert found["se"] == pytest.approx(0.05)
    assert summary(runs[:1])["se"] is None
    assert mean_of(found, "brier") == 0.25
    assert np.isnan(mean_of(found, "auc"))


def test_a_rival_that_gives_no_shares_is_scored_by_equal_ones():
    truth = np.array([0, 1, 1])
    shares = np.array([[0.5, 0.5], [np.nan, 1.0], [0.0, 4.0]])
    found = score(shares, truth, 2, 0.5)
    assert found["accuracy"] == pytest.approx(2 / 3)  # the second one counts as class 0
    assert found["brier"] == pytest.approx((0.25 + 0.25) / 3)
    assert (found["split"], found["seconds"]) == (2, 0.5)


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
    assert (model.epsilon, model.delta) == (1.0, DELTA if method.endswith("δ") else 0)
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
    assert set(kept["iris"]["private naive Bayes"]) == {"0.1", "0.5", "1", "2", "4"}
    assert kept["iris"]["majority class"]["inf"]["split"] == [0]
    assert table(kept).row_count == table(kept, "calibration").row_count == 2
    only = ["majority class"]
    assert study("iris", path, only, runs=(2, 1)) == {}  # it is recorded
    again = study("iris", path, only, runs=(2, 1), again=True)
    assert read(path)["iris"] == kept["iris"] | again


def test_an_environment_is_made_only_where_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(rival_environments, "FOLDER", tmp_path)
    for method in FOREIGN:
        assert rival_environments.python_for(method, make=False) is None
    assert not list(tmp_path.iterdir())


def recorded(majority, **means):
    """Return one data set's record: a method's mean accuracies at the five budgets."""
    found = {"majority class": {"inf": {"mean": majority, "accuracy": [majority]}}}
    found["ExtraTrees, no privacy"] = {"inf": {"accuracy": [0.99]}}
    for method, figures in means.items():
        by_budget = zip(("0.1", "0.5", "1", "2", "4"), [*figures, figures[-1]], strict=True)
        name = method.replace("_", " ").replace("MRF", "M-RF")
        found[name] = {
            e: {key: [mean] for key in METRICS} | {"mean": mean, "se": 0.01}
            for e, mean in by_budget
        }
    return found


def test_tables_and_averages_show_the_better_variant_and_where_we_lose():
    ours, ahead = (0.5, 0.6, 0.7, 0.8), (0.4, 0.7, 0.6, 0.7)
    rivals = {"MRF_training": (0.1,) * 4, "MRF_prediction": ahead, "diffprivlib_forest": (0.2,) * 4}
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
    check(recorded(0.7, posterior_forest=(0.71, 0.75, 0.78, 0.8), diffprivlib_forest=(0.66,) * 4))
    with pytest.raises(AssertionError, match="posterior"):
        check(recorded(0.7, posterior_forest=figures))


def test_tables_of_the_private_forest_count_its_defeats():
    found = recorded(
        0.65,
        private_forest=(0.63, 0.70, 0.80, 0.90),
        posterior_forest=(0.65, 0.65, 0.85, 0.90),
        private_naive_Bayes=(0.6, 0.715, 0.80, 0.90),
        diffprivlib_tree=(0.5, 0.5, 0.815, 0.5),
    )
    told = private_tables({"tic_tac_toe": found})
    assert (
        "best pure-DP rival: 2 of 5 cells (Tic-tac-toe at 0.5, Tic-tac-toe at 1)\n"
        "the posterior forest, the same: 1 of 5 cells (Tic-tac-toe at 0.5)" in told
    )
    assert "N ε >= 20: 1 of 5 cells (Tic-tac-toe at 0.1)" in told  # 766 records
    assert "| best pure-DP rival of each set and ε | .600 .715 .815 .900 .900 |" in told
    quiet = found | {"private forest": found["posterior forest"]}
    assert "N ε >= 20: 0 of 5 cells (none)" in private_tables({"tic_tac_toe": quiet})


def test_the_means_on_readme_are_those_recorded():
    kept = json.loads(RECORDS.read_text("utf-8"))
    sets = {name: kept[name] for name in BINARY}
    expected = {
        row: shown(mean_over(sets, methods, "accuracy")) for row, methods in README_ROWS.items()
    }
    always = np.mean([majority(found) for found in sets.values()])
    expected["majority class"] = shown([always] * 5)
    table = README.read_text("utf-8").split("| ε | 0.1 | 0.5 | 1 | 2 | 4 |\n")[1].split("\n\n")[0]
    rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    assert {row: " ".join(cells) for row, *cells in rows[1:]} == expected
