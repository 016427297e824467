"""Plans of parties: what they promise is what a run gives, and classifiers follow from it."""

import json

import numpy as np
import pytest
from command_line import run

pytest.importorskip("cryptography")


from mrf_matrix import MatrixForestClassifier, load_dataset, plan
from mrf_matrix.estimators import PosteriorForestClassifier, PrivateNaiveBayesClassifier
from mrf_matrix.federated import CoarseStrategyError, Network, run_federation
from mrf_matrix.mechanisms import DiscreteLaplace, count_cells
from mrf_matrix.planning import FederatedPlan

CAR = load_dataset("car")
CODES, LABELS = CAR.domain.encode(CAR.X), CAR.domain.encode_target(CAR.y)
OWNERS = np.random.default_rng(0).integers(6, size=len(CODES))
FOREST = {"n_trees": 4, "max_depth": 2, "strategy": "identity", "random_state": 0}
BLOCKS = {"n_blocks": 3, "random_state": 0}
PARTIES = {"parties": 6, "dropouts": 2}
CLASSIFIERS = {
    "matrix": lambda **told: MatrixForestClassifier(CAR.domain, **FOREST, **told),
    "tables": lambda **told: PosteriorForestClassifier(CAR.domain, **BLOCKS, **told),
    "naive_bayes": lambda **told: PrivateNaiveBayesClassifier(CAR.domain, **told),
}


class Mine(DiscreteLaplace):
    """A law of somebody else."""


def planned(kind, *, forest=FOREST, **told):
    design = {"tables": BLOCKS, "naive_bayes": {}}.get(kind, forest)
    return plan(CAR.domain, kind, **design, **told)


def tables(features=tuple(range(6))):
    """Each party's counts over some attributes."""
    sizes = tuple(CAR.domain.sizes[i] for i in features)
    return [
        count_cells(CODES[i == OWNERS][:, features], LABELS[i == OWNERS], sizes, 4)
        for i in range(6)
    ]


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.5}], ids=["pure", "zcdp"])
@pytest.mark.parametrize("kind", ["matrix", "batch", "subsample", "tables"])
def test_errors_are_those_of_one_party_by_the_variance_of_the_law(kind, budget):
    """No excess is removed: k shares of which s make up the law."""
    alone, shared = planned(kind, **budget), planned(kind, **budget, **PARTIES, colluders=1)
    assert isinstance(shared, FederatedPlan)
    (design,) = shared.designs
    assert shared.budget == alone.budget
    tolerance = 1e-9 if "epsilon" in budget else 0.02  # shares of Gaussians cover their sum
    assert shared.total == pytest.approx(alone.total * 6 / 3, rel=tolerance)
    fewest = shared.contributed_by(4)
    assert fewest.total == pytest.approx(alone.total * 4 / 3, rel=tolerance)
    assert fewest.parts[0].mechanism.law == design.law(4)
    with pytest.raises(ValueError, match="contributors=3"):
        shared.contributed_by(3)
    doubled = {name: 2 * amount for name, amount in budget.items()}
    expected = planned(kind, **doubled, **PARTIES, colluders=1).total
    assert shared.at(**doubled).total == pytest.approx(expected)


def test_removal_of_the_excess_is_promised():
    alone, shared = planned("matrix"), planned("matrix", **PARTIES, remove_excess=True)
    assert shared.total == pytest.approx(alone.total)
    assert len(shared.rounds) == 2


@pytest.mark.parametrize("remove_excess", [False, True])
def test_what_is_planned_is_what_a_run_sends_and_releases(remove_excess):
    made = planned("matrix", **PARTIES, remove_excess=remove_excess)
    found = run_federation(made.designs[0], tables())
    for one in made.rounds[0]:
        assert found.bytes_up[one.round] == one.to_server
        assert found.bytes_down[one.round] == one.to_party
    assert found.release.law == made.parts[0].mechanism.law
    figures = json.loads(json.dumps(made.to_dict()))["parties"]
    sums = 2 if remove_excess else 1
    assert figures["bytes_from_a_party"] == sums * sum(found.bytes_up.values())
    with pytest.raises(TypeError, match="run_federation"):
        made.release(tables()[:1], noise="exact")


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_without_noise_classifiers_of_parties_are_the_central_ones(kind):
    endless = {"epsilon": float("inf")}
    made = planned(kind, **endless, **PARTIES)
    found = run_federation(made.designs[0], tables()).release
    federated = CLASSIFIERS[kind](**endless).fit_release(made, found)
    central = CLASSIFIERS[kind](**endless).fit(CAR.X, CAR.y)
    assert np.array_equal(federated.predict_proba(CAR.X), central.predict_proba(CAR.X))
    assert federated.privacy_report_.noise == "none"


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classifiers_know_the_law_of_those_who_stayed(kind):
    made = planned(kind, **PARTIES)
    found = run_federation(made.designs[0], tables(), network=Network({1: "masked"}))
    model = CLASSIFIERS[kind]().fit_release(made, found.release)
    assert model.plan_.parts[0].mechanism.law == made.designs[0].law(5)
    assert model.privacy_report_.noise == "shares"
    assert "conditional on at least 4 parties" in model.privacy_report_.statement
    assert model.score(CAR.X, CAR.y) > 0.5


def test_every_ensemble_has_its_own_sum():
    several = {**FOREST, "n_ensembles": 2, "max_features": 3}
    made = planned("matrix", forest=several, **PARTIES)
    found = [
        run_federation(design, tables(part.ensemble.features)).release
        for design, part in zip(made.designs, made.parts, strict=True)
    ]
    model = MatrixForestClassifier(CAR.domain, **several).fit_release(made, *found)
    assert len(model.ensembles_) == 2
    assert "at least 4 parties of 6" in model.privacy_report_.statement
    with pytest.raises(ValueError, match="another strategy"):
        model.fit_release(made, found[1], found[0])


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"epsilon": 2}, "budget"), ({"neighboring": "replace_one"}, "neighboring")],
)
def test_releases_of_other_plans_are_refused(changes, told):
    made = planned("naive_bayes", **PARTIES)
    found = run_federation(made.designs[0], tables()).release
    with pytest.raises(ValueError, match=told):
        PrivateNaiveBayesClassifier(CAR.domain, **changes).fit_release(made, found)
    with pytest.raises(ValueError, match="another strategy, budget"):
        planned("naive_bayes", **changes, **PARTIES).measured([found])
    with pytest.raises(ValueError, match="kind"):
        PosteriorForestClassifier(CAR.domain).fit_release(made, found)


@pytest.mark.parametrize(
    ("kind", "told", "expected"),
    [
        ("matrix", {"dropouts": 1}, "without parties"),
        ("matrix", {"parties": 3, "dropouts": 3}, "nobody's noise"),
        ("matrix", {"parties": 3, "rho": 1, "remove_excess": True}, "zCDP"),
        ("matrix", {"parties": 3, "law": Mine}, "law=Mine: parties share proved noise only"),
        ("subsample", {"parties": 3, "voting": "hard"}, "do not add up"),
    ],
)
def test_plans_that_no_parties_can_run_are_refused(kind, told, expected):
    with pytest.raises(ValueError, match=expected):
        planned(kind, **told)


def test_plans_of_one_curator_are_not_fitted_from():
    with pytest.raises(TypeError, match=r"expected that of plan\(\.\.\., parties=\)"):
        PrivateNaiveBayesClassifier(CAR.domain).fit_release(planned("naive_bayes"))


def test_shares_of_a_budget_too_small_for_them_are_refused():
    with pytest.raises(CoarseStrategyError, match="larger epsilon"):
        planned("naive_bayes", epsilon=1e-3, **PARTIES)


@pytest.mark.parametrize("epsilon", [0.5, 0.05])
def test_tables_of_blocks_take_lighter_weights_where_shares_need_them(epsilon):
    """Weights of a thousand would need noise that no party can share; a few digits do."""
    alone, shared = (planned("tables", epsilon=epsilon, **told) for told in ({}, PARTIES))
    assert shared.designs[0].central.law.scale <= 4096 < alone.parts[0].mechanism.law.scale
    assert shared.total == pytest.approx(alone.total * 6 / 4, rel=0.05)
    assert shared.at(epsilon=0.1).total == pytest.approx(
        alone.at(epsilon=0.1).total * 1.5, rel=0.05
    )
    found = run_federation(shared.designs[0], tables()).release
    model = PosteriorForestClassifier(CAR.domain, epsilon=epsilon, **BLOCKS)
    assert model.fit_release(shared, found).measurement_.weights[0] < 1000


def test_the_command_line_plans_for_parties(tmp_path):
    short = ["--n-trees", "4", "--max-depth", "2", "--strategy", "identity"]
    told = ["--parties", "6", "--dropouts", "2", "--no-pictures", "--output", str(tmp_path)]
    done = run("plan", "car", *short, *told)
    assert done.exit_code == 0, done.output
    for text in ("a party sends", "a party receives", "rms if 4"):
        assert text in done.output
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored["parties"]["dropouts"] == 2
